"""Events and findings of jobs, as accounting and the controller report them: pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from collectors.readings import Collected, Row, Severity
from collectors.slurm.inventory import Inventory
from collectors.slurm.jobs import (
    HOLDING,
    SOURCE,
    WAITING,
    Job,
    Site,
    contradictions,
    lifecycle,
    placements,
    profile_is_a_guess,
    skip_reason,
)
from collectors.slurm.parsed import Problem

PROFILE_UNKNOWN = (
    "the MIG profile of its GPUs is unknown, the node's smallest was assumed: name the types in"
    " AccountingStorageTRES, such as gres/gpu:a100_3g.20gb"
)
RECORD_MISSING = (
    "accounting has no record of it, or of its run: start and end are billed as the controller reported them"
)
RECORD_LOST = "accounting has lost a record of it: what it held after {}, unless the controller said so, is not billed"
RUNAWAY = (
    "accounting takes it for running, and the controller does not know it: billed until accounting has an end. Check:"
    " sacctmgr show runawayjobs"
)
LATE = timedelta(minutes=1)
"""Accounting may have a record later than the controller; one that is later still is missing."""
MOST_PROBLEMS = 100
"""How many bad records a cycle tells one by one; the others are counted."""


def missing_rows(jobs: Iterable[Job], site: Site, now: datetime) -> Collected:
    collected = Collected()
    for job in jobs:
        if job.holds and job.started_at and now - job.started_at >= LATE and not skip_reason(job, site):
            collected.add("findings", finding(site, now, "record_missing", RECORD_MISSING, job.job_id, "warning"))
    return collected


def unfinished_rows(accounted: Sequence[Job], controlled: Iterable[Job], site: Site, now: datetime) -> Collected:
    """Findings of records without an end whose job the controller does not know, and of those that another record of
    their job shows to be not all: a submission before another one that never came to an end, a requeue or a resize
    after which nothing came."""
    collected = Collected()
    known = {job.job_id for job in controlled}
    last: dict[str, datetime] = {}
    for job in accounted:
        if job.submitted_at is not None:
            last[job.job_id] = max(job.submitted_at, last.get(job.job_id, job.submitted_at))
    for job in accounted:
        since = job.ended_at or job.started_at or job.submitted_at
        if since is None or now - since < LATE or skip_reason(job, site):
            continue
        latest = last.get(job.job_id, since)
        goes_on = job.ended_at is None or (job.state in ("REQUEUED", "RESIZING") and latest < job.ended_at)
        if job.state in HOLDING and job.job_id not in known:
            name, message = "end_unknown", RUNAWAY
        elif job.state in WAITING and job.submitted_at is not None and job.submitted_at < latest:
            name, message = "record_missing", RECORD_LOST.format(f"{job.submitted_at:%Y-%m-%d %H:%M:%SZ}")
        elif job.state not in HOLDING and goes_on and job.job_id not in known:
            name, message = "record_missing", RECORD_LOST.format(f"{since:%Y-%m-%d %H:%M:%SZ}")
        else:
            continue
        collected.add("findings", finding(site, now, name, message, job.job_id, "warning"))
    return collected


def lifecycle_rows(jobs: Iterable[Job], site: Site, now: datetime) -> Collected:
    """Events of accounting's records; a job that cannot be billed right is a finding that names it."""
    collected = Collected()
    for job in jobs:
        if reason := skip_reason(job, site):
            collected.dropped[reason] += 1
            if job.gpus.shared:
                collected.add("findings", finding(site, now, "record_unreadable", reason, job.job_id))
            continue
        if profile_is_a_guess(job, site):
            collected.add("findings", finding(site, now, "profile_unknown", PROFILE_UNKNOWN, job.job_id, "warning"))
        for row in lifecycle(job, site):
            collected.add("events", row)
    return collected


def problem_rows(what: str, problems: Sequence[Problem], site: Site, now: datetime) -> Collected:
    """A finding for each unreadable record, with its job, which is not billed until the record is mended."""
    collected = Collected()
    for problem in problems[:MOST_PROBLEMS]:
        message = f"{what}: {f'job {problem.job}' if problem.job else 'a record'}: {problem.detail}"
        collected.add("findings", finding(site, now, "record_unreadable", message, problem.job))
    if (more := len(problems) - MOST_PROBLEMS) > 0:
        collected.add("findings", finding(site, now, "record_unreadable", f"{what}: {more} more records"))
    return collected


def placement_rows(jobs: Iterable[Job], site: Site, inventory: Inventory, now: datetime) -> Collected:
    """Events that name the devices of the controller's jobs."""
    collected = Collected()
    for job in jobs:
        for message in contradictions(job, site, inventory):
            collected.add("findings", finding(site, now, "profile_unknown", message, job.job_id, "warning"))
        for row in placements(job, site, inventory):
            collected.add("events", row)
    return collected


def finding(site: Site, now: datetime, name: str, message: str, job: str = "", severity: Severity = "critical") -> Row:
    """A finding, critical by default, because a record that is not read is not billed."""
    row = {
        "ts": now,
        "cluster": site.cluster,
        "workload_id": job,
        "finding": name,
        "severity": severity,
        "message": message,
        "source": SOURCE,
    }
    return {name: value for name, value in row.items() if value != ""}
