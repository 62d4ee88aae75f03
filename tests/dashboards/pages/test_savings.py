"""The page of savings: its parts are the report's, tied to the waste, and a tenant's own where a tenant looks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml
from dash.development.base_component import Component

from access.current import set_current
from access.principal import Principal
from access.roles import Role
from access.scope import ScopedStore
from billing.close import close
from billing.insights.savings import SavingsReport, savings
from billing.rates import apply_rate_card, parse_rate_card
from dashboards import advice
from dashboards.advice import examined_period
from dashboards.data_version import AnswerCache, DataVersion
from dashboards.filters import filters_of
from dashboards.format import money
from dashboards.languages import language
from dashboards.pages import savings as page
from dashboards.pages.savings import answer, layout
from tests.stores import fresh_store
from warehouse.store import Store

pytestmark = pytest.mark.usefixtures("anybody")

EN, ZH = language("en"), language("zh")
START = datetime(2026, 10, 1, tzinfo=UTC)
END = START + timedelta(days=7)
TENANT = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))
CARD = {"currency": "EUR", "rates": [{"sku": "h", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"}]}
SEARCH = "?period=2026-10-01..2026-10-08"


def fill(store: Store) -> None:
    """`idle` of vision is held for the week and never used; `ended` of speech was idle for a day and is gone; `again-0`
    and so on of vision come each day for eight idle hours; a GPU is nobody's."""
    names = ("idle", "ended", "again", "free")
    rest = "'NVIDIA', 'H100', 1, 'p', 'available'"
    devices = ", ".join(f"('{START:%F}', 'c', 'n', 'GPU-{name}', {rest})" for name in names)
    columns = "ts, cluster, node, device_id, vendor, model, units, pool, state"
    store.command(f"INSERT INTO devices ({columns}) VALUES {devices}")
    runs = [("idle", "vision", "idle", START, None), ("ended", "speech", "ended", START, START + timedelta(days=1))]
    for day in range(7):
        since = START + timedelta(days=day, hours=1)
        runs.append((f"again-{day}", "vision", "again", since, since + timedelta(hours=8)))
    events = []
    for name, tenant, device, since, until in runs:
        what = f"'c', '{name}', '{name}', '{tenant}', 'p', 'main'"
        events.append(f"('{since:%F %T}', {what}, 'started', 'n', 'GPU-{device}')")
        if until:
            events.append(f"('{until:%F %T}', {what}, 'finished', '', '')")
    columns = "ts, cluster, allocation_id, workload_id, tenant, project, queue, event, node, device_id"
    store.command(f"INSERT INTO events ({columns}) VALUES {', '.join(events)}")
    at = f"toDateTime64('{START:%F %T}', 3, 'UTC') + INTERVAL (number + 1) * 10 MINUTE"
    store.command(
        "INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, state, utilization, memory_used_bytes, "
        f"memory_total_bytes) SELECT {at}, 600, 'c', 'n', 'GPU-' || name, 'idle', 0, 0, 85899345920 "
        "FROM (SELECT number, arrayJoin(['idle', 'ended', 'again']) AS name FROM numbers(1008))"
    )
    apply_rate_card(store, parse_rate_card(yaml.safe_load(yaml.safe_dump(CARD)), "card"), "test", "", START)
    close(store, until=END, now=END)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("savings") / "store", fill) as store:
        yield store


def text_of(part: Any) -> str:
    if isinstance(part, Component):
        rows = [str(row) for row in getattr(part, "rowData", None) or ()]
        return " ".join(filter(None, [*rows, text_of(getattr(part, "children", None))]))
    if isinstance(part, list | tuple):
        return " ".join(filter(None, map(text_of, part)))
    return "" if part is None else str(part)


def cards(said: Component) -> dict[str, str]:
    """The words of each card by its title, and of the headline."""
    headline, *rest = said.children
    return {"headline": text_of(headline)} | {getattr(one, "aria-label", ""): text_of(one) for one in rest}


