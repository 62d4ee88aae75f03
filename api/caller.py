"""The caller of a route, with the store as they may see it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Depends, Query, Request

from access.principal import ForbiddenError, Principal
from access.roles import Action
from access.scope import Stores
from access.store import AccessStore
from api.strict import refuse_unknown
from billing.ledger_report import billing_timezone
from billing.periods import Period, parse_month, parse_period
from warehouse.store import Store

WRITERS = threading.Lock()
"""Held while the books change: two invoices numbered at the same time would get the same number."""


@dataclass(frozen=True)
class Caller:
    """store: scoped to what they see.   now: the time of the request.   access: everybody's users, tokens, queries."""

    principal: Principal
    store: Store
    now: datetime
    stores: Stores
    access: AccessStore

    def check_tenant(self, tenant: str | None) -> str | None:
        """The requested tenant; None stays None (all that they see). Errors: ForbiddenError for one they do not see."""
        if tenant is not None and not self.principal.sees(tenant):
            raise ForbiddenError(
                f"tenant {tenant!r}", "is not one that you have access to", "Leave ?tenant out for your own tenants"
            )
        return tenant

    @contextlib.contextmanager
    def whole_store(self) -> Iterator[Store]:
        """The store without a scope, for figures that need all tenants (such as the idle cost that a pool shares out).

        The caller of this must return only what `principal.sees`.
        """
        with self.stores.unscoped() as store:
            yield store

    @contextlib.contextmanager
    def writing(self) -> Iterator[Store]:
        """Their store, while nothing else in this process changes the books."""
        with WRITERS:
            yield self.store

    def period(self, text: str | None) -> Period | None:
        return parse_period(text, billing_timezone(self.store)) if text else None

    def month(self, text: str) -> Period:
        return parse_month(text, billing_timezone(self.store))


class RequireAction:
    """A FastAPI dependency: the caller, if they may do the action and sent no unknown parameters."""

    def __init__(self, action: Action) -> None:
        self.action = action

    def __call__(self, request: Request) -> Iterator[Caller]:
        principal: Principal = request.state.principal
        principal.require(self.action)
        refuse_unknown(request)
        stores: Stores = request.app.state.stores
        with stores.scoped_to(principal) as store:
            yield Caller(principal, store, datetime.now(UTC), stores, request.app.state.access)


def caller_who_may(action: Action) -> Any:
    """For annotations such as `See`, by which a route's signature names its action: `caller: See`."""
    dependency: Callable[..., Iterator[Caller]] = RequireAction(action)
    return Depends(dependency)


See = Annotated[Caller, caller_who_may(Action.see)]
SeeFleet = Annotated[Caller, caller_who_may(Action.see_fleet)]
SeeAudit = Annotated[Caller, caller_who_may(Action.see_audit)]
AskSql = Annotated[Caller, caller_who_may(Action.sql)]
SaveQueries = Annotated[Caller, caller_who_may(Action.save_queries)]
Issue = Annotated[Caller, caller_who_may(Action.issue)]
SetPrices = Annotated[Caller, caller_who_may(Action.set_prices)]
SetBudgets = Annotated[Caller, caller_who_may(Action.set_budgets)]
Close = Annotated[Caller, caller_who_may(Action.close)]
BackUp = Annotated[Caller, caller_who_may(Action.back_up)]
SeeHeld = Annotated[Caller, caller_who_may(Action.see_held)]
DecideHeld = Annotated[Caller, caller_who_may(Action.decide_held)]
SilenceAlerts = Annotated[Caller, caller_who_may(Action.silence)]
ProposeJobs = Annotated[Caller, caller_who_may(Action.propose)]
ReclaimJobs = Annotated[Caller, caller_who_may(Action.reclaim)]
OwnTokens = Annotated[Caller, caller_who_may(Action.own_tokens)]
SeeAccess = Annotated[Caller, caller_who_may(Action.see_access)]
ManageAccess = Annotated[Caller, caller_who_may(Action.manage_access)]

PeriodText = Annotated[
    str | None,
    Query(
        max_length=100,
        description="A month (2026-10), a day (2026-10-05) or START..END, in the billing zone; by default all that is "
        "closed.",
    ),
]
MonthText = Annotated[str, Query(max_length=10, description="A month of the billing zone, like 2026-10.")]
Tenant = Annotated[str | None, Query(max_length=300, description="This tenant alone; by default all that you see.")]
By = Annotated[
    str,
    Query(
        max_length=200,
        description="Any of tenant, project, queue, workload, cluster, node, device, model, pool, day, hour; separated "
        "by commas.",
    ),
]
LedgerBy = Annotated[
    str,
    Query(
        max_length=200,
        description="Any of tenant, project, queue, workload, cluster, node, device, model, pool, day, hour, "
        "isolation; separated by commas.",
    ),
]


def dimensions(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
