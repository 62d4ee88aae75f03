"""An API server that lists and watches over real HTTP, and misbehaves when it is told to."""

from __future__ import annotations

import base64
import copy
import json
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"


@dataclass
class Faults:
    """What goes wrong. Each entry is used once; a function gets the bytes that it would send and may send others.

    answers: (status, body, headers) for the next requests of a path.   cuts: after how many bytes the next watches
    of a path break off.   gone: the next watches of a path end with an ERROR event of 410.   slow: watches send a
    byte at a time.   repeat: the next watch of a path starts that many changes too early.
    """

    answers: dict[str, list[tuple[int, Any, dict[str, str]]]] = field(default_factory=lambda: defaultdict(list))
    cuts: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    gone: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    slow: bool = False
    repeat: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


class ApiServer:
    """Objects by path, and the history of their changes.

    apply: the object as it is now (ADDED or MODIFIED); `delete`: it is gone, and this was its last version.
    compact: versions up to now are forgotten. requests: (path, query) of all that was asked.   changes: (method,
    path, body) of all that was to change something.   down: what everything
    is answered with while it is set; it ends all watches.   refused: paths that were asked for then.
    """

    def __init__(self) -> None:
        self.version = 100
        self.forgotten = 0
        self.faults = Faults()
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.changes: list[tuple[str, str, dict[str, Any]]] = []
        self.tokens: list[str] = []
        self.bookmark_every = 0.05
        self.served = {PODS, NODES}
        self.page_hook: Callable[[str, str], None] = lambda path, token: None
        self._objects: dict[str, dict[tuple[str, str], dict[str, Any]]] = defaultdict(dict)
        self._history: dict[str, list[tuple[int, str, dict[str, Any]]]] = defaultdict(list)
        self._changed = threading.Condition()
        self.stopping = False
        self.down: tuple[int, Any, dict[str, str]] | None = None
        self.refused: list[str] = []

    def apply(self, path: str, found: dict[str, Any]) -> None:
        self._record(path, "", found)

    def delete(self, path: str, found: dict[str, Any]) -> None:
        self._record(path, "DELETED", found)

    def _record(self, path: str, kind: str, found: dict[str, Any]) -> None:
        with self._changed:
            self.served.add(path)
            self.version += 1
            found = copy.deepcopy(found)
            found["metadata"]["resourceVersion"] = str(self.version)
            key = found["metadata"].get("namespace", ""), found["metadata"]["name"]
            if kind == "DELETED":
                self._objects[path].pop(key, None)
            else:
                kind = "MODIFIED" if key in self._objects[path] else "ADDED"
                self._objects[path][key] = found
            self._history[path].append((self.version, kind, found))
            self._changed.notify_all()

    def compact(self) -> None:
        with self._changed:
            self.version += 1
            self.forgotten = self.version

    def watches(self, path: str = PODS) -> list[str]:
        """The resourceVersions that watches of the path asked for."""
        return [query["resourceVersion"] for asked, query in self.requests if asked == path and "watch" in query]

    def lists(self, path: str = PODS) -> int:
        """How often a list of the path was begun; to ask for one object is to ask how far the server is."""
        begun = [query for asked, query in self.requests if asked == path and not query.keys() & {"watch", "continue"}]
        return sum(query["limit"] != "1" for query in begun)

    # what the handler asks

    def page(self, path: str, query: dict[str, str]) -> dict[str, Any] | None:
        """A page of the list; None if its token is too old."""
        with self._changed:
            token = query.get("continue", "")
            if token:
                version, start = (int(part) for part in base64.b64decode(token).decode().split(":"))
                if version < self.forgotten:
                    return None
            else:
                version, start = self.version, 0
            # As etcd does, later pages show what there was at the first one's version.
            objects = self._at(path, version)
            limit = int(query.get("limit", "0")) or len(objects) or 1
            more = start + limit < len(objects)
            follow = base64.b64encode(f"{version}:{start + limit}".encode()).decode() if more else ""
            return {
                "kind": "List",
                "metadata": {"resourceVersion": str(version), **({"continue": follow} if follow else {})},
                "items": objects[start : start + limit],
            }

    def _at(self, path: str, version: int) -> list[dict[str, Any]]:
        found: dict[tuple[str, str], dict[str, Any]] = {}
        for changed, kind, each in self._history[path]:
            key = each["metadata"].get("namespace", ""), each["metadata"]["name"]
            if changed > version:
                break
            found.pop(key, None) if kind == "DELETED" else found.update({key: each})
        return [found[key] for key in sorted(found)]

    def lines(self, path: str, query: dict[str, str]) -> Iterator[bytes]:
        """The lines of a watch, until its time is up."""
        after = int(query["resourceVersion"])
        if self.faults.gone[path] > 0 or after < self.forgotten:
            self.faults.gone[path] = max(0, self.faults.gone[path] - 1)
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            yield _line("ERROR", status)
            return
        if self.faults.repeat[path]:
            after -= self.faults.repeat[path].pop(0)
        until = time.monotonic() + float(query["timeoutSeconds"])
        reported = time.monotonic()
        while not self.stopping and time.monotonic() < until:
            if self.down is not None:
                raise ConnectionError("the server goes down")
            with self._changed:
                new = [each for each in self._history[path] if each[0] > after]
                if not new:
                    self._changed.wait(0.01)
            for version, kind, found in new:
                after = version
                yield _line(kind, found)
            if (
                not new
                and time.monotonic() - reported > self.bookmark_every
                and query.get("allowWatchBookmarks") == "true"
            ):
                with self._changed:
                    after = max(after, self.version) if not self._newer(path, after) else after
                reported = time.monotonic()
                yield _line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(after)}})

    def _newer(self, path: str, after: int) -> bool:
        return any(version > after for version, _, _ in self._history[path])


