"""A driver's library that runs on simulated time, put where pynvml keeps the real one.

pynvml looks its functions up on `pynvml.nvmlLib`; here they are Python callables that take the same ctypes arguments,
fill the same structs and return the same codes, so all of pynvml's own code runs. What each architecture supports
follows the NVML reference; everything else is scripted by the test: errors, lost GPUs, resets, garbage in buffers.

    with installed(busy_node(gpus=8, processes=10)) as driver:
        collector = NvmlCollector("c", "n", watch_xids=False)
        driver.advance(10)
        cycle = collector.collect(driver.at)
"""

from __future__ import annotations

import ctypes
import queue
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pynvml

SUCCESS, UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION = 0, 1, 2, 3, 4
NOT_FOUND, INSUFFICIENT_SIZE, DRIVER_NOT_LOADED, TIMEOUT, GPU_IS_LOST = 6, 7, 9, 10, 15
RESET_REQUIRED, MISMATCH = 16, 18
START = 1_800_000_000.0
"""When the simulated clock begins."""
PERIOD = 1 / 6
"""Seconds between the driver's samples."""
BUFFER = 120
"""How many samples the driver keeps."""
GIB = 1 << 30

Level = float | Callable[[float], float]


def level(what: Level, at: float) -> float:
    return what(at) if callable(what) else what


@dataclass
class FakeProcess:
    """sm: percent, a number or a function of the time.   born, dead: when it is on the device."""

    pid: int
    memory: int | None = 4 * GIB
    sm: Level = 0.0
    kind: str = "compute"
    born: float = 0.0
    dead: float = float("inf")

    def alive(self, at: float) -> bool:
        return self.born <= at < self.dead


class _Target:
    """What a device handle points to."""

    def __init__(self) -> None:
        self.struct = pynvml.struct_c_nvmlDevice_t()
        self.processes: list[FakeProcess] = []
        self.errors: dict[str, int] = {}
        self.gpm: dict[int, Level | None] = {}
        self.used = 0

    @property
    def pointer(self) -> Any:
        return ctypes.pointer(self.struct)


class FakeMig(_Target):
    """A MIG device: `gpu_slices`g.`gib`gb, with a compute instance of `compute_slices`."""

    def __init__(
        self, uuid: str, gi: int, gpu_slices: int = 1, gib: int = 10, ci: int = 0, compute_slices: int | None = None
    ) -> None:
        super().__init__()
        self.uuid, self.gi, self.ci, self.gpu_slices, self.gib = uuid, gi, ci, gpu_slices, gib
        self.compute_slices = gpu_slices if compute_slices is None else compute_slices

    @property
    def profile(self) -> str:
        whole = f"{self.gpu_slices}g.{self.gib}gb"
        return whole if self.compute_slices == self.gpu_slices else f"{self.compute_slices}c.{whole}"


