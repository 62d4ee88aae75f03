"""Services that scale with their queue, down to zero replicas; each replica is a job of its own.

A replica is `cold` from its start until it reports that it is ready: it loads the model, and holds devices without
serving. That time is measured for each replica; `cold_unit_seconds` sums it, so that it can be shown and charged
separately. Decisions are functions of what was observed and of `now`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from scheduler.model import Job, Request
from scheduler.windows import Window

FIRST_PAUSE, MOST_PAUSE = 5.0, 300.0
"""Seconds before a new replica after a failed one: doubled each time, until a replica is ready."""
ReplicaState = Literal["pending", "cold", "warm"]


TOLERANCE = 0.1
"""Relative deviation of utilization from its target without a change of replicas, as in Kubernetes' autoscaler."""


@dataclass(frozen=True, slots=True)
class Use:
    """target: mean utilization of the replicas that are ready, above 0.   fresh_seconds: for which a reported one is
    known."""

    target: float
    fresh_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Service:
    """target: requests, waiting and in work, for each replica; None: they do not count.   use: utilization to keep;
    None: it does not count.   windows: hours with bounds of their own.   idle_seconds: without any request, or any use,
    before the last replica stops.

    keep_seconds: that demand must have been lower before replicas go, so that a dip does not cost a cold start.
    payload: of each replica, for the executor.
    """

    name: str
    tenant: str
    queue: str
    request: Request
    target: int | None = 1
    min_replicas: int = 0
    max_replicas: int = 1
    idle_seconds: float = 300.0
    keep_seconds: float = 60.0
    priority: int = 0
    project: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    use: Use | None = None
    windows: tuple[Window, ...] = ()


@dataclass(slots=True)
class Replica:
    """started_at, ready_at: None = not yet.   units: device units held."""

    job_id: str
    submitted_at: float
    started_at: float | None = None
    ready_at: float | None = None
    units: int = 0

    @property
    def state(self) -> ReplicaState:
        if self.started_at is None:
            return "pending"
        return "cold" if self.ready_at is None else "warm"

    def cold_seconds(self, now: float) -> float:
        """How long it has been cold, up to now."""
        if self.started_at is None:
            return 0.0
        return max(0.0, (now if self.ready_at is None else self.ready_at) - self.started_at)


@dataclass(frozen=True, slots=True)
class Scaling:
    """submit: jobs of new replicas.   stop: jobs to end, those that serve nobody yet first.   reason: in words."""

    submit: tuple[Job, ...] = ()
    stop: tuple[str, ...] = ()
    reason: str = ""


