"""An API server that answers token reviews as the test sets them."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

AUDIENCE = "gpuledger"
EXTRA = "authentication.kubernetes.io/"


def user(name: str, **extra: Any) -> dict[str, Any]:
    about = {"username": f"system:serviceaccount:{name}", "extra": {f"{EXTRA}{k}": v for k, v in extra.items()}}
    return {"authenticated": True, "audiences": [AUDIENCE], "user": about}


AGENT = user("gpuledger:agent", **{"node-name": ["n1"], "pod-name": ["p"], "pod-uid": ["u"]})


@dataclass
class Scripted:
    """status: what a review says; of_tokens: of these tokens.   pods: answers to GETs, by path.
    delay: seconds that a review takes."""

    url: str = ""
    of_tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=lambda: AGENT)
    code: int = 201
    delay: float = 0.0
    text: bytes | None = None
    pods: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, Any, str]] = field(default_factory=list)

    def answer(self, method: str, path: str, body: Any, bearer: str) -> tuple[int, bytes]:
        self.asked.append((f"{method} {path}", body, bearer))
        if method == "GET":
            code, pod = self.pods.get(path, (404, {}))
            return code, json.dumps(pod).encode()
        time.sleep(self.delay)
        status = self.of_tokens.get(body["spec"]["token"], self.status)
        return self.code, self.text if self.text is not None else json.dumps({"status": status}).encode()


@contextlib.contextmanager
def reviewing() -> Iterator[Scripted]:
    scripted = Scripted()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def do_GET(self) -> None:
            self._answer(None)

        def _answer(self, body: Any) -> None:
            code, text = scripted.answer(self.command, self.path, body, self.headers.get("Authorization", ""))
            self.send_response(code)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    scripted.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield scripted
    finally:
        server.shutdown()
        server.server_close()
