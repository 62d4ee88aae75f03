"""What a kill leaves in a store is dropped by who comes a day later; what somebody may be at work on is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import REPO
from tests.draws import seldom
from tests.patience import until
from tests.warehouse.engine_over_http import served
from warehouse.store import Store, migrate, open_store

STAGES = """
import os, sys, time
import pyarrow as pa
from warehouse.store import open_store
with open_store(sys.argv[1]) as store, store.staged(pa.table({"a": [1, 2]})) as name, store.scratch() as scratch:
    scratch.rows("SELECT 1")
    print(name, scratch.database, flush=True)
    time.sleep(600)
"""


def age(folder: Path, name: str, days: int) -> None:
    made = next(path for path in folder.glob("engine/**/*.sql") if path.stem == name)
    os.utime(made, (time.time() - 86_400 * days,) * 2)


def tables(store: Store) -> set[str]:
    return {row["name"] for row in store.rows("SELECT name FROM system.tables WHERE database = 'gpuledger'")}


@seldom(5, "what a killed process has staged")
def test_what_a_killed_process_has_staged_is_dropped_a_day_later_and_nothing_else(tmp_path: Path) -> None:
    tokens = "0123456789abcdef" * 2
    others = {  # how many days ago it was made, and whether it is dropped
        f"staged_{tokens}": (0, False), f"rates_{tokens[:16]}_old_prices": (2, True),
        f"focus_facts_{tokens}_1": (2, True), f"energy_grid_{tokens[:16]}": (2, True),
        "staged_rollout": (2, False), "rates_agreed": (2, False),
    }  # fmt: skip
    with served(tmp_path) as url, open_store(url) as store:
        migrate(store)
        process = subprocess.Popen([sys.executable, "-c", STAGES, url], cwd=REPO, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        staged, scratch = process.stdout.readline().split()
        process.send_signal(signal.SIGKILL)
        process.wait()
        until(lambda: store.value(f"SELECT count() AS n FROM {staged}") == 2)
        for name in others:
            store.command(f"CREATE TABLE {name} (a UInt8) ENGINE = Memory")
        made = tables(store)
        migrate(store)
        assert made == tables(store)
        in_scratch = store.rows(
            "SELECT name FROM system.tables WHERE database = {scratch:String}", {"scratch": scratch}
        )
        for name, days in {staged: 2, **{name: days for name, (days, _) in others.items()}}.items():
            age(tmp_path, name, days)
        migrate(store)
        assert made - tables(store) == {staged, *(name for name, (_, dropped) in others.items() if dropped)}
        databases = "SELECT count() AS n FROM system.databases WHERE name = {scratch:String}"
        assert len(in_scratch) > 10 and store.value(databases, {"scratch": scratch}) == 1
        for path in tmp_path.glob("engine/store/*/*/*.sql"):
            if path.resolve().parent in {link.resolve() for link in tmp_path.glob(f"engine/metadata/{scratch}")}:
                os.utime(path, (time.time() - 2 * 86_400,) * 2)
        migrate(store)
        assert store.value(databases, {"scratch": scratch}) == 0
