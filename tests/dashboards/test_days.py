"""Sums of days say what the ledger's hours say, and nothing once these have changed."""

from __future__ import annotations

import math
import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from access.scope import ScopedStore
from dashboards import figures, pages
from dashboards.data_version import AnswerCache, DataVersion
from dashboards.days import sum_days
from dashboards.days.closed import closed_hours
from dashboards.filters import Filters, filters_of
from dashboards.pages import fleet, overview, tenants, workload
from tests.draws import drawn
from warehouse.errors import StoreError
from warehouse.store import Store

BEGIN = datetime(2026, 10, 23, 18, tzinfo=UTC)
HOURS = 5 * 24
"""Over the night in which Europe's clocks go back."""
ZONES = ("Europe/Berlin", "Asia/Kolkata", "Pacific/Chatham")
SEARCHES = ("?period=all", "?period=2026-10-24..2026-10-28", "?period=2026-10-25&tenant=vision")
PAGES = Path(next(iter(pages.__path__)))
ASKED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (overview.__file__, "by_tenant", {"by_project": 0}),
    (overview.__file__, "over_time", {"grain": "day", "device": ""}),
    (overview.__file__, "over_time", {"grain": "day", "device": "a"}),
    (tenants.__file__, "by_holder", {"level": "tenant", "grain": "day", "most": 50}),
    (tenants.__file__, "by_holder", {"level": "project", "grain": "day", "most": 50}),
    (workload.__file__, "dearest", {"find": "", "most": 50}),
    (workload.__file__, "workloads", {"workloads": ["vision", "学术组", ""]}),
    (fleet.__file__, "devices", {"device": ""}),
    (fleet.__file__, "holders", {"device": "b"}),
)


@pytest.fixture
def books(store: Store, make_books: ModuleType) -> Store:
    """Five days of three devices and as many tenants; prices change, an hour is shared, and some are cut in two."""
    draw, rows = random.Random(7), []
    for number in range(HOURS):
        hour = BEGIN + timedelta(hours=number)
        for device in "abc":
            tenant = draw.choice(["vision", "speech", "学术组", ""])
            held = {"allocation_id": draw.choice("123")} if tenant else {}
            price = draw.choice([1.75, 2.0, None])
            used = draw.random()
            kinds = {"used": used, "idle": 1 - used} if tenant else {"unallocated": 1.0}
            rows.append(make_books.entry(hour, device, tenant=tenant, price=price, **held, **kinds))
    make_books.fill(store, rows)
    store.command("ALTER TABLE ledger_entries UPDATE workload_id = tenant WHERE 1 SETTINGS mutations_sync = 1")
    store.command(
        "INSERT INTO ledger_entries SELECT * REPLACE (charge_period_start + INTERVAL 30 MINUTE AS charge_period_start) "
        "FROM ledger_entries WHERE toHour(hour) IN (3, 18, 22) AND device_id = 'a'"
    )
    return store


def in_zone(store: Store, zone: str, monkeypatch: pytest.MonkeyPatch, search: str = "?period=all") -> Filters:
    monkeypatch.setattr("dashboards.filters.billing_timezone", lambda _: zone)
    return filters_of(store, search)


def answers(store: Store, filters: Filters) -> list[Any]:
    return [filters.rows(store, beside, name, **params) for beside, name, params in ASKED]


