"""How used allocations were lately, for schedulers that scale their jobs by it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from alerts.utilization import utilization
from api.caller import SeeFleet
from api.strict import StrictRoute
from billing.insights.now import moment
from gpuledger import documents

router = APIRouter(tags=["now"], route_class=StrictRoute)


@router.get("/utilization")
def utilization_(
    caller: SeeFleet,
    seconds: Annotated[int, Query(ge=300, le=21_600, description="Of the window, up to the newest sample.")] = 1800,
    cluster: Annotated[str, Query(max_length=300, description="Of this cluster alone.")] = "",
) -> documents.Utilization:
    """The mean utilization of each allocation that held its GPUs for the whole window and 10 minutes before; null where
    less than nine tenths of it was measured."""
    found = moment(caller.store, caller.now)
    at = found.samples if found is not None else None
    if at is None:
        return documents.Utilization(at=None, seconds=seconds, allocations=[])
    rows = utilization(caller.store, at, seconds, cluster)
    return documents.Utilization(
        at=at,
        seconds=seconds,
        allocations=[
            documents.AllocationUtilization(
                cluster=row["cluster"],
                allocation_id=row["allocation_id"],
                workload_id=row["workload_id"],
                utilization=row["value"],
                coverage=row["coverage"],
                gpus=row["held_gpus"],
            )
            for row in rows
        ],
    )
