"""A ledger typed by hand: entries as a reader would write them, put where the close would put them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from warehouse.store import Store

HOUR_MS = 3_600_000


@dataclass
class Row:
    """An entry that starts at `at` and lasts an hour; amounts in unit-milliseconds, prices in decimals or None."""

    at: datetime
    tenant: str = ""
    project: str = ""
    device: str = "gpu-0"
    units: int = 1
    used: str = "0"
    idle: str = "0"
    unmetered: int = 0
    unallocated: int = 0
    unavailable: int = 0
    sku: str = "h100"
    price: str | None = "2.00"
    contracted: str | None = None
    model: str = "H100"
    currency: str = "EUR"
    queue: str = ""
    workload: str = ""
    cluster: str = ""
    profile: str = ""
    cost_center: str = ""
    estimated: str = ""
    node: str = "n1"
    pool: str = ""

    @property
    def hour(self) -> datetime:
        return self.at.replace(minute=0, second=0, microsecond=0)

    @property
    def held(self) -> bool:
        return not (self.unallocated or self.unavailable)


def fill(store: Store, rows: Sequence[Row], run: int = 7, closed: Iterable[datetime] = ()) -> None:
    """Writes the entries and closes their hours and those of `closed`."""
    columns = {
        "run": pa.array([run] * len(rows), pa.uint64()),
        "hour": _times([row.hour for row in rows]),
        "cluster": _texts(row.cluster for row in rows),
        "partition_profile": _texts(row.profile for row in rows),
        "cost_center": _texts(row.cost_center for row in rows),
        "node": _texts(row.node for row in rows),
        "device_id": _texts(row.device for row in rows),
        "model": _texts(row.model for row in rows),
        "pool": _texts(row.pool for row in rows),
        "device_units": pa.array([row.units for row in rows], pa.uint32()),
        "tenant": _texts(row.tenant for row in rows),
        "project": _texts(row.project for row in rows),
        "queue": _texts(row.queue for row in rows),
        "workload_id": _texts(row.workload for row in rows),
        "allocation_id": _texts(f"{row.tenant}/{row.project}" if row.held else "" for row in rows),
        "estimated": _texts(row.estimated for row in rows),
        "charge_period_start": _times([row.at for row in rows]),
        "charge_period_end": _times([row.hour + timedelta(hours=1) for row in rows]),
        "sku": _texts(row.sku if row.price else "" for row in rows),
        "list_unit_price": _texts(row.price for row in rows),
        "contracted_unit_price": _texts(row.contracted or row.price for row in rows),
        "billing_currency": _texts(row.currency if row.price else "" for row in rows),
        "used_unit_ms": _texts(row.used for row in rows),
        "idle_unit_ms": _texts(row.idle for row in rows),
        "unmetered_unit_ms": pa.array([row.unmetered for row in rows], pa.int64()),
        "unallocated_unit_ms": pa.array([row.unallocated for row in rows], pa.int64()),
        "unavailable_unit_ms": pa.array([row.unavailable for row in rows], pa.int64()),
    }
    if rows:
        store.insert("ledger_entries", pa.table(columns))
    close(store, [*(row.hour for row in rows), *closed], run)


def close(store: Store, hours: Iterable[datetime], run: int = 7) -> None:
    """From now on the hours' entries are those of the run."""
    closed = sorted(set(hours))
    runs = pa.array([run] * len(closed), pa.uint64())
    inputs = pa.array([0] * len(closed), pa.uint64())
    columns = {"hour": _times(closed), "run": runs, "checked_by": runs, "inputs": inputs, "content": runs}
    store.insert("closed_hours", pa.table(columns))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _texts(values: Iterable[str | None]) -> pa.Array:
    return pa.array(list(values), pa.string())


def _times(values: Sequence[datetime]) -> pa.Array:
    return pa.array(values, pa.timestamp("ms", "UTC"))
