"""What another number of devices, or shared ones, would have changed for the jobs in the books.

The reference scheduler schedules a workload's jobs again in virtual time: one queue by priority, then submission, with
EASY backfill, without quotas and preemption. Comparing its waits with the real ones shows how far it is from the
scheduler that placed the jobs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from scheduler.cycle.policies import Policies
from scheduler.metrics import Meter
from scheduler.model import Device, Grant, Job, Node, Queue, Request
from scheduler.records.book import Book
from scheduler.records.events import Writer
from scheduler.setup import Setup
from scheduler.simulate.books.workload import MOST_DEVICES, WAITED_SECONDS, BookJob, Change, Outcome, Slot, Workload
from scheduler.simulate.engine import Clock, Simulation
from warehouse.errors import LedgerError

LIMIT_FACTOR = 2.0
"""A job's time limit, by which others are let past, as a multiple of its run time."""
QUEUE, MODEL = "books", "GPU"
POLICIES = Policies(
    preempt_by_priority="never", reclaim=False, preempt_for_fairness=False, preemption_searches=0, expected=0
)


def as_it_was(workload: Workload) -> Outcome:
    """As the books have it."""
    starts = {job.job_id: job.started_at for job in workload.jobs}
    return _outcome(workload, workload.jobs, len(workload.devices), starts)


def simulated(workload: Workload, change: Change, watch: Callable[[float], None] | None = None) -> Outcome:
    """As the simulator has it.   watch: called after each instant of its time.

    Errors: LedgerError if no device would be left, or there would be too many of them.
    """
    nodes = _nodes(workload.devices, change)
    shared = {job.job_id for job in workload.jobs if _would_share(job, change)}
    starts = _starts(nodes, [_asked(job, job.job_id in shared) for job in workload.jobs], watch)
    jobs = [replace(job, whole=change.shares) if job.job_id in shared else job for job in workload.jobs]
    gpus = len(workload.devices) + change.gpus
    return _outcome(workload, jobs, gpus, starts, sum(job.measured and job.job_id in shared for job in jobs))


def wait_at(
    workload: Workload, change: Change, level: float, watch: Callable[[float], None] | None = None
) -> float | None:
    """The wait at a quantile (0-1) after a change, in seconds; None: some job could never start, or there is none."""
    starts = _starts(_nodes(workload.devices, change), [_asked(job, False) for job in workload.jobs], watch)
    measured = [job for job in workload.jobs if job.measured]
    if any(job.job_id not in starts for job in measured):
        return None
    return _quantile(sorted(_wait(job, starts) for job in measured), level)


def node_size(workload: Workload) -> int:
    """How many devices a node has that is added: as many as most have."""
    return _typical(_counts(workload.devices))[0]


def _nodes(devices: Sequence[Slot], change: Change) -> list[Node]:
    """The nodes after the change; the pool of one says into how many units its devices are divided.

    More devices come as nodes like most that there are; fewer are taken from the last of these nodes, then of others.
    """
    total = len(devices) + change.gpus
    if not 0 < total <= MOST_DEVICES:
        there = f"{len(devices):,} GPUs and {change.gpus:+,} make {total:,}"
        raise LedgerError("gpus", there, f"Choose so that there are between 1 and {MOST_DEVICES:,}")
    counts = _counts(devices)
    typical, units = _typical(counts)
    others = [one for one in sorted(counts.items()) if one[0][1] != units]
    sizes = [*others, *(one for one in sorted(counts.items()) if one[0][1] == units)]
    missing = change.gpus
    while missing > 0:
        sizes.append(((f"more-{len(sizes):05d}", units), min(missing, typical)))
        missing -= min(missing, typical)
    while missing < 0:
        where, count = sizes.pop()
        if count + missing > 0:
            sizes.append((where, count + missing))
        missing = min(0, missing + count)
    units_of = {whole: change.shares if whole == 1 else whole for (_, whole), _ in sizes}
    return [
        Node(
            f"{name}/{whole}",
            tuple(Device(f"{name}/{whole}/{one}", MODEL, units_of[whole]) for one in range(count)),
            pool=str(whole),
        )
        for (name, whole), count in sizes
    ]


