#!/usr/bin/env bash
# chromium.sh VENV: VENV/bin/chromium, for the tests of the page. It is the machine's own Chromium or Chrome, or else
# Debian's without its windows, unpacked inside VENV (70 MB to fetch, 300 MB on disk).
set -euo pipefail
venv=$1
own=(chromium-headless-shell chromium google-chrome google-chrome-stable "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")

fail() {
  echo "setup: $*; the tests need Chromium or Chrome: install it (Debian: apt-get install chromium, macOS: brew install --cask google-chrome) and try again" >&2
  exit 1
}

use() { # BINARY [LIBRARIES FONTS]
  cat >"$venv/bin/chromium.new" <<END
#!/usr/bin/env bash
${2:+export LD_LIBRARY_PATH='$2'}
${3:+export FONTCONFIG_FILE='$3'}
exec '$1' "\$@"
END
  chmod +x "$venv/bin/chromium.new"
  "$venv/bin/chromium.new" --version >/dev/null && mv "$venv/bin/chromium.new" "$venv/bin/chromium"
}

# Snap's sees neither every folder nor every user.
for name in "${own[@]}"; do
  if binary=$(command -v "$name") && ! [[ $binary -ef $venv/bin/chromium || $(readlink -f "$binary") == */snap* ]] &&
    use "$binary"; then
    exit
  fi
done

echo "setup: Debian's chromium-headless-shell, for the tests"
root=$venv/chromium
"${BASH_SOURCE%/*}/debian.sh" "$root" chromium-headless-shell fonts-dejavu-core || fail "there is no Chromium here, and none to be had"
root=$(cd "$root" && pwd)
libraries=$(find "$root" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :)
# Where nothing is installed, there is no configuration of fonts either.
cat >"$root/fonts.conf" <<END
<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>$root/usr/share/fonts</dir>
  <cachedir>$root/fonts-cache</cachedir>
</fontconfig>
END
use "$root/usr/lib/chromium/chromium-headless-shell" "$libraries" "$root/fonts.conf" || fail "Debian's chromium does not start here"
