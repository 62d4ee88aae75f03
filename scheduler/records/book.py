"""Applies what happens to jobs to the scheduling state, the metrics and the events for billing. It decides nothing.

Simulator and live loop share it, so that a start and a preemption mean the same in both. A job is `starting` from the
decision until it is launched, and `stopping` until its devices are free; the scheduling state counts both from the
decision on, so that quota and devices are never granted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, get_args

from collectors.readings import Row
from scheduler.cycle.policies import Reservation
from scheduler.metrics import Meter
from scheduler.model import (
    COMES_BACK,
    Ending,
    EntitlementClass,
    Grant,
    Job,
    NodeState,
    Plan,
    Preempt,
    Request,
    Resize,
    Start,
)
from scheduler.records.events import NO_CAUSE, READY, Cause, Writer, gpus_held
from scheduler.records.ladder import RECLAIMED, Ladder, Step, climbed
from scheduler.scaling import Scaled, ScalingPolicy

Status = Literal["held", "suspended", "pending", "starting", "running", "stopping"]
Emit = Callable[[str, Sequence[Row]], None]
MILLISECOND = 0.001
"""In seconds; times of events are rounded to it."""
REQUEUED, RESUMED = "Requeued", "Resumed"
TIME_LIMIT = Cause("TimeLimit", "ran as long as it was allowed to", "scheduler")
LEASE_OVER = Cause("LeaseExpired", "was not renewed before its lease was over", "scheduler")


class Core(Protocol):
    """The scheduling state (scheduler.cycle.core). Methods apply changes; `plan` changes nothing."""

    def amount(self, request: Request, replicas: int) -> int:
        """Device units of so many replicas."""

    def submit(self, job: Job, now: float) -> None: ...

    def withdraw(self, job_id: str, now: float) -> None:
        """A pending job is set aside until it is submitted again, or dropped."""

    def drop(self, job_id: str) -> None:
        """One that was set aside does not come back."""

    def apply(self, action: Start | Preempt | Resize, now: float) -> None: ...

    def launched(self, job_id: str, at: float) -> None:
        """A job that was started runs since then."""

    def end(self, job_id: str, now: float, finished: bool, comes_back: bool = False, leaves: bool = False) -> None:
        """A running job's grants are free. finished: what depends on it may run.   comes_back: it is set aside.
        leaves: it is still on its devices."""

    def keep_small(self, job_id: str, keeps: bool) -> None:
        """A running elastic job does not grow, or may again."""

    def completes(self, job_id: str) -> None:
        """A running job does not grow any more, unless it loses replicas first."""

    def hears(self, job_id: str, heard: bool) -> None:
        """A running job does not grow while it is not heard of."""

    def rescale(self, job_id: str, least: int, most: int, now: float) -> None:
        """A running job is to have at least and at most so many replicas; it has no more."""

    def gone(self, job_id: str) -> None:
        """It is no longer, nor one that was preempted."""

    def set_node(self, node: int, state: NodeState, now: float) -> None: ...

    def unused(self, now: float) -> Sequence[Reservation]:
        """Reservations that are to be given back by now."""

    def next_unused(self) -> float:
        """When the next will be, if nothing of their tenants starts there before; infinite: never."""

    def next_promise(self, after: float) -> float:
        """When a job that waits is to be looked at, for it was promised to start then; infinite: none was."""

    def give_back(self, name: str, start: float, now: float) -> None:
        """That reservation keeps nothing from now on."""

    def plan(self, now: float) -> Plan: ...


@dataclass(slots=True)
class Live:
    """A job that is not over. since: of its status.   released_at: when its quota was, where it is stopping.

    entitlement, grants, decision_id: of the attempt that runs or starts.   stop: how and why it will have ended.
    payload: from its submitter, for its executor.   world: the entry that gave it its grants.   reported_at:
    when the books last heard of it; it has not ended before.   by: who holds or has suspended it.   resumed: why it
    waits again as soon as a suspended attempt is gone.   renewed_at: since when its lease runs.   warned: of which end
    it was warned.   reshaped: while it starts, what it held before, until when, and why it holds something else since.
    followers: that were given devices on which it still stops.   follows: of which it is one; it begins when they are
    over.   not_before: when those it followed were over.   idle: what was done because this attempt is idle.   aside:
    why it was suspended.   scaled: what its policy has made of the replicas that it asks for; `job` has the result.
    finished_in: the world of this attempt of which a rank has finished; 0: none.
    """

    job: Job
    status: Status
    since: float
    attempt: int = 1
    grants: tuple[Grant, ...] = ()
    entitlement: EntitlementClass = "guaranteed"
    decision_id: str = ""
    started_at: float | None = None
    released_at: float | None = None
    stop: tuple[Ending, Cause] | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    world: int = 0
    reported_at: float = 0.0
    by: str = ""
    resumed: Cause | None = None
    renewed_at: float = 0.0
    warned: float = 0.0
    reshaped: list[tuple[float, tuple[Grant, ...], Cause]] = field(default_factory=list)
    followers: list[Live] = field(default_factory=list, repr=False, compare=False)
    follows: set[str] = field(default_factory=set)
    not_before: float = 0.0
    idle: Ladder | None = None
    aside: Cause = NO_CAUSE
    scaled: Scaled | None = None
    finished_in: int = 0

    @property
    def is_completing(self) -> bool:
        """Whether a rank of it has finished while others run. Another world would run that rank again."""
        return self.finished_in == self.world > 0

    @property
    def asked(self) -> tuple[int, int]:
        """The fewest and the most replicas that it asks for, whatever its policy says."""
        return (self.job.min_replicas, self.job.max_replicas) if self.scaled is None else self.scaled.asked

    @property
    def places(self) -> set[tuple[int, int]]:
        """Nodes and devices that it holds."""
        return {(grant.node, device) for grant in self.grants for device in grant.devices}

    def may_have_begun(self, began_at: float, now: float) -> float:
        """As the books have it: not before it was to begin nor before its devices' previous holders had ended, and no
        later than now, whatever its nodes' clocks show."""
        earliest = self.reported_at if self.status == "stopping" else self.since
        return round(min(max(began_at, earliest, self.not_before), now), 3)

    def may_have_ended(self, ended_at: float, now: float) -> float:
        """Not before the books last heard of it, else no later than now. Of what ended before it began, by its node's
        clock, the end is not known: it is when somebody saw so."""
        if self.status in ("starting", "running") and ended_at < self.since:
            return now
        return max(self.reported_at, min(ended_at, now))

    @property
    def lease_until(self) -> float | None:
        """When it is stopped, if it is not renewed before; None: it has no lease, or does not run."""
        if self.job.lease_seconds is None or self.started_at is None:
            return None
        return max(self.started_at, self.renewed_at) + self.job.lease_seconds

    @property
    def limit_at(self) -> float | None:
        """When its time limit stops it; None: it has none, or does not run."""
        if self.job.time_limit is None or self.started_at is None:
            return None
        return self.started_at + self.job.time_limit

    @property
    def ends(self) -> tuple[float, Cause] | None:
        """When it is stopped at the latest, as things are, and why; None: never, or it does not run."""
        limit_at, until = self.limit_at, self.lease_until
        found = [] if until is None else [(until, LEASE_OVER)]
        if limit_at is not None:
            found.append((limit_at, TIME_LIMIT))
        return min(found, key=lambda one: one[0], default=None)


