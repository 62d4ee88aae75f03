"""Sums kept at ingest of each stream and hour: where they cannot tell, the samples decide.

Each case has a device of its own, d0, d1 and so on; those of one test are closed together.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    store.command("TRUNCATE TABLE samples")

    assert books(store) == [expected for _, _, expected, _ in cases]
    assert energy(store) == [
        {
            "energy": round(measured * 60) * 100_000,
            "measured": round(measured * 60_000),
            "memory": round(measured * 60_000) * 1000,
        }
        for *_, measured in cases
    ]


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
    store.command("TRUNCATE TABLE samples")

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
    store.command("TRUNCATE TABLE stream_hours")
    put_samples(store, [], minutes(71, 120), batch=2)

    assert books(store) == [[(30, 0), (30, 0)]] * 2
