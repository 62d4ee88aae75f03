"""Decides which of a device's readings to trust, and for what. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from collectors.readings import DeviceReading, ProcessReading, Reading
from warehouse.records import MOST_NARROW

RATIO_SUFFIXES = ("_active", "_activity", "_utilization", "_occupancy")
_ROUNDING = 1.001
"""A mean of samples may come out so much above 1."""
_UNSET_BYTES = 2.0**62
"""Drivers fill a size that they do not know with ones."""

# Partitions share the board's sensors and clocks: exporters repeat them for each, and their sum is nonsense.
_BOARD_PREFIXES = ("power_", "energy_", "throttle_", "pcie_", "temperature_", "memory_temperature_")
_BOARD_SUFFIXES = ("_clock_hertz",)


def is_of_board(metric: str) -> bool:
    """Whether a metric covers the whole board, even if a partition reports it."""
    return metric.startswith(_BOARD_PREFIXES) or metric.endswith(_BOARD_SUFFIXES)


def unknown(reading: Reading) -> Reading:
    """A reading without a value, with its own state; blank if its state promises a value."""
    state = "blank" if reading.state in ("ok", "idle") else reading.state
    return Reading(state, None, reading.source)


def in_range(metric: str, reading: Reading) -> Reading:
    """The reading; blank, without a value, if the value is out of the metric's range."""
    if not reading.usable or reading.value is None:
        return unknown(reading)
    value = reading.value
    if not abs(value) <= MOST_NARROW or (value < 0 and not metric.endswith("_celsius")):
        return unknown(reading)
    if metric.endswith(RATIO_SUFFIXES) and value > 1:
        return replace(reading, value=1.0) if value <= _ROUNDING else unknown(reading)
    if metric.endswith("_bytes") and value >= _UNSET_BYTES:
        return unknown(reading)
    return reading


def activity_measures(divided: bool) -> tuple[str, ...]:
    """The metrics that measure activity, the best first. divided: a partition, or a device that has some."""
    return ("sm_active", "graphics_active") if divided else ("sm_active", "gpu_utilization", "graphics_active")


def best_activity(readings: Mapping[str, Reading], divided: bool) -> tuple[str, Reading]:
    """The best measure of activity that is usable, and its metric; else why the last resort is not.

    divided: a partition, or a device that has some.
    Traps:   with MIG, `gpu_utilization` is absent or a false 0, on the device and on its instances.
    """
    best_first = activity_measures(divided)
    for name in best_first:
        if name in readings and readings[name].usable:
            return name, readings[name]
    for name in ("gpu_utilization", "graphics_active", "sm_active"):
        if name in best_first and name in readings:
            return "", unknown(readings[name])
    return "", Reading("unsupported" if divided else "blank")


def time_share(reading: DeviceReading) -> Reading:
    """The share of time in which the device was in use; unlike sm_active, the activity of processes is a part of it."""
    names = ("graphics_active",) if reading.partition_id else ("gpu_utilization", "graphics_active")
    asked = [in_range(name, reading.readings[name]) for name in names if name in reading.readings]
    usable = [one for one in asked if one.usable]
    return (usable or asked or [Reading("unsupported" if reading.partition_id else "blank")])[0]


def one_per_pid(processes: tuple[ProcessReading, ...]) -> tuple[ProcessReading, ...]:
    """Lists each pid once, if several of the driver's lists have it, with the highest values of any of them."""
    merged: dict[int, ProcessReading] = {}
    for process in processes:
        activity = in_range("process_activity", process.activity)
        memory = in_range("memory_used_bytes", process.memory_bytes)
        if other := merged.get(process.pid):
            activity, memory = _higher(other.activity, activity), _higher(other.memory_bytes, memory)
        merged[process.pid] = replace(other or process, activity=activity, memory_bytes=memory)
    return tuple(merged.values())


def _higher(one: Reading, other: Reading) -> Reading:
    if one.usable and other.usable:
        return max(one, other, key=lambda reading: reading.value or 0.0)
    return other if other.usable else one
