"""Rate cards, the tenant mapping, budgets; and credits and prepaid balances."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field

from api.caller import Issue, See, SeeFleet, Tenant
from api.paging import Limit, Offset, Page, page_of
from api.problems import NotFoundError
from api.strict import Body, ReasonText, StrictRoute
from api.values import aware
from billing.accounts.budget_file import current_budgets
from billing.accounts.budgets import budget_states
from billing.accounts.credits import (
    Credit,
    StoredCredit,
    add_credit,
    card_in_force,
    list_credits,
    parse_amount,
    reverse_credit,
)
from billing.accounts.prepaid import Grant, add_grant, balances, grant_id, grants_of, revoke_grant
from billing.ledger_report import billing_timezone
from billing.periods import Period, month_name, parse_month
from billing.rates import current_rate_card, history, list_rates, rate_card_of
from billing.tenants import current_mapping
from gpuledger import documents
from warehouse.store import read_sql

router = APIRouter(route_class=StrictRoute)


class NewCredit(Body):
    """amount: in the tenant's favour; negative: against it.   id: the same twice is added once."""

    tenant: Annotated[str, Field(min_length=1, max_length=300)]
    month: Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}$")]
    amount: Annotated[str, Field(max_length=40)]
    reason: ReasonText
    project: str = ""
    currency: str = ""
    id: str = ""


class NewGrant(Body):
    """expires_at: it pays for what accrues before.   starts_at: by default this month's start.   id: the same twice is
    granted once."""

    tenant: Annotated[str, Field(min_length=1, max_length=300)]
    amount: Annotated[str, Field(max_length=40)]
    expires_at: datetime
    starts_at: datetime | None = None
    reason: ReasonText
    currency: str = ""
    id: Annotated[str, Field(max_length=100)] = ""


class Why(Body):
    reason: ReasonText


@router.get("/rates", tags=["rates"])
def rates(caller: See) -> list[documents.Rate]:
    """The rules of the rate card in force. A tenant sees the list prices and its own."""
    return [
        documents.Rate(**{name: row[name] for name in documents.Rate.model_fields})
        for row in list_rates(caller.store)
        if caller.principal.sees_all
        or row["tenant"] is None
        or any(fnmatchcase(tenant, row["tenant"]) for tenant in caller.principal.tenants)
    ]


@router.get("/rates/cards", tags=["rates"])
def cards(request: Request, caller: SeeFleet, limit: Limit = 100, offset: Offset = 0) -> Page[documents.AppliedVersion]:
    """Every rate card that was applied."""
    found = history(caller.store)
    return page_of(request, found, documents.AppliedVersion.model_validate, limit, offset)


@router.get("/rates/cards/{version}", tags=["rates"])
def card(caller: SeeFleet, version: str) -> documents.RateCardDocument:
    """A rate card as it was applied; `current` is the one in force."""
    found = current_rate_card(caller.store) if version == "current" else rate_card_of(caller.store, version)
    if found is None:
        raise NotFoundError(f"rate card {version!r}", "was never applied", "See: /api/v1/rates/cards")
    return documents.RateCardDocument(
        version=found.version, applied_at=found.applied_at, author=found.author, reason=found.reason,
        card=json.loads(found.card.canonical()),
    )  # fmt: skip


@router.get("/tenants", tags=["tenants"])
def tenants(request: Request, caller: See, limit: Limit = 1000, offset: Offset = 0) -> Page[documents.TenantDocument]:
    """The tenants that held something in the closed hours."""
    found = caller.store.rows(read_sql(__file__, "tenants"))
    return page_of(request, found, documents.TenantDocument.model_validate, limit, offset)


@router.get("/tenants/mapping", tags=["tenants"])
def mapping(caller: SeeFleet) -> documents.Mapping:
    """The tenant mapping in force: who pays for an allocation."""
    found = current_mapping(caller.store)
    if found is None:
        raise NotFoundError("tenants' mapping", "none was applied: the reported tenants pay")
    rules = [
        documents.MappingRule(
            matches=rule.words, tenant=rule.tenant, project=rule.project, cost_center=rule.cost_center or None,
            effective_from=rule.effective_from, effective_to=rule.effective_to,
        )
        for rule in found.mapping.rules
    ]  # fmt: skip
    return documents.Mapping(
        version=found.version, applied_at=found.applied_at, author=found.author, timezone=found.mapping.timezone,
        unmapped_owner=found.mapping.unmapped_owner, rules=rules,
    )  # fmt: skip


