"""Turns the driver's cumulative counters into increases within the interval, across resets and wraps.

A counter that fell has either wrapped or restarted. The hardware's limits decide which: a wrap is assumed if the rise
that it implies was possible in the time that passed and the counter cannot have wrapped twice. Otherwise the rise is
unknown (None): never negative, and never a jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pynvml

from collectors.nvml.library import WHOLE, Answer, FieldValue, state_of
from collectors.readings import Reading

SLACK_SECONDS = 1.0
"""How much older than its reading a counter's value may be: drivers refresh some only once a second."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A counter that becomes a metric. field: NVML's.   factor: to the metric's unit.   most: its own unit per second
    that no hardware exceeds.   per_second: the metric is a rate, else the rise within the interval."""

    field: int
    factor: float
    most: float
    per_second: bool = False
    scope: int = 0


NANOSECONDS = 1e-9
THROTTLES: Mapping[str, tuple[int, ...]] = {
    "throttle_power_seconds": (pynvml.NVML_FI_DEV_PERF_POLICY_POWER,),
    "throttle_sync_seconds": (pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST,),
    "throttle_thermal_seconds": (
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
        pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
    ),
    "throttle_hardware_seconds": (pynvml.NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,),
}
"""Metric -> fields in nanoseconds since the driver was loaded; of several the greatest, since they overlap."""
OLD_THERMAL = pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL
"""Stands for the thermal fields on drivers that have only this one."""
THROTTLE_MOST = 1.0e9

TRAFFIC: Mapping[str, Rate] = {
    "pcie_transmit_bytes_per_second": Rate(pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 1.0, 256e9, True),
    "pcie_receive_bytes_per_second": Rate(pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 1.0, 256e9, True),
    "nvlink_transmit_bytes_per_second": Rate(
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 1024.0, 4e9, True, scope=WHOLE
    ),
    "nvlink_receive_bytes_per_second": Rate(
        pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX, 1024.0, 4e9, True, scope=WHOLE
    ),
}
"""PCIe in bytes, NVLink in KiB over all links; only where GPM has no value."""
ENERGY_MOST = 3.0e6
"""Millijoules per second: no board draws 3 kW."""


def rise(previous: float, current: float, *, seconds: float, most: float, bits: int = 0) -> float | None:
    """By how much a counter rose in `seconds`; None where it cannot be known.

    most: the greatest rise per second that is possible.   bits: where it wraps, 0 if it does not.
    Shape:  0 <= rise <= most * (seconds + SLACK_SECONDS).
    """
    if not seconds > 0:
        return None
    possible = most * (seconds + SLACK_SECONDS)
    if bits and possible >= 2.0**bits:
        return None
    if current >= previous:
        risen = current - previous
    elif bits:
        risen = current - previous + 2**bits
    else:
        return None
    return risen if 0 <= risen <= possible else None


class Counters:
    """The last value of each counter of each device; `advance` gives the rise since."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], float] = {}

    def advance(
        self, device: str, counter: int, answer: Answer[FieldValue], seconds: float, most: float
    ) -> float | None:
        """The rise since the last cycle, in the counter's unit; None at first, and where it cannot be known."""
        key = (device, counter)
        if answer.value is None:
            self._last.pop(key, None)
            return None
        previous = self._last.get(key)
        self._last[key] = answer.value.value
        if previous is None:
            return None
        return rise(previous, answer.value.value, seconds=seconds, most=most, bits=answer.value.bits)

    def forget(self, device: str | None = None) -> None:
        """Start over, for one device or all: after a reset or a reload of the driver nothing is known of the time."""
        for key in [key for key in self._last if device is None or key[0] == device]:
            del self._last[key]

    def keep(self, devices: Iterable[str]) -> None:
        """Forget all others."""
        kept = set(devices)
        for key in [key for key in self._last if key[0] not in kept]:
            del self._last[key]


ENERGY = pynvml.NVML_FI_DEV_TOTAL_ENERGY_CONSUMPTION


def energy(counters: Counters, device: str, answer: Answer[int], seconds: float) -> dict[str, Reading]:
    """Joules since the driver was loaded, joules within the interval, and the mean power that they make."""
    source = "nvmlDeviceGetTotalEnergyConsumption"
    value = None if answer.value is None else FieldValue(float(answer.value), 0)
    risen = counters.advance(device, ENERGY, answer.given(value), seconds, ENERGY_MOST)
    state = answer.state if answer.value is None else "blank"
    total = Reading(state, source=source) if answer.value is None else Reading("ok", answer.value / 1000, source)
    if risen is None:
        unknown = Reading(state, source=source)
        return {"energy_joules_total": total, "energy_joules": unknown, "power_watts": unknown}
    return {
        "energy_joules_total": total,
        "energy_joules": Reading("ok", risen / 1000, source),
        "power_watts": Reading("ok", risen / 1000 / seconds, source),
    }


def throttling(
    counters: Counters, device: str, fields: Mapping[int, Answer[FieldValue]], seconds: float
) -> dict[str, Reading]:
    """Seconds within the interval in which clocks were held down, by reason."""
    risen = {
        field: _counted(counters, device, field, fields[field], seconds, THROTTLE_MOST)
        for field in (*(field for group in THROTTLES.values() for field in group), OLD_THERMAL)
    }
    readings: dict[str, Reading] = {}
    for metric, group in THROTTLES.items():
        known = [value for field in group if (value := risen[field]).value is not None]
        if not known and metric == "throttle_thermal_seconds" and risen[group[0]].state == "unsupported":
            group = (OLD_THERMAL,)
            known = [value for field in group if (value := risen[field]).value is not None]
        if known:
            most = max(value.value or 0.0 for value in known)
            readings[metric] = Reading("ok", min(most * NANOSECONDS, seconds), known[0].source)
        else:
            readings[metric] = risen[group[0]]
    return readings


def traffic(
    counters: Counters, device: str, fields: Mapping[int, Answer[FieldValue]], seconds: float
) -> dict[str, Reading]:
    """Bytes per second over PCIe and NVLink."""
    readings: dict[str, Reading] = {}
    for metric, rate in TRAFFIC.items():
        found = _counted(counters, device, rate.field, fields[rate.field], seconds, rate.most)
        if found.value is not None:
            found = Reading("ok", found.value * rate.factor / seconds, found.source)
        readings[metric] = found
    return readings


def _counted(
    counters: Counters, device: str, field: int, answer: Answer[FieldValue], seconds: float, most: float
) -> Reading:
    source = f"nvml field {field}"
    risen = counters.advance(device, field, answer, seconds, most)
    if risen is not None:
        return Reading("ok", risen, source)
    return Reading("blank" if answer.value is not None else state_of(answer.code), source=source)
