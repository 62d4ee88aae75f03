# docker build -f deploy/docker/server.Dockerfile -t gpuledger-server .
FROM python:3.11-slim AS build
COPY --from=ghcr.io/astral-sh/uv:0.9 /uv /usr/local/bin/uv
ENV UV_PROJECT_ENVIRONMENT=/opt/gpuledger UV_PYTHON_DOWNLOADS=never UV_COMPILE_BYTECODE=1 UV_LINK_MODE=copy
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-install-project --extra server
COPY README.md ./
COPY warehouse ./warehouse
COPY ingest ./ingest
COPY collectors ./collectors
COPY scheduler ./scheduler
COPY billing ./billing
COPY alerts ./alerts
COPY dashboards ./dashboards
COPY gpuledger ./gpuledger
RUN uv sync --frozen --no-editable --extra server

FROM python:3.11-slim
# Fonts of the invoices' PDFs.
RUN apt-get update && apt-get install -y --no-install-recommends fonts-inter fonts-noto-cjk \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/gpuledger /opt/gpuledger
ENV PATH=/opt/gpuledger/bin:$PATH HOME=/var/lib/gpuledger GPULEDGER_STORE=chdb:///var/lib/gpuledger/store
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/gpuledger
USER 65532:65532
VOLUME /var/lib/gpuledger
EXPOSE 8443
ENTRYPOINT ["gpuledger"]
CMD ["server", "--tokens", "/etc/gpuledger/senders.yaml", "--sign-in", "/etc/gpuledger/sign-in.yaml", "--host", "0.0.0.0", "--port", "8443", "--tls-cert", "/etc/gpuledger/tls.crt", "--tls-key", "/etc/gpuledger/tls.key"]
