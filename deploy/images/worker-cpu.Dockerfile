# A worker without a GPU, for a first look and for tests.
#   docker build --file deploy/images/worker-cpu.Dockerfile --tag dllm-stack-worker-cpu:0.1.0 \
#     --build-arg PIP_EXTRA_INDEX_URL=... .        the index of CPU wheels that PyTorch's "Get Started" page names
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_DISABLE_PIP_VERSION_CHECK=1
ARG PIP_NO_CACHE_DIR=1
ARG PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY requirements/ requirements/
RUN python3 -m venv --without-pip /opt/dllm-stack \
    && python3 -m pip --python /opt/dllm-stack install --no-deps --requirement requirements/worker-cpu.txt \
    && python3 -m venv /build \
    && grep -E '^(hatchling|packaging|pathspec|pluggy|trove-classifiers)==' requirements/cpu.txt >build.txt \
    && /build/bin/pip install --no-deps --requirement build.txt
COPY . .
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /own . \
    && python3 -m pip --python /opt/dllm-stack install --no-index --no-deps /own/*.whl

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="dllm-stack-worker-cpu" \
      org.opencontainers.image.description="Worker of dllm-stack, which serves diffusion language models, with SGLang on a CPU" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN python3 -c "import ensurepip, pip, shutil; [shutil.rmtree(each.__path__[0]) for each in (ensurepip, pip)]"
COPY --from=build /opt/dllm-stack /opt/dllm-stack
# USER: the uid has no entry in /etc/passwd, and PyTorch before 2.13 fails without a name for the folder of what it compiles.
ENV PATH=/opt/dllm-stack/bin:$PATH \
    HOME=/tmp \
    USER=dllm \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["dllm-stack"]
