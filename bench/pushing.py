"""`python -m bench.pushing`: many small pushes, as a fleet's nodes send them, through the receiver into a store.

250 clients, each with its own connection, push a tick of 8 GPUs and 80 pods at a time: the next when the last is
acknowledged. The receiver is `gpuledger server` in a process of its own with an embedded store. Beside it in the same
run, as a measure of the machine: as many rows in bodies of 8,000.
"""

from __future__ import annotations

import http.client
import json
import random
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from bench.draining import GPUS, PODS, TICK, cpu_seconds, serving, tick, warm_up
from ingest.wire import PATH
from warehouse.store import open_store

SMALL, LARGE = GPUS + PODS, 8_000
GOAL_CPU, GOAL_ROWS, GOAL_P99 = 20.0, 60_000, 1.0
"""CPU seconds for a million rows; rows a second of the server's CPU time; seconds until 99 % are acknowledged."""


@dataclass(frozen=True)
class Pushed:
    """rows: in the store.   cpu: the server's seconds.   waits: sorted, of each push until it was acknowledged."""

    rows: int
    seconds: float
    cpu: float
    waits: Sequence[float]

    def p(self, share: float) -> float:
        return self.waits[min(len(self.waits) - 1, int(len(self.waits) * share))]

    def line(self, name: str) -> str:
        million = self.cpu / self.rows * 1e6
        return (
            f"  {name:24}{million:7.1f} CPU s a million rows {self.rows / self.cpu:10,.0f} rows/CPU s"
            f" {self.rows / self.seconds:10,.0f} rows/s,"
            f" acknowledged in {self.p(0.5):.2f} s (p50), {self.p(0.99):.2f} s (p99)"
        )


def main(
    rows: Annotated[int, typer.Option(min=10_000, help="How many, in each of the two ways.")] = 1_000_000,
    clients: Annotated[int, typer.Option(min=1, help="That push small bodies at the same time.")] = 250,
) -> None:
    """What small pushes cost. Exit 1: more than 20 CPU s a million rows, or 1 % wait longer than a second."""
    with tempfile.TemporaryDirectory(prefix="pushing-") as scratch:
        small = _pushed(Path(scratch) / "small", clients, SMALL, rows)
        large = _pushed(Path(scratch) / "large", 4, LARGE, rows)
    print(f"{small.rows:,} and {large.rows:,} samples")
    print(small.line(f"{clients} clients, {SMALL} rows"))
    print(large.line(f"4 clients, {LARGE:,} rows"))
    print(f"  ratio of CPU a row      {small.cpu / small.rows / (large.cpu / large.rows):7.2f}")
    missed = small.cpu / small.rows * 1e6 > GOAL_CPU or small.rows / small.cpu < GOAL_ROWS or small.p(0.99) > GOAL_P99
    if missed:
        raise typer.Exit(1)


def _bodies(client: int, rows: int, count: int) -> list[bytes]:
    chance = random.Random(client)
    ticks_each = max(1, rows // SMALL)
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(hours=1) - count * ticks_each * TICK
    made = []
    for number in range(count):
        ticks = range(number * ticks_each, (number + 1) * ticks_each)
        lines = [
            json.dumps(
                {
                    **row,
                    "ts": row["ts"].isoformat(),
                    "node": f"gpu-{client}",
                    "device_id": f"{client}-{row['device_id']}",
                }
            )
            for at in ticks
            for row in tick(start + at * TICK, chance)
        ]
        made.append("\n".join(lines).encode())
    return made


def _pushed(folder: Path, clients: int, body_rows: int, rows: int) -> Pushed:
    each = max(1, rows // body_rows // clients)
    bodies = [_bodies(client, body_rows, each) for client in range(clients)]
    lines = sum(body.count(b"\n") + 1 for of in bodies for body in of)
    tokens = [f"a token of client {client:04d}" for client in range(clients)]
    folder.mkdir(parents=True)
    senders = [
        {"name": f"node-{number}", "token": token, "records": "all", "clusters": "all", "nodes": "all", "back": "all"}
        for number, token in enumerate(tokens)
    ]
    (folder / "tokens.yaml").write_text(json.dumps({"senders": senders}), encoding="utf-8")
    with serving(folder / "store", folder / "tokens.yaml") as (url, pid):
        warm_up(url, tokens[0])
        waits: list[float] = []
        threads = [
            threading.Thread(target=_push, args=(url, tokens[client], bodies[client], waits))
            for client in range(clients)
        ]
        before, began = cpu_seconds(pid), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        pushed = Pushed(lines, time.perf_counter() - began, cpu_seconds(pid) - before, sorted(waits))
    with open_store(f"chdb://{folder}/store") as store:
        assert store.value("SELECT count() FROM samples FINAL") == lines
    return pushed


def _push(url: str, token: str, bodies: Sequence[bytes], waits: list[float]) -> None:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 0, timeout=120)
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-ndjson"}
    for body in bodies:
        began = time.perf_counter()
        while True:
            connection.request("POST", f"{PATH}/samples", body, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status == 200:
                break
            assert answer.status in (429, 503), text
            time.sleep(0.2)
        waits.append(time.perf_counter() - began)
    connection.close()


if __name__ == "__main__":
    typer.run(main)
