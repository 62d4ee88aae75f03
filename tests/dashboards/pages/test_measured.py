"""A device's power and memory by hour, against averages of the same samples taken one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing.close import close
from dashboards.filters import filters_of
from dashboards.languages import language
from dashboards.measured import measure_hours
from dashboards.pages import fleet, workload
from dashboards.pages.fleet.device import device_page, measured, measured_hours
from tests.billing.facts import at, devices, job, put_all
from warehouse.store import Store, read_sql

START, END = "2026-10-05T08:00", "2026-10-05T10:00"
GIB = 1 << 30


def sources(source: str, seconds: int) -> tuple[list[dict[str, Any]], list[tuple[float, float]]]:
    """Samples of two hours, and each hour's watts and bytes on average: nobody holds the device for 20 minutes, `a`
    does for 50, then both do."""
    rows: list[dict[str, Any]] = []
    truth: dict[int, list[tuple[float, float]]] = {0: [], 1: []}
    first: datetime = at(START)
    for end in range(seconds, 7201, seconds):
        ts, begun = first + timedelta(seconds=end), end - seconds
        held = {"a": 10 * GIB} if begun >= 1200 else {}
        held |= {"b": 20 * GIB + begun} if begun >= 4200 else {}
        watts, whole = 100.0 + 50 * len(held), GIB + sum(held.values())
        one = {
            "ts": ts,
            "interval_seconds": float(seconds),
            "cluster": "",
            "node": "n1",
            "device_id": "g1",
            "state": "ok",
        }
        one |= {"utilization": 0.5}
        if source == "the device and each holder":
            rows.append({**one, "memory_used_bytes": whole, "power_watts": watts})
            rows += [{**one, "workload_id": name, "memory_used_bytes": size} for name, size in held.items()]
        elif source == "its holder, or the device":
            name = next(iter(held), "")
            rows.append({**one, "workload_id": name, "memory_used_bytes": whole, "power_watts": watts})
        else:
            rows += [
                {**one, "workload_id": name, "memory_used_bytes": size, "power_watts": watts}
                for name, size in held.items()
            ]
            whole = sum(held.values())
        if held or source != "holders alone":
            truth[(end - 1) // 3600].append((watts, whole))
    return rows, [
        (sum(watts for watts, _ in found) / len(found), sum(size for _, size in found) / len(found))
        for found in truth.values()
    ]


@pytest.mark.parametrize("seconds", [10, 60, 100])
@pytest.mark.parametrize("source", ["the device and each holder", "its holder, or the device", "holders alone"])
def test_power_and_memory_are_those_of_the_device_whoever_reports_them(store: Store, source: str, seconds: int) -> None:
    rows, truth = sources(source, seconds)
    units = {"units": 1} if source != "its holder, or the device" else {}
    events = job("a", "t", "g1", "2026-10-05T08:20", END, **units) + job(
        "b", "t", "g1", "2026-10-05T09:10", END, **units
    )
    put_all(store, {"devices": devices("2026-10-01", "g1", units=2), "events": events, "samples": rows})
    close(store, until=at(END), now=datetime(2026, 10, 6, tzinfo=UTC))
    params = {"device": "g1", "start": at(START), "end": at(END)}
    found = store.rows(read_sql(fleet.__file__, "measured"), params)
    measure_hours(store)
    of_hours = store.rows(read_sql(fleet.__file__, "measured_closed"), params)
    assert [one[1:] for one in curve(of_hours)] == [pytest.approx(one[1:]) for one in curve(found)]
    assert [(row["power_watts"], row["memory_bytes"]) for row in found] == [
        (pytest.approx(watts), pytest.approx(size)) for watts, size in truth
    ]


@pytest.mark.parametrize("name", ["samples", "sampled_hours"])
def test_a_time_slice_shows_what_its_holder_uses_of_the_device(store: Store, name: str) -> None:
    """As found: the workload's page drew an empty utilization, and no memory, while the books know what it used. On two
    slices of a device it is still one holder."""
    events = job("a", "t", "g1", START, END, units=1, partition_id="g1::0") + job(
        "a", "t", "g1", START, END, units=1, partition_id="g1::1"
    )
    rows = [sample("g1", f"2026-10-05T08:{minute:02}", workload_id="a", utilization=0.25, memory_used_bytes=GIB,
                   power_watts=70.0) for minute in range(1, 60)]  # fmt: skip
    put_all(store, {"devices": devices("2026-10-01", "g1", units=4), "events": events, "samples": rows})
    close(store, until=at(END), now=datetime(2026, 10, 6, tzinfo=UTC))
    more = {"seconds": 3600} if name == "samples" else {}
    found = filters_of(store, "?period=2026-10-05").rows(store, workload.__file__, name, workload="a", **more)
    assert [(row["utilization"], row["memory_bytes"], row["power_watts"]) for row in found] == [
        (pytest.approx(0.25), pytest.approx(GIB), pytest.approx(70))
    ]


def curve(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, Any, Any]]:
    return [(row["hour"], row["power_watts"], row["memory_bytes"]) for row in rows]


def sample(device: str, ts: str, **measured: Any) -> dict[str, Any]:
    one = {"ts": at(ts), "interval_seconds": 60.0, "cluster": "", "node": "n1", "device_id": device, "state": "ok"}
    return {**one, "utilization": 0.5, "memory_total_bytes": 40 * GIB, **measured}


def test_pages_read_measured_hours_until_a_late_sample_comes(store: Store) -> None:
    """Each time with hours that were measured, with outdated ones, and without any, as of the samples themselves."""

    def put(*samples: dict[str, Any]) -> None:
        put_all(store, {"samples": list(samples)})
        close(store, until=at("2026-10-05T11:00"), now=datetime(2026, 10, 6, tzinfo=UTC))

    def shown() -> tuple[Any, Any]:
        filters = filters_of(store, "?period=2026-10-05")
        devices = [
            (row["device_id"], row["memory"], row["temperature"], row["power"])
            for row in fleet.devices_of(store, filters, fleet.last_instant(filters))
        ]
        return devices, curve(measured_hours(store, filters, "g1"))

    def agree(hours: int) -> tuple[Any, Any]:
        before = shown()
        assert measure_hours(store) == hours
        assert shown() == before
        assert measure_hours(store) == 0
        return before

    put_all(store, {"devices": devices("2026-10-05T08:00", "g1", "g2")})
    put(
        sample("g1", "2026-10-05T08:10", power_watts=300.0, memory_used_bytes=10 * GIB),
        sample("g1", "2026-10-05T10:30", power_watts=100.0, memory_used_bytes=20 * GIB, temperature_celsius=60.0),
        sample("g1", "2026-10-05T11:00", power_watts=200.0, memory_used_bytes=30 * GIB, temperature_celsius=50.0),
        sample("g1", "2026-10-05T11:10", power_watts=900.0, memory_used_bytes=40 * GIB, temperature_celsius=90.0),
    )
    latest, hours = agree(hours=3)
    assert latest == [("g1", 0.75, 60.0, 150.0), ("g2", None, None, None)]
    assert [(hour.hour, watts) for hour, watts, _ in hours] == [(8, 300.0), (10, 150.0), (11, 900.0)]
    put(sample("g2", "2026-10-05T10:40", temperature_celsius=70.0))
    latest, _ = agree(hours=1)
    assert latest[1] == ("g2", None, 70.0, None)
    assert store.value("SELECT uniqExact(inputs) AS n FROM device_hours WHERE hour = '2026-10-05 10:00:00'") == 1
    filters = filters_of(store, "?period=2026-10-05")
    assert measured_hours(store, filters, "g2") == [], "neither power nor memory"
    chart = measured(measured_hours(store, filters, "g1"), filters, language("en"))
    lines, axis = chart["data"], chart["layout"]["xaxis"]["range"]
    assert [one.hour for one in axis] == [8, 12]
    early = measured(measured_hours(store, filters, "g1")[:1], filters, language("en"))
    ends = early["layout"]["xaxis"]["range"][1]
    assert ends.hour == 11, "as the chart of its time: as found, a removed device's axis ended with it"
    power = zip(lines[0]["x"], lines[0]["y"], strict=True)
    assert [(datetime.fromisoformat(at).hour, watts) for at, watts in power] == [
        (8, 300.0), (9, 300.0), (9, None), (10, 150.0), (11, 150.0), (11, 900.0), (12, 900.0),
    ]  # fmt: skip
    assert [value for value in lines[1]["y"] if value is not None] == [10, 10, 25, 25, 40, 40]


def test_a_device_without_hours_in_the_period_has_its_history_and_one_that_nobody_reported_is_told_to_be_unknown(
    store: Store,
) -> None:
    """As found of a device that was removed a month before: one sentence, the same as of a name that was mistyped."""
    put_all(store, {"devices": devices("2026-10-05T08:00", "g1", "g2")})
    gone = {**devices("2026-10-05T10:00", "g1")[0], "state": "removed"}
    put_all(store, {"devices": [gone]})
    close(store, until=at(END), now=datetime(2026, 10, 6, tzinfo=UTC))
    words = language("en")
    filters = filters_of(store, "?period=2026-10-05")
    shown = str(device_page(store, filters, words, "g1", None, at(END)))
    assert words("fleet.no_device") in shown
    assert words("device.removed") in shown
    unknown = str(device_page(store, filters, words, "g9", None, at(END)))
    assert words("fleet.unknown_device") in unknown
    assert words("fleet.history") not in unknown
    of_one = filters_of(store, "?period=2026-10-05&tenant=t")
    assert words("fleet.history") not in str(device_page(store, of_one, words, "g1", None, at(END)))
