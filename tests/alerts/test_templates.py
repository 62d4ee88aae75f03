"""Words of alerts: amounts as people pay them, GPUs as people count them, instants as clocks on the wall show them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.rule_files import load_rules
from alerts.templates import chinese_date, render, translated
from warehouse.durations import parse_duration, write_duration

MIDNIGHT = datetime(2026, 10, 24, 22, tzinfo=UTC)
"""In Berlin."""


@pytest.mark.parametrize(
    ("text", "value", "said"),
    [
        ("{{ value | gpus }}", 8, "8 GPUs"),
        ("{{ value | gpus }}", 1.0, "1 GPU"),
        ("{{ value | gpus }}", 0.25, "0.25 GPUs"),
        ("{{ value | gpus }}", None, "an unknown number of GPUs"),
        ("{{ value | number }}", Decimal("104.250"), "104.25"),
        ("{{ value | number }}", "104.250", "104.25"),  # as the journal has it
        ("{{ value | money('USD') }}", Decimal("1526.403428610"), "$1,526"),
        ("{{ value | money('JPY') }}", Decimal("1526.403428610"), "¥1,526"),
        ("{{ value | money('EUR') }}", None, "an unknown amount"),
        ("{{ value | percent }}", -0.12, "−12%"),
        ("{{ value | number }}", -1.5, "−1.5"),
        ("{{ value | date }}", "2026-11", "November 2026"),
        ("{{ value | date }}", "2026-11-08", "8 Nov 2026"),
        ("{{ value | duration }}", 7241, "2 h 1 min"),
        ("{{ value | duration }}", 9000.4, "2 h 30 min"),
        ("{{ value | duration }}", 45, "45 s"),
        ("{{ value | duration }}", 0, "0 s"),
        ("{{ value | duration }}", 93_600, "1 d 2 h"),
        ("since {{ value }}", MIDNIGHT, "since 25 Oct 2026 00:00 CEST"),
        ("since {{ value }}", MIDNIGHT.replace(day=25), "since 25 Oct 2026 23:00 CET"),
    ],
)
def test_values_are_said_as_people_say_them(text: str, value: Any, said: str) -> None:
    assert render((text,), {"value": value, "zone": "Europe/Berlin"}) == [said]


@given(st.integers(0, 10**7))
def test_a_duration_that_is_written_is_read_again(seconds: int) -> None:
    assert parse_duration(write_duration(seconds)) == seconds


def test_without_books_instants_are_utc() -> None:
    assert render(("{{ value }}",), {"value": MIDNIGHT}) == ["24 Oct 2026 22:00 UTC"]


@pytest.mark.parametrize("name", ["idle-holder", "idle-holder-notice", "idle-holder-reclaim"])
@pytest.mark.parametrize(
    ("value", "said"), [(10_800.0, "at least 3 h"), (10_500.0, "for 2 h 55 min"), (3600.0, "for 1 h")], ids=str
)
def test_what_may_have_lasted_longer_than_a_rule_looks_back_is_at_least_that(
    name: str, value: float, said: str
) -> None:
    """A notebook that had been idle for a day and a half "has kept 1 GPU idle for 3h", since three hours ago."""
    rule = next(one for one in load_rules(None) if one.name == name)
    evidence = {"held_gpus": 1.0, "nodes": "n", "idle_since": MIDNIGHT, "held_since": MIDNIGHT, "signals": "s",
                "coverage": 1.0, "memory_used_bytes": 0}  # fmt: skip
    labels = {"workload_id": "w", "tenant": "t", "allocation_id": "a"}
    facts = {"labels": labels, "value": value, "evidence": evidence, "parameters": rule.parameters}
    summary, description = render((rule.summary, rule.description), facts)
    assert summary.endswith(said)
    assert ("24 Oct 2026 22:00 UTC or longer, allocated" in description) == (said == "at least 3 h")


@pytest.mark.parametrize("name", ["exporter-gap", "gpu-silent"])
@pytest.mark.parametrize(
    ("value", "said"), [(21_600, "for at least 6 h"), (21_540, "for 5 h 59 min"), (None, None)], ids=str
)
def test_a_silence_longer_than_a_rule_looks_back_is_at_least_that(
    name: str, value: int | None, said: str | None
) -> None:
    rule = next(one for one in load_rules(None) if one.name == name)
    evidence = {"devices": 8, "last_at": MIDNIGHT}
    labels = {"node": "n", "device_id": "g"}
    facts = {"labels": labels, "value": value, "evidence": evidence, "parameters": rule.parameters}
    summary, description = render((rule.summary, rule.description), facts)
    assert said is None or said in summary
    assert ("or longer" in description) == (name == "exporter-gap" and value == 21_600)


def summaries(name: str, value: float, labels: dict[str, str], evidence: dict[str, Any]) -> list[str]:
    """A rule's summary in English and in Chinese."""
    rule = next(one for one in load_rules(None) if one.name == name)
    facts = {"labels": labels, "value": value, "evidence": evidence, "parameters": rule.parameters}
    (english,), chinese = render((rule.summary,), facts), translated(rule.languages["zh"].summary, facts, "zh")
    assert chinese
    return [english, chinese]


