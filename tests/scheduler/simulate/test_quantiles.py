"""Quantiles of a sketch stay within one percent of the exact ones, in memory that does not grow."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler.quantiles import LEAST, Quantiles


def exact(values: list[float], quantile: float) -> float:
    return sorted(values)[max(0, math.ceil(quantile * len(values) - 1e-9) - 1)]


@given(st.lists(st.floats(0, 1e8), min_size=1, max_size=60), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_a_quantile_is_off_by_at_most_one_percent(values: list[float], quantile: float) -> None:
    sketch = Quantiles()
    for value in values:
        sketch.add(value)
    found, wanted = sketch.at(quantile), exact(values, quantile)
    assert found is not None
    assert abs(found - wanted) <= max(0.0100001 * wanted, LEAST)
    assert min(values) - LEAST <= found <= max(values)


def test_without_values_there_is_no_quantile() -> None:
    assert Quantiles().at(0.5) is None
    assert Quantiles().mean is None


def test_two_sketches_together_are_the_sketch_of_all_values() -> None:
    one, other, both = Quantiles(), Quantiles(), Quantiles()
    for number in range(1, 200):
        (one if number % 3 else other).add(number)
        both.add(number)
    one.merge(other)
    assert [one.at(q / 20) for q in range(21)] == [both.at(q / 20) for q in range(21)]
    assert (one.count, one.total, one.greatest, one.least) == (199, 19900, 199, 1)
