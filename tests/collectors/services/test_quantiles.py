"""Quantiles of histograms: the interval's, with the edges between which they lie."""

from __future__ import annotations

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.services.quantiles import (
    Histogram,
    Quantile,
    fewest,
    gained,
    histogram,
    merged,
    quantile_of,
)

INF = math.inf


def test_a_quantile_lies_on_a_line_between_the_edges_of_its_bucket() -> None:
    observed = histogram({0.1: 100, 0.2: 300, 0.4: 390, INF: 400})
    assert quantile_of(observed, 0.5) == Quantile(0.5, pytest.approx(0.15), 0.1, 0.2, 400)
    assert quantile_of(observed, 0.25) == Quantile(0.25, pytest.approx(0.1), 0.0, 0.1, 400)
    assert quantile_of(observed, 0.95) == Quantile(0.95, pytest.approx(0.2 + 0.2 * 80 / 90), 0.2, 0.4, 400)


def test_above_the_highest_edge_nothing_is_known_but_that() -> None:
    observed = histogram({0.1: 100, 0.2: 300, 0.4: 390, INF: 400})
    assert quantile_of(observed, 0.99) == Quantile(0.99, None, 0.4, None, 400)


@pytest.mark.parametrize(
    ("quantile", "needed"), [(0.5, 6), (0.9, 30), (0.95, 60), (0.99, 300), (0.999, 3000), (0.01, 300)]
)
def test_a_quantile_needs_observations_beyond_it(quantile: float, needed: int) -> None:
    assert fewest(quantile) == needed
    few, enough = histogram({1.0: needed - 1, INF: needed - 1}), histogram({1.0: needed, INF: needed})
    assert quantile_of(few, quantile) == Quantile(quantile, None, None, None, needed - 1)
    assert quantile_of(enough, quantile).value is not None


def test_only_what_was_gained_within_the_interval_counts() -> None:
    before = histogram({0.1: 1000, 0.5: 1000, INF: 1000}, total=20.0)
    after = histogram({0.1: 1000, 0.5: 1060, INF: 1060}, total=40.0)
    new = gained(before, after)
    assert (new, new.mean) == (Histogram((0.1, 0.5), (0, 60), 60, 20.0), pytest.approx(1 / 3))
    assert quantile_of(new, 0.5) == Quantile(0.5, pytest.approx(0.3), 0.1, 0.5, 60)


def test_a_restart_and_new_edges_make_all_of_it_new() -> None:
    before = histogram({0.1: 1000, INF: 1000}, total=20.0)
    restarted = histogram({0.1: 7, INF: 9}, total=1.0)
    assert gained(before, restarted) == restarted
    other = histogram({0.2: 2000, INF: 2000})
    assert gained(before, other) == other
    assert gained(None, before) == before


def test_a_restart_that_overtook_in_count_shows_in_a_bucket_that_fell() -> None:
    before = histogram({0.1: 50, 0.5: 60, INF: 60})
    after = histogram({0.1: 10, 0.5: 100, INF: 100})
    assert gained(before, after) == after


def test_several_label_sets_are_summed_before_the_quantile() -> None:
    fast = histogram({0.1: 900, 1.0: 900, INF: 900})
    slow = histogram({0.1: 0, 1.0: 100, INF: 100})
    assert merged([fast, slow]) == histogram({0.1: 900, 1.0: 1000, INF: 1000})
    p95 = quantile_of(merged([fast, slow]), 0.95)
    assert p95.value == pytest.approx(0.1 + 0.9 * 0.5)
    mean_of_both = (0.1 * 0.95 + quantile_of(slow, 0.95).value) / 2
    assert p95.value != pytest.approx(mean_of_both)


def test_histograms_with_other_edges_meet_at_those_they_share() -> None:
    fine = histogram({0.1: 1, 0.2: 2, 0.4: 3, INF: 4}, total=1.0)
    coarse = histogram({0.2: 10, 0.8: 20, INF: 30})
    assert merged([fine, coarse]) == Histogram((0.2,), (12,), 34, None)


@pytest.mark.parametrize(
    ("buckets", "count", "says"),
    [
        ({0.1: 3}, None, r"no bucket \+Inf"),
        ({0.1: 3, 0.2: 2, INF: 4}, None, "fall"),
        ({0.1: 3, INF: 2}, None, "fall"),
        ({0.1: -1, INF: 2}, None, "no count"),
        ({0.1: math.nan, INF: 2}, None, "no count"),
        ({0.1: 1e300}, 1e301, "no count"),
    ],
)
def test_what_is_no_cumulative_histogram_is_refused(
    buckets: dict[float, float], count: float | None, says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        histogram(buckets, count)


def test_the_count_stands_for_a_missing_last_bucket() -> None:
    assert histogram({0.1: 3}, 5) == histogram({0.1: 3, INF: 5})


COUNTS = st.lists(st.integers(0, 400), min_size=2, max_size=8)


def of(counts: list[int]) -> Histogram:
    """Edges 1, 2, 3...; the last number is beyond the highest."""
    below = list(accumulate(counts))
    return Histogram(
        tuple(float(n + 1) for n in range(len(counts) - 1)), tuple(map(float, below[:-1])), float(below[-1])
    )


@given(COUNTS, st.lists(st.floats(0.01, 0.99), min_size=2, max_size=5))
def test_quantiles_rise_stay_in_their_bucket_and_hold_the_observation_they_name(
    counts: list[int], quantiles: list[float]
) -> None:
    observed = of(counts)
    known = [found for q in sorted(quantiles) if (found := quantile_of(observed, q)).value is not None]
    assert [found.value for found in known] == sorted(found.value for found in known if found.value is not None)
    everything = [place + 0.5 for place, count in enumerate(counts) for _ in range(count)]
    for found in known:
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
        exact = everything[max(math.ceil(found.quantile * len(everything) - 1e-9) - 1, 0)]
        assert found.low <= exact <= found.high


@given(COUNTS, COUNTS)
def test_what_two_intervals_gained_is_what_both_gained(first: list[int], second: list[int]) -> None:
    size = min(len(first), len(second))
    one, two = of(first[:size]), of(second[:size])
    both = merged([one, two])
    assert gained(one, both) == Histogram(two.edges, two.below, two.count)
    assert merged([gained(None, one), gained(one, both)]) == both
