"""What a held push would do to the books: each tenant's months before and after, computed on a copy.

Two scratch stores beside the store: one takes the held rows by the same way as any others; the other sees both it and
the store's facts, and is closed. Only the hours that the rows change are computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from string import Template

from billing.close import close
from billing.invoicing.drafts import Books, books_of
from billing.invoicing.invoices import standing
from billing.ledger_report import LedgerReport, billing_timezone, ledger_report
from billing.periods import Period, month_name, parse_month
from billing.scratch import facts_away
from ingest.held import HeldPush, rows_of, write_rows
from warehouse.store import Store, identifier, read_sql, split_statements


@dataclass(frozen=True)
class Change:
    """What a tenant's month costs in the ledger, before and after. tenant: None: what nobody holds.   issued: by which
    invoice; empty: not yet.   cost_*: None: no price is known."""

    month: str
    tenant: str | None
    cost_before: Decimal | None
    cost_after: Decimal | None
    gpu_hours_before: Decimal
    gpu_hours_after: Decimal
    currency: str | None
    issued: str

    @property
    def difference(self) -> Decimal:
        return (self.cost_after or Decimal(0)) - (self.cost_before or Decimal(0))


@dataclass(frozen=True)
class Effect:
    """changes: months and tenants whose cost or GPU-hours differ; none: nothing that is closed would change.
    closed_until: what comes after is not in the books yet."""

    changes: tuple[Change, ...]
    closed_until: datetime


def effect(store: Store, push: HeldPush) -> Effect:
    """What a yes would change in the closed hours. Errors: IngestError if the push has other rows by now."""
    rows = rows_of(store, push)
    books = books_of(store)
    if not books.any_closed or push.state != "held":
        return Effect((), books.closed_until)
    with store.scratch() as more, _closed(store, more, books) as (before, first_until):
        write_rows(more, push, rows)
        with _closed(store, more, books) as (after, until):
            spans = [span for span in (first_until, until) if span is not None]
            changes = [change for month in _months(spans, books) for change in _changes(store, before, after, month)]
    return Effect(tuple(changes), books.closed_until)


@contextmanager
def _closed(store: Store, more: Store, books: Books) -> Iterator[tuple[Store, Period | None]]:
    """The books over the store's facts and these, and from when to when they differ from the store's."""
    with store.scratch() as scratch:
        facts_away(scratch)
        texts = {"main": identifier(store.database), "more": identifier(more.database)}
        for statement in split_statements(Template(read_sql(__file__, "effect")).substitute(texts)):
            scratch.command(statement)
        last = scratch.value("SELECT max(checked_by) AS last FROM closed_hours")
        close(scratch, books.closed_until, books.closed_until)
        (row,) = scratch.rows(read_sql(__file__, "changed_hours"), {"run": int(last)})
        changed = None if row["first"] is None else Period(row["first"], row["last"] + timedelta(hours=1))
        yield scratch, changed


def _months(spans: list[Period], books: Books) -> Iterator[Period]:
    """The months of the billing zone that the changed hours lie in."""
    if not spans:
        return
    period = parse_month(month_name(min(spans, key=lambda span: span.start), books.timezone), books.timezone)
    while period.start < max(span.end for span in spans):
        yield period
        period = parse_month(month_name(Period(period.end, period.end), books.timezone), books.timezone)


def _changes(store: Store, before: Store, after: Store, month: Period) -> Iterator[Change]:
    was, is_ = (ledger_report(one, month, ("tenant",)) for one in (before, after))
    name = month_name(month, billing_timezone(before))
    issued = {one.tenant: one.number or "" for one in standing(store, month) if not one.is_credit_note}
    old, new = _by_tenant(was), _by_tenant(is_)
    for tenant in sorted({*old, *new}, key=lambda tenant: (tenant is None, tenant or "")):
        cost_before, hours_before = old.get(tenant, _NOTHING)
        cost_after, hours_after = new.get(tenant, _NOTHING)
        if (cost_before, hours_before) != (cost_after, hours_after):
            yield Change(
                name,
                tenant,
                cost_before,
                cost_after,
                hours_before,
                hours_after,
                is_.currency or was.currency,
                issued.get(tenant, "") if tenant is not None else "",
            )


_NOTHING: tuple[Decimal | None, Decimal] = (Decimal(0), Decimal(0))


def _by_tenant(report: LedgerReport) -> dict[str | None, tuple[Decimal | None, Decimal]]:
    found: dict[str | None, tuple[Decimal | None, Decimal]] = {
        row["tenant"]: (row["billed_cost"], row["allocated_gpu_hours"]) for row in report.rows
    }
    found[None] = report.platform["unallocated_cost"], report.platform["unallocated_gpu_hours"]
    return found
