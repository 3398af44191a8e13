# A worker on GPUs, over SGLang's own image: NVIDIA's by default, AMD's by another BASE (deploy/images/build.sh has them).
#   docker build --file deploy/images/worker.Dockerfile --tag dllm-stack-worker:0.1.0 .
# Pinned to the version that was run on a GPU, by digest, as tags can move. It is the image with compilers in it: engines
# compile kernels when they start.
ARG BASE=docker.io/lmsysorg/sglang:v0.5.17@sha256:16aba8925507e631e1dc1e23d95d026533602591775f6a8db68b74ee99746155

FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_DISABLE_PIP_VERSION_CHECK=1
ARG PIP_NO_CACHE_DIR=1
ARG PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY requirements/ requirements/
RUN python3 -m venv /build \
    && grep -E '^(hatchling|packaging|pathspec|pluggy|trove-classifiers)==' requirements/cpu.txt >build.txt \
    && /build/bin/pip install --no-deps --requirement build.txt
COPY . .
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /own .

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_DISABLE_PIP_VERSION_CHECK=1
ARG PIP_NO_CACHE_DIR=1
ARG PIP_ROOT_USER_ACTION=ignore
ARG PIP_BREAK_SYSTEM_PACKAGES=1
LABEL org.opencontainers.image.title="dllm-stack-worker" \
      org.opencontainers.image.description="Worker of dllm-stack, which serves diffusion language models, with SGLang" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
# What SGLang's image has stays as SGLang wants it.
RUN --mount=type=bind,from=build,source=/own,target=/own \
    --mount=type=bind,from=build,source=/source,target=/source \
    python3 /source/deploy/images/install_missing.py /source/requirements/worker.txt \
    && python3 -m pip install --no-cache-dir --no-index --no-deps /own/*.whl
# USER: the uid has no entry in /etc/passwd, and PyTorch before 2.13 fails without a name for the folder of what it compiles.
ENV HOME=/tmp \
    USER=dllm \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["dllm-stack"]
