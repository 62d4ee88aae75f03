"""Prometheus's text format: families of metrics, and what was measured of devices in it.

Names are Prometheus's way, base unit last: `gpu_` of a device, `gpu_partition_` of a part of it, `gpu_workload_` of one
workload on it, so that a sum over a name counts nothing twice. What is unknown has no value, and a series of
`gpu_reading_state` that says why.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from collectors.readings import Collected, Row

Labels = tuple[tuple[str, str], ...]
Kind = Literal["counter", "gauge"]


@dataclass
class Family:
    """A metric and its series. A counter's name ends in `_total`."""

    name: str
    kind: Kind
    help: str
    series: dict[Labels, float] = field(default_factory=dict)

    def add(self, value: float, **labels: str) -> None:
        self.series[tuple(labels.items())] = value


def render(families: Iterable[Family]) -> str:
    """Source: https://prometheus.io/docs/instrumenting/exposition_formats/"""
    lines = []
    for family in families:
        if not family.series:
            continue
        lines.append(f"# HELP {family.name} {escaped(family.help, quotes=False)}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for labels, value in family.series.items():
            reported = ",".join(f'{name}="{escaped(text)}"' for name, text in labels if text)
            lines.append(f"{family.name}{f'{{{reported}}}' if reported else ''} {_number(value)}")
    return "".join(line + "\n" for line in lines)


def escaped(text: str, quotes: bool = True) -> str:
    """A label's value; without `quotes`, a help text."""
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


_PLACE = ("cluster", "node", "device_id", "partition_id", "workload_id")
_OF_SAMPLE = (
    "sm_active",
    "tensor_active",
    "dram_active",
    "memory_used_bytes",
    "memory_total_bytes",
    "power_watts",
    "energy_joules",
    "temperature_celsius",
)
_RATIOS = ("_active", "_utilization", "_occupancy", "_activity", "_share")
_LATER = 3
"""So many intervals after its last row a series is gone."""


def exposed(metric: str) -> tuple[str, Kind, bool]:
    """(name without prefix, type, whether the values of intervals are to be added up) of one of our metrics."""
    metric = metric.removeprefix("gpu_")
    if metric.endswith("_total"):
        return metric, "counter", False
    if metric == "energy_joules" or (metric.startswith("throttle_") and metric.endswith("_seconds")):
        return f"{metric}_total", "counter", True
    if metric.endswith(_RATIOS) or metric in ("utilization", "activity"):
        return f"{metric}_ratio", "gauge", False
    return metric, "gauge", False


class DeviceMetrics:
    """The last rows of each source; made into metric families on request. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: dict[str, list[Row]] = {}
        self._sums: dict[tuple[str, Labels], float] = {}
        self._devices: dict[str, Row] = {}

    def show(self, source: str, collected: Collected, now: datetime) -> None:
        """Takes a tick's rows in place of those of the tick before."""
        with self._lock:
            for row in collected.rows.get("devices", ()):
                self._devices[row["device_id"]] = row
            samples, metrics = collected.rows.get("samples", []), collected.rows.get("metrics", [])
            if samples or metrics:
                self._last[source] = [*samples, *metrics]
            for row in samples:
                self._add_up(row, "energy_joules", row.get("energy_joules"))
            for row in metrics:
                if row["metric"].startswith("throttle_"):
                    self._add_up(row, row["metric"], row.get("value"))

    def families(self, now: datetime) -> list[Family]:
        with self._lock:
            found: dict[str, Family] = {}
            states = Family("gpu_reading_state", "gauge", "1: why a metric has no value now; unknown is not zero.")
            for rows in self._last.values():
                for row in rows:
                    if (now - row["ts"]).total_seconds() <= _LATER * row["interval_seconds"]:
                        self._add_row(found, states, row)
            return [_info(self._devices.values()), *sorted(found.values(), key=lambda one: one.name), states]

    def _add_up(self, row: Row, metric: str, value: float | None) -> None:
        if value is not None:
            key = _prefix(row) + exposed(metric)[0], _place(row)
            self._sums[key] = self._sums.get(key, 0.0) + value

    def _add_row(self, found: dict[str, Family], states: Family, row: Row) -> None:
        if "metric" in row:
            if row["metric"] != "energy_joules_total":  # the sums of energy have that name
                self._add(found, states, row, row["metric"], row.get("value"), row["state"])
            return
        self._add(found, states, row, "activity", row.get("utilization"), row["state"])
        for name in _OF_SAMPLE:
            if row.get(name) is not None:
                self._add(found, states, row, name, row[name], "ok")

    def _add(
        self, found: dict[str, Family], states: Family, row: Row, metric: str, value: float | None, state: str
    ) -> None:
        labels = _place(row)
        if value is None:
            states.series[(*labels, ("metric", metric), ("state", state))] = 1
            return
        stem, kind, adds_up = exposed(metric)
        name = _prefix(row) + stem
        if adds_up:
            value = self._sums.get((name, labels), 0.0)
        if metric == "activity":
            labels = (*labels, ("source", row.get("utilization_source") or ""))
        family = found.setdefault(name, Family(name, kind, f"{metric} (docs/telemetry.md)."))
        family.series[labels] = value


def _info(devices: Iterable[Row]) -> Family:
    info = Family("gpu_info", "gauge", "1: a device and what it is.")
    for row in devices:
        if row["state"] != "removed":
            names = ("cluster", "node", "device_id", "vendor", "model", "pool", "state")
            info.add(1, **{name: str(row.get(name) or "") for name in names}, units=str(row.get("units", 1)))
    return info


def _place(row: Row) -> Labels:
    return tuple((name, str(row.get(name) or "")) for name in _PLACE)


def _prefix(row: Mapping[str, object]) -> str:
    if row.get("workload_id"):
        return "gpu_workload_"
    return "gpu_partition_" if row.get("partition_id") else "gpu_"