@router.get("/budgets", tags=["budgets"])
def budgets(caller: See, month: str | None = None, tenant: Tenant = None) -> list[documents.Budget]:
    """How a month (by default this one) stands against its budgets."""
    caller.check_tenant(tenant)
    zone = billing_timezone(caller.store)
    asked = month or month_name(Period(caller.now, caller.now), zone)
    return [
        documents.Budget.model_validate(one)
        for one in budget_states(caller.store, asked, caller.now)
        if caller.principal.sees(one.tenant) and tenant in (None, one.tenant)
    ]


@router.get("/credits", tags=["credits"])
def credits_(
    request: Request, caller: See, month: str = "", tenant: Tenant = None, limit: Limit = 100, offset: Offset = 0
) -> Page[documents.Credit]:
    """Amounts in tenants' favour on drafts: by hand, or for a broken promise."""
    found = list_credits(caller.store, month, caller.check_tenant(tenant))
    return page_of(request, found, _credit, limit, offset)


@router.post("/credits", tags=["credits"], status_code=201)
def add(caller: Issue, new: NewCredit) -> documents.Applied:
    """Adds a credit to a month's draft; the same twice is added once."""
    with caller.writing() as store:
        given = Credit(
            tenant=new.tenant,
            month=new.month,
            amount=parse_amount(new.amount),
            currency=new.currency or card_in_force(store).currency,
            reason=new.reason,
            project=new.project,
            author=caller.principal.actor,
            id=new.id,
        )
        added = add_credit(store, given, caller.now)
    return documents.Applied(version=given.id, new=added)


@router.post("/credits/{id}/reverse", tags=["credits"])
def reverse(caller: Issue, id: str, why: Why) -> documents.Credit:
    """Takes a credit back: the opposite amount, in its month or the next open one; doing it again changes nothing."""
    if not list_credits(caller.store, ids=[id]):
        raise NotFoundError(f"credit {id!r}", "does not exist", "See: /api/v1/credits")
    with caller.writing() as store:
        done = reverse_credit(store, id, caller.principal.actor, why.reason, caller.now)
        (kept,) = list_credits(store, ids=[done.id])
    return _credit(kept)


@router.get("/grants", tags=["credits"])
def grants(
    request: Request, caller: See, tenant: Tenant = None, limit: Limit = 100, offset: Offset = 0
) -> Page[documents.Grant]:
    """What was paid, or given, in advance."""
    found = grants_of(caller.store, caller.check_tenant(tenant))
    return page_of(request, found, documents.Grant.model_validate, limit, offset)


@router.post("/grants", tags=["credits"], status_code=201)
def grant(caller: Issue, new: NewGrant) -> documents.Applied:
    """Grants money in advance; the same twice is granted once."""
    with caller.writing() as store:
        card = card_in_force(store)
        month = parse_month(month_name(Period(caller.now, caller.now), card.timezone), card.timezone)
        given = Grant(
            new.id, new.tenant, parse_amount(new.amount), new.currency or card.currency,
            aware(new.starts_at or month.start), aware(new.expires_at), caller.principal.actor, new.reason,
        )  # fmt: skip
        given = replace(given, id=new.id or grant_id(given))
        added = add_grant(store, given, caller.now)
    return documents.Applied(version=given.id, new=added)


@router.delete("/grants/{id}", tags=["credits"])
def revoke(caller: Issue, id: str, reason: Annotated[ReasonText, Query(description="Why.")]) -> documents.Grant:
    """Lets a grant expire now; what it has paid stays paid."""
    if id not in {one.id for one in grants_of(caller.store)}:
        raise NotFoundError(f"grant {id!r}", "does not exist", "See: /api/v1/grants")
    with caller.writing() as store:
        done = revoke_grant(store, id, caller.principal.actor, reason, caller.now)
    return documents.Grant.model_validate(done)


@router.get("/balances", tags=["credits"])
def balances_(caller: See, tenant: Tenant = None) -> list[documents.Balance]:
    """Prepaid balances: granted, drawn, expired, and what the open months have drawn so far."""
    applied = current_budgets(caller.store)
    low = applied.file.low_below() if applied else {}
    found = balances(caller.store, caller.now, caller.check_tenant(tenant), low)
    return [documents.Balance.model_validate(one) for one in found]


def _credit(stored: StoredCredit) -> documents.Credit:
    fields = {
        name: getattr(stored.credit, name) for name in documents.Credit.model_fields if hasattr(stored.credit, name)
    }
    return documents.Credit(**fields, at=stored.at, invoice=stored.invoice)
