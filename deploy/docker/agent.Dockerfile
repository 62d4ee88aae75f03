# docker build -f deploy/docker/agent.Dockerfile -t gpuledger-agent .
FROM python:3.11-slim AS build
COPY --from=ghcr.io/astral-sh/uv:0.9 /uv /usr/local/bin/uv
ENV UV_PROJECT_ENVIRONMENT=/opt/gpuledger UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-install-project --extra agent
COPY README.md ./
COPY warehouse ./warehouse
COPY ingest ./ingest
COPY collectors ./collectors
COPY scheduler ./scheduler
COPY billing ./billing
COPY alerts ./alerts
COPY dashboards ./dashboards
COPY gpuledger ./gpuledger
RUN uv sync --frozen --no-editable --extra agent

FROM python:3.11-slim
COPY --from=build /opt/gpuledger /opt/gpuledger
ENV PATH=/opt/gpuledger/bin:$PATH HOME=/var/lib/gpuledger GPULEDGER_SPOOL=/var/lib/gpuledger/spool MALLOC_ARENA_MAX=2 \
    NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=utility
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/gpuledger
# In Kubernetes the DaemonSet makes it root, without capabilities: the kubelet's socket is root's.
USER 65532:65532
VOLUME /var/lib/gpuledger
EXPOSE 9108
ENTRYPOINT ["gpuledger"]
CMD ["agent", "--config", "/etc/gpuledger/agent.yaml"]
