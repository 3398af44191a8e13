#!/usr/bin/env bash
# prometheus.sh VENV: prometheus, promtool, alertmanager, amtool and redis_exporter in VENV/bin, for `up
# --with-monitoring` and the tests of rules. They are the machine's own, or else Debian's, unpacked inside VENV.
set -euo pipefail
venv=$1
# What it is called here, and on a machine that has Debian's packages.
names=(prometheus:prometheus promtool:promtool alertmanager:prometheus-alertmanager amtool:amtool
  redis_exporter:prometheus-redis-exporter)
packages=(prometheus prometheus-alertmanager prometheus-redis-exporter)

fail() {
  echo "setup: $*; install prometheus, alertmanager and redis_exporter (Debian: apt-get install ${packages[*]}) and try again" >&2
  exit 1
}

use() { # NAME BINARY
  "$2" --version >/dev/null 2>&1 || return 1
  ln -sfn "$2" "$venv/bin/$1"
}

own() { # NAME DEBIAN'S NAME
  local binary
  for name in "$@"; do
    binary=$(command -v "$name") && ! [[ $binary -ef $venv/bin/$1 ]] && use "$1" "$binary" && return
  done
  return 1
}

missing=()
for pair in "${names[@]}"; do
  own "${pair%:*}" "${pair#*:}" || missing+=("$pair")
done
((${#missing[@]})) || exit 0

echo "setup: prometheus, alertmanager and redis_exporter, from Debian"
root=$venv/prometheus
"$(dirname "$0")/debian.sh" "$root" "${packages[@]}" || fail "Debian's packages could not be had"
root=$(cd "$root" && pwd)
for pair in "${missing[@]}"; do
  use "${pair%:*}" "$root/usr/bin/${pair#*:}" || fail "Debian's ${pair#*:} does not start"
done
