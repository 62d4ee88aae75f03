"""The boundary to NVML: every call gives an answer with a code, and no other module touches pynvml.

Three things can happen to a call. It answers (a value, or a code that says why there is none, which becomes a
reading's state); the device is gone (`NvmlDeviceError`: nothing more is asked of it in this cycle); or the library is
(`NvmlLibraryError`: the cycle ends, and the next one starts the library again).

Source: NVML API reference, https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import pynvml

from collectors.errors import CollectorError
from collectors.readings import Reading, State

SUCCESS = 0
UNINITIALIZED = 1
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
DRIVER_NOT_LOADED = 9
TIMEOUT = 10
LIBRARY_NOT_FOUND = 12
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
LIB_RM_VERSION_MISMATCH = 18
NO_DATA = 21
VERSION_MISMATCH = 25
UNKNOWN = 999

DEVICE_FAULTS = frozenset({GPU_IS_LOST, RESET_REQUIRED})
LIBRARY_FAULTS = frozenset({UNINITIALIZED, DRIVER_NOT_LOADED, LIBRARY_NOT_FOUND, LIB_RM_VERSION_MISMATCH})
_STATES: dict[int, State] = {
    SUCCESS: "ok",
    NOT_SUPPORTED: "unsupported",
    FUNCTION_NOT_FOUND: "unsupported",
    VERSION_MISMATCH: "unsupported",
    NO_PERMISSION: "no_permission",
}
"""Every other code is blank: asked, and no value came."""

_NEXT_STEPS = {
    LIBRARY_NOT_FOUND: "Install the NVIDIA driver or mount libnvidia-ml.so.1 (Kubernetes: runtimeClassName nvidia)",
    DRIVER_NOT_LOADED: "Check: lsmod | grep nvidia, dmesg | grep NVRM",
    LIB_RM_VERSION_MISMATCH: "The driver was upgraded under this process: restart the agent",
}
_TRIES = 4
"""How often a call is made whose buffer was too small because more came in between."""

ARCHITECTURES = {
    2: "kepler",
    3: "maxwell",
    4: "pascal",
    5: "volta",
    6: "turing",
    7: "ampere",
    8: "ada",
    9: "hopper",
    10: "blackwell",
    13: "rubin",
}
"""NVML_DEVICE_ARCH_*."""

WHOLE = 0xFFFFFFFF
"""The instance id that NVML gives where there is no instance, and the scope of a field that means all links."""

Handle = Any
"""An opaque pointer of NVML's: a device, a MIG device, an event set, a GPM sample."""
ProcessKind = Literal["compute", "graphics", "mps"]
T = TypeVar("T")
U = TypeVar("U")


class NvmlLibraryError(CollectorError):
    """NVML cannot be used at all: no library, no driver, or a driver of another version than the library's.

    code: NVML's.   restart_needed: only a new process can load the library that fits the driver.
    """

    def __init__(self, code: int, function: str) -> None:
        self.code = code
        self.restart_needed = code == LIB_RM_VERSION_MISMATCH
        super().__init__("nvml", f"{function}: {describe(code)}", _NEXT_STEPS.get(code, "Asked again next cycle"))


class NvmlDeviceError(CollectorError):
    """A device answers nothing any more. code: GPU_IS_LOST or RESET_REQUIRED."""

    def __init__(self, code: int, function: str) -> None:
        self.code = code
        super().__init__("nvml", f"{function}: {describe(code)}", "Drain the node and reset the GPU")


def describe(code: int) -> str:
    """NVML's words for a code; its number where the binding has none."""
    names: dict[int, str] = pynvml.NVMLError._errcode_to_string
    return names.get(code, f"NVML code {code}")


def address(handle: Handle) -> int:
    """Where a handle points: the same for the same device as long as the library runs."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0


def state_of(code: int) -> State:
    return _STATES.get(code, "blank")


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What a call returned. value: None unless code is SUCCESS (and also then, where NVML has nothing to tell)."""

    code: int
    value: T | None = None

    @property
    def state(self) -> State:
        return "blank" if self.code == SUCCESS and self.value is None else state_of(self.code)

    def given(self, value: U | None) -> Answer[U]:
        """The same code with a value made of this one's, typed."""
        return Answer(self.code, value if self.code == SUCCESS else None)


