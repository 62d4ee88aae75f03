"""The answers of the pages' questions, against sums done by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import ModuleType

import pytest

from dashboards import data, figures
from dashboards.periods import ClosedMonth, asked, choose, month_label
from warehouse.store import Store

MONTHS = [
    ClosedMonth("2026-09", 2, datetime(2026, 9, 30, 20, tzinfo=UTC), datetime(2026, 9, 30, 21, tzinfo=UTC)),
    ClosedMonth("2026-10", 745, datetime(2026, 9, 30, 22, tzinfo=UTC), datetime(2026, 10, 31, 22, tzinfo=UTC)),
]


def test_every_gpu_hour_is_in_one_of_the_five_kinds(filled: Store) -> None:
    total = data.overview(filled, "").total
    assert total is not None
    assert total.hours == {"used": 60, "idle": 12, "unmetered": 24, "unallocated": 72, "unavailable": 24}
    assert total.capacity == 4 * 48
    assert total.allocated == 96
    assert total.allocated_cost == 192
    assert total.costs is not None
    assert total.costs["idle"] == 24


def test_unmetered_time_is_neither_used_nor_idle(filled: Store) -> None:
    speech = next(tenant for tenant in data.overview(filled, "").tenants if tenant.name == "speech")
    assert speech.amounts.hours["idle"] == 0
    assert speech.amounts.metered == 24
    assert speech.list_cost == Decimal(96)


def test_hours_without_a_price_have_an_unknown_cost_not_zero(store: Store, make_books: ModuleType) -> None:
    hour = datetime(2026, 10, 1, tzinfo=UTC)
    rows = [
        make_books.entry(hour, "a", tenant="t", allocation_id="1", used=1.0, price=None),
        make_books.entry(hour, "b", unallocated=1.0, price=None),
    ]
    make_books.fill(store, rows)
    answer = data.overview(store, "")
    assert answer.total is not None
    assert answer.total.costs is None
    assert answer.total.unpriced == 2
    assert answer.tenants[0].list_cost is None


def test_a_day_averages_over_its_closed_hours(filled: Store) -> None:
    first, second = data.overview(filled, "2026-10").days
    assert first.gpus == {"used": 1.25, "idle": 0.25, "unmetered": 0.5, "unallocated": 1, "unavailable": 1}
    assert second.gpus["unavailable"] == 0
    assert first.hours_closed == 24


def test_days_that_are_not_closed_are_absent_not_zero(filled: Store) -> None:
    figure = figures.fleet_over_time(data.overview(filled, "2026-10").days, "day")
    assert [len(trace.x) for trace in figure.data] == [2] * 6
    assert sum(trace.y[0] for trace in figure.data[:5]) == figure.data[5].y[0] == 4


def test_the_hour_that_autumn_repeats_is_counted_twice(store: Store, make_books: ModuleType) -> None:
    make_books.fill(
        store,
        [make_books.entry(datetime(2026, 10, 25, tzinfo=UTC) + timedelta(hours=n), "a", used=1.0) for n in range(3)],
    )
    (period,) = [choose("", data.closed_months(store, "Europe/Berlin"), "Europe/Berlin")]
    assert period is not None
    hours = data.fleet_over_time(store, period, "Europe/Berlin", "hour")
    assert [f"{bucket.at:%H:%M %Z}" for bucket in hours] == ["02:00 CEST", "02:00 CET", "03:00 CET"]
    assert len(set(figures.fleet_over_time(hours, "hour").data[0].x)) == 3


def test_a_month_has_the_hours_that_its_zone_gives_it() -> None:
    period = choose("2026-10", MONTHS, "Europe/Berlin")
    assert period is not None
    assert period.hours == period.hours_closed == 745
    assert period.start == datetime(2026, 9, 30, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("key", "label"), [("", "October 2026"), ("all", "All closed time"), ("2026-09", "September 2026")]
)
def test_the_url_chooses_the_period(key: str, label: str) -> None:
    period = choose(asked(f"?period={key}"), MONTHS, "Europe/Berlin")
    assert period is not None
    assert period.label == label


@pytest.mark.parametrize("key", ["2026-11", "2026-13", "'; DROP TABLE ledger", "октябрь"])
def test_a_period_without_closed_hours_is_none(key: str) -> None:
    assert choose(key, MONTHS, "UTC") is None
    assert month_label(key) in (key, "November 2026")
