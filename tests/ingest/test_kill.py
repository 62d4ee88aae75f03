"""kill -9 at any moment, then the same command again: the same rows and touched hours as without the kill."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ingest import batches, ingest_file, ingest_tables
from tests.conftest import REPO
from tests.draws import keep_seed, seldom
from tests.ingest.rows import NOW, content, facts, samples, save
from tests.stores import fresh_store
from warehouse.records import SAMPLES
from warehouse.store import Store, open_store

KILLS = int(os.environ.get("GPULEDGER_KILLS", "2"))
"""Ad hoc many more."""
ROWS, BATCH_ROWS = 16_000, 2000
CHILD = """
import sys
from pathlib import Path
from ingest import batches, ingest_file
from tests.draws import keep_seed
from tests.ingest.rows import NOW
from warehouse.records import SAMPLES
from warehouse.store import open_store
batches.BATCH_ROWS = int(sys.argv[3])
with open_store(sys.argv[1]) as store:
    print("open", flush=True)
    ingest_file(store, SAMPLES, Path(sys.argv[2]), lambda rows: print(rows, flush=True), now=NOW)
"""


def ingest_and_kill(url: str, path: Path, batches: int, seconds: float) -> None:
    """So long after so many batches were acknowledged."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, url, str(path), str(BATCH_ROWS)],
        cwd=REPO,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout:
        for _ in range(batches + 1):
            process.stdout.readline()
        time.sleep(seconds)
        process.kill()
        process.wait()


@seldom(6, "an ingest that was killed and run")
@pytest.mark.slow
def test_an_ingest_that_was_killed_and_run_again_leaves_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(f"{keep_seed()} kills of an ingest")
    # Shuffled over days, so that a batch goes to many partitions and a kill can leave a part of it.
    table = samples(ROWS, devices=2)
    path = save(table.take(chance.sample(range(ROWS), ROWS)), tmp_path / "samples.csv")
    with path.open("a") as file:
        file.write("bad\n" * 10)
    monkeypatch.setattr(batches, "BATCH_ROWS", BATCH_ROWS)
    with fresh_store(tmp_path / "whole") as store:
        ingest_file(store, SAMPLES, path, now=NOW)
        whole, expected = content(store), facts(store)
    fresh_store(tmp_path / "killed").close()
    for _ in range(KILLS):
        ingest_and_kill(f"chdb://{tmp_path}/killed", path, chance.randrange(4), chance.uniform(0.0, 0.1))
    with open_store(f"chdb://{tmp_path}/killed") as store:
        ingest_file(store, SAMPLES, path, now=NOW)
        assert content(store) == whole
        assert facts(store) == expected
    assert whole[0]["n"] == ROWS


@pytest.mark.parametrize("lost", ["samples", "touched_hours"])
def test_a_part_that_the_engine_took_for_written_and_lost_is_written_anew(store: Store, lost: str) -> None:
    # The engine notes the token just before it moves the part into place; a kill between the two leaves this.
    ingest_tables(store, SAMPLES, "s", [samples(8000, devices=1)], now=NOW)
    before = facts(store)
    held = store.value("SELECT count() FROM samples")
    clock = "ts" if lost == "samples" else "hour"
    store.command(f"DELETE FROM {store.altered(lost)} WHERE toYYYYMMDD({clock}) = 20261002")
    if lost == "touched_hours":
        store.command(f"DELETE FROM {store.altered('touched_hours')} WHERE 1")
    store.command("TRUNCATE TABLE ingest_batches")

    ingest_tables(store, SAMPLES, "s", [samples(8000, devices=1)], now=NOW)

    assert facts(store) == before
    assert store.value("SELECT count() FROM samples") == held


def test_a_batch_that_was_not_acknowledged_is_not_written_twice(store: Store) -> None:
    for _ in range(3):
        ingest_tables(store, SAMPLES, "s", [samples(3000)], now=NOW)
        store.command("TRUNCATE TABLE ingest_batches")
    assert store.value("SELECT count() FROM samples") == 3000
    assert store.value("SELECT sum(rows) FROM touched_hours") == 3000
