"""`python -m bench.draining`: a day without the store, then drained: a node's spool through the receiver into a store.

The spool holds a day of 8 GPUs and 80 pods every 10 seconds, a batch a tick as the agent appends them. The receiver is
`gpuledger server` in a process of its own with an embedded store; this process delivers as an agent does, in order, one
group at a time, over HTTP. Beside it, as a measure of the machine: the same rows as one compressed file of JSON lines
through `gpuledger ingest`.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ingest.deliver import Deliverer
from ingest.spool import Spool
from ingest.targets import ReceiverTarget, Sender
from ingest.wire import pack
from warehouse.store import open_store

TOKEN = "a token of the bench"
GPUS, PODS, TICK = 8, 80, timedelta(seconds=10)
GOAL = 50_000
"""Samples a second."""
RUN = (
    "import typer; from gpuledger.commands import {0}; from gpuledger import cli; app = typer.Typer();"
    "app.callback()(lambda: None); {0}.register(app); cli.run(app, None)"
)


def main(hours: Annotated[float, typer.Option(min=0.1, help="How long the store was away.")] = 24) -> None:
    """Samples a second from a full spool into a store. Exit 1: fewer than 50,000."""
    with tempfile.TemporaryDirectory(prefix="draining-") as scratch:
        folder = Path(scratch)
        start = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=hours + 1)
        began = time.perf_counter()
        rows, size = _fill(folder, start, round(hours * 3600 / TICK.total_seconds()))
        filled = time.perf_counter() - began
        drained, cpu = _drain(folder, rows)
        ingested = _ingest(folder, rows)
        _compare(folder, rows)
    print(f"{rows:,} samples of {hours:g} h in {size / (1 << 20):.1f} MiB of spool, filled in {filled:.0f} s")
    print(f"  drained through the receiver  {drained:6.1f} s  {rows / drained:10,.0f} samples/s, {cpu:.1f} s of CPU")
    print(f"  the same as one file          {ingested:6.1f} s  {rows / ingested:10,.0f} samples/s")
    print(f"  ratio                         {drained / ingested:6.2f}")
    if rows / drained < GOAL:
        raise typer.Exit(1)


def tick(at: datetime, chance: random.Random) -> list[dict[str, Any]]:
    common = {"ts": at, "interval_seconds": TICK.total_seconds(), "cluster": "c1", "node": "gpu-1"}
    rows = []
    for number in range(GPUS + PODS):
        gpu = number % GPUS
        row = {**common, "device_id": f"GPU-{gpu:08x}-0000-4000-8000-000000000000"}
        value = round(chance.random(), 4)
        row |= {"state": "ok", "utilization": value, "memory_used_bytes": chance.randrange(80 << 30)}
        if number < GPUS:
            row |= {"utilization_source": "sm_active", "sm_active": value, "memory_total_bytes": 80 << 30}
            row |= {
                "power_watts": chance.randrange(700_000) / 1000,
                "energy_joules": chance.randrange(7_000_000) / 1000,
            }
            row |= {"tensor_active": round(value / 3, 4), "dram_active": round(value / 2, 4), "temperature_celsius": 60}
        else:
            row |= {
                "workload_id": f"{number:08x}-0000-4000-9000-000000000000",
                "utilization_source": "process_activity",
            }
        rows.append(row)
    return rows


def _fill(folder: Path, start: datetime, ticks: int) -> tuple[int, int]:
    """Spools the day, and writes it as a file."""
    chance = random.Random(3)
    rows = 0
    with (
        Spool(folder / "spool", max_bytes=8 << 30, synced=False) as spool,
        (folder / "day.jsonl.gz").open("wb") as file,
    ):
        for number in range(1, ticks + 1):
            at = start + number * TICK
            batch = pack("samples", tick(at, chance))
            spool.append([batch], at)
            file.write(batch.body)
            rows += batch.rows
        return rows, spool.state().bytes


def _drain(folder: Path, rows: int) -> tuple[float, float]:
    """Seconds by the wall, and CPU seconds of the server."""
    (folder / "token").write_text(TOKEN, encoding="utf-8")
    (folder / "tokens.yaml").write_text(
        f"senders: [{{name: bench, token: {TOKEN}, records: all, clusters: all, nodes: all, back: all}}]",
        encoding="utf-8",
    )
    with serving(folder / "drained", folder / "tokens.yaml") as (url, pid):
        with Spool(folder / "spool") as spool:
            deliverer = Deliverer(spool, ReceiverTarget(url, Sender("c1", "gpu-1"), folder / "token"))
            warm_up(url, TOKEN)
            before = cpu_seconds(pid)
            began = time.perf_counter()
            while spool.state().batches:
                time.sleep(deliverer.step(time.monotonic(), datetime.now(UTC)))
                if deliverer.state.problem:
                    raise RuntimeError(deliverer.state.problem)
            seconds = time.perf_counter() - began
            cpu = cpu_seconds(pid) - before
        assert deliverer.state.rows == rows
    return seconds, cpu


@contextmanager
def serving(store: Path, tokens: Path) -> Iterator[tuple[str, int]]:
    """A server's address and process."""
    arguments = ["--store", f"chdb://{store}", "--tokens", str(tokens), "--port", "0", "--no-dashboard"]
    command = [sys.executable, "-c", RUN.format("server"), "server", *arguments]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        yield next(line.split()[1].split("api/")[0] for line in server.stderr if "Records" in line), server.pid
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def warm_up(url: str, token: str) -> None:
    """One event first: what the server imports at its first insert is no part of a drain."""
    import urllib.request

    event = {"ts": "2026-10-01T00:00:00Z", "allocation_id": "a", "event": "submitted"}
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}api/v1/records/events", json.dumps(event).encode(), headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def _ingest(folder: Path, rows: int) -> float:
    arguments = ["samples", str(folder / "day.jsonl.gz"), "--store", f"chdb://{folder}/ingested", "--format", "json"]
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", RUN.format("ingest"), "ingest", *arguments], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    assert json.loads(done.stdout)["written"] == rows
    return seconds


def _compare(folder: Path, rows: int) -> None:
    """Both stores hold the same."""
    sql = "SELECT count() AS n, sum(cityHash64(* EXCEPT (batch, ingested_on))) AS content FROM samples FINAL"
    contents = []
    for name in ("drained", "ingested"):
        with open_store(f"chdb://{folder}/{name}") as store:
            contents += store.rows(sql)
    assert contents[0] == contents[1], contents
    assert contents[0]["n"] == rows


if __name__ == "__main__":
    typer.run(main)
