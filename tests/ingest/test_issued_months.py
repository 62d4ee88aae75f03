"""Rows of today that reach back into an issued month: found, and really of consequence; and in random histories nothing
that a push says moves that month, whatever was there before."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from billing.invoicing.invoices import issue_all
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from ingest.batches import assemble
from ingest.issued_months import GuardResult, IssuedGuard
from ingest.judge import Judge, Judged
from ingest.normalise import normalise
from ingest.permissions import ALL, Permissions
from ingest.pieces import table_pieces
from ingest.senders import Sender
from ingest.write import write
from tests.billing.facts import devices, job, put_all
from tests.billing.hand_ledger import at
from tests.draws import seldom
from tests.ingest import issued_fleet
from tests.ingest.issued_fleet import LIVE, NOW, forged
from tests.stores import fresh_store
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

ANYBODY = Sender("anybody", Permissions(ALL, ALL, ALL, ALL, ALL, inventory=True))
LEDGER = "SELECT * EXCEPT (run, estimated) FROM ledger WHERE hour >= '2026-10-01' AND hour < '2026-11-01' ORDER BY ALL"
TABLES = (
    *("samples", "events", "devices", "touched_hours", "stream_hours", "ingest_batches", "ledger_entries"),
    *("closed_hours", "close_runs", "rate_cards", "invoices", "allocations", "refused_claims", "held_rows", "audit"),
)
SEEDS: list[int | None] = [int(seed) for seed in os.environ.get("GPULEDGER_HISTORIES", "").split()] or [None]
CLUSTERS = int(os.environ.get("GPULEDGER_CLUSTERS", "2"))
"""Seeds of random histories (without, a new one each run; what fails says which), and how many of each are in one
store, a cluster each; ad hoc many more."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("store")) as opened:
        yield opened


@pytest.fixture
def empty(store: Store) -> Store:
    for table in TABLES:
        store.command(f"TRUNCATE TABLE {store.altered(table)}")
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


