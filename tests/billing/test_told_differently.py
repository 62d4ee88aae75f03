"""Rows of one key that differ: every page, view and book takes the same one of them, whichever came first."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from billing.close import close
from billing.insights.now import asking, held
from ingest import ingest_tables
from tests.conftest import REPO
from tests.draws import dice_of, seldom
from tests.stores import fresh_store
from warehouse.records import DEVICES, EVENTS, RecordType
from warehouse.store import Store

START = datetime(2026, 10, 5, 12, tzinfo=UTC)
END = START + timedelta(hours=2)
Told = list[tuple[RecordType, dict[str, Any]]]


def drawn(dice: Random) -> Told:
    """Of each device and each allocation two or three rows of one instant, which differ in anything."""
    told: Told = []
    for number in range(15):
        device = {"ts": START - timedelta(days=1), "cluster": "c", "device_id": f"d{number}"}
        for _ in range(dice.randint(2, 3)):
            row = {"node": dice.choice("nm"), "model": dice.choice(["A", "H"]), "units": dice.choice([1, 4, 7]),
                   "pool": dice.choice("pq"), "state": dice.choice(["available"] * 4 + ["unavailable"])}  # fmt: skip
            told.append((DEVICES, device | row))
        event = {"ts": START, "cluster": "c", "source": "s", "allocation_id": f"a{number}"}
        for name in dice.choice([["started"], ["started", "resized"], ["submitted"]]):
            for _ in range(dice.randint(2, 3)):
                row = {"event": name, "device_id": "" if name == "submitted" else f"d{number}",
                       "tenant": dice.choice(["bio", "nlp", "vision"]), "project": dice.choice("xy"), "units": 1,
                       "queue": dice.choice("uv"), "workload_id": dice.choice("wz"), "gpus": dice.choice([1, 2]),
                       "priority": dice.choice([1, 2]), "reason": dice.choice(["full", "quota"])}  # fmt: skip
                told.append((EVENTS, event | row))
    return told


def shown(path: Path, told: Told) -> tuple[Any, ...]:
    """What the books have, what Now shows, what views say."""
    with fresh_store(path) as store:
        for record, row in told:
            ingest_tables(store, record, "a", [pa.Table.from_pylist([row])], now=END)
        close(store, until=END, now=END)
        now = {row["allocation_id"]: (row["tenant"], row["project"], row["queue"], row["workload_id"], row["devices"])
               for row in held(store, asking(store), END, 1000)[0]}  # fmt: skip
        return books(store), now, *(store.rows(one) for one in VIEWS)


VIEWS = (
    "SELECT * FROM v_devices ORDER BY device_id",
    "SELECT * FROM devices_at(at = '2026-10-05 13:00:00') ORDER BY device_id",
    "SELECT * FROM holders(at = '2026-10-05 13:00:00') ORDER BY allocation_id",
    "SELECT * FROM waiters(at = '2026-10-05 13:00:00') ORDER BY allocation_id",
    "SELECT * FROM v_queue_wait ORDER BY allocation_id",
)


def books(store: Store) -> dict[str, tuple[Any, ...]]:
    rows = store.rows(
        "SELECT DISTINCT allocation_id, device_id, tenant, project, queue, workload_id, node, model, pool, "
        "device_units FROM ledger WHERE allocation_id != ''"
    )
    return {row["allocation_id"]: tuple(row.values()) for row in rows}


@pytest.mark.parametrize("turn", [pytest.param(n, marks=seldom(2, "two that differ", n)) for n in range(2)])
def test_which_of_two_that_differ_counts_does_not_depend_on_which_came_first(tmp_path: Path, turn: int) -> None:
    """As found: a device whose row was put right had 1 unit in v_devices and 4 in the books, or 4 and 4, by which came
    first; Now had an allocation twice."""
    dice = dice_of(None)
    told = drawn(dice)
    first = shown(tmp_path / "first", told)
    again = shown(tmp_path / "again", dice.sample(told, len(told)))
    assert again == first
    booked, now, devices, at, holders, *_ = first
    assert booked
    of_device = {row["device_id"]: (row["node"], row["model"], row["pool"], row["units"]) for row in devices}
    assert {row["device_id"]: (row["node"], row["model"], row["pool"], row["units"]) for row in at} == of_device
    assert len({row["allocation_id"] for row in holders}) == len(holders)
    for name, (_, device, tenant, project, queue, workload, *rest) in booked.items():
        assert of_device[device] == tuple(rest), name
        assert now[name][:4] == (tenant, project, queue, workload), name
        (held_so,) = [row for row in holders if row["allocation_id"] == name]
        assert (held_so["tenant"], held_so["project"], held_so["queue"], held_so["workload_id"]) == now[name][:4]


KEYS = {"ts", "cluster", "device_id", "allocation_id", "event", "source"}
QUOTA = (REPO / "alerts" / "rules" / "quota.sql").read_text(encoding="utf-8")
OVER = {"at": END, "by": "queue", "quotas": json.dumps({"u": 0, "v": 0}), "judge": "over", "grace_seconds": 0}


def told_of_all(dice: Random) -> dict[RecordType, list[dict[str, Any]]]:
    """A row of each device and each event, with a value or none in each column."""
    device = [
        {"ts": START - timedelta(days=1), "cluster": "c", "device_id": f"d{number}", "node": dice.choice("nm"),
         "model": dice.choice("AH"), "units": dice.choice([1, 4]), "pool": dice.choice("pq"),
         "vendor": dice.choice(["nvidia", "amd", ""]), "memory_bytes": dice.choice([None, 0, 1, 2]),
         "state": dice.choice(["available", "available", "unavailable", "removed"])}
        for number in range(60)
    ]  # fmt: skip
    event = [
        {"ts": START, "cluster": "c", "source": "s", "allocation_id": f"a{number}", "event": name,
         "device_id": "" if name == "submitted" else f"d{number}", "tenant": dice.choice(["bio", "nlp", ""]),
         "project": dice.choice("xy"), "queue": dice.choice("uv"), "workload_id": dice.choice("wz"),
         "node": dice.choice(["", "n"]), "units": dice.choice([None, 1, 2]), "gpus": dice.choice([None, 0.0, 1.0]),
         "priority": dice.choice([None, 0, 1]), "preemptible": dice.choice([None, True, False]),
         "reason": dice.choice(["full", "quota"]), "message": dice.choice("gh"),
         "partition_profile": dice.choice(["", "1g"])}
        for number in range(60)
        for name in [["started", "resized", "submitted"], ["started"], ["submitted"]][number % 3]
    ]  # fmt: skip
    return {DEVICES: device, EVENTS: event}


def test_rows_that_differ_in_one_column_are_shown_alike_in_any_order(tmp_path: Path) -> None:
    """As found: v_devices had the vendor and memory that came first, holders the GPUs, quotas the size of a device."""
    dice = dice_of(None)
    first, answers = told_of_all(dice), []
    batches = []
    for _ in range(3):
        others = told_of_all(dice)
        pairs = {record: zip(rows, others[record], strict=True) for record, rows in first.items()}
        batches.append(
            {record: [one_column_of(other, row, dice) for row, other in two] for record, two in pairs.items()}
        )
    for number, order in enumerate(dice.sample(list(itertools.permutations(batches)), 3)):
        with fresh_store(tmp_path / str(number)) as store:
            for batch in order:
                for record, rows in batch.items():
                    ingest_tables(store, record, "a", [pa.Table.from_pylist(rows)], now=END)
            answers.append([*(store.rows(one) for one in VIEWS), store.rows(f"{QUOTA} ORDER BY ALL", OVER)])
    assert answers[1] == answers[0]
    assert answers[2] == answers[0]


def one_column_of(other: dict[str, Any], row: dict[str, Any], dice: Random) -> dict[str, Any]:
    name = dice.choice([name for name in row if name not in KEYS])
    return {**row, name: other[name]}