def test_what_is_held_and_what_recurs_are_apart_and_tied_to_the_waste(house: Store) -> None:
    report = savings(house)
    found = {one.workloads[0]: one.still_held for one in report.recommendations}
    assert found == {"idle": True, "again-0": False}
    assert report.waste is not None
    waste = report.waste.total
    assert waste.idle_cost is not None and waste.covered is not None
    assert waste.not_covered["ended"] == Decimal("48.00")  # a day at 2.00: nothing is left to save of it
    shown = cards(page.answer(house, filters_of(house, SEARCH), EN))
    assert "'idle'" in shown["Still held"] and "again" not in shown["Still held"]
    assert "'again-0 +6'" in shown["Recurring"] and "'idle'" not in shown["Recurring"]
    where = shown["Where idle cost comes from"]
    assert "from workloads that ended and did not recur €48 9" in where, "as whole as the others"
    parts = [waste.covered, *waste.not_covered.values()]
    assert sum(parts, Decimal(0)) == waste.idle_cost
    assert "424\u00a0GPU-\u2060hours were not allocated at all" in where  # 168 x 4, less 168, 24 and 7 x 8
    amounts = [one.monthly_amount for one in report.recommendations]
    for amount in amounts:
        assert money(amount, "EUR") in shown["headline"]
    assert page.known(report.recommendations) == sum(filter(None, amounts), Decimal(0)) == report.monthly_amount


def test_a_monthly_amount_says_that_it_extends_the_last_week(house: Store) -> None:
    """As found: "Savings per month" stood beside a smaller amount of a period that was nearly a month."""
    text = str(answer(house, filters_of(house, SEARCH), EN))
    assert "Per month, at the last week's rate" in text and "Per month, at the latest rate" in text
    assert "预算" not in str(answer(house, filters_of(house, SEARCH), ZH)), "as found on cards, of what is saved"
    assert "Working out savings" in str(layout(house, filters_of(house, SEARCH), EN))


def test_a_tenant_sees_its_own_and_nothing_that_is_nobody_s(house: Store) -> None:
    with ScopedStore(house.another(), TENANT.tenants) as own:
        set_current(TENANT)
        said = text_of(page.answer(own, filters_of(own, SEARCH), ZH))
    assert "idle" in said and "again-0" in said
    assert "speech" not in said and "未分配给任何人" not in said


def test_one_tenant_of_all_is_asked_for_alone_and_an_answer_is_cached(house: Store) -> None:
    filters = filters_of(house, f"{SEARCH}&tenant=speech", DataVersion.of(house, None, AnswerCache()))
    shown = cards(page.answer(house, filters, EN))
    assert "Still held" not in shown and "Nothing still held" in shown[""], "a line, no card with nothing in it"
    assert "What is idle now" in shown[""]
    assert "Nothing recurs" in shown["Recurring"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advice, "savings", lambda *_, **__: pytest.fail("it is cached"))
        assert cards(page.answer(house, filters, EN)) == shown
        assert text_of(advice.of_tenant(house, filters, EN)), "the tenant's page takes the same"


def test_a_workload_needs_nothing_read_that_its_tenants_page_has_read(house: Store) -> None:
    filters = filters_of(house, SEARCH, DataVersion.of(house, None, AnswerCache()))
    (tenant,) = {one.tenant for one in savings(house).recommendations if "idle" in one.workloads}
    advice.savings_report(house, filters, examined_period(filters), tenant=tenant)
    alone = savings(house, examined_period(filters), workload="idle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advice, "read_holders", lambda *_: pytest.fail("they are cached"))
        assert advice.savings_report(house, filters, examined_period(filters), workload="idle") == alone


def test_a_workload_is_examined_once_and_anew_when_its_hours_are_closed_anew(house: Store) -> None:
    memory = AnswerCache()

    def advised() -> str:
        filters = filters_of(house, SEARCH, DataVersion.of(house, None, memory))
        return text_of(advice.of_workload(house, filters, EN, "idle"))

    sample = "INSERT INTO samples (ts, interval_seconds, cluster, device_id, state) VALUES ('{at}', 60, 'z', 'g', 'ok')"
    first, asked = advised(), list[str]()

    def noted(*_: Any, workload: str, **__: Any) -> SavingsReport:
        asked.append(workload)
        return savings(house, examined_period(filters_of(house, SEARCH)), workload=workload)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(advice, "savings", noted)
        house.command(sample.format(at="2026-10-20 00:00:00"))
        assert advised() == first and not asked, "a fact after the period"
        house.command(sample.format(at="2026-10-03 00:00:00"))
        assert advised() == first and not asked, "samples come every minute"
        hour = "SELECT hour, run, checked_by + 1 AS checked_by, inputs, content FROM closed_hours ORDER BY hour LIMIT 1"
        house.command(f"INSERT INTO closed_hours (hour, run, checked_by, inputs, content) {hour}")
        assert advised() == first and asked == ["idle"], "a close has looked at its hour"


def test_amounts_that_nobody_knows_are_no_sum_of_zero(house: Store) -> None:
    from dataclasses import replace

    (one, *_) = savings(house).recommendations
    assert page.known([replace(one, monthly_amount=None)]) is None
    assert page.known([]) == 0
