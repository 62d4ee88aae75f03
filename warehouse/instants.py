"""Instants as whole milliseconds since 1970, as the books count them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def epoch_ms(at: datetime) -> int:
    """Exact, where a float of seconds is not; less than a millisecond is cut off. Errors: TypeError if naive."""
    return (at - _EPOCH) // _MILLISECOND
