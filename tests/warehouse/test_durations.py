"""Durations in Prometheus's notation, wherever somebody writes one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from ingest.senders import _span
from scheduler.settings import _duration
from warehouse.durations import format_duration, parse_duration, seconds_of, spelled_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("1h30m", 5400), ("1.5h", 5400), ("2d", 172_800), ("1w", 604_800), ("0.5s", 0.5)],
)
def test_a_duration_is_the_same_in_rules_in_the_scheduler_s_settings_and_in_permissions(
    text: str, seconds: float
) -> None:
    assert seconds_of(text) == parse_duration(text) == _duration(text) == seconds
    assert _span(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "1h 30m", "1.h", "-1h", "2y", "h", f"{'9' * 10}w"])
def test_what_is_none_is_refused(text: str) -> None:
    for parse in (seconds_of, parse_duration, _duration, _span):
        with pytest.raises(ValueError, match="expected"):
            parse(text)


def test_a_duration_of_a_file_has_two_units() -> None:
    assert [format_duration(one) for one in (0, 45, 7241, 9000.4, 93_600)] == ["0s", "45s", "2h", "2h30m", "1d2h"]


def test_a_duration_for_people_has_two_units_of_their_language() -> None:
    """As found: "idle for 35m57s" of an alert beside "36 min" of its job."""
    seconds = (0, 45, 330, 2157, 3597, 7241, 9000.4, 93_600)
    english = ["0 s", "45 s", "5 min 30 s", "36 min", "1 h", "2 h 1 min", "2 h 30 min", "1 d 2 h"]
    assert [spelled_duration(one).replace("\u00a0", " ") for one in seconds] == english
    chinese = [spelled_duration(one, "zh") for one in (45, 2157, 9000.4, 93_600)]
    assert chinese == ["45\u00a0秒", "36\u00a0分钟", "2\u00a0小时 30\u00a0分钟", "1\u00a0天 2\u00a0小时"]
