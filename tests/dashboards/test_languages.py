"""The dictionaries of the pages: the same keys, the same places to fill in, and every key that the code names."""

from __future__ import annotations

import re
import string
from datetime import UTC, date, datetime
from pathlib import Path
from typing import get_args

import dashboards
from access.roles import Role
from alerts.rule import Severity
from alerts.slo.objectives import KINDS as OBJECTIVE_KINDS
from billing.accounts.budgets import State as BudgetState
from billing.insights.sentences import SENTENCES, Sentence
from billing.invoicing.month_states import MonthState
from billing.rates.rate_card import MATCH_KEYS
from billing.tenants.mapping import MATCH_KEYS as OWNER_KEYS
from billing.tenants.mapping import OwnerMatch
from dashboards import grids
from dashboards.advice import sentence as sentence_of
from dashboards.format import duration, unbroken
from dashboards.languages import NAMES, language
from dashboards.pages.admin.applied_files import _matches
from dashboards.registry import all_pages
from ingest.held import Decision
from ingest.permissions import HELD_FOR
from warehouse.isolation import OBJECTIVES
from warehouse.records import RECORD_TYPES

CODE = Path(dashboards.__file__).parent


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_the_languages_say_the_same_things() -> None:
    english = language("en").words
    for code in NAMES:
        words = language(code).words
        assert words.keys() == english.keys()
        for key, text in words.items():
            if not key.startswith("time."):  # a date may be written with the month's name or its number
                assert places(text) == places(english[key]), key


def test_every_key_that_the_code_names_is_there() -> None:
    words = language("en").words
    named = {
        key
        for path in [*CODE.glob("*.py"), *CODE.glob("pages/**/*.py"), *CODE.glob("reports/**/*.*")]
        if path.suffix in (".py", ".html", ".txt")
        for key in re.findall(r'words(?:\.count)?\(\s*"([a-z_.0-9]+)"', path.read_text(encoding="utf-8"))
    }
    assert len(named) > 80
    assert named <= words.keys()
    assert {page.title for page in all_pages()} <= words.keys()


def test_every_reason_for_advice_is_said_in_each_language() -> None:
    for code in NAMES:
        for key, sentence in SENTENCES.items():
            text = language(code).words[f"advised.{key}"]
            assert places(text) <= places(sentence), (code, key)
            shown = sentence_of(Sentence(key, dict.fromkeys(places(sentence), "7")), language(code))
            assert shown.isascii() == (code == "en"), shown


def test_every_state_reason_and_role_is_said_in_each_language() -> None:
    # Keys made of data: a value without a word would take the whole page, or the mail, with it.
    made = {f"report.state.{state.name}" for state in BudgetState}
    made |= {f"month_state.{state}{end}" for state in MonthState for end in ("", "_is")}
    made |= {f"severity.{severity}" for severity in get_args(Severity)} | {f"role.{role}" for role in Role}
    made |= {f"admin.held_{why}" for why in HELD_FOR} | {f"admin.was_{decision}" for decision in get_args(Decision)}
    made |= {f"records.{record}" for record in RECORD_TYPES}
    made |= {f"quarantine.{why}" for why in ("bad_time", "not_a_number", "missing", "unknown", "out_of_range")}
    made |= {f"objective.{kind}" for kind in OBJECTIVE_KINDS}
    made |= {f"slo.{one}" for one in ("met", "missed", "unknown", "fast", "medium", "slow", "aggressor", "candidate")}
    levels = [*OBJECTIVES, "unknown"]
    made |= {f"isolation.{one}" for one in levels} | {f"isolation.{one}_may" for one in levels}
    for code in NAMES:
        assert made <= language(code).words.keys(), code


def test_an_unknown_language_is_the_first_one() -> None:
    assert language("xx").code == "en"


def test_counts_and_dates_are_said_as_each_language_does() -> None:
    english, chinese = language("en"), language("zh")
    assert english.count("quality.refused", 1) == "1 claim refused"
    assert english.count("quality.refused", 1200) == "1,200 claims refused"
    assert (english.day(date(2026, 10, 5)), chinese.day(date(2026, 10, 5))) == ("5 October 2026", "2026年10月5日")


def test_what_a_rule_applies_to_is_said_in_the_pages_language() -> None:
    rule = OwnerMatch(tenant="physics", project="")
    assert _matches(rule, OWNER_KEYS, language("zh")) == "项目 ''，租户 physics"
    assert _matches(rule, OWNER_KEYS, language("en")) == "project '', tenant physics"
    for code in ("en", "zh"):
        assert all(language(code)(f"match.{key}") for key in (*MATCH_KEYS, *OWNER_KEYS))


