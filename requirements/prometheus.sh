#!/usr/bin/env bash
# prometheus.sh VENV: prometheus, promtool, alertmanager, amtool and redis_exporter in VENV/bin, for `dllm-stack up
# --with-monitoring` and the tests of the rules. They are the machine's own, or else Debian's (50 MB to fetch, 180 MB
# on disk), of which only the binaries are kept.
set -euo pipefail
venv=$1
# What it is called here, and where Debian has installed it.
names=(prometheus:prometheus promtool:promtool alertmanager:prometheus-alertmanager amtool:amtool
  redis_exporter:prometheus-redis-exporter)
packages=(prometheus prometheus-alertmanager prometheus-redis-exporter)

fail() {
  echo "setup: $*; install prometheus, alertmanager and redis_exporter (Debian: apt-get install ${packages[*]}, macOS: brew install prometheus alertmanager redis_exporter) and try again" >&2
  exit 1
}

own() { # NAME DEBIAN'S NAME
  local name binary
  for name in "$@"; do
    if binary=$(command -v "$name") && ! [[ $binary -ef $venv/bin/$1 ]] && "$binary" --version >/dev/null 2>&1; then
      ln -sfn "$binary" "$venv/bin/$1"
      return
    fi
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
trap 'rm -rf "$root"' EXIT
"${BASH_SOURCE%/*}/debian.sh" "$root" "${packages[@]}" || fail "there is no ${missing[0]%:*} here, and none to be had"
for pair in "${missing[@]}"; do
  binary=$root/usr/bin/${pair#*:}
  "$binary" --version >/dev/null 2>&1 || fail "Debian's ${pair#*:} does not start"
  mv -f "$binary" "$venv/bin/${pair%:*}"
done

# Debian's Alertmanager looks for its templates where only root can put them: let it look beside itself. The new path is
# as long as the old one, as it is in the middle of a binary.
[[ " ${missing[*]} " == *" alertmanager:"* ]] || exit 0
home=$venv/alertmanager
rm -rf "$home"
mkdir "$home"
mv "$venv/bin/alertmanager" "$home/alertmanager"
mv "$root/usr/share/prometheus/alertmanager" "$home/templates"
printf -v templates '%-34s' templates
LC_ALL=C sed -i "s|/usr/share/prometheus/alertmanager|${templates// //}|" "$home/alertmanager"
home=$(cd "$home" && pwd)
cat >"$venv/bin/alertmanager" <<END
#!/usr/bin/env bash
cd '$home' && exec ./alertmanager "\$@"
END
chmod +x "$venv/bin/alertmanager"
"$venv/bin/alertmanager" --version >/dev/null 2>&1 || fail "Debian's alertmanager does not start"
