"""Stores for tests: each kind is made once in a run, by the first worker that needs it, and then copied."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import clickhouse_connect
import pytest

from warehouse.chain import CHAINED, adopt
from warehouse.cluster import SHARDED, cluster_name
from warehouse.store import EmbeddedStore, ServerStore, Store, identifier, migrate, open_store


def fresh_store(folder: Path | str, *fill: Callable[[Store], None]) -> Store:
    """A new embedded store in `folder`, with the schema and what each of `fill` writes. A process holds one at a time.

    fill: functions of a module, which write nothing but the store: they run once in a run of the tests.
    """
    shutil.copytree(_made(fill), folder, symlinks=True, dirs_exist_ok=True)
    return open_store(f"chdb://{folder}")


def emptied(store: Store) -> Store:
    """Empties a store, so that it equals a fresh one: no rows, no files beside the engine's."""
    assert isinstance(store, EmbeddedStore)
    assert store.path is not None
    store._beside.close()
    for path in store.path.iterdir():
        if path.is_dir() and path.name != "engine":
            shutil.rmtree(path)
        elif path.is_file() and path.name != "holder":
            path.unlink()
    tables = {
        row["name"]: row["total_rows"]
        for row in store.rows("SELECT name, total_rows FROM system.tables WHERE database = currentDatabase()")
    }
    changed = set(tables) ^ _tables()
    assert not changed, f"a test changed the schema ({changed}): it needs a store of its own (own_store)"
    chains_went_on = any(tables[name] for name in CHAINED)
    for name, rows in tables.items():
        if rows and name != "schema_migrations" and (name != "chain_heads" or chains_went_on):
            store.command(f"TRUNCATE TABLE {name}")
    if chains_went_on:
        adopt(store)
    return store


def refilled(store: Store, fill: Callable[[Store], None]) -> Store:
    """Empties and fills a store: `fill` runs once per store, and its rows are copied from then on. For rows that no
    view reads, and a `fill` that writes no files beside the engine's."""
    emptied(store)
    kept = identifier(f"kept_{fill.__qualname__}")
    names = "SELECT name FROM system.tables WHERE database = {database:String} AND total_rows > 0"
    copies = [row["name"] for row in store.rows(names, {"database": kept})]
    for name in copies:
        store.command(f"TRUNCATE TABLE {name}")
        store.command(f"INSERT INTO {name} SELECT * FROM {kept}.{name}")
    if not copies:
        fill(store)
        store.command(f"CREATE DATABASE {kept}")
        for row in store.rows(names, {"database": store.database}):
            store.command(f"CREATE TABLE {kept}.{row['name']} AS {row['name']}")
            store.command(f"INSERT INTO {kept}.{row['name']} SELECT * FROM {row['name']}")
    return store


@functools.cache
def _tables() -> set[str]:
    """Names of all tables, from the engine's files with their definitions."""
    return {path.stem for path in _made(()).glob("engine/store/*/*/*.sql")}


class Reused:
    """One store for test after test, emptied for each; closed before a test that opens others."""

    def __init__(self) -> None:
        self._store: Store | None = None

    def store(self) -> Store:
        if self._store is None:
            self._store = fresh_store(tempfile.mkdtemp(prefix="gpuledger-tests-", dir=_made(()).parent))
        return emptied(self._store)

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


CLUSTER_URL, CLUSTER = "GPULEDGER_TEST_CLUSTER_URL", "GPULEDGER_TEST_CLUSTER"
"""Where make cluster-test says which nodes there are, and what they are called together. The database is ours."""


class ReusedOnCluster:
    """The same on a ClickHouse cluster that somebody has: in a database of its own, which is dropped in the end."""

    def __init__(self) -> None:
        self._store: ServerStore | None = None

    def store(self) -> Store:
        if self._store is None:
            parts = urlsplit(os.environ[CLUSTER_URL])
            opened = open_store(parts._replace(path=f"/gpuledger_test_{uuid.uuid4().hex[:12]}").geturl())
            assert isinstance(opened, ServerStore)
            migrate(opened, os.environ[CLUSTER])
            self._store = opened
        store = self._store
        sql = "SELECT name FROM system.tables WHERE database = currentDatabase() AND total_rows > 0 ORDER BY name"
        filled = {str(row["name"]) for row in store.rows(sql)} - {"schema_migrations"}
        if store.in_shards:
            for name in SHARDED:
                store.command(f"TRUNCATE TABLE {store.altered(name)} SETTINGS alter_sync = 2")
            filled -= {each for name in SHARDED for each in (name, store.stored_as(name))}
        for name in sorted(filled):
            store.command(f"TRUNCATE TABLE {identifier(name)} SETTINGS alter_sync = 2")
        adopt(store)
        return store

    def close(self) -> None:
        """Between two tests there is nothing to close: other stores may be open beside this one."""

    def drop(self) -> None:
        if self._store is not None:
            on = f"ON CLUSTER {cluster_name(self._store.cluster)}"
            self._store.command(f"DROP DATABASE IF EXISTS {self._store.database} {on} SYNC")
            self._store.close()
            self._store = None


class Engine:
    """Keeps the embedded engine running between openings of one store, which saves 0.2 CPU seconds each, until a test
    ends or opens another store. For tests that run many commands in this process, and no other process on the store."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._client: Any = None

    def opened(self, path: Path) -> None:
        if path != self._path:
            self._path, self._client = path, clickhouse_connect.get_client(interface="chdb", path=str(path / "engine"))

    def gives_way_to(self, path: Path | None) -> None:
        if self._client is not None and path != self._path:
            self._client.close()
            self._path = self._client = None


@contextlib.contextmanager
def engine_that_stays() -> Iterator[None]:
    engine, opens = Engine(), EmbeddedStore.__init__

    def stays(store: EmbeddedStore, url: str, path: Path | None, *more: Any, **named: Any) -> None:
        engine.gives_way_to(path)
        opens(store, url, path, *more, **named)
        if path is not None:
            engine.opened(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EmbeddedStore, "__init__", stays)
        yield
    engine.gives_way_to(None)


KEPT = "GPULEDGER_TESTS_STORES"
"""Names the folder of a run's stores; the first process makes it and passes it to its workers."""


def keep_stores() -> None:
    if KEPT not in os.environ:
        os.environ[KEPT] = folder = tempfile.mkdtemp(prefix="gpuledger-tests-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)


@functools.cache
def _made(fill: tuple[Callable[[Store], None], ...]) -> Path:
    keep_stores()
    kept = Path(os.environ[KEPT]) / "+".join(("empty", *(f"{one.__module__}.{one.__qualname__}" for one in fill)))
    kept.mkdir(exist_ok=True)
    with (kept / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (kept / "store").exists():
            making = kept / "making"
            shutil.rmtree(making, ignore_errors=True)
            if fill:
                shutil.copytree(_made(fill[:-1]), making, symlinks=True)
            with open_store(f"chdb://{making}") as store:
                fill[-1](store) if fill else migrate(store)
            making.rename(kept / "store")
    return kept / "store"