def test_no_line_ends_between_a_number_and_what_it_counts() -> None:
    """As found: headlines that said "47 小" and "时"."""
    words, at = language("zh"), datetime(2026, 11, 30, 0, 4, tzinfo=UTC)
    said = [duration(seconds, words) for seconds in (45, 720, 12_600, 1_814_400)]
    said += [words.moment(at), words.dated(at)]
    assert not [text for text in said if " " in text]


def test_sentences_keep_numbers_with_their_units_and_dates_whole() -> None:
    """As found: "615" and "个作业" on two lines, 自 at a line's end, a column named "使用（60" and "分钟）"."""
    words, at = language("zh"), datetime(2026, 11, 30, 0, 4, tzinfo=UTC)
    assert words("queues.late_jobs", all="2,123", n="615") == ("有上限的 2,123\u00a0个作业中，615\u00a0个等待超过上限")
    assert words("wait.since", at=words.moment(at)) == "自\u00a011月30日\u00a000:04"
    assert words("now.used_60") == "使用（60\u00a0分钟）"
    assert words("overview.gpu_hours", n="1,234") == "1,234\u00a0GPU\u00a0小时"
    said = "早于 2026年11月23日 00:05；最近 7 天"
    assert unbroken(said) == "早于 2026|年|11|月|23|日\u00a000:05；最近 7\u00a0天".replace("|", "\u2060")
    assert unbroken("截至 11月30日") == "截|至\u00a011|月|30|日".replace("|", "\u2060")
    assert unbroken("闲置 26 分钟，3 GPU 小时") == "闲置 26\u00a0分|钟，3\u00a0GPU\u00a0小|时".replace("|", "\u2060")


def test_english_keeps_numbers_with_their_units_and_dates_whole_too() -> None:
    """As found: "until 30" and "Nov, 02:00", "36.0" and "GiB" on two lines, a column named "Used, 60" and "min",
    "idle for 1 h" and "41 min", "GPU-" and "hours"."""
    whole = (
        "15.0|GiB",
        "23|Nov,|00:05",
        "5|October 2026, 14:00",
        "60|min",
        "2|h",
        "1|h|41|min",
        "1,234|GPU-~hours",
        "GPU-~seconds, not GiB-~hours,",
        "the pod GPU-hoursglass",
        "8.2|kg|CO2e",
        "4 GPUs",
        "3 dogs",
        "2 h-pods",
    )
    for text in whole:
        assert unbroken(f"held {text.replace('|', ' ').replace('~', '')} so far") == f"held {text} so far".replace(
            "|", "\u00a0"
        ).replace("~", "\u2060")
    column = grids.text("used_60", language("en")("now.used_60"))
    (drawn,) = grids.grid([column], [], language("en"), "g").columnDefs
    assert drawn["headerName"] == "Used, 60\u00a0min"


def test_chinese_beside_a_chinese_value_has_no_gap() -> None:
    """As found: "研发一部 的 notebook", "2026年11月 起", "最近 7 天 的数据"."""
    words = language("zh")
    assert words("invoices.due_by", day="12月29日") == "12月29日前支付"
    assert words("invoices.draft_of", tenant="研发一部") == "研发一部的草稿"
    assert words("invoices.draft_of", tenant="vision") == "vision 的草稿"
    assert words("now.do_idle_holder_reclaim", owner="研发 一部") == "回收并通知研发 一部"


def test_waiting_texts_have_no_space_before_their_dots() -> None:
    for code in NAMES:
        texts = [text for text in language(code).words.values() if "…" in text or ".." in text]
        assert texts
        assert not [text for text in texts if " …" in text or ".." in text]


def test_a_list_that_is_there_as_a_whole_does_not_say_that_it_is_shown() -> None:
    """As found: "75 of 75" above the first five cards, the others of which a page folds."""
    en, zh = language("en"), language("zh")
    assert [en.rows(75, 75), en.rows(1, 1), en.rows(200, 1300)] == ["75 rows", "1 row", "200 of 1,300 rows"]
    said = [zh.rows(75, 75), zh.rows(200, 1300)]
    assert [text.replace("\u00a0", " ") for text in said] == ["共 75 条", "显示 200 条，共 1,300 条"]
