"""Values of rows as documents show them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from billing.closed import Closed, period_document
from gpuledger.documents import ClosedSpan, instant


def aware(at: datetime) -> datetime:
    """An instant that somebody sent; without a zone it is UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def closed_span(closed: Closed | None) -> ClosedSpan:
    """The period that figures are of; with None, every field is null."""
    return ClosedSpan(**period_document(closed))


def plain(value: Any) -> Any:
    """The same for a value of any shape."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
