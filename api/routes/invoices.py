"""Invoices: drafts, issued ones, credit notes; months and what they wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from api.caller import Caller, Issue, MonthText, See, SeeFleet, Tenant
from api.downloads import attachment
from api.heavy import HEAVY
from api.paging import Limit, Offset, Page, page_of
from api.problems import NotFoundError
from api.strict import Body, ReasonText, StrictRoute
from billing.accounts.credits import parse_amount
from billing.documents.invoice_files import RENDER, file_stem
from billing.invoicing import invoices
from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.drafts import draft_all
from billing.invoicing.explain import explain
from billing.invoicing.month import platform_costs
from billing.invoicing.month_states import month_states
from billing.invoicing.rederive import rederive
from billing.periods import Period
from gpuledger import documents
from warehouse.json_values import as_json
from warehouse.store import Store

router = APIRouter(tags=["invoices"], route_class=StrictRoute)
MEDIA = {"html": "text/html; charset=utf-8", "pdf": "application/pdf", "csv": "text/csv; charset=utf-8",
         "json": "application/json"}  # fmt: skip
DOCUMENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; frame-ancestors 'none'"


class Reason(Body):
    reason: ReasonText


class Issued(Body):
    month: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}$")]
    tenant: str | None = None


class CreditNote(Reason):
    amount: Annotated[str, Field(max_length=40, description="Net, in the invoice's currency, such as 25.00.")]


@router.get("/invoices")
def list_invoices(
    request: Request,
    caller: See,
    month: str | None = None,
    tenant: Tenant = None,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[documents.InvoiceHead]:
    """Issued invoices and credit notes, in the order of their numbers."""
    found = invoices.issued(caller.store, caller.month(month) if month else None, caller.check_tenant(tenant))
    return page_of(request, found, _head, limit, offset)


@router.get("/drafts", dependencies=[HEAVY])
def drafts(
    request: Request, caller: See, month: MonthText, tenant: Tenant = None, limit: Limit = 100, offset: Offset = 0
) -> Page[documents.InvoiceDocument]:
    """Drafts: what tenants owe for a month by the current ledger; changes nothing."""
    who = caller.principal
    asked = [caller.check_tenant(tenant)] if tenant is not None or who.sees_all else sorted(who.tenants)
    # From the whole store: what a pool's idle time costs one depends on what the others held.
    with caller.whole_store() as store:
        found = [draft for one in asked for draft in _drafts(store, caller.month(month), one, one != tenant)]
    found = [one for one in found if who.sees(one.tenant)]
    return page_of(request, found, lambda one: documents.InvoiceDocument(**one.document), limit, offset)


@router.get("/invoices/{number}")
def show(caller: See, number: str) -> documents.InvoiceDocument:
    """An issued invoice or credit note, as it was stored."""
    return documents.InvoiceDocument(**_issued(caller, number).document)


@router.get("/invoices/{number}/proof", dependencies=[HEAVY])
def prove(caller: SeeFleet, number: str) -> documents.InvoiceProof:
    """An issued document computed again from the raw facts of its time, and the chain of all of them walked."""
    _issued(caller, number)
    with caller.whole_store() as store:
        found = rederive(store, number)
    return documents.InvoiceProof(
        number=number, same=found.same, is_credit_note=found.is_credit_note, cutoff=found.cutoff,
        hours=found.hours, digest=found.digest, chain_failures=[str(one) for one in found.chain_failures],
        unknown=found.unknown,
        differences=[
            documents.InvoiceDifference(where=one.where, stored=as_json(one.stored), computed=as_json(one.computed))
            for one in found.differences
        ],
    )  # fmt: skip


@router.get(
    "/invoices/{number}/file", response_class=Response, responses={200: {"content": {m: {} for m in MEDIA.values()}}}
)
def file(
    caller: See, number: str, format: Annotated[Literal["html", "pdf", "csv", "json"], Query()] = "pdf"
) -> Response:
    """The same as a file."""
    one = _issued(caller, number)
    headers = {
        "Content-Disposition": attachment(f"{file_stem(one)}.{format}"),
        "Content-Security-Policy": DOCUMENT_POLICY,
    }
    return Response(RENDER[format](one), media_type=MEDIA[format], headers=headers)


@router.get("/invoices/{number}/lines/{line}")
def explain_line(caller: See, number: str, line: int, by_hour: bool = False) -> documents.Explanation:
    """Which rule made a line, and from which allocations and hours."""
    one = _issued(caller, number)
    if not 1 <= line <= len(one.lines):
        raise NotFoundError(f"invoice {number}, line {line}", "no such line", f"It has lines 1 to {len(one.lines)}")
    found = explain(caller.store, one, line, by_hour)
    return documents.Explanation(
        line=as_json(dict(found.line)),
        formula=found.formula,
        rate_card=found.rate_card,
        rules=[as_json(dict(rule)) for rule in found.rules],
        rows=[as_json(dict(row)) for row in found.rows],
    )


@router.post("/invoices", status_code=201)
def issue(caller: Issue, asked: Issued) -> list[documents.InvoiceHead]:
    """Numbers a closed month's invoices and stores them for good; those that were issued already stay as they are."""
    with caller.writing() as store:
        done = invoices.issue_all(store, caller.month(asked.month), caller.now, asked.tenant, caller.principal.actor)
    return [_head(one) for one in done]


