"""One cycle over a node's NVIDIA GPUs: which devices there are, what each did since the last cycle, and what is wrong.

`collect(now)` is all that an agent calls. It never raises for the driver's failures: a missing library or a lost GPU is
a finding, and its metrics are blank.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from collectors.nvml import inventory, xids
from collectors.nvml.events import XidWatch
from collectors.nvml.expected import PROCESSES, Absences, expected
from collectors.nvml.findings import Findings
from collectors.nvml.inventory import Device, Inventory
from collectors.nvml.library import DRIVER_NOT_LOADED, RESET_REQUIRED, Nvml, NvmlDeviceError, NvmlLibraryError
from collectors.nvml.meter import Measured, Meter, silent
from collectors.nvml.xids import Xid
from collectors.readings import Collected, DeviceReading, Reading
from warehouse.records import MAX_INTERVAL_SECONDS

log = logging.getLogger(__name__)

LOOK_BACK = timedelta(days=7)
"""How old an XID in the kernel's log may be to be reported at the start."""


@dataclass(slots=True)
class NvmlCycle:
    """The result of one cycle."""

    interval_seconds: float
    readings: list[DeviceReading] = field(default_factory=list)
    collected: Collected = field(default_factory=Collected)
    inventory_version: int = 0
    devices: tuple[Device, ...] = ()
    restart_needed: bool = False


