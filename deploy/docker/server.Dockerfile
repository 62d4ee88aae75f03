# docker build -f deploy/docker/server.Dockerfile -t gpuledger-server .
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
RUN uv sync --frozen --no-install-project --extra server
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
RUN uv sync --frozen --no-editable --extra server

FROM ${PYTHON}
# Fonts of the invoices' PDFs and the reports' charts.
RUN apt-get update && apt-get install -y --no-install-recommends fonts-inter fonts-noto-cjk \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/gpuledger /opt/gpuledger
ENV PATH=/opt/gpuledger/bin:$PATH HOME=/var/lib/gpuledger GPULEDGER_STORE=chdb:///var/lib/gpuledger/store
RUN install -d -o 65532 -g 65532 -m 0700 /var/lib/gpuledger
USER 65532:65532
VOLUME /var/lib/gpuledger
EXPOSE 8443
# Of this very process: its certificate is for the name that others use.
HEALTHCHECK --start-period=60s --interval=30s --timeout=10s CMD ["python", "-c", "import ssl, urllib.request as ask; ask.urlopen('https://127.0.0.1:8443/healthz', timeout=8, context=ssl._create_unverified_context())"]
ENTRYPOINT ["gpuledger"]
CMD ["server", "--tokens", "/etc/gpuledger/senders.yaml", "--sign-in", "/etc/gpuledger/sign-in.yaml", "--host", "0.0.0.0", "--port", "8443", "--tls-cert", "/etc/gpuledger/tls.crt", "--tls-key", "/etc/gpuledger/tls.key"]
