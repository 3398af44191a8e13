#!/usr/bin/env bash
# debian.sh ROOT PACKAGE...: Debian's packages, and what they need that is not on this machine, unpacked into ROOT.
# Needs no root: nothing is installed, and no service starts. On stderr is what apt-get says when it fails.
set -euo pipefail
root=$1
shift

command -v apt-get >/dev/null && command -v dpkg >/dev/null || {
  echo "there is no apt-get here" >&2
  exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt downloads as a user of its own
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
apt() {
  apt-get -qq -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o Debug::NoLocking=1 "$@" \
    >"$work/log" 2>&1 && return
  cat "$work/log" >&2
  exit 1
}
apt update
apt install --download-only --reinstall --yes --no-install-recommends "$@"

rm -rf "$root"
for package in "$work"/cache/archives/*.deb; do
  dpkg -x "$package" "$root"
done
