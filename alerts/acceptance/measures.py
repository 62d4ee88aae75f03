"""Throughput, quantiles, jitter and interference of runs. Definitions: docs/interference.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from alerts.acceptance.plan import STEPS_FOR_P99
from alerts.acceptance.runs import Run


@dataclass(frozen=True)
class Measures:
    """throughput: steps a second.   p50, p99: seconds of a step; p99 and jitter (P99/P50) are None for fewer than
    STEPS_FOR_P99 steps."""

    steps: int
    throughput: float
    p50: float
    p99: float | None

    @property
    def jitter(self) -> float | None:
        return None if self.p99 is None else self.p99 / self.p50


def measure(run: Run, warmup: int) -> Measures | None:
    """Measures of the steps after the first; None: there are none."""
    return of_seconds(run.seconds[warmup:])


def of_seconds(seconds: Sequence[float]) -> Measures | None:
    total = sum(seconds)
    if not seconds or total <= 0:
        return None
    ordered = sorted(seconds)
    p99 = _quantile(ordered, 0.99) if len(ordered) >= STEPS_FOR_P99 else None
    return Measures(len(ordered), len(ordered) / total, _quantile(ordered, 0.5), p99)


def rate_between(run: Run, start: float, end: float) -> float | None:
    """Steps a second that a run reported within [start, end) of its case; None: it was not there throughout."""
    if not run.ends or end <= start or run.ends[0] > start or run.status not in (None, 0):
        return None
    return sum(start <= at < end for at in run.ends) / (end - start)


def _quantile(ordered: Sequence[float], part: float) -> float:
    """The nearest rank, so that the quantile is a step that really happened."""
    return ordered[max(0, ceil(part * len(ordered)) - 1)]
