"""The agent's own address: /metrics, /healthz, /readyz."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from collectors.errors import CollectorError

Page = Callable[[], tuple[int, str, str]]
"""Status, content type, body."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def as_json(ok: bool, document: dict[str, Any]) -> tuple[int, str, str]:
    return 200 if ok else 503, "application/json", json.dumps(document) + "\n"


@contextlib.contextmanager
def serving(host: str, port: int, pages: dict[str, Page]) -> Iterator[int]:
    """Serves the pages on a thread; yields the port. Errors: CollectorError if the address cannot be had."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 10
        protocol_version = "HTTP/1.1"
        server_version = "gpuledger-agent"
        sys_version = ""

        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0])
            status, kind, text = page() if page is not None else (404, "text/plain", f"there are {', '.join(pages)}\n")
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Scrapes are too frequent to be logged."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    try:
        server = Server((host, port), Handler)
    except OSError as error:
        raise CollectorError(
            f"metrics {host}:{port}", f"cannot listen there ({error.strerror})", "Choose another metrics.port, or null"
        ) from error
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 5.0}, name="web", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        # The loop looks at most five seconds later; nobody waits for that.
        threading.Thread(target=server.shutdown, daemon=True).start()
        server.server_close()
