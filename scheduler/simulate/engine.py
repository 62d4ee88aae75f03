"""Discrete-event simulation of the scheduling state: arrivals, ends, and instants at which windows begin or end.

Virtual time jumps from one instant to the next. All events of an instant are applied first, ends before arrivals; then
a cycle runs, and others until one decides nothing, as in the live loop. Arrivals are read one by one, and ended jobs
are forgotten.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.model import Ending, Job, Preempt, Resize, Start
from scheduler.records.book import TIME_LIMIT, Book, Live
from scheduler.records.events import NO_CAUSE, Cause

CYCLE_SECONDS = 0.001
"""Between cycles of one instant, so that their decisions have different times in the books."""
MOST_CYCLES = 16
"""Maximum cycles in one instant; if plans still decide then, they repeat each other until the next event."""
SUSPENDED = Cause("Suspended", actor="trace")


@dataclass(frozen=True, slots=True)
class Clock:
    """When cycles run.

    spacing: least seconds between two, as a live loop has; 0 = at every instant at which something happened.
    tick: seconds after which jobs that wait are looked at again when nothing happens; 0 = never.
    wakes: instants at which time alone changes what is possible, e.g. the edges of reservations.
    """

    spacing: float = 0.0
    tick: float = 0.0
    wakes: Sequence[float] = ()


class Pause(NamedTuple):
    """A job is suspended at one time, if it then waits or runs, and resumed at another, infinite: never."""

    at: float
    until: float
    job_id: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """until: virtual seconds since the epoch.   waiting: jobs that never ran, because they never could."""

    jobs: int
    cycles: int
    until: float
    waiting: int


@dataclass(slots=True)
class _Work:
    """What is left of a job, in replica-seconds: it runs the faster the more replicas it has, from its run time with
    the least number of them.   rate: replicas; 0 while it waits.   since: of the rate.   earlier: rates of the attempt
    before it, and since when.   at_start: left when the attempt began.   serial: of its end in the queue of events."""

    left: float
    at_start: float
    rate: int = 0
    since: float = 0.0
    earlier: list[tuple[float, int]] = field(default_factory=list)
    serial: int = 0


class Simulation:
    """One run. watch: called after each instant with the time, e.g. to draw a curve."""

    def __init__(self, book: Book, clock: Clock | None = None, watch: Callable[[float], None] | None = None) -> None:
        self.book, self.clock, self._watch = book, clock or Clock(), watch
        self.now = float("-inf")
        self.cycles = self.sequence = self.jobs = 0
        self._work: dict[str, _Work] = {}
        self._ends: list[tuple[float, int, str]] = []
        self._serial = 0
        self._last_cycle = float("-inf")
        self._due = False
        self._pauses: deque[tuple[float, bool, str]] = deque()

    def run(self, jobs: Iterable[Job], until: float = float("inf"), pauses: Sequence[Pause] = ()) -> Outcome:
        """Until every job is over, or nothing can happen any more, or that time.

        jobs: in the order of submission.   Errors: ValueError if one is out of order, or has a scaling policy, which
        would not be followed.
        """
        arrivals, wakes = iter(jobs), deque(sorted(self.clock.wakes))
        changes = [(pause.at, True, pause.job_id) for pause in pauses]
        changes += [(pause.until, False, pause.job_id) for pause in pauses if pause.until < math.inf]
        self._pauses = deque(sorted(changes))
        upcoming = next(arrivals, None)
        while True:
            moment = self._next(upcoming, wakes[0] if wakes else None)
            if moment is None or moment > until:
                break
            self.now = moment
            self._finish_due()
            self._pause_due()
            while wakes and wakes[0] <= moment:
                wakes.popleft()
                self._due = True
            while upcoming is not None and upcoming.submitted_at <= moment:
                self._submit(upcoming)
                last, upcoming = upcoming, next(arrivals, None)
                if upcoming is not None and upcoming.submitted_at < last.submitted_at:
                    raise ValueError(f"job {upcoming.job_id} is submitted before {last.job_id}, which comes first")
            if moment >= self._last_cycle + self.clock.spacing:
                self._cycle()
            if self._watch:
                self._watch(self.now)
        if self.now > float("-inf"):
            self.book.meter.advance(self.now)
        return Outcome(self.jobs, self.cycles, self.now, self.book.by_status()["pending"])

    def _submit(self, job: Job) -> None:
        if job.scaling is not None:
            raise ValueError(f"job {job.job_id} has a scaling policy, which simulations do not follow")
        self.book.submit(job, self.now, self._number())
        work = (job.run_time or 0.0) * job.min_replicas
        self._work[job.job_id] = _Work(work, work)
        self.jobs += 1
        self._due = True

    def _next(self, upcoming: Job | None, wake: float | None) -> float | None:
        while self._ends and not self._is_current(self._ends[0]):
            heapq.heappop(self._ends)
        moments = [self._ends[0][0]] if self._ends else []
        if upcoming is not None:
            moments.append(upcoming.submitted_at)
        goes_on = bool(moments)
        idle_until = self.book.core.next_unused() if self.book.jobs else math.inf
        if idle_until < math.inf:
            moments.append(max(idle_until, self._last_cycle + self.clock.spacing))
        due = self.book.core.next_promise(self.now) if goes_on else math.inf
        if due < math.inf:
            moments.append(max(due, self._last_cycle + self.clock.spacing))
        if self._pauses and (goes_on or self.book.jobs):
            moments.append(self._pauses[0][0])
        if wake is not None and self.book.jobs:
            moments.append(wake)
        if self._due:  # a cycle is due, and waits only for the spacing
            moments.append(self._last_cycle + self.clock.spacing)
        elif self.clock.tick and goes_on and self.book.jobs:
            moments.append(self._last_cycle + self.clock.tick)
        return max(self.now, min(moments)) if moments else None

    def _is_current(self, end: tuple[float, int, str]) -> bool:
        """Whether the job still ends then: it was neither preempted nor resized since."""
        work = self._work.get(end[2])
        return work is not None and work.serial == end[1]

    def _finish_due(self) -> None:
        while self._ends and self._ends[0][0] <= self.now:
            end = heapq.heappop(self._ends)
            if not self._is_current(end):
                continue
            job_id, work = end[2], self._work.pop(end[2])
            over = work.left - work.rate * (self.now - work.since) <= 1e-3 * work.rate
            ending: Ending = "finished" if over else "failed"
            self.book.end(job_id, ending, self.now, self._number(), NO_CAUSE if over else TIME_LIMIT)
            self._due = True

    def _pause_due(self) -> None:
        while self._pauses and self._pauses[0][0] <= self.now:
            _, begins, job_id = self._pauses.popleft()
            live = self.book.jobs.get(job_id)
            if live is None:
                continue  # it has ended, or was not submitted yet
            if begins and live.status in ("pending", "running"):
                runs = live.status == "running"
                if runs:
                    work = self._work[job_id]
                    work.left = self._left_after_restart(live, work)
                    work.rate, work.serial = 0, 0
                self.book.suspend(job_id, self.now, self._number(), SUSPENDED)
                if runs:
                    self.book.freed(job_id, self.now, self._number())
            elif not begins and live.status == "suspended":
                self.book.resume(job_id, self.now, self._number(), NO_CAUSE)
            self._due = True

    def _cycle(self) -> None:
        for one in self.book.core.unused(self.now):
            self.book.core.give_back(one.name, one.start, self.now)
        for repeated in range(MOST_CYCLES):
            at = round(self.now + CYCLE_SECONDS, 3) if repeated else self.now
            plan = self.book.core.plan(at)
            self.cycles += 1
            if repeated and not plan.actions:
                break
            self.now = self._last_cycle = at
            self._due = False
            self.book.decide(plan, at, self._number())
            for action in plan.actions:
                self._carry_out(action)
            if not plan.actions:
                break

    def _carry_out(self, action: Start | Preempt | Resize) -> None:
        """Does at once what a live executor would do: stop and free, launch, resize."""
        live, work = self.book.jobs[action.job_id], self._work[action.job_id]
        if isinstance(action, Preempt) and live.status == "stopping":
            work.left = self._left_after_restart(live, work)
            work.rate, work.serial = 0, 0
            self.book.freed(action.job_id, self.now, self._number())
            return
        if isinstance(action, Start):
            work.at_start, work.earlier = work.left, []
            self.book.launched(action.job_id, self.now, self._number())
        elif live.status != "running":
            return
        else:
            work.earlier.append((work.since, work.rate))
        work.left -= work.rate * (self.now - work.since)
        work.rate, work.since = max(1, len(live.grants)), self.now
        self._schedule_end(live, work)

    def _left_after_restart(self, live: Live, work: _Work) -> float:
        """What it did since its last checkpoint is lost; without checkpoints, what this attempt did."""
        if not live.job.checkpoint_seconds:
            return work.at_start
        assert live.started_at is not None
        saved_at = self.now - (self.now - live.started_at) % live.job.checkpoint_seconds
        left, until = work.left - work.rate * (self.now - work.since), self.now
        for since, rate in [(work.since, work.rate), *reversed(work.earlier)]:
            left += rate * max(0.0, until - max(since, saved_at))
            until = since
        return min(work.at_start, left)

    def _schedule_end(self, live: Live, work: _Work) -> None:
        assert live.started_at is not None
        end = self.now + work.left / work.rate
        if live.job.time_limit is not None:
            end = min(end, live.started_at + live.job.time_limit)
        self._serial += 1
        work.serial = self._serial
        heapq.heappush(self._ends, (round(end, 3), self._serial, live.job.job_id))

    def _number(self) -> int:
        self.sequence += 1
        return self.sequence