class NvmlCollector:
    """The state between cycles: the inventory, the meter's state, and the findings that were reported already."""

    def __init__(
        self,
        cluster: str = "",
        node: str = "",
        *,
        pool: str = "",
        replicas: int = 1,
        interval_seconds: float = 10.0,
        watch_xids: bool = True,
        kernel_log: Path | None = None,
        nvml: Nvml | None = None,
    ) -> None:
        self.replicas = replicas
        self._pool, self._first_interval, self._kernel_log = pool, interval_seconds, kernel_log
        self._nvml = nvml or Nvml()
        self._started = False
        self._previous: datetime | None = None
        self._inventory = Inventory()
        self._meter = Meter(self._nvml)
        self._absences = Absences()
        self._findings = Findings(cluster, node)
        self._watch = XidWatch(self._nvml) if watch_xids else None
        self._watched: frozenset[str] = frozenset()
        self._last_xids: dict[str, Xid] = {}

    def collect(self, now: datetime) -> NvmlCycle:
        """Everything since the last cycle (at first: since `interval_seconds` ago).

        Errors: ValueError if `now` is naive.
        """
        if now.tzinfo is None:
            raise ValueError("now must be aware")
        cycle = NvmlCycle(self._first_interval)
        try:
            self._start()
            self._set_interval(cycle, now)
            self._cycle(cycle, now)
        except NvmlLibraryError as fault:
            self._without_library(cycle, fault, now)
        self._previous = now
        cycle.inventory_version = self._inventory.version
        cycle.devices = tuple(self._inventory.devices.values())
        return cycle

    def close(self) -> None:
        """Stop the thread, free what was taken, shut the library down."""
        self._stop_watching()
        if self._started:
            self._meter.forget()
            self._nvml.stop()
        self._started = False

    # --- time and library ---

    def _set_interval(self, cycle: NvmlCycle, now: datetime) -> None:
        """A clock that was set back, or ran ahead by more than a row may cover, makes everything since unknown."""
        if self._previous is None:
            return
        seconds = (now - self._previous).total_seconds()
        if 0 < seconds <= MAX_INTERVAL_SECONDS:
            cycle.interval_seconds = seconds
            return
        went = f"the clock went from {self._previous:%Y-%m-%dT%H:%M:%SZ} to {now:%Y-%m-%dT%H:%M:%SZ}"
        message = f"{went}: averages and counters start anew"
        self._findings.say(cycle.collected, now, "clock_jumped", "warning", message)
        self._meter.forget()

    def _start(self) -> None:
        if not self._started:
            self._nvml.start()
            self._started = True
            self._findings.over("", "source_unreachable")
            log.info("nvml: driver %s", self._nvml.driver_version())

    def _without_library(self, cycle: NvmlCycle, fault: NvmlLibraryError, now: datetime) -> None:
        """Known devices have blank readings, and are out of service if the driver is not loaded."""
        self.close()
        cycle.restart_needed = fault.restart_needed
        cycle.readings.clear()
        self._findings.once(cycle.collected, now, "source_unreachable", "critical", str(fault))
        devices = list(self._inventory.devices.values())
        if fault.code == DRIVER_NOT_LOADED:
            devices = [inventory.faulted(device, fault.code) for device in devices]
        self._settle(cycle, now, devices)
        cycle.readings.extend(reading for device in devices for reading in silent(device))

    # --- a cycle ---

    def _cycle(self, cycle: NvmlCycle, now: datetime) -> None:
        devices = inventory.enumerate_devices(self._nvml, self._inventory, self.replicas)
        self._tell_xids(cycle, now, devices)
        self._watch_over(cycle, now, devices)
        self._settle(cycle, now, [self._device(cycle, now, device) for device in devices])

    def _device(self, cycle: NvmlCycle, now: datetime, device: Device) -> Device:
        """Measure it; the same device out of service if it does not answer any more."""
        try:
            if device.fault:
                raise NvmlDeviceError(device.fault, "nvmlDeviceGetHandleByIndex")
            measured = self._meter.measure(
                device, now, cycle.interval_seconds, cycle.collected.dropped, self._xid_reading(device)
            )
        except NvmlDeviceError as fault:
            finding = "reset_required" if fault.code == RESET_REQUIRED else "gpu_lost"
            self._findings.once(cycle.collected, now, finding, "critical", str(fault), device.uuid)
            self._meter.forget(device.uuid)
            cycle.readings.extend(silent(device))
            return inventory.faulted(device, fault.code)
        self._findings.over(device.uuid, "gpu_lost")
        if measured.recovery:
            message = f"the driver asks: {measured.recovery}"
            self._findings.once(cycle.collected, now, "reset_required", "critical", message, device.uuid)
        else:
            self._findings.over(device.uuid, "reset_required")
        self._tell_missing(cycle, now, device, measured)
        cycle.readings.extend(measured.all)
        return device

    def _settle(self, cycle: NvmlCycle, now: datetime, devices: Sequence[Device]) -> None:
        """Compare with the last inventory, write the changes, and let go of what is no longer there."""
        first = self._inventory.version == 0
        self._inventory, changes = inventory.compare(self._inventory, devices)
        for change in changes:
            device = change.device
            cycle.collected.add("devices", self._device_row(device, now))
            if not first:
                self._findings.say(cycle.collected, now, "inventory_changed", "info", change.what, device.uuid)
        partitions = {part.uuid for device in devices for part in device.partitions}
        self._absences.keep(partitions | {device.uuid for device in devices})
        if self._started:
            self._meter.keep(devices)

    def _device_row(self, device: Device, now: datetime) -> dict[str, object]:
        return {
            "ts": now,
            "cluster": self._findings.cluster,
            "node": self._findings.node,
            "device_id": device.uuid,
            "vendor": inventory.VENDOR,
            "model": device.model,
            "memory_bytes": device.memory_bytes,
            "units": device.units,
            "pool": self._pool,
            "state": device.state,
        }

    # --- what is missing ---

    def _tell_missing(self, cycle: NvmlCycle, now: datetime, device: Device, measured: Measured) -> None:
        for one in measured.all:
            mode = "mig" if one.partition_id else device.mode
            states = {metric: reading.state for metric, reading in one.readings.items()}
            states[PROCESSES] = one.processes_state
            missing = self._absences.look(one.partition_id or device.uuid, expected(device.architecture, mode), states)
            denied = [found.metric for found in missing if found.state == "no_permission"]
            others = [f"{found.metric} ({found.state})" for found in missing if found.state != "no_permission"]
            where = (one.device_id, one.partition_id)
            if denied:
                message = f"the driver does not let this process read {', '.join(denied)}"
                self._findings.say(cycle.collected, now, "no_permission", "warning", message, *where)
            if others:
                message = f"expected of {device.architecture}, {mode}, and has no value: {', '.join(others)}"
                self._findings.say(cycle.collected, now, "metric_missing", "warning", message, *where)

    # --- XIDs ---

    def _watch_over(self, cycle: NvmlCycle, now: datetime, devices: Iterable[Device]) -> None:
        """Watch the present devices; start over when they change."""
        if self._watch is None:
            return
        alive = {device.uuid: device.handle for device in devices if device.handle is not None}
        died = "ok" in self._watch.states.values() and not self._watch.running
        if frozenset(alive) == self._watched and not died:
            return
        self._stop_watching()
        self._watch.start(alive.items())
        self._watched = frozenset(alive)
        denied = sorted(uuid for uuid, state in self._watch.states.items() if state == "no_permission")
        for uuid in denied:
            message = "the driver does not let this process wait for XIDs"
            self._findings.once(cycle.collected, now, "no_permission", "warning", message, uuid)

    def _stop_watching(self) -> None:
        if self._watch is not None:
            self._watch.stop()
        self._watched = frozenset()

    def _tell_xids(self, cycle: NvmlCycle, now: datetime, devices: Sequence[Device]) -> None:
        """XIDs from events since the last cycle, and the first time those in the kernel's log from before."""
        found = self._from_kernel_log(cycle, now)
        if self._watch is not None:
            found += self._watch.drain()
            if self._watch.lost:
                cycle.collected.dropped["XID while the queue was full"] += self._watch.lost
                self._watch.lost = 0
        by_bus = {xids.bus(device.pci_bus_id): device.uuid for device in devices}
        parts = {(device.uuid, part.gpu_instance): part.uuid for device in devices for part in device.partitions}
        for xid in found:
            uuid = xid.device_id or by_bus.get(xid.pci_bus_id, "")
            part = "" if xid.gpu_instance is None else parts.get((uuid, xid.gpu_instance), "")
            self._last_xids[uuid] = xid
            severity = xids.meaning(xid.code)[1]
            self._findings.say(cycle.collected, xid.at, "xid", severity, xid.message, uuid, part, xid.source)

    def _from_kernel_log(self, cycle: NvmlCycle, now: datetime) -> list[Xid]:
        path, self._kernel_log = self._kernel_log, None
        if path is None:
            return []
        try:
            found = xids.read_kernel_log(path, xids.boot_time())
        except OSError as error:
            message = f"{path}: {error.strerror or error}; XIDs from before the agent's start are not known"
            self._findings.say(cycle.collected, now, "no_permission", "info", message)
            return []
        return [xid for xid in found if now - LOOK_BACK <= xid.at <= now]

    def _xid_reading(self, device: Device) -> dict[str, Reading]:
        """The last XID since the start; 0 and idle if none came and they are reported."""
        last = self._last_xids.get(device.uuid)
        if last is not None:
            return {"xid_last": Reading("ok", float(last.code), last.source)}
        state = "unsupported" if self._watch is None else self._watch.states.get(device.uuid, "blank")
        if state == "ok":
            return {"xid_last": Reading("idle", 0.0, "nvml event")}
        return {"xid_last": Reading(state, source="nvml event")}
