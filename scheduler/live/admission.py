"""Which jobs are accepted: valid ids, and values that arithmetic and books can handle."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from scheduler.cycle.queues import Queues
from scheduler.model import CENTURY, MOST_ASKED, MOST_COUNTED, Job
from scheduler.records.events import Cause
from scheduler.scaling import ScalingPolicy
from scheduler.scaling import problem as problem_of

LONGEST_NAME = 500
"""Maximum characters of a job's and its tenant's name, so that URLs, agents and the books can hold it."""
LARGEST = 1 << 63
_LATER_ATTEMPT = re.compile(r"/([2-9]|[1-9][0-9]+)\Z")


def unfit_name(name: str) -> str:
    """Why a name is invalid; '' if it is valid."""
    if len(name) > LONGEST_NAME or not name.isprintable():
        return f"is not printable text of at most {LONGEST_NAME} characters"
    return ""


def unfit_job_id(name: str) -> str:
    """Why a job id is invalid; '' if it is valid."""
    problem = unfit_name(name)
    if problem:
        return problem
    if any(step in (".", "..") for step in name.split("/")):
        return f"{name!r} is a path to elsewhere"
    found = _LATER_ATTEMPT.search(name)
    if found:
        return f"{name!r} is what attempt {found[1]} of {name[: found.start()]!r} is called in the books"
    return ""


def uncountable(job: Job) -> str:
    """The name of a number with more than 64 bits, which cannot be computed with or stored; '' if there is none."""
    found = [(f"request.{one.name}", getattr(job.request, one.name)) for one in fields(job.request)]
    found += [(one.name, getattr(job, one.name)) for one in fields(job)]
    return next((name for name, value in found if isinstance(value, int) and not -LARGEST <= value < LARGEST), "")


def misfit(job: Job, payload: Any, queues: Queues) -> Cause | None:
    """Why a job is not accepted; None if it is."""
    if not job.job_id or not job.tenant:
        return Cause("Misconfigured", "job_id and tenant must not be empty")
    if job.service:
        return Cause("Misconfigured", "service is for replicas, which the scheduler makes by itself")
    if queues and job.queue not in queues:
        return Cause("UnknownQueue", f"queue {job.queue!r} is not one of {', '.join(sorted(queues))}")
    children = queues.children(job.queue)
    if children:
        return Cause("ParentQueue", f"queue {job.queue} holds no jobs; name one of {', '.join(sorted(children))}")
    if (problem := misrange(job.min_replicas, job.max_replicas) or mispolicy(job.scaling)) is not None:
        return problem
    asked = job.request
    levels = [level for level in (asked.required_topology, asked.preferred_topology) if level is not None]
    counts = (asked.devices, asked.units, *levels)
    amounts = (asked.cpu_milli, asked.memory_bytes, asked.host_memory_bytes)
    limits = (job.time_limit, job.lease_seconds)
    times = [at for at in (*limits, job.wait_bound, job.checkpoint_seconds, job.run_time) if at is not None]
    if min(*counts, *amounts, *times, 0) < 0 or 0 in limits:
        return Cause("Misconfigured", "asks for less than nothing")
    most = max(*amounts, abs(job.priority))
    if max(counts) > MOST_COUNTED or most > MOST_ASKED or max(times, default=0) > CENTURY:
        return Cause("Misconfigured", "asks for more than any cluster has")
    if not isinstance(payload, dict):
        return Cause("Misconfigured", "payload is not an object")
    return None


def mispolicy(scaling: ScalingPolicy | None) -> Cause | None:
    """Why a job cannot be scaled so; None if it can."""
    found = "" if scaling is None else problem_of(scaling)
    return Cause("Misconfigured", found) if found else None


def misrange(least: int, most: int) -> Cause | None:
    """Why a job cannot have at least and at most so many replicas; None if it can."""
    if not 1 <= least <= most:
        return Cause("Misconfigured", f"replicas from {least} to {most} are not a range")
    return Cause("Misconfigured", "asks for more than any cluster has") if most > MOST_COUNTED else None
