# Gateway and router: no torch, no engine, no checkpoint.
#   docker build --file deploy/images/gateway.Dockerfile --tag dllm-stack:0.1.0 .
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
# Where pip finds packages, if not where it does by itself.
ARG PIP_INDEX_URL
ARG PIP_FIND_LINKS
ARG PIP_NO_INDEX
ARG PIP_DISABLE_PIP_VERSION_CHECK=1
ARG PIP_NO_CACHE_DIR=1
ARG PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
COPY requirements/ requirements/
RUN python3 -m venv --without-pip /opt/dllm-stack \
    && python3 -m pip --python /opt/dllm-stack install --no-deps --requirement requirements/gateway.txt \
    && python3 -m venv /build \
    && grep -E '^(hatchling|packaging|pathspec|pluggy|trove-classifiers)==' requirements/cpu.txt >build.txt \
    && /build/bin/pip install --no-deps --requirement build.txt
COPY . .
# What a worker has beside it stays out.
RUN /build/bin/pip wheel --no-deps --no-build-isolation --wheel-dir /own . \
    && python3 -m pip --python /opt/dllm-stack install --no-index --no-deps /own/*.whl \
    && rm -rf /opt/dllm-stack/lib/python3*/site-packages/worker /opt/dllm-stack/lib/python3*/site-packages/models

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
ARG SOURCE=unknown
LABEL org.opencontainers.image.title="dllm-stack" \
      org.opencontainers.image.description="Gateway and router of dllm-stack, which serves diffusion language models" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.licenses="Apache-2.0"
# Nothing is installed into it any more.
RUN python3 -c "import ensurepip, pip, shutil; [shutil.rmtree(each.__path__[0]) for each in (ensurepip, pip)]"
COPY --from=build /opt/dllm-stack /opt/dllm-stack
ENV PATH=/opt/dllm-stack/bin:$PATH \
    HOME=/tmp \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /tmp
ENTRYPOINT ["dllm-stack"]