class FakeGpu(_Target):
    """busy: percent of time in which a kernel runs.   fault: answers everything with this code.   rates: what
    cumulative fields gain a second.   migs: by index, with holes."""

    def __init__(
        self, index: int = 0, name: str = "NVIDIA A100-SXM4-80GB", architecture: int = 7, gib: int = 80
    ) -> None:
        super().__init__()
        self.index, self.name, self.architecture, self.memory = index, name, architecture, gib * GIB
        self.uuid = f"GPU-{index:08x}-0000-4000-8000-{architecture:012x}"
        self.bus = f"00000000:{0x18 + index:02X}:00.0"
        self.busy: Level = 0.0
        self.watts: Level = 80.0
        self.fault = 0
        self.mig_capable = architecture in (7, 9, 10)
        self.mig = False
        self.slices = 7
        self.migs: dict[int, FakeMig] = {}
        self.millijoules: float | None = 5e6 if architecture >= 5 else None
        self.fields: dict[int, tuple[int, float]] = {94: (1, 0.0), 230: (1, 0.0)}
        self.rates: dict[int, float] = {74: 0.0, 76: 0.0, 197: 1e6, 198: 2e6, 269: 0.0, 270: 0.0, 271: 0.0}
        self.fields |= dict.fromkeys(self.rates, (3, 1000000000.0))
        if architecture >= 7:
            self.fields |= {142: (1, 0.0), 143: (1, 0.0), 144: (1, 0.0), 145: (1, 0.0)}
        if architecture in (7, 9, 10):
            self.fields |= {82: (1, 45.0)}
        self.garbage: list[tuple[int, float, int]] = []
        self.ecc = {0: 3, 1: 0}
        self.process_mode = "mean"
        self.virtual = False

    def advance(self, at: float, seconds: float) -> None:
        if self.millijoules is not None:
            self.millijoules += level(self.watts, at) * seconds * 1000
        for number, rate in self.rates.items():
            if number not in self.fields:
                continue
            kind, value = self.fields[number]
            bits = 32 if kind == 1 else 64
            self.fields[number] = (kind, (value + rate * seconds) % 2.0**bits)

    def reload_driver(self) -> None:
        """What a reload or reset leaves: counters from zero."""
        self.millijoules = 0.0
        for number in self.rates:
            self.fields[number] = (self.fields[number][0], 0.0)


@dataclass
class _GpmSample:
    struct: Any
    at: float = 0.0
    of: _Target | None = None


@dataclass
class _EventSet:
    struct: Any
    devices: list[FakeGpu] = field(default_factory=list)
    waiting: queue.Queue[tuple[FakeGpu, int, int]] = field(default_factory=queue.Queue)


class _Function:
    """A function pointer: callable, and pynvml may set its restype."""

    def __init__(self, driver: FakeDriver, name: str) -> None:
        self.restype: Any = ctypes.c_int
        self.driver, self.name, self.inner = driver, name, getattr(driver, f"c_{name}")

    def __call__(self, *arguments: Any) -> Any:
        driver, name = self.driver, self.name
        driver.calls[name] += 1
        if driver.errors.get(name):
            return driver.errors[name]
        if not driver.started and name not in ("nvmlInitWithFlags", "nvmlErrorString"):
            return UNINITIALIZED
        if not name.startswith(("nvmlDevice", "nvmlGpm")) or name in _NOT_OF_A_DEVICE:
            return self.inner(*arguments)
        target = driver.target(arguments[0])
        if target is None:
            return INVALID_ARGUMENT
        fault = target.fault if isinstance(target, FakeGpu) else driver.parent(target).fault
        if fault and name not in driver.cached:
            return fault
        if target.errors.get(name):
            return target.errors[name]
        if isinstance(target, FakeMig) and name not in _OF_MIG:
            return NOT_SUPPORTED
        return self.inner(target, *arguments[1:])


_NOT_OF_A_DEVICE = frozenset(
    {
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlGpmSampleAlloc",
        "nvmlGpmSampleFree",
        "nvmlGpmMetricsGet",
    }
)
_OF_MIG = frozenset(
    {
        "nvmlDeviceGetUUID",
        "nvmlDeviceGetName",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetGpuInstanceId",
        "nvmlDeviceGetComputeInstanceId",
        "nvmlDeviceGetAttributes_v2",
        "nvmlDeviceGetDeviceHandleFromMigDeviceHandle",
        "nvmlDeviceGetComputeRunningProcesses_v3",
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    }
)


