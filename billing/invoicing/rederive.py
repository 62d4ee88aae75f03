"""Recomputes an issued invoice from the raw facts, as they were when it was computed.

In a scratch store beside the books: the batches that the closes of that time had read, the rate card and mapping in
force then, the credits given, and the invoices issued before. The month, and each month recomputed for its corrections,
is closed again, by the closes that had closed it then and with the facts that each of them saw. The document must come
out as stored, byte for byte except for the numbers of the runs, and so must the chain of issued documents of all
tenants. For documents from before they recorded the close they saw (`as_of_run`), only the figures must.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from billing.close import batches_read, close
from billing.invoicing.corrections import reach_hours
from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.drafts import drafts_of
from billing.invoicing.invoices import issued
from billing.invoicing.month import ASSUMED, ESTIMATED, LITTLE, VALIDITIES, books_of
from billing.params import period_params
from billing.periods import Period, parse_month
from billing.rates import ALWAYS_HOURS, rate_card_of
from billing.removed import in_words, removed_days
from billing.scratch import facts_away
from billing.verify import Failure, chain_failures
from warehouse.errors import LedgerError, StoreError
from warehouse.instants import rfc3339
from warehouse.sql import instant_literal
from warehouse.store import Store, identifier, read_sql, split_statements

Progress = Callable[[str, int, int], None]
RUNS = ("run", "books_run", "as_of_run")
"""What differs from run to run and says nothing of the content."""
NEVER = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True)
class Difference:
    """Where the document that was stored differs from the one computed again: a path such as lines[2].amount."""

    where: str
    stored: Any
    computed: Any


@dataclass(frozen=True)
class Rederived:
    """The answer. `cutoff`: what was acknowledged by then counts.   digest: the document's, in the chain.

    differences:    none = the invoice follows from the facts; of a credit note, which is given by hand, there are none.
    chain_failures: documents and voids that do not fit their chain, the first one first.
    unknown:        why it was not computed again: which facts were removed, when, and by whom; empty: it was.
    """

    invoice: Invoice
    cutoff: datetime
    digest: str
    hours: int
    differences: tuple[Difference, ...]
    chain_failures: tuple[Failure, ...]
    unknown: str = ""

    @property
    def same(self) -> bool:
        """Whether it was computed again and came out as stored."""
        return not self.differences and not self.chain_failures and not self.unknown

    @property
    def is_credit_note(self) -> bool:
        return self.invoice.is_credit_note


def rederive(store: Store, number: str, on_progress: Progress | None = None) -> Rederived:
    """Computes an issued invoice again, and walks the chain of the documents.

    Facts that are not there any more, or that make no invoice, are a difference. Errors: InvoiceError if there is no
    such document.
    """
    store.catch_up()
    broken = tuple(chain_failures(store, "invoices", "voided_invoices"))
    try:
        found = issued(store, number=number) if number else []
    except json.JSONDecodeError as error:
        unread = Difference("the document", "issued", f"it is not JSON: {error}")
        return Rederived(Invoice({"number": number}), NEVER, "", 0, (unread,), broken)
    if not found:
        raise InvoiceError(f"invoice {number!r}", "was never issued", "See: gpuledger invoice list")
    invoice = found[0]
    digest = str(store.value("SELECT digest FROM invoices WHERE number = {number:String} LIMIT 1", {"number": number}))
    if invoice.is_credit_note:
        return Rederived(invoice, datetime.fromisoformat(invoice.document["issued_at"]), digest, 0, (), broken)
    closes = _closes(store, invoice)
    if not closes:
        run = Difference("as_of_run", invoice.document.get("as_of_run"), "no such close is recorded")
        return Rederived(invoice, NEVER, digest, 0, (run,), broken)
    gone = [one for one in removed_days(store) if any(one.reaches(p.start, p.end) for p in needed(store, invoice))]
    if gone:
        return Rederived(invoice, closes[-1].cutoff, digest, 0, (), broken, in_words(gone))
    checked = 0
    try:
        again, checked = _computed(store, invoice, closes, on_progress)
        differences = tuple(_differences(_comparable(invoice), _comparable(again), "", _is_of_before(invoice)))
    except StoreError:
        raise
    except LedgerError as error:
        differences = (Difference("the document", "issued", str(error)),)
    return Rederived(invoice, closes[-1].cutoff, digest, checked, differences, broken)


def needed(store: Store, invoice: Invoice) -> list[Period]:
    """The time whose samples an invoice is computed again from."""
    own, *others = _reached(store, invoice, (_period(invoice), *_corrected(invoice)))
    if _takes_at_once(invoice):
        own = Period(min(own.start, _period(invoice).start - timedelta(hours=1)), own.end)
    return [own, *others]


def seen_run(store: Store, invoice: Invoice) -> int:
    """The close whose books a document shows; 0: none is recorded."""
    closes = _closes(store, invoice)
    return max(closes[-1].run, int(invoice.document.get("as_of_run", 0))) if closes else 0


def _computed(
    store: Store, invoice: Invoice, closes: Sequence[_Close], on_progress: Progress | None
) -> tuple[Invoice, int]:
    """The invoice as the facts make it, and from how many hours. Errors: LedgerError if they make none."""
    own, corrected = _period(invoice), _corrected(invoice)
    checked = 0
    with store.scratch() as scratch:
        _prepare(store, scratch, invoice)
        for one in closes:
            _show_facts(store, scratch, one)
            # It goes as far as any close that is recorded there, whatever is asked for.
            checked += close(scratch, one.until, one.until, on_progress=on_progress, takes_back=False).checked
        (again,) = drafts_of(scratch, own, invoice.tenant, books_of(scratch), corrected)
    return again, checked


def _prepare(store: Store, scratch: Store, invoice: Invoice) -> None:
    """Gives the scratch store what people had decided by then, and the books of the hours that are not closed anew."""
    document = invoice.document
    texts = {
        "main": identifier(store.database),
        "issued": instant_literal(datetime.fromisoformat(document["issued_at"])),
        "hours": " OR ".join(_hours(period) for period in needed(store, invoice)),
    }
    facts_away(scratch)
    number = {"number": invoice.number}
    for statement in split_statements(read_sql(__file__, "rederive", **texts)):
        scratch.command(statement, number if "{number:" in statement else None)


def _show_facts(store: Store, scratch: Store, one: _Close) -> None:
    """Shows the scratch store the facts that the close read."""
    texts = {"main": identifier(store.database), "which": _which(store, one)}
    for statement in split_statements(read_sql(__file__, "rederive_facts", **texts)):
        scratch.command(statement)


def _which(store: Store, one: _Close) -> str:
    """The condition on ingest_batches; of a close of before batches were named, it is by the clock."""
    read = batches_read(store, one.run)
    if read is None:
        return f"ingested_at <= {instant_literal(one.cutoff)}"
    others = ", ".join(str(int(run)) for run in read["others"]) or "0"
    main = identifier(store.database)
    return read_sql(__file__, "rederive_named", main=main, last=int(read["last"]), others=others)


def _period(invoice: Invoice) -> Period:
    period = invoice.document["period"]
    return Period(datetime.fromisoformat(period["start"]), datetime.fromisoformat(period["end"]))


def _takes_at_once(invoice: Invoice) -> bool:
    """Whether an idle policy took something at the month's first instant: that was held in the hour before."""
    section = invoice.document.get("idle_reclaims")
    reclaims = section.get("reclaims") if isinstance(section, dict) else None  # it may have been tampered with
    found = [one.get("at") for one in reclaims if isinstance(one, dict)] if isinstance(reclaims, list) else []
    return rfc3339(_period(invoice).start) in found


