"""An exporter to scrape: an HTTP server in a thread."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Exporter:
    """What it answers, and what it was asked: headers in lower case, and `path`. route: path -> body, before `body`."""

    url: str = ""
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[dict[str, str]] = field(default_factory=list)
    route: Callable[[str], bytes] | None = None


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Exporter]:
    fake = Exporter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fake.asked.append({name.lower(): text for name, text in self.headers.items()} | {"path": self.path})
            body = fake.route(self.path) if fake.route else fake.body
            self.send_response(fake.status)
            headers = {"Content-Type": "text/plain; version=0.0.4", "Content-Length": str(len(body))} | fake.headers
            for name, text in headers.items():
                self.send_header(name, text)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    fake.url = f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
