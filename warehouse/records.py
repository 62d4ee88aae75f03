"""The facts: which columns each has, in which unit, and what makes two records the same.

This is the contract of files, wire and tables alike (see docs/contracts.md). It needs neither the
engine nor pyarrow, so an agent on a GPU node can import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ColumnType = Literal["time", "float", "uint", "int", "text", "bool"]

USABLE_STATES = ("ok", "idle")
"""Sample states that carry a usable value; all others mean 'unknown', which is never zero."""
SAMPLE_STATES = (*USABLE_STATES, "unsupported", "no_permission", "blank", "stale")
TERMINAL_EVENTS = ("preempted", "finished", "failed", "cancelled", "rejected")
PLACING_EVENTS = ("started", "resized", "resumed")
ALLOCATION_EVENTS = ("submitted", *PLACING_EVENTS, "suspended", *TERMINAL_EVENTS)
DEVICE_STATES = ("available", "unavailable", "removed")
SEVERITIES = ("info", "warning", "critical")

MAX_INTERVAL_SECONDS = 3600
"""A sample covers at most an hour, so that it touches at most its own hour and the one before."""
MAX_UNITS = 1024
"""Most units a device can have; keeps an hour's used unit-nanoseconds within 64 bits."""
WHOLE: Mapping[ColumnType, tuple[int, int]] = {"uint": (0, 2**64 - 1), "int": (-(2**63), 2**63 - 1)}
"""What the types of whole numbers hold."""


@dataclass(frozen=True)
class Column:
    """One column of a record type.

    `required`: a file without it, or a row in which it is null, is refused.
    `choices`: the only values allowed.   `minimum`, `maximum`: inclusive.
    """

    name: str
    type: ColumnType
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: float | None = None
    maximum: float | None = None

    def whole_range(self) -> str:
        """The range of a column of whole numbers in words: its own, or what its type holds."""
        low, high = WHOLE[self.type]
        least = low if self.minimum is None else f"{self.minimum:g}"
        return f"{least} to {high if self.maximum is None else f'{self.maximum:g}'}"


@dataclass(frozen=True)
class RecordType:
    """One fact: its name (also its table's), its columns in order, and its natural key."""

    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def required(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns if column.required)


def _ratio(name: str) -> Column:
    return Column(name, "float", minimum=0.0, maximum=1.0)


SAMPLES = RecordType(
    "samples",
    (
        Column("ts", "time", required=True),
        Column("interval_seconds", "float", required=True, minimum=0.001, maximum=MAX_INTERVAL_SECONDS),
        Column("cluster", "text"),
        Column("node", "text"),
        Column("device_id", "text", required=True),
        Column("partition_id", "text"),
        Column("workload_id", "text"),
        Column("state", "text", required=True, choices=SAMPLE_STATES),
        _ratio("utilization"),
        Column("utilization_source", "text"),
        _ratio("sm_active"),
        _ratio("tensor_active"),
        _ratio("dram_active"),
        Column("memory_used_bytes", "uint"),
        Column("memory_total_bytes", "uint"),
        Column("power_watts", "float", minimum=0.0),
        Column("energy_joules", "float", minimum=0.0),
        Column("temperature_celsius", "float"),
    ),
    key=("cluster", "device_id", "partition_id", "workload_id", "ts"),
)

NARROW = frozenset({"sm_active", "tensor_active", "dram_active", "power_watts", "temperature_celsius"})
"""Columns that the table keeps in four bytes: what comes back is what was written to seven digits."""
MOST_NARROW = (2 - 2**-23) * 2.0**127
"""The greatest finite number of four bytes; what is above it comes back as infinite."""

EVENTS = RecordType(
    "events",
    (
        Column("ts", "time", required=True),
        Column("cluster", "text"),
        Column("source", "text"),
        Column("allocation_id", "text", required=True),
        Column("workload_id", "text"),
        Column("event", "text", required=True, choices=ALLOCATION_EVENTS),
        Column("tenant", "text"),
        Column("project", "text"),
        Column("queue", "text"),
        Column("priority", "int"),
        Column("gpus", "float", minimum=0.0),
        Column("node", "text"),
        Column("device_id", "text"),
        Column("partition_id", "text"),
        Column("partition_profile", "text"),
        Column("units", "uint", minimum=1, maximum=MAX_UNITS),
        Column("preemptible", "bool"),
        Column("reason", "text"),
        Column("message", "text"),
        Column("actor", "text"),
    ),
    key=("cluster", "allocation_id", "event", "ts", "device_id", "partition_id"),
)

DEVICES = RecordType(
    "devices",
    (
        Column("ts", "time", required=True),
        Column("cluster", "text"),
        Column("node", "text"),
        Column("device_id", "text", required=True),
        Column("vendor", "text"),
        Column("model", "text", required=True),
        Column("memory_bytes", "uint"),
        Column("units", "uint", minimum=1, maximum=MAX_UNITS),
        Column("pool", "text"),
        Column("state", "text", required=True, choices=DEVICE_STATES),
    ),
    key=("cluster", "device_id", "ts"),
)

SERVICE_LEVELS = RecordType(
    "service_levels",
    (
        Column("ts", "time", required=True),
        Column("interval_seconds", "float", required=True, minimum=0.001, maximum=86400),
        Column("cluster", "text"),
        Column("service", "text", required=True),
        Column("workload_id", "text"),
        Column("tenant", "text"),
        Column("metric", "text", required=True),
        _ratio("quantile"),
        Column("value", "float"),
        Column("value_low", "float"),
        Column("value_high", "float"),
        Column("observations", "uint"),
    ),
    key=("cluster", "service", "workload_id", "metric", "quantile", "ts"),
)

METRICS = RecordType(
    "metrics",
    (
        Column("ts", "time", required=True),
        Column("interval_seconds", "float", required=True, minimum=0.001, maximum=MAX_INTERVAL_SECONDS),
        Column("cluster", "text"),
        Column("node", "text"),
        Column("device_id", "text", required=True),
        Column("partition_id", "text"),
        Column("workload_id", "text"),
        Column("metric", "text", required=True),
        Column("state", "text", required=True, choices=SAMPLE_STATES),
        Column("value", "float"),
        Column("source", "text"),
    ),
    key=("cluster", "device_id", "partition_id", "workload_id", "metric", "ts"),
)

FINDINGS = RecordType(
    "findings",
    (
        Column("ts", "time", required=True),
        Column("cluster", "text"),
        Column("node", "text"),
        Column("device_id", "text"),
        Column("partition_id", "text"),
        Column("workload_id", "text"),
        Column("finding", "text", required=True),
        Column("severity", "text", required=True, choices=SEVERITIES),
        Column("message", "text"),
        Column("source", "text"),
    ),
    key=("cluster", "node", "device_id", "partition_id", "workload_id", "finding", "message", "ts"),
)

RECORD_TYPES: Mapping[str, RecordType] = {
    record.name: record for record in (SAMPLES, EVENTS, DEVICES, SERVICE_LEVELS, METRICS, FINDINGS)
}
