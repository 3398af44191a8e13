#!/usr/bin/env bash
# redis_server.sh VENV: VENV/bin/redis-server, of version 7 or later, for the tests. The machine's own if it
# has one; otherwise Debian's, unpacked inside VENV: nothing is installed, and no service starts.
set -euo pipefail
venv=$1

fail() {
  echo "setup: $*; the tests need redis-server 7 or later: install it (Debian: apt-get install redis-server, macOS: brew install redis) and try again" >&2
  exit 1
}

major() { "$1" --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p'; }

if own=$(command -v redis-server) && [[ $(major "$own") -ge 7 ]]; then
  ln -sf "$own" "$venv/bin/redis-server"
  exit
fi
command -v apt-get dpkg >/dev/null || fail "there is no redis-server 7 here, and no apt-get to get one with"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt downloads as a user of its own
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
apt() {
  apt-get -qq -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" -o Debug::NoLocking=1 "$@" \
    >"$work/log" 2>&1 && return
  cat "$work/log" >&2
  fail "apt-get could not get redis-tools"
}
echo "setup: redis-server, from Debian's redis-tools, for the tests"
apt update
# redis-tools holds the server too: redis-server is another name of its redis-check-rdb.
apt install --download-only --reinstall --yes --no-install-recommends redis-tools

root=$venv/redis-server
rm -rf "$root"
for package in "$work"/cache/archives/*.deb; do
  dpkg -x "$package" "$root"
done
root=$(cd "$root" && pwd)
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
cat >"$work/redis-server" <<END
#!/usr/bin/env bash
export LD_LIBRARY_PATH=$libraries
exec -a redis-server '$root/usr/bin/redis-check-rdb' "\$@"
END
chmod +x "$work/redis-server"
[[ $(major "$work/redis-server") -ge 7 ]] || fail "Debian's redis-server here does not start, or is older"
mv "$work/redis-server" "$venv/bin/redis-server"