@dataclass(slots=True)
class ServiceState:
    """What is remembered of a service. is_removed: it is in the settings no more, and its last replicas still go.
    waiting, working: requests.   high_at: when each level of demand was last seen,
    as (replicas needed, when), the highest first.   utilization, used_at, used_by: of the replicas that were ready, so
    many, as it was reported then; None: nobody has.   serial: replicas made so far."""

    service: Service
    is_removed: bool = False
    replicas: dict[str, Replica] = field(default_factory=dict)
    waiting: int = 0
    working: int = 0
    busy_at: float = -math.inf
    high_at: list[tuple[int, float]] = field(default_factory=list)
    utilization: float | None = None
    used_at: float = -math.inf
    used_by: int = 0
    serial: int = 0
    cold_unit_seconds: float = 0.0
    cold_starts: int = 0
    failures: int = 0
    failed_at: float = -math.inf

    def observe(self, waiting: int, working: int, now: float, utilization: float | None = None) -> None:
        """The queue's length, the requests in work, and how used those replicas are that are ready, 0-1; None: nobody
        knows."""
        self._was_needed(now)  # what was reported before held until now
        if self.waiting or self.working:
            self.busy_at = now
        self.waiting, self.working = waiting, working
        if utilization is not None:
            self.utilization, self.used_at, self.used_by = utilization, now, self.by_state()["warm"]
        if waiting or working or utilization:
            self.busy_at = now
        self._was_needed(now)

    def _was_needed(self, now: float) -> None:
        """Notes the level of demand as seen now."""
        needed = max((needed for needed, _ in self._rules(now)), default=0)
        self.high_at = [one for one in self.high_at if one[0] > needed and now - one[1] < self.service.keep_seconds]
        self.high_at.append((needed, now))

    def started(self, job_id: str, units: int, now: float) -> None:
        """A replica holds devices from now on, and is cold."""
        replica = self.replicas[job_id]
        replica.started_at, replica.units = now, units

    def ready(self, job_id: str, now: float) -> float:
        """A replica serves from now on. Returns its cold start in seconds."""
        replica = self.replicas[job_id]
        if replica.ready_at is None:
            replica.ready_at, self.failures = now, 0
            self.cold_starts += 1
            self.cold_unit_seconds += replica.units * replica.cold_seconds(now)
        return replica.cold_seconds(now)

    def ended(self, job_id: str, now: float) -> None:
        """A replica is gone, by decision, preemption or failure; an unfinished cold start counts, too."""
        replica = self.replicas.pop(job_id)
        if replica.ready_at is None:
            self.cold_unit_seconds += replica.units * replica.cold_seconds(now)

    def by_state(self) -> Mapping[ReplicaState, int]:
        counts: dict[ReplicaState, int] = {"pending": 0, "cold": 0, "warm": 0}
        for replica in self.replicas.values():
            counts[replica.state] += 1
        return counts

    def desired(self, now: float) -> int:
        """Replicas needed: by current and recent demand, none after long idleness."""
        return self._reckon(now)[0]

    def why(self, now: float) -> str:
        """The numbers behind `desired`, in words."""
        return "; ".join(self._reckon(now)[1])

    def _reckon(self, now: float) -> tuple[int, list[str]]:
        service, there = self.service, len(self.replicas)
        rules = list(self._rules(now))
        wanted, reasons = max((needed for needed, _ in rules), default=0), [text for _, text in rules]
        recent = max((needed for needed, at in self.high_at if now - at < service.keep_seconds), default=0)
        if recent > wanted:
            wanted = recent
            reasons.append(f"{recent} were needed in the last {service.keep_seconds:.0f} s")
        if not wanted and there and now - self.busy_at < service.idle_seconds:
            wanted = 1
            reasons.append(f"idle for less than {service.idle_seconds:.0f} s: 1")
        if service.use is not None and not self._knows_use(now):
            wanted = max(wanted, there)
            reasons.append(f"utilization is not known: none of {there} goes")
        lowest, highest = service.min_replicas, service.max_replicas
        for window in service.windows:
            if window.is_open(now):
                lowest = max(lowest, window.min_replicas)
                highest = min(highest, window.max_replicas) if window.max_replicas is not None else highest
                reasons.append(str(window))
        found = max(min(lowest, highest), min(highest, wanted))
        reasons.append(f"between {min(lowest, highest)} and {highest}: {found}")
        return found, reasons

    def scale(self, now: float, is_taken: Callable[[str], bool] = lambda job_id: False) -> Scaling:
        """The jobs to submit or stop to reach the desired replicas; afterwards the caller reports `submitted` and
        `ended`.

        is_taken: whether another job has that name.
        """
        wanted, there = self.desired(now), len(self.replicas)
        reason = self.why(now)
        if wanted > there and now < self.failed_at + self._pause():
            return Scaling(reason=f"{reason}; the last one failed, {self.failures} in a row")
        if wanted > there:
            return Scaling(tuple(self._new(now, is_taken, wanted - there)), (), reason)
        if wanted < there:
            order = sorted(self.replicas.values(), key=_least_missed)
            return Scaling((), tuple(replica.job_id for replica in order[: there - wanted]), reason)
        return Scaling(reason=reason)

    def failed(self, now: float) -> None:
        """A replica could not be started, or ended by itself with an error."""
        self.failures, self.failed_at = self.failures + 1, now

    def _pause(self) -> float:
        return min(MOST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures - 1, 16)) if self.failures else 0.0

    def _knows_use(self, now: float) -> bool:
        return self.service.use is not None and now - self.used_at <= self.service.use.fresh_seconds

    def _rules(self, now: float) -> Iterator[tuple[int, str]]:
        """Replicas that are needed, and by which numbers. What utilization asks for is reckoned from the replicas that
        were measured: who came since will take their part."""
        service = self.service
        if service.target is not None:
            needed = math.ceil((self.waiting + self.working) / service.target)
            yield needed, f"{self.waiting} waiting, {self.working} in work, {service.target} for each replica: {needed}"
        if service.use is not None and self.utilization is not None and self._knows_use(now):
            ratio = self.utilization / service.use.target
            needed = self.used_by if abs(ratio - 1) <= TOLERANCE else math.ceil(round(self.used_by * ratio, 6))
            why = f"utilization {self.utilization:.2f} of {service.use.target:.2f}"
            yield needed, f"{why} on {self.used_by} that were ready: {needed}"

    def submitted(self, job: Job, now: float) -> None:
        self.replicas.setdefault(job.job_id, Replica(job.job_id, now))
        number = job.job_id.rpartition("-")[2]
        self.serial = max(self.serial, int(number) if number.isdigit() else 0)

    def _new(self, now: float, is_taken: Callable[[str], bool], count: int) -> Iterator[Job]:
        service = self.service
        names = (f"{service.name}-{number}" for number in itertools.count(self.serial + 1))
        for job_id in itertools.islice((name for name in names if not is_taken(name)), count):
            yield Job(
                job_id,
                service.tenant,
                service.queue,
                service.request,
                now,
                priority=service.priority,
                project=service.project,
                service=service.name,
            )


