"""Issued invoices: a draft gets a number, is stored whole, and never changes again.

Numbers have no gaps within an issuer and a year (of issue, in the billing zone). What is shown of an issued invoice is
the stored document.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing import audit
from billing.close import stale_hours
from billing.exact import rounded
from billing.invoicing.changes import with_changes
from billing.invoicing.credit_notes import credit_note, creditable, same_note
from billing.invoicing.documents import Invoice, InvoiceError, with_parties
from billing.invoicing.drafts import draft_all, drafts_of
from billing.invoicing.issued import billed_later, issued, standing
from billing.invoicing.month import Books, books_of
from billing.money import minor_digits
from billing.params import period_params
from billing.parties.applied import current_parties
from billing.periods import Period, month_name, whole_hour
from billing.rates import Subject, first_change, rate_card_of
from billing.tenants import closed_with_another
from warehouse.chain import Head, append, head
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.store import Store, read_sql

__all__ = ["Invoice", "InvoiceError", "billed_later", "credit", "draft_all", "issue_all", "issued", "standing", "void"]


def issue_all(store: Store, period: Period, now: datetime, tenant: str | None = None, actor: str = "") -> list[Invoice]:
    """Issues the month's invoices (or one tenant's) that were not issued yet, and answers all of them.

    What nobody named held ('' as tenant) is on no invoice, and a tenant whose month a later invoice has as corrections
    gets no other (`billed_later`). All are written at once: a kill leaves all or none of them
    issued. An invoice that was made void is issued again, under the next number.
    Errors: InvoiceError, before anything is issued, if the month is not over (and its grace) or not closed, if
    allocated time has no price, if a tenant's currency has no exchange rate, or if prices or facts of the month
    changed since the close.
    """
    last = head(store, "invoices")
    done = {one.tenant: one for one in standing(store, period, tenant) if not one.is_credit_note}
    if tenant is not None and tenant in done:
        return [done[tenant]]
    books = books_of(store)
    _refuse_example(books)
    _refuse_open_month(period, books, now)
    later = billed_later(store, period, tenant)
    if tenant is not None and tenant in later:
        where = f"{month_name(period, books.timezone)} of {tenant!r}"
        raise InvoiceError(where, f"is billed on {later[tenant]}", f"See: gpuledger invoice show {later[tenant]}")
    drafts = [
        draft
        for draft in drafts_of(store, period, tenant, books)
        if draft.tenant and draft.tenant not in done and draft.tenant not in later
    ]
    drafts = with_changes(store, drafts)
    if drafts:
        _refuse_unknown_prices(drafts)
        _refuse_unknown_exchange_rates(drafts)
        _refuse_stale_prices(store, period, books)
        _refuse_stale_mapping(store, period, books)
    # What is pushed from now on is judged by a month that is issued; what came before is in the books.
    with store.turn() as held:
        if drafts:
            _refuse_stale_facts(store, period, books)
            _refuse_other_books(store, period, books)
        held.check()
        fresh = _store(store, [draft.document for draft in drafts], last, now, books, actor, "invoice.issue", "")
    return sorted([*done.values(), *fresh], key=lambda invoice: invoice.tenant)


def void(store: Store, number: str, now: datetime, actor: str, reason: str) -> Invoice:
    """Makes an issued invoice or credit note void; its number stays taken. Doing it again changes nothing.

    Errors: InvoiceError if there is none, if no reason is given, or if a later one that stands refers to it.
    """
    import pyarrow as pa

    last = head(store, "voided_invoices")
    invoice = _one(store, number)
    if invoice.is_void:
        return invoice
    if not reason.strip():
        raise InvoiceError(f"invoice {number}", "needs a reason to be voided", "Give a reason")
    for later in standing(store, None, invoice.tenant):
        if any((line.get("reference") or {}).get("invoice") == number for line in later.lines):
            raise InvoiceError(f"invoice {number}", f"{later.number} refers to it", f"Void {later.number} first")
    texts = {"number": number, "author": actor, "reason": reason}
    columns = {name: pa.array([value], pa.string()) for name, value in texts.items()}
    append(store, "voided_invoices", pa.table({**columns, "at": pa.array([now], pa.timestamp("ms", "UTC"))}), last)
    audit.record(store, now, actor, "invoice.void", number, reason)
    return issued(store, number=number)[0]


def credit(store: Store, number: str, amount: Decimal, now: datetime, actor: str, reason: str) -> Invoice:
    """Issues a credit note: an amount in the tenant's favour on an issued invoice, under the next number.

    amount: net, in whole minor units; the invoice's taxes are credited with it, in proportion.
    Errors: InvoiceError if there is no such invoice, if it is void, if more would be credited than is left of it after
    the corrections and credit notes so far, or if one that stands has this amount and reason: it is the same, asked
    for again by somebody who got no answer.
    """
    last = head(store, "invoices")
    invoice = _one(store, number)
    if invoice.is_credit_note:
        raise InvoiceError(f"credit note {number}", "is not an invoice", "To cancel a credit note: invoice void")
    if invoice.is_void:
        raise InvoiceError(f"invoice {number}", "is void; nothing is owed on it")
    if not reason.strip():
        raise InvoiceError(f"invoice {number}", "needs a reason to be credited", "Give a reason")
    digits = minor_digits(invoice.currency)
    if amount <= 0:
        raise InvoiceError("amount", f"found {amount}", f"Give an amount in {invoice.currency} above zero")
    if amount != round(amount, digits):
        raise InvoiceError("amount", f"found {amount}", f"{invoice.currency} has {digits} digits")
    amount = rounded(Fraction(amount), digits)  # 20 is 20.00
    stands = standing(store, None, invoice.tenant)
    left = creditable(invoice, stands)
    if same := same_note(invoice, amount, reason, stands):
        step = f"See: gpuledger invoice show {same}. For another one, give another reason"
        raise InvoiceError(f"invoice {number}", f"{same} credits {amount} {invoice.currency} for this reason", step)
    if amount > left.net:
        raise InvoiceError(
            f"invoice {number}", f"{max(left.net, abs(0 * left.net))} {invoice.currency} of it can still be credited"
        )
    books = books_of(store)
    document = credit_note(invoice, amount, reason, left)
    return _store(store, [document], last, now, books, actor, "invoice.credit", reason)[0]


def _one(store: Store, number: str) -> Invoice:
    found = issued(store, number=number)
    if not number or not found:
        raise InvoiceError(f"invoice {number!r}", "was never issued", "See: gpuledger invoice list")
    return found[0]


def _refuse_example(books: Books) -> None:
    if books.card is not None and books.card.example:
        next_step = "Next: gpuledger rates apply FILE, with your own; it replaces them from the start"
        raise InvoiceError("rate card", "its prices are an example, at which nothing is issued", next_step)


def _refuse_open_month(period: Period, books: Books, now: datetime) -> None:
    month = month_name(period, books.timezone)
    if now < period.end:
        raise InvoiceError(month, f"the month ends at {rfc3339(period.end)}", "Until then: gpuledger invoice draft")
    grace = timedelta(days=books.card.grace_days if books.card else 0)
    if now < period.end + grace:
        raise InvoiceError(
            month,
            f"late records are accepted until {rfc3339(period.end + grace)} (grace_days in the rate card)",
            "Until then: gpuledger invoice draft",
        )
    if books.closed_until < period.end:
        raise InvoiceError(
            month,
            f"the books are closed until {rfc3339(books.closed_until)} only"
            if books.any_closed
            else "nothing is closed",
            f"Run: gpuledger close --until {rfc3339(whole_hour(period.end))}",
        )


def _refuse_unknown_prices(drafts: Sequence[Invoice]) -> None:
    unknown = [f"{draft.tenant} {draft.unpriced_gpu_hours:.2f}" for draft in drafts if draft.unpriced_gpu_hours]
    unknown += [
        f"{draft.tenant} {hours:.2f} of {month}" for draft in drafts for month, hours in draft.unpriced_months.items()
    ]
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise InvoiceError(
            drafts[0].month,
            f"allocated GPU-hours have no price ({', '.join(unknown[:3])}{more})",
            "Add a rate for them (gpuledger ledger --by model,pool shows which), then gpuledger rates apply and close",
        )


def _refuse_unknown_exchange_rates(drafts: Sequence[Invoice]) -> None:
    for draft in drafts:
        payable = draft.document["payable"]
        if payable and payable["amount"] is None:
            months = [draft.month] if payable["rate"] is None else []
            months += [one["month"] for one in payable["corrections"] if one["rate"] is None]
            raise InvoiceError(
                f"{months[0]}, tenant {draft.tenant!r}",
                f"is invoiced in {payable['currency']}, and the rate card has no exchange rate for the month",
                f"Add exchange_rates: [{{month: {months[0]}, currency: {payable['currency']}, rate: ...}}]",
            )


def _refuse_stale_mapping(store: Store, period: Period, books: Books) -> None:
    """The ledger must have been attributed by the tenants' mapping in force."""
    if closed_with_another(store) is not None:
        raise InvoiceError(
            month_name(period, books.timezone),
            "the tenant mapping changed after the last close",
            "Run: gpuledger close",
        )


