"""What the page Now says of an idle job of the scheduler."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from plotly.utils import PlotlyJSONEncoder

from access.current import set_current
from access.principal import ANYBODY
from api.reach import Reach
from api.routes.idle_jobs import IdleJob
from dashboards.filters import Address, Filters
from dashboards.format import unbroken
from dashboards.languages import language
from dashboards.pages.now.reclaiming import Known, _cells, _hour, _idle, _next, _order, _sure, part
from scheduler.live.idle import outlook
from scheduler.settings import IdlePart

FILTERS = Filters(Address(), "Europe/Berlin", [], None)
AT = datetime(2126, 11, 29, 8, 43, tzinfo=UTC)
"""Ahead, whenever this runs."""


def job(seconds: float, what: str = "proposal: suspend", at: datetime | None = AT) -> IdleJob:
    return IdleJob(job_id="a", allocations=["a"], tenant="t", queue="q", gpus=1, idle_seconds=seconds, idle_since=None,
                   step="warned", next=what, next_at=at, policy="", problem="")  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [(7200, "idle for 2 h", "已闲置 2\u00a0小时"), (10800, "idle for at least 3 h", "已闲置至少 3\u00a0小时")],
)
def test_a_job_that_was_idle_as_long_as_the_rule_looks_back_may_be_idle_for_longer(
    seconds: float, english: str, chinese: str
) -> None:
    """As found: one that was idle for a night was idle for 3.0 h, whenever one looked."""
    assert [_idle(job(seconds), FILTERS, language(code)) for code in ("en", "zh")] == [english, chinese]


def test_what_a_policy_does_next_is_an_act_with_its_time() -> None:
    words = language("en")
    assert _next(job(1), FILTERS, words) == "next: ask an operator to suspend it, 29 Nov, 09:43"
    assert _next(job(1, "cancel", None), FILTERS, words) == "next: cancel it"
    assert _next(job(1, "warning"), FILTERS, language("zh")) == "下一步：警告（11月29日\u00a009:43）"


def test_what_was_to_be_done_by_now_is_due() -> None:
    """As found: "next: warn its owner, 09:29" at 09:31."""
    past = job(1, "warning", AT.replace(year=2026))
    assert _next(past, FILTERS, language("en")) == "next: warn its owner, due since 29 Nov, 09:43"
    assert _next(past, FILTERS, language("zh")) == "下一步：警告，应于 11月29日\u00a009:43 执行"


def test_a_job_to_which_no_policy_applies_says_so_in_the_readers_language() -> None:
    """As found: "next: nothing: no policy is for it", also behind the Chinese heading."""
    one = job(1, outlook(None, None, None, "").what, None)
    assert _next(one, FILTERS, language("en")) == "nothing is done to it: no idle policy applies to it"
    assert _next(one, FILTERS, language("zh")) == "不作处理：没有适用于它的闲置策略"


def test_whatever_a_scheduler_says_comes_next_is_chinese_on_a_chinese_page() -> None:
    policy = IdlePart(warn=1800, after=7200, then="suspend")
    said = [
        outlook(policy, None, None, "").what,
        "it grows once it is used again, or `keep` says so",
        "nothing: it holds nothing beyond its smallest gang",
        "nothing: its pods are not ours to make again, so that it cannot be suspended",
    ]
    shown = [_next(job(1, what, None), FILTERS, language("zh")) for what in said]
    assert shown == [
        "下一步：情况未知期间不作处理",
        "下一步：再次使用或执行 `keep` 后恢复扩容",
        "不作处理：它只占用最小成组规模，没有可缩减的部分",
        "不作处理：它的 Pod 不由本调度器创建，无法重建，因此不能挂起",
    ]


def test_the_dearest_hour_comes_first_and_what_has_no_price_last() -> None:
    """As found: a quarter of an L4 that was idle for 3 h came before a whole A100 that was for 20 min."""
    prices = {("c", "a"): Decimal("0.13"), ("c", "b"): Decimal("1.45"), ("c", "n"): None, ("other", "x"): Decimal(9)}
    jobs = [
        IdleJob(job_id=name, allocations=held, tenant="t", queue="q", gpus=1, idle_seconds=seconds, idle_since=None,
                step=step, next="", next_at=None, policy="", problem="")
        for name, held, seconds, step in (
            ("a", ["a"], 10800, "warned"), ("b", ["b"], 1200, "noticed"), ("ab", ["a", "b"], 60, "warned"),
            ("unpriced", ["b", "n"], 10800, "warned"), ("unknown", ["x"], 900, "warned"),
            ("asked", ["a"], 60, "proposed"),
        )
    ]  # fmt: skip
    hours = {one.job_id: _hour(one, "c", prices) for one in jobs}
    assert hours["ab"] == Decimal("1.58")
    assert hours["unpriced"] is hours["unknown"] is None
    jobs.sort(key=lambda one: _order(one, hours[one.job_id]))
    assert [one.job_id for one in jobs] == ["asked", "ab", "b", "a", "unpriced", "unknown"]


@pytest.mark.parametrize(
    ("code", "again"), [("en", "in use again in the last 5 min"), ("zh", "最近 5\u00a0分钟又在使用")]
)
@pytest.mark.usefixtures("anybody")
def test_a_job_that_works_again_is_not_offered_to_be_reclaimed(code: str, again: str) -> None:
    """As found: a list of idle jobs offered to reclaim one of which the table below it said that it was used."""
    one = job(10800).model_copy(update={"policy": "warn after 30m"})
    known = Known(used={("c", "a"), ("c", "other")})
    shown = {cluster: str(_cells(one, None, cluster, known, FILTERS, language(code))) for cluster in ("c", "elsewhere")}
    said = repr(unbroken(again))[1:-1]
    assert [said in shown[cluster] for cluster in shown] == [True, False]
    buttons = [language(code)(f"now.{act}") for act in ("reclaim", "propose", "keep")]
    assert [button for button in buttons if f"'{button}'" in shown["c"]] == buttons[2:]
    assert [button for button in buttons if f"'{button}'" in shown["elsewhere"]] == buttons


def test_a_scheduler_that_does_not_answer_is_said_in_the_readers_language() -> None:
    """As found: an English line alone, which told an operator to give a command's --url."""
    set_current(ANYBODY)
    reach = Reach(None, "http://127.0.0.1:9")
    for code in ("en", "zh"):
        words = language(code)
        text = json.dumps(part(None, FILTERS, words, reach, Known), cls=PlotlyJSONEncoder, ensure_ascii=False)  # type: ignore[arg-type]
        assert words("now.no_scheduler") in text and "--url" not in text


@pytest.mark.parametrize(
    ("then", "english", "chinese"), [("suspend", "Suspend a now", "挂起 a"), ("cancel", "can't be undone", "无法撤销"),
                                     ("shrink", "beyond its smallest gang", "最小成组规模之外")]
)  # fmt: skip
def test_who_reclaims_is_asked_for_what_will_happen(then: str, english: str, chinese: str) -> None:
    """As found: "Its GPUs are released at once" of jobs that keep some; nothing said that a cancelled job is over."""
    summary = IdlePart.model_validate({"warn": "30m", "after": "2h", "then": then, "approval": True}).summary()
    one = job(1).model_copy(update={"policy": summary})
    assert english in _sure(one, language("en")) and chinese in _sure(one, language("zh"))
