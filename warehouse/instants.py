"""Instants as whole milliseconds since 1970, as the books count them, and as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def epoch_ms(at: datetime) -> int:
    """Exact, where a float of seconds is not; less than a millisecond is cut off. Errors: TypeError if naive."""
    return (at - EPOCH) // MILLISECOND


def of_epoch_ms(ms: int) -> datetime:
    """Exact, too; UTC."""
    return EPOCH + ms * MILLISECOND


def to_the_minute(at: datetime) -> datetime:
    """Its minute's begin: who asks a store again within a minute then asks the same, which can be cached."""
    return at.replace(second=0, microsecond=0)


def rfc3339(at: datetime, timespec: str = "milliseconds") -> str:
    """As programs read it: UTC, like `2026-10-01T00:00:00.000Z`. timespec: as of `datetime.isoformat`."""
    return at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec=timespec) + "Z"
