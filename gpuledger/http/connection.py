"""One connection: uvicorn's, with limits on how long it waits for its client and how much it accepts.

uvicorn has no timeout for a request head and no limit on its size, and takes trailers for headers of the request.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import termios
from array import array
from collections.abc import Callable
from enum import Enum
from http import HTTPStatus
from typing import Any

from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from gpuledger.http.limits import HttpLimits

log = logging.getLogger(__name__)
log.setLevel(logging.ERROR)
"""Logs our own errors, not each malformed request of a stranger, which could fill the log. (This is no child of
uvicorn's logger: uvicorn resets those at start.)"""


class Phase(Enum):
    """What a connection waits for: the `head` of its next request, the `body` of one, or the `work` of answering one
    that has arrived in full."""

    head, body, work = range(3)


class _TooManyAheadError(Exception):
    """Too many pipelined requests; the parser closes the connection."""


class Connection(HttpToolsProtocol):
    """since: when `phase` began, in the event loop's time.   left: called once when the connection closes."""

    def __init__(self, limits: HttpLimits, left: Callable[[], None], **ours: Any) -> None:
        super().__init__(**ours)
        self.limits, self._left = limits, left
        self.logger = log
        self.phase = Phase.head
        self.since = self.loop.time()
        self._head_bytes = self._raw_bytes = self._body_bytes = 0
        self._answered_at: float | None = None
        """When the response ended, if it did before the request's body."""
        self._unread = 0
        self._read_at = self.since
        self._closing_at: float | None = None
        self._cycles: list[RequestResponseCycle] = []
        """Requests whose response is incomplete."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._enter(Phase.head)

    def connection_lost(self, exc: Exception | None) -> None:
        self._left()
        for cycle in self._cycles:  # uvicorn tells only the last one
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.phase is Phase.body:
            self._raw_bytes += len(data)
        else:
            if self.phase is Phase.head and not self._head_bytes:
                self.since = self.loop.time()
            self._head_bytes += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self.phase is Phase.body:
            if self._raw_bytes - self._body_bytes > self.limits.body_framing + self._body_bytes:
                self._refuse(HTTPStatus.BAD_REQUEST)
        elif self._head_bytes > self.limits.head_bytes:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)

    # Called by the parser.
    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is not Phase.body:  # in a body it is a trailer
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= self.limits.pipelined:
            raise _TooManyAheadError
        refusal = self._refused_head()
        served = self.app
        if refusal is not None:
            self.app = PlainTextResponse(f"{refusal.phrase}\n", refusal, {"Connection": "close"})
        try:
            super().on_headers_complete()
        finally:
            self.app = served
        self._cycles = [one for one in (*self._cycles, self.cycle) if not one.response_complete]
        self._raw_bytes = self._body_bytes = 0
        self._enter(Phase.body)

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._answered_at = None
        self._head_bytes = 0
        self._enter(Phase.head if self.cycle.response_complete else Phase.work)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.cycle.response_complete:
            return  # of a pipelined request
        if self.phase is Phase.body:
            self._answered_at = self.loop.time()
        elif self.phase is Phase.work:
            self._enter(Phase.head)

    def resume_writing(self) -> None:
        self._read_at = self.loop.time()
        super().resume_writing()

    def _unsupported_upgrade_warning(self) -> None:
        """Silent: any stranger can ask for a websocket."""

    # Limits.
    @property
    def waits(self) -> bool:
        """Whether it waits for its client, and so may be closed to make room for others."""
        return self.transport.is_closing() or (self.phase is not Phase.work and not self.pipeline)

    def check(self, now: float) -> None:
        """Closes the connection if it has waited too long for its client; called about every second."""
        if self._unread_too_long(now):
            self.transport.abort()
        elif self.transport.is_closing():
            # Over TLS, closing waits for the other side's close_notify.
            self._closing_at = self._closing_at or now
            if now - self._closing_at > self.limits.rest_seconds and not self.transport.get_write_buffer_size():
                self.transport.abort()
        elif self.phase is Phase.head and now - self.since > self.limits.head_seconds:
            if self._head_bytes:
                self._refuse(HTTPStatus.REQUEST_TIMEOUT)
            else:
                self.transport.close()
        elif self._answered_at is not None and now - self._answered_at > self.limits.rest_seconds:
            self.transport.close()

    def _unread_too_long(self, now: float) -> bool:
        """Whether the client reads a waiting response more slowly than `answer_rate`."""
        unread = self.transport.get_write_buffer_size()
        if unread:
            unread += self._unacknowledged_bytes()
        enough = self.limits.answer_rate * self.limits.answer_seconds
        if not unread or unread <= self._unread - enough or unread > self._unread == 0:
            self._unread, self._read_at = unread, now
        elif self._read_at > now - self.limits.answer_seconds:
            self._unread = max(self._unread, unread)
        return now - self._read_at > self.limits.answer_seconds

    def _unacknowledged_bytes(self) -> int:
        """Sent bytes that are not acknowledged; asyncio notices a drained socket buffer only by the megabyte."""
        size = array("i", [0])
        try:
            fcntl.ioctl(self.transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, size)
        except OSError:
            return 0
        return size[0]

    def _enter(self, phase: Phase) -> None:
        self.phase, self.since = phase, self.loop.time()

    def _refused_head(self) -> HTTPStatus | None:
        if len(self.url) > self.limits.url_bytes:
            return HTTPStatus.REQUEST_URI_TOO_LONG
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self.limits.head_bytes or len(self.headers) > self.limits.headers:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        return None

    def _refuse(self, status: HTTPStatus) -> None:
        """Answers in place of the application and closes; amid another response it only closes."""
        if self.cycle is not None and not self.cycle.response_complete and self.cycle.response_started:
            self.transport.abort()
            return
        body = f"{status.phrase}\n".encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()
