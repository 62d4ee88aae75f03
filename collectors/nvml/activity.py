"""How busy a device and its processes were over the interval, from the driver's own sample buffers.

NVML samples each device several times a second and keeps the last samples; a caller that asks for the current value
sees one of them. Here the mean of all that fell into the interval is taken.

Source: nvmlDeviceGetSamples, nvmlDeviceGetProcessUtilization; what drivers do with old and impossible samples:
https://github.com/NVIDIA/go-nvml/issues/51, https://github.com/Syllo/nvtop/issues/110
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pynvml

from collectors.nvml.library import (
    NOT_FOUND,
    NOT_SUPPORTED,
    SUCCESS,
    Answer,
    Handle,
    Nvml,
    Process,
    ProcessKind,
    ProcessSample,
    state_of,
)
from collectors.readings import ProcessReading, Reading, State

BUFFERS = {
    "gpu_utilization": pynvml.NVML_GPU_UTILIZATION_SAMPLES,
    "memory_copy_utilization": pynvml.NVML_MEMORY_UTILIZATION_SAMPLES,
    "encoder_utilization": pynvml.NVML_ENC_UTILIZATION_SAMPLES,
    "decoder_utilization": pynvml.NVML_DEC_UTILIZATION_SAMPLES,
}
"""Metric -> sample buffer, in percent."""
POWER = pynvml.NVML_TOTAL_POWER_SAMPLES
KINDS: tuple[ProcessKind, ...] = ("graphics", "compute", "mps")
"""A process in several lists is of the last kind that names it: an MPS client is also a compute process."""
AHEAD = 1_000_000
"""Microseconds by which a sample may be younger than the cycle's `now`: it was taken while the cycle ran."""


@dataclass(frozen=True, slots=True)
class Window:
    """The interval (since, until] that a cycle covers, in microseconds since the epoch."""

    since: int
    until: int

    def holds(self, at: int) -> bool:
        return self.since < at <= self.until + AHEAD


def mean(samples: Iterable[tuple[int, float]], window: Window, high: float) -> float | None:
    """The mean of the samples within the window that are at most `high`; None if there is none."""
    since, until = window.since, window.until + AHEAD
    values = [value for at, value in samples if since < at <= until and 0 <= value <= high]
    return sum(values) / len(values) if values else None


def averaged(answer: Answer[list[tuple[int, int]]], window: Window, source: str, percent: float = 100.0) -> Reading:
    """A reading of a sample buffer: the mean of the interval, in the unit of value / `percent`."""
    if answer.value is None:
        return Reading(state_of(answer.code), source=source)
    value = mean(answer.value, window, high=percent)
    return Reading("blank", source=source) if value is None else Reading("ok", value / percent, source)


def utilization(nvml: Nvml, handle: Handle, window: Window) -> dict[str, Reading]:
    """The metrics of BUFFERS. Where the buffer has nothing of the interval, the last sample stands for it."""
    readings = {
        metric: averaged(nvml.buffer(handle, kind, window.since), window, "nvmlDeviceGetSamples")
        for metric, kind in BUFFERS.items()
    }
    for place, metric in enumerate(("gpu_utilization", "memory_copy_utilization")):
        if readings[metric].state == "blank":
            rates = nvml.utilization_rates(handle)
            readings[metric] = last_sample(rates, place)
    return readings


def last_sample(rates: Answer[tuple[int, int]], place: int) -> Reading:
    source = "nvmlDeviceGetUtilizationRates"
    if rates.value is None:
        return Reading(state_of(rates.code), source=source)
    percent = rates.value[place]
    return Reading("ok", percent / 100, source) if 0 <= percent <= 100 else Reading("blank", source=source)


def process_activity(samples: Sequence[ProcessSample], window: Window, dropped: Counter[str]) -> dict[int, float]:
    """Activity (0-1) of each process over the window.

    Drivers answer with one sample a process, which is its mean since the time asked for, or with their buffer: then
    a process that a sampling instant does not name was idle at that instant. Samples from before the window, above
    100 % and without a process are garbage that drivers are known to leave in the buffer; they are counted.
    """
    percent: Counter[int] = Counter()
    seen: Counter[int] = Counter()
    instants: set[int] = set()
    for sample in samples:
        if not window.holds(sample.at):
            dropped["process sample outside the interval"] += 1
        elif sample.pid == 0 or sample.sm > 100:
            dropped["process sample out of range"] += 1
        else:
            percent[sample.pid] += sample.sm
            seen[sample.pid] += 1
            instants.add(sample.at)
    taken = 1 if max(seen.values(), default=0) <= 1 else len(instants)
    return {pid: total / taken / 100 for pid, total in percent.items()}


@dataclass(frozen=True, slots=True)
class Processes:
    """state: whether the list can be believed; idle is confirmed to be empty.   last_sample: microseconds, the
    youngest sample of process utilization, None if there was none."""

    readings: tuple[ProcessReading, ...]
    state: State
    last_sample: int | None = None


def processes(nvml: Nvml, handle: Handle, window: Window, mig: bool, dropped: Counter[str]) -> Processes:
    """The processes on a device or MIG device. mig: NVML does not report how active they are."""
    lists = {kind: nvml.processes(handle, kind) for kind in KINDS}
    if mig:
        activity: Answer[list[ProcessSample]] = Answer(NOT_SUPPORTED)
    else:
        activity = nvml.process_utilization(handle, window.since)
    found: dict[int, Process] = {}
    for kind in KINDS:
        for process in lists[kind].value or ():
            other = found.get(process.pid)
            held = [one.memory_bytes for one in (other, process) if one is not None and one.memory_bytes is not None]
            found[process.pid] = Process(process.pid, max(held, default=None), kind)
    samples = activity.value or []
    shares = process_activity(samples, window, dropped)
    state = _list_state(lists, found)
    readings = [_of(process, activity.code, shares) for process in found.values()]
    readings += [
        ProcessReading(pid, Reading("ok", share, "nvmlDeviceGetProcessUtilization"), _memory(None))
        for pid, share in shares.items()
        if pid not in found
    ]
    youngest = max((one.at for one in samples if window.holds(one.at)), default=None)
    return Processes(tuple(readings), state, youngest)


def _list_state(lists: Mapping[ProcessKind, Answer[list[Process]]], found: Mapping[int, Process]) -> State:
    """The compute list decides; the others are believed where the device has them."""
    for kind in ("compute", "mps", "graphics"):
        answer = lists[kind]
        if answer.code in (SUCCESS, NOT_FOUND) or (kind != "compute" and answer.state == "unsupported"):
            continue
        return answer.state
    return "ok" if found else "idle"


def _of(process: Process, code: int, shares: Mapping[int, float]) -> ProcessReading:
    source = "nvmlDeviceGetProcessUtilization"
    if process.pid in shares:
        activity = Reading("ok", shares[process.pid], source)
    elif code in (SUCCESS, NOT_FOUND):
        activity = Reading("idle", 0.0, source)
    else:
        activity = Reading(state_of(code), source=source)
    return ProcessReading(process.pid, activity, _memory(process.memory_bytes), process.kind)


def _memory(held: int | None) -> Reading:
    source = "nvmlDeviceGetRunningProcesses"
    return Reading("blank", source=source) if held is None else Reading("ok", float(held), source)