@seldom(8, "without the look")
def test_without_the_look_into_the_past_rows_of_today_would_change_it(
    empty: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the tests of forged pushes can fail: each of these moves something of its own."""
    monkeypatch.setattr(IssuedGuard, "find_doubtful", lambda *_: GuardResult({}))
    issued_fleet.issued_fleet(empty)
    before, judge = ledger(empty), Judge(empty)
    for one in forged():
        if all(row["ts"] >= LIVE for row in one.rows):
            assert not pushed(empty, judge, one.record, one.rows).held, one.what
    close(empty, NOW - timedelta(hours=2), NOW, takes_back=False)
    seen = [[(row["device_id"], row["allocation_id"]) for row in rows] for rows in (before, ledger(empty))]
    moved = {pair for pair in {*seen[0], *seen[1]} if seen[0].count(pair) != seen[1].count(pair)}
    assert moved >= {
        ("g4", "silent"), ("g5", "lost"), ("g6", "unseen"), ("m1", "part"), ("g7", "noded"), ("g10", "noded-on"),
        ("g1b", "backwards"),
    }  # fmt: skip


class History:
    """Random facts of two nodes with three devices each, one of them in slices, before October was issued and after.

    In a cluster of its own, with the same names as in any other.
    """

    def __init__(self, cluster: str) -> None:
        self.cluster, self.random = cluster, random.Random(cluster)
        self.devices = [f"d{number}" for number in range(6)]
        self.jobs = [f"j{number}" for number in range(7)]

    def instant(self, first: datetime, last: datetime) -> datetime:
        return first + timedelta(minutes=15 * self.random.randrange(int((last - first).total_seconds()) // 900))

    def node(self, device: str) -> str:
        return f"n{int(device[1:]) // 3}"

    def is_sliced(self, device: str) -> bool:
        return device in ("d2", "d5")

    def inventory(self) -> list[dict[str, Any]]:
        return [self.state(name, at("2026-10-02 00:00"), "available", 7 if self.is_sliced(name) else 1)
                for name in self.devices]  # fmt: skip

    def state(self, name: str, ts: datetime, state: str, units: int, node: str = "") -> dict[str, Any]:
        about = {"cluster": self.cluster, "node": node or self.node(name), "device_id": name, "model": "H100"}
        return {"ts": ts, **about, "state": state, "units": units}

    def device(self, ts: datetime) -> list[dict[str, Any]]:
        name = self.random.choice([*self.devices, "a-new-one"])
        node = self.random.choice(["n0", "n1"]) if name == "a-new-one" or self.random.random() < 0.1 else ""
        state = self.random.choice(["available", "available", "unavailable", "removed"])
        units = self.random.choice([7, 7, 4] if self.is_sliced(name) else [1, 1, 2])
        return [self.state(name, ts, state, units, node)]

    def event(self, ts: datetime) -> list[dict[str, Any]]:
        """One event; of a gang's devices a row each."""
        job = self.random.choice(self.jobs)
        row: dict[str, Any] = {"ts": ts, "cluster": self.cluster, "allocation_id": job, "workload_id": job}
        row["event"] = self.random.choice(
            ["started", "started", "finished", "preempted", "resized", "suspended", "resumed", "submitted"]
        )
        if self.random.random() < 0.8:
            row["tenant"] = self.random.choice(["chem", "phys"])
        if self.random.random() < 0.3:
            row["preemptible"] = self.random.random() < 0.5
        if self.random.random() < 0.1:
            row["workload_id"] = ""
        if row["event"] in ("started", "resized") or (row["event"] == "resumed" and self.random.random() < 0.5):
            if self.random.random() < 0.4:
                gpus = self.random.choice([0.25, 0.5, 1.0, 1.0, 2.0])
                return [row | {"node": self.random.choice(["n0", "n1"]), "gpus": gpus}]
            gang = self.random.sample(self.devices, self.random.choice([1, 1, 2]))
            return [row | {"node": self.node(name), "device_id": name} | self.share(name) for name in gang]
        return [row]

    def share(self, device: str) -> dict[str, Any]:
        if not self.is_sliced(device):
            return {"units": self.random.choice([None, 1]), "gpus": 1.0}
        return {"units": self.random.choice([None, 1, 2, 3, 4]), "partition_id": self.random.choice(["", "p1", "p2"])}

    def sample(self, ts: datetime) -> list[dict[str, Any]]:
        device = self.random.choice(self.devices)
        workload = self.random.choice(["", *self.jobs])
        row = issued_fleet.sample(device, self.node(device), ts, workload, 0.5) | {"cluster": self.cluster}
        return [row | {"partition_id": self.random.choice(["", "p1", "p2"])} if self.is_sliced(device) else row]

    def facts(self, first: datetime, last: datetime) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        for record, make, most in (("events", self.event, 4), ("samples", self.sample, 4), ("devices", self.device, 2)):
            count = self.random.randint(1, most)
            yield record, [row for _ in range(count) for row in make(self.instant(first, last))]


@pytest.mark.skipif("GPULEDGER_HISTORIES" not in os.environ, reason="GPULEDGER_HISTORIES gives seeds; they take long")
@pytest.mark.parametrize("seed", SEEDS)
def test_nor_does_one_that_the_receiver_lets_through(
    empty: Store, seed: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second fence by itself: what the close takes back."""
    monkeypatch.setattr(IssuedGuard, "find_doubtful", lambda *_: GuardResult({}))
    test_no_random_push_moves_an_issued_month(empty, seed)


@seldom(6, "no random push moves an issued month")
@pytest.mark.parametrize("seed", SEEDS)
def test_no_random_push_moves_an_issued_month(empty: Store, seed: int | None) -> None:
    """What the books say of it with the pushes is what they said without."""
    seed = random.randrange(10**6) if seed is None else seed
    histories = {f"{seed}-{number}": History(f"{seed}-{number}") for number in range(CLUSTERS)}
    rates = [
        {"sku": "h", "price_per_gpu_hour": "2.00"},
        {"sku": "p", "match": {"preemptible": True}, "price_per_gpu_hour": "1"},
    ]
    apply_rate_card(empty, parse_rate_card({"currency": "EUR", "rates": rates}), "me", "", at("2026-10-01 00:00"))
    reported: dict[str, list[dict[str, Any]]] = {"devices": [], "events": [], "samples": []}
    for cluster, history in histories.items():
        reported["devices"] += history.inventory()
        reported["events"] += issued_fleet.started(
            "sure", "bio", "d3", "n1", "2026-10-02 06:00", "2026-10-02 18:00", cluster
        )
        for _ in range(4):
            for record, rows in history.facts(at("2026-10-03 00:00"), at("2026-11-10 00:00")):
                reported[record] += rows
    put_all(empty, reported)
    close(empty, at("2026-11-10 00:00"), NOW)
    assert issue_all(empty, parse_period("2026-10", "UTC"), at("2026-11-10 00:00"))
    before, judge = ledger(empty), Judge(empty)
    said: dict[str, list[Any]] = {cluster: [] for cluster in histories}
    moved: dict[str, str] = {}
    for _ in range(3):
        for cluster, history in histories.items():
            for _ in range(3):
                first = history.random.choice(
                    [at("2026-10-03 00:00"), at("2026-11-01 00:00"), at("2026-11-10 00:00"), LIVE]
                )
                for record, rows in history.facts(first, NOW):
                    judged = pushed(empty, judge, record, rows)
                    if cluster not in moved and len(judged.clean.table):
                        said[cluster].append((record, dict(judged.held), judged.clean.table.to_pylist()))
        close(empty, NOW - timedelta(hours=1), NOW)
        after = ledger(empty)
        for cluster in histories.keys() - moved.keys():
            was, is_ = ([row for row in rows if row["cluster"] == cluster] for rows in (before, after))
            if was != is_:
                gone, come = [row for row in was if row not in is_], [row for row in is_ if row not in was]
                moved[cluster] = f"{gone[:2]} -> {come[:2]} by {said[cluster]}"
    if moved:
        pytest.fail("\n\n".join(f"{cluster}: {what}" for cluster, what in sorted(moved.items())))
    assert sum(len(rows) for rows in said.values()) > CLUSTERS, "and most of it is stored"


@seldom(6, "a session of an issued month that")
@pytest.mark.parametrize(
    ("keys", "held"),
    [
        ({"minimum_seconds": 0}, {}),
        ({"minimum_seconds": 600}, {"issued_month": 1}),
        ({"minimum_seconds": [{"seconds": 600, "effective_to": "2026-11"}]}, {"issued_month": 1}),
        ({"minimum_seconds": 60}, {"issued_month": 1}),
        ({"minimum_seconds": 10}, {}),
        ({"discounts": [{"name": "d", "per": "session", "measure": "hours", "tiers": [{"from": "1", "percent": "5"}]}]},
         {"issued_month": 1}),
    ],
    ids=["no minimum", "shorter", "a dated one", "the usual one", "longer", "a discount by length"],
)  # fmt: skip
def test_a_session_of_an_issued_month_that_goes_on_is_held_where_its_length_was_charged(
    empty: Store, keys: dict[str, Any], held: dict[str, int]
) -> None:
    rates = [{"sku": "h", "price_per_gpu_hour": "2.00"}]
    card = {"currency": "EUR", "rates": rates, **({"minimum_seconds": 0} | keys)}
    apply_rate_card(empty, parse_rate_card(card), "me", "", at("2026-10-01 00:00"))
    put_all(
        empty,
        {
            "devices": devices("2026-10-02 00:00", "d1"),
            "events": job("short", "chem", "d1", "2026-10-06 02:00", "2026-10-06 02:00:30"),
        },
    )
    close(empty, at("2026-11-10 00:00"), NOW)
    assert issue_all(empty, parse_period("2026-10", "UTC"), at("2026-11-10 00:00"))
    (resumed, _) = job("short", "chem", "d1", "2026-11-15 02:00", "2026-11-15 03:00")
    judged = pushed(empty, Judge(empty), "events", [resumed | {"event": "resumed"}])
    assert dict(judged.held) == held
    submitted = {**resumed, "event": "submitted", "device_id": "", "ts": at("2026-11-16 00:00")}
    assert dict(pushed(empty, Judge(empty), "events", [submitted]).held) == {}


@seldom(6, "a later holder that falls silent moves")
def test_a_later_holder_that_falls_silent_moves_nothing_of_what_began_before(empty: Store) -> None:
    """Where it was put is decided by who holds what beside it, whenever that is told."""
    apply_rate_card(
        empty, parse_rate_card({"currency": "EUR", "rates": [{"sku": "h", "price_per_gpu_hour": "2.00"}]}), "me", "",
        at("2026-10-01 00:00"),
    )  # fmt: skip
    old = {
        "allocation_id": "old",
        "workload_id": "old",
        "tenant": "chem",
        "event": "started",
        "node": "n1",
        "gpus": 1.0,
    }
    (later, _) = job("later", "phys", "d1", "2026-11-03 00:00", "2026-11-04 00:00")
    seen = issued_fleet.sample("d1", "n1", at("2026-11-03 06:00"), "later", 0.5)
    put_all(
        empty,
        {
            "devices": devices("2026-10-02 00:00", "d1", "d2"),
            "events": [old | {"ts": at("2026-10-06 02:00")}, later],
            "samples": [seen | {"cluster": ""}],
        },
    )
    close(empty, at("2026-11-10 00:00"), NOW)
    assert issue_all(empty, parse_period("2026-10", "UTC"), at("2026-11-10 00:00"))
    before, judge = ledger(empty), Judge(empty)
    assert {row["device_id"] for row in before if row["allocation_id"] == "old"} == {"d2"}
    foreign = issued_fleet.sample("d1", "n1", at("2026-11-08 00:00"), "other", 0.5) | {"cluster": ""}
    assert dict(pushed(empty, judge, "samples", [foreign]).held) == {"issued_month": 1}
    own = issued_fleet.sample("d1", "n1", at("2026-11-07 12:00"), "later", 0.5) | {"cluster": ""}
    assert dict(pushed(empty, judge, "samples", [own]).held) == {}
    assert dict(pushed(empty, judge, "samples", [foreign | {"ts": at("2026-11-08 01:00")}]).held) == {}
    close(empty, NOW - timedelta(hours=2), NOW)
    assert ledger(empty) == before
