"""GPM: what the SMs, tensor cores and memory did between two cycles; Hopper and newer, whole devices and MIG alike.

A metric is computed from two samples of the device (or of one GPU instance) that lie at least 0.1 s apart. This module
holds the last sample of each and frees every one it takes.

Source: nvmlGpmMetricsGet; each metric has its own return code, and metrics of context switches are evidence that is
not documented beyond their names, so their absence is never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pynvml

from collectors.nvml.library import (
    NOT_SUPPORTED,
    SUCCESS,
    Answer,
    Handle,
    Nvml,
    NvmlDeviceError,
    NvmlLibraryError,
    reading,
    state_of,
)
from collectors.readings import Reading, State

MEBIBYTE = float(1 << 20)
NEAR_ONE = 1.005
"""Rounding of the driver's: up to here a share of 1 is 1; above it is garbage."""
LEAST_SECONDS = 0.1

SHARES = {
    "graphics_active": pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL,
    "sm_active": pynvml.NVML_GPM_METRIC_SM_UTIL,
    "sm_occupancy": pynvml.NVML_GPM_METRIC_SM_OCCUPANCY,
    "tensor_active": pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL,
    "dram_active": pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL,
}
"""Metric -> GPM id, in percent."""
TRAFFIC = {
    "pcie_transmit_bytes_per_second": pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC,
    "pcie_receive_bytes_per_second": pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC,
    "nvlink_transmit_bytes_per_second": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC,
    "nvlink_receive_bytes_per_second": pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC,
}
"""Metric -> GPM id, in MiB/s."""
_ENGINES = range(8)
_PER_ENGINE = pynvml.NVML_GPM_METRIC_GR1_CTXSW_REQUESTS - pynvml.NVML_GPM_METRIC_GR0_CTXSW_REQUESTS
SWITCH_ELAPSED = tuple(pynvml.NVML_GPM_METRIC_GR0_CTXSW_CYCLES_ELAPSED + engine * _PER_ENGINE for engine in _ENGINES)
"""Zero where the driver does not count: then the engine's other metrics are zero as well, and mean nothing."""
SWITCH_ACTIVE = tuple(pynvml.NVML_GPM_METRIC_GR0_CTXSW_ACTIVE_PCT + engine * _PER_ENGINE for engine in _ENGINES)
SWITCH_REQUESTS = tuple(pynvml.NVML_GPM_METRIC_GR0_CTXSW_REQUESTS + engine * _PER_ENGINE for engine in _ENGINES)
WANTED = (*SHARES.values(), *TRAFFIC.values(), *SWITCH_ELAPSED, *SWITCH_ACTIVE, *SWITCH_REQUESTS)
METRICS = (*SHARES, *TRAFFIC, "context_switch_active", "context_switch_requests_per_second")
SOURCE = "nvml gpm"

Key = tuple[str, ...]
"""What is sampled: the device's UUID, and for a GPU instance the UUIDs of its MIG devices, so that one that is created
again under the same id is another."""


@dataclass(slots=True)
class _Pair:
    """The last sample, and the one that the next is taken into. taken_at: seconds, None: nothing is in `last`."""

    last: Handle
    spare: Handle
    taken_at: float | None = None


class Gpm:
    """Samples of everything that is measured. `close` (or `keep(())`) frees them all."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._pairs: dict[Key, _Pair] = {}

    def measure(self, handle: Handle, key: Key, gpu_instance: int | None, at: float) -> dict[str, Reading]:
        """Readings since the last call for the key; blank at first. at: seconds, any epoch."""
        pair = self._pairs.get(key)
        if pair is None:
            state = self._open(key)
            if state != "ok":
                return silent(state)
            pair = self._pairs[key]
        code = self._nvml.gpm_take(handle, gpu_instance, pair.spare)
        if code != SUCCESS:
            pair.taken_at = None
            return silent(state_of(code))
        before, seconds = pair.last, None if pair.taken_at is None else at - pair.taken_at
        pair.last, pair.spare, pair.taken_at = pair.spare, pair.last, at
        if seconds is None or seconds < LEAST_SECONDS:
            return silent("blank")
        return readings(self._nvml.gpm_metrics(before, pair.last, WANTED), seconds)

    def forget(self, device: str) -> None:
        """Start over with everything of a device."""
        for key, pair in self._pairs.items():
            if key[0] == device:
                pair.taken_at = None

    def keep(self, keys: Iterable[Key]) -> None:
        """Free the samples of everything else."""
        kept = set(keys)
        for key in [key for key in self._pairs if key not in kept]:
            pair = self._pairs.pop(key)
            self._free(pair.last)
            self._free(pair.spare)

    def close(self) -> None:
        self.keep(())

    def _open(self, key: Key) -> State:
        first = self._nvml.gpm_allocate()
        if first.value is None:
            return first.state
        second = self._nvml.gpm_allocate()
        if second.value is None:
            self._free(first.value)
            return second.state
        self._pairs[key] = _Pair(first.value, second.value)
        return "ok"

    def _free(self, sample: Handle) -> None:
        try:
            self._nvml.gpm_free(sample)
        except (NvmlLibraryError, NvmlDeviceError):
            return  # a library that is gone took its samples along


def silent(state: State, source: str = SOURCE) -> dict[str, Reading]:
    """Every metric of GPM without a value."""
    return dict.fromkeys(METRICS, Reading(state, source=source))


def readings(found: Mapping[int, Answer[float]], seconds: float) -> dict[str, Reading]:
    """What GPM's answers mean. seconds: between the two samples."""
    result = {metric: _share(found[which]) for metric, which in SHARES.items()}
    for metric, which in TRAFFIC.items():
        result[metric] = reading(found[which], SOURCE, factor=MEBIBYTE)
    active = _over(max, SWITCH_ACTIVE, found)
    result["context_switch_active"] = _share(active)
    requests = _over(sum, SWITCH_REQUESTS, found)
    result["context_switch_requests_per_second"] = reading(requests, SOURCE, factor=1 / seconds)
    return result


def _share(answer: Answer[float]) -> Reading:
    found = reading(answer, SOURCE, factor=0.01, high=NEAR_ONE)
    return found if found.value is None else Reading("ok", min(found.value, 1.0), SOURCE)


def _over(
    combine: Callable[[list[float]], float], metrics: tuple[int, ...], found: Mapping[int, Answer[float]]
) -> Answer[float]:
    """Of the engines that count; a device has fewer than the eight that have a number, and may count none."""
    values = [
        value
        for which, elapsed in zip(metrics, SWITCH_ELAPSED, strict=True)
        if (value := found[which].value) is not None and found[elapsed].value
    ]
    if values:
        return Answer(SUCCESS, combine(values))
    first = found[metrics[0]]
    return Answer(NOT_SUPPORTED) if first.value is not None else first
