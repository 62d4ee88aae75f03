"""Quantiles from histograms: computed from what the buckets gained within an interval, with their uncertainty.

A histogram only shows that an observation lies between two edges. So a quantile comes with the edges of its bucket, and
its value is interpolated linearly between them. Above the highest edge there is no value.

Source: https://prometheus.io/docs/practices/histograms/, histogram_quantile in the query language's documentation
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST = 1e15
"""Nothing is counted that often; a larger count is garbage."""
LARGEST = 1e100
"""No sum or gauge is larger; so sums of them stay finite."""
BEYOND = 3
"""So many observations must lie beyond a quantile for it to mean anything: a P99 needs 300, a P50 six."""


@dataclass(frozen=True, slots=True)
class Histogram:
    """edges: upper ones, ascending, finite.   below: observations at or below each edge.   count: all of them.
    total: their sum, None where it is not reported."""

    edges: tuple[float, ...]
    below: tuple[float, ...]
    count: float
    total: float | None = None

    @property
    def mean(self) -> float | None:
        return self.total / self.count if self.total is not None and self.count > 0 else None


@dataclass(frozen=True, slots=True)
class Quantile:
    """value: None where too few observations, or none with an edge above them, can tell.   low, high: edges of the
    bucket; None where there is none."""

    quantile: float
    value: float | None
    low: float | None
    high: float | None
    observations: int


def histogram(buckets: Mapping[float, float], count: float | None = None, total: float | None = None) -> Histogram:
    """From le -> cumulative count; +Inf may be among the edges, or is the count.

    Errors: ValueError if the counts are none, fall with rising edges, or the count of all is missing.
    """
    everything = buckets.get(math.inf, count)
    edges = sorted(edge for edge in buckets if math.isfinite(edge))
    below = [buckets[edge] for edge in edges]
    if everything is None:
        raise ValueError("no bucket +Inf and no count")
    counts = [*below, everything]
    if not all(0 <= number <= MOST for number in counts):
        raise ValueError("a bucket's count is no count")
    if counts != sorted(counts):
        raise ValueError("counts fall with rising edges")
    reported = total is not None and abs(total) <= LARGEST
    return Histogram(tuple(edges), tuple(below), everything, total if reported else None)


def gained(before: Histogram | None, after: Histogram) -> Histogram:
    """What was observed between two readings of one cumulative histogram.

    One that fell, or whose edges are others, was started anew: all that it has is new. So has one that was not there
    before.
    """
    if before is None or before.edges != after.edges:
        return after
    parts = list(zip((*after.below, after.count), (*before.below, before.count), strict=True))
    if any(now < then for now, then in parts):
        return after
    steps = [now - then for now, then in parts]
    # Buckets are not read in one instant: what lies below an edge is at least what lies below a lower one.
    for place in range(1, len(steps)):
        steps[place] = max(steps[place], steps[place - 1])
    totals = (after.total, before.total)
    total = None if totals[0] is None or totals[1] is None else totals[0] - totals[1]
    return Histogram(after.edges, tuple(steps[:-1]), steps[-1], total)


def merged(parts: Sequence[Histogram]) -> Histogram:
    """Several histograms as one, over the edges that all of them share: between others, the counts are unknown."""
    if not parts:
        raise ValueError("no histograms")
    common = sorted(set(parts[0].edges).intersection(*(part.edges for part in parts[1:])))
    below = [sum(part.below[bisect_left(part.edges, edge)] for part in parts) for edge in common]
    totals = [part.total for part in parts]
    known = [total for total in totals if total is not None]
    total = math.fsum(known) if len(known) == len(totals) else None
    return Histogram(tuple(common), tuple(below), sum(part.count for part in parts), total)


def fewest(quantile: float) -> int:
    """How many observations a quantile needs."""
    return math.ceil(round(BEYOND / min(quantile, 1 - quantile), 6))


def quantile_of(observed: Histogram, quantile: float) -> Quantile:
    """Errors: ValueError unless 0 < quantile < 1."""
    if not 0 < quantile < 1:
        raise ValueError(f"quantile {quantile} is not between 0 and 1")
    seen = int(observed.count)
    if observed.count < fewest(quantile):
        return Quantile(quantile, None, None, None, seen)
    rank = quantile * observed.count
    place = bisect_left(observed.below, rank)
    edges = observed.edges
    low = edges[place - 1] if place else (0.0 if edges and edges[0] > 0 else None)
    if place == len(edges):
        return Quantile(quantile, None, low, None, seen)
    high = edges[place]
    if low is None:
        return Quantile(quantile, None, None, high, seen)
    under = observed.below[place - 1] if place else 0.0
    within = observed.below[place] - under
    value = low + (high - low) * (rank - under) / within
    return Quantile(quantile, min(max(value, low), high), low, high, seen)
