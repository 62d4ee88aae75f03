"""The quantities, as pure functions. SQL computes the same over many rows (alerts/interference/*.sql)."""

from __future__ import annotations

from collections.abc import Sequence

LEAST_OBSERVATIONS = 300
"""With fewer values, a P99 means nothing."""
RATES = ("training_steps_per_second", "training_samples_per_second")
"""Measures for which higher is better."""


def slowdown(metric: str, alone: float, shared: float) -> float | None:
    """S: 1 = as alone, 2 = half as fast. None where one of the two is nothing to divide by."""
    if alone <= 0 or shared <= 0:
        return None
    return alone / shared if metric in RATES else shared / alone


def coefficient(s: float | None) -> float | None:
    """I = S - 1."""
    return None if s is None else s - 1


def tail(values: Sequence[float]) -> float | None:
    """P99/P50; None with fewer than 300 values, or where the median is not above 0."""
    if len(values) < LEAST_OBSERVATIONS:
        return None
    ordered = sorted(values)
    median = ordered[len(ordered) // 2]
    return ordered[int(0.99 * len(ordered))] / median if median > 0 else None


def jitter(alone: Sequence[float], shared: Sequence[float]) -> float | None:
    """J = P99/P50 shared by P99/P50 alone; None if either has fewer than 300 observations."""
    one, other = tail(alone), tail(shared)
    return None if one is None or other is None else other / one
