"""Admits or refuses every push: authenticates its sender, checks its record type, limits its body.

A token is sent as `Authorization: Bearer TOKEN`, or as the password of `Authorization: Basic` with the sender's name.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from ingest.reviews import ReviewError
from ingest.senders import Sender, Senders
from ingest.tally import Tally

log = logging.getLogger(__name__)

BODY_BYTES = 16 << 20
"""The largest body, as it is sent (compressed)."""
RETRY_SECONDS = 5
LOG_SECONDS = 60.0
RETRY: Mapping[str, str] = {"Retry-After": str(RETRY_SECONDS)}
WHO: Mapping[str, str] = {"WWW-Authenticate": 'Bearer, Basic realm="gpuledger", charset="UTF-8"'}


@dataclass
class Counts:
    bodies: int = 0
    rows: int = 0
    refused: int = 0


class Admission:
    """Checks shared by all endpoints that accept pushes. now: the clock by which pushes are counted per day."""

    def __init__(self, senders: Senders, tally: Tally, now: Callable[[], datetime]) -> None:
        self._senders, self._tally, self._now = senders, tally, now
        self.counts = Counts()
        self._unreviewed, self._unreviewed_logged_at = 0, -LOG_SECONDS

    async def answered(self, request: Request, record: str, work: Callable[[], Awaitable[Response]]) -> Response:
        """The response of `work`, or the refusal. record: record type, for the counts; empty if unknown."""
        try:
            return await work()
        except HTTPException as refusal:
            self.counts.refused += 1
            if refusal.status_code in (401, 403):
                await self._denied(request, record, refusal)
            headers = {**(refusal.headers or {}), "Connection": "close"}
            return JSONResponse({"error": refusal.detail}, refusal.status_code, headers)
        except ClientDisconnect:
            return JSONResponse({"error": "the sender hung up"}, 400)

    async def sender(self, request: Request) -> Sender:
        """Authenticates the request.   Errors: HTTPException 401, 403 or 503."""
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        name, token = _credentials(scheme.lower(), given.strip())
        sender = await self._known(request, token) if token else None
        if sender is None or name not in (None, sender.name):
            raise HTTPException(401, "unknown token (docs/receivers.md): send Authorization: Bearer TOKEN", WHO)
        request.state.sender = sender.name
        return sender

    def check_may_send(self, request: Request, sender: Sender, record: str) -> None:
        """Errors: HTTPException 403."""
        if not sender.permissions.may_send(record):
            request.state.denied = "not its record type"
            raise HTTPException(
                403, f"{sender.name} may not send {record}, only {', '.join(sender.permissions.records)}"
            )

    async def body(self, request: Request, limit: int) -> bytes:
        """The body as it was sent.   Errors: HTTPException 413 if it is larger than the limit."""
        declared = request.headers.get("content-length", "")
        if declared.isdigit() and int(declared) > limit:
            raise HTTPException(413, f"a body of {declared} bytes: at most {limit}")
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise HTTPException(413, f"a body of more than {limit} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _known(self, request: Request, token: str) -> Sender | None:
        """The sender with the token; of a service account, the API server may have to review it."""
        sender = self._senders.of(token)
        if sender is not None or not self._senders.reviewable(token):
            return sender
        try:
            return await self._senders.reviewed(token, request.client.host if request.client else "")
        except ReviewError as error:
            if not error.passes:
                request.state.denied = "its token names no node"
                raise HTTPException(403, str(error)) from error
            self._not_reviewed(error)
            raise HTTPException(503, str(error), RETRY) from error

    def _not_reviewed(self, error: ReviewError) -> None:
        """Logs that a token could not be reviewed, rate-limited so that a repeating client cannot fill the log."""
        self._unreviewed += 1
        if time.monotonic() >= self._unreviewed_logged_at + LOG_SECONDS:
            log.error("receive: %d tokens not reviewed; the last one: %s", self._unreviewed, error)
            self._unreviewed, self._unreviewed_logged_at = 0, time.monotonic()

    async def _denied(self, request: Request, record: str, refusal: HTTPException) -> None:
        """Counts a refused push for `doctor` and `audit`, with the reason."""
        sender = getattr(request.state, "sender", "")
        reason = "wrong token" if refusal.status_code == 401 else getattr(request.state, "denied", "not its cluster")
        self._tally.add(self._now(), sender, record, "denied", reason)
        if self._tally.due:
            await asyncio.to_thread(self._tally.write)


def _credentials(scheme: str, given: str) -> tuple[str | None, str]:
    """The sender's name (None if only a token was sent) and the token (empty if there is none)."""
    if scheme == "bearer":
        return None, given
    if scheme != "basic":
        return None, ""
    try:
        name, _, password = base64.b64decode(given, validate=True).decode("utf-8").partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None, ""
    return name, password
