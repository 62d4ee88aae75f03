"""Prediction intervals for the starts of jobs, from how earlier estimates turned out.

A promise gives the latest start, if running jobs end at their time limits; most end earlier, and other jobs may still
be put first. So for each job with an announced start, the ratio of actual to announced wait is recorded, and the next
job's interval is the range of nine in ten of these ratios: those of its tenant in the queue if there are enough, else
of the queue, else of all. Each miss widens the next intervals a little and each hit narrows them, so that in the long
run nine in ten hold, even while the cluster changes.
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
"""Outcomes of a tenant in a queue, or of a queue, that are enough to use instead of all."""
FEWEST = math.ceil(2 / (1 - CONFIDENCE)) - 1
"""Fewest outcomes for an interval with that confidence."""
MOST = 500
"""Outcomes remembered of each; older ones are less relevant."""
STEP = 0.02
"""Step size of the adaptive part: how much one outcome changes the share that may lie outside."""
MOST_OUTSIDE = 0.5
LEAST_WAIT = 1.0
"""Seconds; shorter announced waits are not counted."""


class Interval(NamedTuple):
    """A start is expected in [low, high], in seconds since the epoch.   known: outcomes behind it."""

    low: float
    high: float
    known: int


@dataclass(slots=True)
class _Outcomes:
    """The latest outcomes, by age and sorted.   outside: the share of them that the next interval leaves out."""

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

    def learn(self, met: bool) -> None:
        """Adapts to whether an announced interval was met."""
        missed = 0.0 if met else 1.0
        self.outside = min(MOST_OUTSIDE, max(0.0, self.outside + STEP * (1 - CONFIDENCE - missed)))


@dataclass(slots=True)
class _Expectation:
    """source: the outcomes that the interval was made from."""

    job: Job
    at: float
    announced_at: float
    interval: Interval | None
    source: _Outcomes | None


class Expectations:
    """errors: actual start - announced start, of the latest started jobs, in seconds.   intervals: jobs with an
    interval whose outcome is known.   met: how many of these started within it."""

    def __init__(self) -> None:
        self._announced: dict[str, _Expectation] = {}
        self._outcomes: dict[tuple[str, ...], _Outcomes] = {}
        self.errors: deque[float] = deque(maxlen=2 * MOST)
        self.intervals = self.met = 0

    def announce(self, job: Job, at: float, now: float) -> None:
        """Records the first announced start of a job, to measure its error."""
        if job.job_id not in self._announced:
            self._announced[job.job_id] = _Expectation(job, at, now, self.interval(job, at, now), self._source(job))

    def mark(self) -> int:
        """A position for `withdraw`."""
        return len(self._announced)

    def withdraw(self, mark: int) -> None:
        """Removes everything announced since the mark; nothing else may have happened since."""
        while len(self._announced) > mark:
            self._announced.popitem()

    def announced(self, job_id: str) -> float | None:
        """The first announced start."""
        found = self._announced.get(job_id)
        return found.at if found else None

    def announced_at(self, job_id: str) -> float | None:
        """When it was announced."""
        found = self._announced.get(job_id)
        return found.announced_at if found else None

    def first_interval(self, job_id: str) -> Interval | None:
        """The interval announced with it; None if too few outcomes were known."""
        found = self._announced.get(job_id)
        return found.interval if found else None

    def interval(self, job: Job, at: float, now: float) -> Interval | None:
        """The interval of a job's start, if `at` is announced now; None if too few outcomes are known."""
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
        """A job stops waiting without a start. One that gave up after its interval counts as a miss; otherwise only
        patient jobs would be measured."""
        announced = self._announced.pop(job_id, None)
        if announced is not None and announced.interval is not None and now > announced.interval.high:
            self._learn(announced, now, False)

    def _learn(self, announced: _Expectation, now: float, met: bool) -> None:
        if announced.interval is not None and announced.source is not None:
            self.intervals += 1
            self.met += met
            announced.source.learn(met)
        if announced.at - announced.announced_at >= LEAST_WAIT:
            part = (now - announced.announced_at) / (announced.at - announced.announced_at)
            for key in _keys(announced.job):
                self._outcomes.setdefault(key, _Outcomes()).add(part)


def _keys(job: Job) -> tuple[tuple[str, ...], ...]:
    """Keys of outcomes that are relevant to a job, the most specific first."""
    return (job.queue, job.tenant), (job.queue,), ()
