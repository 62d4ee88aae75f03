"""Simulates a trace under one configuration, and makes its report."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from scheduler.cycle.core import Core
from scheduler.metrics import Meter
from scheduler.model import Job
from scheduler.placement.fragmentation import Fragmentation, typical_demand
from scheduler.records.book import Book, Emit
from scheduler.records.events import Writer
from scheduler.setup import Setup
from scheduler.simulate.engine import Clock, Pause, Simulation
from scheduler.simulate.report import Report, report
from scheduler.simulate.timeline import Timeline

FRAGMENTATION = "fragmentation_ratio"
CURVES = ("held_gpus", "waiting_jobs", FRAGMENTATION)
TICK = 300.0
"""Seconds between cycles without events, if decisions can change without one."""
HOUR = 3600.0


def simulate(
    jobs: Sequence[Job],
    setup: Setup,
    prices: Mapping[str, Decimal] | None = None,
    emit: Emit | None = None,
    cluster_name: str = "simulated",
    spacing: float = 0.0,
    curves: bool = True,
    pauses: Sequence[Pause] = (),
    on_progress: Callable[[int], None] | None = None,
) -> Report:
    """Runs the jobs, in the order of submission, to their end.

    emit:    takes rows of devices and events: what a ledger is built from. The devices are there from an hour before
             the first submission to the full hour after the last end.
    prices:  of a GPU-hour by device model, for the report's costs.
    spacing: least seconds between two cycles; 0 = one at every instant at which something happens.
    pauses:  of jobs that somebody suspends.
    on_progress: called with how many jobs have ended whenever another hundredth of them has.
    """
    began = time.perf_counter()
    jobs = fitted(jobs, setup)
    start = jobs[0].submitted_at if jobs else 0.0
    core = setup.core((job.request for job in jobs), start, explain=False)
    meter = Meter(setup.nodes, setup.tenants, setup.queues, start)
    writer = Writer(cluster_name, setup.nodes)
    everything = range(len(setup.nodes))
    if emit:
        emit("devices", writer.devices(everything, "available", start - HOUR))
    watch = _Watch(meter, core, jobs, start) if curves else None
    clock = Clock(spacing, TICK if setup.depends_on_time() else 0.0, setup.edges())
    step, reported = max(1, len(jobs) // 100), 0

    def each(now: float) -> None:
        nonlocal reported
        if watch:
            watch(now)
        if on_progress and meter.over >= reported + step:
            reported = meter.over
            on_progress(reported)

    outcome = Simulation(Book(core, meter, writer, emit), clock, each).run(jobs, pauses=pauses)
    if emit and jobs:
        emit("devices", writer.devices(everything, "removed", -(-outcome.until // HOUR) * HOUR))
    curve = watch.timeline.points() if watch else ()
    return report(setup.name, meter, outcome, prices, curve, time.perf_counter() - began, core.expectations)


def fitted(jobs: Sequence[Job], setup: Setup) -> Sequence[Job]:
    """The jobs in queues that the configuration has for them: another one's go to the first."""
    parents = {queue.parent for queue in setup.queues}
    known = [queue.name for queue in setup.queues if queue.name not in parents]
    if not known or all(job.queue in known for job in jobs):
        return jobs
    return [job if job.queue in known else replace(job, queue=known[0]) for job in jobs]


class _Watch:
    """Draws the curves. Fragmentation is measured for the demand of the trace itself, once a span of the curve."""

    def __init__(self, meter: Meter, core: Core, jobs: Sequence[Job], start: float) -> None:
        self.meter = meter
        self.timeline = Timeline(CURVES, start)
        self._fragmentation = Fragmentation(core.cluster, typical_demand(job.request for job in jobs))
        self._next, self._ratio = start, 0.0

    def __call__(self, now: float) -> None:
        if now >= self._next:
            self._ratio = self._fragmentation.measure().ratio or 0.0
            self._next = now + self.timeline.seconds
        self.timeline.add(
            now,
            {
                "held_gpus": self.meter.held_gpus,
                "waiting_jobs": self.meter.waiting_jobs,
                FRAGMENTATION: self._ratio,
            },
        )