@pytest.mark.parametrize(
    ("labels", "english", "chinese"),
    [
        ({"subject": "tenant", "tenant": "physics"}, "physics", "physics "),
        ({"subject": "unallocated", "tenant": ""}, "unallocated GPUs", "未分配的 GPU "),
        ({"subject": "tenant", "tenant": ""}, "GPUs without a tenant", "无名租户"),
    ],
)
def test_who_cost_more_than_expected_is_the_subject_of_the_sentence(
    labels: dict[str, str], english: str, chinese: str
) -> None:
    """As found: "2026-11-28 cost unallocated 2,127.39 USD instead of the expected 821.28 USD (high)"."""
    evidence = {"cost": Decimal("2127.391"), "expected": Decimal("821.28"), "currency": "USD", "direction": "high"}
    assert summaries("spend-anomaly", 4.0, {"day": "2026-11-28", **labels}, evidence) == [
        f"{english} cost $2,127 on 28 Nov 2026, more than expected ($821)",
        f"2026年11月28日：{chinese}花费 $2,127，预期 $821（偏高）",
    ]


@pytest.mark.parametrize(
    ("waiting", "english", "chinese"),
    [
        (1, "the only job waiting in queue q has waited 1 h: x", "队列 q 中唯一排队的作业已等待 1\u00a0小时：x"),
        (
            3,
            "the oldest of 3 jobs waiting in queue q has waited 1 h: x",
            "队列 q 中 3\u00a0个排队作业中最久的已等待 1\u00a0小时：x",
        ),
    ],
)
def test_one_job_that_waits_is_not_the_oldest_of_one(waiting: int, english: str, chinese: str) -> None:
    evidence = {"waiting": waiting, "cause": "x"}
    assert summaries("long-queue", 3600.0, {"queue": "q"}, evidence) == [english, chinese]


@pytest.mark.parametrize(("value", "chinese"), [(10_800.0, "闲置至少 3\u00a0小时"), (3600.0, "闲置 1\u00a0小时")])
def test_chinese_words_stand_without_a_gap(value: float, chinese: str) -> None:
    evidence = {"held_gpus": 0.25}
    said = summaries("idle-holder", value, {"workload_id": "w", "tenant": "t"}, evidence)[1]
    assert said == f"t 的 w 占用的 0.25\u00a0个\u00a0GPU 已{chinese}"


def test_chinese_beside_a_chinese_name_has_no_gap() -> None:
    """As found: "研发一部 的 notebook"; a space within a name is its own."""
    names = {"workload_id": "训练", "tenant": "研发 一部"}
    said = summaries("idle-holder", 3600.0, names, {"held_gpus": 0.25})[1]
    assert said == "研发 一部的训练占用的 0.25\u00a0个\u00a0GPU 已闲置 1\u00a0小时"


@pytest.mark.parametrize("name", ["slo-burning", "slo-burning-slow"])
def test_an_objective_that_burns_says_whose_it_is(name: str) -> None:
    """As found: four alerts that said the same but for a number."""
    burns = {"pace": "fast", "burn_3d": 1.84, "burn_6h": 1.01, "budget_left": 0.2}
    english, chinese = summaries(name, 1.01, {"objective": "metered", "tenant": "nlp", "subject": "interactive"}, burns)
    assert english.startswith("objective metered of interactive for nlp ")
    assert chinese.startswith("nlp 在 interactive 的目标 metered ")
    english, chinese = summaries(name, 1.01, {"objective": "metered", "tenant": "", "subject": ""}, burns)
    assert english.startswith(("objective metered burns ", "objective metered will "))
    assert chinese.startswith("目标 metered ")


