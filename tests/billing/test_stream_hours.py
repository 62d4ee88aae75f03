"""Sums kept at ingest of each stream and hour: where they cannot tell, the samples decide."""

from __future__ import annotations

from typing import Any

import pytest

from billing.close import close
from tests.billing.test_close import at, device, event, put, sample
from warehouse.store import Store

MINUTE = 1 / 60


def minutes(first: float, last: float, utilization: float = 0.5) -> list[dict[str, Any]]:
    """A sample a minute of w-a on GPU-0, each of the minute that ends at first, first + 1, ..., last."""
    ends = [first + n for n in range(round(last - first) + 1)]
    return [{**sample(end * MINUTE, "GPU-0", utilization, "w-a"), "interval_seconds": 60.0} for end in ends]


def held(store: Store, start: float, end: float) -> None:
    """Allocation a holds GPU-0 from minute `start` to minute `end`."""
    put(store, "devices", [device("GPU-0")])
    put(
        store,
        "events",
        [event(start * MINUTE, "a", "started", device_id="GPU-0"), event(end * MINUTE, "a", "finished", device_id="")],
    )


def books(store: Store, hours: int = 2) -> list[tuple[float, float]]:
    """By hour, the minutes that were used and not metered, after a close."""
    close(store, until=at(hours))
    rows = store.rows(
        "SELECT toFloat64(sum(used_unit_ms)) / 60000 AS used, sum(unmetered_unit_ms) / 60000 AS unmetered "
        "FROM ledger WHERE allocation_id != '' GROUP BY hour ORDER BY hour"
    )
    return [(round(row["used"], 6), round(row["unmetered"], 6)) for row in rows]


@pytest.mark.parametrize(
    ("start", "end", "first", "last", "expected"),
    [
        pytest.param(0, 120, 1, 120, [(30, 0), (30, 0)], id="whole hours"),
        pytest.param(0, 120, 0.5, 119.5, [(30, 0), (29.75, 0.5)], id="a sample over each hour's end"),
        pytest.param(
            20.25, 80.5, 20.5, 81, [(19.875, 0), (10.25, 0)], id="a first and a last sample over the holding's ends"
        ),
        pytest.param(0, 120, 31, 90, [(15, 30), (15, 30)], id="half an hour without samples"),
    ],
)
def test_sums_alone_tell_of_regular_samples(
    store: Store, start: float, end: float, first: float, last: float, expected: list[tuple[float, float]]
) -> None:
    held(store, start, end)
    put(store, "samples", minutes(first, last))
    store.command("TRUNCATE TABLE samples")

    assert books(store) == expected


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        pytest.param(minutes(30, 40), [(30, 0), (30, 0)], id="sent again in another batch"),
        pytest.param(minutes(30.5, 30.5, 1.0), [(30.25, 0), (30, 0)], id="one in between"),
        pytest.param(minutes(30, 30, 0.75), [(30.25, 0), (30, 0)], id="two of one instant: the higher counts"),
    ],
)
def test_where_samples_overlap_they_are_read(
    store: Store, more: list[dict[str, Any]], expected: list[tuple[float, float]]
) -> None:
    held(store, 0, 120)
    put(store, "samples", minutes(1, 120))
    put(store, "samples", more, batch=2)

    assert books(store) == expected


def test_a_holding_that_ends_amid_a_streams_samples_reads_them(store: Store) -> None:
    held(store, 0, 20.5)
    put(store, "samples", minutes(1, 20, 0.25) + minutes(21, 60, 1.0))

    assert books(store) == [(5.5, 0)]


def every_ten_seconds(first: int, last: int, utilization: float = 0.5) -> list[dict[str, Any]]:
    """A sample every ten seconds of w-a on GPU-0: the first-th to the last-th."""
    return [
        {**sample(n / 360, "GPU-0", utilization, "w-a"), "interval_seconds": 10.0, "power_watts": 360.0}
        for n in range(first, last + 1)
    ]


def test_sums_tell_of_more_samples_than_there_are_slots_if_none_is_missing(store: Store) -> None:
    held(store, 0, 120)
    put(store, "samples", [*every_ten_seconds(1, 360), *every_ten_seconds(361, 540, 1.0)])
    store.command("TRUNCATE TABLE samples")

    assert books(store) == [(30, 0), (30, 30)]
    assert store.value("SELECT sum(energy_millijoules) AS mj FROM energy") == 360_000 * 5400


@pytest.mark.parametrize(
    ("lacking", "twice", "expected"),
    [
        pytest.param(101, 0, [(29 + 55 / 60, 10 / 60)], id="one is missing"),
        pytest.param(101, 102, [(29 + 55 / 60, 10 / 60)], id="one is missing and its neighbour there twice"),
    ],
)
def test_where_the_hash_of_the_places_differs_the_samples_are_read(
    store: Store, lacking: int, twice: int, expected: list[tuple[float, float]]
) -> None:
    held(store, 0, 60)
    rows = every_ten_seconds(1, 360)
    put(store, "samples", [row for n, row in enumerate(rows, 1) if n != lacking])
    if twice:
        put(store, "samples", rows[twice - 1 : twice], batch=2)

    assert books(store, 1) == [(round(used, 6), round(unmetered, 6)) for used, unmetered in expected]
    assert store.value("SELECT sum(energy_millijoules) AS mj FROM energy") == 360_000 * 3590


@pytest.mark.parametrize(
    ("start", "end", "first", "last", "measured"),
    [
        pytest.param(0, 120, 1, 120, 120, id="whole hours"),
        pytest.param(20.25, 80.5, 20.5, 81, 60.25, id="a first and a last sample over the holding's ends"),
        pytest.param(0, 120, 31, 90, 60, id="half an hour without samples"),
    ],
)
def test_sums_alone_tell_of_power_and_memory(
    store: Store, start: float, end: float, first: float, last: float, measured: float
) -> None:
    held(store, start, end)
    rows = [{**row, "power_watts": 100.0, "memory_used_bytes": 1000} for row in minutes(first, last)]
    put(store, "samples", rows)
    store.command("TRUNCATE TABLE samples")
    close(store, until=at(2))

    (told,) = store.rows(
        "SELECT sum(energy_millijoules) AS energy, sum(measured_unit_ms) AS measured, sum(memory_byte_ms) AS memory "
        "FROM energy WHERE allocation_id != ''"
    )
    assert told == {
        "energy": round(measured * 60) * 100_000,
        "measured": round(measured * 60_000),
        "memory": round(measured * 60_000) * 1000,
    }


@pytest.mark.parametrize("lost", ["all", "one batch"])
def test_hours_without_their_sums_are_computed_from_samples(store: Store, lost: str) -> None:
    """The store is older than the sums, or a kill came between two tables."""
    held(store, 0, 120)
    put(store, "samples", minutes(1, 70))
    if lost == "one batch":
        store.command("TRUNCATE TABLE stream_hours")
    put(store, "samples", minutes(71, 120), batch=2)
    if lost == "all":
        store.command("TRUNCATE TABLE stream_hours")

    assert books(store) == [(30, 0), (30, 0)]
