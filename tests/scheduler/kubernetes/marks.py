"""What pods said before an operator deleted them, beside what the scheduler's state was before and after each entry of
its log."""

from __future__ import annotations

import json
from typing import Any

from collectors.kubernetes.objects import child, condition
from scheduler.kubernetes import pods
from scheduler.records.events import allocation_id
from scheduler.records.restore import restore
from tests.scheduler.kubernetes.site import Site

ACTS = {"suspended": "suspended", "cancelled": "cancelled"}
Ended = tuple[str, str, int, str] | None
"""How an idle policy ended a placement: (reason, act, how many replicas stay, attempt); None: something else did."""


def placements_ended(site: Site) -> dict[tuple[str, int], Ended]:
    """By job and number of the placement. What ends one first counts."""
    found: dict[tuple[str, int], Ended] = {}
    configurations = site.log.of_kind("configured")
    restored = restore([], configurations, "c")
    for entry in site.log.entries():
        before = {job: (live.status, live.world, live.grants) for job, live in restored.book.jobs.items()}
        small = {job for job, live in restored.book.jobs.items() if live.idle is not None and live.idle.is_shrunk}
        restored.apply(entry)
        for job, (status, world, grants) in before.items():
            live = restored.book.jobs.get(job)
            if status not in ("starting", "running"):
                continue
            if live is not None and live.world == world and live.status in ("starting", "running"):
                continue
            reason = entry.body.get("cause", {}).get("reason") if entry.job_id == job else ""
            how: Ended = None
            if live is not None and reason == "IdleReclaimed":
                act = ACTS[live.stop[0]] if live.stop is not None else "shrunk"
                left = len(live.grants) if act == "shrunk" else 0
                how = (reason, act, left, allocation_id(job, live.attempt))
            elif live is not None and reason == "Rescaled" and job in small and len(live.grants) < len(grants):
                how = (reason, "shrunk", len(live.grants), allocation_id(job, live.attempt))
            found.setdefault((job, world), how)
    return found


def check_marks(site: Site) -> int:
    """Each pod that was deleted said so if an idle policy took its GPUs, and no other. Returns how many did."""
    ended, marked = placements_ended(site), 0
    for pod, has_job in site.cluster.ended:
        metadata, said = pod["metadata"], condition(pod, "DisruptionTarget")
        job = f"{metadata['namespace']}/{metadata['labels'][pods.JOB]}@{pods.job_uid(pod)}"
        how = ended.get((job, int(pods.world_of(pod))))
        is_bound = bool(child(pod, "spec").get("nodeName"))
        wanted: dict[str, Any] | None = None
        if how is not None and is_bound and pods.rank_of(pod) >= how[2]:
            wanted = {
                "reason": how[0],
                "act": how[1],
                "left": how[2],
                "allocation": how[3],
                "job": job.partition("@")[0],
            }
        told = {"reason": said["reason"]} | json.loads(said["message"]) if said.get("status") == "True" else None
        if told is None:
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
            assert wanted is None or not has_job or path in site.cluster.unmarked, (pod, wanted)
            continue
        assert wanted is not None, pod
        assert told.items() >= wanted.items(), (told, wanted)
        marked += 1
    return marked