def test_an_objective_that_burns_slowly_says_how_fast_over_which_time() -> None:
    """As found: "1.01 times too fast over three days", the lesser of both times, above "burn rate 1.84 over 3 d"."""
    burns = {"burn_3d": 1.84, "burn_6h": 1.01, "budget_left": 0.2}
    english, chinese = summaries("slo-burning-slow", 1.01, {"objective": "metered", "tenant": "", "subject": ""}, burns)
    assert "(burn rate 1.84 over 3 d, 1.01 over 6 h)" in english
    assert "1.84\u00a0倍（3\u00a0天）、1.01\u00a0倍（6\u00a0小时）" in chinese


def test_an_objective_whose_budget_is_used_up_is_not_about_to_use_it_up() -> None:
    """As found: "will use up its error budget before the window ends" above "-13% of the budget left"."""
    labels, burns = {"objective": "metered", "tenant": "", "subject": ""}, {"burn_3d": 1.84, "burn_6h": 1.01}
    said = [summaries("slo-burning-slow", 1.01, labels, {**burns, "budget_left": left}) for left in (-0.13, 0.2, None)]
    assert [english.partition(" (")[0].removeprefix("objective metered ") for english, _ in said] == [
        "has used up its error budget and is still burning",
        *["will use up its error budget before the window ends"] * 2,
    ]
    assert ["已用完" in chinese for _, chinese in said] == [True, False, False]


def test_one_refused_claim_is_one_claim() -> None:
    said = [summaries("claims-refused", value, {"reason": "late"}, {})[0] for value in (1, 2)]
    assert [text.partition(" in the")[0] for text in said] == ["1 claim refused", "2 claims refused"]


def test_a_rule_says_what_it_allows_itself_and_how_far_it_looks_back() -> None:
    """As found: "what the objective allows" of a queue that no objective covers, and "the last week" of seven days."""
    evidence = {"waits": 100, "late": 60, "bound_seconds": 3600}
    burns = summaries("queue-wait-burn", 12.0, {"queue": "research"}, evidence)
    assert [text.partition("12 times the ")[2] for text in burns[:1]] == ["5% that this rule allows"]
    assert burns[1].endswith("是此规则允许值（5%）的 12\u00a0倍")
    assert summaries("claims-refused", 2, {"reason": "late"}, {})[1].startswith(
        "过去 7\u00a0天拒绝了 2\u00a0条占用声明"
    )


def test_instants_in_chinese_are_dates_of_the_language() -> None:
    """As found: "自 2026-11-29 21:20 CET 起" and "nlp：2026-11 已达预算" beside 2026年11月."""
    rule = next(one for one in load_rules(None) if one.name == "ledger-late")
    facts = {"labels": {}, "value": 9e3, "evidence": {"known_until": MIDNIGHT}, "zone": "Europe/Berlin"}
    said = translated(rule.languages["zh"].description, facts, "zh") or ""
    assert re.fullmatch(r"已结账至\u00a0\d{4}年\d{1,2}月\d{1,2}日\u00a0\d\d:\d\d CES?T。", said), said
    assert [chinese_date(text) for text in ("2026-11", "2026-11-08")] == ["2026年11月", "2026年11月8日"]


def test_a_target_in_chinese_is_a_share() -> None:
    """As found: "目标值 0.98"."""
    rule = next(one for one in load_rules(None) if one.name == "slo-burning")
    evidence = {"burn_1h": 20.0, "burn_6h": 3.0, "budget_left": 0.5, "target": 0.995, "measured_until": MIDNIGHT}
    facts = {"labels": {"tenant": "nlp"}, "value": 1.84, "evidence": evidence, "parameters": rule.parameters}
    assert "目标值 99.5%，" in (translated(rule.languages["zh"].description, facts, "zh") or "")
    assert "Target 99.5%, measured until" in render((rule.description,), {**facts, "zone": "UTC"})[0]