class Book:
    """emit: takes the rows of each event, with the name of their record type; None = nobody reads them."""

    def __init__(self, core: Core, meter: Meter, writer: Writer, emit: Emit | None = None) -> None:
        self.core, self.meter, self.writer, self._emit = core, meter, writer, emit
        self.jobs: dict[str, Live] = {}
        self._leaving: dict[str, Live] = {}

    def submit(
        self, job: Job, now: float, sequence: int, actor: str = "", payload: Mapping[str, Any] | None = None
    ) -> None:
        self.jobs[job.job_id] = Live(job, "pending", now, payload=payload or {}, reported_at=now)
        self.core.submit(job, now)
        self._meter_waits(job, now)
        if self._emit:
            self._emit("events", self.writer.submitted(job, now, sequence, cause=Cause(actor=actor)))

    def _meter_waits(self, job: Job, now: float) -> None:
        self.meter.submitted(job, now, self.core.amount(job.request, job.min_replicas))

    def reject(self, job: Job, now: float, sequence: int, cause: Cause) -> None:
        """A job is refused; the books show its submission."""
        if self._emit:
            self._emit("events", self.writer.submitted(job, now, sequence))
            self._emit("events", self.writer.ended("rejected", job, now, sequence, cause=cause))

    def waits(
        self, job_id: str, now: float, sequence: int, cause: Cause, expected_interval: Sequence[str] = ()
    ) -> None:
        """Why it waits has changed. Emitted as "waits", because it is not another submission."""
        live = self.jobs.get(job_id)
        if self._emit and live is not None and live.status == "pending":
            live.reported_at = at = max(
                now, live.reported_at + MILLISECOND
            )  # rows with the same time would replace each other
            rows = self.writer.waits(live.job, at, sequence, live.attempt, cause, expected_interval)
            self._emit("waits", rows)

    def hold(self, job_id: str, now: float, actor: str = "") -> None:
        """Holds a pending job: it does not start, and requests nothing, until it is released."""
        live = self.jobs[job_id]
        self.core.withdraw(job_id, now)
        self.meter.withdrawn(job_id, now)
        live.status, live.since, live.by = "held", now, actor

    def release(self, job_id: str, now: float) -> None:
        live = self.jobs[job_id]
        self.core.submit(live.job, now)
        self._meter_waits(live.job, now)
        live.status, live.since, live.by = "pending", now, ""

    def suspend(self, job_id: str, now: float, sequence: int, cause: Cause) -> None:
        """The attempt ends, at once or when nothing of it runs any more; the next begins when the job is resumed. One
        that is suspended stays so, on somebody else's behalf from now on."""
        live = self.jobs[job_id]
        live.by, live.aside = cause.actor, cause
        if live.status == "suspended" or (live.stop and live.stop[0] == "suspended" and live.resumed is None):
            return
        if live.status == "pending":
            self.core.withdraw(job_id, now)
            self._set_aside(live, now, sequence, cause)
        elif live.status == "stopping":
            live.stop, live.resumed = ("suspended", cause), None
        else:
            self.stop(job_id, "suspended", now, cause)

    def resume(self, job_id: str, now: float, sequence: int, cause: Cause) -> None:
        """It waits again, in the place that its submission gives it."""
        live = self.jobs[job_id]
        if live.status == "stopping":
            live.resumed = cause
        else:
            self._wait_again(live, now, sequence, Cause(RESUMED, cause.text, cause.actor))

    def decide(self, plan: Plan, now: float, sequence: int) -> None:
        """Applies a plan: jobs are starting or stopping from now on; a change of size is there at once, reported once
        for each job, since the books take all `resized` rows of an instant for one set. Plans therefore have different
        times, by a millisecond at least.
        """
        resized: dict[str, Cause] = {}
        held: dict[str, tuple[Grant, ...]] = {}
        for action in plan.actions:
            live = self.jobs[action.job_id]
            if live.status == "starting":
                held.setdefault(action.job_id, live.grants)
            if isinstance(action, Start):
                live.status, live.since, live.reported_at = "starting", now, max(live.reported_at, now)
                live.grants, live.entitlement, live.decision_id = action.grants, action.entitlement, action.decision_id
                self._follow(live)
            elif isinstance(action, Preempt):
                if self._preempt(live, action, now):
                    resized.pop(action.job_id, None)
                else:
                    resized[action.job_id] = _cause_of(action)
            else:
                live.grants = action.grants
                resized[action.job_id] = Cause(decision_id=action.decision_id)
            if not isinstance(action, Preempt) or live.status != "stopping":
                live.world = sequence
            self.core.apply(action, now)
        for job_id, cause in resized.items():
            if job_id in held:  # it may have begun already: its start will report both
                self.jobs[job_id].reshaped.append((now, held[job_id], cause))
            else:
                self._resized(self.jobs[job_id], now, sequence, cause)
        self.meter.explained(plan.waiting)

    def launched(self, job_id: str, now: float, sequence: int, began_at: float | None = None) -> None:
        """It runs, and pays, from now on; or since it began, where whoever runs it reported that later. By the books it
        never begins before the previous holders of its devices have ended, whatever their nodes' clocks show."""
        live = self.jobs[job_id]
        began = self._began(live, now, sequence, began_at)
        live.status, live.since = "running", began
        self.core.launched(job_id, began)

    def _began(self, live: Live, now: float, sequence: int, began_at: float | None) -> float:
        began = now if began_at is None else live.may_have_begun(began_at, now)
        live.started_at = began
        self.meter.started(live.job.job_id, live.grants, now)
        since = [one for one in live.reshaped if one[0] > began]
        live.reshaped = []
        cause, shapes = Cause(decision_id=live.decision_id), [*(grants for _, grants, _ in since), live.grants]
        if self._emit:
            job, entitlement, attempt = live.job, live.entitlement, live.attempt
            self._emit("events", self.writer.started(job, shapes[0], entitlement, began, sequence, attempt, cause))
            for (at, _, why), grants in zip(since, shapes[1:], strict=True):
                self._emit("events", self.writer.resized(job, grants, entitlement, at, sequence, attempt, why))
        live.reported_at = max([live.reported_at, began, *(at for at, _, _ in since)])
        return began

    def ready(self, job_id: str, now: float, sequence: int) -> None:
        """A service's replica serves from now on; until now it was cold. It holds what it held."""
        live = self.jobs[job_id]
        live.reported_at = now
        if self._emit:
            cause = Cause(READY, decision_id=live.decision_id)
            rows = self.writer.resized(live.job, live.grants, live.entitlement, now, sequence, live.attempt, cause)
            self._emit("events", rows)

    def renew(self, job_id: str, now: float) -> None:
        """Renews a job's lease."""
        self.jobs[job_id].renewed_at = now

    def warn(self, job_id: str, ends_at: float, now: float, sequence: int, cause: Cause) -> None:
        """Emits a warning that a running job ends soon, which is no event for the books."""
        live = self.jobs[job_id]
        live.warned = ends_at
        if self._emit:
            self._emit("warnings", self.writer.ends_soon(live.job, now, ends_at, sequence, live.attempt, cause))

    def idle(self, job_id: str, step: Step, now: float, sequence: int, cause: Cause, body: Mapping[str, Any]) -> None:
        """A step about a running job that is idle, or is not any more, which is no event for the books."""
        live = self.jobs[job_id]
        live.idle = climbed(live.idle, step, now, body)
        if step in ("busy", "kept"):
            self.core.keep_small(job_id, False)
        if self._emit:
            self._emit("warnings", self.writer.idle(live.job, now, sequence, live.attempt, cause))

    def shrink(
        self, job_id: str, replicas: int, now: float, sequence: int, cause: Cause, body: Mapping[str, Any]
    ) -> None:
        """Takes so many replicas, not all, from a running elastic job that is idle; it does not grow until it is used
        again. The books have the new size from now on."""
        live = self.jobs[job_id]
        if live.status != "running" or not 0 < replicas < len(live.grants):
            raise ValueError(f"{live.status}, with {len(live.grants)} replicas")
        self.core.apply(Preempt(job_id, replicas, "", cause.reason, cause.text), now)
        self.core.keep_small(job_id, True)
        live.grants, live.world = live.grants[:-replicas], sequence
        live.idle = climbed(live.idle, "shrunk", now, body)
        self._resized(live, now, sequence, cause)

    def rescale(
        self,
        job_id: str,
        least: int,
        most: int,
        beyond: int,
        now: float,
        sequence: int,
        cause: Cause,
        scaling: ScalingPolicy | None = None,
        scaled: Scaled | None = None,
    ) -> None:
        """A job is to have at least and at most so many replicas from now on. One that has fewer grows as there is
        room.   beyond: replicas that it gives up at once.   scaling: its policy from now on.   scaled: what that has
        made of what it asks for."""
        live = self.jobs[job_id]
        live.scaled = scaled
        if live.status == "pending":
            self.core.withdraw(job_id, now)
            self.meter.withdrawn(job_id, now)
        live.job = replace(live.job, min_replicas=least, max_replicas=most, scaling=scaling)
        if live.status == "pending":
            self.core.submit(live.job, now)
            self._meter_waits(live.job, now)
        elif live.status in ("starting", "running"):
            held = live.grants
            if len(held) - beyond > most:
                raise ValueError(f"{len(held)} replicas without {beyond} are more than {most}")
            if beyond:
                self.core.apply(Preempt(job_id, beyond, "", cause.reason, cause.text), now)
                live.grants, live.world = held[:-beyond], sequence
                if live.status == "starting":
                    live.reshaped.append((now, held, cause))
                else:
                    self._resized(live, now, sequence, cause)
            self.core.rescale(job_id, least, most, now)

    def completing(self, job_id: str) -> None:
        """A rank has finished, and others of that world run on: it keeps its size from now on, or gets a smaller one,
        in which all ranks run."""
        live = self.jobs[job_id]
        if live.status not in ("starting", "running"):
            raise ValueError(f"it is {live.status}")
        live.finished_in = live.world
        self.core.completes(job_id)

    def hears(self, job_id: str, heard: bool) -> None:
        """Whether everybody who runs ranks of a job has reported since the scheduler began. Until then one of them may
        have finished, so that it does not grow."""
        if self.jobs[job_id].status not in ("starting", "running"):
            raise ValueError(f"it is {self.jobs[job_id].status}")
        self.core.hears(job_id, heard)

    def vacate(self, job_id: str, ranks: Sequence[int], payload: Mapping[str, Any], now: float, sequence: int) -> None:
        """Some ranks of a running job have ended, and it goes on without them.   payload: of those that are left."""
        live = self.jobs[job_id]
        kept = tuple(grant for number, grant in enumerate(live.grants) if number not in ranks)
        if live.status != "running" or not 0 < len(kept) < len(live.grants):
            raise ValueError(f"{live.status}, with {len(kept)} of {len(live.grants)} replicas left")
        live.job = replace(live.job, min_replicas=len(kept), max_replicas=len(kept))
        self.core.apply(Resize(job_id, kept, ""), now)
        self.core.rescale(job_id, len(kept), len(kept), now)
        live.grants, live.world, live.payload = kept, sequence, payload
        self._resized(live, now, sequence, NO_CAUSE)

    def stop(self, job_id: str, ending: Ending, now: float, cause: Cause) -> None:
        """Asks a starting or running job to stop; its quota is free from now on, its devices are not yet."""
        self.core.end(job_id, now, finished=False, comes_back=ending in COMES_BACK, leaves=True)
        self._stopping(self.jobs[job_id], ending, now, cause)

    def cancel(self, job_id: str, cause: Cause) -> None:
        """A stopping job that would wait again ends instead."""
        live = self.jobs[job_id]
        self.core.drop(job_id)
        live.stop, live.resumed = ("cancelled", cause), None

    def freed(
        self,
        job_id: str,
        now: float,
        sequence: int,
        ended_at: float | None = None,
        began_at: float | None = None,
    ) -> None:
        """Nothing of a stopping job runs any more. A preempted one waits again, a suspended one when it was resumed.
        ended_at: as for `end`.   began_at: of one that was stopped before anybody reported that it had begun."""
        live = self.jobs[job_id]
        assert live.stop is not None
        if began_at is not None and live.started_at is None:
            self._began(live, now, sequence, began_at)
        self.core.gone(job_id)
        ending, cause = live.stop
        if ending not in COMES_BACK:
            self.end(job_id, ending, now, sequence, cause, ended_at)
            return
        if ending == "suspended":
            self._set_aside(live, now, sequence, cause, ended_at)
            if live.resumed is not None:
                self.resume(job_id, now, sequence, live.resumed)
            return
        self._attempt_over(live, ending, now, sequence, cause, ended_at)
        self._wait_again(live, now, sequence, Cause(REQUEUED, actor=cause.actor))

    def end(
        self,
        job_id: str,
        ending: Ending,
        now: float,
        sequence: int,
        cause: Cause = NO_CAUSE,
        ended_at: float | None = None,
    ) -> None:
        """It is over, whatever it did; its devices are free. ended_at: since when, where whoever ran it has reported it
        later: it pays until then."""
        live = self.jobs.pop(job_id)
        if live.status == "pending":
            self.core.withdraw(job_id, now)
        if live.status in ("pending", "held", "suspended"):
            self.core.drop(job_id)
        elif live.status in ("starting", "running"):
            self.core.end(job_id, now, ending == "finished")
        self._attempt_over(live, ending, now, sequence, cause, ended_at)

    def set_node(self, node: int, state: NodeState, now: float) -> None:
        self.core.set_node(node, state, now)
        self.meter.node(node, state, now)
        if self._emit:
            self._emit("devices", self.writer.devices([node], state, now))

    def announce(self, nodes: Iterable[int], now: float) -> None:
        """Emits devices that the books may not have yet."""
        if self._emit:
            self._emit("devices", self.writer.devices(nodes, "available", now))

    def by_status(self) -> Mapping[Status, int]:
        counts: dict[Status, int] = dict.fromkeys(get_args(Status), 0)
        for live in self.jobs.values():
            counts[live.status] += 1
        return counts

    def _preempt(self, live: Live, action: Preempt, now: float) -> bool:
        """Preempts replicas. Returns whether the whole job was preempted."""
        replicas = min(action.replicas, len(live.grants))
        whole = replicas == len(live.grants)
        lost = 0.0
        if live.started_at is not None:
            ran, every = now - live.started_at, live.job.checkpoint_seconds
            lost = (ran % every if every else ran) * gpus_held(self.writer.nodes, live.grants[-replicas:])
        self.meter.preempted(live.job.job_id, action.by_job, action.authority, replicas, whole, lost)
        if whole:
            self._stopping(live, "preempted", now, _cause_of(action))
        else:
            live.grants = live.grants[:-replicas]
        return whole

    def _attempt_over(
        self, live: Live, ending: Ending, now: float, sequence: int, cause: Cause, ended_at: float | None
    ) -> None:
        self.meter.ended(live.job.job_id, now, ending, cause.reason == TIME_LIMIT.reason)
        over = live.may_have_ended(now if ended_at is None else ended_at, now)
        self._leaving.pop(live.job.job_id, None)
        for follower in live.followers:
            follower.not_before = max(follower.not_before, over)
            follower.follows.discard(live.job.job_id)
        live.followers, live.follows = [], set()
        if self._emit:
            released = over if live.grants and live.released_at is None else live.released_at
            limit_at = live.limit_at if cause.reason == RECLAIMED else None
            rows = self.writer.ended(ending, live.job, over, sequence, live.attempt, cause, released, limit_at)
            self._emit("events", rows)
        live.grants, live.started_at, live.released_at, live.stop = (), None, None, None
        live.reshaped, live.idle, live.finished_in = [], None, 0

    def _set_aside(self, live: Live, now: float, sequence: int, cause: Cause, ended_at: float | None = None) -> None:
        self._attempt_over(live, "suspended", now, sequence, cause, ended_at)
        live.status, live.since, live.reported_at = "suspended", now, now

    def _wait_again(self, live: Live, now: float, sequence: int, cause: Cause) -> None:
        """Lets a job wait again, as its next attempt."""
        live.status, live.since, live.attempt, live.reported_at = "pending", now, live.attempt + 1, now
        live.by, live.resumed, live.aside = "", None, NO_CAUSE
        self.core.submit(live.job, now)
        self._meter_waits(live.job, now)
        if self._emit:
            self._emit("events", self.writer.submitted(live.job, now, sequence, live.attempt, cause))

    def _stopping(self, live: Live, ending: Ending, now: float, cause: Cause) -> None:
        live.status, live.since, live.released_at, live.stop = "stopping", now, now, (ending, cause)
        self._leaving[live.job.job_id] = live

    def _follow(self, live: Live) -> None:
        for other in self._leaving.values():
            if not other.places.isdisjoint(live.places):
                other.followers.append(live)
                live.follows.add(other.job.job_id)

    def _resized(self, live: Live, now: float, sequence: int, cause: Cause) -> None:
        if live.status != "running":
            return
        live.reported_at = now
        self.meter.resized(live.job.job_id, live.grants, now)
        if self._emit:
            limit_at = live.limit_at if cause.reason == RECLAIMED else None
            held = (live.job, live.grants, live.entitlement, now)
            self._emit("events", self.writer.resized(*held, sequence, live.attempt, cause, limit_at))


def _cause_of(action: Preempt) -> Cause:
    return Cause(action.authority, action.text, action.by_job, action.decision_id)
