"""Hours that one holder has whole, over drawn streams and reckoned one by one: what the streams say of the hour."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from billing.close.hours import SHIFT_HOURS, _hear
from billing.close.stage import Stage
from tests.billing.hand_ledger import HOUR_MS
from tests.billing.test_close_statements import CLOSE, truth
from tests.billing.test_energy_statements import FIRST, NOW, Row, answer, covers, drawn_stream, literal, push, said
from tests.billing.test_metering import rates, used
from warehouse.store import Store, read_sql

UNITS = 4
TUPLES = "Array(Tuple(UInt64, UInt32, UInt64, UInt64))"
WORDS = {
    "settled": ("tenant", "project", "cost_center", "reported_tenant", "reported_project", "queue", "workload_id",
                "allocation_id", "partition_id", "partition_profile", "estimated"),
    "states": ("cluster", "node", "device_id", "model", "pool"),
}  # fmt: skip
COLUMNS = {
    "stretches": "since Int64, until Int64, state_id UInt64, device_units UInt32, available Bool, "
    f"active {TUPLES}, held_units UInt64, is_whole Bool",
    "settled": "claim UInt64, payer UInt64, stream_3 UInt64, stream_4 UInt64, start_ms Int64, end_ms Int64, "
    "unmapped Bool, preemptible Bool, priority Nullable(Int64), "
    + ", ".join(f"{name} LowCardinality(String)" for name in WORDS["settled"]),
    "states": "state_id UInt64, product UInt64, units UInt32, "
    + ", ".join(f"{name} LowCardinality(String)" for name in WORDS["states"]),
    "prices": "product UInt64, payer UInt64, subject UInt64 MATERIALIZED cityHash64(product, payer), from_ms Int64, "
    "to_ms Int64, sku LowCardinality(String), list_unit_price Decimal(18, 9), contracted_unit_price Decimal(18, 9), "
    "currency LowCardinality(String)",
}
OTHERS = {
    "not available": {"available": False, "is_whole": False},
    "less than all of it": {"active": [(1, UNITS - 1, 9, 0)], "held_units": UNITS - 1, "is_whole": False},
    "two holders": {"active": [(1, UNITS - 1, 9, 0), (2, 1, 9, 0)], "is_whole": False},
    "part of the hour": {"until": NOW + HOUR_MS - 1},
    "the end of it": {"since": NOW + 1},
}
"""Stretches that nobody has whole for an hour, each of a state of its own."""


@pytest.mark.parametrize("uniform", [0, 600_000], ids=["any", "equally long"])
def test_who_has_a_device_whole_for_an_hour_used_what_its_streams_say(
    books: Store, stage: Stage, dice: Random, uniform: int
) -> None:
    devices = range(1, 25)
    drawn = {(f"g{number}", "", who): drawn_stream(dice, uniform)
             for number in devices for who in ("x", "") if truth(dice, 0.6)}  # fmt: skip
    streams = {stream: samples for stream, samples in drawn.items() if samples}
    dirty = sorted(dice.sample(range(3), dice.choice([1, 2, 3, 3])))
    claims = make_facts(books, stage, uniform, streams, len(devices), dirty)
    stretches = [stretch for number in devices for stretch in drawn_stretches(dice, number)]
    others = [{**stretch(number, NOW, NOW + HOUR_MS, 1), **other} for number, other in enumerate(OTHERS.values(), 101)]
    insert(books, stage, "stretches", [*stretches, *others])
    prices = [price for one in stretches if truth(dice, 0.7) for price in [drawn_price(dice, one)]]
    insert(books, stage, "prices", prices)
    run(books, stage, uniform)

    found = {(row["state_id"], row["hour"] - FIRST): row for row in answer(books, stage, "whole")}
    assert len(found) == len(answer(books, stage, "whole"))
    for number in devices:
        its = [streams.get((f"g{number}", "", who), []) for who in ("x", "")]
        for hour in range(3):
            begin, stop = hour * HOUR_MS, (hour + 1) * HOUR_MS
            within = [one for one in stretches if one["state_id"] == number
                      and one["since"] <= NOW + begin and NOW + stop <= one["until"]]  # fmt: skip
            each = [(used([(rates(some), UNITS, UNITS)], begin, stop), said(covers(some), begin, stop)) for some in its]
            twice = [all(of_use[0] for of_use, _ in each), *(
                all(one[name] for _, one in each) for name in ("power_ms", "memory_ms"))]  # fmt: skip
            row = found.pop((number, hour), None)
            if not within or hour not in dirty:
                assert row is None, (number, hour)
                continue
            if row is None:
                assert any(twice) or not all(in_order(some, hour) for some in its), (number, hour)
                continue
            assert not any(twice), (number, hour)
            assert row["covered_ms"] == sum(of_use[0] for of_use, _ in each)
            assert row["used"] == sum(of_use[1] for of_use, _ in each) * UNITS
            for name in ("power_ms", "nanojoules", "memory_ms", "byte_ms"):
                assert row[name] == sum(one[name] for _, one in each), (name, number, hour)
            assert (row["claim"], row["units"], row["since"]) == (number, UNITS, within[0]["since"])
            for name in (*WORDS["settled"], "unmapped", "preemptible", "priority"):
                assert row[name] == claims[number][name], name
            assert {name: row[name] for name in WORDS["states"]} == place_of(number)
            of_it = next((one for one in prices if one["payer"] == number
                          and one["from_ms"] <= NOW + begin < one["to_ms"]), None)  # fmt: skip
            shown = [row[name] for name in ("sku", "currency", "list_unit_price", "contracted_unit_price")]
            assert shown == ([of_it["sku"], "EUR", 2 * number, number] if of_it else ["", "", None, None])
    assert not found  # of the others

    whole = {(row["state_id"], row["hour"]) for row in answer(books, stage, "whole")}
    rest = [
        (one["state_id"], FIRST + hour, max(one["since"], NOW + hour * HOUR_MS),
         min(one["until"], NOW + (hour + 1) * HOUR_MS), one["held_units"], len(one["active"]), one["available"])
        for one in [*stretches, *others] for hour in dirty
        if one["since"] < NOW + (hour + 1) * HOUR_MS and one["until"] > NOW + hour * HOUR_MS
        and (one["state_id"], FIRST + hour) not in whole
    ]  # fmt: skip
    assert sorted(rest) == sorted(
        (row["state_id"], row["hour"], row["start_ms"], row["end_ms"], row["held_units"], len(row["active"]),
         row["available"]) for row in answer(books, stage, "segments")
    )  # fmt: skip


def stretch(state: int, since: int, until: int, claim: int) -> Row:
    return {"since": since, "until": until, "state_id": state, "device_units": UNITS, "available": True,
            "active": [(claim, UNITS, 9, 0)], "held_units": UNITS, "is_whole": True}  # fmt: skip


def drawn_stretches(dice: Random, number: int) -> list[Row]:
    """A device's three hours, cut at whole hours and between them, some of it absent."""
    inner = [HOUR_MS // 2, HOUR_MS, HOUR_MS + 1, 2 * HOUR_MS]
    cuts = [0, *sorted(dice.sample(inner, dice.choice([0, 0, 1, 2]))), 3 * HOUR_MS]
    return [stretch(number, NOW + begin, NOW + stop, number) for begin, stop in pairwise(cuts) if truth(dice, 0.9)]


def drawn_price(dice: Random, one: Row) -> Row:
    """From a stretch's beginning to its end: every change of a price is a cut."""
    number = one["state_id"]
    return {"product": 7, "payer": number, "from_ms": one["since"], "to_ms": one["until"],
            "sku": f"s{dice.randrange(9)}", "list_unit_price": 2 * number, "contracted_unit_price": number,
            "currency": "EUR"}  # fmt: skip


def in_order(samples: Sequence[Row], hour: int) -> bool:
    """Whether no sample of an hour and the next begins before the one before it ends."""
    its = [one for one in samples if hour * HOUR_MS < one["at"] <= (hour + 2) * HOUR_MS]
    return all(one["at"] - one["length"] >= before["at"] for before, one in pairwise(its))


def make_facts(
    books: Store, stage: Stage, uniform: int, streams: dict[Any, Sequence[Row]], devices: int, dirty: Sequence[int]
) -> dict[int, Row]:
    """The samples in batch 1, and for each device a claim and a state. Answers the claims."""
    books.command(f"CREATE TABLE {stage('batches')} (batch UInt64) ENGINE = Set SETTINGS persistent = 0")
    books.command(f"INSERT INTO {stage('batches')} SELECT 1 AS batch")
    push(books, streams, 1)
    books.command(f"CREATE TABLE {stage('dirty')} (hour UInt32) ENGINE = Memory")
    books.insert(stage("dirty"), pa.table({"hour": pa.array([FIRST + hour for hour in dirty], pa.uint32())}))
    for name, columns in COLUMNS.items():
        books.command(f"CREATE TABLE {stage(name)} ({columns}) ENGINE = Memory")
    hashes = [f"cityHash64('c', 'g{number}', '', '{who}')" for number in range(1, devices + 1) for who in ("x", "")]
    (row,) = books.rows(f"SELECT [{', '.join(hashes)}] AS found")
    pairs = list(zip(row["found"][::2], row["found"][1::2], strict=True))
    insert(books, stage, "states", [
        {"state_id": number, "product": 7, "units": UNITS, **place_of(number)}
        for number in [*range(1, devices + 1), *range(101, 101 + len(OTHERS))]
    ])  # fmt: skip
    claims = [
        {"claim": number, "payer": number, "stream_3": pair[0], "stream_4": pair[1],
         "start_ms": NOW - 1, "end_ms": NOW + 9 * HOUR_MS, "unmapped": number % 3 == 0, "preemptible": number % 2 == 0,
         "priority": number, **{name: f"{name} {number}" for name in WORDS["settled"]}}
        for number, pair in enumerate(pairs, 1)
    ]  # fmt: skip
    insert(books, stage, "settled", claims)
    return {one["claim"]: one for one in claims}


def place_of(number: int) -> Row:
    texts = {name: f"{name} {number}" for name in WORDS["states"]}
    return {**texts, "cluster": "c", "device_id": f"g{number}"}


def insert(books: Store, stage: Stage, name: str, rows: Sequence[Row]) -> None:
    if rows:
        cells = ", ".join(f"({', '.join(literal(one) for one in row.values())})" for row in rows)
        books.command(f"INSERT INTO {stage(name)} ({', '.join(rows[0])}) VALUES {cells}")


def run(books: Store, stage: Stage, uniform: int) -> None:
    tables = ("batches", "dirty", "reported", "stretches", "said", "whole", "segments", "settled", "states", "prices")
    params = {**stage.names(*tables), "first": FIRST, "last": FIRST + 3, "from_ms": NOW, "to_ms": NOW + 4 * HOUR_MS,
              "uniform_ms": uniform}  # fmt: skip
    _hear(books, params, [NOW, NOW + 4 * HOUR_MS])
    for name in ("said", "whole"):
        books.command(read_sql(CLOSE, name, made="AS"), params)
    books.command(read_sql(CLOSE, "segments"), {**params, "shift_hours": SHIFT_HOURS})
