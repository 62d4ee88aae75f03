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

WRITING = threading.Lock()
"""Whoever changes the books takes turns: two drafts numbered at the same time would both be the next."""


@dataclass(frozen=True)
class Caller:
    """store: scoped to what they see.   now: when they asked.   access: people, tokens, saved queries, of everybody."""

    principal: Principal
    store: Store
    now: datetime
    stores: Stores
    access: AccessStore

    def check_tenant(self, tenant: str | None) -> str | None:
        """The tenant asked for; None (all that they see) stays None. Errors: ForbiddenError for somebody else's."""
        if tenant is not None and not self.principal.sees(tenant):
            raise ForbiddenError(
                f"tenant {tenant!r}", "is not one that you have access to", "Leave ?tenant out for your own tenants"
            )
        return tenant

    @contextlib.contextmanager
    def whole_store(self) -> Iterator[Store]:
        """The store without a scope, for what can only be computed from all of it (a pool's cost that is shared out).

        Whoever asks it gives out what `principal.sees` alone.
        """
        with self.stores.unscoped() as store:
            yield store

    @contextlib.contextmanager
    def writing(self) -> Iterator[Store]:
        """Their store, while nobody else of this process changes the books."""
        with WRITING:
            yield self.store

    def period(self, text: str | None) -> Period | None:
        return parse_period(text, billing_timezone(self.store)) if text else None

    def month(self, text: str) -> Period:
        return parse_month(text, billing_timezone(self.store))


class Asks:
    """A dependency: the caller, if they may do this and ask nothing that the route does not know."""

    def __init__(self, action: Action) -> None:
        self.action = action

    def __call__(self, request: Request) -> Iterator[Caller]:
        principal: Principal = request.state.principal
        principal.require(self.action)
        refuse_unknown(request)
        stores: Stores = request.app.state.stores
        with stores.scoped_to(principal) as store:
            yield Caller(principal, store, datetime.now(UTC), stores, request.app.state.access)


def asks(action: Action) -> Any:
    """For a route's signature: `caller: See` names its action."""
    dependency: Callable[..., Iterator[Caller]] = Asks(action)
    return Depends(dependency)


See = Annotated[Caller, asks(Action.see)]
SeeFleet = Annotated[Caller, asks(Action.see_fleet)]
SeeAudit = Annotated[Caller, asks(Action.see_audit)]
AskSql = Annotated[Caller, asks(Action.sql)]
SaveQueries = Annotated[Caller, asks(Action.save_queries)]
Issue = Annotated[Caller, asks(Action.issue)]
SetPrices = Annotated[Caller, asks(Action.set_prices)]
SetBudgets = Annotated[Caller, asks(Action.set_budgets)]
Close = Annotated[Caller, asks(Action.close)]
BackUp = Annotated[Caller, asks(Action.back_up)]
SeeHeld = Annotated[Caller, asks(Action.see_held)]
DecideHeld = Annotated[Caller, asks(Action.decide_held)]
SilenceAlerts = Annotated[Caller, asks(Action.silence)]
OwnTokens = Annotated[Caller, asks(Action.own_tokens)]
SeeAccess = Annotated[Caller, asks(Action.see_access)]
ManageAccess = Annotated[Caller, asks(Action.manage_access)]

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


def dimensions(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
