"""How much of a span is closed, as a server has said."""

from __future__ import annotations

from billing.closed import Closed
from billing.periods import Period
from gpuledger.documents import ClosedSpan


def closed_part_of(span: ClosedSpan) -> Closed | None:
    """None: nothing ever was."""
    if not (span.start and span.end and span.closed_from and span.closed_until):
        return None
    books = Period(span.closed_from, span.closed_until)
    period = Period(span.start, span.end)
    return Closed(period, span.hours or 0, span.closed_hours or 0, books, span.checked_until)


def note_of(span: ClosedSpan) -> str:
    """What a reader of its figures must know; empty where all of it is closed."""
    closed = closed_part_of(span)
    return closed.note() if closed else "no hour is closed yet"
