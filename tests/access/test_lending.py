"""Connections that are lent to those who ask, and what a tenant's is told to leave out: without an engine."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from collections.abc import Iterator
from typing import Any, cast
from unittest.mock import patch

import pytest

from access import scope
from access.principal import Principal
from access.roles import AccessError, Role
from access.scope import FILTERS, UNSCOPED_TABLES, ScopedStore, Stores, table_filters
from warehouse.errors import StoreError
from warehouse.store import ServerStore, Store

KEPT_OF_ONE, KEPT_SCOPES = 8, 32
TABLES = [("allocations", 1), ("quarantine", 0), ("close_runs", 0), ("devices", 1), ("samples", 0), ("events", 1)]
ANALYST = Principal("ann", frozenset({Role.analyst}))


def of(*tenants: str) -> Principal:
    return Principal("vera", frozenset({Role.tenant}), frozenset(tenants))


class Engine:
    """What connections there are: (number, tenants or None for all), and how often each was closed."""

    def __init__(self) -> None:
        self.closed: list[int] = []
        self.made: list[Connection] = []

    def another(self, database: str = "") -> Connection:
        self.made.append(Connection(self, len(self.made)))
        return self.made[-1]


class Connection:
    def __init__(self, engine: Engine, number: int) -> None:
        self.engine, self.number, self.tenants = engine, number, cast("frozenset[str] | None", None)

    def share_cores(self) -> None: ...

    def close(self) -> None:
        self.engine.closed.append(self.number)


def scoped(inner: Any, tenants: frozenset[str]) -> Any:
    assert tenants is not None
    inner.tenants = tenants
    return inner


ENDS: tuple[tuple[Exception | None, bool], ...] = (
    (None, True), (None, True), (None, True),
    (AccessError("a", "b", "c"), True), (StoreError("a", "b", "c"), False), (ZeroDivisionError(), False),
)  # fmt: skip
"""How what was asked ends, and whether its connection is as it was."""


def test_a_connection_is_lent_to_one_at_a_time_and_only_again_for_the_same_tenants(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Four of each scope are kept, of the thirty-two scopes that were asked for last; at the end none is open."""
    monkeypatch.setattr(scope, "ScopedStore", scoped)
    dice = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    engine = Engine()
    stores = Stores(cast("Store", engine))
    out: list[tuple[Any, Connection, frozenset[str] | None]] = []
    idle: dict[frozenset[str] | None, list[int]] = {}
    closed: list[int] = []
    used: list[frozenset[str] | None] = []

    def take() -> None:
        who = dice.choice([ANALYST, of("a"), of("a"), of(str(dice.randrange(40)))])
        whole = dice.random() < 0.1
        tenants = None if whole or who is ANALYST else who.tenants
        lease = stores.unscoped() if whole else stores.scoped_to(who)
        found = cast("Connection", lease.__enter__())
        assert found.tenants == tenants
        assert found.number not in {one.number for _, one, _ in out} and found.number not in engine.closed
        if idle.get(tenants):
            assert found.number == idle[tenants].pop(), "the last one that came back"
            used.remove(tenants)
            used.append(tenants)
        else:
            assert found.number == len(engine.made) - 1
        out.append((lease, found, tenants))

    def give_back(keeping: bool) -> None:
        lease, found, tenants = out.pop(dice.randrange(len(out)))
        error, is_sound = dice.choice(ENDS)
        assert not lease.__exit__(error and type(error), error, None), "an error goes on to who asked"
        if not is_sound:
            closed.append(found.number)
            return
        if tenants in used:
            used.remove(tenants)
        used.append(tenants)
        idle.setdefault(tenants, [])
        if keeping and len(idle[tenants]) < KEPT_OF_ONE:
            idle[tenants].append(found.number)
        else:
            closed.append(found.number)
        while len(used) > KEPT_SCOPES:
            closed.extend(idle.pop(used.pop(0)))

    def go_on(keeping: bool, steps: int) -> None:
        for _ in range(steps):
            take() if not out or dice.random() < 0.5 else give_back(keeping)
            assert engine.closed == closed

    async def serve() -> None:
        async with stores.lifespan():
            go_on(True, 1500)
            for _ in range(7):
                lease = stores.scoped_to(of("a"))
                out.append((lease, cast("Connection", lease.__enter__()), of("a").tenants))
                if idle.get(of("a").tenants):
                    idle[of("a").tenants].pop()
            while out:
                give_back(True)
            assert engine.closed == closed
        closed.extend(number for tenants in used for number in idle[tenants])

    go_on(False, 50)
    while out:
        give_back(False)
    asyncio.run(serve())
    assert sorted(engine.closed) == sorted(closed) == list(range(len(engine.made))), "each is closed, and once"
    for who in (ANALYST, of("a")):
        with stores.scoped_to(who):
            assert len(engine.closed) == len(engine.made) - 1
        assert len(engine.closed) == len(engine.made), "nothing is kept any more"


