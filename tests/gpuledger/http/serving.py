"""A server with small limits in a thread, and clients that speak to it byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from gpuledger.http.limits import HttpLimits
from gpuledger.http.server import Server
from tests.patience import PATIENCE_SECONDS, until

QUICK = b"GET /quick HTTP/1.1\r\nhost: x\r\n\r\n"


@dataclass
class Served:
    """seen: of every request that reached the application, its headers.   hold: /held waits for it."""

    port: int
    server: Server
    seen: list[dict[str, str]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)

    def connect(self, source: str = "127.0.0.1") -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 10, (source, 0))

    def ask(self, data: bytes, source: str = "127.0.0.1") -> bytes:
        with self.connect(source) as one:
            one.sendall(data)
            return answer(one)

    def wait_for(self, count: int) -> None:
        until(lambda: self.server.peers.count == count, lambda: self.server.peers.count)


def answer(one: socket.socket, patience: float = PATIENCE_SECONDS) -> bytes:
    """One answer with its length, or whatever comes until the end of the connection; nothing new for so many seconds
    ends the wait."""
    one.settimeout(patience)
    found = b""
    with contextlib.suppress(TimeoutError, ConnectionResetError):
        while not _is_whole(found) and (part := one.recv(65536)):
            found += part
    return found


def _is_whole(found: bytes) -> bool:
    head, blank, body = found.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    return bool(blank and length and len(body) >= int(length[1]))


def is_ended(one: socket.socket, within: float) -> bool:
    """Whether the server ends the connection."""
    one.settimeout(within)
    try:
        while one.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


@contextlib.contextmanager
def serving(
    limits: HttpLimits, certificate: str | None = None, key: str | None = None, log_level: str = "critical"
) -> Iterator[Served]:
    listener = socket.create_server(("127.0.0.1", 0))
    seen: list[dict[str, str]] = []
    hold = threading.Event()

    async def quick(request: Request) -> Response:
        seen.append(dict(request.headers))
        return PlainTextResponse("quick")

    async def echo(request: Request) -> Response:
        body = await request.body()
        seen.append(dict(request.headers))
        return PlainTextResponse(str(len(body)))

    def held(request: Request) -> Response:
        seen.append(dict(request.headers))
        hold.wait(PATIENCE_SECONDS)
        return PlainTextResponse("held")

    async def waits(request: Request) -> Response:
        seen.append(dict(request.headers))
        await asyncio.sleep(PATIENCE_SECONDS)
        return PlainTextResponse("waited")

    async def large(request: Request) -> Response:
        return PlainTextResponse("x" * int(request.query_params["bytes"]))

    async def unread(request: Request) -> Response:
        return PlainTextResponse("no", 401)

    async def stream(request: Request) -> Response:
        return StreamingResponse(b"x" * 65536 for _ in range(int(request.query_params["parts"])))

    async def sent_as_file(request: Request) -> Response:
        parts = int(request.query_params["parts"])
        return StreamingResponse((b"x" * 65536 for _ in range(parts)), headers={"content-length": str(65536 * parts)})

    routes = [
        Route("/file", sent_as_file),
        Route("/quick", quick),
        Route("/held", held),
        Route("/waits", waits),
        Route("/large", large),
        Route("/stream", stream),
    ]
    routes += [
        Route("/file", sent_as_file),
        Route("/echo", echo, methods=["POST"]),
        Route("/unread", unread, methods=["POST"]),
    ]
    server = Server(Starlette(routes=routes), limits, certificate, key, log_level=log_level)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        yield Served(listener.getsockname()[1], server, seen, hold)
    finally:
        hold.set()
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        listener.close()
    assert not thread.is_alive()


def over_tls(one: socket.socket) -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(one, server_hostname="x")
