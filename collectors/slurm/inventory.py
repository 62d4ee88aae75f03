"""Maps a node's gres indices to devices.

Slurm numbers a node's GPUs in the order of their device files (/dev/nvidiaN, the minor number), NVML by PCI address;
the two can differ, and under MIG an index is an instance. So the site says it, in a CSV with a header:

    node,index,device_id,partition_id,units,model,vendor,memory_bytes,device_units,pool
    gpu01,0,GPU-4f1c...,,,NVIDIA H100 80GB HBM3,nvidia,85520809984,1,train
    gpu02,0,GPU-77ab...,MIG-90d2...,3,NVIDIA H100 80GB HBM3,nvidia,85520809984,7,mig

units: of the device that this index is; empty: all.   model to pool: of the device; needed for its state only.

Source: https://slurm.schedmd.com/gres.html (GPU Management)
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from collectors.errors import CollectorError
from warehouse.records import MAX_UNITS

PERCENTS = 100
"""Of gres/mps that a GPU usually has: the percentage of its threads that a client may use."""


@dataclass(frozen=True, slots=True)
class GresDevice:
    """The device, or partition of one, that a gres index names; device_units: how many the whole device has."""

    device_id: str
    partition_id: str = ""
    units: int | None = None
    model: str = ""
    vendor: str = ""
    memory_bytes: int | None = None
    device_units: int = 1
    pool: str = ""


Inventory = Mapping[tuple[str, int], GresDevice]
"""(node, gres index) -> place."""


def read_inventory(path: Path) -> dict[tuple[str, int], GresDevice]:
    """Errors: CollectorError naming file and row."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            missing = {"node", "index", "device_id"} - set(rows.fieldnames or ())
            if missing:
                raise CollectorError(str(path), f"no column {', '.join(sorted(missing))}", "It is a CSV with a header")
            return _places(path, rows)
    except (OSError, UnicodeDecodeError, csv.Error) as mistake:
        raise CollectorError(str(path), f"cannot be read: {mistake}", "Give the CSV of the nodes' devices") from mistake


def shares_of(inventory: Inventory) -> dict[str, int]:
    """How many shards are a GPU, as `device_units` says, where all whole devices that have several agree; and how many
    of gres/mps, if they are 100. Of any other number, 50 may be half of a GPU or 50 units of it."""
    sizes = {place.device_units for place in inventory.values() if not place.partition_id and place.device_units > 1}
    if len(sizes) != 1:
        return {}
    (size,) = sizes
    return {"shard": size, "mps": size} if size == PERCENTS else {"shard": size}


def _places(path: Path, rows: csv.DictReader[str]) -> dict[tuple[str, int], GresDevice]:
    found: dict[tuple[str, int], GresDevice] = {}
    for number, row in enumerate(rows, 2):
        reported = {name: (value or "").strip() for name, value in row.items() if isinstance(value, str) and name}
        try:
            key = reported.get("node", ""), int(reported.get("index", ""))
            place = _place(reported)
        except ValueError as mistake:
            raise CollectorError(f"{path}, line {number}", str(mistake), "Numbers are whole, or left empty") from None
        if not key[0] or not place.device_id:
            raise CollectorError(f"{path}, line {number}", "node or device_id is empty", "Each row names both")
        if key in found:
            raise CollectorError(f"{path}, line {number}", f"{key[0]} has index {key[1]} twice", "Leave one of them")
        found[key] = place
    return found


def _place(reported: Mapping[str, str]) -> GresDevice:
    def number(name: str) -> int | None:
        value = int(reported[name]) if reported.get(name) else None
        if value is not None and not 1 <= value <= (MAX_UNITS if name.endswith("units") else 1 << 60):
            raise ValueError(f"{name} is {value}")
        return value

    return GresDevice(
        device_id=reported.get("device_id", ""),
        partition_id=reported.get("partition_id", ""),
        units=number("units"),
        model=reported.get("model", ""),
        vendor=reported.get("vendor", ""),
        memory_bytes=number("memory_bytes"),
        device_units=number("device_units") or 1,
        pool=reported.get("pool", ""),
    )
