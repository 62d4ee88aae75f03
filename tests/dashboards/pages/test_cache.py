"""What the store answered is cached for as long as it would answer the same, and for whoever sees the same."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from access.current import set_current
from access.opening import open_access
from access.principal import ANYBODY, Principal
from access.roles import Role
from access.scope import RULES, ScopedStore
from dashboards.data_version import AnswerCache, DataVersion
from dashboards.days import sum_days
from dashboards.filters import filters_of
from dashboards.frame import show
from dashboards.pages import overview
from tests.dashboards.pages.conftest import DAY
from tests.dashboards.pages.operated import operate
from tests.dashboards.pages.test_page_by_page import PAGES
from tests.draws import dice_of, seldom
from warehouse.errors import StoreError
from warehouse.store import Store, identifier

TENANT = Principal("v", frozenset({Role.tenant}), frozenset({"vision"}))
SEARCHES = ("period=2026-10", "period=2026-10-02T05:00..2026-10-02T07:00&tenant=vision")
PATHS = sorted({used.path for name, used in PAGES.items() if name != "explore"})
COPY = ("INSERT INTO events (ts, cluster, allocation_id, workload_id, event, tenant, queue, gpus) VALUES "
        "('{at}', 'c1', 'another', 'w-another', 'submitted', 'vision', '{queue}', 1)")  # fmt: skip


@dataclass
class Kept:
    """A question of which the answer is cached, and what it asks for."""

    reads: str
    until: datetime | None
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)


@pytest.fixture(scope="module")
def house(house: Store) -> Store:
    operate(house)
    sum_days(house, "UTC")
    return house


@pytest.fixture(scope="module")
def kept_by_pages(house: Store) -> Mapping[Principal, list[Kept]]:
    """What every page keeps, as a principal sees it."""
    with ScopedStore(house.another(), TENANT.tenants) as own:
        return {ANYBODY: _kept(house, ANYBODY), TENANT: _kept(own, TENANT)}


def _kept(store: Store, principal: Principal) -> list[Kept]:
    found: dict[Hashable, Kept] = {}
    doing: list[Kept] = []
    rows = Store.rows

    def cached(_: DataVersion, __: Store, what: Hashable, reads: str, ask: Any, until: datetime | None = None) -> Any:
        doing.append(found.setdefault((what, reads), Kept(reads, until)))
        answer = ask()
        doing.pop()
        return answer

    def noted(self: Store, sql: str, params: Any = None, settings: Any = None) -> Any:
        if doing:
            doing[-1].asked.append((sql, params or {}))
        return rows(self, sql, params, settings)

    with pytest.MonkeyPatch.context() as patch, open_access(store) as access:
        patch.setattr(DataVersion, "cached", cached)
        patch.setattr(Store, "rows", noted)
        set_current(principal, access)
        for path in PATHS:
            for search in SEARCHES:
                page, _, own = path.partition("?")
                shown = show(store, principal, page, f"?{search}&{own}")
                assert "gl-error" not in str(shown.page), (path, search)
        set_current(ANYBODY)
    return list(found.values())


@seldom(5, "what is kept reads no other table")
def test_what_is_kept_reads_no_table_that_it_does_not_name(
    house: Store, kept_by_pages: Mapping[Principal, list[Kept]]
) -> None:
    memory = AnswerCache()
    with ScopedStore(house.another(), TENANT.tenants) as own:
        for store, principal, besides in ((house, ANYBODY, frozenset()), (own, TENANT, memory.tables(house, RULES))):
            asked = {(one.reads, sql): params for one in kept_by_pages[principal] for sql, params in one.asked}
            seen: set[str] = set()
            for (reads, sql), params in asked.items():
                plan = " ".join(row["explain"] for row in store.rows(f"EXPLAIN {sql}", params))
                read = set(re.findall(rf"ReadFromMergeTree \({store.database}\.(\w+)\)", plan))
                assert read <= memory.tables(store, reads) | besides, sql
                seen |= read
            assert {"events", "allocations", "closed_hours", "ledger_days", "ledger_entries"} <= seen


@seldom(6, "what is cached of a period reads")
def test_what_is_kept_of_a_period_reads_nothing_after_it(
    house: Store, kept_by_pages: Mapping[Principal, list[Kept]]
) -> None:
    asked = [one for cached in kept_by_pages[ANYBODY] if cached.until for one in cached.asked]
    answers = [answer(house, sql, params) for sql, params in asked]
    tables = house.rows(
        "SELECT name, extract(partition_key, '\\\\((\\\\w+)\\\\)') AS time FROM system.tables "
        "WHERE database = currentDatabase() AND startsWith(partition_key, 'toYYYYMM') AND total_rows > 0"
    )
    assert {"events", "samples", "ledger_entries", "slo_points"} <= {table["name"] for table in tables}
    for table in tables:
        name, time = identifier(table["name"]), identifier(table["time"])
        house.command(f"INSERT INTO {name} SELECT * REPLACE ({time} + INTERVAL 3 MONTH AS {time}) FROM {name}")
    for (sql, params), before in zip(asked, answers, strict=True):
        assert answer(house, sql, params) == before, sql


def answer(store: Store, sql: str, params: Mapping[str, Any]) -> list[str]:
    """Without an order, and without the last digits, which are others when parts are read in another order."""
    rows = store.rows(sql, params)
    return sorted(
        str({name: f"{value:.9g}" if isinstance(value, float) else value for name, value in row.items()})
        for row in rows
    )


def waits(store: Store, memory: AnswerCache, scope: frozenset[str] | None = None) -> list[dict[str, Any]]:
    filters = filters_of(store, f"?{DAY}", DataVersion.of(store, scope, memory))
    return filters.rows(store, overview.__file__, "waits")


def test_an_answer_is_kept_until_a_fact_of_its_time_comes_in_and_for_its_reader(house: Store) -> None:
    memory = AnswerCache()
    first = waits(house, memory)
    assert waits(house, memory) is first
    with ScopedStore(house.another(), TENANT.tenants) as own:
        of_vision = waits(own, memory, TENANT.tenants)
        assert of_vision is not first
        assert waits(own, memory, TENANT.tenants) is of_vision
        house.command(COPY.format(at="2026-11-03 00:00:00", queue="later"))
        assert waits(house, memory) is first, "of another month"
        house.command(COPY.format(at="2026-10-02 01:00:00", queue="late"))
        assert "late" in {row["queue"] for row in waits(house, memory)}
        assert "late" in {row["queue"] for row in waits(own, memory, TENANT.tenants)}


def test_an_allocation_that_ended_after_the_period_is_a_fact_of_it(house: Store) -> None:
    """As found: allocations lie in the month of their end, so what was kept of October missed changes of those that
    ended in November."""
    memory = AnswerCache()

    def queues() -> set[str]:
        filters = filters_of(house, "?period=2026-10&tenant=vision", DataVersion.of(house, None, memory))
        return {row["queue"] for row in filters.rows(house, overview.__file__, "waits")}

    house.command(COPY.format(at="2026-10-02 02:00:00", queue="paid by others").replace("another", "changed"))
    before = queues()
    house.command(
        "INSERT INTO allocations (claim, cluster, allocation_id, tenant, queue, start_at, end_at) "
        "VALUES (4711, 'c1', 'changed', 'speech', 'paid by others', '2026-10-02 03:00:00', '2026-11-05 00:00:00')"
    )
    assert "paid by others" in before and "paid by others" not in queues()


def test_what_is_known_to_have_come_far_enough_is_not_asked_for_again(house: Store) -> None:
    """Whatever is wanted in whatever order, the answer is as if it were asked for each time."""
    dice, memory = dice_of(None), AnswerCache()
    start = datetime(2026, 10, 1, tzinfo=UTC)
    now, known = dict.fromkeys("ab", start), dict[str, datetime]()
    for _ in range(300):
        scope, wanted = dice.choice("ab"), start + timedelta(hours=dice.randrange(60))
        now[scope] += timedelta(hours=dice.randrange(2))
        asked: list[str] = []

        def newest(scope: str = scope, asked: list[str] = asked) -> datetime | None:
            asked.append(scope)
            return now[scope] if now[scope] > start else None  # first there is nothing

        found = DataVersion.of(house, scope, memory).reached("x", wanted, newest)
        assert (found is not None and found >= wanted) == (now[scope] > start and now[scope] >= wanted)
        assert bool(asked) == (scope not in known or known[scope] < wanted)
        if asked and now[scope] > start:
            known[scope] = now[scope]


def test_a_table_that_was_emptied_and_filled_anew_is_another(house: Store) -> None:
    house.command("CREATE TABLE refilled (x UInt8) ENGINE = MergeTree ORDER BY x")
    prints = []
    for value in (1, 2):
        house.command("TRUNCATE TABLE refilled")
        house.command(f"INSERT INTO refilled VALUES ({value})")
        prints.append(DataVersion.of(house, None, AnswerCache()).parts["refilled"])
    house.command("DROP TABLE refilled")
    assert prints[0] != prints[1]


def test_a_server_that_does_not_show_its_parts_is_asked_every_time(
    house: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rows = Store.rows

    def refused(self: Store, sql: str, params: Any = None, settings: Any = None) -> Any:
        if "system.parts" in sql:
            raise StoreError(self.url, "Not enough privileges. (ACCESS_DENIED)")
        return rows(self, sql, params, settings)

    monkeypatch.setattr(Store, "rows", refused)
    memory = AnswerCache()
    first = waits(house, memory)
    assert waits(house, memory) == first
    assert waits(house, memory) is not first
    assert caplog.text.count("GRANT SELECT ON system.parts") == 1
    assert DataVersion.of(house, None, memory).books


def test_what_may_be_another_answer_at_any_time_is_not_kept(house: Store) -> None:
    data_version = DataVersion.of(house, None, AnswerCache())
    answers = iter((1, 2))
    assert data_version.cached(house, "x", "SELECT count() FROM events WHERE ts < now()", lambda: next(answers)) == 1
    assert data_version.cached(house, "x", "SELECT count() FROM events WHERE ts < now()", lambda: next(answers)) == 2


def test_of_closed_hours_only_those_are_asked_for_that_no_run_was_asked_for_yet() -> None:
    memory, asked = AnswerCache(), list[tuple[int, int]]()

    def ask(closed: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        asked.extend(closed)
        return [{"at": datetime.fromtimestamp(hour, UTC), "run": run} for hour, run in closed if hour != 7200]

    def runs(key: str, *closed: tuple[int, int]) -> list[int]:
        asked.clear()
        return [row["run"] for row in memory.written(key, closed, ask)]

    assert runs("x", (0, 1), (3600, 1), (7200, 1)) == [1, 1]
    assert runs("x", (3600, 1), (7200, 1), (10800, 2)) == [1, 2], "an hour without rows is cached, too"
    assert asked == [(10800, 2)]
    assert runs("x", (0, 3), (3600, 1)) == [3, 1]
    assert asked == [(0, 3)], "it was closed again"
    assert runs("another question", (0, 3)) == [3]
    assert asked == [(0, 3)]


def test_memory_of_hours_is_bounded() -> None:
    memory, asked = AnswerCache(), list[str]()

    def ask(closed: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
        return [{"at": datetime.fromtimestamp(hour, UTC)} for hour, _ in closed for _ in range(15_000)]

    def noted(key: str) -> None:
        def ask_anew(closed: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
            asked.append(key)
            return ask(closed)

        memory.written(key, [(0, 1)], ask_anew)

    for key in ("a", "b", "c", "c", "b", "a"):
        noted(key)
    assert asked == ["a", "b", "c", "a"]


def test_memory_is_bounded() -> None:
    memory = AnswerCache()
    for number in range(50):
        memory.cached(number, lambda: [{}] * 3000)
    cached = [number for number in range(50) if memory.cached(number, list)]
    assert cached == list(range(44, 50))


def test_the_present_is_asked_for_once_in_a_while_by_readers_of_one_scope(house: Store) -> None:
    memory, asked = AnswerCache(), list[str]()

    def ask(scope: str, seconds: float, cache: AnswerCache | None = memory) -> int:
        def answer() -> int:
            asked.append(scope)
            return len(asked)

        found: int = DataVersion.of(house, scope, cache).recent("now", seconds, answer)
        return found

    assert [ask("a", 3600), ask("a", 3600), ask("b", 0), ask("b", 3600), ask("a", 3600)] == [1, 1, 2, 3, 1]
    assert [ask("a", 3600, None), ask("a", 3600, None)] == [4, 5]
    assert asked == ["a", "b", "b", "a", "a"]
