"""What versions before kept in the warehouse, drawn, and what becomes of it: reckoned row by row, in memory. (With the
engine, and killed half-way: test_upgrade.py.)"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from sqlalchemy import Table, select

from access import store
from access.people import Kind, add_person
from access.principal import ANYBODY
from access.store import AccessStore, AccessStoreError, connect
from access.upgrade import move_from_warehouse
from warehouse.store import MOVED_OUT, Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(days=30)
NAMES = ("ada", "bob", "eve", "zoe", ANYBODY.name)
ROLES, TENANTS = ("admin", "analyst", "tenant"), ("vision", "lab")


class Warehouse:
    """Of a version before. tables: by name, rows.   asked: names of tables that were read.   dropped: in order."""

    def __init__(self, tables: dict[str, list[dict[str, Any]]]) -> None:
        self.tables, self.asked, self.dropped = tables, list[str](), list[str]()
        self.number = 0

    def rows(self, sql: str, params: Any = None) -> list[dict[str, Any]]:
        if params is not None:
            assert params == {"names": list(MOVED_OUT)}
            return [{"name": name, "source": f"{name} {self.number}"} for name in sorted(self.tables)]
        (name,) = (name for name in MOVED_OUT if f"FROM {name} FINAL" in sql)
        self.asked.append(name)
        return [dict(row) for row in self.tables[name]]

    def command(self, sql: str) -> None:
        (name,) = (name for name in MOVED_OUT if sql == f"DROP TABLE IF EXISTS {name} SYNC")
        self.dropped.append(name)
        self.tables.pop(name, None)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(AccessStore, "note", lambda *given: found.append(given[2:]))
    return found


def some(dice: random.Random, of: tuple[str, ...]) -> list[str]:
    return dice.sample(of, dice.randint(0, len(of)))


def drawn(dice: random.Random) -> dict[str, list[dict[str, Any]]]:
    def changed(who: str) -> dict[str, Any]:
        return {"created_at": BEFORE, "changed_at": NOW - timedelta(days=1), "changed_by": who}

    users = [
        {"name": name, "password": f"hash of {name}", "roles": some(dice, ROLES), "tenants": some(dice, TENANTS),
         "disabled": dice.randrange(2), **changed("root")}
        for name in some(dice, NAMES[:4])
    ]  # fmt: skip
    tokens = [
        {"id": f"t{number}", "digest": f"d{number}", "name": f"n{number}", "owner": dice.choice(NAMES),
         "roles": some(dice, ROLES), "tenants": some(dice, TENANTS), "scopes": some(dice, ("read", "sql")),
         "expires_at": NOW + timedelta(days=number), "revoked": dice.randrange(2), "created_at": BEFORE,
         "created_by": "root"}
        for number in range(dice.randrange(6))
    ]  # fmt: skip
    queries = [
        {"owner": owner, "name": f"q{number}", "text": dice.choice(["SELECT told_tenant", "SELECT 1"]),
         "description": "d", "shared": dice.randrange(2), **changed(owner)}
        for number, owner in enumerate(dice.choices(NAMES, k=dice.randrange(5)))
    ]  # fmt: skip
    return {"access_users": users, "access_tokens": tokens, "saved_queries": queries}


def all_of(access: AccessStore, table: Table) -> list[dict[str, Any]]:
    with access.reading() as connection:
        return [dict(row) for row in connection.execute(select(table).order_by(*table.columns)).mappings()]


def opened(warehouse: Warehouse) -> AccessStore:
    return connect("sqlite://", None, cast("Store", warehouse))


def reckoned(tables: dict[str, list[dict[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """By table of the access store. Names that are no user's are service accounts, which may what their tokens may."""
    users = {row["name"] for row in tables["access_users"]}
    owners = {row["owner"] for row in tables["access_tokens"]}
    owners |= {row["owner"] for row in tables["saved_queries"] if row["owner"] != ANYBODY.name}

    def whose(name: str) -> dict[str, str]:
        return {"issuer": "local" if name in users else "service", "subject": name}

    def sets(row: dict[str, Any], *names: str) -> dict[str, Any]:
        return {name: frozenset(row[name]) for name in names}

    people = [
        {**row, **sets(row, "roles", "tenants"), **whose(row["name"]), "kind": "local",
         "disabled": bool(row["disabled"]), "seen_at": None}
        for row in tables["access_users"]
    ]  # fmt: skip
    for name in owners - users:
        own = [row for row in tables["access_tokens"] if row["owner"] == name]
        roles, tenants = (frozenset(word for row in own for word in row[what]) for what in ("roles", "tenants"))
        people.append(
            {"issuer": "service", "subject": name, "name": name, "kind": "service", "roles": roles, "tenants": tenants,
             "disabled": False, "password": "", "created_at": NOW, "changed_at": NOW, "changed_by": "upgrade",
             "seen_at": None}
        )  # fmt: skip
    tokens = [
        {**row, **sets(row, "roles", "tenants", "scopes"), **whose(row["owner"]), "revoked": bool(row["revoked"])}
        for row in tables["access_tokens"]
    ]
    for token in tokens:
        del token["owner"]
    anybody = dict(zip(("issuer", "subject"), ANYBODY.id, strict=True))
    queries = [
        {**row, **(anybody if row["owner"] == ANYBODY.name else whose(row["owner"])), "shared": bool(row["shared"]),
         "text": row["text"].replace("told_tenant", "reported_tenant")}
        for row in tables["saved_queries"]
    ]  # fmt: skip
    return {"people": people, "tokens": tokens, "saved_queries": queries}


