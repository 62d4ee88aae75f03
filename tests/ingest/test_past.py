"""Rows of today that reach back into an issued month: found, and really of consequence; and in random histories nothing
that a push says moves that month, whatever was there before."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from billing.invoicing.invoices import issue_all
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from ingest.batches import assemble
from ingest.judge import Judge, Judged
from ingest.normalise import normalise
from ingest.past import Looked, Past
from ingest.pieces import table_pieces
from ingest.place import ALL, Place
from ingest.senders import Sender
from ingest.write import write
from tests.billing.facts import put
from tests.billing.hand_ledger import at
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import LIVE, NOW, forged
from tests.stores import fresh_store
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

ANYBODY = Sender("anybody", Place(ALL, ALL, ALL, ALL, ALL, inventory=True))
LEDGER = "SELECT * EXCEPT (run, estimated) FROM ledger WHERE hour >= '2026-10-01' AND hour < '2026-11-01' ORDER BY ALL"
TABLES = (
    *("samples", "events", "devices", "touched_hours", "stream_hours", "ingest_batches", "ledger_entries"),
    *("closed_hours", "close_runs", "rate_cards", "invoices", "allocations", "refused_claims", "held_rows", "audit"),
)
HISTORIES = [int(seed) for seed in os.environ.get("GPULEDGER_HISTORIES", "3 10").split()]
"""Seeds of random histories; ad hoc many more."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def empty(store: Store) -> Store:
    for table in TABLES:
        store.command(f"TRUNCATE TABLE {table}")
    return store


def pushed(store: Store, judge: Judge, record: str, rows: list[dict[str, Any]]) -> Judged:
    """As the receiver does it."""
    kind = RECORD_TYPES[record]
    names = dict.fromkeys(name for row in rows for name in row)
    (piece,) = table_pieces(kind, "test", [pa.table({name: [row.get(name) for row in rows] for name in names})])
    judged = judge.judge(ANYBODY, kind, "push:anybody", normalise(kind, piece, NOW), NOW)
    if len(judged.clean.table):
        write(store, kind, "push:anybody", assemble(kind, "push:anybody", 1, [judged.clean]), "anybody")
    return judged


def ledger(store: Store) -> list[dict[str, Any]]:
    return store.rows(LEDGER)


