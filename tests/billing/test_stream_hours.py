"""Sums kept at ingest of each stream and hour: where they cannot tell, the samples decide.

Each case has a device of its own, d0, d1 and so on; those of one test are closed together.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from random import Random
from typing import Any

from billing.close import close
from tests.billing.test_close import at, device, event, put, sample
from warehouse.store import Store

MINUTE = 1 / 60
Samples = list[dict[str, Any]]
Books = list[tuple[float, float]]


def minutes(first: float, last: float, utilization: float = 0.5) -> Samples:
    """A sample a minute of w-a, each of the minute that ends at first, first + 1, ..., last."""
    ends = [first + n for n in range(round(last - first) + 1)]
    return [{**sample(end * MINUTE, "", utilization, "w-a"), "interval_seconds": 60.0} for end in ends]


def every_ten_seconds(first: int, last: int, utilization: float = 0.5) -> Samples:
    """A sample every ten seconds of w-a: the first-th to the last-th."""
    return [
        {**sample(n / 360, "", utilization, "w-a"), "interval_seconds": 10.0, "power_watts": 360.0}
        for n in range(first, last + 1)
    ]


def held(store: Store, *spans: tuple[float, float]) -> None:
    """For each span an allocation that holds a device of its own from minute to minute."""
    put(store, "devices", [device(f"d{n}") for n in range(len(spans))])
    events = []
    for n, (start, end) in enumerate(spans):
        who = {"workload_id": "w-a"}
        events += [event(start * MINUTE, f"a{n}", "started", device_id=f"d{n}", **who)]
        events += [event(end * MINUTE, f"a{n}", "finished", device_id="", **who)]
    put(store, "events", events)


def put_samples(store: Store, *of_devices: Samples, batch: int = 1) -> None:
    """One batch with samples of d0, of d1 and so on."""
    rows = [{**row, "device_id": f"d{n}"} for n, samples in enumerate(of_devices) for row in samples]
    put(store, "samples", rows, batch)


def books(store: Store, hours: int = 2) -> list[Books]:
    """Of each device by hour, the minutes that were used and not metered, after a close."""
    close(store, until=at(hours))
    rows = store.rows(
        "SELECT device_id, hour, toFloat64(sum(used_unit_ms)) / 60000 AS used, "
        "sum(unmetered_unit_ms) / 60000 AS unmetered "
        "FROM ledger WHERE allocation_id != '' GROUP BY device_id, hour ORDER BY device_id, hour"
    )
    found: dict[str, Books] = {}
    for row in rows:
        found.setdefault(row["device_id"], []).append((round(row["used"], 6), round(row["unmetered"], 6)))
    return [*found.values()]


def energy(store: Store) -> list[dict[str, Any]]:
    """Of each device."""
    return store.rows(
        "SELECT sum(energy_millijoules) AS energy, sum(measured_unit_ms) AS measured, sum(memory_byte_ms) AS memory "
        "FROM energy WHERE allocation_id != '' GROUP BY device_id ORDER BY device_id"
    )


def test_sums_alone_tell_of_regular_samples_their_power_and_memory(store: Store) -> None:
    cases: Sequence[tuple[tuple[float, float], Samples, Books, float]] = [
        ((0, 120), minutes(1, 120), [(30, 0), (30, 0)], 120),
        # a sample over each hour's end
        ((0, 120), minutes(0.5, 119.5), [(30, 0), (29.75, 0.5)], 119.5),
        # a first and a last sample over the holding's ends
        ((20.25, 80.25), minutes(20.5, 80.5), [(19.875, 0), (10.125, 0)], 60),
        # a holding that begins amid an hour's last sample, and one that ends amid the first
        ((59.75, 120), minutes(1, 120), [(0.125, 0), (30, 0)], 60.25),
        ((0, 60.25), minutes(1, 120), [(30, 0), (0.125, 0)], 60.25),
        # half an hour without samples
        ((0, 120), minutes(31, 90), [(15, 30), (15, 30)], 60),
    ]
    held(store, *(span for span, *_ in cases))
    more = {"power_watts": 100.0, "memory_used_bytes": 1000}
    put_samples(store, *([{**row, **more} for row in samples] for _, samples, _, _ in cases))
    store.command(f"TRUNCATE TABLE {store.altered('samples')}")

    assert books(store) == [expected for _, _, expected, _ in cases]
    assert energy(store) == [
        {
            "energy": round(measured * 60) * 100_000,
            "measured": round(measured * 60_000),
            "memory": round(measured * 60_000) * 1000,
        }
        for *_, measured in cases
    ]


def test_sums_alone_tell_of_samples_of_any_length_that_follow_each_other(store: Store) -> None:
    """Of a clock that does not keep the minute; the last of the first hour ends 12 s into the second."""
    lengths = [1.25, 0.5, 2.25, 1] * 12 + [0.2] + [2.25, 0.5, 1.25, 1] * 11 + [4.8]
    ends = [sum(lengths[: n + 1]) for n in range(len(lengths))]
    assert (ends[47], ends[48], ends[-1]) == (60, 60.2, 120)
    rows = [
        {
            **minutes(end, end, utilization)[0],
            "interval_seconds": length * 60,
            "power_watts": watts,
            "memory_used_bytes": 1000,
        }
        for end, length in zip(ends, lengths, strict=True)
        for utilization, watts in [(0.25, 100.0) if length == 2.25 else (0.5, 200.0)]
    ]
    spans = [(0.0, 120.0), (0.5, 119.9), (0.25, 60.1)]
    held(store, *spans)
    put_samples(store, *[rows] * len(spans))
    store.command(f"TRUNCATE TABLE {store.altered('samples')}")

    def covered(since: float, until: float, hour: int, of: tuple[float, float]) -> float:
        """Minutes x what a sample tells, by whether it is one of the long ones."""
        begin, stop = max(since, hour * 60), min(until, hour * 60 + 60)
        parts = [
            (max(0.0, min(end, stop) - max(end - length, begin)), length)
            for end, length in zip(ends, lengths, strict=True)
        ]
        return sum(part * of[length != 2.25] for part, length in parts)

    assert books(store) == [
        [(round(covered(*span, hour, (0.25, 0.5)), 6), 0) for hour in range(2) if hour * 60 < span[1]] for span in spans
    ]
    for found, span in zip(energy(store), spans, strict=True):
        joules = sum(covered(*span, hour, (100, 200)) for hour in range(2)) * 60
        minutes_held = span[1] - span[0]
        assert abs(found["energy"] - joules * 1000) <= 1
        assert (found["measured"], found["memory"]) == (
            round(minutes_held * 60_000),
            round(minutes_held * 60_000) * 1000,
        )


def test_what_sums_tell_is_what_samples_tell(store: Store, dice: Random) -> None:
    """The same twice, twelve hours apart, and the sums of the second time are lost."""
    spans, drawn = [], []
    for _ in range(30):
        begin, end = sorted(dice.sample(range(3 * 3_600_000), 2))
        spans.append((begin, end))
        drawn.append(drawn_samples(dice))
        if dice.random() < 0.4:  # everybody's, from some time on or until then
            one, turn, first = drawn[-1], dice.random() * 3, dice.random() < 0.5
            drawn[-1] = [row for row in one if (row["ts"] < turn) == first or dice.random() < 0.02]
            drawn[-1] += [row | {"workload_id": ""} for row in drawn_samples(dice) if (row["ts"] < turn) != first]
    held(store, *((ms / 60_000 + 720 * again, end / 60_000 + 720 * again) for again in range(2) for ms, end in spans))
    put_samples(
        store, *([{**row, "ts": row["ts"] + 12 * again} for row in rows] for again in range(2) for rows in drawn)
    )
    store.command(
        f"ALTER TABLE {store.altered('stream_hours')} DELETE WHERE hour >= {{noon:DateTime64(3)}} "
        "SETTINGS mutations_sync = 2",
        {"noon": at(12)},
    )

    close(store, until=at(18))
    for table in ("ledger", "energy"):
        of = "device_id", "hour", "charge_period_start"
        rows = store.rows(f"SELECT * FROM {table} WHERE allocation_id != '' ORDER BY {', '.join(of)}")
        found = {
            (int(row.pop("device_id")[1:]), row.pop("hour"), row.pop("charge_period_start")): {
                name: value for name, value in row.items() if name.endswith(("_ms", "_millijoules"))
            }
            for row in rows
        }
        first = {key: value for key, value in found.items() if key[0] < 30}
        again = {
            (number - 30, *(when - timedelta(hours=12) for when in times)): value
            for (number, *times), value in found.items()
            if number >= 30
        }
        assert first == again
        assert first


def drawn_samples(dice: Random) -> Samples:
    """Three hours of a clock that keeps the minute, or does not; mostly without a gap or an overlap."""
    keeps, at_ms, rows = dice.random() < 0.3, dice.randrange(200_000), []
    wild = dice.choice([0, 0, 0.03, 0.2])
    while at_ms < 3 * 3_600_000:
        length = 60_000 if keeps else 60_000 + dice.randint(-900, 900)
        if at_ms // 3_600_000 != (at_ms + length) // 3_600_000 and dice.random() < 0.4:
            at_ms += dice.randint(1, 20_000)  # a gap between two hours
        at_ms += length
        what = dice.random()
        row = {
            **sample(at_ms / 3_600_000, "", dice.choice([0.0, 0.123456789, 1.0]), "w-a"),
            "interval_seconds": length / 1000,
        }
        row |= {"power_watts": dice.choice([None, 0.0, 123.456]), "memory_used_bytes": dice.choice([None, 10**9])}
        if dice.random() < 0.1:
            row |= {"state": "blank", "utilization": None}
        if what < wild:
            row["interval_seconds"] = dice.choice([0.001, 30.0, 60.001, 200.0])
        rows.append(row)
        if wild / 2 < what < wild:
            rows.append(row | {"utilization": 0.5, "state": "ok"})
        if dice.random() < wild:
            at_ms += dice.choice([1, 30_000, 200_000])
    return rows


def test_power_that_two_streams_tell_of_one_after_the_other_adds_up(store: Store) -> None:
    """Everybody's until half past; the workload's own from a quarter to one on, by samples of half an hour each."""
    held(store, (0, 120))
    everybody = [{**row, "workload_id": ""} for row in minutes(1, 30)]
    own = [{**minutes(end, end)[0], "interval_seconds": 1800.0} for end in (75, 105)]
    put_samples(store, [{**row, "power_watts": 100.0} for row in (*everybody, *own)])
    books(store)
    (found,) = energy(store)
    assert (found["measured"], found["energy"]) == (90 * 60_000, 90 * 60 * 100_000)


def test_sums_tell_of_more_samples_than_there_are_slots_if_none_is_missing(store: Store) -> None:
    held(store, (0, 120))
    put_samples(store, [*every_ten_seconds(1, 360), *every_ten_seconds(361, 540, 1.0)])
    store.command(f"TRUNCATE TABLE {store.altered('samples')}")

    assert books(store) == [[(30, 0), (30, 30)]]
    assert [row["energy"] for row in energy(store)] == [360_000 * 5400]


def test_where_samples_overlap_or_a_holding_ends_amid_them_they_are_read(store: Store) -> None:
    overlaps: Sequence[tuple[Samples, Books]] = [
        (minutes(30, 40), [(30, 0), (30, 0)]),  # sent again in another batch
        (minutes(30.5, 30.5, 1.0), [(30.25, 0), (30, 0)]),  # one in between
        (minutes(30, 30, 0.75), [(30.25, 0), (30, 0)]),  # two of one instant: the higher counts
    ]
    held(store, *[(0, 120)] * len(overlaps), (0, 20.5))
    amid = minutes(1, 20, 0.25) + minutes(21, 60, 1.0)
    put_samples(store, *[minutes(1, 120)] * len(overlaps), amid)
    put_samples(store, *(more for more, _ in overlaps), batch=2)

    assert books(store) == [*(expected for _, expected in overlaps), [(5.5, 0)]]


def test_where_the_hash_of_the_places_differs_the_samples_are_read(store: Store) -> None:
    """One is missing; and one is missing and its neighbour there twice."""
    held(store, (0, 60), (0, 60))
    rows = every_ten_seconds(1, 360)
    lacking = [row for n, row in enumerate(rows, 1) if n != 101]
    put_samples(store, lacking, lacking)
    put_samples(store, [], rows[101:102], batch=2)

    assert books(store, 1) == [[(round(29 + 55 / 60, 6), round(10 / 60, 6))]] * 2
    assert [row["energy"] for row in energy(store)] == [360_000 * 3590] * 2


def test_hours_without_their_sums_are_computed_from_samples(store: Store) -> None:
    """The store is older than the sums, or a kill came between two tables: all are lost, or those of one batch."""
    held(store, (0, 120), (0, 120))
    put_samples(store, minutes(1, 120), minutes(1, 70))
    store.command(f"TRUNCATE TABLE {store.altered('stream_hours')}")
    put_samples(store, [], minutes(71, 120), batch=2)

    assert books(store) == [[(30, 0), (30, 0)]] * 2
