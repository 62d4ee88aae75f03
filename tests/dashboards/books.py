"""Books made up for the pages: ledger entries written straight into a store, with sums that a reader can check."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from warehouse.store import Store, migrate

HOUR_MS = 3_600_000


def entry(hour: datetime, device: str, **kinds: Any) -> dict[str, Any]:
    """One ledger row; kinds in GPU-hours (used=0.5), the rest by column name. Costs 2 EUR a GPU-hour unless told."""
    row: dict[str, Any] = {
        "hour": hour,
        "device_id": device,
        "device_units": 1,
        "tenant": "",
        "allocation_id": "",
        "price": 2.0,
        "billing_currency": "EUR",
    }
    row.update({key: value for key, value in kinds.items() if key in row})
    for kind in ("used", "idle", "unmetered", "unallocated", "unavailable"):
        row[kind] = round(kinds.get(kind, 0.0) * HOUR_MS * row["device_units"])
    return row


def fill(store: Store, rows: Iterable[Mapping[str, Any]]) -> None:
    """Migrates the store and makes the rows its closed ledger."""
    migrate(store)
    listed = [dict(row) for row in rows]
    table = pa.Table.from_pylist(listed)
    with store.staged(table) as source:
        store.command(
            "INSERT INTO ledger_entries (run, hour, device_id, model, device_units, units, tenant, allocation_id, sku, "
            "list_unit_price, contracted_unit_price, billing_currency, charge_period_start, charge_period_end, "
            "used_unit_ms, idle_unit_ms, unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms) "
            "SELECT 1, hour, device_id, 'H100', device_units, device_units, tenant, allocation_id, 'gpu', "
            "toDecimal64OrNull(toString(price), 9), toDecimal64OrNull(toString(price), 9), billing_currency, hour, "
            f"hour + INTERVAL 1 HOUR, used, idle, unmetered, unallocated, unavailable FROM {source}"
        )
    hours = pa.table({"hour": sorted({row["hour"] for row in listed})})
    with store.staged(hours) as source:
        store.command(
            f"INSERT INTO closed_hours (hour, run, checked_by, inputs, content) SELECT hour, 1, 1, 0, 1 FROM {source}"
        )


def month_of_a_fleet(start: datetime, hours: int, devices: int) -> list[dict[str, Any]]:
    """A plausible month: a daily rhythm, tenants of different thrift, a node down, a gap in the telemetry."""
    thrift = {"vision": 0.86, "speech": 0.7, "llm-pretraining": 0.93, "robotics": 0.42, "学术组": 0.6, "growth": 0.31}
    names = list(thrift)
    rows = []
    for number in range(hours):
        hour = start + timedelta(hours=number)
        busy = 0.62 + 0.25 * (8 <= hour.hour < 20) - 0.18 * (hour.weekday() >= 5)
        for device in range(devices):
            tenant = names[(device * 7 + number // 61) % len(names)]
            name = f"GPU-{device:03}"
            if 200 <= number < 236 and device < devices // 8:
                rows.append(entry(hour, name, unavailable=1.0))
            elif (device * 37 + number // 9 * 11) % 100 < busy * 100:
                gap = 0.9 if 380 <= number < 402 and device % 3 else 0.02
                used = (1 - gap) * thrift[tenant] * (0.8 + 0.2 * ((device + number) % 5) / 4)
                share = {"used": used, "idle": 1 - gap - used, "unmetered": gap}
                rows.append(entry(hour, name, tenant=tenant, allocation_id=f"a{device}", **share))
            else:
                rows.append(entry(hour, name, unallocated=1.0))
    return rows
