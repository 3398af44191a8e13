#!/usr/bin/env bash
# debian.sh FOLDER PACKAGE...: these packages of Debian, without what they depend on, unpacked into FOLDER by anybody:
# nothing is installed, and no service starts.
set -euo pipefail
folder=$1
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
  (cd "$work" && apt-get -qq -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o Debug::NoLocking=1 "$@") \
    >"$work/log" 2>&1 && return
  cat "$work/log" >&2
  exit 1
}
apt update
apt download "$@"
rm -rf "$folder"
for package in "$work"/*.deb; do
  dpkg -x "$package" "$folder"
done
