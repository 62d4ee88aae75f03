"""What the page Now says of an idle job of the scheduler."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from api.routes.idle_jobs import IdleJob
from dashboards.filters import Address, Filters
from dashboards.languages import language
from dashboards.pages.now.reclaiming import _idle, _next

FILTERS = Filters(Address(), "Europe/Berlin", [], None)
AT = datetime(2026, 11, 29, 8, 43, tzinfo=UTC)


def job(seconds: float, what: str = "proposal: suspend", at: datetime | None = AT) -> IdleJob:
    return IdleJob(job_id="a", allocations=["a"], tenant="t", queue="q", gpus=1, idle_seconds=seconds, idle_since=None,
                   step="warned", next=what, next_at=at, policy="", problem="")  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "english", "chinese"),
    [(7200, "idle for 2.0 h", "已闲置 2.0 h"), (10800, "idle for at least 3.0 h", "已闲置至少 3.0 h")],
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
    assert _next(job(1, "warning"), FILTERS, language("zh")) == "下一步：警告（11月29日 09:43）"
