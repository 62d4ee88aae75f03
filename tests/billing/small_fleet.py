"""Small fleets as facts, an hour a sample, and daily costs as a ledger: what the insights are tested on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import pyarrow as pa

from billing.close import close
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at
from warehouse.store import Store

H100, L40S = "NVIDIA H100 80GB HBM3", "NVIDIA L40S"
GIB = 1 << 30
START = at("2026-10-01 00:00")
RATES = [
    {"sku": "h100", "match": {"model": H100}, "price_per_gpu_hour": "2.80"},
    {"sku": "l40s", "match": {"model": L40S}, "price_per_gpu_hour": "1.00"},
]

Hourly = Callable[[int], float | None]
"""Utilization (0-1) in the nth hour since the start; None: no sample."""


@dataclass
class Job:
    """Holds devices from one hour to another (None: on), and uses each of them as said; memory in GiB."""

    name: str
    devices: Sequence[str] = ("GPU-0",)
    since: float = 0
    until: int | None = None
    use: float | Hourly = 0.0
    memory: float | None = 10.0
    tenant: str = "physics"
    project: str = "qcd"
    model: str = H100
    device_units: int = 1
    units: int = 1
    partition: str = ""
    profile: str = ""


def run(store: Store, jobs: Sequence[Job], hours: int, rates: Sequence[dict[str, Any]] = RATES) -> None:
    """Jobs as facts, one sample an hour, closed until `hours`."""
    apply_rate_card(store, parse_rate_card({"currency": "EUR", "rates": list(rates)}), "me", "", START)
    devices = {name: job for job in jobs for name in job.devices}
    insert(
        store,
        "devices",
        [
            {
                "ts": 0,
                "device_id": name,
                "model": job.model,
                "units": job.device_units,
                "memory_bytes": (48 if job.model == L40S else 80) * GIB,
                "state": "available",
            }
            for name, job in devices.items()
        ],
    )
    events = []
    for job in jobs:
        words = {"allocation_id": job.name, "workload_id": job.name, "tenant": job.tenant, "project": job.project}
        placed = {"partition_id": job.partition, "partition_profile": job.profile, "units": job.units}
        events += [{"ts": job.since, "event": "started", "device_id": d, **words, **placed} for d in job.devices]
        if job.until is not None:
            events.append({"ts": job.until, "event": "finished", "device_id": "", **words})
    insert(store, "events", events)
    insert(store, "samples", [sample for job in jobs for sample in samples(job, hours)])
    until = START + timedelta(hours=hours)
    close(store, until=until, now=until)


def samples(job: Job, hours: int) -> Iterator[dict[str, Any]]:
    for hour in range(int(job.since), hours if job.until is None else job.until):
        use = job.use(hour) if callable(job.use) else job.use
        if use is None:
            continue
        for device in job.devices:
            yield {
                "ts": hour + 1,
                "interval_seconds": 3600.0,
                "device_id": device,
                "partition_id": job.partition,
                "workload_id": job.name,
                "state": "ok" if use else "idle",
                "utilization": float(use),
                "memory_used_bytes": None if job.memory is None else int(job.memory * GIB),
            }


def insert(store: Store, table: str, rows: list[dict[str, Any]]) -> None:
    names = [name for name in dict.fromkeys(key for row in rows for key in row) if name != "ts"]
    times = [START + timedelta(hours=row["ts"]) for row in rows]
    columns: dict[str, Any] = {name: [row.get(name) for row in rows] for name in names}
    if "memory_used_bytes" in columns:
        columns["memory_used_bytes"] = pa.array(columns["memory_used_bytes"], pa.uint64())
    store.insert(table, pa.table({"ts": pa.array(times, pa.timestamp("ms", "UTC")), **columns}))


def busy_then_idle(hour: int) -> float:
    return 0.9 if hour < 10 else 0.0


def history(costs: Sequence[str | None], first: date = date(2026, 9, 1), tenant: str = "physics") -> list[Row]:
    """An hour a day at a price: what the day costs. None: its price is missing, "": nothing held."""
    days = [at(f"{first + timedelta(days=n)} 12:00") for n in range(len(costs))]
    return [
        Row(day, tenant, used=str(HOUR_MS), price=cost, workload=f"{tenant}-{day:%d}")
        for day, cost in zip(days, costs, strict=True)
        if cost != ""
    ]


def whole_days(first: date, days: int) -> list[datetime]:
    return [at(f"{first} 00:00") + timedelta(hours=n) for n in range(24 * days)]
