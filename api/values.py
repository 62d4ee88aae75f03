"""Values of rows as documents show them."""

from __future__ import annotations

from datetime import UTC, datetime

from billing.closed import Closed, period_document
from gpuledger.documents import ClosedSpan


def aware(at: datetime) -> datetime:
    """An instant that somebody sent; without a zone it is UTC."""
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def closed_span(closed: Closed | None) -> ClosedSpan:
    """The period that figures are of; with None, every field is null."""
    return ClosedSpan(**period_document(closed))