def _corrected(invoice: Invoice) -> list[Period]:
    """The months that were computed again for its corrections; an older document only lists the corrected ones."""
    document = invoice.document
    corrected = {line["reference"]["month"]: None for line in invoice.lines if line.get("reference")}
    months = document.get("corrected_months", corrected)
    return [parse_month(month, document["period"]["timezone"]) for month in months]


@dataclass(frozen=True)
class _Close:
    """A close of the hours before `until`, which began at `cutoff`. `run`: whose batches it read."""

    run: int
    until: datetime
    cutoff: datetime


def _closes(store: Store, invoice: Invoice) -> list[_Close]:
    """The closes that left the books as the invoice saw them, in their order: each of them took hours that no later one
    of them did; none if none is recorded."""
    sql = "SELECT run, closed_until, ingest_cutoff FROM close_runs FINAL ORDER BY run"
    closes = store.rows(sql)
    if _is_of_before(invoice):
        issued_at = datetime.fromisoformat(invoice.document["issued_at"])
        last = max((row["run"] for row in closes if row["ingest_cutoff"] <= issued_at), default=0)
    else:
        last = int(invoice.document["as_of_run"])
    done = [row for row in closes if row["run"] <= last]
    if not done or done[-1]["run"] < last:  # a close that was killed: the next one finished its work
        done += [{**row, "run": last} for row in closes if row["run"] > last][:1]
    found: list[_Close] = []
    for row in reversed(done):
        if not found or row["closed_until"] > found[-1].until:
            found.append(_Close(row["run"], row["closed_until"], row["ingest_cutoff"]))
    return found[::-1]


