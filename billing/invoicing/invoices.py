"""Issued invoices: a draft gets a number, is stored whole, and never changes again.

Numbers have no gaps within an issuer and a year (of issue, in the billing zone). What is shown of an issued invoice is
the stored document.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime

from billing.invoicing.drafts import Books, Invoice, InvoiceError, books_of, draft_all, drafts_of, instant, span, whom
from billing.periods import Period, month_name
from billing.rates import Subject, first_change, rate_card_of
from warehouse.store import Store, read_sql

__all__ = ["Invoice", "InvoiceError", "draft_all", "issue_all", "issued"]

ALWAYS = Period(datetime(1971, 1, 1, tzinfo=UTC), datetime(2299, 1, 1, tzinfo=UTC))


def issued(store: Store, period: Period | None = None, tenant: str | None = None, number: str = "") -> list[Invoice]:
    """The issued invoices whose period touches `period`, in the order of their numbers."""
    params = {**span(period or ALWAYS), **whom(tenant), "number": number}
    return [Invoice(json.loads(row["document"])) for row in store.rows(read_sql(__file__, "issued_invoices"), params)]


def issue_all(store: Store, period: Period, now: datetime, tenant: str | None = None) -> list[Invoice]:
    """Issues the month's invoices (or one tenant's) that were not issued yet, and answers all of them.

    What nobody named held ('' as tenant) is on no invoice. Each invoice is one row, written whole: a kill leaves some
    of them issued, and running it again issues the rest with the numbers that follow.
    Errors: InvoiceError, before anything is issued, if the month is not over or not closed, if allocated time has no
    price, or if prices changed since the last close.
    """
    done = {invoice.tenant: invoice for invoice in issued(store, period, tenant)}
    if tenant is not None and tenant in done:
        return [done[tenant]]
    books = books_of(store)
    _refuse_open_month(period, books, now)
    drafts = [
        draft for draft in drafts_of(store, period, tenant, books) if draft.tenant not in done and draft.tenant != ""
    ]
    if drafts:
        _refuse_unknown_prices(drafts)
        _refuse_stale_prices(store, period, books)
    fresh = [_issue(store, draft, now, books) for draft in drafts]
    return sorted([*done.values(), *fresh], key=lambda invoice: invoice.tenant)


def _refuse_open_month(period: Period, books: Books, now: datetime) -> None:
    month = month_name(period, books.timezone)
    if now < period.end:
        raise InvoiceError(month, f"the month ends at {instant(period.end)}", "Until then: gpuledger invoice draft")
    if books.closed_until < period.end:
        raise InvoiceError(
            month,
            f"the books are closed until {instant(books.closed_until)} only"
            if books.any_closed
            else "nothing is closed",
            f"Run: gpuledger close --until {instant(period.end)}",
        )


def _refuse_unknown_prices(drafts: Sequence[Invoice]) -> None:
    unknown = [f"{draft.tenant} {draft.unpriced_gpu_hours:.2f}" for draft in drafts if draft.unpriced_gpu_hours]
    if unknown:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise InvoiceError(
            drafts[0].month,
            f"allocated GPU-hours have no price ({', '.join(unknown[:3])}{more})",
            "Add a rate for them (gpuledger ledger --by model,pool shows which), then gpuledger rates apply and close",
        )


def _refuse_stale_prices(store: Store, period: Period, books: Books) -> None:
    """The ledger must have been rated at the prices in force, or the next close would contradict the invoice."""
    if books.card is None or not books.closed_with or books.current is None:
        return
    rated = rate_card_of(store, books.closed_with)
    if rated is None or rated.version == books.current.version:
        return
    for row in store.rows(read_sql(__file__, "subjects_held"), span(period)):
        if first_change(rated.card, books.card, Subject(**row), period.start, period.end) is not None:
            raise InvoiceError(
                month_name(period, books.timezone),
                f"rate card {books.current.version} changed prices of {row['model']!r} after the last close",
                "Run: gpuledger close",
            )


def _issue(store: Store, draft: Invoice, now: datetime, books: Books) -> Invoice:
    """Stores the draft under the issuer's next number of the year. Errors: InvoiceError if another took it too."""
    import pyarrow as pa

    if books.card is None:
        raise InvoiceError(draft.month, "no rate card is in force", "Run: gpuledger rates apply FILE")
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
    sequence = last["sequence"] + 1
    invoice = Invoice(
        {**draft.document, "number": f"{prefix}{sequence:05d}", "status": "issued", "issued_at": instant(now)}
    )
    period = invoice.document["period"]
    columns = {
        "number": pa.array([invoice.number], pa.string()),
        "issuer": pa.array([issuer.name], pa.string()),
        "year": pa.array([year], pa.uint32()),
        "sequence": pa.array([sequence], pa.uint32()),
        "tenant": pa.array([invoice.tenant], pa.string()),
        "period_start": pa.array([datetime.fromisoformat(period["start"])], pa.timestamp("ms", "UTC")),
        "period_end": pa.array([datetime.fromisoformat(period["end"])], pa.timestamp("ms", "UTC")),
        "currency": pa.array([invoice.currency], pa.string()),
        "total": pa.array([invoice.totals["amount"]], pa.string()),
        "issued_at": pa.array([now], pa.timestamp("ms", "UTC")),
        "document": pa.array([invoice.canonical()], pa.string()),
    }
    store.insert("invoices", pa.table(columns))
    key = {"issuer": issuer.name, "year": year, "sequence": sequence}
    stored = [row["document"] for row in store.rows(read_sql(__file__, "documents_of_number"), key)]
    if stored != [invoice.canonical()]:
        raise InvoiceError(
            f"invoice {invoice.number}", "another process issued at the same time", "Run the same command again"
        )
    return invoice
