"""Months and days are cut in the billing time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.periods import PeriodError, month_name, parse_month, parse_period

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Havana")
"""Among them half-hour offsets, a half-hour change of clocks, and one at midnight."""


def hours(text: str, zone: str) -> float:
    period = parse_period(text, zone)
    return (period.end - period.start) / timedelta(hours=1)


def test_a_month_starts_and_ends_at_local_midnight() -> None:
    october = parse_period("2026-10", "Europe/Berlin")
    assert october.start == datetime(2026, 9, 30, 22, tzinfo=UTC)
    assert october.end == datetime(2026, 10, 31, 23, tzinfo=UTC)
    assert month_name(october, "Europe/Berlin") == "2026-10"


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2026-03-29", "Europe/Berlin", 23),
        ("2026-10-25", "Europe/Berlin", 25),
        ("2026-10-24", "Europe/Berlin", 24),
        ("2026-04-05", "Australia/Lord_Howe", 24.5),
        ("2026-03-08", "America/Havana", 23),
        ("2026-11-01", "America/Havana", 25),
        ("2028-02", "UTC", 29 * 24),
        ("2027-02", "UTC", 28 * 24),
        ("2026-10", "Europe/Berlin", 31 * 24 + 1),
        ("2026-12", "Asia/Kolkata", 31 * 24),
    ],
)
def test_lengths(text: str, zone: str, expected: float) -> None:
    assert hours(text, zone) == expected


def test_the_end_of_a_range_is_not_part_of_it() -> None:
    assert parse_period("2026-10-01..2026-11-01", "UTC") == parse_period("2026-10", "UTC")
    assert parse_period("2026-10..2026-11", "UTC") == parse_period("2026-10", "UTC")


def test_an_instant_without_an_offset_is_local() -> None:
    period = parse_period("2026-10-01T12:00..2026-10-01T11:30Z", "Europe/Berlin")
    assert (period.start, period.end) == (
        datetime(2026, 10, 1, 10, tzinfo=UTC),
        datetime(2026, 10, 1, 11, 30, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "text", ["", "October", "2026-13", "2026-02-30", "2026", "..", "2026-10..", "2026-10-01T00:00"]
)
def test_what_is_no_period_is_refused(text: str) -> None:
    with pytest.raises(PeriodError, match="Write it like 2026-10"):
        parse_period(text, "UTC")


def test_a_period_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(PeriodError, match="ends before it starts"):
        parse_period("2026-10-02..2026-10-02", "UTC")


def test_an_invoice_wants_a_month() -> None:
    with pytest.raises(PeriodError, match="not a month"):
        parse_month("2026-10-02", "UTC")


DAYS = st.dates(date(2020, 1, 1), date(2030, 12, 31))


@given(st.lists(DAYS, min_size=3, max_size=3, unique=True), st.sampled_from(ZONES))
def test_a_to_c_is_a_to_b_and_b_to_c(days: list[date], zone: str) -> None:
    a, b, c = sorted(days)
    whole, first, second = (parse_period(f"{x}..{y}", zone) for x, y in ((a, c), (a, b), (b, c)))
    assert (whole.start, first.end, second.end) == (first.start, second.start, whole.end)


@given(DAYS, st.sampled_from(ZONES))
def test_days_follow_each_other_and_start_on_their_date(day: date, zone: str) -> None:
    today, tomorrow = parse_period(str(day), zone), parse_period(str(day + timedelta(days=1)), zone)
    assert today.end == tomorrow.start
    local = ZoneInfo(zone)
    assert today.start.astimezone(local).date() == day
    assert (today.start - timedelta(milliseconds=1)).astimezone(local).date() == day - timedelta(days=1)


@pytest.mark.parametrize("text", ["0385-06", "1899-12", "2300-01", "2026-10-01..9999-01-01"])
def test_a_period_that_no_store_can_tell_is_refused(text: str) -> None:
    with pytest.raises(PeriodError, match="Use years from 1900 to 2299"):
        parse_period(text, "Europe/Berlin")
