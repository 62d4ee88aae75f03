"""Bodies that are looked at together fare as each would alone."""

from __future__ import annotations

import asyncio
import functools
import gzip
import json
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from ingest import receive
from ingest.micro_batches import MicroBatches
from tests.draws import drawn, keep_seed
from tests.ingest.receiving import receiving, tokens_file
from tests.stores import emptied, fresh_store
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
SENDERS = """\
senders:
- {name: all, token: a token of all of them, records: all, clusters: all, nodes: all, back: all}
- {name: one, token: a token of node one, records: all, clusters: [c1], nodes: [n1], services: [chat]}
- {name: two, token: a token of node two, records: all, clusters: [c1], nodes: ["n2", "gpu-*"], past: refused}
- {name: few, token: a token of samples alone, records: [samples], clusters: [c1, c2], nodes: all}
"""
TOKENS = ["a token of all of them", "a token of node one", "a token of node two", "a token of samples alone", "wrong"]
CONTENT = "SELECT * EXCEPT (batch{more}) FROM {table} FINAL ORDER BY ALL"


def row(record: str, chance: random.Random) -> dict[str, Any]:
    """Mostly good; each column may say something else."""
    at = NOW - timedelta(milliseconds=chance.randrange(100_000_000))
    made: dict[str, Any] = {"ts": at.isoformat(), "interval_seconds": 10, "cluster": "c1"}
    if record == "samples":
        made |= {"node": chance.choice(["n1", "n2", "gpu-7"]), "device_id": f"GPU-{chance.randrange(4)}", "state": "ok"}
        made |= {"utilization": round(chance.random(), 3), "workload_id": chance.choice(["", "w1", "w2"])}
    else:
        made |= {"service": chance.choice(["chat", "chat/a", "vision"]), "metric": "requests_per_second", "value": 3.5}
    if chance.random() < 0.1:
        name = chance.choice(list(made))
        odd = ["", None, 7, "0.5", True, "x" * 9, [1], {"a": 1}, -1, 1e300, "2026-11-05T11:00:00", "c2", "é\u0000"]
        made[name] = chance.choice(odd)
    if chance.random() < 0.05:
        made[chance.choice(["tensor_active", "unknown_column", "power_watts"])] = chance.choice([0.5, "0.25", None, 5])
    if chance.random() < 0.03:
        made["ts"] = (NOW + chance.choice([-1, 1]) * timedelta(days=chance.choice([1, 40]))).isoformat()
    return made


def push(chance: random.Random) -> tuple[str, dict[str, str], bytes]:
    record = chance.choice(["samples", "samples", "samples", "service_levels", "nothing"])
    rows = [row(record, chance) for _ in range(chance.choice([0, 1, 3, 20]))]
    lines = [json.dumps(one).encode() for one in rows]
    if chance.random() < 0.1:
        lines.insert(0, chance.choice([b"not JSON", b"", b"[1]", b'{"ts": 1, "ts": 2}', b"\xff", b"null"]))
    headers = {"Authorization": f"Bearer {chance.choice(TOKENS)}", "Content-Type": "application/x-ndjson"}
    body = b"\n".join(lines)
    if chance.random() < 0.1:
        body = body.replace(b"\n", chance.choice([b"\r\n", b"\n\n", b"\r"])) + b"\n"
    if chance.random() < 0.2:
        headers["Content-Type"], body = "application/json", json.dumps(rows).encode()
    if chance.random() < 0.3:
        headers["Content-Encoding"], body = "gzip", gzip.compress(body)
        if chance.random() < 0.2:
            body = body[:-3]
    return f"/api/v1/records/{record}", headers, body


def fates(
    folder: Path, pushes: Sequence[tuple[str, dict[str, str], bytes]], at_once: int
) -> tuple[list[tuple[int, Any]], list[list[dict[str, Any]]]]:
    """What was answered, and what is stored then, but for how it was divided into batches."""
    folder.mkdir()
    with fresh_store(folder / "store") as store:
        with (
            receiving(store, tokens_file(folder, SENDERS), now=lambda: NOW) as served,
            httpx.Client(base_url=served.url, timeout=120, limits=httpx.Limits(max_connections=None)) as client,
            ThreadPoolExecutor(at_once) as pool,
        ):
            answers = list(pool.map(lambda one: client.post(one[0], headers=one[1], content=one[2]), pushes))
        outcomes = [(answer.status_code, answer.json()) for answer in answers]
        stored = [
            store.rows(CONTENT.format(table=table, more=f", {when}"))
            for table, when in {
                "samples": "ingested_on, told_otherwise",
                "service_levels": "ingested_on",
                "quarantine": "quarantined_at",
            }.items()
        ]
        return outcomes, stored