def _refuse_stale_facts(store: Store, period: Period, books: Books) -> None:
    """What came after the last close would change the month once it is issued, and nobody had agreed to that."""
    rated = rate_card_of(store, books.closed_with) if books.closed_with else None
    stale = [hour for hour in stale_hours(store, books.closed_until, rated) if _lies_in(hour, period)]
    if stale:
        raise InvoiceError(
            month_name(period, books.timezone),
            f"facts of {len(stale)} of its hours arrived after the last close, from {rfc3339(stale[0])} on",
            "Run: gpuledger close, and check the draft again",
        )


def _refuse_other_books(store: Store, period: Period, books: Books) -> None:
    """A close while the drafts are computed leaves some of their lines from before it, and some from after."""
    if books_of(store).version != books.version:
        raise InvoiceError(
            month_name(period, books.timezone),
            "the books were closed again meanwhile",
            "Check the draft, then issue it",
        )


def _lies_in(hour: datetime, period: Period) -> bool:
    return hour < period.end and hour + timedelta(hours=1) > period.start


def _refuse_stale_prices(store: Store, period: Period, books: Books) -> None:
    """The ledger must have been rated at the prices in force, or the next close would contradict the invoice."""
    if books.card is None or not books.closed_with or books.current is None:
        return
    rated = rate_card_of(store, books.closed_with)
    if rated is None or rated.version == books.current.version:
        return
    for row in store.rows(read_sql(__file__, "subjects_held"), period_params(period)):
        if first_change(rated.card, books.card, Subject(**row), period.start, period.end) is not None:
            raise InvoiceError(
                month_name(period, books.timezone),
                f"rate card {books.current.version} changed prices of {row['model']!r} after the last close",
                "Run: gpuledger close",
            )


