"""Objectives and interference: their state, and which workloads were slowed down by others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Query, Request

from alerts.interference.episodes import Episode, episodes
from alerts.slo.status import SeriesStatus, slo_status
from api.caller import Caller, PeriodText, See, Tenant
from api.paging import Limit, Offset, Page, page_of
from api.problems import NotFoundError
from api.strict import StrictRoute
from billing.periods import PeriodError
from gpuledger import documents

router = APIRouter(tags=["objectives"], route_class=StrictRoute)
LOOKED = timedelta(days=7)
"""Of interference, where no period is asked for."""
At = Annotated[datetime | None, Query(description="As they stood then; by default now. Without a zone it is UTC.")]


@router.get("/objectives")
def objectives(
    request: Request, caller: See, at: At = None, tenant: Tenant = None, limit: Limit = 1000, offset: Offset = 0
) -> Page[documents.ObjectiveStatus]:
    """The status of each series of the objectives in force, those without budget left first. A tenant sees its own."""
    caller.check_tenant(tenant)
    return _page(request, _status(caller, at, tenant), limit, offset)


@router.get("/objectives/{name}")
def objective(
    request: Request, caller: See, name: str, at: At = None, limit: Limit = 1000, offset: Offset = 0
) -> Page[documents.ObjectiveStatus]:
    """The series of one objective."""
    found = [one for one in _status(caller, at, None) if one.objective == name]
    if not found:
        raise NotFoundError(
            f"objective {name!r}", "does not exist, or you don't have access to it", "See: /api/v1/objectives"
        )
    return _page(request, found, limit, offset)


@router.get("/interference")
def interference(
    request: Request,
    caller: See,
    period: PeriodText = None,
    tenant: Tenant = None,
    limit: Limit = 1000,
    offset: Offset = 0,
) -> Page[documents.Episode]:
    """Stretches in which a workload was slowed down beside others, those that last first; by default of the last seven
    days. A tenant sees those of its own workloads; a neighbour that is another tenant's is null."""
    caller.check_tenant(tenant)
    asked = caller.period(period)
    since, until = (asked.start, asked.end) if asked else (caller.now - LOOKED, caller.now)
    found = [one for one in episodes(caller.store, since, until) if tenant in (None, one.tenant)]
    return page_of(request, found, _episode, limit, offset)


def _status(caller: Caller, at: datetime | None, tenant: str | None) -> list[SeriesStatus]:
    moment = caller.now if at is None else at if at.tzinfo else at.replace(tzinfo=UTC)
    if not 2000 <= moment.year < 2200:
        raise PeriodError(
            "at", f"{moment.year} is no year of the books", "Ask for an instant like 2026-10-06T12:00:00Z"
        )
    return slo_status(caller.store, moment, tenant)


def _page(request: Request, found: list[SeriesStatus], limit: int, offset: int) -> Page[documents.ObjectiveStatus]:
    return page_of(request, found, documents.ObjectiveStatus.model_validate, limit, offset)


def _episode(one: Episode) -> documents.Episode:
    """A neighbour that is not theirs to know is null."""
    return documents.Episode.model_validate({**vars(one), "neighbours": [name or None for name in one.neighbours]})