def test_without_the_look_into_the_past_rows_of_today_would_change_it(
    empty: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tests of forged pushes can fail: each of these moves something of its own."""
    monkeypatch.setattr(Past, "look", lambda *_: Looked({}))
    issued_fleet.issued_fleet(empty)
    before, judge = ledger(empty), Judge(empty)
    for one in forged():
        if all(row["ts"] >= LIVE for row in one.rows):
            assert not pushed(empty, judge, one.record, one.rows).held, one.what
    close(empty, NOW - timedelta(hours=2), NOW)
    seen = [[(row["device_id"], row["allocation_id"]) for row in rows] for rows in (before, ledger(empty))]
    moved = {pair for pair in {*seen[0], *seen[1]} if seen[0].count(pair) != seen[1].count(pair)}
    assert moved >= {
        ("g4", "silent"), ("g5", "lost"), ("g6", "unseen"), ("m1", "part"), ("g7", "noded"), ("g10", "noded-on"),
        ("g1b", "backwards"),
    }  # fmt: skip


class History:
    """Random facts of two nodes with two devices each, before October was issued and after."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.devices = [f"d{number}" for number in range(4)]
        self.jobs = [f"j{number}" for number in range(7)]

    def instant(self, first: datetime, last: datetime) -> datetime:
        return first + timedelta(minutes=15 * self.random.randrange(int((last - first).total_seconds()) // 900))

    def node(self, device: str) -> str:
        return f"n{int(device[1:]) // 2}"

    def device(self, ts: datetime) -> dict[str, Any]:
        name = self.random.choice([*self.devices, "a-new-one"])
        node = self.node(name) if name != "a-new-one" else self.random.choice(["n0", "n1"])
        state = self.random.choice(["available", "available", "unavailable"])
        units = self.random.choice([1, 1, 2])
        return {
            "ts": ts,
            "cluster": "c",
            "node": node,
            "device_id": name,
            "model": "H100",
            "state": state,
            "units": units,
        }

    def event(self, ts: datetime) -> dict[str, Any]:
        job = self.random.choice(self.jobs)
        row: dict[str, Any] = {"ts": ts, "cluster": "c", "allocation_id": job, "workload_id": job}
        row["event"] = self.random.choice(
            ["started", "started", "finished", "resized", "suspended", "resumed", "submitted"]
        )
        if self.random.random() < 0.8:
            row["tenant"] = self.random.choice(["chem", "phys"])
        if self.random.random() < 0.3:
            row["preemptible"] = self.random.random() < 0.5
        if row["event"] in ("started", "resized") or (row["event"] == "resumed" and self.random.random() < 0.5):
            device = self.random.choice(self.devices)
            row |= {"node": self.node(device), "gpus": 1.0}
            if self.random.random() < 0.6:
                row |= {"device_id": device, "units": self.random.choice([None, 1])}
        return row

    def sample(self, ts: datetime) -> dict[str, Any]:
        device = self.random.choice(self.devices)
        workload = self.random.choice(["", *self.jobs])
        return issued_fleet.sample(device, self.node(device), ts, workload, 0.5) | {"cluster": "c"}

    def facts(self, first: datetime, last: datetime) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        for record, make, most in (("events", self.event, 4), ("samples", self.sample, 4), ("devices", self.device, 2)):
            yield record, [make(self.instant(first, last)) for _ in range(self.random.randint(1, most))]


@pytest.mark.parametrize("seed", HISTORIES)
def test_no_random_push_moves_an_issued_month(empty: Store, seed: int, tmp_path: Path) -> None:
    history = History(seed)
    rates = [
        {"sku": "h", "price_per_gpu_hour": "2.00"},
        {"sku": "p", "match": {"preemptible": True}, "price_per_gpu_hour": "1"},
    ]
    apply_rate_card(empty, parse_rate_card({"currency": "EUR", "rates": rates}), "me", "", at("2026-10-01 00:00"))
    inventory = [
        {"ts": at("2026-10-02 00:00"), "cluster": "c", "node": history.node(name), "device_id": name, "model": "H100",
         "state": "available", "units": 1} for name in history.devices
    ]  # fmt: skip
    put(empty, "devices", inventory)
    sure = issued_fleet.started("sure", "bio", "d3", "n1", "2026-10-02 06:00", "2026-10-02 18:00", "c")
    put(empty, "events", list(sure))
    for _ in range(4):
        for record, rows in history.facts(at("2026-10-03 00:00"), at("2026-11-10 00:00")):
            put(empty, record, rows)
    close(empty, at("2026-11-10 00:00"), NOW)
    assert issue_all(empty, parse_period("2026-10", "UTC"), at("2026-11-10 00:00"))
    before, judge = ledger(empty), Judge(empty)
    for _ in range(3):
        said = []
        for _ in range(3):
            first = history.random.choice(
                [at("2026-10-03 00:00"), at("2026-11-01 00:00"), at("2026-11-10 00:00"), LIVE]
            )
            for record, rows in history.facts(first, NOW):
                judged = pushed(empty, judge, record, rows)
                said.append((record, len(rows), dict(judged.held), judged.clean.table.to_pylist()))
        close(empty, NOW - timedelta(hours=1), NOW)
        after = ledger(empty)
        if after != before:
            gone = [row for row in before if row not in after][:3]
            come = [row for row in after if row not in before][:3]
            events = empty.rows("SELECT * EXCEPT batch FROM events ORDER BY ts")
            pytest.fail(f"moved: {gone} -> {come}\nby {said}\nof {events}")