class FakeDriver:
    """errors: function -> code, for calls of the library as a whole.   missing: functions that an old driver lacks.
    small: function -> how many entries its size query admits to, until it was asked for so often; as a buffer that
    grows between the two calls does.   wait_cap: seconds that a wait for events blocks at most."""

    def __init__(self, *gpus: FakeGpu, wait_cap: float | None = None) -> None:
        self.gpus = list(gpus)
        self.now = START
        self.started = False
        self.version = b"580.65.06"
        self.errors: dict[str, int] = {}
        self.missing: set[str] = set()
        self.small: dict[str, list[int]] = {}
        self.cached: set[str] = set()
        """Functions that a lost GPU still answers, from the library's memory."""
        self.calls: Counter[str] = Counter()
        self.wait_cap = wait_cap
        self.lag = 0.0
        """Seconds after which the driver publishes a sample."""
        self.samples: dict[int, _GpmSample] = {}
        self.event_sets: dict[int, _EventSet] = {}
        self._kept: list[Any] = []
        self._instants: tuple[int, int, list[float]] = (0, 0, [])

    def __getattr__(self, name: str) -> _Function:
        if not name.startswith("nvml") or name in self.missing or not hasattr(type(self), f"c_{name}"):
            raise AttributeError(name)
        return _Function(self, name)

    # --- the script ---

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.now, UTC)

    def advance(self, seconds: float) -> None:
        self.now += seconds
        for gpu in self.gpus:
            gpu.advance(self.now, seconds)

    def cut(self, gpu: FakeGpu, *migs: FakeMig, holes: tuple[int, ...] = ()) -> None:
        """Reconfigure MIG: old handles die."""
        self._kept += gpu.migs.values()
        indices = [index for index in range(gpu.slices) if index not in holes]
        gpu.mig, gpu.migs = True, dict(zip(indices, migs, strict=False))

    def raise_xid(self, gpu: FakeGpu, code: int, gi: int = 0xFFFFFFFF) -> None:
        for events in self.event_sets.values():
            if gpu in events.devices:
                events.waiting.put((gpu, code, gi))

    def target(self, handle: Any) -> FakeGpu | FakeMig | None:
        if not handle:
            return None
        where = ctypes.addressof(handle.contents)
        for gpu in self.gpus:
            for one in (gpu, *gpu.migs.values()):
                if ctypes.addressof(one.struct) == where:
                    return one
        return None

    def parent(self, mig: FakeMig) -> FakeGpu:
        return next(gpu for gpu in self.gpus if mig in gpu.migs.values())

    # --- library ---

    def c_nvmlInitWithFlags(self, flags: int) -> int:
        self.started = True
        return SUCCESS

    def c_nvmlShutdown(self) -> int:
        self.started = False
        self.samples.clear()
        return SUCCESS

    def c_nvmlErrorString(self, code: int) -> bytes:
        return b"code %d" % code

    def c_nvmlSystemGetDriverVersion(self, text: Any, size: Any) -> int:
        text.value = self.version
        return SUCCESS

    def c_nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = len(self.gpus)
        return SUCCESS

    def c_nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        gpu = self.gpus[index.value]
        if gpu.fault and "nvmlDeviceGetHandleByIndex_v2" not in self.cached:
            return gpu.fault
        handle._obj.contents = gpu.struct
        return SUCCESS

    # --- what a device is ---

    def c_nvmlDeviceGetUUID(self, target: Any, text: Any, size: Any) -> int:
        text.value = target.uuid.encode()
        return SUCCESS

    def c_nvmlDeviceGetName(self, target: Any, text: Any, size: Any) -> int:
        name = f"{self.parent(target).name} MIG {target.profile}" if isinstance(target, FakeMig) else target.name
        text.value = name.encode()
        return SUCCESS

    def c_nvmlDeviceGetArchitecture(self, gpu: FakeGpu, answer: Any) -> int:
        answer._obj.value = gpu.architecture
        return SUCCESS

    def c_nvmlDeviceGetPciInfo_v3(self, gpu: FakeGpu, info: Any) -> int:
        info._obj.busId = gpu.bus.encode()
        return SUCCESS

    def c_nvmlDeviceGetVirtualizationMode(self, gpu: FakeGpu, mode: Any) -> int:
        mode._obj.value = 2 if gpu.virtual else 0
        return SUCCESS

    def c_nvmlDeviceGetMemoryInfo_v2(self, target: Any, info: Any) -> int:
        memory = info._obj
        if memory.version != pynvml.nvmlMemory_v2:
            return 25
        used = sum(process.memory or 0 for process in target.processes if process.alive(self.now)) + target.used
        memory.total = target.gib * GIB if isinstance(target, FakeMig) else target.memory
        memory.reserved = GIB // 2
        memory.used = used
        memory.free = memory.total - memory.reserved - used
        return SUCCESS

    def c_nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu, info: Any) -> int:
        memory = info._obj
        memory.total, memory.used = gpu.memory, GIB
        memory.free = gpu.memory - GIB
        return SUCCESS

    # --- MIG ---

    def c_nvmlDeviceGetMigMode(self, gpu: FakeGpu, current: Any, pending: Any) -> int:
        if not gpu.mig_capable:
            return NOT_SUPPORTED
        current._obj.value = pending._obj.value = int(gpu.mig)
        return SUCCESS

    def c_nvmlDeviceGetMaxMigDeviceCount(self, gpu: FakeGpu, count: Any) -> int:
        count._obj.value = gpu.slices if gpu.mig else 0
        return SUCCESS

    def c_nvmlDeviceGetMigDeviceHandleByIndex(self, gpu: FakeGpu, index: Any, handle: Any) -> int:
        mig = gpu.migs.get(index.value)
        if mig is None:
            return NOT_FOUND
        handle._obj.contents = mig.struct
        return SUCCESS

    def c_nvmlDeviceGetGpuInstanceId(self, mig: FakeMig, answer: Any) -> int:
        answer._obj.value = mig.gi
        return SUCCESS

    def c_nvmlDeviceGetComputeInstanceId(self, mig: FakeMig, answer: Any) -> int:
        answer._obj.value = mig.ci
        return SUCCESS

    def c_nvmlDeviceGetAttributes_v2(self, mig: FakeMig, attributes: Any) -> int:
        attributes._obj.gpuInstanceSliceCount = mig.gpu_slices
        attributes._obj.computeInstanceSliceCount = mig.compute_slices
        attributes._obj.memorySizeMB = mig.gib * 1024
        return SUCCESS

    # --- activity ---

    def instants(self, since: float) -> list[float]:
        """When the driver took the samples that it still has, after `since`."""
        last = int((self.now - self.lag) / PERIOD + 1e-6)
        first = max(last - BUFFER + 1, int(since / PERIOD + 1e-6) + 1)
        if self._instants[:2] != (first, last):
            self._instants = (first, last, [place * PERIOD for place in range(first, last + 1)])
        return self._instants[2]

    def c_nvmlDeviceGetSamples(
        self, gpu: FakeGpu, kind: Any, since: Any, value_type: Any, count: Any, samples: Any
    ) -> int:
        if gpu.mig and kind.value != 0:
            return NOT_SUPPORTED
        instants = self.instants(since.value / 1e6)
        if not instants:
            return NOT_FOUND
        value_type._obj.value = 1
        if samples is None:
            count._obj.value = self._admitted("nvmlDeviceGetSamples", len(instants))
            return SUCCESS
        if len(samples) < len(instants):
            return INSUFFICIENT_SIZE
        of: dict[int, Level] = {0: lambda at: level(gpu.watts, at) * 1000, 1: gpu.busy, 2: 10.0}
        what = of.get(kind.value, 0.0)
        values = [round(what(at)) for at in instants] if callable(what) else [round(what)] * len(instants)
        words = (ctypes.c_ulonglong * (2 * len(instants))).from_buffer(samples)
        words[:] = [word for at, value in zip(instants, values, strict=True) for word in (round(at * 1e6), value)]
        count._obj.value = len(instants)
        return SUCCESS

    def c_nvmlDeviceGetUtilizationRates(self, gpu: FakeGpu, rates: Any) -> int:
        if gpu.mig:
            return NOT_SUPPORTED
        rates._obj.gpu, rates._obj.memory = round(level(gpu.busy, self.now)), 10
        return SUCCESS

    def c_nvmlDeviceGetProcessUtilization(self, gpu: FakeGpu, samples: Any, count: Any, since: Any) -> int:
        if gpu.mig:
            return NOT_SUPPORTED
        found = self._process_samples(gpu, since.value / 1e6)
        if not found:
            return SUCCESS if gpu.process_mode == "success without samples" else NOT_FOUND
        if samples is None:
            count._obj.value = self._admitted("nvmlDeviceGetProcessUtilization", len(found))
            return INSUFFICIENT_SIZE
        if len(samples) < len(found):
            return INSUFFICIENT_SIZE
        for place, (pid, at, sm) in enumerate(found):
            samples[place].pid, samples[place].timeStamp, samples[place].smUtil = pid, round(at * 1e6), sm
        count._obj.value = len(found)
        return SUCCESS

    def _process_samples(self, gpu: FakeGpu, since: float) -> list[tuple[int, float, int]]:
        instants = self.instants(since)
        found: list[tuple[int, float, int]] = []
        for process in gpu.processes:
            if gpu.process_mode == "mean" and not callable(process.sm) and not process.born and process.dead > self.now:
                if instants and process.sm > 0:
                    found.append((process.pid, instants[-1], round(process.sm)))
                continue
            values = [(at, level(process.sm, at) if process.alive(at) else 0.0) for at in instants]
            active = [(at, value) for at, value in values if value > 0]
            if active and gpu.process_mode == "buffer":
                found += [(process.pid, at, round(value)) for at, value in active]
            elif active:
                total = sum(value for _, value in active)
                found.append((process.pid, active[-1][0], round(total / len(values))))
        return found + gpu.garbage

    def _list(self, target: Any, function: str, kind: str, count: Any, entries: Any) -> int:
        found = [one for one in target.processes if one.kind == kind and one.alive(self.now)]
        if entries is None:
            count._obj.value = self._admitted(function, len(found))
            return INSUFFICIENT_SIZE if count._obj.value else SUCCESS
        if len(entries) < len(found):
            return INSUFFICIENT_SIZE
        for place, process in enumerate(found):
            entries[place].pid = process.pid
            entries[place].usedGpuMemory = 0xFFFFFFFFFFFFFFFF if process.memory is None else process.memory
            entries[place].gpuInstanceId = getattr(target, "gi", 0xFFFFFFFF)
        count._obj.value = len(found)
        return SUCCESS

    def c_nvmlDeviceGetComputeRunningProcesses_v3(self, target: Any, count: Any, entries: Any) -> int:
        return self._list(target, "nvmlDeviceGetComputeRunningProcesses_v3", "compute", count, entries)

    def c_nvmlDeviceGetGraphicsRunningProcesses_v3(self, target: Any, count: Any, entries: Any) -> int:
        return self._list(target, "nvmlDeviceGetGraphicsRunningProcesses_v3", "graphics", count, entries)

    def c_nvmlDeviceGetMPSComputeRunningProcesses_v3(self, target: Any, count: Any, entries: Any) -> int:
        return self._list(target, "nvmlDeviceGetMPSComputeRunningProcesses_v3", "mps", count, entries)

    def _admitted(self, function: str, true: int) -> int:
        queued = self.small.get(function)
        return min(true, queued.pop(0)) if queued else true

    # --- gauges and counters ---

    def c_nvmlDeviceGetTemperatureV(self, gpu: FakeGpu, answer: Any) -> int:
        answer._obj.temperature = 50
        return SUCCESS

    def c_nvmlDeviceGetTemperature(self, gpu: FakeGpu, sensor: Any, answer: Any) -> int:
        answer._obj.value = 51
        return SUCCESS

    def c_nvmlDeviceGetClockInfo(self, gpu: FakeGpu, kind: Any, answer: Any) -> int:
        answer._obj.value = 1410 if kind.value == 1 else 1593
        return SUCCESS

    def c_nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu, answer: Any) -> int:
        answer._obj.value = 400_000
        return SUCCESS

    def c_nvmlDeviceGetPowerUsage(self, gpu: FakeGpu, answer: Any) -> int:
        answer._obj.value = round(level(gpu.watts, self.now) * 1000)
        return SUCCESS

    def c_nvmlDeviceGetTotalEnergyConsumption(self, gpu: FakeGpu, answer: Any) -> int:
        if gpu.millijoules is None:
            return NOT_SUPPORTED
        answer._obj.value = int(gpu.millijoules)
        return SUCCESS

    def c_nvmlDeviceGetTotalEccErrors(self, gpu: FakeGpu, kind: Any, counter: Any, answer: Any) -> int:
        answer._obj.value = gpu.ecc[kind.value]
        return SUCCESS

    def c_nvmlDeviceGetFieldValues(self, gpu: FakeGpu, count: Any, values: Any) -> int:
        for one in values._obj[: count.value]:
            known = gpu.fields.get(one.fieldId)
            if known is None:
                one.nvmlReturn = NOT_SUPPORTED
                continue
            one.nvmlReturn, one.valueType = SUCCESS, known[0]
            if known[0] == 0:
                continue  # as driver 580 does for fields 270 to 273 of an H100: success, and nothing written
            one.timestamp = round(self.now * 1e6)
            if known[0] == 1:
                one.value.uiVal = int(known[1])
            else:
                one.value.ullVal = int(known[1])
        return SUCCESS

    # --- GPM ---

    def c_nvmlGpmQueryDeviceSupport(self, gpu: FakeGpu, answer: Any) -> int:
        answer._obj.isSupportedDevice = int(gpu.architecture >= 9)
        return SUCCESS

    def c_nvmlGpmSampleAlloc(self, sample: Any) -> int:
        made = _GpmSample(pynvml.struct_c_nvmlGpmSample_t())
        sample._obj.contents = made.struct
        self.samples[ctypes.addressof(made.struct)] = made
        return SUCCESS

    def c_nvmlGpmSampleFree(self, sample: Any) -> int:
        gone = self.samples.pop(ctypes.addressof(sample.contents), None)
        return INVALID_ARGUMENT if gone is None else SUCCESS

    def c_nvmlGpmSampleGet(self, gpu: FakeGpu, sample: Any) -> int:
        return self._take(gpu, sample) if gpu.architecture >= 9 else NOT_SUPPORTED

    def c_nvmlGpmMigSampleGet(self, gpu: FakeGpu, gi: int, sample: Any) -> int:
        mig = next((mig for mig in gpu.migs.values() if mig.gi == gi), None)
        return NOT_FOUND if mig is None else self._take(mig, sample)

    def _take(self, target: _Target, sample: Any) -> int:
        taken = self.samples[ctypes.addressof(sample.contents)]
        taken.at, taken.of = self.now, target
        return SUCCESS

    def c_nvmlGpmMetricsGet(self, request: Any) -> int:
        asked = request._obj
        before = self.samples[ctypes.addressof(asked.sample1.contents)]
        after = self.samples[ctypes.addressof(asked.sample2.contents)]
        if after.of is None or before.of is None:
            return INVALID_ARGUMENT
        for one in asked.metrics[: asked.numMetrics]:
            known = after.of.gpm.get(one.metricId)
            if known is None:
                one.nvmlReturn = NOT_SUPPORTED
                continue
            one.nvmlReturn = SUCCESS
            # Between samples of different instances, or too close together, lies nothing but garbage.
            if after.at - before.at < 0.1:
                one.value = 1.0
            else:
                one.value = level(known, after.at) if before.of is after.of else 4.2e9
        return SUCCESS

    # --- events ---

    def c_nvmlEventSetCreate(self, events: Any) -> int:
        made = _EventSet(pynvml.struct_c_nvmlEventSet_t())
        events._obj.contents = made.struct
        self.event_sets[ctypes.addressof(made.struct)] = made
        return SUCCESS

    def c_nvmlDeviceRegisterEvents(self, gpu: FakeGpu, types: Any, events: Any) -> int:
        self.event_sets[ctypes.addressof(events.contents)].devices.append(gpu)
        return SUCCESS

    def c_nvmlEventSetFree(self, events: Any) -> int:
        del self.event_sets[ctypes.addressof(events.contents)]
        return SUCCESS

    def c_nvmlEventSetWait_v2(self, events: Any, data: Any, milliseconds: Any) -> int:
        seconds = milliseconds.value / 1000
        waiting = self.event_sets[ctypes.addressof(events.contents)].waiting
        try:
            gpu, code, gi = waiting.get(timeout=min(seconds, self.wait_cap or seconds))
        except queue.Empty:
            return TIMEOUT
        data._obj.device = gpu.pointer
        data._obj.eventType, data._obj.eventData = 8, code
        data._obj.gpuInstanceId, data._obj.computeInstanceId = gi, gi
        return SUCCESS


