"""What is known for the scaling policies of jobs (scheduler.scaling): who waits in their queues, and how used they are.

Utilization is measured by a gpuledger server. What it does not know, or did not say lately, is unknown, and so is that
of a job that had another size during part of the window.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.cycle.reasons import (
    DEPENDENCY,
    DEPENDENCY_FAILED,
    EXCEEDS_QUOTA,
    PARENT_QUEUE,
    POOL_NOT_NAMED,
    UNKNOWN_QUEUE,
)
from scheduler.cycle.state import State
from scheduler.live.idle import FRESH_SECONDS, SLACK, Holders, answer_problem
from scheduler.model import Node, Request
from scheduler.placement.reasons import NEVER_FITS
from scheduler.placement.shapes import suits
from scheduler.records.book import Live
from scheduler.records.events import written
from scheduler.scaling import Facts, ScalingPolicy, Use, UseRule

BY_POLICY = "scaling policy"
"""Actor of what a job's policy does to its size."""
IN_VAIN = frozenset(
    {NEVER_FITS, UNKNOWN_QUEUE, PARENT_QUEUE, POOL_NOT_NAMED, EXCEEDS_QUOTA, DEPENDENCY, DEPENDENCY_FAILED}
)
"""Reasons of jobs that wait for something else than devices."""
GRACE_SECONDS = 600.0
"""After a start, for which nothing is measured: the devices are not used yet."""
NOT_ASKED = "this scheduler does not ask for it; start it with --idle-from URL"


@dataclass(frozen=True, slots=True)
class Reading:
    """value: mean utilization (0-1) of the GPUs that an allocation held; None: unknown.   gpus: how many."""

    value: float | None
    gpus: float


@dataclass(frozen=True, slots=True)
class Measured:
    """A server's answer.   heard_at: when, by the scheduler's clock.   at: up to when it measured; None: it has no
    facts.   readings: by allocation.   problem: why there is no answer."""

    heard_at: float
    at: float | None = None
    readings: Mapping[str, Reading] = field(default_factory=dict)
    problem: str = ""


def use_of(found: Measured | None, rule: UseRule, holders: Holders | None, since: float, now: float) -> Use | str:
    """How used a job is, or why that is unknown; '': it has not had its size for the window. found: the answer about
    that.   since: when the job got the size that it has."""
    problem = answer_problem(found, now)
    if problem or found is None:
        return problem
    if holders is None or not holders.allocations:
        return "not all of it runs"
    if found.at is None or now - found.at > FRESH_SECONDS:
        return "nothing was measured lately"
    if found.at > now + FRESH_SECONDS:
        return f"measured at {written(found.at)}, which is yet to come"
    if found.at - rule.window_seconds - GRACE_SECONDS < max(since, holders.since) - SLACK:
        return ""
    readings = [found.readings.get(one) for one in holders.allocations]
    known = [one for one in readings if one is not None and one.value is not None and one.gpus > 0]
    if len(known) < len(readings):
        return "not all of its devices were measured"
    value = sum((one.value or 0.0) * one.gpus for one in known) / sum(one.gpus for one in known)
    return Use(value) if math.isfinite(value) and 0 <= value <= 1 else "what was measured is no utilization"


class Waiters:
    """Jobs that wait for devices, by queue and what they ask for, with since when."""

    def __init__(self, jobs: Iterable[Live], state: State, codes: Mapping[str, Sequence[str]]) -> None:
        """codes: of the reasons that each was last given; none yet: it does not count."""
        self._found: dict[str, dict[int, tuple[Request, list[float]]]] = {}
        self._since: dict[str, float] = {}
        for live in jobs:
            name = live.job.job_id
            first = next(iter(codes.get(name, ())), "")
            if live.status != "pending" or name not in state.pending or not first or first in IN_VAIN:
                continue
            job, kind = state.pending[name]
            of_queue = self._found.setdefault(job.queue, {})
            of_queue.setdefault(id(kind), (job.request, []))[1].append(live.since)
            self._since[name] = live.since
        for of_queue in self._found.values():
            for _, since in of_queue.values():
                since.sort()

    def count(self, live: Live, nodes: Sequence[Node], after_seconds: float, now: float) -> int:
        """Jobs that wait beside this one, so long, and for devices such as it has. nodes: those that it is on."""
        before = now - after_seconds
        many = sum(
            bisect_right(since, before)
            for request, since in self._found.get(live.job.queue, {}).values()
            if not nodes or any(_serves(node, request) for node in nodes)
        )
        own = self._since.get(live.job.job_id)
        return many - (own is not None and own <= before)


def _serves(node: Node, request: Request) -> bool:
    models = request.models
    return suits(node, request) and any(not models or device.model in models for device in node.devices)


class ScaledJobs:
    """The last answers about utilization, by the seconds of their window."""

    def __init__(self) -> None:
        self._measured: dict[float, Measured] = {}

    def hear(self, seconds: float, found: Measured) -> None:
        self._measured[seconds] = found

    def facts(
        self,
        live: Live,
        policy: ScalingPolicy,
        waiters: Waiters | None,
        nodes: Sequence[Node],
        holders: Holders | None,
        asks: bool,
        now: float,
    ) -> Facts:
        """waiters: None: none count.   holders: of one that runs.   asks: whether a server is asked for utilization."""
        runs, queue, rule = live.status == "running", policy.queue, policy.utilization
        on = [nodes[number] for number in sorted({grant.node for grant in live.grants})] if runs else []
        use: Use | str = NOT_ASKED
        if rule is not None and asks:
            use = use_of(self._measured.get(rule.window_seconds), rule, holders, live.reported_at, now)
        waiting = 0
        if queue is not None and waiters is not None:
            waiting = waiters.count(live, on, queue.after_seconds, now)
        return Facts(len(live.grants) if runs else None, waiting, use)


def windows_asked(jobs: Iterable[Live]) -> list[float]:
    """Seconds of the windows over which jobs' policies want their utilization."""
    rules = (live.job.scaling.utilization for live in jobs if live.job.scaling is not None)
    return sorted({rule.window_seconds for rule in rules if rule is not None})
