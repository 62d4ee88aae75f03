"""Statements that attribute energy and memory, each over drawn tables and reckoned row by row: what streams say of a
stretch, which of them counts, whose it was."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

import billing.energy
from billing.close.hours import _stream_sums
from billing.close.stage import Stage
from tests.billing.hand_ledger import HOUR_MS
from tests.billing.test_close_statements import CLOSE, truth
from warehouse.store import Store, read_sql

ENERGY = str(Path(str(billing.energy.__file__)))
FIRST = 496_000
"""Hours since the epoch: one in 2026."""
NOW = FIRST * HOUR_MS
TIB, KILOWATTS = 2**41, 100_000.0
"""What is no reading any more: 2 TiB, 100 kW."""
WAYS = "Array(Tuple(UInt8, UInt64, Int64, Int64))"
ACTIVE = "Array(Tuple(UInt64, UInt32, UInt64, UInt64))"
TABLES = {
    "segments": "hour UInt32, start_ms Int64, end_ms Int64, state_id UInt64, device_units UInt32, available Bool, "
                f"held_units UInt64, active {ACTIVE}",
    "holdings": f"claim UInt64, hour UInt32, start_ms Int64, end_ms Int64, state_id UInt64, units UInt32, "
                f"subject UInt64, ways {WAYS}",
    "whole": "state_id UInt64, since Int64, hour UInt32, claim UInt64, units Int64, power_ms Int64, nanojoules Int64, "
             "memory_ms Int64, byte_ms Int64, cluster String, node String, device_id String, model String, "
             "pool String, device_units UInt32, tenant String, project String, queue String, workload_id String, "
             "allocation_id String, preemptible Bool, sku String",
    "states": "state_id UInt64, device UInt64, cluster String, node String, device_id String, model String, "
              "pool String, units UInt32",
    "measured": "state_id UInt64, claim UInt64, start_ms Int64, level Int64, stream UInt64, cap Int64, of_power Bool, "
                "is_unclear Bool, is_since_known Bool, power_ms Int64, nanojoules Int64, "
                "memory_ms Int64, byte_ms Int64, begins Int32, ends Int32",
    "metered": "claim UInt64, start_ms Int64, levels UInt64, cap_of_level Int64, covered_ms Int64, used Int64",
    "shares": "hour UInt32, start_ms Int64, state_id UInt64, claim UInt64, units Int64, subject UInt64, is_whole Bool, "
              "use_known Bool, micro_units Int128, memory_ms Int64, byte_ms Int64",
    "powers": "state_id UInt64, start_ms Int64, device UInt64, device_units Int64, measured_ms Int64, energy Int64, "
              "idle_energy Int64",
    "prices": "subject UInt64, from_ms Int64, to_ms Int64, price UInt64, sku String",
    "settled": "claim UInt64, tenant String, project String, queue String, workload_id String, allocation_id String, "
               "preemptible Bool, start_ms Int64, end_ms Int64",
}  # fmt: skip
"""Columns of the close's working tables that these statements read."""
WORDS = ("tenant", "project", "queue", "workload_id", "allocation_id")

Row = dict[str, Any]


def make(store: Store, stage: Stage, name: str, rows: Sequence[Row]) -> None:
    """A working table with these rows."""
    columns = TABLES[name]
    store.command(f"CREATE TABLE {stage(name)} ({columns}) ENGINE = Memory")
    if rows:
        names = [column.split()[0] for column in columns.replace(WAYS, "Ways").replace(ACTIVE, "Active").split(", ")]
        cells = ", ".join(f"({', '.join(literal(row[column]) for column in names)})" for row in rows)
        store.command(f"INSERT INTO {stage(name)} VALUES {cells}")


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(literal(one) for one in value)}]"
    if isinstance(value, tuple):
        return f"({', '.join(literal(one) for one in value)})"
    return f"'{value}'" if isinstance(value, str) else str(value)


def ask(store: Store, name: str, **params: Any) -> None:
    store.command(read_sql(ENERGY, name), params)


def answer(store: Store, stage: Stage, name: str) -> list[Row]:
    return store.rows(f"SELECT * FROM {stage(name)}")


# --- what streams say of a stretch ------------------------------------------------------------------------------------


Stream = tuple[str, str, str]
"""Device, partition, workload."""


