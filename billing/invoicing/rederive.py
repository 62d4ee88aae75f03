"""An issued invoice computed again from the raw facts, as they were when it was computed.

In a scratch store beside the books: the batches that had been ingested by then, the rate card and mapping that were in
force, the credits given, and the invoices issued before. The month, and each month that it corrects, is closed anew;
the document must come out as it was stored, byte for byte but for the numbers of the runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from string import Template
from typing import Any

from billing.close import close
from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.drafts import books_of, drafts_of
from billing.invoicing.invoices import issued
from billing.periods import Period, parse_month
from warehouse.store import Store, identifier, read_sql, split_statements

Progress = Callable[[str, int, int], None]
RUNS = ("run", "books_run")
"""What differs from run to run and says nothing of the content."""


@dataclass(frozen=True)
class Difference:
    """Where the document that was stored differs from the one computed again: a path such as lines[2].amount."""

    where: str
    stored: Any
    computed: Any


@dataclass(frozen=True)
class Rederived:
    """The answer: no differences = the invoice follows from the facts. `cutoff`: facts ingested until then count."""

    invoice: Invoice
    cutoff: datetime
    hours: int
    differences: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        return not self.differences


def rederive(store: Store, number: str, on_progress: Progress | None = None) -> Rederived:
    """Computes an issued invoice again. Errors: InvoiceError if there is none, or if it is a credit note."""
    found = issued(store, number=number) if number else []
    if not found:
        raise InvoiceError(f"invoice {number!r}", "was never issued", "See: gpuledger invoice list")
    invoice = found[0]
    if invoice.is_credit_note:
        what = f"is a credit note on {invoice.document['references']}, given by hand"
        raise InvoiceError(f"invoice {number}", what, "See: gpuledger audit")
    periods = [_period(invoice), *_corrected(store, invoice)]
    cutoff = _cutoff(store, invoice)
    until = min(books_of(store).closed_until, max(period.end for period in periods))
    issued_at = datetime.fromisoformat(invoice.document["issued_at"])
    with store.scratch() as scratch:
        texts = {
            "main": identifier(store.database),
            "cutoff": _instant(cutoff),
            "issued": _instant(issued_at),
            "hours": " OR ".join(_hours(period) for period in periods),
            "start": _instant(periods[0].start),
        }
        for statement in split_statements(Template(read_sql(__file__, "rederive")).substitute(texts)):
            scratch.command(statement)
        report = close(scratch, until, until, on_progress=on_progress)
        (again,) = drafts_of(scratch, periods[0], invoice.tenant, books_of(scratch))
    differences = tuple(_differences(_comparable(invoice), _comparable(again), ""))
    return Rederived(invoice, cutoff, report.checked, differences)


def _period(invoice: Invoice) -> Period:
    period = invoice.document["period"]
    return Period(datetime.fromisoformat(period["start"]), datetime.fromisoformat(period["end"]))


def _corrected(store: Store, invoice: Invoice) -> list[Period]:
    months = {line["reference"]["month"] for line in invoice.lines if line.get("reference")}
    return [parse_month(month, invoice.document["period"]["timezone"]) for month in sorted(months)]


def _cutoff(store: Store, invoice: Invoice) -> datetime:
    """Until when facts had been ingested that the books of the invoice were computed from."""
    run = invoice.document.get("books_run") or invoice.document["run"]
    sql = "SELECT ingest_cutoff FROM close_runs FINAL WHERE run >= {run:UInt64} ORDER BY run LIMIT 1"
    rows = store.rows(sql, {"run": int(run)})
    if not rows:
        raise InvoiceError(f"invoice {invoice.number}", f"the run {run} that closed its books is not recorded")
    cutoff: datetime = rows[0]["ingest_cutoff"]
    return cutoff


def _hours(period: Period) -> str:
    """The whole hours that the period lies in."""
    return f"(hour > {_instant(period.start - timedelta(hours=1))} AND hour < {_instant(period.end)})"


def _instant(at: datetime) -> str:
    return f"toDateTime64('{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}', 3, 'UTC')"


def _comparable(invoice: Invoice) -> dict[str, Any]:
    """The document without what only the act of issuing gives it, and without the numbers of runs."""
    own = ("number", "status", "issued_at", "void", *RUNS)
    return {name: value for name, value in invoice.document.items() if name not in own}


def _differences(stored: Any, computed: Any, where: str) -> Iterable[Difference]:
    if isinstance(stored, dict) and isinstance(computed, dict):
        for name in dict.fromkeys((*stored, *computed)):
            yield from _differences(stored.get(name), computed.get(name), f"{where}.{name}" if where else name)
    elif isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        for number, (one, other) in enumerate(zip(stored, computed, strict=True)):
            yield from _differences(one, other, f"{where}[{number}]")
    elif stored != computed:
        yield Difference(where, stored, computed)
