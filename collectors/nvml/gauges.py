"""Instantaneous metrics: memory, temperature, clocks, limits, and counts that only the driver sums.

Each function names the call or field that it reads.
"""

from __future__ import annotations

from collections.abc import Mapping

import pynvml

from collectors.nvml.library import FUNCTION_NOT_FOUND, VERSION_MISMATCH, Answer, FieldValue, Handle, Nvml, reading
from collectors.readings import Reading

MEGAHERTZ = 1e6
MILLIWATT = 1e-3
HOTTEST = 200.0
"""°C; above it is garbage."""
MOST_WATTS = 3000.0

FIELDS: Mapping[str, tuple[int, float | None]] = {
    "memory_temperature_celsius": (pynvml.NVML_FI_DEV_MEMORY_TEMP, HOTTEST),
    "pcie_replay_total": (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, None),
    "rows_remapped_corrected_total": (pynvml.NVML_FI_DEV_REMAPPED_COR, None),
    "rows_remapped_uncorrected_total": (pynvml.NVML_FI_DEV_REMAPPED_UNC, None),
    "row_remap_pending": (pynvml.NVML_FI_DEV_REMAPPED_PENDING, 1.0),
    "row_remap_failure": (pynvml.NVML_FI_DEV_REMAPPED_FAILURE, 1.0),
}
"""Metric -> field and the greatest value that it can have."""
RECOVERY = pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
ACTIONS = {
    pynvml.NVML_GPU_RECOVERY_ACTION_GPU_RESET: "reset the GPU",
    pynvml.NVML_GPU_RECOVERY_ACTION_NODE_REBOOT: "reboot the node",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_P2P: "drain peer-to-peer traffic",
    pynvml.NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET: "drain, then reset the GPU",
}
"""What the driver asks for (field 230), in words; other values ask nothing of one GPU."""


def memory(nvml: Nvml, handle: Handle) -> dict[str, Reading]:
    """Bytes of a device or MIG device; memory that the driver reserves for itself does not count as used."""
    source = "nvmlDeviceGetMemoryInfo_v2"
    answer = nvml.memory(handle)
    names = ("memory_used_bytes", "memory_free_bytes", "memory_reserved_bytes", "memory_total_bytes")
    if answer.value is None:
        return dict.fromkeys(names, Reading(answer.state, source=source))
    info = answer.value
    values = (info.used, info.free, info.reserved, info.total)
    return {
        name: Reading("unsupported", source=source) if value is None else Reading("ok", float(value), source)
        for name, value in zip(names, values, strict=True)
    }


def gauges(nvml: Nvml, handle: Handle) -> dict[str, Reading]:
    """Temperature, clocks, the power limit in force, and ECC errors over the board's life."""
    sm, mem = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    limit = nvml.number("nvmlDeviceGetEnforcedPowerLimit", handle)
    return {
        "temperature_celsius": reading(_temperature(nvml, handle), "nvmlDeviceGetTemperature", low=-50.0, high=HOTTEST),
        "sm_clock_hertz": reading(
            nvml.number("nvmlDeviceGetClockInfo", handle, sm), "nvmlDeviceGetClockInfo", factor=MEGAHERTZ
        ),
        "memory_clock_hertz": reading(
            nvml.number("nvmlDeviceGetClockInfo", handle, mem), "nvmlDeviceGetClockInfo", factor=MEGAHERTZ
        ),
        "power_limit_watts": reading(limit, "nvmlDeviceGetEnforcedPowerLimit", factor=MILLIWATT, high=MOST_WATTS),
        "ecc_corrected_total": _ecc(nvml, handle, pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED),
        "ecc_uncorrected_total": _ecc(nvml, handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED),
    }


def from_fields(fields: Mapping[int, Answer[FieldValue]]) -> dict[str, Reading]:
    """The metrics of FIELDS."""
    readings: dict[str, Reading] = {}
    for metric, (field, high) in FIELDS.items():
        answer = fields[field]
        value = answer.given(None if answer.value is None else answer.value.value)
        readings[metric] = reading(value, f"nvml field {field}", high=high)
    return readings


def recovery(fields: Mapping[int, Answer[FieldValue]]) -> str:
    """The action that the driver asks for, such as a reset; empty: none."""
    value = fields[RECOVERY].value
    return "" if value is None else ACTIONS.get(int(value.value), "")


def power(nvml: Nvml, handle: Handle) -> Reading:
    """Watts now; for devices that do not count energy."""
    return reading(
        nvml.number("nvmlDeviceGetPowerUsage", handle), "nvmlDeviceGetPowerUsage", factor=MILLIWATT, high=MOST_WATTS
    )


def _temperature(nvml: Nvml, handle: Handle) -> Answer[int]:
    answer = nvml.number("nvmlDeviceGetTemperatureV", handle, pynvml.NVML_TEMPERATURE_GPU)
    if answer.code in (FUNCTION_NOT_FOUND, VERSION_MISMATCH):
        return nvml.number("nvmlDeviceGetTemperature", handle, pynvml.NVML_TEMPERATURE_GPU)
    return answer


def _ecc(nvml: Nvml, handle: Handle, kind: int) -> Reading:
    answer = nvml.number("nvmlDeviceGetTotalEccErrors", handle, kind, pynvml.NVML_AGGREGATE_ECC)
    return reading(answer, "nvmlDeviceGetTotalEccErrors")