def test_whoever_asks_leaves_half_of_the_cores_to_others(store: Store) -> None:
    cores = "SELECT getSetting('max_threads') AS cores"
    all_of_them = store.value(cores)
    stores = Stores(store)
    for lease in (stores.scoped_to(ANALYST), stores.scoped_to(of("a")), stores.unscoped()):
        with lease as lent:
            assert lent.value(cores) == max(1, all_of_them // 2)
    assert store.value(cores) == all_of_them


def test_the_engine_is_asked_once_how_many_cores_there_are(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """As found: by each new connection of the pool."""
    asked: list[str] = []
    value = Store.value

    def heard(self: Store, sql: str, *more: Any) -> Any:
        asked.append(sql)
        return value(self, sql, *more)

    monkeypatch.setattr(Store, "value", heard)
    stores = Stores(store)
    for _ in range(3):
        with stores.unscoped():
            pass
    assert len(asked) == 1


def test_a_connection_that_cannot_be_made_a_tenants_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(scope, "ScopedStore", fails)
    engine = Engine()
    with pytest.raises(KeyboardInterrupt), Stores(cast("Store", engine)).scoped_to(of("a")):
        pytest.fail("it was lent")
    assert engine.closed == [0]


class Client:
    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.was_closed = False

    def set_client_setting(self, name: str, value: str) -> None:
        self.settings[name] = value

    def close(self) -> None:
        self.was_closed = True


class Fake(Store):
    """Tables and views with a definer; notes its commands."""

    def __init__(self, url: str = "chdb://x", definers: tuple[str, ...] = ()) -> None:
        Store.__init__(self, url, Client(), "ledger")
        self.commands: list[str] = []
        self.definers, self.staged_, self.was_closed = definers, list[Any](), False

    def rows(self, sql: str, *_: Any) -> list[dict[str, Any]]:
        if "definer" in sql:
            return [{"name": name} for name in self.definers]
        return [{"name": name, "has_tenant": has} for name, has in TABLES]

    def command(self, sql: str, *_: Any) -> None:
        self.commands.append(sql)

    def another(self, database: str = "") -> Store:
        assert not database
        return type(self)()

    @contextlib.contextmanager
    def staged(self, batch: Any) -> Iterator[str]:
        self.staged_.append(batch)
        yield "there"

    def close(self) -> None:
        self.was_closed = True


class Served(Fake, ServerStore):
    """Over HTTP."""


def rules(text: str) -> dict[str, str]:
    """As the engine reads the setting: a map of quoted texts."""
    found = re.findall(r"'(\w+)': '((?:[^'\\]|\\.)*)'(?:, |\})", text)
    assert text == "{" + ", ".join(f"'{name}': '{rule}'" for name, rule in found) + "}"
    return {name: rule.replace("\\'", "'") for name, rule in found}


@pytest.mark.parametrize("tenants", [(), ("vision",), ("b'; DROP", "a", "ü")])
def test_each_table_is_kept_to_the_tenants_and_no_name_can_be_quoted(tenants: tuple[str, ...]) -> None:
    names = ", ".join(f"unhex('{name.encode().hex()}')" for name in sorted(tenants)) or "NULL"
    found = rules(table_filters(Fake(), frozenset(tenants)))
    assert found == {
        "allocations": f"tenant IN ({names})",
        "quarantine": "0",
        "samples": FILTERS["samples"].replace("{tenants}", names),
        "events": FILTERS["events"].replace("{tenants}", names),
    }
    assert {"close_runs", "devices"} <= UNSCOPED_TABLES


def test_views_with_a_definer_are_named_and_nothing_is_lent() -> None:
    with pytest.raises(StoreError, match=r"rows: v_a, v_b") as error:
        ScopedStore(Fake(definers=("v_a", "v_b")), frozenset({"a"}))
    assert "SQL SECURITY INVOKER" in str(error.value)


def test_a_connection_of_a_server_carries_the_rules_with_each_question_and_a_session_has_them_set() -> None:
    """A session that the server forgot would have forgotten what was set in it."""
    tenants = frozenset({"a", "b"})
    over_http, embedded = Served(), Fake()
    assert isinstance(over_http, ServerStore)
    ScopedStore(over_http, tenants)
    assert over_http._client.settings == {"additional_table_filters": table_filters(over_http, tenants)}
    assert over_http.commands == []
    ScopedStore(embedded, tenants)
    assert embedded.commands == [f"SET additional_table_filters = {table_filters(embedded, tenants)}"]
    assert embedded._client.settings == {}


def test_what_is_made_from_a_tenants_connection_sees_as_little() -> None:
    inner, tenants = Fake(), frozenset({"a"})
    mine = ScopedStore(inner, tenants)
    assert (mine.url, mine.database, mine._client) == (inner.url, "ledger", inner._client)
    for database in ("", "ledger"):
        other = mine.another(database)
        assert isinstance(other, ScopedStore)
        made = cast("Fake", other._inner)
        assert made is not inner
        assert made.commands == inner.commands
    with pytest.raises(PermissionError, match="does not leave its database for other"):
        mine.another("other")
    batch: Any = object()
    with mine.staged(batch) as there:
        assert (there, inner.staged_) == ("there", [batch])
    mine.close()
    assert inner.was_closed


def test_a_tenants_connection_gives_statements_to_the_engine_as_its_store_does(store: Store) -> None:
    """Without comments, and long lists as tables from the same length on."""
    given = {"given": [*range(6000)]}
    with ScopedStore(store.another(), frozenset({"a"})) as mine:
        assert mine.longest_list == store.longest_list == 50_000
        with patch.object(mine._client, "query", wraps=mine._client.query) as asked:
            assert mine.value("SELECT 7 IN {given:Array(UInt64)} AS n -- one; two", given) == 1
    assert asked.call_args.args == ("SELECT 7 IN {given:Array(UInt64)} AS n ",)
