"""POST over one persistent connection, with the standard library only: how an agent sends."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from ingest.answer_time import ended_in_time, hang_up
from ingest.errors import IngestError

ANSWER_BYTES = 1 << 16
"""Of an answer, more is not read: it is a report or an error."""


@dataclass(frozen=True, slots=True)
class Response:
    """headers: names in lower case."""

    status: int
    headers: Mapping[str, str]
    text: str


def retry_after(headers: Mapping[str, str], longest: float, now: datetime | None = None) -> float | None:
    """The response's Retry-After in seconds, at most `longest`; None if it has none, or one that is neither seconds nor
    a date. A date is compared with the response's own Date, so that clocks need not agree; without one, with now.

    headers: names in lower case, or in any.   Source: RFC 9110 sections 5.6.7 and 10.2.3
    """
    value = headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return min(float(value), longest)
    until = _date(value)
    if until is None:
        return None
    said_at = _date(headers.get("date", "")) or now or datetime.now(UTC)
    return min(max((until - said_at).total_seconds(), 0.0), longest)


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


class Poster:
    """A persistent connection, opened on first use. Ignores redirects and proxy settings.

    ca_file: certificate authorities to believe instead of the system's.   timeout_seconds: for the whole answer.
    answer_bytes: of it, more is not read.
    Errors: IngestError if the URL or the file is of no use; OSError or HTTPException while it is used.
    """

    def __init__(
        self, url: str, ca_file: Path | None = None, timeout_seconds: float = 90, answer_bytes: int = ANSWER_BYTES
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise IngestError(url, "not an address to post to", "Write it like https://ledger.example:8443")
        self.base = parts.path.rstrip("/")
        self._host, self._port = parts.hostname, parts.port
        self._timeout, self._answer_bytes = timeout_seconds, answer_bytes
        self._tls = _context(ca_file) if parts.scheme == "https" else None
        self._connection: http.client.HTTPConnection | None = None

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        """POSTs; if the persistent connection turns out to be closed, sends once more on a new one. That is safe: a
        body that arrives twice counts once."""
        kept = self._connection is not None
        try:
            return self._posted(path, body, headers)
        except (ConnectionError, http.client.RemoteDisconnected, http.client.CannotSendRequest):
            self.close()
            if not kept:
                raise
        except BaseException:
            self.close()
            raise
        try:
            return self._posted(path, body, headers)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _posted(self, path: str, body: bytes, headers: Mapping[str, str]) -> Response:
        if self._connection is None:
            self._connection = self._new()
        self._connection.request("POST", self.base + path, body, dict(headers))
        with ended_in_time(self._timeout, partial(hang_up, self._connection.sock)) as late:
            try:
                answer = self._connection.getresponse()
                text = answer.read(self._answer_bytes).decode("utf-8", errors="replace")
            except (OSError, http.client.HTTPException):
                if not late.is_set():
                    raise
        if late.is_set():
            raise TimeoutError(f"had not answered in full after {self._timeout:g} s")
        if not answer.isclosed() or answer.will_close:
            self.close()
        return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)

    def _new(self) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)


def _context(ca_file: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=None if ca_file is None else str(ca_file))
    except (OSError, ssl.SSLError) as error:
        raise IngestError(
            str(ca_file), f"cannot be read as certificates ({error})", "Give the PEM file of your authority"
        ) from error