def reading(
    answer: Answer[float] | Answer[int],
    source: str,
    *,
    factor: float = 1.0,
    low: float = 0.0,
    high: float | None = None,
) -> Reading:
    """A reading of a plain value. high: the range's end after the factor; what lies outside is blank, never clipped."""
    if answer.value is None:
        return Reading(answer.state, source=source)
    value = answer.value * factor
    if not value >= low or (high is not None and value > high):
        return Reading("blank", source=f"{source} out of range")
    return Reading("ok", value, source)


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes. reserved: None where the driver counts it as used (before 510)."""

    total: int
    used: int
    free: int
    reserved: int | None


@dataclass(frozen=True, slots=True)
class Process:
    """A process in one of the driver's lists. memory_bytes: None if the driver does not report it."""

    pid: int
    memory_bytes: int | None
    kind: ProcessKind


@dataclass(frozen=True, slots=True)
class ProcessSample:
    """at: microseconds since the epoch.   sm: percent of the device."""

    pid: int
    at: int
    sm: int


@dataclass(frozen=True, slots=True)
class FieldValue:
    """A field's value as it came. bits: the width at which a counter of this type wraps, 0 for a double."""

    value: float
    bits: int


class Nvml:
    """Calls of the library, typed. Methods raise NvmlDeviceError and NvmlLibraryError, and no other error of NVML's."""

    def __init__(self) -> None:
        self._gpm_requests: dict[tuple[int, ...], Any] = {}

    def start(self) -> None:
        self._must("nvmlInit")

    def stop(self) -> None:
        """Shut down; what it answers is of no interest, since it also follows a fault."""
        try:
            self.ask("nvmlShutdown")
        except (NvmlLibraryError, NvmlDeviceError):
            return

    def ask(self, function: str, *arguments: Any) -> Answer[Any]:
        """Call the binding's function of that name; a buffer that was too small is tried again."""
        call = getattr(pynvml, function, None)
        if call is None:
            return Answer(FUNCTION_NOT_FOUND)
        code = SUCCESS
        for _ in range(_TRIES):
            try:
                return Answer(SUCCESS, call(*arguments))
            except pynvml.NVMLError as error:
                code = int(error.value)
            if code != INSUFFICIENT_SIZE:
                break
        if code in LIBRARY_FAULTS:
            raise NvmlLibraryError(code, function)
        if code in DEVICE_FAULTS:
            raise NvmlDeviceError(code, function)
        return Answer(code)

    def _must(self, function: str, *arguments: Any) -> Any:
        answer = self.ask(function, *arguments)
        if answer.code != SUCCESS:
            raise NvmlLibraryError(answer.code, function)
        return answer.value

    # --- the node ---

    def driver_version(self) -> str:
        return _text(self.ask("nvmlSystemGetDriverVersion").value)

    def device_count(self) -> int:
        return int(self._must("nvmlDeviceGetCount"))

    def device(self, index: int) -> Answer[Handle]:
        return self.ask("nvmlDeviceGetHandleByIndex", index)

    # --- what a device is ---

    def uuid(self, handle: Handle) -> str:
        """Empty where it is unknown (a handle from before a reconfiguration)."""
        return _text(self.ask("nvmlDeviceGetUUID", handle).value)

    def name(self, handle: Handle) -> str:
        return _text(self.ask("nvmlDeviceGetName", handle).value)

    def architecture(self, handle: Handle) -> str:
        """Empty for one that is not in ARCHITECTURES."""
        return ARCHITECTURES.get(self.number("nvmlDeviceGetArchitecture", handle).value or 0, "")

    def pci_bus_id(self, handle: Handle) -> str:
        """As NVML writes it (`00000000:9B:00.0`); empty where it does not tell."""
        info = self.ask("nvmlDeviceGetPciInfo_v3", handle).value
        return "" if info is None else _text(info.busId)

    def is_virtual(self, handle: Handle) -> bool:
        """Whether this is a vGPU inside a guest, which has fewer metrics."""
        mode = self.number("nvmlDeviceGetVirtualizationMode", handle).value
        return bool(mode == pynvml.NVML_GPU_VIRTUALIZATION_MODE_VGPU)

    def memory(self, handle: Handle) -> Answer[Memory]:
        answer = self.ask("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
        if answer.code in (FUNCTION_NOT_FOUND, VERSION_MISMATCH):
            answer = self.ask("nvmlDeviceGetMemoryInfo", handle)
        info = answer.value
        if info is None:
            return Answer(answer.code)
        reserved = getattr(info, "reserved", None)
        return Answer(
            SUCCESS,
            Memory(int(info.total), int(info.used), int(info.free), None if reserved is None else int(reserved)),
        )

    def number(self, function: str, handle: Handle, *arguments: Any) -> Answer[int]:
        """A call that answers with one whole number, in NVML's unit."""
        answer = self.ask(function, handle, *arguments)
        return answer.given(None if answer.value is None else int(answer.value))

    # --- MIG ---

    def mig_enabled(self, handle: Handle) -> bool:
        """The mode in force, not the pending one."""
        modes = self.ask("nvmlDeviceGetMigMode", handle).value
        return modes is not None and modes[0] == pynvml.NVML_DEVICE_MIG_ENABLE

    def mig_device_limit(self, handle: Handle) -> int:
        """How many MIG devices it can be cut into, which is also how many slices it has: 7, or 4 (A30)."""
        return self.number("nvmlDeviceGetMaxMigDeviceCount", handle).value or 0

    def mig_device(self, handle: Handle, index: int) -> Answer[Handle]:
        """NOT_FOUND is a hole in the numbering, which is normal."""
        return self.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)

    def instance_ids(self, handle: Handle) -> tuple[int, int] | None:
        """GPU instance and compute instance of a MIG device; None if it is gone."""
        gpu = self.number("nvmlDeviceGetGpuInstanceId", handle).value
        compute = self.number("nvmlDeviceGetComputeInstanceId", handle).value
        return None if gpu is None or compute is None else (gpu, compute)

    def slices(self, handle: Handle) -> tuple[int, int, int] | None:
        """GPU instance slices, compute instance slices and MiB of memory of a MIG device; None if it does not tell."""
        attributes = self.ask("nvmlDeviceGetAttributes_v2", handle).value
        if attributes is None:
            return None
        return (
            int(attributes.gpuInstanceSliceCount),
            int(attributes.computeInstanceSliceCount),
            int(attributes.memorySizeMB),
        )

    # --- activity ---

    def buffer(self, handle: Handle, kind: int, since: int) -> Answer[list[tuple[int, int]]]:
        """The driver's sample buffer newer than `since`: (microseconds since the epoch, value in NVML's unit).

        kind: NVML_*_SAMPLES. NOT_FOUND: none newer.
        """
        answer = self.ask("nvmlDeviceGetSamples", handle, kind, since)
        if answer.value is None:
            return Answer(answer.code)
        kind_of_value, samples = answer.value
        member = _MEMBERS.get(kind_of_value, ("uiVal", 32))[0]
        return Answer(SUCCESS, [(_sample_at(one), getattr(_sample_value(one), member)) for one in samples])

    def utilization_rates(self, handle: Handle) -> Answer[tuple[int, int]]:
        """Percent of the last sample period in which a kernel ran, and in which memory was read or written."""
        answer = self.ask("nvmlDeviceGetUtilizationRates", handle)
        rates = answer.value
        return answer.given(None if rates is None else (int(rates.gpu), int(rates.memory)))

    def process_utilization(self, handle: Handle, since: int) -> Answer[list[ProcessSample]]:
        """The processes active after `since` (microseconds). NOT_FOUND, and SUCCESS without samples: none was."""
        answer = self.ask("nvmlDeviceGetProcessUtilization", handle, since)
        if answer.code != SUCCESS:
            return Answer(answer.code)
        samples = [ProcessSample(_process_pid(one), _process_at(one), _process_sm(one)) for one in answer.value or ()]
        return Answer(SUCCESS, samples)

    def processes(self, handle: Handle, kind: ProcessKind) -> Answer[list[Process]]:
        answer = self.ask(_LISTS[kind], handle)
        if answer.value is None:
            return Answer(answer.code)
        return Answer(SUCCESS, [Process(int(one.pid), one.usedGpuMemory, kind) for one in answer.value])

    def fields(self, handle: Handle, wanted: Sequence[tuple[int, int]]) -> dict[int, Answer[FieldValue]]:
        """Fields by id, each with its own code. wanted: (field id, scope)."""
        answer = self.ask("nvmlDeviceGetFieldValues", handle, list(wanted))
        if answer.value is None:
            return {field: Answer(answer.code) for field, _ in wanted}
        found: dict[int, Answer[FieldValue]] = {}
        for (field, _), one in zip(wanted, answer.value, strict=True):
            code, kind = _field_code(one), _field_type(one)
            if code == SUCCESS and kind == 0 and not _field_at(one):
                code = NO_DATA  # the driver answers some fields with success and writes nothing
            if code in DEVICE_FAULTS:
                raise NvmlDeviceError(code, "nvmlDeviceGetFieldValues")
            if code != SUCCESS or kind not in _MEMBERS:
                found[field] = Answer(code or UNKNOWN)
                continue
            member, bits = _MEMBERS[kind]
            found[field] = Answer(SUCCESS, FieldValue(getattr(_field_value(one), member), bits))
        return found

    # --- GPM ---

    def gpm_supported(self, handle: Handle) -> State:
        answer = self.ask("nvmlGpmQueryDeviceSupport", handle)
        if answer.value is None:
            return answer.state
        return "ok" if answer.value.isSupportedDevice else "unsupported"

    def gpm_allocate(self) -> Answer[Handle]:
        return self.ask("nvmlGpmSampleAlloc")

    def gpm_free(self, sample: Handle) -> None:
        self.ask("nvmlGpmSampleFree", sample)

    def gpm_take(self, handle: Handle, gpu_instance: int | None, sample: Handle) -> int:
        """Fill the sample from the device, or from one of its GPU instances; NVML's code."""
        if gpu_instance is None:
            return self.ask("nvmlGpmSampleGet", handle, sample).code
        return self.ask("nvmlGpmMigSampleGet", handle, gpu_instance, sample).code

    def gpm_metrics(self, before: Handle, after: Handle, wanted: tuple[int, ...]) -> dict[int, Answer[float]]:
        """Metrics between two samples by id, each with its own code."""
        request = self._gpm_requests.get(wanted) or self._gpm_request(wanted)
        request.sample1, request.sample2 = before, after
        answer = self.ask("nvmlGpmMetricsGet", request)
        if answer.code != SUCCESS:
            return {metric: Answer(answer.code) for metric in wanted}
        found: dict[int, Answer[float]] = {}
        for metric, one in zip(wanted, request.metrics[: len(wanted)], strict=True):
            code = _metric_code(one)
            found[metric] = Answer(code, _metric_value(one) if code == SUCCESS else None)
        return found

    def _gpm_request(self, wanted: tuple[int, ...]) -> Any:
        """The request's struct, of 19 KB, made once."""
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(wanted)
        for one, metric in zip(request.metrics, wanted, strict=False):
            one.metricId = metric
        self._gpm_requests[wanted] = request
        return request

    # --- events ---

    def event_set(self) -> Answer[Handle]:
        return self.ask("nvmlEventSetCreate")

    def event_set_free(self, events: Handle) -> None:
        self.ask("nvmlEventSetFree", events)

    def register_xids(self, handle: Handle, events: Handle) -> int:
        return self.ask("nvmlDeviceRegisterEvents", handle, pynvml.nvmlEventTypeXidCriticalError, events).code

    def wait(self, events: Handle, milliseconds: int) -> Answer[Any]:
        """Block until an event comes: device, eventType, eventData, gpuInstanceId, computeInstanceId. TIMEOUT: none."""
        return self.ask("nvmlEventSetWait_v2", events, milliseconds)


