"""Capacity: demand by hour, waits against what was free, and what other GPUs would change."""

from __future__ import annotations

from concurrent.futures import TimeoutError as NotInTime
from typing import Annotated

from fastapi import APIRouter, Query

from api.caller import PeriodText, See, SeeFleet, Tenant
from api.capacity import SECONDS, simulation_document, start_simulations, what_if
from api.heavy import HEAVY
from api.strict import StrictRoute
from api.values import closed_span
from billing.closed import closed_part
from billing.insights.capacity import BANDS, Waits, asking, capacity, demand
from gpuledger import documents
from scheduler.simulate.books.workload import MOST_SHARES, Change, Group
from warehouse.errors import LedgerError

router = APIRouter(tags=["capacity"], route_class=StrictRoute)
Pool = Annotated[str | None, Query(max_length=300, description="GPUs of this pool alone.")]
Model = Annotated[str | None, Query(max_length=300, description="GPUs of this model alone.")]
Cluster = Annotated[str | None, Query(max_length=300, description="GPUs of this cluster alone.")]


@router.get("/capacity")
def capacity_(
    caller: See,
    period: PeriodText = None,
    tenant: Tenant = None,
    pool: Pool = None,
    model: Model = None,
    cluster: Cluster = None,
) -> documents.Demand:
    """GPUs allocated, available and waited for in each closed hour, and how long jobs waited by what was free when they
    were submitted. What was available or free is null to who sees some tenants only."""
    closed = closed_part(caller.store, caller.period(period))
    if closed is None:
        return documents.Demand(period=closed_span(None))
    names = {"tenants": caller.check_tenant(tenant), "pools": pool, "models": model, "clusters": cluster}
    asked = asking(caller.store, closed.period, **{name: [one] for name, one in names.items() if one is not None})
    found = capacity(asked)
    ends = (*BANDS[1:], 1.0)
    return documents.Demand(
        period=closed_span(closed),
        hours=[documents.DemandHour(hour=row["step"], **{k: row[k] for k in _HOUR}) for row in demand(asked)],
        groups=[documents.DemandGroup(**{**vars(one), "waits": _waits(one.waits)}) for one in found.groups],
        by_free=[
            documents.FreeBand(free_from=BANDS[band], free_to=ends[band], waits=_waits(found.by_free[band]))
            for band in sorted(found.by_free)
        ]
        if caller.principal.sees_all
        else None,
        waits=_waits(found.total),
    )


_HOUR = ("hours", "allocated", "available", "waiting", "waiting_unsized")


@router.get("/capacity/simulation", dependencies=[HEAVY])
def capacity_simulation(
    caller: SeeFleet,
    period: PeriodText = None,
    model: Model = None,
    pool: Pool = None,
    cluster: Cluster = None,
    gpus: Annotated[int, Query(ge=-10_000, le=10_000, description="So many more, or fewer if negative.")] = 0,
    shares: Annotated[
        int, Query(ge=1, le=MOST_SHARES, description="Jobs on one GPU that use at most a share of it share GPUs.")
    ] = 1,
) -> documents.CapacitySimulation:
    """The jobs of the period once more on the scheduler's simulator: as it was, as the simulator has it with the same
    GPUs, and with more, fewer or shared ones. Takes seconds; simulations take turns."""
    group = Group(cluster or "", pool or "", model or "")
    asked = what_if(caller.store, caller.period(period), group, Change(gpus, shares))
    future = start_simulations(asked)
    try:
        outcomes = future.result(SECONDS)
    except NotInTime:
        future.cancel()
        raise LedgerError("simulation", f"is not there after {SECONDS} s", "Try again in a minute") from None
    return simulation_document(asked, outcomes)


def _waits(waits: Waits) -> documents.Waits:
    return documents.Waits(**vars(waits))