def _line(kind: str, found: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": found}, ensure_ascii=False).encode() + b"\n"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ApiServer

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        api, path = self.api, parts.path
        api.requests.append((path, query))
        api.tokens.append(self.headers.get("Authorization", ""))
        if (down := api.down) is not None:
            api.refused.append(path)
            self._answer(*down)
        elif api.faults.answers[path]:
            self._answer(*api.faults.answers[path].pop(0))
        elif path not in api.served:
            self._answer(404, {"kind": "Status", "code": 404, "message": "the server could not find it"}, {})
        elif "watch" in query:
            self._stream(path, api.lines(path, query))
        else:
            api.page_hook(path, query.get("continue", ""))
            page = api.page(path, query)
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "the continue token is too old"}
            self._answer(200 if page else 410, page or gone, {})

    def do_POST(self) -> None:
        """What changes something is answered as the test says."""
        path = urlsplit(self.path).path
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self.api.changes.append((self.command, path, json.loads(body or b"{}")))
        self._answer(*self.api.faults.answers[path].pop(0))

    do_PATCH = do_DELETE = do_POST  # noqa: N815 - as the server calls them

    def _answer(self, status: int, body: Any, headers: dict[str, str]) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        for key, value in headers.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, path: str, lines: Iterator[bytes]) -> None:
        faults = self.api.faults
        left = faults.cuts[path].pop(0) if faults.cuts[path] else None
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            for line in lines:
                if left is not None and len(line) >= left:
                    self._chunk(line[:left])
                    self.close_connection = True
                    self.connection.close()
                    return
                left = None if left is None else left - len(line)
                for part in [line[i : i + 1] for i in range(len(line))] if faults.slow else [line]:
                    self._chunk(part)
            self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.close_connection = True

    def _chunk(self, content: bytes) -> None:
        if content:
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            self.wfile.flush()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is none; its traceback would stand in the output of whatever test is next."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving() -> Iterator[tuple[ApiServer, str]]:
    """A server in a thread, and its URL."""
    api = ApiServer()
    handler = type("Handler", (_Handler,), {"api": api})
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield api, f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        api.stopping = True
        server.shutdown()
        server.server_close()
        thread.join()