@router.post("/invoices/{number}/void")
def void(caller: Issue, number: str, why: Reason) -> documents.InvoiceDocument:
    """Makes an issued invoice void; its number stays taken, and the month can be issued again."""
    _issued(caller, number)
    with caller.writing() as store:
        gone = invoices.void(store, number, caller.now, caller.principal.actor, why.reason)
    return documents.InvoiceDocument(**gone.document)


@router.post("/invoices/{number}/credit", status_code=201)
def credit(caller: Issue, number: str, note: CreditNote) -> documents.InvoiceDocument:
    """Issues a credit note on an issued invoice, with the taxes that were asked on the amount."""
    _issued(caller, number)
    with caller.writing() as store:
        amount = parse_amount(note.amount)
        made = invoices.credit(store, number, amount, caller.now, caller.principal.actor, note.reason)
    return documents.InvoiceDocument(**made.document)


@router.get("/months")
def months(caller: See) -> list[documents.Month]:
    """Where each month stands: open, closing, closed, partly_issued or issued, for the tenants that you see."""
    with caller.whole_store() as store:
        found = month_states(store, caller.now, caller.principal.sees)
    return [
        documents.Month(
            month=one.name, start=one.period.start, end=one.period.end, state=one.state.value, closes_at=one.closes_at,
            invoices=one.invoices, tenants=one.tenants,
        )
        for one in found
    ]  # fmt: skip


@router.get("/platform")
def platform(caller: SeeFleet, month: MonthText) -> list[documents.PoolCost]:
    """What the month's unallocated time cost, by pool, and who bears it."""
    return [
        documents.PoolCost(
            pool=cost.pool, policy=cost.share, unallocated_gpu_hours=cost.unallocated_gpu_hours,
            unpriced_gpu_hours=cost.unpriced_gpu_hours, cost=cost.unallocated, shared=cost.unallocated - cost.kept,
            kept=cost.kept,
        )
        for cost in platform_costs(caller.store, caller.month(month))
    ]  # fmt: skip


def _drafts(store: Store, month: Period, tenant: str | None, may_be_none: bool) -> Sequence[Invoice]:
    """Errors: InvoiceError if the tenant owes nothing, unless there may be none."""
    try:
        return draft_all(store, month, tenant)
    except InvoiceError as error:
        if may_be_none and error.where == f"tenant {tenant!r}":
            return []
        raise


def _issued(caller: Caller, number: str) -> Invoice:
    """Errors: NotFoundError also for another tenant's document, so that nobody can probe which numbers exist."""
    found = invoices.issued(caller.store, number=number) if number else []
    if not found or not caller.principal.sees(found[0].tenant):
        raise NotFoundError(f"invoice {number!r}", "was never issued", "See: /api/v1/invoices")
    return found[0]


def _head(one: Invoice) -> documents.InvoiceHead:
    document: dict[str, Any] = dict(one.document)
    return documents.InvoiceHead(
        number=one.number,
        tenant=one.tenant,
        month=one.month,
        document_type=document.get("document_type", "invoice"),
        status=document["status"],
        amount=one.amount,
        currency=one.currency,
        issued_at=document.get("issued_at"),
    )