def _reached(store: Store, invoice: Invoice, periods: Sequence[Period]) -> list[Period]:
    """The periods, each from where its first session began, as far as the rate card asks for that."""
    applied = rate_card_of(store, str(invoice.document["rate_card"]))
    card = applied.card if applied else None
    reached = []
    for period in periods:
        hours = reach_hours(card)
        start = period.start - timedelta(hours=hours) if hours < ALWAYS_HOURS else _first_start(store, period)
        reached.append(Period(min(start, period.start), period.end))
    return reached


def _first_start(store: Store, period: Period) -> datetime:
    """When the first of the sessions began that held something in the period."""
    first: datetime | None = store.value(read_sql(__file__, "rederive_reach"), period_params(period))
    return first or period.start


def _hours(period: Period) -> str:
    """The whole hours that the period lies in."""
    return f"(hour > {instant_literal(period.start - timedelta(hours=1))} AND hour < {instant_literal(period.end)})"


def _comparable(invoice: Invoice) -> dict[str, Any]:
    """The document without the fields that only issuing sets, and without numbers of runs."""
    own = ("number", "status", "issued_at", "void", "parties", "changes", *RUNS)
    return {name: value for name, value in invoice.document.items() if name not in own}


def _is_of_before(invoice: Invoice) -> bool:
    """Whether it does not record which close it saw. Later versions have changed the wording of some of it."""
    return "as_of_run" not in invoice.document


def as_then(stored: Sequence[str], computed: Sequence[str]) -> Sequence[str]:
    """The computed notes as a document has them that does not tell an estimated end from an assumed device, or that
    says 0.00 of hours that are not zero."""
    zero = {note: note.replace(LITTLE, "0.00", 1) for note in computed if note.startswith(LITTLE)}
    computed = [zero[note] if zero.get(note) in stored else note for note in computed]
    found = {end: _hours_of(computed, end) for end in (ESTIMATED, ASSUMED)}
    before = _hours_of(stored, ESTIMATED)
    if found[ASSUMED] is None or before is None or _hours_of(stored, ASSUMED) is not None:
        return computed
    together = sum((hours for hours in found.values() if hours is not None), Decimal(0))
    if abs(together - before) > Decimal("0.01"):  # each is rounded by itself
        return computed
    return [*(note for note in computed if not note.endswith((ESTIMATED, ASSUMED))), f"{before}{ESTIMATED}"]


def _hours_of(notes: Sequence[str], end: str) -> Decimal | None:
    found = [re.fullmatch(rf"(\d+\.\d\d){re.escape(end)}", note) for note in notes]
    return next((Decimal(one[1]) for one in found if one), None)


WORDS = ("description", "notes", "rule")
"""What a document says beside its figures."""


def _differences(stored: Any, computed: Any, where: str, figures: bool = False) -> Iterable[Difference]:
    """figures: those alone, as far as they are stored."""
    if isinstance(stored, dict) and isinstance(computed, dict):
        for name in dict.fromkeys((*stored, *computed)):
            if name in (*VALIDITIES, "idle_reclaims") and name not in stored:
                continue  # a document of before lines said when their prices hold, or it what idle policies gave back
            if figures and (name not in stored or name in WORDS):
                continue
            now = computed.get(name)
            if name == "notes" and stored.get(name) and now:
                now = as_then(stored[name], now)
            yield from _differences(stored.get(name), now, f"{where}.{name}" if where else name, figures)
    elif isinstance(stored, list) and isinstance(computed, list) and len(stored) == len(computed):
        for number, (one, other) in enumerate(zip(stored, computed, strict=True)):
            yield from _differences(one, other, f"{where}[{number}]", figures)
    elif stored != computed and not (stored == f"-{computed}" and set(computed) <= set("0.")):  # of before: -0.00
        yield Difference(where, stored, computed)