def _store(
    store: Store,
    drafts: Sequence[Mapping[str, Any]],
    after: Head,
    now: datetime,
    books: Books,
    actor: str,
    action: str,
    reason: str,
) -> list[Invoice]:
    """Stores documents under the issuer's next numbers of the year, all of them at once.

    Errors: TakenError if another issued at the same time; nothing of ours is stored then.
    """
    import pyarrow as pa

    if not drafts:
        return []
    if books.card is None:
        raise InvoiceError(drafts[0]["period"]["month"], "no rate card is in force", "Run: gpuledger rates apply FILE")
    issuer = books.card.issuer
    year = now.astimezone(books.card.zone).year
    prefix = f"{issuer.number_prefix}-{year}-"
    (last,) = store.rows(read_sql(__file__, "last_number"), {"issuer": issuer.name, "year": year, "prefix": prefix})
    if last["rival"]:
        raise InvoiceError(
            f"issuer {issuer.name!r}",
            f"numbers that start with {prefix} belong to {last['rival']!r}",
            "Give issuer.number_prefix another value in the rate card",
        )
    first = last["sequence"] + 1
    parties = current_parties(store)
    day = now.astimezone(books.card.zone).date()
    invoices = [
        Invoice(
            {
                **with_parties(draft, parties, day, issued=True),
                "number": f"{prefix}{sequence:05d}",
                "status": "issued",
                "issued_at": rfc3339(now),
            }
        )
        for sequence, draft in enumerate(drafts, first)
    ]
    count = len(invoices)
    moment = pa.timestamp("ms", "UTC")
    columns = {
        "number": pa.array([one.number for one in invoices], pa.string()),
        "issuer": pa.array([issuer.name] * count, pa.string()),
        "year": pa.array([year] * count, pa.uint32()),
        "sequence": pa.array(range(first, first + count), pa.uint32()),
        "tenant": pa.array([one.tenant for one in invoices], pa.string()),
        "period_start": pa.array([datetime.fromisoformat(one.document["period"]["start"]) for one in invoices], moment),
        "period_end": pa.array([datetime.fromisoformat(one.document["period"]["end"]) for one in invoices], moment),
        "currency": pa.array([one.currency for one in invoices], pa.string()),
        "total": pa.array([one.totals["amount"] for one in invoices], pa.string()),
        "issued_at": pa.array([now] * count, moment),
        "document": pa.array([one.canonical() for one in invoices], pa.string()),
    }
    numbers = [str(one.number) for one in invoices]
    names = ("tenant", "run", "books_run", "rate_card", "references")
    inputs = [{name: one.document.get(name) for name in names} for one in invoices]
    audit.record_all(store, now, actor, action, numbers, reason, inputs)  # first: a document does not say who issued it
    try:
        append(store, "invoices", pa.table(columns), after)
    except LedgerError as error:
        audit.record_all(store, now, actor, f"{action}.failed", numbers, "", [{"error": str(error)}] * count)
        raise
    return invoices
