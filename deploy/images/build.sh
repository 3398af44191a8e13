#!/usr/bin/env bash
# build.sh [IMAGE...]: builds dllm-stack's images, by default all, with docker, podman or buildah.
#   REGISTRY=registry.example/team  a prefix of their names
#   TAG=0.1.0                       by default the version in pyproject.toml
#   BUILDER=podman                  by default the first of the three that there is
#   BUILD_ARGS="--build-arg PIP_INDEX_URL=..."
set -euo pipefail
cd "$(dirname "$0")/../.."

# Image, Dockerfile, base (if not the Dockerfile's own).
images() {
  cat <<'END'
dllm-stack                   gateway
dllm-stack-worker            worker
dllm-stack-worker-rocm       worker      docker.io/lmsysorg/sglang:v0.5.17-rocm720-mi30x
dllm-stack-worker-rocm-mi35x worker      docker.io/lmsysorg/sglang:v0.5.17-rocm720-mi35x
dllm-stack-worker-cpu        worker-cpu
END
}

fail() {
  echo "build: $*" >&2
  exit 1
}

builder=${BUILDER:-}
for each in docker podman buildah; do
  [[ -n $builder ]] || ! command -v "$each" >/dev/null || builder=$each
done
[[ -n $builder ]] || fail "there is neither docker, podman nor buildah here"

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
tag=${TAG:-$version}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
[[ $revision == unknown || -z $(git status --porcelain) ]] || revision+=-dirty
source=$(git remote get-url origin 2>/dev/null || echo unknown)

all=$(images | awk '{print $1}')
for name in ${*:-$all}; do
  read -r _ file base < <(images | awk -v name="$name" '$1 == name') || fail "there is no image $name: choose" $all
  echo "build: ${REGISTRY:+$REGISTRY/}$name:$tag"
  # shellcheck disable=SC2086
  "$builder" build --file "deploy/images/$file.Dockerfile" --tag "${REGISTRY:+$REGISTRY/}$name:$tag" \
    --build-arg VERSION="$version" --build-arg REVISION="$revision" --build-arg SOURCE="$source" \
    ${base:+--build-arg BASE="$base"} ${BUILD_ARGS:-} .
done
