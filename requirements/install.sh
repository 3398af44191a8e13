#!/usr/bin/env bash
# install.sh PYTHON VENV: an environment with the locked packages and this project, editable.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 venv=$2
lock=requirements/cpu.txt
log=$venv/install.log

fail() {
  echo "setup: $*" >&2
  exit 1
}

install() { # WHAT PIP_ARGUMENTS...
  local what=$1
  shift
  "$venv/bin/python" -m pip install --disable-pip-version-check --no-deps "$@" >"$log" 2>&1 && return
  if grep -q 'No matching distribution found for torch==' "$log"; then
    fail "pip cannot find $what: set PIP_EXTRA_INDEX_URL to the index of CPU wheels that PyTorch's 'Get Started' page names"
  fi
  tail -n 20 "$log" >&2
  fail "pip could not install $what; the whole of its output is in $log"
}

command -v "$python" >/dev/null ||
  fail "there is no $python; name a Python 3.11 or 3.12, as in: make setup PYTHON=python3.11"
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
[[ $version == 3.11 || $version == 3.12 ]] ||
  fail "$python is Python $version, and 3.11 or 3.12 is needed; name one, as in: make setup PYTHON=python3.11"

echo "setup 1/4: Python $version in $venv"
"$python" -m venv "$venv"

# First, because it is the one package that pip may need to be shown the way to.
torch=$(grep '^torch==' "$lock")
echo "setup 2/4: $torch"
install "$torch" "$torch"

echo "setup 3/4: the $(grep -c '^[^#]' "$lock") locked packages, a few minutes the first time"
install "$lock" -r "$lock"

# The build backend is in the lock, so that pip need not fetch one.
echo "setup 4/4: dllm-stack itself"
install "this project" --no-build-isolation --editable .
