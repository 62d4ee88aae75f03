"""Facts as sources would send them, around one instant, put through the real ingest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from warehouse.records import RECORD_TYPES
from warehouse.store import Store

NOON = datetime(2026, 10, 6, 12, tzinfo=UTC)
"""The instant that rules are evaluated at; times of facts are minutes before it."""
GIB = 1 << 30
Fact = tuple[str, dict[str, Any]]


def ago(minutes: float) -> datetime:
    return NOON - timedelta(minutes=minutes)


def device(name: str = "GPU-0", since: float = 5000, **more: Any) -> list[Fact]:
    row = {
        "ts": ago(since),
        "device_id": name,
        "node": "n1",
        "model": "H100",
        "pool": "train",
        "state": "available",
        "units": 1,
    }
    return [("devices", {**row, **more})]


def submitted(name: str, minutes: float, **more: Any) -> list[Fact]:
    row = {"ts": ago(minutes), "allocation_id": name, "workload_id": name, "tenant": "physics", "queue": "train"}
    return [("events", {**row, "event": "submitted", **more})]


def started(name: str, minutes: float, *devices: str, event: str = "started", **more: Any) -> list[Fact]:
    about = {"node": "n1", **more, "event": event}
    return [fact for one in devices or ("GPU-0",) for fact in submitted(name, minutes, device_id=one, **about)]


def ended(name: str, minutes: float, event: str = "finished", **more: Any) -> list[Fact]:
    return submitted(name, minutes, event=event, **more)


def sampled(name: str, first: int, last: int, utilization: float | None = 0.0, **more: Any) -> list[Fact]:
    """A sample for each minute from `first` to `last` minutes ago."""
    state = "blank" if utilization is None else "ok" if utilization else "idle"
    row = {"interval_seconds": 60.0, "device_id": name, "node": "n1", "state": state, "utilization": utilization}
    return [("samples", {"ts": ago(minute), **row, **more}) for minute in range(first, last - 1, -1)]


def metric(name: str, values: Iterable[tuple[float, float | None]], device_id: str = "GPU-0") -> list[Fact]:
    """(minutes ago, value) of a metric; None: asked, and no value."""
    row = {"interval_seconds": 60.0, "device_id": device_id, "node": "n1", "metric": name}
    return [
        ("metrics", {"ts": ago(minutes), **row, "value": value, "state": "blank" if value is None else "ok"})
        for minutes, value in values
    ]


def found(finding: str, minutes: float, severity: str = "critical", **more: Any) -> list[Fact]:
    row = {"ts": ago(minutes), "finding": finding, "severity": severity, "node": "n1", "device_id": "GPU-0"}
    return [("findings", {**row, **more})]


def served(minutes: float, metric: str, value: float, **more: Any) -> list[Fact]:
    row = {"ts": ago(minutes), "interval_seconds": 60.0, "service": "chat", "metric": metric, "value": value}
    return [("service_levels", {**row, **more})]


TYPES = {
    "time": pa.timestamp("ms", "UTC"),
    "float": pa.float64(),
    "uint": pa.uint64(),
    "int": pa.int64(),
    "text": pa.string(),
    "bool": pa.bool_(),
}


def put(store: Store, facts: Iterable[Fact], cluster: str = "") -> None:
    """Writes facts as ingest would; those that name no cluster belong to the one given."""
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record, row in facts:
        rows[record].append({"cluster": cluster, **row})
    for record, of_record in rows.items():
        kind = RECORD_TYPES[record]
        columns = {}
        for name in dict.fromkeys(name for row in of_record for name in row):
            text = kind.column(name).type == "text"
            values = [row.get(name, "" if text else None) for row in of_record]
            columns[name] = pa.array(values, TYPES[kind.column(name).type])
        store.insert(record, pa.table(columns))
