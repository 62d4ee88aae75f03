"""Actual against estimated starts of jobs: prediction intervals that hold as often as they claim.

A promise says by when a job starts if running jobs end at their limits; most end earlier, and who comes first may go
before. So for each job with an announced start, the part of that wait that it really waited is remembered, and the
next job is given the range in which nine of ten such parts lay: of its tenant's jobs in the queue where enough are
known, else of the queue's, else of all. A cluster changes, so each miss makes the next ranges a little wider, and
each hit a little narrower: nine of ten hold in the long run, also where what is remembered lags behind.
Source:  split conformal prediction, Vovk et al., Algorithmic Learning in a Random World, 2005: the ranks among n
outcomes between which the next lies with at least the confidence, as long as they come from one distribution; and
adaptive conformal inference, Gibbs and Candès, NeurIPS 2021, for when they do not.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from scheduler.model import Job

CONFIDENCE = 0.9
ENOUGH = 60
"""Outcomes of a tenant in a queue, or of a queue, that say more than those of all."""
FEWEST = math.ceil(2 / (1 - CONFIDENCE)) - 1
"""Outcomes below which none lies far enough outside."""
MOST = 500
"""Outcomes that are remembered of each; what was long ago says less."""
STEP = 0.02
"""By how much of a miss the part that may lie outside changes after each outcome."""
MOST_OUTSIDE = 0.5
LEAST_WAIT = 1.0
"""Seconds; a shorter announced wait teaches nothing."""


class Interval(NamedTuple):
    """A start is expected in [low, high], in seconds since the epoch. known: by so many outcomes."""

    low: float
    high: float
    known: int


@dataclass(slots=True)
class _Outcomes:
    """The last of them, by age and in order.   outside: the part of them that the next range leaves out."""

    recent: deque[float] = field(default_factory=deque)
    ordered: list[float] = field(default_factory=list)
    outside: float = 1 - CONFIDENCE

    def add(self, part: float) -> None:
        if len(self.recent) == MOST:
            del self.ordered[bisect_left(self.ordered, self.recent.popleft())]
        self.recent.append(part)
        insort(self.ordered, part)

    def range(self) -> tuple[float, float]:
        outside = max(1, math.floor((len(self.ordered) + 1) * self.outside / 2))
        return self.ordered[outside - 1], self.ordered[-outside]

    def learn(self, kept: bool) -> None:
        """Whether an announced range has held."""
        missed = 0.0 if kept else 1.0
        self.outside = min(MOST_OUTSIDE, max(0.0, self.outside + STEP * (1 - CONFIDENCE - missed)))


@dataclass(slots=True)
class _Expectation:
    """source: of whose outcomes the interval was made."""

    job: Job
    at: float
    announced_at: float
    interval: Interval | None
    source: _Outcomes | None


class Expectations:
    """errors: real start - announced start, of the last ones that started.   intervals, kept: how many jobs had
    one and it is known whether they started in it, and how many did."""

    def __init__(self) -> None:
        self._announced: dict[str, _Expectation] = {}
        self._outcomes: dict[tuple[str, ...], _Outcomes] = {}
        self.errors: deque[float] = deque(maxlen=2 * MOST)
        self.intervals = self.kept = 0

    def announce(self, job: Job, at: float, now: float) -> None:
        """The first announcement of a job's start is kept, to measure by how much it was wrong."""
        if job.job_id not in self._announced:
            self._announced[job.job_id] = _Expectation(job, at, now, self.interval(job, at, now), self._source(job))

    def mark(self) -> int:
        """A position for `withdraw`."""
        return len(self._announced)

    def withdraw(self, mark: int) -> None:
        """All that was announced since, where nothing else happened meanwhile."""
        while len(self._announced) > mark:
            self._announced.popitem()

    def announced(self, job_id: str) -> float | None:
        """By when it was first expected to start."""
        found = self._announced.get(job_id)
        return found.at if found else None

    def announced_at(self, job_id: str) -> float | None:
        """When that was."""
        found = self._announced.get(job_id)
        return found.announced_at if found else None

    def first_interval(self, job_id: str) -> Interval | None:
        """In which it was then expected to start; None: too little was known."""
        found = self._announced.get(job_id)
        return found.interval if found else None

    def interval(self, job: Job, at: float, now: float) -> Interval | None:
        """Where the start of a job probably lies if this time is announced now."""
        found = self._source(job)
        if found is None:
            return None
        low, high = found.range()
        wait = max(LEAST_WAIT, at - now)
        return Interval(now + low * wait, now + high * wait, len(found.ordered))

    def _source(self, job: Job) -> _Outcomes | None:
        """The nearest outcomes of which enough are known."""
        for key, enough in zip(_keys(job), (ENOUGH, ENOUGH, FEWEST), strict=True):
            found = self._outcomes.get(key)
            if found is not None and len(found.ordered) >= enough:
                return found
        return None

    def started(self, job: Job, now: float) -> None:
        announced = self._announced.pop(job.job_id, None)
        if announced is None:
            return
        self.errors.append(now - announced.at)
        found = announced.interval
        self._learn(announced, now, found is not None and found.low <= now <= found.high)

    def forget(self, job_id: str, now: float) -> None:
        """It waits no more, and did not start. One that gave up after its interval had passed counts as a miss;
        without those, the reports of the patient alone would count."""
        announced = self._announced.pop(job_id, None)
        if announced is not None and announced.interval is not None and now > announced.interval.high:
            self._learn(announced, now, False)

    def _learn(self, announced: _Expectation, now: float, kept: bool) -> None:
        if announced.interval is not None and announced.source is not None:
            self.intervals += 1
            self.kept += kept
            announced.source.learn(kept)
        if announced.at - announced.announced_at >= LEAST_WAIT:
            part = (now - announced.announced_at) / (announced.at - announced.announced_at)
            for key in _keys(announced.job):
                self._outcomes.setdefault(key, _Outcomes()).add(part)


def _keys(job: Job) -> tuple[tuple[str, ...], ...]:
    """Whose outcomes say something of the job's, the nearest first."""
    return (job.queue, job.tenant), (job.queue,), ()
