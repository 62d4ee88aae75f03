"""Idle jobs of the scheduler that the server was given (--scheduler): what its policies do next, and an operator's yes
or no to it. Only its policies allow anything: without one for a job, the scheduler refuses."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Request
from pydantic import Field

from api.caller import Caller, ProposeJobs, ReclaimJobs, SeeFleet
from api.reach import Reach
from api.strict import Body, StrictRoute
from billing import audit
from gpuledger import documents
from scheduler.live.admission import LONGEST_NAME
from warehouse.errors import LedgerError

router = APIRouter(tags=["now"], route_class=StrictRoute)


IdleJob = documents.IdleJob


class OfJob(Body):
    """job: as `GET /idle-jobs` names it.   reason: for the audit."""

    job: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    reason: Annotated[str, Field(max_length=1000)] = ""


@router.get("/idle-jobs")
def idle_jobs(request: Request, caller: SeeFleet) -> documents.IdleJobs:
    """Running jobs that the scheduler knows to be idle, each with the next step of its policy; and those that are
    suspended for it."""
    reach: Reach = request.app.state.reach
    return listed(reach, caller.principal.actor)


def listed(reach: Reach, actor: str) -> documents.IdleJobs:
    """The scheduler's answer; `scheduler` is empty if the server has none.

    Errors: LedgerError if it does not answer."""
    client = reach.jobs(actor)
    if client is None:
        return documents.IdleJobs(scheduler="", cluster="", problem="", jobs=[])
    with client:
        found = client.idle()
    try:
        return documents.IdleJobs.model_validate({**found, "scheduler": reach.scheduler})
    except ValueError as error:
        raise LedgerError(f"scheduler at {reach.scheduler}", "does not list idle jobs as this version reads them",
                          "Use the same version of gpuledger for both") from error  # fmt: skip


@router.post("/idle-jobs/reclaim")
def reclaim_idle_job(request: Request, caller: ReclaimJobs, asked: OfJob) -> documents.IdleJobAct:
    """Says yes to what the policy for an idle job does: it is made smaller, suspended or cancelled, at once."""
    return _done(request, caller, "reclaim", asked)


@router.post("/idle-jobs/keep")
def keep_idle_job(request: Request, caller: ReclaimJobs, asked: OfJob) -> documents.IdleJobAct:
    """Exempts the running attempt of a job from what is done to idle ones."""
    return _done(request, caller, "keep", asked)


@router.post("/idle-jobs/propose")
def propose_idle_job(request: Request, caller: ProposeJobs, asked: OfJob) -> documents.IdleJobAct:
    """Proposes what the policy for an idle job does: an operator says yes by reclaiming it, or no by keeping it."""
    return _done(request, caller, "propose", asked)


@router.post("/idle-jobs/resume")
def resume_idle_job(request: Request, caller: ReclaimJobs, asked: OfJob) -> documents.IdleJobAct:
    """Lets a job that was suspended for being idle wait for its GPUs again; no other suspended job."""
    return _done(request, caller, "resume", asked)


def _done(
    request: Request, caller: Caller, what: Literal["reclaim", "keep", "propose", "resume"], asked: OfJob
) -> documents.IdleJobAct:
    reach: Reach = request.app.state.reach
    actor = caller.principal.actor
    client = reach.jobs(actor)
    if client is None:
        raise LedgerError("--scheduler", "this server was not given one", "Start it with --scheduler URL")
    evidence = [one.model_dump(mode="json") for one in listed(reach, actor).jobs if one.job_id == asked.job]
    if what == "resume" and not any(one["step"] == "suspended" for one in evidence):
        raise LedgerError(f"job {asked.job}", "is not suspended for being idle", "GET /idle-jobs lists those that are")
    inputs = {"scheduler": reach.scheduler, "idle": evidence[0] if evidence else None}
    with (
        client,
        audit.around(caller.store, caller.now, actor, f"job.{what}", asked.job, asked.reason, inputs) as outcome,
    ):
        outcome["status"] = str(client.act(asked.job, what).get("status", ""))
    return documents.IdleJobAct(job=asked.job, at=caller.now, by=actor, status=outcome["status"])
