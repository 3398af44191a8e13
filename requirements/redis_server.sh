#!/usr/bin/env bash
# redis_server.sh VENV: VENV/bin/redis-server, of version 7 or later, for the tests. It is the machine's own, or
# else Debian's, unpacked inside VENV.
set -euo pipefail
venv=$1

fail() {
  echo "setup: $*; the tests need redis-server 7 or later: install it (Debian: apt-get install redis-server, macOS: brew install redis) and try again" >&2
  exit 1
}

use() { # BINARY LIBRARIES
  cat >"$venv/bin/redis-server.new" <<END
#!/usr/bin/env bash
export LD_LIBRARY_PATH='$2'
exec -a redis-server '$1' "\$@"
END
  chmod +x "$venv/bin/redis-server.new"
  local version
  version=$("$venv/bin/redis-server.new" --version | sed -n 's/.* v=\([0-9]*\)\..*/\1/p')
  [[ $version -ge 7 ]] && mv "$venv/bin/redis-server.new" "$venv/bin/redis-server"
}

if own=$(command -v redis-server) && ! [[ $own -ef $venv/bin/redis-server ]] && use "$own" ''; then
  exit
fi

echo "setup: redis-server, from Debian's redis-tools, for the tests"
root=$venv/redis-server
# redis-tools holds the server too: redis-server is another name of its redis-check-rdb.
"${BASH_SOURCE%/*}/debian.sh" "$root" redis-tools || fail "there is no redis-server 7 here, and none to be had"
root=$(cd "$root" && pwd)
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
use "$root/usr/bin/redis-check-rdb" "$libraries" || fail "the redis-server of this Debian is older, or does not start"
