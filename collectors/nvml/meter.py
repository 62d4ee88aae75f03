"""Readings of each device and MIG instance for an interval. Keeps what they need from before: last counter values, GPM
samples, and which process samples were seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from collectors.nvml import activity, counters, gauges, gpm
from collectors.nvml.activity import Processes, Window
from collectors.nvml.expected import PROCESSES, expected
from collectors.nvml.inventory import VENDOR, Device, Partition
from collectors.nvml.library import Nvml
from collectors.readings import DeviceReading, Reading, State

FIELDS = (
    *((number, 0) for number, _ in gauges.FIELDS.values()),
    *((number, 0) for group in counters.THROTTLES.values() for number in group),
    *((rate.field, rate.scope) for rate in counters.TRAFFIC.values()),
    (counters.OLD_THERMAL, 0),
    (gauges.RECOVERY, 0),
)
"""All fields of a device, asked for in one call."""
LATE = 1_000_000
"""Microseconds by which the driver may publish a process's sample after it was taken."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Readings of a device and its MIG instances, and the recovery action that the driver asks for (empty: none)."""

    whole: DeviceReading
    partitions: tuple[DeviceReading, ...] = ()
    recovery: str = ""

    @property
    def all(self) -> tuple[DeviceReading, ...]:
        return (self.whole, *self.partitions)


class Meter:
    """The state between cycles. Call `forget` after the clock jumped or the driver was away: the time in between is
    unknown."""

    def __init__(self, nvml: Nvml) -> None:
        self._nvml = nvml
        self._counters = counters.Counters()
        self._gpm = gpm.Gpm(nvml)
        self._gpm_states: dict[str, State] = {}
        self._seen: dict[str, int] = {}

    def measure(
        self, device: Device, now: datetime, seconds: float, dropped: Counter[str], extra: Mapping[str, Reading]
    ) -> Measured:
        """Readings over (now - seconds, now].

        dropped: what was not used, by reason, is counted here.   extra: readings of the device from elsewhere.
        Errors: NvmlDeviceError, NvmlLibraryError.
        """
        nvml, handle, uuid = self._nvml, device.handle, device.uuid
        until = round(now.timestamp() * 1e6)
        window = Window(until - round(seconds * 1e6), until)
        fields = nvml.fields(handle, FIELDS)
        found = {**extra, **gauges.memory(nvml, handle), **gauges.gauges(nvml, handle), **gauges.from_fields(fields)}
        energy = nvml.number("nvmlDeviceGetTotalEnergyConsumption", handle)
        found |= counters.energy(self._counters, uuid, energy, seconds)
        if found["power_watts"].value is None:
            found["power_watts"] = self._power(device, window)
        found |= counters.throttling(self._counters, uuid, fields, seconds)
        found |= _first_known(
            self._performance(device, None, (uuid,), now), counters.traffic(self._counters, uuid, fields, seconds)
        )
        if device.mig:
            found |= dict.fromkeys(activity.BUFFERS, Reading("unsupported", source="nvml under MIG"))
            processes = Processes((), "unsupported")
        else:
            found |= activity.utilization(nvml, handle, window)
            processes = self._processes(device, window, dropped)
        whole = _reading(device, None, found, processes)
        partitions = tuple(self._partition(device, one, window, now, dropped) for one in device.partitions)
        return Measured(whole, partitions, gauges.recovery(fields))

    def forget(self, device: str | None = None) -> None:
        """Start over, for one device or all."""
        self._counters.forget(device)
        if device is None:
            self._seen.clear()
            self._gpm_states.clear()
            self._gpm.close()
        else:
            self._seen.pop(device, None)
            self._gpm_states.pop(device, None)
            self._gpm.forget(device)

    def keep(self, devices: Iterable[Device]) -> None:
        """Let go of everything that belongs to no device or MIG instance of these."""
        kept = list(devices)
        names = {device.uuid for device in kept}
        self._counters.keep(names)
        self._gpm.keep({(uuid,) for uuid in names} | {(one.uuid, part.uuid) for one in kept for part in one.partitions})
        self._seen = {uuid: at for uuid, at in self._seen.items() if uuid in names}
        self._gpm_states = {uuid: state for uuid, state in self._gpm_states.items() if uuid in names}

    def _partition(
        self, device: Device, partition: Partition, window: Window, now: datetime, dropped: Counter[str]
    ) -> DeviceReading:
        found = gauges.memory(self._nvml, partition.handle)
        if partition.shares_instance:
            found |= gpm.silent("unsupported", "nvml gpm: the GPU instance has several compute instances")
        else:
            key = (device.uuid, partition.uuid)
            found |= self._performance(device, partition.gpu_instance, key, now)
        processes = activity.processes(self._nvml, partition.handle, window, True, dropped)
        return _reading(device, partition, found, processes)

    def _processes(self, device: Device, window: Window, dropped: Counter[str]) -> Processes:
        """Process utilization is asked for since the last sample seen, else the driver repeats old ones; but since no
        longer ago than it can publish late, else its mean covers a time before the interval."""
        since = max(self._seen.get(device.uuid, window.since), window.since - LATE)
        found = activity.processes(self._nvml, device.handle, Window(since, window.until), False, dropped)
        self._seen[device.uuid] = window.until - LATE if found.last_sample is None else found.last_sample
        return found

    def _power(self, device: Device, window: Window) -> Reading:
        """Watts, if energy gives none: the mean of the sample buffer, else the current value."""
        samples = self._nvml.buffer(device.handle, activity.POWER, window.since)
        value = activity.mean(samples.value or (), window, high=gauges.MOST_WATTS / gauges.MILLIWATT)
        if value is not None:
            return Reading("ok", value * gauges.MILLIWATT, "nvmlDeviceGetSamples")
        return gauges.power(self._nvml, device.handle)

    def _performance(self, device: Device, gpu_instance: int | None, key: gpm.Key, now: datetime) -> dict[str, Reading]:
        state = self._gpm_states.get(device.uuid)
        if state is None:
            state = self._gpm_states[device.uuid] = self._nvml.gpm_supported(device.handle)
        if state != "ok":
            return gpm.silent(state)
        return self._gpm.measure(device.handle, key, gpu_instance, now.timestamp())


def silent(device: Device) -> tuple[DeviceReading, ...]:
    """Blank readings for a device and its MIG instances of which nothing can be read."""
    blank = Reading("blank", source="nvml")

    def names(mode: str) -> dict[str, Reading]:
        return dict.fromkeys(sorted(expected(device.architecture, mode) - {PROCESSES}), blank)

    nobody = Processes((), "blank")
    whole = _reading(device, None, names(device.mode), nobody)
    return (whole, *(_reading(device, one, names("mig"), nobody) for one in device.partitions))


def _reading(
    device: Device, partition: Partition | None, found: Mapping[str, Reading], processes: Processes
) -> DeviceReading:
    return DeviceReading(
        device.uuid,
        "" if partition is None else partition.uuid,
        "" if partition is None else partition.profile,
        device.index,
        VENDOR,
        device.model,
        device.units if partition is None else partition.units,
        found,
        processes.readings,
        processes.state,
    )


def _first_known(measured: Mapping[str, Reading], counted: Mapping[str, Reading]) -> dict[str, Reading]:
    """GPM's readings; where they have no value, the counters' of the same metric, unless those say even less."""
    chosen = dict(measured)
    for metric, other in counted.items():
        mine = chosen[metric]
        if mine.value is None and (other.value is not None or mine.state == "unsupported"):
            chosen[metric] = other
    return chosen
