"""Drafts: what a tenant owes for a month, with corrections of earlier months, and what grants pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zoneinfo import ZoneInfo

from billing.accounts.prepaid import draw_down
from billing.invoicing.changes import with_changes
from billing.invoicing.corrections import corrections_of
from billing.invoicing.documents import Invoice, InvoiceError, text, with_parties
from billing.invoicing.idle_reclaims import with_idle_reclaims
from billing.invoicing.month import Books, books_of, document_of, month_of, paid_by
from billing.parties.applied import current_parties
from billing.periods import Period
from warehouse.store import Store


def draft_all(store: Store, period: Period, tenant: str | None = None) -> list[Invoice]:
    """What the ledger says now: a draft for each tenant that owes something for the month (or for one of them).

    It has the parties' details of the day after the month.

    Errors: InvoiceError if `tenant` owes nothing.
    """
    books, parties = books_of(store), current_parties(store)
    day = period.end.astimezone(ZoneInfo(books.timezone)).date()
    drafts = with_changes(store, drafts_of(store, period, tenant, books))
    return [replace(draft, document=with_parties(draft.document, parties, day)) for draft in drafts]


def drafts_of(
    store: Store, period: Period, tenant: str | None, books: Books, corrected: Sequence[Period] | None = None
) -> list[Invoice]:
    """corrected: the months before it to compute again; None: those that may have changed."""
    month = month_of(store, period, tenant, books)
    corrections = corrections_of(store, period, tenant, books, corrected)
    owing = sorted({*month.lines, *corrections.lines, *corrections.unpriced})
    if tenant is not None and not owing:
        raise InvoiceError(f"tenant {tenant!r}", f"has no allocations in {month.name}", "See: gpuledger ledger")
    drafts = [document_of(name, month, books, corrections) for name in owing]
    drafts = with_idle_reclaims(store, drafts, period, books.closed_until, books.last_run)
    prepaying = {row["tenant"] for row in store.rows("SELECT DISTINCT tenant FROM grants")}
    return [_prepaid(store, draft, period) if draft.tenant in prepaying else draft for draft in drafts]


def _prepaid(store: Store, draft: Invoice, period: Period) -> Invoice:
    """The draft with what the tenant's grants pay of it."""
    draws = draw_down(store, draft.tenant, period.end, draft.amount, draft.currency)
    paid = sum((draw.amount for draw in draws), 0 * draft.amount)
    return paid_by(draft, paid, [{"grant": draw.grant_id, "amount": text(draw.amount)} for draw in draws])
