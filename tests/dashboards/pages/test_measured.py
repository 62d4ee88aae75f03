"""A device's power and memory by hour, against averages of the same samples taken one by one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing.close import close
from dashboards.pages import fleet
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
    assert [(row["power_watts"], row["memory_bytes"]) for row in found] == [
        (pytest.approx(watts), pytest.approx(size)) for watts, size in truth
    ]
