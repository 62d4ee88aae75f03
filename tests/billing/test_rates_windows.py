"""Time-of-use windows: which hours of the wall clock, on every day of the year."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.rates import RateCard, RateError, Subject, cut_instants, parse_rate_card, price_intervals
from billing.rates.windows import DAYS, Window, share_a_time, window_spans
from tests.billing.hand_ledger import at as utc
from tests.patience import slowness

BERLIN, KOLKATA = ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata")
WHO = Subject("H100", "", "", "chem")


def window(start: str = "00:00", end: str = "24:00", *days: str) -> Window:
    return Window.model_validate({"from": start, "to": end, "days": list(days or DAYS)})


def card(*rules: dict[str, Any], **keys: Any) -> RateCard:
    return parse_rate_card({"currency": "EUR", "rates": list(rules), **keys})


def rule(sku: str, price: str, *windows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"sku": sku, "price_per_gpu_hour": price, **({"windows": list(windows)} if windows else {}), **more}


def shown(spans: list[tuple[datetime, datetime]]) -> list[str]:
    return [f"{a:%d %H:%M}-{b:%d %H:%M}" for a, b in spans]


def test_a_window_is_local_also_in_a_zone_of_half_hours() -> None:
    found = window_spans([window("08:00", "20:00", "thu")], KOLKATA, utc("2026-10-01"), utc("2026-10-09"))
    assert shown(found) == ["01 02:30-01 14:30", "08 02:30-08 14:30"]  # 2026-10-01 is a Thursday; +05:30


def test_a_window_that_passes_midnight_belongs_to_the_day_on_which_it_starts() -> None:
    night = [window("22:00", "06:00", "sun")]
    assert shown(window_spans(night, ZoneInfo("UTC"), utc("2026-10-03"), utc("2026-10-06"))) == ["04 22:00-05 06:00"]
    assert shown(window_spans(night, ZoneInfo("UTC"), utc("2026-10-05 01:00"), utc("2026-10-06"))) == [
        "05 01:00-05 06:00"
    ]


def test_the_night_the_clocks_go_forward_has_an_hour_less_and_the_night_they_go_back_one_more() -> None:
    night = [window("22:00", "06:00")]
    (forward,) = window_spans(night, BERLIN, utc("2026-03-28 12:00"), utc("2026-03-29 12:00"))
    (back,) = window_spans(night, BERLIN, utc("2026-10-24 12:00"), utc("2026-10-25 12:00"))
    assert forward == (utc("2026-03-28 21:00"), utc("2026-03-29 04:00"))  # 7 h
    assert back == (utc("2026-10-24 20:00"), utc("2026-10-25 05:00"))  # 9 h


def test_what_the_clock_skips_does_not_count_and_what_it_shows_twice_counts_twice() -> None:
    half_past = [window("02:30", "03:30")]
    # Forward: 02:00 -> 03:00 at 01:00Z, so only 03:00 to 03:30 is shown.
    assert shown(window_spans(half_past, BERLIN, utc("2026-03-29"), utc("2026-03-29 12:00"))) == ["29 01:00-29 01:30"]
    # Back: 03:00 -> 02:00 at 01:00Z; 02:30 to 03:00 is shown twice.
    assert shown(window_spans(half_past, BERLIN, utc("2026-10-25"), utc("2026-10-25 12:00"))) == [
        "25 00:30-25 01:00",
        "25 01:30-25 02:30",
    ]


WINDOWS = st.builds(
    lambda start, end, days: Window.model_validate(
        {
            "from": f"{start // 60:02}:{start % 60:02}",
            "to": f"{end // 60:02}:{end % 60:02}" if end != start else "24:00",
            "days": sorted(days),
        }
    ),
    st.integers(0, 95).map(lambda quarter: quarter * 15),
    st.integers(0, 95).map(lambda quarter: quarter * 15),
    st.sets(st.sampled_from(DAYS), min_size=1),
)


def on_the_wall(one: Window, at: datetime, zone: ZoneInfo) -> bool:
    """Asks the clock itself."""
    local = at.astimezone(zone).replace(tzinfo=None)
    minute = local.hour * 60 + local.minute
    start, end = one.minutes
    today, yesterday = DAYS[local.weekday()], DAYS[(local.weekday() - 1) % 7]
    return (today in one.days and start <= minute < end) or (yesterday in one.days and minute + 1440 < end)


@given(
    st.lists(WINDOWS, min_size=1, max_size=3),
    st.sampled_from(["Europe/Berlin", "Asia/Kolkata", "America/St_Johns", "Australia/Lord_Howe"]),
    st.sampled_from(["2026-03-27", "2026-10-23", "2026-04-03", "2026-10-31", "2028-02-28"]),
)
def test_the_spans_are_what_the_clock_on_the_wall_says_every_quarter_of_an_hour(
    windows: list[Window], name: str, day: str
) -> None:
    zone, start = ZoneInfo(name), utc(day)
    spans = window_spans(windows, zone, start, start + timedelta(days=4))
    assert all(a < b for a, b in spans)
    assert all(one[1] < other[0] for one, other in pairwise(spans))
    for quarter in range(4 * 96):
        at = start + timedelta(minutes=15 * quarter)
        assert any(a <= at < b for a, b in spans) == any(on_the_wall(one, at, zone) for one in windows), at


@given(st.lists(WINDOWS, min_size=1, max_size=2), st.lists(WINDOWS, min_size=1, max_size=2))
def test_windows_share_a_time_exactly_if_a_quarter_of_the_week_is_in_both(
    left: list[Window], right: list[Window]
) -> None:
    week = [utc("2026-06-01") + timedelta(minutes=15 * quarter) for quarter in range(7 * 96)]
    zone = ZoneInfo("UTC")
    both = any(
        any(on_the_wall(w, at, zone) for w in left) and any(on_the_wall(w, at, zone) for w in right) for at in week
    )
    assert share_a_time(left, right) == both


# --- as prices -------------------------------------------------------------------------------------------------------


def test_a_rule_with_windows_wins_within_them_over_the_same_rule_without() -> None:
    rates = card(
        rule("day", "4.00", match={"model": "H100"}),
        rule("night", "2.00", {"from": "20:00", "to": "08:00"}, match={"model": "H100"}),
    )
    found = price_intervals(rates, [WHO], utc("2026-10-01"), utc("2026-10-02"))
    assert [(f"{i.effective_from:%H:%M}", f"{i.effective_to:%H:%M}", i.sku, str(i.list_unit_price)) for i in found] == [
        ("00:00", "08:00", "night", "2.00"),
        ("08:00", "20:00", "day", "4.00"),
        ("20:00", "00:00", "night", "2.00"),
    ]
    assert cut_instants(rates, utc("2026-10-01"), utc("2026-10-02")) == [
        utc("2026-10-01"), utc("2026-10-01 08:00"), utc("2026-10-01 20:00"), utc("2026-10-02"),
    ]  # fmt: skip


def test_windows_do_not_outbid_a_rule_that_says_more_about_who() -> None:
    rates = card(
        rule("night", "2.00", {"from": "20:00", "to": "08:00"}, match={"model": "H100"}),
        rule("chem", "3.00", match={"model": "H100", "tenant": "chem"}),
    )
    found = price_intervals(rates, [WHO], utc("2026-10-01"), utc("2026-10-02"))
    assert [(i.sku, str(i.list_unit_price), str(i.contracted_unit_price)) for i in found] == [
        ("chem", "2.00", "3.00"), ("chem", "3.00", "3.00"), ("chem", "2.00", "3.00"),
    ]  # fmt: skip


def test_a_card_with_windows_has_prices_between_two_instants_only() -> None:
    with pytest.raises(ValueError, match="between two instants"):
        price_intervals(card(rule("a", "1", {"days": ["sat"]})), [WHO])


@pytest.mark.parametrize(
    ("one", "other", "tie"),
    [
        ({"from": "08:00", "to": "20:00"}, {"from": "20:00", "to": "08:00"}, False),
        ({"from": "08:00", "to": "20:01"}, {"from": "20:00", "to": "08:00"}, True),
        ({"days": ["sat", "sun"]}, {"days": ["mon"]}, False),
        ({"days": ["sun"], "from": "22:00", "to": "06:00"}, {"days": ["mon"], "from": "05:00", "to": "09:00"}, True),
    ],
)
def test_two_windows_of_like_rules_that_share_a_time_are_a_tie(
    one: dict[str, Any], other: dict[str, Any], tie: bool
) -> None:
    rules = [rule("a", "1", one), rule("b", "2", other)]
    if tie:
        with pytest.raises(RateError, match=r"rates\[0\] \(a\) and rates\[1\] \(b\) are equally specific"):
            card(*rules)
    else:
        card(*rules)


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ({"from": 1200}, r'windows\[0\]\.from: found 1200; write it in quotes, such as "20:00"'),
        ({"from": "8:00"}, 'expected a local time such as "08:00"'),
        ({"from": "08:00", "to": "08:00"}, "is empty; for whole days leave"),
        ({"days": ["monday"]}, r"windows\[0\]\.days\[0\]"),
        ({"hours": 1}, r"windows\[0\]\.hours: unknown key.*known here: days, from, to"),
    ],
)
def test_a_window_that_does_not_fit_is_one_line(window: dict[str, Any], says: str) -> None:
    with pytest.raises(RateError, match=says):
        card(rule("a", "1", window))


def test_a_month_of_daily_windows_for_two_hundred_tenants_is_computed_in_a_moment() -> None:
    night = {"from": "20:00", "to": "08:00", "days": ["mon", "tue", "wed", "thu", "fri"]}
    rules = [rule(f"{m}", "4", match={"model": m}) for m in ("H100", "A100", "L4")]
    rules += [rule(f"{m}-night", "2", night, match={"model": m}) for m in ("H100", "A100", "L4")]
    for n in range(200):
        rules.append(rule(f"t{n}", "3", match={"tenant": f"t{n}", "model": "H100"}))
        rules.append(rule(f"t{n}-night", "1", night, match={"tenant": f"t{n}", "model": "H100"}))
    rates = card(*rules, timezone="Europe/Berlin")
    subjects = [Subject(m, p, "", f"t{n}") for n in range(200) for m in ("H100", "A100", "L4") for p in ("a", "b", "c")]
    started = time.process_time()
    found = price_intervals(rates, subjects, utc("2026-10-01"), utc("2026-11-01"))
    seconds = time.process_time() - started
    # The month begins in the night of Wednesday, 30 September; then come 22 working days, each with its night, and
    # between and after them the days (or weekends) that follow: 23 nights and 23 days.
    assert len(found) == len(subjects) * (23 + 23)
    assert seconds < 5 * slowness(), f"{seconds:.1f} s"
