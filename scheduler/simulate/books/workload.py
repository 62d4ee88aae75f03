"""A workload from the books, for the simulator: a group of devices, and the jobs that ran on it.

A group is the devices of one model in one pool of a cluster. A job is assumed to run only in the group in which it ran.
Times are seconds since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

MOST_JOBS = 10_000
"""Maximum jobs of a simulation; of more, the last of the period are used."""
MOST_DEVICES = 10_000
WAITED_SECONDS = 60.0
"""Minimum wait of a job that counts as having waited."""
MOST_SHARES = 16


class Group(NamedTuple):
    cluster: str
    pool: str
    model: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A device.   units: shares that it is given away in; 1: whole."""

    node: str
    units: int = 1


@dataclass(frozen=True, slots=True)
class BookJob:
    """A job as it ran.

    replicas x devices: of its first placement, so many devices on each of so many nodes; units: of each, of whole.
    run_seconds: so long that what it held of them is what the books say.   priority: 0 where none is reported.
    measured: it was submitted in the period, as somebody reported, so that its wait counts.   use: the mean use of what
    it held, 0-1; None: not known of most of its time.
    """

    job_id: str
    submitted_at: float
    started_at: float
    run_seconds: float
    replicas: int = 1
    devices: int = 1
    units: int = 1
    whole: int = 1
    priority: int = 0
    measured: bool = True
    use: float | None = None

    @property
    def gpus(self) -> float:
        return self.replicas * self.devices * self.units / self.whole


LEFT_OUT = ("mig", "several", "uneven")
"""Why a job is not in a workload: it held MIG instances; devices of several groups; unequal shares of devices."""
ASSUMED = ("unsubmitted", "open", "resized", "restarted", "preempted", "priority")
"""What is assumed of jobs that are: submitted as they started; over as the books end; of the size that they began with;
of one run; as long as they were although they were stopped for others; of priority 0."""


@dataclass(frozen=True)
class Workload:
    """start, end: the period.   jobs: in the order of submission; those from before the period are there because they
    held devices in it.   left_out, assumed: jobs by LEFT_OUT, ASSUMED; absent: none.   left_out_hours: GPU-hours that
    they held.   mig_devices: that are not among the devices.   waiting, gone: jobs of the cluster that were submitted
    in the period and never started, so that nobody knows how long they run: they wait at its end, or gave up.
    reasons: jobs that waited, by what was reported as the reason; one may have several.
    partly: devices that were not there all the time.   down_hours: GPU-hours in which devices were not available, and
    here are.
    """

    group: Group
    start: float
    end: float
    devices: Sequence[Slot]
    jobs: Sequence[BookJob]
    left_out: Mapping[str, int] = field(default_factory=dict)
    assumed: Mapping[str, int] = field(default_factory=dict)
    left_out_hours: float = 0.0
    reasons: Mapping[str, int] = field(default_factory=dict)
    mig_devices: int = 0
    waiting: int = 0
    gone: int = 0
    partly: int = 0
    down_hours: float = 0.0


@dataclass(frozen=True)
class Change:
    """gpus: more, or fewer if negative.   shares: whole devices are shared by so many jobs that need only a part: those
    on one device whose use is known and at most a share; 1: they are not."""

    gpus: int = 0
    shares: int = 1


@dataclass(frozen=True)
class Outcome:
    """Of the jobs that were submitted in the period. Waits in seconds, None: none started; exact, not estimated.

    never_started: they fit on none of the devices.   shared: jobs that took a share because of the change.
    waited_gpu_hours: what they ask for x how long they waited.   utilization: what they and those from before held
    within the period / what there is, 0-1.
    """

    gpus: int
    jobs: int
    started: int
    never_started: int
    waited: int
    mean: float | None
    p50: float | None
    p95: float | None
    longest: float | None
    waited_gpu_hours: float
    utilization: float | None
    shared: int = 0


def latest(workload: Workload, most: int = MOST_JOBS) -> Workload:
    """Its last part with at most so many jobs, measured from the first of them on; the whole, where it has no more."""
    if len(workload.jobs) <= most:
        return workload
    jobs = workload.jobs[-most:]
    since = max(workload.start, jobs[0].submitted_at)
    carried = [job for job in workload.jobs[:-most] if job.started_at < since < job.started_at + job.run_seconds]
    chosen = [replace(job, submitted_at=job.started_at, measured=False) for job in carried]
    return replace(workload, start=since, jobs=sorted([*chosen, *jobs], key=order))


def order(job: BookJob) -> tuple[float, float, str]:
    """Of submission."""
    return job.submitted_at, job.started_at, job.job_id