@contextmanager
def installed(driver: FakeDriver) -> Iterator[FakeDriver]:
    """The driver in pynvml's place of the library, and pynvml as it was afterwards."""
    library, cache = pynvml.nvmlLib, dict(pynvml._nvmlGetFunctionPointer_cache)
    pynvml.nvmlLib = driver
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield driver
    finally:
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()
        pynvml._nvmlGetFunctionPointer_cache.update(cache)


# --- boards ---

GPM_BUSY: dict[int, Level | None] = {1: 90.0, 2: 80.0, 3: 40.0, 5: 30.0, 10: 50.0, 20: 100.0, 21: 200.0}
"""GPM metrics of a busy Hopper, in GPM's units."""


def turing(index: int = 0) -> FakeGpu:
    return FakeGpu(index, "Tesla T4", 6, 16)


def ampere(index: int = 0) -> FakeGpu:
    return FakeGpu(index, "NVIDIA A100-SXM4-80GB", 7, 80)


def ada(index: int = 0) -> FakeGpu:
    return FakeGpu(index, "NVIDIA L40S", 8, 48)


def hopper(index: int = 0) -> FakeGpu:
    gpu = FakeGpu(index, "NVIDIA H100 80GB HBM3", 9, 80)
    gpu.gpm = dict(GPM_BUSY) | {60: 10.0, 61: 20.0, 172: 500.0, 174: 12.5, 177: 100.0, 179: 2.5}
    gpu.gpm |= {170: 1.5e10, 175: 1.5e10}
    return gpu


