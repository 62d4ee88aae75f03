"""Ticks lie on the grid of UTC, whatever the clock does."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from collectors.agent.ticks import HOUR_MS, ClockWatch, at, missed, next_tick

INTERVALS = st.sampled_from([1_000, 10_000, 15_000, 60_000, 300_000, HOUR_MS])


@given(st.integers(0, 2**45), INTERVALS)
def test_the_next_tick_is_the_first_whole_multiple_after_now(now_ms: int, interval_ms: int) -> None:
    tick = next_tick(now_ms, interval_ms)
    assert tick % interval_ms == 0
    assert 0 < tick - now_ms <= interval_ms


@given(st.integers(0, 2**42), INTERVALS)
def test_every_hour_has_the_same_ticks(now_ms: int, interval_ms: int) -> None:
    assert (next_tick(now_ms, interval_ms) + HOUR_MS) == next_tick(now_ms + HOUR_MS, interval_ms)


def test_a_tick_is_an_instant_in_utc() -> None:
    assert at(1_790_812_810_000) == datetime(2026, 10, 1, 0, 0, 10, tzinfo=UTC)


def test_ticks_that_were_left_out_are_counted_but_not_by_a_clock_that_was_set_back() -> None:
    assert missed(None, 50_000, 10_000) == 0
    assert missed(40_000, 50_000, 10_000) == 0
    assert missed(20_000, 50_000, 10_000) == 2
    assert missed(50_000, 20_000, 10_000) == 0


def test_a_clock_that_is_set_shows_beside_the_one_that_is_not() -> None:
    watch = ClockWatch(1_000, 500)
    assert watch.jump_ms(11_000, 10_500) == 0
    assert watch.jump_ms(3_611_000, 10_500) == 3_600_000
    assert watch.jump_ms(1_000, 10_500) == -10_000