def drawn_stream(dice: Random, uniform: int) -> list[Row]:
    """Samples of one stream, at, length in ms after NOW: of an hour regular ones, some of them missing, ones without
    gaps, or any."""
    minute = 60_000
    found: list[Row] = []
    regular, powered, sized = True, 1.0, 1.0
    length = phase = 10 * minute
    for hour in range(-1, 4):
        if hour < 0 or truth(dice, 0.4):
            regular = truth(dice, 0.6)
            length = uniform or dice.choice(
                [minute // 2, 5 * minute, 10 * minute, 30 * minute, 60 * minute, 7 * minute]
            )
            phase = dice.choice([length, length, 1, length - 1, dice.randint(1, length)])
            powered, sized = dice.choice([0.0, 0.5, 1.0, 1.0]), dice.choice([0.0, 0.5, 1.0])
        if regular:
            some = [
                (at, length) for at in range(phase, HOUR_MS + 1, length) if truth(dice, dice.choice([0.5, 0.95, 1]))
            ]
        else:
            ends = {dice.choice([dice.randint(1, HOUR_MS), dice.randint(1, 6) * 10 * minute, dice.randint(1, 9)])
                    for _ in range(dice.randint(1, 5))}  # fmt: skip
            some = [(at, uniform or dice.choice([1, minute, 20 * minute, 60 * minute])) for at in sorted(ends)]
            if not uniform and truth(dice):  # each begins where the one before ends
                some = [some[0], *((at, at - before) for (before, _), (at, _) in pairwise(some))]
        bare = some[0][0] if some and truth(dice, 0.4) else 0
        for at, of_length in some if truth(dice, 0.85) else ():
            says_power = at != bare and truth(dice, powered)
            watts = dice.choice([0.0, 0.0, KILOWATTS, *(dice.randint(1, 2000) / 4 for _ in range(8))])
            joules = dice.choice([0, dice.randint(0, 300) * of_length / 8000, KILOWATTS * of_length / 1000])
            size = dice.choice([0, TIB, *(dice.randint(1, 99) for _ in range(8))])
            found.append({
                "at": hour * HOUR_MS + at, "length": of_length,
                "state": dice.choice(["ok", "ok", "ok", "ok", "ok", "idle", "unsupported", "stale"]),
                "power_watts": watts if says_power else None,
                "energy_joules": joules if at != bare and truth(dice, powered / 4) else None,
                "memory_used_bytes": size if truth(dice, sized) else None,
                "utilization": dice.choice([None, 0.0, 0.25, 1.0, *(dice.randrange(1001) / 1000 for _ in range(4))]),
            })  # fmt: skip
    return found


def microwatts(one: Row) -> int | None:
    """What a sample says of power; energy goes first."""
    counts = one["state"] in ("ok", "idle", "unsupported")
    said = [None if one["energy_joules"] is None else round(one["energy_joules"] * 10**9 / one["length"]),
            None if one["power_watts"] is None else round(one["power_watts"] * 1000) * 1000]  # fmt: skip
    found = next((value for value in said if value is not None and value < KILOWATTS * 10**6), None)
    return found if counts and (found or one["state"] != "unsupported") else None


def bytes_of(one: Row) -> int | None:
    counts = one["state"] in ("ok", "idle", "unsupported")
    value: int | None = one["memory_used_bytes"]
    return value if counts and value is not None and value < TIB else None


Cover = tuple[int, int, int | None, int | None]
"""From, to, microwatts, bytes."""


def covers(samples: Sequence[Row]) -> list[Cover]:
    """A sample covers from its interval's start, or the sample before it if that is later."""
    found, before = [], -(10**9)
    for one in samples:
        found.append((max(before, one["at"] - one["length"]), one["at"], microwatts(one), bytes_of(one)))
        before = one["at"]
    return found


def said(some: Sequence[Cover], begin: int, stop: int) -> Row:
    """Of a stretch."""
    within = [(max(since, begin), min(until, stop), power, size) for since, until, power, size in some
              if max(since, begin) < min(until, stop)]  # fmt: skip
    powered = [one for one in within if one[2] is not None]
    sized = [one for one in within if one[3] is not None]
    return {
        "power_ms": sum(one[1] - one[0] for one in powered),
        "nanojoules": sum((one[1] - one[0]) * (one[2] or 0) for one in powered),
        "memory_ms": sum(one[1] - one[0] for one in sized),
        "byte_ms": sum((one[1] - one[0]) * (one[3] or 0) for one in sized),
        "begins": powered[0][0] if powered else 0,
        "ends": powered[-1][1] if powered else 0,
    }


def is_clear(samples: Sequence[Row], hour: int, begin: int, stop: int, anew: bool) -> bool:
    """Whether the sums of the hours say it: begin, stop in ms after NOW.   anew: sums that the samples were read for,
    which are exact."""
    for which in (hour, hour + 1):
        its = [one for one in samples if which * HOUR_MS < one["at"] <= (which + 1) * HOUR_MS]
        if not any(microwatts(one) is not None or bytes_of(one) is not None for one in its):
            continue
        lengths = {one["length"] for one in its}
        longest, shortest, first, last = max(lengths), min(lengths), its[0]["at"], its[-1]["at"]
        if anew:
            since = max([last - its[-1]["length"], *(one["at"] for one in its[:-1])])
            reaches = first - its[0]["length"] < stop and last > begin
            inside = first > begin and since < stop
            if which == hour and reaches and not (inside or first >= stop or since <= begin):
                return False
            continue
        phases = {(one["at"] - which * HOUR_MS) % longest for one in its}
        slots = {min((one["at"] - which * HOUR_MS - 1) // longest, 63) for one in its}
        in_a_row = len(slots) == len(its) or last - first == (len(its) - 1) * longest
        seamless = all(one["at"] - one["length"] == before["at"] for before, one in pairwise(its))
        regular = seamless or (len(lengths) == 1 == len(phases) and in_a_row)
        if which == hour and first - longest < stop and last > begin:
            inside = first > begin and last - shortest < stop
            if not (regular and (inside or first >= stop or last - shortest <= begin)):
                return False
        elif which > hour and not regular:
            before = [one["at"] for one in samples if hour * HOUR_MS < one["at"] <= (hour + 1) * HOUR_MS]
            if max([first - longest, begin, *before]) < stop:
                return False
    return True


def stretches(dice: Random, streams: Sequence[Sequence[Row]]) -> Iterator[tuple[int, int, int]]:
    """Hour, begin, stop, in ms after NOW: three hours cut anywhere, and about the first and last sample of one."""
    for hour in range(3):
        since, until = hour * HOUR_MS, (hour + 1) * HOUR_MS
        cuts = {dice.randint(since, until)} if truth(dice, 0.4) else set()
        for _ in range(dice.choice([0, 1, 1, 2])):
            some = [one for one in dice.choice(streams) if since < one["at"] <= until] if streams else []
            if some:
                one = dice.choice([some[0], some[-1], some[-1], dice.choice(some)])
                before, after = one["length"] // 3, one["length"] + 1
                cuts.add(dice.choice([one["at"], one["at"] - before, one["at"] - before, one["at"] - one["length"],
                                      one["at"] + 1, one["at"] - after]))  # fmt: skip
        for begin, stop in pairwise([since, *sorted(cut for cut in cuts if since < cut < until), until]):
            yield hour, begin, stop


@pytest.mark.parametrize("anew", [False, True], ids=["summed at ingest", "summed anew"])
@pytest.mark.parametrize("uniform", [0, 600_000], ids=["any", "equally long"])
def test_streams_say_what_their_samples_cover_of_a_stretch(
    books: Store, stage: Stage, dice: Random, uniform: int, anew: bool
) -> None:
    devices = [f"g{number}" for number in range(16)]
    ways_of = [("p", "x"), ("p", ""), ("", "x"), ("", "")]
    streams = {(device, *way): drawn_stream(dice, uniform) for device in devices for way in ways_of if truth(dice, 0.6)}
    streams = {stream: samples for stream, samples in streams.items() if samples}
    keys = [f"cityHash64('c', '{device}', '{part}', '{who}')" for device in devices for part, who in ways_of]
    (row,) = books.rows(f"SELECT [{', '.join(keys)}] AS found")
    hash_of = dict(zip([(device, *way) for device in devices for way in ways_of], row["found"], strict=True))

    tables = ("batches", "dirty", "reported", "segments", "holdings", "states", "ways")
    tables += ("whole", "speaking", "measured", "doubted", "sample_hours")
    names = stage.names(*tables)
    books.command(f"CREATE TABLE {stage('batches')} (batch UInt64) ENGINE = Set SETTINGS persistent = 0")
    books.command(f"INSERT INTO {stage('batches')} SELECT 1 AS batch")
    push(books, streams, 1)
    params = {**names, "first": FIRST, "last": FIRST + 3, "from_ms": NOW, "to_ms": NOW + 4 * HOUR_MS,
              "uniform_ms": uniform}  # fmt: skip
    books.command("CREATE TABLE {dirty:Identifier} (hour UInt32) ENGINE = Memory", names)
    books.insert(stage("dirty"), pa.table({"hour": pa.array(range(FIRST, FIRST + 4), pa.uint32())}))
    books.command(read_sql(CLOSE, "reported", sums=_stream_sums(books)), params)
    if anew:
        whole = {**params, "incomplete": list(range(FIRST, FIRST + 5))}
        books.command(read_sql(CLOSE, "reported_anew"), whole)
        books.command(read_sql(CLOSE, "replaced"), whole)
    # What the close does not read.
    push(books, {stream: [one | {"at": one["at"] + 1, "power_watts": 777.0} for one in samples[::2]]
                 for stream, samples in streams.items()}, 2)  # fmt: skip

    states, segments, holdings = [], [], []
    expected: dict[tuple[int, int, int, int], Row] = {}
    claim = 100
    for number, device in enumerate(devices, 1):
        states.append({"state_id": number, "device": number, "cluster": "c", "node": "n", "device_id": device,
                       "model": "H", "pool": "", "units": 4})  # fmt: skip
        its = [samples for stream, samples in streams.items() if stream[0] == device]
        for hour, begin, stop in stretches(dice, its):
            span = {"hour": FIRST + hour, "start_ms": NOW + begin, "end_ms": NOW + stop, "state_id": number}
            # Who is alone on a device has its stream as a way; else it is measured for nobody.
            alone, available = truth(dice), truth(dice, 0.8)
            workloads = dice.choice([[], [7, 8], [7, 7, 8]]) if not alone else [7] * dice.randint(1, 2)
            segments.append({**span, "device_units": 4, "available": available, "held_units": 4,
                             "active": [(place, 1, who, 0) for place, who in enumerate(workloads)]})  # fmt: skip
            asked = [(0, 4, (device, "", ""), 0, True)] if not (alone and available) else []
            for _ in range(dice.choice([0, 1, 2]) if available else 0):
                claim += 1
                levels = sorted({3, *dice.sample([1, 2], dice.randint(0, 2)), *([4] if alone else [])})
                ways = [(level, hash_of[device, *ways_of[level - 1]], 4, level + 1) for level in levels]
                holdings.append({**span, "claim": claim, "units": 2, "subject": 5, "ways": ways})
                asked += [(claim, level, (device, *ways_of[level - 1]), level + 1, alone and level >= 3)
                          for level in levels]  # fmt: skip
            for who, level, stream, cap, of_power in asked:
                samples = streams.get(stream, [])
                one = said(covers(samples), begin, stop)
                clear = is_clear(samples, hour, begin, stop, anew)
                if one["power_ms"] or one["memory_ms"] or not clear:
                    shift = hour * HOUR_MS if one["power_ms"] else 0
                    expected[number, who, NOW + begin, level] = {
                        **one, "begins": one["begins"] - shift, "ends": one["ends"] - shift, "cap": cap,
                        "of_power": of_power, "stream": hash_of[stream], "is_clear": clear,
                    }  # fmt: skip
    for name, rows in (("segments", segments), ("holdings", holdings), ("states", states), ("whole", [])):
        make(books, stage, name, rows)
    books.command(read_sql(CLOSE, "ways"), params)
    for step in ("speaking", "ways_of_devices", "measured"):
        ask(books, step, **params)
    unclear = {key for key, one in expected.items() if not one["is_clear"]}
    rows = answer(books, stage, "measured")
    assert {key_of(row) for row in rows if row["is_unclear"]} == unclear
    undecided = undecided_of(rows)
    ask(books, "undecided", **params)
    rows = answer(books, stage, "measured")
    assert {key_of(row) for row in rows if row["is_unclear"]} == unclear | undecided
    for step in ("stage_doubted", "stage_samples"):
        books.command(read_sql(CLOSE, step), params)
    ask(books, "doubted", **params)
    books.command(read_sql(CLOSE, "sample_hours"), params)
    ask(books, "measured_again", **params)
    asked_for = {(row["stream"], row["hour"] + more) for row in rows if row["is_unclear"] for more in (0, 1)}
    assert {(row["stream"], row["hour"]) for row in answer(books, stage, "sample_hours")} <= asked_for
    # A row that says nothing is none.
    rows = [row for row in answer(books, stage, "measured") if not row["is_unclear"]]
    rows = [row for row in rows if row["power_ms"] or row["memory_ms"]]
    wanted = {key: one for key, one in expected.items() if one["power_ms"] or one["memory_ms"]}
    assert len(rows) == len(wanted)
    for row in rows:
        one = wanted[key_of(row)]
        kept = key_of(row) not in unclear | undecided and not row["is_since_known"]
        assert row["begins"] <= one["begins"] if kept else row["begins"] == one["begins"], (key_of(row), one)
        for name in one.keys() - {"is_clear", "begins"}:
            assert row[name] == one[name], (name, key_of(row), one)


def undecided_of(rows: Sequence[Row]) -> set[tuple[int, int, int, int]]:
    """Those of which it is not known where power begins, where two levels tell of a segment, maybe at one time."""
    segments: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        if row["of_power"] and row["power_ms"]:
            segments[row["state_id"], row["start_ms"]].append(row)
    found = set()
    for some in segments.values():
        at_one_time = max(row["begins"] for row in some) < min(row["ends"] for row in some)
        if at_one_time and len({row["level"] for row in some}) > 1:
            found |= {key_of(row) for row in some if not row["is_since_known"]}
    return found


def test_samples_are_read_where_two_streams_may_tell_of_power_at_one_time(
    books: Store, stage: Stage, dice: Random
) -> None:
    rows = [
        {"state_id": state, "claim": claim, "start_ms": NOW + start, "level": level, "stream": 0, "cap": 1,
         "of_power": truth(dice, 0.8), "is_unclear": truth(dice, 0.1), "power_ms": dice.choice([0, 5, 5]),
         "nanojoules": 0, "memory_ms": 0, "byte_ms": 0, "begins": (begins := dice.randint(0, 9)),
         "ends": begins + dice.randint(1, 5), "is_since_known": truth(dice)}
        for state in range(40) for start in (0, 7) for claim, level in ((0, 4), (1, 3), (2, 3)) if truth(dice, 0.7)
    ]  # fmt: skip
    make(books, stage, "measured", rows)
    ask(books, "undecided", **stage.names("measured"))
    found = {key_of(row) for row in answer(books, stage, "measured") if row["is_unclear"]}
    assert found == {key_of(row) for row in rows if row["is_unclear"]} | undecided_of(rows)
    assert undecided_of(rows)


def key_of(row: Row) -> tuple[int, int, int, int]:
    return row["state_id"], row["claim"], row["start_ms"], row["level"]


def push(store: Store, streams: Mapping[Stream, Sequence[Row]], batch: int) -> None:
    """Writes the samples of a batch in two parts, so that an hour's sums are of several rows."""
    rows = [(stream, one) for stream, samples in streams.items() for one in samples]
    for part in (rows[::2], rows[1::2]):
        write(store, part, batch)


def write(store: Store, rows: Sequence[tuple[Stream, Row]], batch: int) -> None:
    names = ("state", "utilization", "power_watts", "energy_joules", "memory_used_bytes")
    types = {"memory_used_bytes": pa.int64(), **dict.fromkeys(names[1:4], pa.float64())}
    columns: dict[str, Any] = {name: pa.array([one[name] for _, one in rows], types.get(name)) for name in names}
    columns |= {name: [stream[place] for stream, _ in rows]
                for place, name in enumerate(("device_id", "partition_id", "workload_id"))}  # fmt: skip
    columns |= {
        "cluster": ["c"] * len(rows), "node": ["n"] * len(rows),
        "batch": pa.array([batch] * len(rows), pa.uint64()),
        "interval_seconds": [one["length"] / 1000 for _, one in rows],
        "ts": pa.array([NOW + one["at"] for _, one in rows], pa.timestamp("ms", "UTC")),
    }  # fmt: skip
    store.insert("samples", pa.table(columns))


# --- which of them counts ---------------------------------------------------------------------------------------------


def drawn_measured(dice: Random, key: Row, **more: Any) -> Row:
    """What a stream says of a stretch of up to an hour."""
    begins, ends = sorted(dice.sample(range(0, 50, 10), 2))
    found = {"claim": 0, "level": 4, "stream": 1, "cap": dice.randint(1, 7), "of_power": True, "is_unclear": False,
             "is_since_known": True,
             "power_ms": dice.choice([0, 1, 10, 10, dice.randint(1, HOUR_MS)]),
             "nanojoules": dice.choice([10**9, dice.randrange(10**15)]),
             "memory_ms": dice.choice([0, 0, dice.randint(1, HOUR_MS)]), "byte_ms": dice.randrange(10**17),
             "begins": begins, "ends": ends}  # fmt: skip
    return {**key, **found, **more}


def test_power_is_that_of_who_speaks_of_most_of_it_or_of_both_one_after_the_other(
    books: Store, stage: Stage, dice: Random
) -> None:
    names = stage.names("measured", "powers", "states", "idle_power")
    ask(books, "stage_idle_power", **names)
    states = [{"state_id": number, "device": 50 + number % 9, "cluster": "c", "node": "n", "device_id": f"g{number}",
               "model": dice.choice("HLX"), "pool": "", "units": dice.choice([1, 4, 7])}
              for number in range(1, 25)]  # fmt: skip
    figures = []
    for model in "HL":
        cuts = sorted({dice.choice([0, NOW, NOW + 1, NOW + 9]) for _ in range(3)})
        figures += [(model, first, last, dice.choice([0, 10**6, 40 * 10**6, 10**9]))
                    for first, last in pairwise([*cuts, 1 << 62]) if truth(dice, 0.5)]  # fmt: skip
    if figures:
        books.command(f"INSERT INTO {stage('idle_power')} VALUES {', '.join(map(str, figures))}")
    measured = []
    expected = {}
    for state in states:
        for start in {NOW + dice.choice([0, 1, 2, 9, 10]) for _ in range(4)}:
            key = {"state_id": state["state_id"], "start_ms": start}
            everybody = drawn_measured(dice, key, stream=dice.randint(1, 3))
            alone = drawn_measured(dice, key, stream=dice.randint(4, 6), claim=7, level=3,
                                   of_power=truth(dice, 0.8))  # fmt: skip
            some = [one for one in (everybody, alone) if truth(dice, 0.8)]
            if truth(dice, 0.3) and some:  # as equal as can be
                some[-1] |= {name: some[0][name] for name in dice.sample(["power_ms", "nanojoules", "ends"], 2)}
            measured += some
            # Everybody's stream is asked once more for the holder, an unclear stretch is measured again, and a second
            # allocation of the workload has the same stream as the first.
            measured += [one | {"claim": 7, "of_power": False} for one in some if not one["claim"]]
            measured += [one | {"claim": 8} for one in some if one["claim"]]
            measured += [one | {"is_unclear": True, "stream": one["stream"] + dice.choice([0, 10]), "power_ms": 10**7,
                                "begins": 0, "ends": 99} for one in some if truth(dice, 0.3)]  # fmt: skip
            spoken = [one for one in some if one["of_power"] and one["power_ms"]]
            if not spoken:
                continue
            if len(spoken) == 1 or max(one["begins"] for one in spoken) >= min(one["ends"] for one in spoken):
                power_ms, energy = (sum(one[name] for one in spoken) for name in ("power_ms", "nanojoules"))
            else:
                power_ms, energy = max((one["power_ms"], one["nanojoules"]) for one in spoken)
            watts = next((figure for model, first, last, figure in figures
                          if model == state["model"] and first <= start < last), 0)  # fmt: skip
            expected[state["state_id"], start] = {
                "device": state["device"], "device_units": state["units"], "measured_ms": power_ms, "energy": energy,
                "idle_energy": min(energy, watts * power_ms),
            }  # fmt: skip
    dice.shuffle(measured)
    make(books, stage, "measured", measured)
    make(books, stage, "states", states)
    ask(books, "powers", **names)
    rows = answer(books, stage, "powers")
    found = {(row.pop("state_id"), row.pop("start_ms")): row for row in rows}
    assert found == expected and len(rows) == len(found)


def test_a_share_of_a_device_is_what_is_held_and_used_on_average_while_that_was_measured(
    books: Store, stage: Stage, dice: Random
) -> None:
    names = stage.names("holdings", "metered", "several", "measured", "segments", "shares")
    books.command(read_sql(CLOSE, "stage_several"), names)
    tables: dict[str, list[Row]] = defaultdict(list)
    several, expected = [], {}
    for number in range(40):
        hour, units = FIRST + number % 3, dice.choice([1, 4, 7])
        start, state = hour * HOUR_MS + number, dice.randint(1, 9)
        where = {"hour": hour, "start_ms": start, "state_id": state}
        held, claims = 0, []
        while truth(dice, 0.7) and held < units:
            claims.append((number * 10 + len(claims) + 1, dice.randint(1, units - held)))
            held += claims[-1][1]
        available = truth(dice, 0.8)
        tables["segments"].append({**where, "end_ms": start + 9, "device_units": units, "available": available,
                                   "held_units": held, "active": []})  # fmt: skip
        for claim, its in claims if available else ():
            subject, scale = dice.randint(1, 5), its if truth(dice, 0.3) else units
            tables["holdings"].append({**where, "end_ms": start + 9, "claim": claim, "units": its, "subject": subject,
                                       "ways": [(1, 1, its, its), (4, 2, scale, 3)]})  # fmt: skip
            levels = dice.choice([0, 1, 1, 2])
            used = [dice.choice([0, 1, 10**9, dice.randrange(10**15)]) for _ in range(3)]
            caps = [dice.choice([1, 1, 2, 7]) for _ in range(3)]
            covered = dice.choice([1, 3, dice.randint(1, HOUR_MS)])
            of_metered = {"claim": claim, "start_ms": start, "levels": levels, "cap_of_level": caps[0],
                          "covered_ms": covered, "used": used[0]}  # fmt: skip
            if truth(dice, 0.8):
                tables["metered"].append(of_metered)
                if levels == 2:
                    several.append((claim, start, covered, used[1], caps[1], used[2], caps[2]))
            else:
                levels = 0
            chosen = {0: [], 1: [(used[0], caps[0])], 2: [(used[1], caps[1]), (used[2], caps[2])]}[levels]
            by_level = {level: drawn_measured(dice, {"state_id": state, "start_ms": start}, claim=claim, level=level)
                        for level in dice.sample([1, 2, 3, 4], dice.choice([0, 1, 3]))}  # fmt: skip
            tables["measured"] += by_level.values()
            tables["measured"] += [one | {"is_unclear": True, "memory_ms": 5, "byte_ms": 10**17, "level": level - 1}
                                   for level, one in by_level.items() if truth(dice, 0.3)]  # fmt: skip
            best = min((one for one in by_level.values() if one["memory_ms"]), key=lambda one: one["level"],
                       default={"memory_ms": 0, "byte_ms": 0, "cap": 1})  # fmt: skip
            whole = its == scale
            used_micro = sum(one * its // (cap * 1000) for one, cap in chosen)
            expected[start, claim] = {
                "hour": hour, "state_id": state, "units": its, "subject": subject, "is_whole": whole,
                "use_known": whole or bool(chosen), "memory_ms": best["memory_ms"],
                "micro_units": used_micro // covered if chosen and not whole else 0,
                "byte_ms": best["byte_ms"] * its // best["cap"],
            }  # fmt: skip
        # The device's own stream is nobody's memory.
        tables["measured"].append(drawn_measured(dice, {"state_id": state, "start_ms": start}, memory_ms=9))
        if not available or held < units:
            expected[start, 0] = {
                "hour": hour, "state_id": state, "units": units - held if available else units, "subject": 0,
                "is_whole": not available or not held, "use_known": True, "memory_ms": 0, "micro_units": 0,
                "byte_ms": 0,
            }  # fmt: skip
    for name in ("segments", "holdings", "metered", "measured"):
        make(books, stage, name, tables[name])
    if several:
        books.command(f"INSERT INTO {stage('several')} VALUES {', '.join(map(str, several))}")
    ask(books, "shares", **names)
    rows = answer(books, stage, "shares")
    found = {(row.pop("start_ms"), row.pop("claim")): row for row in rows}
    assert found.keys() == expected.keys() and len(rows) == len(found)
    for key, row in found.items():
        assert {name: int(value) for name, value in row.items()} == expected[key]


# --- whose it was -----------------------------------------------------------------------------------------------------


def test_energy_is_divided_by_share_and_use_to_the_last_millijoule(books: Store, stage: Stage, dice: Random) -> None:
    names = stage.names("shares", "powers", "whole", "prices", "states", "settled", "energy")
    hours, midnights = range(FIRST, FIRST + 3), [(FIRST + hour) * HOUR_MS + HOUR_MS // 2 for hour in (0, 2)]
    states, shares, powers, whole, settled = [], [], [], [], []
    prices: dict[int, list[Row]] = {}
    for subject in range(1, 6):
        cuts = sorted({NOW + dice.choice([0, 1, HOUR_MS // 4, HOUR_MS // 2, HOUR_MS]) for _ in range(3)})
        ends = [*cuts[1:], dice.choice([1 << 62, NOW + 2 * HOUR_MS])]
        prices[subject] = [
            {"subject": subject, "from_ms": first, "to_ms": last, "price": 10 * subject + place,
             "sku": f"s{subject}{place % 2}"}
            for place, (first, last) in enumerate(zip(cuts, ends, strict=True)) if truth(dice, 0.7)
        ]  # fmt: skip
    for number in range(1, 15):
        states += [
            {"state_id": number * 10 + change, "device": number, "cluster": dice.choice("cd"), "node": f"n{change}",
             "device_id": f"g{number}", "model": dice.choice("HL"), "pool": dice.choice(["", "p"]),
             "units": dice.choice([1, 4, 7, 7])}
            for change in range(dice.choice([1, 1, 2]))  # some devices' states change
        ]  # fmt: skip
    for claim in range(1, 46):
        # Some have ended before, or begin after what is looked at.
        start, end = dice.choice([(NOW - 9, NOW + 9), (NOW - 9, NOW), (NOW + 5 * HOUR_MS - 1, NOW + 10**9),
                                  (NOW - 9, NOW + 10**9), (NOW + 5 * HOUR_MS, NOW + 10**9)])  # fmt: skip
        texts = {name: f"{name[0]}{dice.randint(1, 3)}" for name in ("tenant", "project", "queue", "workload_id")}
        settled.append({**texts, "claim": claim, "allocation_id": f"a{claim}", "preemptible": truth(dice),
                        "start_ms": start, "end_ms": end})  # fmt: skip
    for number in range(1, 15):
        its = [one for one in states if one["device"] == number]
        for hour in hours:
            since = hour * HOUR_MS
            if truth(dice, 0.2):
                state, claim = dice.choice(its), number * 3
                measured, memory = dice.choice([0, 1, HOUR_MS]), dice.choice([0, 1, HOUR_MS])
                energy = dice.choice([0, 499_999, 500_000, dice.randrange(10**12)]) if measured else 0
                whole.append({"state_id": state["state_id"], "hour": hour, "start_ms": since, "claim": claim,
                              "units": state["units"], "subject": claim % 6, "power_ms": measured, "nanojoules": energy,
                              "memory_ms": memory, "byte_ms": memory * 77})  # fmt: skip
                continue
            starts = sorted(
                {
                    since,
                    *(
                        since + dice.choice([1, HOUR_MS // 4, HOUR_MS // 2, HOUR_MS // 2, HOUR_MS - 1])
                        for _ in range(2)
                    ),
                }
            )
            for start, stop in zip(starts, [*starts[1:], since + HOUR_MS], strict=True):
                state = dice.choice(its)
                key = {"state_id": state["state_id"], "start_ms": start}
                holders, left = [], state["units"]
                for claim in dice.sample(range(number * 3, number * 3 + 3), dice.choice([0, 1, 2, 3, 3])):
                    if left:
                        holders.append((claim, left if truth(dice, 0.2) else dice.randint(1, left)))
                        left -= holders[-1][1]
                unused = truth(dice, 0.2)
                for claim, units in [*holders, *([(0, left)] if left else [])]:
                    known = not claim or truth(dice, 0.75)
                    memory = dice.choice([0, 0, 1, stop - start]) if claim else 0
                    shares.append({
                        **key, "hour": hour, "claim": claim, "units": units, "subject": claim % 6 if claim else 0,
                        "is_whole": units == state["units"], "use_known": known, "memory_ms": memory,
                        "micro_units": dice.randint(0, units * 10**6) if known and claim and not unused else 0,
                        "byte_ms": memory * 77 + claim if memory else 0,
                    })  # fmt: skip
                if truth(dice, 0.8):
                    energy = dice.choice([499_999, 500_000, *(dice.randrange(10**12) for _ in range(6))])
                    powers.append({**key, "device": number, "device_units": state["units"],
                                   "measured_ms": dice.choice([stop - start, stop - start, 1]), "energy": energy,
                                   "idle_energy": dice.choice([0, energy, energy // 3, energy // 7])})  # fmt: skip
    owners = {one["claim"]: one for one in settled if one["start_ms"] < NOW + 5 * HOUR_MS and one["end_ms"] > NOW}
    by_state = {one["state_id"]: one for one in states}
    described = [{**by_state[one["state_id"]], "device_units": one["units"], "preemptible": False,
                  **dict.fromkeys(WORDS, ""), **owners.get(one["claim"], {}), **one, "since": one["start_ms"],
                  "sku": price_of(prices, one)["sku"]} for one in whole]  # fmt: skip
    for name, rows in (("shares", shares), ("powers", powers), ("whole", described), ("states", states),
                       ("settled", settled),
                       ("prices", [one for some in prices.values() for one in some])):  # fmt: skip
        dice.shuffle(rows)
        make(books, stage, name, rows)
    ask(books, "attributed", **names, midnights=midnights, from_ms=NOW, to_ms=NOW + 5 * HOUR_MS)
    # Who has a device whole for an hour has a share of it, all, and its energy: that of one segment.
    all_of = [{**one, "is_whole": True, "use_known": False, "micro_units": 0} for one in whole]
    powers_of = [{**one, "device": one["claim"] // 3, "device_units": one["units"], "measured_ms": one["power_ms"],
                  "energy": one["nanojoules"], "idle_energy": 0} for one in whole if one["power_ms"]]  # fmt: skip
    expected = reckoned([*shares, *all_of], [*powers, *powers_of], states, prices, midnights)
    rows = answer(books, stage, "energy")
    wanted = []
    for one in expected:
        state, owner = by_state[one.pop("state_id")], owners.get(one.pop("claim"), {})
        texts = {name: owner.get(name, "") for name in WORDS}
        wanted.append({
            **one, **texts, "preemptible": owner.get("preemptible", False), "device_units": state["units"],
            **{name: state[name] for name in ("cluster", "node", "device_id", "model", "pool")},
            "hour": datetime.fromtimestamp(one["hour"] * 3600, UTC),
            "charge_period_start": datetime.fromtimestamp(one["charge_period_start"] / 1000, UTC),
        })  # fmt: skip
    assert sorted(map(shown, rows)) == sorted(map(shown, wanted))


def shown(row: Row) -> str:
    return str(sorted(row.items()))


def price_of(prices: Mapping[int, Sequence[Row]], one: Row) -> Row:
    its = (rule for rule in prices.get(one["subject"], ()) if rule["from_ms"] <= one["start_ms"] < rule["to_ms"])
    return next(its, {"price": 0, "sku": ""})


def reckoned(
    shares: Sequence[Row],
    powers: Sequence[Row],
    states: Sequence[Row],
    prices: Mapping[int, Sequence[Row]],
    midnights: Sequence[int],
) -> list[Row]:
    """Of each holder, the platform, too, by hour, price and day; what is lost in cutting goes to who lost most."""
    device_of = {one["state_id"]: one["device"] for one in states}
    power_of = {(one["state_id"], one["start_ms"]): one for one in powers}
    segments: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for one in shares:
        segments[one["state_id"], one["start_ms"]].append(one)
    sums: dict[tuple[Any, ...], list[Any]] = {}
    for place, some in segments.items():
        power = power_of.get(place, {"measured_ms": 0, "energy": 0, "idle_energy": 0, "device_units": 1})
        known = all(one["use_known"] for one in some)
        together = sum(one["micro_units"] for one in some) if known else 0
        idle = power["idle_energy"] if together else power["energy"]
        for one in some:
            nanojoules = idle * one["units"] // power["device_units"]
            if together:
                nanojoules += (power["energy"] - idle) * one["micro_units"] // together
            if not power["measured_ms"] and not one["memory_ms"]:
                continue
            price = price_of(prices, one)
            day = sum(midnight <= place[1] for midnight in midnights)
            key = (one["hour"], one["claim"], place[0], price["price"], price["sku"], day)
            its = sums.setdefault(key, [place[1], 0, 0, 0, 0])
            its[0] = min(its[0], place[1])
            more = (nanojoules if power["measured_ms"] else 0, power["measured_ms"] * one["units"], one["byte_ms"],
                    one["memory_ms"] * one["units"])  # fmt: skip
            its[1:] = [value + one for value, one in zip(its[1:], more, strict=True)]
    energies: dict[tuple[int, int], int] = defaultdict(int)
    for one in powers:
        energies[one["device"], one["start_ms"] // HOUR_MS] += one["energy"]
    found = []
    for (device, hour), energy in energies.items():
        its = [(key, one) for key, one in sums.items() if (device_of[key[2]], key[0]) == (device, hour) and one[2]]
        missing = (energy + 500_000) // 10**6 - sum(one[1] // 10**6 for _, one in its)
        order = sorted(its, key=lambda one: (-(one[1][1] % 10**6), one[0][1], one[1][0], one[0][3], one[0][2]))
        found += [(key, one, one[1] // 10**6 + (place < missing)) for place, (key, one) in enumerate(order)]
    found += [(key, one, None) for key, one in sums.items() if not one[2]]
    return [
        {"hour": key[0], "claim": key[1], "state_id": key[2], "sku": key[4], "charge_period_start": one[0],
         "energy_millijoules": millijoules, "measured_unit_ms": one[2],
         "memory_byte_ms": one[3] if one[4] else None, "memory_measured_unit_ms": one[4]}
        for key, one, millijoules in found
    ]  # fmt: skip
