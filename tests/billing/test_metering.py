"""How the time that somebody holds was used: of drawn streams of samples and holdings, reckoned instant by instant."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from billing.close.hours import _hear, _meter, _stream_sums
from billing.close.stage import Stage
from tests.billing.hand_ledger import HOUR_MS
from tests.billing.test_close_statements import CLOSE, truth
from tests.billing.test_energy_statements import (
    FIRST,
    NOW,
    Row,
    answer,
    drawn_stream,
    make,
    push,
    stretches,
)
from warehouse.store import Store, read_sql

TABLES = (
    "batches",
    "dirty",
    "segments",
    "holdings",
    "ways",
    "reported",
    "spilled",
    "metered",
    "sample_hours",
    "doubted",
    "several",
    "states",
    "whole",
)
WAYS = [("p", "x"), ("p", ""), ("", "x"), ("", "")]
"""Partition and workload of the streams that may speak, the best first."""


def rates(samples: Sequence[Row]) -> list[tuple[int, int, int]]:
    """From, to, billionths, of the usable ones: each from its interval's start, or the sample before it if that is
    later."""
    found, before = [], -(10**9)
    for one in samples:
        if one["state"] in ("ok", "idle"):
            found.append((max(before, one["at"] - one["length"]), one["at"], round((one["utilization"] or 0) * 10**9)))
        before = one["at"]
    return found


def told_twice(dice: Random, samples: Sequence[Row], uniform: int) -> list[Row]:
    """With further records of some instants; what counts comes first: the usable, highest, longest."""
    again = [one | {"utilization": dice.choice([None, 0.25, 1.0]), "state": dice.choice(["ok", "stale"]),
                    "length": uniform or dice.choice([one["length"], 1, 3_600_000])}
             for one in samples if truth(dice, 0.1)]  # fmt: skip
    return sorted([*samples, *again], key=lambda one: (
        one["at"], one["state"] not in ("ok", "idle"),
        -(one["utilization"] or 0.0) if one["state"] in ("ok", "idle") else 0, -one["length"]))  # fmt: skip


def used(levels: Sequence[tuple[list[tuple[int, int, int]], int, int]], begin: int, stop: int) -> tuple[int, Fraction]:
    """Covered ms, and the part of what is held that was used, in billionths x ms; at each instant the best level that
    speaks. Of each level: covers, scale, cap."""
    cut = [[(max(since, begin), min(to, stop), rate) for since, to, rate in some if since < stop and to > begin]
           for some, _, _ in levels]  # fmt: skip
    edges = sorted({at for some in cut for since, to, _ in some for at in (since, to)})
    covered, whole = 0, Fraction(0)
    for since, to in pairwise(edges):
        for some, (_, scale, cap) in zip(cut, levels, strict=True):
            speaks = [rate for first, last, rate in some if first <= since < last]
            if speaks:
                covered += to - since
                whole += Fraction((to - since) * min(speaks[0] * scale, cap * 10**9), cap)
                break
    return covered, whole


@pytest.mark.parametrize("uniform", [0, 600_000], ids=["any", "equally long"])
def test_a_holding_is_used_as_the_best_stream_says_at_each_instant(
    books: Store, stage: Stage, dice: Random, uniform: int
) -> None:
    devices = [f"g{number}" for number in range(12)]
    streams = {(device, *way): drawn_stream(dice, uniform) for device in devices for way in WAYS if truth(dice)}
    streams = {stream: told_twice(dice, samples, uniform) for stream, samples in streams.items() if samples}
    keys = [f"cityHash64('c', '{device}', '{part}', '{who}')" for device in devices for part, who in WAYS]
    (row,) = books.rows(f"SELECT [{', '.join(keys)}] AS found")
    hash_of = dict(zip([(device, *way) for device in devices for way in WAYS], row["found"], strict=True))
    names = stage.names(*TABLES)
    books.command(f"CREATE TABLE {stage('batches')} (batch UInt64) ENGINE = Set SETTINGS persistent = 0")
    books.command(f"INSERT INTO {stage('batches')} SELECT 1 AS batch")
    push(books, streams, 1)
    # Of some hours the sums tell of what is not read, too.
    spoiled = dice.sample(range(4), dice.choice([0, 1, 1, 2]))
    others = {stream: [one | {"at": one["at"] + 1, "utilization": 0.77} for one in samples[::2]
                       if (one["at"] - 1) // HOUR_MS in spoiled] for stream, samples in streams.items()}  # fmt: skip
    if any(others.values()):
        push(books, others, 2)
    books.command("CREATE TABLE {dirty:Identifier} (hour UInt32) ENGINE = Memory", names)
    books.insert(stage("dirty"), pa.table({"hour": pa.array([FIRST, FIRST + 1, FIRST + 2], pa.uint32())}))

    holdings, expected = [], {}
    for number, device in enumerate(devices, 1):
        its = [samples for stream, samples in streams.items() if stream[0] == device]
        for hour, begin, stop in stretches(dice, its):
            for _ in range(dice.choice([1, 1, 2])):
                claim = len(holdings) + 1
                chosen = sorted({3, *dice.sample([1, 2, 4, 4], dice.randint(0, 3))})
                of_part, of_device = dice.choice([(1, 1), (3, 3), (3, 2)]), dice.choice([(4, 4), (4, 3), (4, 1)])
                sizes = {1: of_part, 2: of_part, 3: of_device, 4: of_device}
                holdings.append({
                    "claim": claim, "hour": FIRST + hour, "start_ms": NOW + begin, "end_ms": NOW + stop,
                    "state_id": number, "units": 1, "subject": 1,
                    "ways": [(level, hash_of[device, *WAYS[level - 1]], *sizes[level]) for level in chosen],
                })  # fmt: skip
                levels = [(rates(streams.get((device, *WAYS[level - 1]), [])), *sizes[level]) for level in chosen]
                covered, whole = used(levels, begin, stop)
                if covered:
                    expected[claim, NOW + begin] = covered, whole
    make(books, stage, "holdings", holdings)
    params: dict[str, Any] = {**names, "first": FIRST, "last": FIRST + 3, "from_ms": NOW, "to_ms": NOW + 4 * HOUR_MS}
    parameters = {**params, "reported": stage("told")}
    books.command(read_sql(CLOSE, "reported", sums=_stream_sums(books)), parameters)
    incomplete = [row["hour"] - FIRST for row in books.rows(read_sql(CLOSE, "incomplete_hours"), parameters)]
    assert incomplete == sorted({(one["at"] - 1) // HOUR_MS for some in others.values() for one in some} - {4})
    cuts = sorted(dice.sample([1, 2, 3], dice.randint(0, 3)))
    bounds = [NOW + hours * HOUR_MS for hours in (0, *cuts, 4)]
    params |= {"uniform_ms": uniform}
    _hear(books, params, bounds)
    books.command(read_sql(CLOSE, "ways"), params)
    for name in ("segments", "states", "whole"):
        make(books, stage, name, [])
    _meter(books, stage, params)
    metered = [row for row in answer(books, stage, "metered") if row["levels"] == 1]
    found = {(row["claim"], row["start_ms"]): (row["covered_ms"], Fraction(row["used"], row["cap_of_level"]))
             for row in metered}  # fmt: skip
    assert len(found) == len(metered)
    for row in answer(books, stage, "several"):
        key = row["claim"], row["start_ms"]
        assert key not in found
        parts = (Fraction(row[f"used_of_{name}"], row[f"{name}_cap"]) for name in ("partition", "device"))
        found[key] = row["covered_ms"], sum(parts, Fraction(0))
    assert {key: one for key, one in found.items() if one[0]} == expected
