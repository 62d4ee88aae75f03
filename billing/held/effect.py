"""The effect of a held push on documents: what each tenant would owe for its months before and after, computed on a
copy.

Uses two scratch stores: one ingests the held rows like any others; the other sees both those rows and the store's
facts, and is closed. Only the hours that the rows change are computed; the affected months are computed as for drafts
and corrections, with everything on the rate card.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from billing.close import close
from billing.exact import rounded
from billing.invoicing.corrections import reach_hours
from billing.invoicing.documents import Invoice
from billing.invoicing.invoices import standing
from billing.invoicing.month import Books, books_of, document_of, month_of
from billing.ledger_report import ledger_report
from billing.money import minor_digits
from billing.periods import Period, month_name, parse_month
from billing.rates import ALWAYS_HOURS
from billing.scratch import facts_away
from ingest.held import HeldPush, rows_of, write_rows
from warehouse.store import Store, identifier, read_sql, split_statements

MOST_SECONDS = 120.0
"""What takes longer to compute is not known."""
Check = Callable[[], None]


@dataclass(frozen=True)
class Change:
    """What a tenant owes for a month, before and after, with all that its documents say but corrections of other
    months. tenant: None: what nobody holds; its cost, as that of a tenant without a name, is the ledger's and on no
    document.   issued: by which invoice; empty: not yet.   cost_*: None: no rate card.
    payable_*: where the tenant is invoiced in another currency, at the month's rate; None: it is not, or has no rate.
    """

    month: str
    tenant: str | None
    cost_before: Decimal | None
    cost_after: Decimal | None
    gpu_hours_before: Decimal
    gpu_hours_after: Decimal
    used_gpu_hours_before: Decimal
    used_gpu_hours_after: Decimal
    currency: str | None
    payable_currency: str | None
    payable_difference: Decimal | None
    issued: str

    @property
    def difference(self) -> Decimal:
        return (self.cost_after or Decimal(0)) - (self.cost_before or Decimal(0))


@dataclass(frozen=True)
class Effect:
    """changes: months and tenants whose amounts or GPU-hours differ; none: nothing that is closed would change.
    closed_until: later time is not in the books yet.   known: whether it could be computed in time."""

    changes: tuple[Change, ...]
    closed_until: datetime
    known: bool = True


class _TooLong(Exception):  # noqa: N818 (no error)
    """It takes too long for an interactive request."""


def effect(store: Store, push: HeldPush, most_seconds: float = MOST_SECONDS) -> Effect:
    """What accepting it would change in the closed hours. Errors: IngestError if the push has other rows by now."""
    rows = rows_of(store, push)
    books = books_of(store)
    if not books.any_closed or push.state != "held":
        return Effect((), books.closed_until)
    ends = time.monotonic() + most_seconds

    def check() -> None:
        if time.monotonic() > ends:
            raise _TooLong

    try:
        with store.scratch() as more:
            # Both copies see the same facts, whatever is pushed meanwhile.
            texts = {"main": identifier(store.database)}
            more.command(read_sql(__file__, "batches_before", **texts))
            with _closed(store, more, books, check) as (before, first_until):
                write_rows(more, push, rows)
                with _closed(store, more, books, check) as (after, until):
                    spans = [span for span in (first_until, until) if span is not None]
                    changes = [
                        change
                        for month in _months(spans, _minimum_ends(before, after, books), books)
                        for change in _changes(store, before, after, month, check)
                    ]
    except _TooLong:
        return Effect((), books.closed_until, known=False)
    return Effect(tuple(changes), books.closed_until)


@contextmanager
def _closed(store: Store, more: Store, books: Books, check: Check) -> Iterator[tuple[Store, Period | None]]:
    """The books over the store's facts and these, and from when to when they differ from the store's."""
    with store.scratch() as scratch:
        facts_away(scratch)
        texts = {"main": identifier(store.database), "more": identifier(more.database)}
        for statement in split_statements(read_sql(__file__, "effect", **texts)):
            scratch.command(statement)
        check()
        last = scratch.value("SELECT max(checked_by) AS last FROM closed_hours")
        close(
            scratch,
            books.closed_until,
            books.closed_until,
            on_progress=lambda what, done, total: check(),
            takes_back=False,
        )
        (row,) = scratch.rows(read_sql(__file__, "changed_hours"), {"run": int(last)})
        changed = None if row["first"] is None else Period(row["first"], row["last"] + timedelta(hours=1))
        yield scratch, changed


def _minimum_ends(before: Store, after: Store, books: Books) -> list[datetime]:
    """When sessions ended that are charged the minimum in one of the copies alone: the month in which one ended by what
    was known before need have no other hours."""
    if books.card is None:
        return []
    params = {"minimum_ms": 1000 * books.card.longest_minimum_seconds, "closed_until": books.closed_until}
    sql = read_sql(__file__, "short_sessions", before=identifier(before.database))
    return [row["ended"] for row in after.rows(sql, params)]


def _months(spans: list[Period], minimum_ends: list[datetime], books: Books) -> list[Period]:
    """The months of the billing zone that the changed hours lie in, and those that are computed from these too; and
    those in which sessions ended that are charged the minimum, or are no more."""
    found = {_month_of(ended - timedelta(milliseconds=1), books) for ended in minimum_ends}
    if spans:
        last = max(span.end for span in spans)
        reach = reach_hours(books.card)
        end = books.closed_until if reach >= ALWAYS_HOURS else min(books.closed_until, last + timedelta(hours=reach))
        period = _month_of(min(span.start for span in spans), books)
        while period.start < max(last, end):
            found.add(period)
            period = _month_of(period.end, books)
    return sorted(found, key=lambda month: month.start)


def _month_of(at: datetime, books: Books) -> Period:
    return parse_month(month_name(Period(at, at), books.timezone), books.timezone)


@dataclass(frozen=True)
class _Owed:
    """What a tenant owes for a month.   document: None: of what is on no document."""

    cost: Decimal | None = Decimal(0)
    hours: Decimal = Decimal(0)
    used: Decimal = Decimal(0)
    document: Invoice | None = None


_NOTHING = _Owed()


def _changes(store: Store, before: Store, after: Store, month: Period, check: Check) -> Iterator[Change]:
    books = books_of(after)
    old, new = (_owed(one, month, check) for one in (before, after))
    issued = {one.tenant: one.number or "" for one in standing(store, month) if not one.is_credit_note}
    for tenant in sorted({*old, *new}, key=lambda tenant: (tenant is None, tenant or "")):
        was, is_ = old.get(tenant, _NOTHING), new.get(tenant, _NOTHING)
        if (was.cost, was.hours, was.used) == (is_.cost, is_.hours, is_.used):
            continue
        payable = _payable(is_.document or was.document, (is_.cost or Decimal(0)) - (was.cost or Decimal(0)))
        yield Change(
            month_name(month, books.timezone),
            tenant,
            was.cost,
            is_.cost,
            was.hours,
            is_.hours,
            was.used,
            is_.used,
            books.card.currency if books.card else None,
            *payable,
            issued.get(tenant, "") if tenant is not None else "",
        )


def _payable(document: Invoice | None, difference: Decimal) -> tuple[str | None, Decimal | None]:
    """A difference in the tenant's own currency."""
    payable = document.document["payable"] if document else None
    if not payable:
        return None, None
    rate, currency = payable["rate"], payable["currency"]
    return currency, None if rate is None else rounded(Fraction(difference) * Fraction(rate), minor_digits(currency))


def _owed(store: Store, period: Period, check: Check) -> dict[str | None, _Owed]:
    """By tenant, what it owes for the month by the books, as a correction of the month would compute it."""
    books = books_of(store)
    report = ledger_report(store, period, ("tenant",))
    check()
    used = {
        row["tenant"]: (row["billed_cost"], row["allocated_gpu_hours"], row["used_gpu_hours"]) for row in report.rows
    }
    found: dict[str | None, _Owed] = {
        None: _Owed(report.platform["unallocated_cost"], report.platform["unallocated_gpu_hours"] or Decimal(0))
    }
    if books.card is None:
        return found | {tenant: _Owed(*row) for tenant, row in used.items()}
    month = month_of(store, period, None, books)
    check()
    for tenant in {*used, *month.lines}:
        cost, hours, busy = used.get(tenant, (Decimal(0), Decimal(0), Decimal(0)))
        if tenant:
            document = document_of(tenant, month, books)
            found[tenant] = _Owed(document.known_amount, hours, busy, document)
        else:
            found[tenant] = _Owed(cost, hours, busy)
    return found
