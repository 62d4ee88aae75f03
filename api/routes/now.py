"""What holds at this moment: who is allocated what, and which jobs wait, and why."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from api.caller import Caller, See, Tenant
from api.paging import Limit
from api.problems import NotFoundError
from api.strict import StrictRoute
from billing.insights.now import Ask, asking, held, isolation, moment, quotas, reported, waiting, wanted
from gpuledger import documents
from scheduler.live.admission import LONGEST_NAME
from warehouse.isolation import OBJECTIVES

router = APIRouter(tags=["now"], route_class=StrictRoute)
Queue = Annotated[str | None, Query(max_length=300, description="This queue alone.")]
JOB_CHARACTERS = LONGEST_NAME + 20
"""Of a workload or an allocation, whose name the scheduler makes of a job's and an attempt."""
SUMS = ("gpus", "idle_gpus", "seen_gpus", "list_hour", "billed_hour", "idle_hour", "waste", "unpriced")


@router.get("/now")
def now_(caller: See, tenant: Tenant = None, queue: Queue = None, limit: Limit = 1000) -> documents.Now:
    """Who is allocated which GPUs at the newest instant for which facts came, whether they are used, what they cost an
    hour and have wasted so far: the greatest waste first."""
    at, ask = moment(caller.store, caller.now), _asking(caller, tenant, queue)
    if at is None:
        return documents.Now(clock=caller.now, at=None, stopped=True)
    rows, currency = held(caller.store, ask, at.at, limit)
    return documents.Now(
        clock=at.clock, at=at.at, stopped=at.stopped, samples_at=at.samples, closed_until=at.closed,
        currency=currency or None,
        total=documents.NowTotal(**{name: rows[0][f"all_{name}"] for name in SUMS}) if rows else documents.NowTotal(),
        allocations=[_allocation(row) for row in rows],
        rows_in_all=rows[0]["all_rows"] if rows else 0,
    )  # fmt: skip


@router.get("/waiting")
def waiting_(
    caller: See,
    tenant: Tenant = None,
    queue: Queue = None,
    workload: Annotated[str, Query(max_length=JOB_CHARACTERS, description="This workload alone.")] = "",
    limit: Limit = 1000,
) -> documents.Waiting:
    """Jobs that wait at the newest instant for which facts came, by queue and rank, each with the reason that its
    scheduler gives and the interval in which it expects to start it."""
    at = moment(caller.store, caller.now)
    if at is None:
        return documents.Waiting(at=None)
    rows = waiting(_asking(caller, tenant, queue), workload, limit, at.after)
    return documents.Waiting(
        at=at.at, jobs=[_job(row, at.at) for row in rows], rows_in_all=rows[0]["in_all"] if rows else 0
    )


@router.get("/waiting/holders")
def holders(
    caller: See,
    allocation: Annotated[
        str, Query(min_length=1, max_length=JOB_CHARACTERS, description="`allocation_id` of a job that waits.")
    ],
    cluster: Annotated[str, Query(max_length=300, description="Its cluster; by default any.")] = "",
    limit: Limit = 200,
) -> documents.Holders:
    """Who holds what a waiting job asks for. A tenant sees its own allocations alone."""
    at = moment(caller.store, caller.now)
    chosen = {"clusters": [cluster]} if cluster else {}
    jobs = [] if at is None else waiting(asking(caller.store, **chosen), "", 1, at.after, allocation)
    if at is None or not jobs or not caller.principal.sees(jobs[0]["tenant"]):
        raise NotFoundError(
            f"allocation {allocation!r}", "does not wait, or you don't have access to it",
            "See: /api/v1/waiting",
        )  # fmt: skip
    found = wanted(caller.store, partial(asking, caller.store), jobs[0], at.at, limit)
    rows = [row for row in found.holders if caller.principal.sees(row["tenant"])]
    return documents.Holders(
        at=at.at,
        pools=[documents.WantedPool(**{name: row[name] for name in documents.WantedPool.model_fields})
               for row in found.pools],
        allocations=[_allocation(row) for row in rows],
        rows_in_all=rows[0]["all_rows"] if rows else 0,
    )  # fmt: skip


@router.get("/quotas")
def quotas_(caller: See, tenant: Tenant = None) -> documents.Quotas:
    """What schedulers guarantee tenants, and what these hold and ask for, as last reported. A tenant sees its own."""
    at = moment(caller.store, caller.now)
    if at is None:
        return documents.Quotas(at=None)
    rows = quotas(_asking(caller, tenant, None), at.at)
    return documents.Quotas(
        at=at.at, rows=[documents.Quota.model_validate(row) for row in rows if caller.principal.sees(row["tenant"])]
    )


def _asking(caller: Caller, tenant: str | None, queue: str | None) -> Ask:
    chosen = {"tenants": caller.check_tenant(tenant), "queues": queue}
    return asking(caller.store, **{name: [one] for name, one in chosen.items() if one is not None})


def _allocation(row: Any) -> documents.NowAllocation:
    names = ("device_id", "partition_id", "partition_profile", "units", "device_units", "doubt")
    devices = [dict(zip(names, one, strict=True)) for one in row["devices"]]
    level = isolation(row)
    promised = next((list(kinds) for one, kinds in OBJECTIVES.items() if one == level), None)
    return documents.NowAllocation(
        **{**row, "devices": devices, "isolation_level": level or None, "objectives": promised}
    )


def _job(row: Any, at: datetime) -> documents.WaitingJob:
    said = reported(row)
    start = {"earliest_start": said.earliest, "latest_start": said.latest, "start_is": said.due(at)}
    return documents.WaitingJob(**{**row, "text": said.text, **start})