class Services:
    """All services of a site, updated with events of jobs; jobs of no service are ignored."""

    def __init__(self, services: Iterable[Service] = ()) -> None:
        self.states = {service.name: ServiceState(service) for service in services}

    def reconfigure(self, services: Iterable[Service]) -> None:
        """One that is no more asks for no replicas, and is forgotten when the last is gone."""
        named = {service.name: service for service in services}
        for name, state in [*self.states.items()]:
            state.is_removed = name not in named
            state.service = named.get(name) or replace(state.service, min_replicas=0, max_replicas=0)
            self._forget(state)
        for name, service in named.items():
            self.states.setdefault(name, ServiceState(service))

    def _forget(self, state: ServiceState) -> None:
        if state.is_removed and not state.replicas:
            del self.states[state.service.name]

    def submitted(self, job: Job, now: float) -> None:
        state = self.states.get(job.service)
        if state is not None:
            state.submitted(job, now)

    def launched(self, job: Job, units: int, now: float) -> None:
        state = self._of(job)
        if state is not None:
            state.started(job.job_id, units, now)

    def ready(self, job: Job, now: float) -> float | None:
        """Its cold start in seconds; None: it is no service's."""
        state = self._of(job)
        return None if state is None else state.ready(job.job_id, now)

    def waits_again(self, job: Job, now: float) -> None:
        """A replica was preempted; it loads again at its next start."""
        state = self._of(job)
        if state is not None:
            state.ended(job.job_id, now)
            state.replicas[job.job_id] = Replica(job.job_id, now)

    def ended(self, job: Job, now: float, failed: bool = False) -> None:
        state = self._of(job)
        if state is not None:
            state.ended(job.job_id, now)
            if failed:
                state.failed(now)
            self._forget(state)

    def _of(self, job: Job) -> ServiceState | None:
        state = self.states.get(job.service)
        return state if state is not None and job.job_id in state.replicas else None


def _least_missed(replica: Replica) -> tuple[int, float, str]:
    """Sort key of replicas to stop: pending ones first, then cold, then warm; among these the newest first."""
    order: Sequence[ReplicaState] = ("pending", "cold", "warm")
    return (order.index(replica.state), -replica.submitted_at, replica.job_id)
