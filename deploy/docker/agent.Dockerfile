# docker build -f deploy/docker/agent.Dockerfile -t gpuledger-agent .
# PYTHON and UV are replaced by images of your own with --build-arg: a mirror's, or a Debian with its python3.11.
ARG PYTHON=python:3.11-slim-bookworm
ARG UV=ghcr.io/astral-sh/uv:0.13
FROM ${UV} AS uv

FROM ${PYTHON} AS build
COPY --from=uv /uv /usr/local/bin/uv
ENV UV_PROJECT_ENVIRONMENT=/opt/gpuledger UV_PYTHON=python3.11 UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 \
    UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy UV_NO_CACHE=1
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-install-project --extra agent
COPY README.md LICENSE ./
COPY warehouse ./warehouse
COPY ingest ./ingest
COPY collectors ./collectors
COPY scheduler ./scheduler
COPY billing ./billing
COPY alerts ./alerts
COPY access ./access
COPY api ./api
COPY dashboards ./dashboards
COPY gpuledger ./gpuledger
RUN uv sync --frozen --no-editable --extra agent

FROM ${PYTHON}
COPY --from=build /opt/gpuledger /opt/gpuledger
ENV PATH=/opt/gpuledger/bin:$PATH HOME=/var/lib/gpuledger GPULEDGER_SPOOL=/var/lib/gpuledger/spool MALLOC_ARENA_MAX=2 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=utility
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/gpuledger
# In Kubernetes the DaemonSet makes it root, without capabilities: the kubelet's socket is root's.
USER 65532:65532
VOLUME /var/lib/gpuledger
EXPOSE 9108
HEALTHCHECK --start-period=10s --interval=30s --timeout=5s CMD ["python", "-c", "import urllib.request as ask; ask.urlopen('http://127.0.0.1:9108/healthz', timeout=4)"]
ENTRYPOINT ["gpuledger"]
CMD ["agent", "--config", "/etc/gpuledger/agent.yaml"]
