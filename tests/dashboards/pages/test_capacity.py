"""The page of capacity: what it says of drawn figures, who sees what, and the question that a reader asks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from dash.development.base_component import Component

from access.current import set_current
from access.principal import ANYBODY, ForbiddenError, Principal
from access.roles import Role
from access.scope import ScopedStore
from api.capacity import Priced, WhatIf
from billing.insights.capacity import GroupLine, Waits
from dashboards.data_version import AnswerCache, DataVersion
from dashboards.filters import Address, Filters, filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages import capacity as page
from dashboards.pages.capacity import what_if
from scheduler.simulate.books.workload import ASSUMED, LEFT_OUT, Change, Group, Outcome, Workload
from tests.dashboards.browser import MARKS, asks, picture, tab
from tests.dashboards.pages.conftest import DAY
from warehouse.errors import LedgerError
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")

EN, ZH = language("en"), language("zh")
TENANT = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))
GROUP = "c1|train|H100"
FILTERS = Filters(Address(), "UTC", (), None)
WAS = Outcome(8, 20, 20, 0, 10, 3600.0, 0.0, 7200.0, 9000.0, 100.0, 0.5)
SAME = Outcome(8, 20, 20, 0, 8, 1800.0, 0.0, 3600.0, 9000.0, 50.0, 0.5)
MORE = Outcome(16, 20, 18, 2, 0, 0.0, 0.0, 60.0, 90.0, 10.0, 0.25)


def text_of(part: Any) -> str:
    """The words of a part of a page, in order."""
    if isinstance(part, Component):
        return text_of(getattr(part, "children", None))
    if isinstance(part, list | tuple):
        return " ".join(filter(None, map(text_of, part)))
    return "" if part is None else str(part).replace("\u2060", "")


def asked(change: Change, price: Decimal | None = Decimal("2.00"), **workload: Any) -> WhatIf:
    work = Workload(Group("c1", "train", "H100"), 0.0, 86400.0, (), (), **workload)
    return WhatIf(work, 20, False, change, Priced(price, "EUR"))


def test_an_answer_compares_simulated_with_simulated_and_says_how_far_that_is_from_what_was() -> None:
    text = text_of(what_if.answer(asked(Change(8)), (WAS, SAME, MORE), FILTERS, EN)).replace("\u00a0", " ")
    assert text.startswith("With +8 GPUs, the simulated P95 of waits goes from 1 h to 1 min")
    assert "GPU-hours waited from 50.0 to 10.0. The GPUs cost €11,688 more per month at list price." in text
    # In the day that was simulated, eight cost 384.00, and 40 hours of waiting are saved.
    said = "Over the 24.0 simulated hours they cost €384 more: €9.60 for each of the 40.0 GPU-hours of waiting saved."
    assert said in text, "each figure follows from others of the answer"
    assert "jobs actually waited 100 GPU-hours; with the same GPUs the simulator gets 50.0 (50.0% of that)" in text
    assert "Jobs that fit nowhere 0 0 2" in text
    assert "List price of the GPUs per month €11,688 €11,688 €23,376" in text
    fewer = text_of(what_if.answer(asked(Change(-8, 4)), (WAS, MORE, SAME), FILTERS, EN))
    assert "With −8 GPUs, up to 4 jobs on a GPU" in fewer and "cost €11,688 less per month" in fewer
    more_waiting = text_of(what_if.answer(asked(Change(8)), (WAS, MORE, replace(SAME, gpus=24)), FILTERS, EN))
    assert "of waiting saved" not in fewer + more_waiting, "none is"
    assert "known average usage is at most 1/4" in fewer


def test_an_unknown_price_is_no_price_of_zero_and_no_change_is_no_third_column() -> None:
    text = text_of(what_if.answer(asked(Change(8), None), (WAS, SAME, MORE), FILTERS, EN))
    assert "The rate card has no price for them." in text and "of waiting saved" not in text
    assert "List price of the GPUs per month – – –" in text
    same = text_of(what_if.answer(asked(Change()), (WAS, SAME, SAME), FILTERS, EN))
    assert "Nothing is changed" in same and "List price of the GPUs per month €11,688 €11,688 How far" in same


def test_all_that_is_left_out_or_assumed_is_counted_in_both_languages() -> None:
    full = asked(
        Change(0, 2), left_out=dict.fromkeys(LEFT_OUT, 3), assumed=dict.fromkeys(ASSUMED, 1), left_out_hours=12.5,
        reasons={"WaitingForQuota": 7, "InsufficientCapacity": 9}, mig_devices=2, waiting=4, gone=5, partly=6,
        down_hours=1.5,
    )  # fmt: skip
    for words in (EN, ZH):
        notes = what_if._notes(full, FILTERS, words)
        assert len(notes) == len({*notes}) == 1 + len(LEFT_OUT) + 1 + 1 + len(ASSUMED) + 1 + 1 + 1 + 1 + 1
    text = " ".join(what_if._notes(full, FILTERS, EN))
    assert "InsufficientCapacity 9, WaitingForQuota 7" in text
    assert "Left out: 3 jobs that held MIG instances." in text and "the 12.5 GPU-hours" in text
    end = EN.moment(FILTERS.local(datetime.fromtimestamp(full.workload.end, UTC)))
    assert f"4 still waiting at {end}, 5 gave up" in text, "another moment than that of Queues"


def test_a_part_of_the_period_is_said_to_be_one() -> None:
    part = replace(asked(Change()), is_cut=True)
    assert "Simulated: the period from 1 Jan, 00:00 on alone, with 20 jobs" in what_if._notes(part, FILTERS, EN)[0]


def test_a_tenant_sees_its_own_demand_and_neither_what_is_free_nor_the_form(house: Store) -> None:
    everybodys = text_of(page.layout(house, filters_of(house, f"?{DAY}"), EN))
    assert "What if there were more, fewer or shared GPUs?" in everybodys
    assert "; 4.0 GPUs available, on average" in everybodys and "Waits by free capacity" in everybodys
    with ScopedStore(house.another(), TENANT.tenants) as own:
        set_current(TENANT)
        filters = filters_of(own, f"?{DAY}&group={GROUP}")
        text = text_of(page.layout(own, filters, EN))
        assert "Your tenants only" in text
        assert not any(word in text for word in ("What if", "available", "of capacity", "Waits by free", "speech"))
        with pytest.raises(ForbiddenError, match="requires the role"):
            what_if.begun(own, filters, EN)


def test_the_gpus_that_were_waited_for_longest_are_the_first_to_ask_about() -> None:
    """As found: asked as it stood, the form answered for the largest pool, for which nobody waited."""
    lines = [
        GroupLine("c1", pool, model, Waits(1, waited_gpu_hours=waited), gpus)
        for pool, model, gpus, waited in (
            ("train", "H100", 40, 0.0),
            ("dev", "L4", 8, 0.5),
            ("research", "A100", 28, 9.0),
        )
    ]
    text = text_of(what_if.what_if_card(lines, FILTERS, EN))
    assert text.index("A100 · research") < text.index("L4 · dev") < text.index("H100 · train")


def test_a_question_is_asked_once_while_the_books_are_the_same(house: Store) -> None:
    memory = AnswerCache()

    def ask(more: str) -> Any:
        search = f"?{DAY}&group={GROUP}&gpus={more}"
        return what_if.begun(house, filters_of(house, search, DataVersion.of(house, None, memory)), EN)

    first, draw = ask("2")
    assert "With +2 GPUs" in text_of(draw(first.result(120)))
    assert ask("+2")[0] is first
    assert ask("3")[0] is not first


def test_the_page_is_not_drawn_again_under_a_question_or_its_answer(house: Store) -> None:
    for search in (f"?{DAY}", f"?{DAY}&group={GROUP}&gpus=2"):
        assert show(house, ANYBODY, "/capacity", search).meta["refreshes"] is False


def test_a_question_that_failed_is_asked_again(house: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, tried = AnswerCache(), []

    def failed(*_: Any) -> Any:
        from concurrent.futures import Future

        tried.append(Future())
        tried[-1].set_exception(LedgerError("simulation", "takes more than 60 s"))
        return tried[-1]

    monkeypatch.setattr(what_if, "start_simulations", failed)
    filters = filters_of(house, f"?{DAY}&group={GROUP}&gpus=2", DataVersion.of(house, None, memory))
    assert what_if.begun(house, filters, EN)[0] is tried[-1]
    assert what_if.begun(house, filters, EN)[0] is tried[-1]
    assert len(tried) > 2


@pytest.mark.parametrize(
    ("more", "text"),
    [("gpus=x", "'x' is not a whole number"), ("gpus=-99", "leaves none"), ("gpus=99999", "out of range"),
     ("shares=0", "out of range"), ("gpus=1.5", "not a whole number"), ("group=nothing", "no such GPUs")],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_the_answer_s_place(house: Store, more: str, text: str) -> None:
    search = f"?{DAY}&group={GROUP}&{more}" if "group" not in more else f"?{DAY}&{more}"
    with pytest.raises(LedgerError, match=text):
        what_if.begun(house, filters_of(house, search), EN)


def test_days_are_averages_of_their_hours_and_a_gap_breaks_the_line(house: Store) -> None:
    filters: Filters = filters_of(house, f"?{DAY}")
    start = datetime(2026, 10, 2, tzinfo=UTC)
    rows = [
        {
            "step": start + timedelta(hours=hour),
            "hours": 1.0,
            "allocated": float(hour),
            "waiting": 1.0,
            "available": None,
        }
        for hour in (*range(24), 30)
    ]
    first, second = page.by_days(rows, filters)
    assert (first["allocated"], first["waiting"], first["available"]) == (11.5, 1.0, None)
    assert (second["step"], second["allocated"]) == (start + timedelta(hours=30), 30.0)
    at = [row["step"] for row in rows]
    x, y = page.with_gaps(at, [4.0] * 25, timedelta(hours=1))
    assert y == [4.0] * 24 + [None, 4.0] and x[24] == start + timedelta(hours=23.5)
    assert page.averaged(rows, "available") is None


@pytest.mark.browser
@pytest.mark.skipif(MARKS[1].args[0], reason=MARKS[1].kwargs["reason"])
def test_a_reader_asks_with_a_click_and_a_phone_shows_the_answer_whole(url: str, opened: Any) -> None:
    from playwright.sync_api import expect

    with tab(opened, color_scheme="light") as (shown, wrong):
        shown.goto(f"{url}/capacity?{DAY}")
        expect(shown.locator("#capacity-answer")).to_contain_text("changes nothing")
        shown.get_by_label("More or fewer GPUs").fill("+4")
        shown.get_by_role("button", name="Simulate").click()
        asks(shown, gpus="+4", group=GROUP)
        expect(shown.locator("#capacity-answer table")).to_contain_text("+4 GPUs")
        asked_at = shown.url
        assert wrong == []
    with tab(opened, color_scheme="light", viewport={"width": 390, "height": 844}) as (shown, wrong):
        shown.goto(asked_at)
        shown.locator("#capacity-demand .bars path").first.wait_for(state="attached")
        expect(shown.locator("#capacity-answer table")).to_contain_text("+4 GPUs")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert shown.evaluate(wide) <= 0
        inner = "document.querySelector('#capacity-answer .gl-scroll')"
        assert shown.evaluate(f"{inner}.scrollWidth - {inner}.clientWidth") <= 0
        picture(shown, "capacity-asked-phone")
        shown.goto(f"{url}/capacity?{DAY}&group={GROUP}&gpus=nothing&lang=zh")
        expect(shown.locator("#capacity-answer [role=alert]")).to_contain_text("not a whole number")
        assert wrong == []