def cut(gpu: FakeGpu, *sizes: tuple[int, int], holes: tuple[int, ...] = ()) -> FakeGpu:
    """The same GPU under MIG, with instances of (slices, GiB)."""
    migs = [
        FakeMig(f"MIG-{gpu.index:08x}-0000-5000-8000-{gi:012x}", gi, slices, gib)
        for gi, (slices, gib) in enumerate(sizes, start=7)
    ]
    for mig in migs:
        mig.gpm = dict(GPM_BUSY) if gpu.architecture >= 9 else {}
    indices = [index for index in range(gpu.slices) if index not in holes]
    gpu.mig, gpu.migs = True, dict(zip(indices, migs, strict=False))
    return gpu


def busy_node(gpus: int = 8, processes: int = 10, make: Callable[[int], FakeGpu] = hopper) -> FakeDriver:
    """A node as the agent's cost is measured on: each GPU shared by that many busy processes; events block truly."""
    made = [make(index) for index in range(gpus)]
    for gpu in made:
        gpu.busy, gpu.watts = 90.0, 550.0
        gpu.processes = [
            FakeProcess(10_000 + gpu.index * 100 + place, 4 * GIB, 90.0 / processes) for place in range(processes)
        ]
    return FakeDriver(*made)


if __name__ == "__main__":
    from collectors.nvml.collector import NvmlCollector

    with installed(busy_node()) as node:
        collector = NvmlCollector("c", "n", watch_xids=False)
        spent = time.process_time()
        for _ in range(60):
            node.advance(10)
            collector.collect(node.at)
        print(f"{(time.process_time() - spent) / 60 * 1000:.2f} ms of CPU a cycle")
