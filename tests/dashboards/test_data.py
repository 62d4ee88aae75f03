"""The answers of the overview's questions, against sums done by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import ModuleType

import plotly.graph_objects as go
import pytest

from access.current import set_current
from access.principal import ANYBODY
from dashboards import figures
from dashboards.amounts import Amounts, amounts
from dashboards.filters import filters_of
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages import overview
from warehouse.store import Store

EN = language("en")


def totals(store: Store, search: str = "") -> Amounts:
    return amounts(filters_of(store, search).rows(store, overview.__file__, "by_tenant", by_project=0))


def test_every_gpu_hour_is_in_one_of_the_five_kinds(filled: Store) -> None:
    total = totals(filled)
    assert total.hours == {"used": 60, "idle": 12, "unmetered": 24, "unallocated": 72, "unavailable": 24}
    assert total.capacity == 4 * 48
    assert total.allocated == 96
    assert total.allocated_cost == 192
    assert total.list_cost == total.billed_cost == 192
    assert total.costs is not None
    assert total.costs["idle"] == 24


def test_unmetered_time_is_neither_used_nor_idle(filled: Store) -> None:
    speech = totals(filled, "?tenant=speech")
    assert speech.hours["idle"] == 0
    assert speech.metered == 24
    assert speech.list_cost == Decimal(96)
    assert (speech.efficiency, speech.coverage) == (1, 0.5)


def test_hours_without_a_price_have_an_unknown_cost_not_zero(store: Store, make_books: ModuleType) -> None:
    hour = datetime(2026, 10, 1, tzinfo=UTC)
    rows = [
        make_books.entry(hour, "a", tenant="t", allocation_id="1", used=1.0, price=None),
        make_books.entry(hour, "b", unallocated=1.0, price=None),
    ]
    make_books.fill(store, rows)
    total = totals(store)
    assert total.costs is None
    assert total.unpriced == 2
    assert total.list_cost is None


def test_a_kind_without_any_price_is_unknown_beside_others_and_the_page_says_how_much(
    store: Store, make_books: ModuleType
) -> None:
    hour = datetime(2026, 10, 1, tzinfo=UTC)
    rows = [
        make_books.entry(hour, "a", tenant="t", allocation_id="1", unmetered=1.0, price=None),
        make_books.entry(hour, "b", tenant="u", allocation_id="2", used=0.5, idle=0.5),
    ]
    make_books.fill(store, rows)
    set_current(ANYBODY)
    total = totals(store)
    assert (total.unknown, total.costs and total.costs["idle"]) == ({"unmetered"}, 1.0)
    for path in ("/", "/tenants"):
        assert "1.0 GPU-hours unpriced" in str(show(store, ANYBODY, path, "?period=2026-10").page)


def over_time(store: Store, search: str, grain: figures.Grain) -> list[figures.Bucket]:
    filters = filters_of(store, search)
    rows = filters.rows(store, overview.__file__, "over_time", grain=grain, device="")
    return figures.buckets(rows, filters.closed_steps(grain), filters.zone)


def test_a_day_averages_over_its_closed_hours(filled: Store) -> None:
    first, second = over_time(filled, "?period=2026-10", "day")
    assert first.gpus == {"used": 1.25, "idle": 0.25, "unmetered": 0.5, "unallocated": 1, "unavailable": 1}
    assert second.gpus["unavailable"] == 0
    assert first.hours_closed == 24


@pytest.mark.parametrize(("grain", "buckets"), [("day", 2), ("hour", 48)])
def test_the_figure_stacks_to_the_capacity_and_days_not_closed_are_absent(
    filled: Store, grain: figures.Grain, buckets: int
) -> None:
    figure = go.Figure(overview.fleet_over_time(filled, filters_of(filled, ""), EN, grain))
    *kinds, capacity = figure.data
    assert len(capacity.x) == buckets
    sums = [sum(parts) for parts in zip(*(trace.y for trace in kinds), strict=True)]
    assert list(capacity.y) == [4] * buckets
    assert sums == pytest.approx([4] * buckets, abs=1e-6)  # halves are shown as tables round them (format.evened)


def test_the_hour_that_autumn_repeats_has_a_place_of_its_own() -> None:
    first = datetime(2026, 10, 25, tzinfo=UTC)
    rows = [
        {"step": first + timedelta(hours=n), "used": 1.0}
        | dict.fromkeys(("idle", "unmetered", "unallocated", "unavailable"), 0.0)
        for n in range(3)
    ]
    hours = figures.buckets(rows, {row["step"]: 1 for row in rows}, "Europe/Berlin")
    assert [f"{bucket.at:%H:%M %Z}" for bucket in hours] == ["02:00 CEST", "02:00 CET", "03:00 CET"]
    assert len(set(figures.stacked_over_time(hours, "hour", EN)["data"][0]["x"])) == 3