def alike(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> bool:
    return sorted(map(as_text, found)) == sorted(map(as_text, expected))


def as_text(row: dict[str, Any]) -> str:
    return repr(sorted((name, sorted(value) if isinstance(value, frozenset) else value) for name, value in row.items()))


def cases() -> Iterator[dict[str, list[dict[str, Any]]]]:
    dice = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    for _ in range(25):
        yield drawn(dice)


def test_all_of_it_is_copied_once_and_dropped(notes: list[tuple[Any, ...]], caplog: pytest.LogCaptureFixture) -> None:
    for tables in cases():
        notes.clear()
        caplog.clear()
        warehouse = Warehouse(dict(tables))
        with opened(warehouse) as access:
            move_from_warehouse(access, NOW)
            for name, rows in reckoned(tables).items():
                assert alike(all_of(access, store._METADATA.tables[name]), rows), (name, tables)
            sources = [{"source": f"{name} 0", "name": name, "copied_at": NOW} for name in sorted(tables)]
            assert all_of(access, store.copied) == sources
            counts = {name: len(tables[name]) for name in tables}
            moved = (NOW, "upgrade", "access.moved", access.url, "out of the analytics engine", counts)
            assert notes == ([moved] if any(counts.values()) else [])
            assert [one.levelno for one in caplog.records] == ([logging.WARNING] if any(counts.values()) else [])
            assert access.url in caplog.text or not any(counts.values())
            assert (sorted(warehouse.asked), warehouse.dropped) == (sorted(tables), list(MOVED_OUT))
            move_from_warehouse(access, NOW)
            assert (len(warehouse.asked), len(warehouse.dropped)) == (3, 3), "nothing is there any more"


def test_what_was_copied_and_not_dropped_is_dropped_and_not_copied_again(notes: list[tuple[Any, ...]]) -> None:
    for tables in cases():
        warehouse = Warehouse(dict(tables))
        with opened(warehouse) as access:
            move_from_warehouse(access, NOW)
            said, before = list(notes), all_of(access, store.people)
            warehouse.tables = {name: tables[name] for name in ("access_users", "saved_queries")}
            move_from_warehouse(access, NOW + timedelta(days=1))
            assert all_of(access, store.people) == before
            assert len(all_of(access, store.copied)) == 3
            assert (notes, len(warehouse.asked), warehouse.tables) == (said, 3, {})


def test_one_that_another_server_has_just_copied_is_not_copied_again(
    notes: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked again which tables there are, once it is this one's turn."""
    warehouse = Warehouse({"access_users": [], "access_tokens": [], "saved_queries": []})
    with opened(warehouse) as access:
        writing = access.writing

        def waits() -> Any:
            warehouse.tables.clear()
            return writing()

        monkeypatch.setattr(access, "writing", waits)
        move_from_warehouse(access, NOW)
        assert (warehouse.asked, all_of(access, store.copied), notes) == ([], [], [])


def test_tokens_of_a_service_account_that_is_there_already_are_its_own(notes: list[tuple[Any, ...]]) -> None:
    row = {"id": "t", "digest": "d", "name": "n", "owner": "bot", "roles": ["admin"], "tenants": [], "scopes": ["read"],
           "expires_at": NOW, "revoked": 0, "created_at": NOW, "created_by": "root"}  # fmt: skip
    with opened(Warehouse({"access_tokens": [row, {**row, "id": "u", "owner": "ada"}]})) as access:
        add_person(access, "root", NOW, "bot", "", ["analyst"], kind=Kind.service)
        add_person(access, "root", NOW, "ada", "correct horse battery", ["analyst"])
        move_from_warehouse(access, NOW)
        assert {(one["issuer"], one["subject"], one["roles"]) for one in all_of(access, store.people)} == {
            ("service", "bot", frozenset({"analyst"})), ("local", "ada", frozenset({"analyst"})),
        }  # fmt: skip
        assert [(one["id"], one["issuer"]) for one in all_of(access, store.tokens)] == [
            ("t", "service"),
            ("u", "local"),
        ]
    assert notes[-1][5] == {"access_tokens": 2}


def test_an_access_store_that_has_users_of_those_names_is_somebody_elses(notes: list[tuple[Any, ...]]) -> None:
    tables = drawn(random.Random(1))
    users = [{"name": name, "password": "", "roles": ["admin"], "tenants": [], "disabled": 0, "created_at": NOW,
              "changed_at": NOW, "changed_by": "root"} for name in ("eve", "bob", "ada")]  # fmt: skip
    warehouse = Warehouse({**tables, "access_users": users})
    with opened(warehouse) as access:
        for name in ("eve", "bob"):
            add_person(access, "root", NOW, name, "correct horse battery", ["admin"])
        add_person(access, "root", NOW, "ada", "", ["admin"], kind=Kind.service)
        with pytest.raises(AccessStoreError, match="has a user 'bob' already, and so has the warehouse") as error:
            move_from_warehouse(access, NOW)
        assert error.value.where == access.url
        assert (len(all_of(access, store.people)), all_of(access, store.copied), warehouse.dropped) == (3, [], [])
    assert [note[2] for note in notes] == ["user.add"] * 3
