"""Why another machine could not be asked, in the words that its operator knows."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Iterator

from warehouse.errors import LedgerError

CUT_OFF = ("IncompleteRead", "ClientPayloadError")
"""Errors of http.client and aiohttp whose texts name classes."""
INTERNAL = "an internal error; the log has the details"
"""What is said of an error of our own, whose class and trace are in the log."""


def reason(error: BaseException) -> str:
    """Like `Connection refused` or `certificate verify failed: self-signed certificate`: what the system, or else the
    client, says, without the names of Python's classes and modules."""
    if isinstance(error, LedgerError):
        return str(error)
    for one in _causes(error):
        if isinstance(one, ssl.SSLError):  # whose errno is none of the system's
            if verified := getattr(one, "verify_message", ""):
                return f"certificate verify failed: {verified}"
            if failed := getattr(one, "reason", None):
                return f"TLS failed: {failed.replace('_', ' ').lower()}"
        elif isinstance(one, OSError) and one.errno is not None and one.errno in errno.errorcode:
            return os.strerror(one.errno)
        elif isinstance(one, OSError) and one.strerror:  # of a name that was not found
            return one.strerror
        if type(one).__name__ in CUT_OFF:
            return "the answer was cut off"
    if any(isinstance(one, ssl.SSLError) for one in _causes(error)):
        return "TLS failed: connection closed"
    said = " ".join(str(error).split()).rstrip(".")
    if said:
        return said
    is_late = any(isinstance(one, TimeoutError) or "Timeout" in type(one).__name__ for one in _causes(error))
    return "timed out" if is_late else "the connection was lost"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, of a client's layers the topmost first, to the system's. (httpcore raises its
    own `from None`.)"""
    one: BaseException | None = error
    while one is not None:
        yield one
        is_systems = isinstance(one, OSError) and type(one).__module__ in ("builtins", "socket", "ssl")
        one = None if is_systems else one.__cause__ or one.__context__
