"""The state of each month: open, closing (in its grace, or with open hours), closed, partly issued, or issued."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from billing.closed import closed_period
from billing.invoicing.issued import billed, later_bills
from billing.invoicing.month import Books, books_of
from billing.params import period_params
from billing.periods import Period, month_name, parse_month
from billing.rates.policies import in_force
from warehouse.store import Store, read_sql


class MonthState(StrEnum):
    """open: not over; closing: late records still change its drafts; closed: it can be issued; partly_issued: some
    tenants have no invoice yet; issued: all have one, and late records become corrections in the next month."""

    open = "open"
    closing = "closing"
    closed = "closed"
    partly_issued = "partly_issued"
    issued = "issued"


@dataclass(frozen=True)
class Month:
    """A month of the billing zone. `closes_at`: when its grace ends. `invoices`: issued and not void. `tenants`: how
    many have one or owe one, other than on a later month's invoice; None until the month is over."""

    name: str
    period: Period
    state: MonthState
    closes_at: datetime
    invoices: int
    tenants: int | None = None


def month_states(store: Store, now: datetime, sees: Callable[[str], bool] = lambda tenant: True) -> list[Month]:
    """From the first closed hour's month, or the first invoice's, until the current one, in order; none before anything
    was closed.

    sees: which tenants count.
    """
    books = books_of(store)
    known = closed_period(store)
    if known is None:
        return []
    grace = timedelta(days=books.card.grace_days if books.card else 0)
    invoices = [one for one in billed(store) if sees(one.tenant)]
    invoiced: dict[str, set[str]] = {}
    for one in invoices:
        invoiced.setdefault(one.month, set()).add(one.tenant)
    correcting = [one for one in invoices if one.corrected]
    months = []
    starts = (known.start, *(parse_month(month, books.timezone).start for month in invoiced))
    for period in _months(Period(min(starts), known.end), now, books.timezone):
        name = month_name(period, books.timezone)
        done = invoiced.get(name, set())
        if now < period.end:
            months.append(Month(name, period, MonthState.open, period.end + grace, len(done)))
            continue
        settled = done | later_bills(correcting, period).keys()
        owing = {tenant for tenant in _owing(store, period, name, books, settled) if sees(tenant)}
        if done and not owing:
            state = MonthState.issued
        elif now < period.end + grace or books.closed_until < period.end:
            state = MonthState.closing
        else:
            state = MonthState.partly_issued if done else MonthState.closed
        months.append(Month(name, period, state, period.end + grace, len(done), len(done) + len(owing)))
    return months


def _owing(store: Store, period: Period, name: str, books: Books, billed: Set[str]) -> set[str]:
    """The tenants of the month's drafts that are not billed; one with a correction of another month alone is not among
    them."""
    params = {**period_params(period), "month": name, "billed": sorted(billed)}
    rows = store.rows(read_sql(__file__, "month_tenants"), params)
    committed = in_force(books.card.commitments, name) if books.card else []
    return ({row["tenant"] for row in rows} | {one.tenant for one in committed}) - billed


def _months(known: Period, now: datetime, timezone: str) -> Iterator[Period]:
    period = parse_month(month_name(known, timezone), timezone)
    while period.start < max(now, known.end):
        yield period
        period = parse_month(month_name(Period(period.end, period.end), timezone), timezone)
