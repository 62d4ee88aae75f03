"""Real receivers in threads: an HTTP server that keeps what it is sent, and an SMTP server that does."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.patience import PATIENCE_SECONDS


@dataclass
class Received:
    """What came, and what is answered: the next of `answers`, then 200.   together: whom an answer waits for."""

    url: str = ""
    port: int = 0
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    mails: list[str] = field(default_factory=list)
    refusing: dict[str, int] = field(default_factory=dict)
    answers: list[int] = field(default_factory=list)
    together: threading.Barrier | None = None

    def documents(self) -> list[Any]:
        return [json.loads(body) for _, _, body in self.requests]


class ManyAtOnce(ThreadingHTTPServer):
    """The fortieth of those who come together need not knock again: that takes seconds."""

    request_queue_size = 128


@contextlib.contextmanager
def http_receiver(port: int = 0) -> Iterator[Received]:
    received = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            received.requests.append((self.path, dict(self.headers), body))
            if received.together is not None:
                received.together.wait(PATIENCE_SECONDS)
            self.send_response(received.answers.pop(0) if received.answers else 200)
            self.end_headers()
            self.wfile.write(b"hello")

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ManyAtOnce(("127.0.0.1", port), Handler) as server:
        received.port = server.server_address[1]
        received.url = f"http://127.0.0.1:{received.port}"
        with _serving(server):
            yield received


@contextlib.contextmanager
def smtp_receiver() -> Iterator[Received]:
    received = Received()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            def say(text: str) -> None:
                self.wfile.write(text.encode() + b"\r\n")

            say("220 here")
            while line := self.rfile.readline().decode().strip():
                verb = line.split()[0].upper()
                if verb == "DATA":
                    say("354 go on")
                    lines = []
                    while (part := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                        lines.append(part)
                    received.mails.append("\n".join(lines))
                    say("250 kept")
                elif verb == "RCPT" and received.answers:
                    say(f"{received.answers.pop(0)} no")
                elif verb == "RCPT" and (code := received.refusing.get(line.partition(":")[2].split()[0])):
                    say(f"{code} no such mailbox here")
                elif verb == "QUIT":
                    say("221 bye")
                    return
                else:
                    say("250 fine")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        received.port = server.server_address[1]
        with _serving(server):
            yield received


@contextlib.contextmanager
def _serving(server: socketserver.BaseServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
