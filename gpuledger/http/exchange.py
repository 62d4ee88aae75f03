"""One request and its response: limits on the time and size of the body, and on the size of the response.

The body's clock runs only while the application waits for it, so a busy server causes no timeout.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from http import HTTPStatus

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gpuledger.http.limits import HttpLimits

log = logging.getLogger(__name__)


class Exchanges:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, limits: HttpLimits) -> None:
        self._app, self._limits = app, limits
        self.bytes_held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(self, self._limits, scope, receive, send)
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except _AnsweredError as answered:
            await exchange.refuse(answered)
        except asyncio.CancelledError:
            # Only a server that stops ends a request. What was asked may be done or not, as if it had been killed.
            await exchange.refuse(_AnsweredError(HTTPStatus.SERVICE_UNAVAILABLE, "the server stops: ask again"))
        finally:
            self.bytes_held -= exchange.received


class _AnsweredError(BaseException):
    """Ends a request that exceeded a limit. A BaseException, so that no handler in between catches it."""

    def __init__(self, status: HTTPStatus, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class _Exchange:
    def __init__(self, all_of_them: Exchanges, limits: HttpLimits, scope: Scope, receive: Receive, send: Send) -> None:
        self._all, self._limits, self._scope = all_of_them, limits, scope
        self._receive, self._send = receive, send
        self._most = limits.body_bytes_of(scope["path"])
        self._waited = 0.0
        self._over = self._started = False
        self._long: Message | None = None
        self._sent = 0
        self.received = 0
        declared = dict(scope["headers"]).get(b"content-length", b"")
        self._declared = int(declared) if declared.isdigit() else 0

    async def receive(self) -> Message:
        if self._over or self._started:
            return await self._receive()
        if self._declared > self._most:
            raise _AnsweredError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of at most {self._most} bytes")
        loop = asyncio.get_running_loop()
        began = loop.time()
        allowed = self._limits.body_grace_seconds + self.received / self._limits.body_rate - self._waited
        try:
            async with asyncio.timeout(max(allowed, 0.001)):
                message = await self._receive()
        except TimeoutError:
            raise _AnsweredError(HTTPStatus.REQUEST_TIMEOUT, "the body came too slowly") from None
        self._waited += loop.time() - began
        if message["type"] == "http.disconnect":
            return message
        size = len(message.get("body", b""))
        self.received += size
        self._all.bytes_held += size
        self._over = not message.get("more_body", False)
        if self.received > self._most:
            raise _AnsweredError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of at most {self._most} bytes")
        if self._all.bytes_held > self._limits.bodies_bytes:
            raise _AnsweredError(HTTPStatus.SERVICE_UNAVAILABLE, "too many bodies are being received")
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            length = dict(message["headers"]).get(b"content-length", b"")
            if length.isdigit() and int(length) > self._limits.answer_bytes:
                self._long = message  # its first chunk shows whether it is a file, or was made in memory
                return
            self._started = True
        elif self._long is not None:
            size = len(message.get("body", b""))
            if size > self._limits.answer_bytes:
                log.error("an answer of %d bytes was not sent: %s", size, self._scope["path"])
                raise _AnsweredError(
                    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                    f"the answer is larger than {self._limits.answer_bytes} bytes: ask for less",
                )
            start, self._long, self._started = self._long, None, True
            await self._send(start)
        await self._send(message)

    async def refuse(self, why: _AnsweredError) -> None:
        if self._started:
            return  # uvicorn closes the connection, so a partial response never looks complete
        document = {"type": "about:blank", "title": why.status.phrase, "status": why.status, "detail": why.detail}
        text = json.dumps(document).encode()
        headers: Mapping[str, str] = {
            "content-type": "application/problem+json",
            "content-length": str(len(text)),
            "connection": "close",
            "cache-control": "no-store",
            "x-content-type-options": "nosniff",
            **({"retry-after": "5"} if why.status is HTTPStatus.SERVICE_UNAVAILABLE else {}),
        }
        pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": why.status.value, "headers": pairs})
        await self._send({"type": "http.response.body", "body": text})
