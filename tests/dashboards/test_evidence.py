"""An alert's evidence on its page: names, units, the reader's clock and language."""

from __future__ import annotations

from typing import Any

from dashboards.filters import Address, Filters
from dashboards.languages import language
from dashboards.pages.alerts.evidence import named

FACTS: dict[str, Any] = {
    "held_gpus": 4.0,
    "gpus": 4.0,
    "idle_since": "2026-11-28 18:05:00+00:00",
    "window_seconds": 21_600,
    "memory_used_bytes": 2_897_215_488,
    "coverage": 0.9944,
    "highest_celsius": 87.0,
    "cost": "1183.740235813",
    "expected": None,
    "currency": "USD",
    "reached_percent": "114.73",
    "direction": "high",
    "never_closed": 1,
    "signals": "nothing used, confirmed by the driver, no engine active, power flat",
    "reason": "units_already_claimed",
    "pairs": [["slow", 1.2]],
    "own_column": 3,
}


def shown(code: str) -> dict[str, str]:
    return dict(named(FACTS, Filters(Address(), "Europe/Berlin", (), None), language(code)))


def test_evidence_has_units_and_currency_and_the_books_clock() -> None:
    assert shown("en") == {
        "allocated GPUs": "4",
        "idle since": "28 Nov, 19:05",
        "window": "6\u00a0h",
        "GPU memory used": "2.7\u00a0GiB",
        "measured share": "99.44%",
        "highest": "87\u00a0°C",
        "cost": "$1,183.74",
        "reached": "114.73%",
        "direction": "high",
        "never closed": "yes",
        "signs of idleness": "nothing used, confirmed by the driver, no engine active, power flat",
        "reason": "units already claimed",
        "own column": "3",
    }


def test_chinese_has_no_english_but_what_a_rule_of_the_sites_own_names() -> None:
    found = shown("zh")
    assert found.pop("own column") == "3"
    assert found.pop("已分配的 GPU") == "4"
    assert found["闲置的依据"] == "没有使用，驱动已证实，没有引擎活动，功率平稳"
    assert found["原因"] == "单元已被占用"
    assert (found["方向"], found["从未结账"], found["成本"]) == ("偏高", "是", "$1,183.74")


def test_the_kind_of_an_objective_is_said_in_the_page_s_language() -> None:
    """As found: "metering_coverage" among Chinese evidence."""
    found = named({"kind": "metering_coverage"}, Filters(Address(), "UTC", (), None), language("zh"))
    assert dict(found) == {"类型": "计量覆盖"}


def test_days_and_months_are_said_as_elsewhere_on_the_page() -> None:
    """As found: "2026-11" beside "November 2026"."""
    facts = {"month": "2026-11", "day": "2026-11-28"}
    for code, said in (("en", ["November 2026", "28 November 2026"]), ("zh", ["2026年11月", "2026年11月28日"])):
        assert [value for _, value in named(facts, Filters(Address(), "UTC", (), None), language(code))] == said
