"""What collectors produce: readings of devices, and rows of the contract as plain values.

Nothing here needs the engine or pyarrow: an agent on a GPU node imports it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Row = dict[str, Any]
"""One record of the contract: column -> value; `ts` is an aware UTC datetime; what says nothing is absent."""

State = Literal["ok", "idle", "unsupported", "no_permission", "blank", "stale"]
"""As in samples: only `ok` and `idle` carry a value; everything else is unknown, which is never zero."""

Severity = Literal["info", "warning", "critical"]


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of one metric over the interval, or the reason why it has none."""

    state: State
    value: float | None = None
    source: str = ""

    @property
    def usable(self) -> bool:
        return self.value is not None and self.state in ("ok", "idle")


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """One process on a device or partition, as the driver names it.

    pid: in the host's namespace.   activity: 0-1 of the device, averaged over the interval.   memory_bytes: held.
    kind: which list named it.
    """

    pid: int
    activity: Reading
    memory_bytes: Reading
    kind: Literal["compute", "graphics", "mps"] = "compute"


@dataclass(frozen=True, slots=True)
class DeviceReading:
    """A device, or one partition of it, over one interval.

    partition_id: the vendor's UUID of the partition, empty for the whole device.   readings: metric -> reading, names
    as in docs/telemetry.md.   processes_state: whether the list of processes can be believed: ok, idle (confirmed to
    be empty), or why not.   units: of the device; of the partition where it is one.
    """

    device_id: str
    partition_id: str = ""
    partition_profile: str = ""
    index: int | None = None
    vendor: str = ""
    model: str = ""
    units: int = 1
    readings: Mapping[str, Reading] = field(default_factory=dict)
    processes: tuple[ProcessReading, ...] = ()
    processes_state: State = "blank"


@dataclass
class Collected:
    """The result of one cycle of a collector."""

    rows: dict[str, list[Row]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)

    def add(self, record: str, row: Row) -> None:
        self.rows.setdefault(record, []).append(row)

    def __iadd__(self, other: Collected) -> Collected:
        for record, rows in other.rows.items():
            self.rows.setdefault(record, []).extend(rows)
        self.dropped += other.dropped
        return self
