"""Stores for tests: one of each kind is made once in a process, and copied for each test."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from warehouse.chain import CHAINED, adopt
from warehouse.store import EmbeddedStore, Store, migrate, open_store


def fresh_store(folder: Path | str, *fill: Callable[[Store], None]) -> Store:
    """A new embedded store in `folder`, with the schema and what each of `fill` writes. A process holds one at a time.

    fill: functions of a module, which write nothing but the store: they run once in a process.
    """
    shutil.copytree(_made(fill), folder, symlinks=True, dirs_exist_ok=True)
    return open_store(f"chdb://{folder}")


def emptied(store: Store) -> Store:
    """The same as a fresh one: no row, nothing beside the engine."""
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


@functools.cache
def _tables() -> set[str]:
    """The engine keeps how each is made in a file of its name."""
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


@functools.cache
def _made(fill: tuple[Callable[[Store], None], ...]) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="gpuledger-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if not fill:
        with open_store(f"chdb://{folder}/store") as store:
            migrate(store)
    else:
        shutil.copytree(_made(fill[:-1]), folder / "store", symlinks=True)
        with open_store(f"chdb://{folder}/store") as store:
            fill[-1](store)
    return folder / "store"