@pytest.mark.parametrize("number", drawn(range(2), 0.5))
def test_bodies_that_come_together_fare_as_each_alone(tmp_path: Path, number: int) -> None:
    seed = f"{keep_seed()} of pushes {number}"
    chance = random.Random(seed)
    pushes = list({one[2]: one for one in (push(chance) for _ in range(60))}.values())
    alone, together = fates(tmp_path / "alone", pushes, 1), fates(tmp_path / "together", pushes, 30)
    assert together[0] == alone[0], seed
    for one, other in zip(together[1], alone[1], strict=True):
        assert [row for row in one if row not in other] == [row for row in other if row not in one], seed
        assert len(one) == len(other), seed
    assert {status for status, _ in alone[0]} >= {200, 401}, seed


def test_small_bodies_that_become_large_are_read_as_few_at_a_time_as_large_ones(
    shared_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emptied(shared_store)
    reading, most, together, lock = 0, 0, [], threading.Lock()
    honest = receive.decompressed

    def watched(body: bytes, encoding: str, limit: int) -> bytes:
        nonlocal reading, most
        large = limit == receive.TEXT_BYTES
        with lock:
            reading += large
            most = max(most, reading)
        try:
            time.sleep(0.02 if large else 0)
            text = honest(body, encoding, limit)
        finally:
            with lock:
                reading -= large
        if not large:
            together.append(len(text))
        return text

    monkeypatch.setattr(receive, "decompressed", watched)
    first = {"interval_seconds": 1, "cluster": "c1", "node": "n1", "state": "ok", "utilization": 0.5}

    def body(number: int) -> bytes:
        rows = 3 if number % 2 else 3000
        ticks = (NOW - timedelta(seconds=1 + tick) for tick in range(rows))
        lines = (json.dumps({"ts": at.isoformat(), "device_id": f"GPU-{number}", **first}) for at in ticks)
        return gzip.compress("\n".join(lines).encode())

    bodies = [body(number) for number in range(24)]
    assert max(map(len, bodies)) <= receive.SMALL_BYTES
    with (
        receiving(shared_store, tokens_file(tmp_path, SENDERS), now=lambda: NOW) as served,
        httpx.Client(base_url=served.url, timeout=120, limits=httpx.Limits(max_connections=None)) as client,
        ThreadPoolExecutor(24) as pool,
    ):
        headers = {"Authorization": f"Bearer {TOKENS[0]}", "Content-Encoding": "gzip"}
        headers["Content-Type"] = "application/x-ndjson"
        asked = functools.partial(client.post, "/api/v1/records/samples", headers=headers)
        answers = list(pool.map(lambda one: asked(content=one), bodies))
    assert {answer.status_code for answer in answers} == {200}
    assert shared_store.value("SELECT count() FROM samples FINAL") == 12 * 3003
    assert 0 < most <= receive.AT_ONCE
    assert len(together) == 12
    assert max(together) <= receive.SMALL_TEXT_BYTES


def test_a_piece_that_fails_is_the_only_one() -> None:
    lots = []

    def work(asked: Sequence[int]) -> list[int | BaseException]:
        lots.append(list(asked))
        return [ValueError(one) if one % 3 == 0 else one * one for one in asked]

    async def main() -> list[int | BaseException]:
        together = MicroBatches(work, 4, asyncio.Semaphore(1))
        return await asyncio.gather(*(together.done(one) for one in range(10)), return_exceptions=True)

    found = asyncio.run(main())
    assert lots == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [one if isinstance(one, int) else "bad" for one in found] == [
        "bad",
        1,
        4,
        "bad",
        16,
        25,
        "bad",
        49,
        64,
        "bad",
    ]


def test_a_lot_that_fails_tells_each_and_the_next_is_done() -> None:
    def work(asked: Sequence[int]) -> list[int | BaseException]:
        if 0 in asked:
            raise RuntimeError("the thread fell over")
        return list(asked)

    async def main() -> tuple[list[int | BaseException], int]:
        together = MicroBatches(work, 2, asyncio.Semaphore(1))
        gone = asyncio.create_task(together.done(5))
        await asyncio.sleep(0)
        gone.cancel()  # whoever asked hung up
        first = await asyncio.gather(*(together.done(one) for one in (0, 1, 2)), return_exceptions=True)
        return first, await together.done(3)

    first, later = asyncio.run(main())
    assert [str(one) for one in first] == ["the thread fell over", "1", "2"]
    assert later == 3
