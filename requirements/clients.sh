#!/usr/bin/env bash
# clients.sh PYTHON KIND FOLDER: other people's clients of the API, apart from the stack's own packages: what
# clients/KIND.txt lists for pip, and clients/KIND.npm for npm. Without npm the second part is left out.
set -euo pipefail
python=$1 kind=$2 folder=$3
lists=$(cd "$(dirname "$0")" && pwd)/clients

rm -rf "$folder"
echo "setup: clients, $kind"
"$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$lists/$kind.txt"

[[ -e $lists/$kind.npm ]] || exit 0
if ! command -v npm >/dev/null; then
  echo "setup: no npm here, so only the clients in Python" >&2
  exit 0
fi
# Some ask for a newer Node.js than they need.
xargs npm install --silent --no-save --no-package-lock --no-audit --no-fund --prefix "$folder" <"$lists/$kind.npm"