def _counts(devices: Sequence[Slot]) -> Mapping[tuple[str, int], int]:
    """Devices by node and units."""
    return Counter((slot.node, slot.units) for slot in devices)


def _typical(counts: Mapping[tuple[str, int], int]) -> tuple[int, int]:
    """Devices of a node, and their units, that most nodes have; the larger ones, where as many have others."""
    shapes = Counter((count, units) for (_, units), count in counts.items())
    return max(shapes, key=lambda shape: (shapes[shape], shape))


def _would_share(job: BookJob, change: Change) -> bool:
    """What is not known of a job is no reason to give it less."""
    is_one = job.whole == 1 and job.replicas * job.devices == 1
    return change.shares > 1 and is_one and job.use is not None and job.use * change.shares <= 1


def _asked(job: BookJob, shares: bool) -> Job:
    units = 1 if shares else 0 if job.units == job.whole else job.units
    return Job(
        job.job_id, QUEUE, QUEUE, _request(job.devices, units, str(job.whole)), job.submitted_at,
        min_replicas=job.replicas, max_replicas=job.replicas, priority=job.priority, preemptible=False,
        time_limit=job.run_seconds * LIMIT_FACTOR, run_time=job.run_seconds,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def _request(devices: int, units: int, pool: str) -> Request:
    """One object for all jobs that ask alike."""
    return Request(devices, units, pool=pool)


class _Starts(Meter):
    """Also when each job started."""

    def __init__(self, nodes: Sequence[Node], queues: Sequence[Queue], now: float) -> None:
        super().__init__(nodes, (), queues, now)
        self.starts_of: dict[str, float] = {}

    def started(self, job_id: str, grants: Sequence[Grant], now: float) -> None:
        self.starts_of.setdefault(job_id, now)
        super().started(job_id, grants, now)


def _starts(nodes: Sequence[Node], jobs: Sequence[Job], watch: Callable[[float], None] | None) -> Mapping[str, float]:
    """When each starts; absent: never."""
    queues = [Queue(QUEUE, "priority")]
    start = jobs[0].submitted_at if jobs else 0.0
    core = Setup("books", nodes, (), queues, POLICIES).core((job.request for job in jobs), start, explain=False)
    meter = _Starts(nodes, queues, start)
    Simulation(Book(core, meter, Writer("books", nodes)), Clock(), watch).run(jobs)
    return meter.starts_of


def _outcome(
    workload: Workload, jobs: Sequence[BookJob], gpus: int, starts: Mapping[str, float], shared: int = 0
) -> Outcome:
    measured = [job for job in jobs if job.measured]
    waited = [(job, _wait(job, starts)) for job in measured if job.job_id in starts]
    waits = sorted(wait for _, wait in waited)
    held = math.fsum(job.gpus * _within(workload, starts[job.job_id], job) for job in jobs if job.job_id in starts)
    there = gpus * (workload.end - workload.start)
    return Outcome(
        gpus=gpus,
        jobs=len(measured),
        started=len(waits),
        never_started=len(measured) - len(waits),
        waited=sum(wait >= WAITED_SECONDS for wait in waits),
        mean=math.fsum(waits) / len(waits) if waits else None,
        p50=_quantile(waits, 0.5),
        p95=_quantile(waits, 0.95),
        longest=waits[-1] if waits else None,
        waited_gpu_hours=math.fsum(job.gpus * wait for job, wait in waited) / 3600,
        utilization=held / there if there > 0 else None,
        shared=shared,
    )


def _wait(job: BookJob, starts: Mapping[str, float]) -> float:
    """To the millisecond, as the books have it."""
    return round(starts[job.job_id] - job.submitted_at, 3)


def _within(workload: Workload, start: float, job: BookJob) -> float:
    """Seconds of the period in which it runs."""
    return max(0.0, min(start + job.run_seconds, workload.end) - max(start, workload.start))


def _quantile(ordered: Sequence[float], level: float) -> float | None:
    """As ClickHouse's quantileExact, which the pages use for real waits."""
    return ordered[min(len(ordered) - 1, int(level * len(ordered)))] if ordered else None
