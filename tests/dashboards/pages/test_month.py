"""The overview's month: what it cost and will cost, its budget and its unusual days, beside what the commands say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
import yaml

from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import Stores
from billing.accounts.budget_file import apply_budgets, parse_budgets
from billing.accounts.budgets import budget_states
from billing.exact import rounded
from billing.insights.anomalies import anomalies
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from dashboards.filters import filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages.overview import month
from dashboards.pages.overview.month import MonthBudget, month_budget, month_cost, month_figure, month_shown
from tests.dashboards import site
from tests.dashboards.books import entry, fill
from tests.stores import fresh_store
from warehouse.store import Store

EN = language("en")
START, NOW = datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 11, 20, 14, tzinfo=UTC)
DEAR = date(2026, 11, 12)
BUDGETS = """
currency: EUR
budgets:
  - {tenant: vision, amount: "2400.00"}
  - {tenant: speech, amount: "700.00", effective_to: 2026-11}
  - {tenant: speech, amount: "800.00", effective_from: 2026-11}
"""


def months(store: Store) -> None:
    """vision holds a GPU, on working days two; speech one in the day; on one day vision's price is four times what it
    is; on the 16th of October an hour of speech has no price."""
    rows = []
    for number in range(int((NOW - START) / timedelta(hours=1))):
        hour = START + timedelta(hours=number)
        price = 8.0 if hour.date() == DEAR else 2.0
        rows += [
            entry(hour, device, tenant="vision", allocation_id=device, used=0.5, idle=0.5, price=price)
            for device in ("ab" if hour.weekday() < 5 else "a")
        ]
        if 8 <= hour.hour < 20:
            unpriced: dict[str, Any] = {}
            if hour == datetime(2026, 10, 16, 12, tzinfo=UTC):
                unpriced = {"price": None, "billing_currency": ""}
            rows.append(entry(hour, "c", tenant="speech", allocation_id="c", unmetered=1.0, **unpriced))
    fill(store, rows)
    apply_rate_card(store, parse_rate_card(yaml.safe_load(site.CARD), "card"), "test", "", NOW)
    apply_budgets(store, parse_budgets(yaml.safe_load(BUDGETS)), "test", "", NOW)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("month") / "store", months) as opened:
        yield opened


def test_the_forecast_and_its_band_are_those_of_the_budgets_command(store: Store) -> None:
    (vision, speech) = budget_states(store, "2026-11", NOW)
    for state in (vision, speech):
        found = month_cost(store, filters_of(store, f"?period=2026-11&tenant={state.tenant}"))
        assert found.ends is not None or state.forecast is None
        between = found.between or (None, None)
        said = [None if one is None else rounded(one, 2) for one in (found.so_far, found.ends, *between)]
        assert said == [round(state.actual or Decimal(-1), 2), state.forecast, state.forecast_low, state.forecast_high]
    assert vision.forecast is not None
    assert vision.forecast_low is not None
    assert vision.forecast_high is not None
    assert vision.forecast_low <= vision.forecast <= vision.forecast_high
    assert vision.forecast_low < vision.forecast_high


def test_the_month_is_that_in_which_the_period_ends(store: Store) -> None:
    keys = {
        search: month_cost(store, filters_of(store, search)).key
        for search in ("?period=2026-10", "?period=2026-10-31", "?period=2026-09-05..2026-10-01", "?period=all")
    }
    assert list(keys.values()) == ["2026-10", "2026-10", "2026-09", "2026-11"]


def test_a_day_without_a_price_breaks_the_line_and_is_no_forecast_s_ground(store: Store) -> None:
    whole, vision = (month_cost(store, filters_of(store, f"?period=2026-10{more}")) for more in ("", "&tenant=vision"))
    assert (whole.gaps, round(whole.unpriced, 9), vision.gaps) == ([date(2026, 10, 16)], 1, [])
    filters = filters_of(store, "?period=2026-10")
    drawn = month_figure(whole, MonthBudget(), filters, EN)
    (line,) = [one for one in drawn["data"] if one["name"] == EN("month_cost.so_far")]
    assert [number for number, value in enumerate(line["y"], 1) if value is None] == [16]
    assert line["y"][-1] == pytest.approx(float(sum(whole.costs.values())))
    assert len(line["y"]) == 31


def test_on_the_last_day_of_a_month_the_forecast_is_still_drawn(store: Store) -> None:
    """As found: "Forecast" and its band stood in the legend, and their lines had no length."""
    filters = filters_of(store, "?period=2026-11")
    found, last = month_cost(store, filters), date(2026, 11, 30)
    assert found.between is not None and found.so_far is not None and found.ends is not None
    costs = {**found.costs, last: Fraction(9)}
    for between in (found.between, None):
        ends = replace(found, costs=costs, path={last: found.ends}, between=between)
        drawn = month_figure(ends, MonthBudget(), filters, EN)["data"]
        assert EN("month_cost.band") not in [one["name"] for one in drawn]
        (point,) = [one for one in drawn if one["name"] == EN("month_cost.forecast")]
        assert (point["mode"], list(point["y"])) == ("markers", [float(found.ends)])
        reach = [point["error_y"][end][0] for end in ("array", "arrayminus")] if between else []
        assert reach == [abs(float(edge - found.ends)) for edge in reversed(between or ())]
    drawn = month_figure(found, MonthBudget(), filters, EN)["data"]
    assert {EN("month_cost.band"), EN("month_cost.forecast")} <= {one["name"] for one in drawn if len(one["x"]) > 1}


def test_unusual_days_are_those_of_the_anomalies_command(store: Store) -> None:
    report = anomalies(store, parse_month("2026-11", "UTC"))
    told = {(one.day, one.tenant, one.cost, one.expected, one.direction) for one in report.flagged if one.tenant}
    found = month_cost(store, filters_of(store, "?period=2026-11"))
    shown = {(one.day, one.tenant, one.cost, one.expected, one.direction) for one in found.unusual}
    assert told
    assert told <= shown
    assert (DEAR, "vision", Decimal("384"), Decimal("96"), "high") in shown
    assert month_cost(store, filters_of(store, "?period=2026-11&tenant=speech")).unusual == []
    filters = filters_of(store, "?period=2026-11")
    line, marks = month_figure(found, MonthBudget(), filters, EN)["data"][-2:]
    (place,) = [number for number, (href, _) in enumerate(marks["customdata"]) if f"period={DEAR}" in href]
    href, said = marks["customdata"][place]
    assert "tenant=vision" in href
    assert "vision: €384" in said
    assert "expected €96 (€79 – €113)" in said
    assert line["customdata"][DEAR.day - 1] == href
    assert line["customdata"][0].startswith("/?period=2026-11-01")


def test_unusual_days_of_one_tenant_are_not_of_any(store: Store) -> None:
    """As found: "any tenant" on the page of one."""
    said = [str(month_shown(store, filters_of(store, f"?period=2026-11{of}"), EN)) for of in ("", "&tenant=speech")]
    assert ["any tenant, vs the same" in one for one in said] == [True, False]
    assert "vs the same weekdays before" in said[1]


def test_a_day_that_is_unusual_for_two_tenants_counts_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = filters_of(store, "?period=2026-11")
    found = month_cost(store, filters)
    (dear,) = (one for one in found.unusual if one.day == DEAR)
    days = [dear, *(replace(dear, day=DEAR + timedelta(days=number)) for number in range(1, 6))]
    twice = replace(found, unusual=[twin for one in days for twin in (one, replace(one, tenant="speech"))])
    monkeypatch.setattr(month, "month_cost", lambda *_: twice)
    page = str(month_shown(store, filters, EN))
    marks = month_figure(twice, MonthBudget(), filters, EN)["data"][-1]
    assert len(marks["x"]) == 6
    assert f"{EN('month_cost.unusual')}: 6 " in page
    assert EN.count("month_cost.more_days", 4) in page


def test_a_budget_is_of_all_that_is_shown_or_it_is_not_there(store: Store) -> None:
    def of(search: str) -> MonthBudget:
        filters = filters_of(store, search)
        return month_budget(store, filters, month_cost(store, filters), EN)

    assert of("?period=2026-11") == MonthBudget(Decimal("3200.00"))
    assert of("?period=2026-11&tenant=speech") == MonthBudget(Decimal("800.00"))
    assert of("?period=2026-10&tenant=speech") == MonthBudget(Decimal("700.00"))
    for narrowed in ("&model=H100", "&tenant=vision&project=x", "&project=x&tenant=a&tenant=b", "&tenant=nobody"):
        assert of(f"?period=2026-11{narrowed}") == MonthBudget()
    assert of("?period=2026-11&tenant=vision&tenant=nobody") == MonthBudget(None, "1 of 2 tenants have a budget")


@pytest.mark.parametrize("asked", ["tenant=vision", "tenant=vision&tenant=speech", "tenant=nobody"])
def test_a_tenant_that_names_another_in_the_url_learns_no_more_of_its_budget_than_of_nobody_s(
    store: Store, asked: str
) -> None:
    who = Principal("sam", frozenset({Role.tenant}), frozenset({"speech"}))
    search = f"?period=2026-11&{asked}"
    with Stores(store).scoped_to(who) as own:
        filters = filters_of(own, search)
        assert month_budget(own, filters, month_cost(own, filters), EN).amount is None
        assert "2,400" not in str(month_shown(own, filters, EN))


def test_the_card_says_what_the_chart_shows_and_a_tenant_sees_its_own(store: Store) -> None:
    for lang, title, amount in (
        ("en", "Cost in November 2026", "will be exceeded by"),
        ("zh", "2026年11月成本", "预计超出"),
    ):
        search = f"?period=2026-11&tenant=vision&lang={lang}"
        page = str(show(store, ANYBODY, "/", search).page) + str(
            month_shown(store, filters_of(store, search), language(lang))
        )
        assert title in page
        assert amount in page
        assert "gpuledger budget --period 2026-11" in page
        assert "/changes?period=2026-11-12" in page
        assert "against=2026-11-05" in page
    who = Principal("s", frozenset({Role.tenant}), frozenset({"speech"}))
    with Stores(store).scoped_to(who) as own:
        page = str(show(own, who, "/", "?period=2026-11").page)
        page += str(month_shown(own, filters_of(own, "?period=2026-11"), EN))
    assert "€800" in page
    assert "vision" not in page
    assert "3,200" not in page
