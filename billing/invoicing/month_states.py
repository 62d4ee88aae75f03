"""The state of each month: open, closing (in its grace period, or with open hours), closed, or issued."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from billing.closed import closed_period
from billing.invoicing.invoices import standing
from billing.invoicing.month import books_of
from billing.periods import Period, month_name, parse_month
from warehouse.store import Store


class MonthState(StrEnum):
    """open: not over; closing: late records still change its drafts; closed: it can be issued; issued: it was, and late
    records become corrections in the next month."""

    open = "open"
    closing = "closing"
    closed = "closed"
    issued = "issued"


@dataclass(frozen=True)
class Month:
    """A month of the billing zone. `closes_at`: when its grace ends. `invoices`: issued and not void."""

    name: str
    period: Period
    state: MonthState
    closes_at: datetime
    invoices: int


def month_states(store: Store, now: datetime) -> list[Month]:
    """From the first closed hour's month until the current one, in order; none before anything was closed."""
    books = books_of(store)
    known = closed_period(store)
    if known is None:
        return []
    grace = timedelta(days=books.card.grace_days if books.card else 0)
    issued: dict[str, int] = {}
    for invoice in standing(store):
        if not invoice.is_credit_note:
            issued[invoice.month] = issued.get(invoice.month, 0) + 1
    months = []
    for period in _months(known, now, books.timezone):
        name = month_name(period, books.timezone)
        if now < period.end:
            state = MonthState.open
        elif issued.get(name):
            state = MonthState.issued
        elif now < period.end + grace or books.closed_until < period.end:
            state = MonthState.closing
        else:
            state = MonthState.closed
        months.append(Month(name, period, state, period.end + grace, issued.get(name, 0)))
    return months


def _months(known: Period, now: datetime, timezone: str) -> Iterator[Period]:
    period = parse_month(month_name(known, timezone), timezone)
    while period.start < max(now, known.end):
        yield period
        period = parse_month(month_name(Period(period.end, period.end), timezone), timezone)
