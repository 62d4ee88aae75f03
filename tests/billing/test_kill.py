"""A close or an ingest that is killed at any moment and run again gives the same books."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from billing.close import close
from billing.rates import apply_rate_card, parse_rate_card
from ingest import ingest_file
from tests.billing import fleets
from tests.billing.fleets import WORLDS, fleet
from tests.billing.test_books import contents, each, together
from tests.draws import keep_seed
from tests.stores import fresh_store
from warehouse.instants import of_epoch_ms
from warehouse.records import DEVICES, EVENTS, SAMPLES
from warehouse.store import Store, open_store

GPULEDGER = Path(sys.executable).with_name("gpuledger")
WORLD = WORLDS["Asia/Kolkata"]
KILLS = int(os.environ.get("GPULEDGER_KILLS", "0"))
"""Of the ingest, and again of the close. 0: one, of either."""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Forty fleets as Parquet."""
    facts = together(fleet(seed, WORLD) for seed in range(6000, 6040))
    for name, rows in zip(("devices", "events", "samples"), each(facts), strict=True):
        pq.write_table(fleets.table(rows), tmp_path / f"{name}.parquet", row_group_size=1000)
    return tmp_path


def killed(command: list[str], store: Path, after: float) -> bool:
    """Kills the command (-9) so many seconds after it has opened the store. Was it in time?"""
    process = subprocess.Popen([GPULEDGER, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 120
    while process.poll() is None and f"process {process.pid} " not in (store / "holder").read_text():
        assert time.monotonic() < deadline, f"gpuledger {' '.join(command)} does not open its store"
        time.sleep(0.01)
    try:
        output, _ = process.communicate(timeout=after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True
    assert process.returncode == 0, f"gpuledger {' '.join(command)}: {output.decode()}"
    return False


def run_killed(command: list[str], store: Path, seconds: float) -> None:
    """Runs the command and kills it after so many seconds; earlier, on the store as it was, where it ends before."""
    before = store.with_suffix(".before")
    for attempt in range(12):
        shutil.copytree(store, before, symlinks=True)
        if killed(command, store, seconds * 0.7**attempt):
            shutil.rmtree(before)
            return
        shutil.rmtree(store)
        before.rename(store)
    raise AssertionError(f"the kills of {command} came too late to say anything")


@pytest.mark.slow
def test_killing_ingest_and_close_and_running_them_again_gives_the_same_books(files: Path) -> None:
    random, until = Random(keep_seed()), WORLD.until
    steps: list[tuple[list[str], Callable[[Store], object]]] = [
        (["ingest", "samples", str(files / "samples.parquet")],
         lambda store: ingest_file(store, SAMPLES, files / "samples.parquet")),
        (["close", "--until", fleets.iso(until)], lambda store: close(store, of_epoch_ms(until))),
    ]  # fmt: skip
    with fresh_store(files / "undisturbed") as store:
        apply_rate_card(store, parse_rate_card(WORLD.rate_card), "me", "", datetime.now(UTC))
        for kind in (DEVICES, EVENTS):
            ingest_file(store, kind, files / f"{kind.name}.parquet")
    shutil.copytree(files / "undisturbed", files / "disturbed", symlinks=True)
    seconds = []
    with open_store(f"chdb://{files}/undisturbed") as store:
        for _, step in steps:
            began = time.monotonic()
            step(store)
            seconds.append(time.monotonic() - began)
        expected, samples = contents(store), store.value("SELECT count() AS n FROM samples FINAL")
    kills = [KILLS, KILLS] if KILLS else random.choice([[1, 0], [0, 1]])
    for (command, step), took, times in zip(steps, seconds, kills, strict=True):
        url = f"chdb://{files}/disturbed"
        for _ in range(times):
            run_killed([*command, "--store", url], files / "disturbed", took * random.uniform(0.05, 0.95))
        with open_store(url) as store:
            step(store)
    with open_store(url) as store:
        assert store.value("SELECT count() AS n FROM samples FINAL") == samples
        assert contents(store) == expected
    assert expected