_LISTS: dict[ProcessKind, str] = {
    "compute": "nvmlDeviceGetComputeRunningProcesses_v3",
    "graphics": "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "mps": "nvmlDeviceGetMPSComputeRunningProcesses_v3",
}
_MEMBERS = {0: ("dVal", 0), 1: ("uiVal", 32), 2: ("ulVal", 64), 3: ("ullVal", 64), 4: ("sllVal", 63), 5: ("siVal", 31)}
"""NVML_VALUE_TYPE_* -> the union's member and the width of a counter in it."""


# pynvml's structs look every attribute up in Python, sixty samples a device and cycle: the fields' own getters do not.
_sample_at = pynvml.c_nvmlSample_t.timeStamp.__get__
_sample_value = pynvml.c_nvmlSample_t.sampleValue.__get__
_process_pid = pynvml.c_nvmlProcessUtilizationSample_t.pid.__get__
_process_at = pynvml.c_nvmlProcessUtilizationSample_t.timeStamp.__get__
_process_sm = pynvml.c_nvmlProcessUtilizationSample_t.smUtil.__get__
_field_code = pynvml.c_nvmlFieldValue_t.nvmlReturn.__get__
_field_type = pynvml.c_nvmlFieldValue_t.valueType.__get__
_field_at = pynvml.c_nvmlFieldValue_t.timestamp.__get__
_field_value = pynvml.c_nvmlFieldValue_t.value.__get__
_metric_code = pynvml.c_nvmlGpmMetric_t.nvmlReturn.__get__
_metric_value = pynvml.c_nvmlGpmMetric_t.value.__get__


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return "" if value is None else str(value)