def same(one: Any, other: Any) -> bool:
    """Sums of floating point differ by their order, exact ones by where a row is cut."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float | Decimal):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9)
    return bool(one == other)


def agree(found: list[Any], expected: list[Any]) -> None:
    for asked, one, other in zip(ASKED, found, expected, strict=True):
        assert same(one, other), (asked[1:], one, other)


@pytest.mark.parametrize("zone", drawn(ZONES, 1 / 3))
def test_sums_say_what_the_hours_say(books: Store, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {search: in_zone(books, zone, monkeypatch, search) for search in SEARCHES}
    assert not any(filters.sums.days for filters in asked.values())
    expected = {search: answers(books, filters) for search, filters in asked.items()}
    assert sum_days(books, zone) == 6
    for search, before in asked.items():
        after = in_zone(books, zone, monkeypatch, search)
        assert len(after.sums.days) >= (1 if "tenant" in search else 4)
        agree(answers(books, after), expected[search])
        assert after.choices == before.choices
    assert sum_days(books, zone) == 0


def test_an_hour_over_midnight_is_of_both_days(books: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    filters = in_zone(books, "Asia/Kolkata", monkeypatch, "?period=2026-10-24..2026-10-26")
    rows = filters.rows(books, overview.__file__, "over_time", grain="day", device="")
    assert [filters.local(row["step"]).isoformat()[:16] for row in rows] == ["2026-10-24T00:00", "2026-10-25T00:00"]
    found = figures.buckets(rows, filters.closed_steps("day"), filters.zone)
    assert [bucket.hours_closed for bucket in found] == [24, 24]
    by_hour = figures.buckets(
        filters.rows(books, overview.__file__, "over_time", grain="hour", device=""),
        filters.closed_steps("hour"),
        filters.zone,
    )
    assert [bucket.hours_closed for bucket in by_hour] == [0.5, *[1] * 47, 0.5]


def test_hours_that_were_closed_again_are_read_until_they_are_summed(
    books: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    sum_days(books, "UTC")
    assert len(in_zone(books, "UTC", monkeypatch).sums.other_hours) == 24, "its first and last day are not whole"
    books.command(
        "INSERT INTO ledger_entries SELECT * REPLACE ("
        "2 AS run, 'robotics' AS tenant, 'robotics' AS workload_id, '9' AS allocation_id) "
        "FROM ledger_entries WHERE hour = '2026-10-25 05:00:00'"
    )
    books.command(
        "INSERT INTO closed_hours (hour, run, checked_by, inputs, content) VALUES ('2026-10-25 05:00:00', 2, 2, 1, 0)"
    )
    filters = in_zone(books, "UTC", monkeypatch)
    assert datetime(2026, 10, 25, tzinfo=UTC) not in filters.sums.days
    assert len(filters.sums.other_hours) == 48
    expected = answers(books, filters)
    assert "robotics" in str(expected)
    assert sum_days(books, "UTC") == 1
    again = in_zone(books, "UTC", monkeypatch)
    assert len(again.sums.other_hours) == 24
    agree(answers(books, again), expected)


def test_sums_that_were_never_finished_count_for_nothing(books: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers(books, in_zone(books, "UTC", monkeypatch))

    def killed(*_: Any) -> None:
        raise StoreError("store", "went away")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "insert", killed)
        with pytest.raises(StoreError, match="went away"):
            sum_days(books, "UTC")
    assert books.value("SELECT count() AS n FROM ledger_days") > 0
    assert not closed_hours(books, "UTC").sums(BEGIN, BEGIN + timedelta(days=5)).days
    assert sum_days(books, "UTC") == 6
    agree(answers(books, in_zone(books, "UTC", monkeypatch)), expected)


def test_old_sums_are_forgotten(books: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sum_days(books, "UTC")
    kept = books.value("SELECT count() AS n FROM ledger_days")
    books.command(
        "INSERT INTO ledger_days SELECT * REPLACE (9 AS version, now() - INTERVAL 2 DAY AS written_at) FROM ledger_days"
    )
    books.command("INSERT INTO ledger_days SELECT * REPLACE (8 AS version) FROM ledger_days WHERE version != 9 LIMIT 5")
    sum_days(books, "Europe/Berlin")
    books.command("OPTIMIZE TABLE ledger_days FINAL")
    assert books.value("SELECT countIf(version = 9) AS n FROM ledger_days") == 0
    assert books.value("SELECT countIf(version = 8) AS n FROM ledger_days") == 5
    assert books.value("SELECT countIf(zone = 'UTC' AND version != 8) AS n FROM ledger_days") == kept


def test_a_tenant_reads_the_sums_of_its_own(books: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    sum_days(books, "UTC")
    with ScopedStore(books.another(), frozenset({"speech"})) as own:
        filters = in_zone(own, "UTC", monkeypatch)
        assert filters.sums.days
        assert {row["name"] for row in filters.rows(own, overview.__file__, "by_tenant", by_project=0)} == {"speech"}
        assert own.value("SELECT uniqExact(tenant) AS n FROM ledger_days") == 1
    narrowed = in_zone(books, "UTC", monkeypatch, "?period=all&tenant=speech")
    assert {row["name"] for row in narrowed.rows(books, overview.__file__, "by_tenant", by_project=0)} == {"speech"}


def test_answers_are_kept_until_the_books_change_and_for_their_reader(books: Store) -> None:
    memory = AnswerCache()

    def costs(scope: Any, store: Store) -> set[str]:
        filters = filters_of(store, "?period=all", DataVersion.of(store, scope, memory))
        return {row["name"] for row in filters.rows(store, overview.__file__, "by_tenant", by_project=0)}

    everybody = costs(None, books)
    assert len(everybody) > 1
    assert costs(frozenset({"speech"}), books) == everybody, "whose key says nothing of what the store shows"
    sum_days(books, "UTC")
    assert costs(None, books) == everybody
    books.command(
        "INSERT INTO closed_hours (hour, run, checked_by, inputs, content) "
        "SELECT hour, run + 1, checked_by + 1, 1, 0 FROM closed_hours"
    )
    assert costs(None, books) == set(), "all hours were closed again, and nothing was in them"
