"""Facts as a source would send them, put through the real ingest into a store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from ingest import ingest_tables
from tests.billing.hand_ledger import at
from warehouse.records import DEVICES, EVENTS, SAMPLES
from warehouse.store import Store

RECORDS = {record.name: record for record in (DEVICES, EVENTS, SAMPLES)}
SAMPLE: dict[str, Any] = {"interval_seconds": 60.0, "state": "ok"}
Facts = dict[str, list[dict[str, Any]]]


def put(store: Store, record: str, rows: Sequence[dict[str, Any]], sender: str = "", source: str = "test") -> None:
    """sender, source: who pushed them, and by what; a source `push:...` is what a close may let wait."""
    if rows:
        names = dict.fromkeys(name for row in rows for name in row)
        table = pa.table({name: [row.get(name) for row in rows] for name in names})
        ingest_tables(store, RECORDS[record], source, [table], sender=sender)


def put_all(store: Store, facts: Facts) -> None:
    for record, rows in facts.items():
        put(store, record, rows)


def devices(since: str, *names: str, **more: Any) -> list[dict[str, Any]]:
    return [
        {"ts": at(since), "device_id": name, "model": "H100", "state": "available", "node": "n1", **more}
        for name in names
    ]


def job(name: str, tenant: str, device: str, start: str, end: str, **more: Any) -> list[dict[str, Any]]:
    """A job that holds (a part of) one device from start to end."""
    about = {"allocation_id": name, "tenant": tenant, "workload_id": name, **more}
    units = about.pop("units", None)
    return [
        {**about, "ts": at(start), "event": "started", "device_id": device, "units": units},
        {**about, "ts": at(end), "event": "finished", "device_id": "", "units": None},
    ]


def samples(device: str, start: str, minutes: Iterable[int], utilization: float = 0.5) -> list[dict[str, Any]]:
    """A sample of a minute for each n of `minutes`: it covers the minute that starts n minutes after `start`."""
    first: datetime = at(start)
    return [
        {**SAMPLE, "ts": first + timedelta(minutes=n + 1), "device_id": device, "utilization": utilization}
        for n in minutes
    ]
