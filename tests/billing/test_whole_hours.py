"""Hours that one holder has whole, over drawn streams and reckoned one by one: what the streams say of the hour."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from billing.close.hours import _hear
from billing.close.stage import Stage
from tests.billing.hand_ledger import HOUR_MS
from tests.billing.test_close_statements import CLOSE, truth
from tests.billing.test_energy_statements import FIRST, NOW, Row, answer, covers, drawn_stream, literal, push, said
from tests.billing.test_metering import rates, used
from warehouse.store import Store, read_sql

UNITS = 4
TUPLES = "Array(Tuple(UInt64, UInt32, UInt64, UInt64))"
COLUMNS = {
    "segments": "hour UInt32, start_ms Int64, end_ms Int64, state_id UInt64, device_units UInt32, available Bool, "
    f"active {TUPLES}",
    "settled": "claim UInt64, payer UInt64, stream_3 UInt64, stream_4 UInt64, start_ms Int64, end_ms Int64",
    "states": "state_id UInt64, product UInt64",
}
OTHERS = {
    "not available": {"available": False},
    "less than all of it": {"active": [(1, UNITS - 1, 9, 0)]},
    "a partition": {"active": [(1, UNITS, 9, 5)]},
    "two holders": {"active": [(1, UNITS, 9, 0), (2, UNITS, 9, 0)]},
    "part of the hour": {"end_ms": NOW + HOUR_MS - 1},
    "the end of it": {"start_ms": NOW + 1},
}
"""Segments that nobody has whole for an hour."""


@pytest.mark.parametrize("uniform", [0, 600_000], ids=["any", "equally long"])
def test_who_has_a_device_whole_for_an_hour_used_what_its_streams_say(
    books: Store, stage: Stage, dice: Random, uniform: int
) -> None:
    devices = range(1, 25)
    drawn = {(f"g{number}", "", who): drawn_stream(dice, uniform)
             for number in devices for who in ("x", "") if truth(dice, 0.6)}  # fmt: skip
    streams = {stream: samples for stream, samples in drawn.items() if samples}
    make_facts(books, stage, uniform, streams, len(devices))
    segments = [{"hour": FIRST + hour, "start_ms": NOW + hour * HOUR_MS, "end_ms": NOW + (hour + 1) * HOUR_MS,
                 "state_id": number, "device_units": UNITS, "available": True, "active": [(number, UNITS, 9, 0)]}
                for number in devices for hour in range(3)]  # fmt: skip
    others = [{**segments[0], **other} for other in OTHERS.values()]
    insert(books, stage, "segments", [*segments, *others])
    run(books, stage, uniform)

    found = {(row["state_id"], row["hour"] - FIRST): row for row in answer(books, stage, "whole")}
    assert len(found) == len(answer(books, stage, "whole"))
    for number in devices:
        its = [streams.get((f"g{number}", "", who), []) for who in ("x", "")]
        for hour in range(3):
            begin, stop = hour * HOUR_MS, (hour + 1) * HOUR_MS
            each = [(used([(rates(some), UNITS, UNITS)], begin, stop), said(covers(some), begin, stop)) for some in its]
            twice = [all(of_use[0] for of_use, _ in each), *(
                all(one[name] for _, one in each) for name in ("power_ms", "memory_ms"))]  # fmt: skip
            row = found.get((number, hour))
            if row is None:
                assert any(twice) or not all(in_order(some, hour) for some in its), (number, hour)
                continue
            assert not any(twice), (number, hour)
            assert row["covered_ms"] == sum(of_use[0] for of_use, _ in each)
            assert row["used"] == sum(of_use[1] for of_use, _ in each) * UNITS
            for name in ("power_ms", "nanojoules", "memory_ms", "byte_ms"):
                assert row[name] == sum(one[name] for _, one in each), (name, number, hour)
            assert (row["claim"], row["units"], row["start_ms"]) == (number, UNITS, NOW + begin)


def in_order(samples: Sequence[Row], hour: int) -> bool:
    """Whether no sample of an hour and the next begins before the one before it ends."""
    its = [one for one in samples if hour * HOUR_MS < one["at"] <= (hour + 2) * HOUR_MS]
    return all(one["at"] - one["length"] >= before["at"] for before, one in pairwise(its))


def make_facts(books: Store, stage: Stage, uniform: int, streams: dict[Any, Sequence[Row]], devices: int) -> None:
    """The samples in batch 1, and for each device a claim, a state and the four hours that are looked at."""
    books.command(f"CREATE TABLE {stage('batches')} (batch UInt64) ENGINE = Set SETTINGS persistent = 0")
    books.command(f"INSERT INTO {stage('batches')} SELECT 1 AS batch")
    push(books, streams, 1)
    books.command(f"CREATE TABLE {stage('dirty')} (hour UInt32) ENGINE = Memory")
    books.insert(stage("dirty"), pa.table({"hour": pa.array(range(FIRST, FIRST + 3), pa.uint32())}))
    for name, columns in COLUMNS.items():
        books.command(f"CREATE TABLE {stage(name)} ({columns}) ENGINE = Memory")
    hashes = [f"cityHash64('c', 'g{number}', '', '{who}')" for number in range(1, devices + 1) for who in ("x", "")]
    (row,) = books.rows(f"SELECT [{', '.join(hashes)}] AS found")
    pairs = list(zip(row["found"][::2], row["found"][1::2], strict=True))
    insert(books, stage, "states", [{"state_id": number, "product": 7} for number in range(1, devices + 1)])
    insert(books, stage, "settled", [
        {"claim": number, "payer": 3, "stream_3": pair[0], "stream_4": pair[1],
         "start_ms": NOW - 1, "end_ms": NOW + 9 * HOUR_MS}
        for number, pair in enumerate(pairs, 1)
    ])  # fmt: skip


def insert(books: Store, stage: Stage, name: str, rows: Sequence[Row]) -> None:
    names = [column.split()[0] for column in COLUMNS[name].replace(TUPLES, "Tuples").split(", ")]
    cells = ", ".join(f"({', '.join(literal(row[one]) for one in names)})" for row in rows)
    books.command(f"INSERT INTO {stage(name)} VALUES {cells}")


def run(books: Store, stage: Stage, uniform: int) -> None:
    tables = ("batches", "dirty", "reported", "said", "whole", "segments", "settled", "states")
    params = {**stage.names(*tables), "first": FIRST, "last": FIRST + 3, "from_ms": NOW, "to_ms": NOW + 4 * HOUR_MS,
              "uniform_ms": uniform}  # fmt: skip
    _hear(books, params, [NOW, NOW + 4 * HOUR_MS])
    for name in ("said", "whole"):
        books.command(read_sql(CLOSE, name), params)
