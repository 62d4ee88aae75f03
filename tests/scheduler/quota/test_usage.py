"""Remembered usage: halved by every half-life, whenever it is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.quota.usage import DecayedUsage

HOUR = 3600.0


def test_usage_halves_with_every_half_life() -> None:
    usage = DecayedUsage(half_life=HOUR)
    usage.change("a", 4, 0.0)
    usage.change("a", -4, 10.0)
    after = usage.at("a", 10.0)
    assert after == pytest.approx(40, rel=0.01)
    assert usage.at("a", 10.0 + HOUR) == pytest.approx(after / 2)
    assert usage.at("a", 10.0 + 3 * HOUR) == pytest.approx(after / 8)
    assert usage.at("b", 5.0) == 0


def test_usage_relative_to_what_there_was_as_in_kai() -> None:
    """10 GPUs for 10 hours, 24 GPU-hours of them used: 0.24, while hardly anything is forgotten."""
    usage = DecayedUsage(half_life=1e9 * HOUR)
    usage.change("a", 4, 0.0)
    usage.change("a", -4, 6 * HOUR)
    assert usage.relative("a", 10 * HOUR, 10) == pytest.approx(0.24)


def test_holding_everything_for_ever_is_a_usage_of_one() -> None:
    usage = DecayedUsage(half_life=HOUR)
    usage.change("a", 8, 0.0)
    assert usage.relative("a", 1000 * HOUR, 8) == pytest.approx(1)
    assert usage.relative("a", HOUR / 7, 8) == pytest.approx(1)


def test_without_half_life_nothing_is_remembered() -> None:
    usage = DecayedUsage(half_life=0)
    usage.change("a", 8, 0.0)
    assert usage.at("a", HOUR) == 0 and usage.relative("a", HOUR, 8) == 0


def test_a_start_counts_at_once_by_its_entry_penalty() -> None:
    usage = DecayedUsage(half_life=HOUR, entry_penalty_seconds=60)
    usage.change("a", 8, 0.0)
    assert usage.at("a", 0.0) == 480
    usage.change("a", -8, 0.0)
    assert usage.at("a", 0.0) == 480, "giving back is no way around it"


def test_a_restart_forgets_nothing() -> None:
    usage = DecayedUsage(half_life=HOUR)
    usage.change("a", 2, 0.0)
    kept = usage.snapshot(500.0)
    again = DecayedUsage(half_life=HOUR)
    again.restore(kept, 500.0)
    again.change("a", 2, 500.0)
    assert again.at("a", 900.0) == pytest.approx(usage.at("a", 900.0))


@given(st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 5)), max_size=12))
def test_how_often_it_is_looked_at_changes_nothing(steps: list[tuple[float, int]]) -> None:
    seldom, often = DecayedUsage(HOUR), DecayedUsage(HOUR)
    held, now = 0, 0.0
    for seconds, units in steps:
        seldom.change("a", units - held, now)
        often.change("a", units - held, now)
        held = units
        for part in range(1, 6):
            often.change("a", 0, now + seconds * part / 6)
        now += seconds
    assert often.at("a", now) == pytest.approx(seldom.at("a", now), abs=1e-6)
