"""Cumulative counters: never negative, never a jump, and unknown where it cannot be known."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nvml import counters
from collectors.nvml.counters import SLACK_SECONDS, Counters, energy, rise, throttling
from collectors.nvml.library import Answer, FieldValue


@pytest.mark.parametrize(
    ("previous", "current", "bits", "expected"),
    [
        (100, 150, 0, 50),
        (100, 100, 0, 0),
        (150, 100, 0, None),  # started again
        (2**32 - 10, 5, 32, 15),  # wrapped
        (2**31, 5, 32, None),  # a wrap would mean more than the hardware can: started again
        (0, 10_000, 0, None),  # a jump
    ],
)
def test_rise(previous: int, current: int, bits: int, expected: int | None) -> None:
    assert rise(previous, current, seconds=9, most=100, bits=bits) == expected


def test_a_counter_that_may_have_wrapped_twice_tells_nothing() -> None:
    assert rise(10, 20, seconds=60, most=1e9, bits=32) is None


def test_no_time_no_rise() -> None:
    assert rise(10, 20, seconds=0, most=100) is None
    assert rise(10, 20, seconds=-5, most=100) is None
    assert rise(10, 20, seconds=math.nan, most=100) is None


SPANS = st.floats(0.1, 3600)


@given(st.integers(0, 2**64), st.floats(0, 1), SPANS, st.integers(1, 10**9), st.sampled_from([0, 32, 64]))
def test_across_wraps_the_rise_is_the_true_one_or_unknown(
    start: int, share: float, seconds: float, most: int, bits: int
) -> None:
    true = int(share * most * seconds)
    width = 2**bits if bits else 2**128
    previous, current = start % width, (start + true) % width
    found = rise(previous, current, seconds=seconds, most=most, bits=bits)
    assert found in (None, true)
    if bits != 32 or most * (seconds + SLACK_SECONDS) < 2**32:
        assert found == true


@given(st.integers(0, 2**40), st.floats(0, 1), st.floats(0, 1), SPANS, st.integers(1, 10**9), st.sampled_from([0, 64]))
def test_across_a_reset_the_rise_is_never_more_than_the_true_one(
    start: int, before: float, at: float, seconds: float, most: int, bits: int
) -> None:
    lost = int(before * most * seconds * at)
    since = int(before * most * seconds * (1 - at))
    found = rise(start, since, seconds=seconds, most=most, bits=bits)
    assert found is None or 0 <= found <= lost + since


@given(st.lists(st.floats(0, 2**64, allow_nan=False), min_size=2), SPANS, st.integers(1, 10**9))
def test_whatever_the_driver_says_the_rise_is_in_bounds(values: list[float], seconds: float, most: int) -> None:
    for previous, current in itertools.pairwise(values):
        for bits in (0, 32, 64):
            found = rise(previous, current, seconds=seconds, most=most, bits=bits)
            assert found is None or 0 <= found <= most * (seconds + SLACK_SECONDS)


def test_energy_is_blank_until_two_values_are_known_and_after_a_reload() -> None:
    state = Counters()
    values = [5_000_000, 6_000_000, 200_000, 700_000]
    found = [energy(state, "a", Answer(0, value), 10.0) for value in values]
    assert [one["energy_joules"].value for one in found] == [None, 1000.0, None, 500.0]
    assert [one["energy_joules"].state for one in found] == ["blank", "ok", "blank", "ok"]
    assert [one["power_watts"].value for one in found] == [None, 100.0, None, 50.0]
    assert [one["energy_joules_total"].value for one in found] == [5000.0, 6000.0, 200.0, 700.0]


def test_a_device_that_counts_no_energy_is_unsupported() -> None:
    found = energy(Counters(), "a", Answer(3), 10.0)
    assert {one.state for one in found.values()} == {"unsupported"}


def test_a_counter_that_failed_once_starts_over() -> None:
    """What happened in the meantime may be two intervals' worth."""
    state = Counters()
    answers = [Answer(0, 0), Answer(999), Answer(0, 2_000_000), Answer(0, 3_000_000)]
    found = [energy(state, "a", answer, 10.0)["energy_joules"].value for answer in answers]
    assert found == [None, None, None, 1000.0]


def test_devices_do_not_share_counters_and_are_forgotten_apart() -> None:
    state = Counters()
    for device, value in (("a", 1000), ("b", 9_000_000)):
        energy(state, device, Answer(0, value), 10.0)
    state.forget("a")
    assert energy(state, "a", Answer(0, 2000), 10.0)["energy_joules"].value is None
    assert energy(state, "b", Answer(0, 9_001_000), 10.0)["energy_joules"].value == 1.0
    state.keep({"a"})
    assert energy(state, "b", Answer(0, 9_002_000), 10.0)["energy_joules"].value is None


def fields(**nanoseconds: float) -> dict[int, Answer[FieldValue]]:
    known = {int(name[1:]): Answer(0, FieldValue(value, 64)) for name, value in nanoseconds.items()}
    return {field: known.get(field, Answer(3)) for field in (74, 75, 76, 269, 270, 271)}


def test_throttling_in_seconds_the_longest_of_what_overlaps_and_no_longer_than_the_interval() -> None:
    state = Counters()
    throttling(state, "a", fields(f74=0, f269=0, f270=0), 10.0)
    found = throttling(state, "a", fields(f74=10.4e9, f269=2e9, f270=3e9), 10.0)
    assert found["throttle_power_seconds"].value == 10.0
    assert found["throttle_thermal_seconds"].value == pytest.approx(3.0)
    assert found["throttle_hardware_seconds"].state == "unsupported"


def test_an_old_driver_s_thermal_counter_stands_for_the_newer_two() -> None:
    state = Counters()
    throttling(state, "a", fields(f75=0), 10.0)
    found = throttling(state, "a", fields(f75=4e9), 10.0)
    assert found["throttle_thermal_seconds"].value == pytest.approx(4.0)
    assert found["throttle_thermal_seconds"].source == f"nvml field {counters.OLD_THERMAL}"
