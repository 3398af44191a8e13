#!/usr/bin/env bash
# peers.sh PYTHON VENV: other projects' gateways into VENV, those that can be had: PyPI's as pinned in peers.txt, and
# Debian's nginx, unpacked into VENV/nginx. What cannot be installed is named, and stops nothing; VENV/.installed is
# there afterwards if nothing was missing.
set -euo pipefail
python=$1 venv=$2
here=${BASH_SOURCE%/*}

rm -f "$venv/.installed"
complete=yes
lacks() {
  echo "peers: $1 cannot be installed" >&2
  complete=no
}
"$python" -m venv "$venv"
install() { # with bytecode, whatever the environment says: one of them imports what it needs while it serves
  env -u PYTHONDONTWRITEBYTECODE "$venv/bin/pip" install --quiet --disable-pip-version-check --compile "$@"
}
if ! install --requirement "$here/peers.txt"; then
  while read -r pin; do
    install "$pin" || lacks "$pin"
  done <"$here/peers.txt"
fi

if nginx=$(command -v nginx); then
  mkdir -p "$venv/nginx/usr/sbin"
  ln -sfn "$nginx" "$venv/nginx/usr/sbin/nginx"
elif ! "$here/../requirements/debian.sh" "$venv/nginx" nginx; then
  lacks nginx
fi
if [ "$complete" = yes ]; then
  touch "$venv/.installed"
fi
