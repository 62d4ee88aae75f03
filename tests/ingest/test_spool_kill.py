"""kill -9 of the agent at any moment (and of the receiver now and then): every sample that was spooled is in the store,
once. `GPULEDGER_KILLS=1000` kills more often."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPO
from tests.draws import keep_seed, seldom
from tests.ingest.receiving import receiver_process, tokens_file
from tests.ingest.spooling import SAMPLES, numbers
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_port
from tests.stores import fresh_store
from warehouse.store import open_store

KILLS = int(os.environ.get("GPULEDGER_KILLS", "12"))
RECEIVER_EVERY = 10
"""Kills of the agent to one of the receiver."""


class Agents:
    """Forks agents that have everything imported already."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.ingest.spooling"]
        self.process = subprocess.Popen(
            command, cwd=REPO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def start(self, folder: Path, url: str, ticks: int) -> int:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(folder, url, ticks, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def kill(self) -> None:
        """With the agents: one that a failed test left would keep the pipes open, and whoever reads them waiting."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


@pytest.fixture
def agents() -> Iterator[Agents]:
    made = Agents()
    yield made
    made.kill()


def answered(folder: Path) -> None:
    """Waits until the receiver takes another group."""
    path = folder / "answered"
    before = path.stat().st_size if path.exists() else 0
    until(lambda: path.exists() and path.stat().st_size > before, "nothing is delivered", every=0.001)


def ends(pid: int, missing: str) -> None:
    until(lambda: not Path(f"/proc/{pid}").exists(), missing, every=0.002)


@seldom(6, "every spooled sample is in the store")
@pytest.mark.slow
def test_every_spooled_sample_is_in_the_store_once_whatever_is_killed_when(agents: Agents, tmp_path: Path) -> None:
    chance = random.Random(f"{keep_seed()} kills of an agent")
    port = free_port()
    store, tokens, url = f"chdb://{tmp_path}/store", tokens_file(tmp_path), f"http://127.0.0.1:{port}"
    fresh_store(tmp_path / "store").close()
    receiver = receiver_process(store, tokens, port)
    try:
        for kill in range(1, KILLS + 1):
            agent = agents.start(tmp_path, url, 1_000_000)
            if kill % 3:
                # Between the receiver's answer and what the spool makes of it, or soon after.
                answered(tmp_path)
                time.sleep(chance.uniform(0, 0.005 if kill % 3 == 1 else 0.05))
            else:
                time.sleep(chance.uniform(0.005, 0.2))
            if kill % RECEIVER_EVERY == 0:
                answered(tmp_path)
                receiver.kill()
                receiver.communicate()
            os.kill(agent, signal.SIGKILL)
            ends(agent, "it was killed")
            if receiver.returncode is not None:
                receiver = receiver_process(store, tokens, port)
        ends(agents.start(tmp_path, url, 0), "the rest was not delivered")
        receiver.send_signal(signal.SIGTERM)
        receiver.communicate(timeout=PATIENCE_SECONDS)
    finally:
        receiver.kill()
        receiver.communicate()

    kept, tried = set(numbers(tmp_path / "kept")), set(numbers(tmp_path / "tried"))
    assert len(kept) > KILLS
    with open_store(store) as opened:
        rows = opened.rows("SELECT memory_used_bytes AS number, count() AS n FROM samples FINAL GROUP BY number")
        held = {row["number"]: row["n"] for row in rows}
        known = opened.value("SELECT count() FROM quarantine")
        keys = opened.value("SELECT uniqExact(cluster, device_id, partition_id, workload_id, ts) FROM samples")
    assert set(held.values()) == {1}
    assert {first + place for first in kept for place in range(SAMPLES)} <= set(held), "lost"
    assert set(held) <= {first + place for first in tried for place in range(SAMPLES)}, "made up"
    assert known == 0 and keys == len(held)
