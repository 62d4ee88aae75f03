"""Enumerates devices and MIG instances in each cycle, since handles become invalid when MIG is reconfigured.

An inventory has a version that rises when anything a workload can be given changed: a device came, went or broke,
MIG was switched or cut differently. Rows for `devices` are made only of such changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from collectors.nvml.library import Handle, Nvml, NvmlDeviceError

DeviceState = Literal["available", "unavailable", "removed"]
VENDOR = "nvidia"


@dataclass(frozen=True, slots=True)
class Partition:
    """A MIG device. units: its slices of the device's.   shares_instance: other compute instances are in its GPU
    instance, so what is measured of the instance is not of this partition alone."""

    uuid: str
    profile: str
    gpu_instance: int
    compute_instance: int
    units: int
    shares_instance: bool = False
    handle: Handle = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Device:
    """A physical GPU. units: 7 or 4 slices under MIG, else its replicas.   fault: NVML's code where it is lost."""

    uuid: str
    index: int
    model: str
    architecture: str
    memory_bytes: int | None
    pci_bus_id: str
    virtual: bool = False
    mig: bool = False
    units: int = 1
    partitions: tuple[Partition, ...] = ()
    state: DeviceState = "available"
    fault: int = 0
    handle: Handle = field(default=None, compare=False, repr=False)

    @property
    def mode(self) -> str:
        """As expected.toml names it: vgpu, mig_parent or whole."""
        if self.virtual:
            return "vgpu"
        return "mig_parent" if self.mig else "whole"


@dataclass(frozen=True, slots=True)
class Inventory:
    """version: 0 before anything was seen.   devices: by UUID, removed ones left out."""

    version: int = 0
    devices: Mapping[str, Device] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """A device that needs a new row, and what changed, as text."""

    device: Device
    what: str


def enumerate_devices(nvml: Nvml, before: Inventory, replicas: int = 1) -> list[Device]:
    """The devices that the library names now.

    A lost device cannot tell its UUID: it is the one that had the index before, if no other device has its UUID now.
    One that was never seen alive has no identity and is left out.
    """
    found: list[Device] = []
    lost: dict[int, int] = {}
    for index in range(nvml.device_count()):
        try:
            answer = nvml.device(index)
            device = _read(nvml, answer.value, index, before, replicas) if answer.value is not None else None
        except NvmlDeviceError as fault:
            lost[index] = fault.code
            continue
        if device is not None:
            found.append(device)
    alive = {device.uuid for device in found}
    gone = [device for device in before.devices.values() if device.uuid not in alive and device.index in lost]
    found += [faulted(device, lost[device.index]) for device in gone]
    return sorted(found, key=lambda device: device.index)


def faulted(device: Device, code: int) -> Device:
    """The same device out of service; its partitions are kept, since whoever holds them still does."""
    return replace(device, state="unavailable", fault=code, handle=None)


def compare(before: Inventory, now: Iterable[Device]) -> tuple[Inventory, list[Change]]:
    """The next inventory and the changes that lead to it, in the order of the devices.

    A device that vanished while it worked was removed; one that vanished after it was lost has fallen off the bus: it
    is still there for whoever owns the node, and stays unavailable.
    """
    devices = {device.uuid: device for device in now}
    changes: list[Change] = []
    for uuid, old in before.devices.items():
        if uuid in devices:
            continue
        if old.state == "unavailable":
            devices[uuid] = old
        else:
            changes.append(Change(replace(old, state="removed", handle=None), "removed"))
    for uuid, device in devices.items():
        what = _difference(before.devices.get(uuid), device)
        if what:
            changes.append(Change(device, what))
    version = before.version + 1 if changes else before.version
    return Inventory(version, devices), changes


def _difference(old: Device | None, new: Device) -> str:
    """What changed, in words; empty if nothing did."""
    if old is None:
        return "added"
    words = []
    if old.state != new.state:
        words.append(f"{old.state} -> {new.state}")
    if old.mig != new.mig:
        words.append("MIG on" if new.mig else "MIG off")
    if old.units != new.units:
        words.append(f"units {old.units} -> {new.units}")
    was = {partition.uuid: partition for partition in old.partitions}
    is_ = {partition.uuid: partition for partition in new.partitions}
    words += [f"- {one.profile} {uuid}" for uuid, one in was.items() if is_.get(uuid) != one]
    words += [f"+ {one.profile} {uuid}" for uuid, one in is_.items() if was.get(uuid) != one]
    if old.index != new.index:
        words.append(f"index {old.index} -> {new.index}")
    return ", ".join(words)


def _read(nvml: Nvml, handle: Handle, index: int, before: Inventory, replicas: int) -> Device | None:
    """The device behind a handle; what cannot change is asked once in its life."""
    uuid = nvml.uuid(handle)
    if not uuid:
        return None
    known = before.devices.get(uuid)
    if known is None:
        memory = nvml.memory(handle).value
        known = Device(
            uuid,
            index,
            nvml.name(handle),
            nvml.architecture(handle),
            None if memory is None else memory.total,
            nvml.pci_bus_id(handle),
            virtual=nvml.is_virtual(handle),
        )
    mig = nvml.mig_enabled(handle)
    limit = nvml.mig_device_limit(handle) if mig else 0
    partitions = _partitions(nvml, handle, limit) if mig else ()
    return replace(
        known,
        index=index,
        handle=handle,
        mig=mig,
        units=(limit or 7) if mig else replicas,
        partitions=partitions,
        state="available",
        fault=0,
    )


def _partitions(nvml: Nvml, parent: Handle, limit: int) -> tuple[Partition, ...]:
    found: list[Partition] = []
    for index in range(limit):
        handle = nvml.mig_device(parent, index).value
        ids = None if handle is None else nvml.instance_ids(handle)
        uuid = "" if handle is None else nvml.uuid(handle)
        if ids is None or not uuid:
            continue
        slices = nvml.slices(handle)
        units = max(1, slices[1]) if slices else 1
        found.append(Partition(uuid, _profile(nvml.name(handle), slices), ids[0], ids[1], units, handle=handle))
    shared = [one.gpu_instance for one in found]
    return tuple(
        replace(one, shares_instance=True) if shared.count(one.gpu_instance) > 1 else one
        for one in sorted(found, key=lambda one: (one.gpu_instance, one.compute_instance))
    )


def _profile(name: str, slices: tuple[int, int, int] | None) -> str:
    """The profile's name, as `1g.10gb` or `1c.3g.20gb`: the end of the MIG device's name, else made of its slices."""
    _, mig, profile = name.rpartition(" MIG ")
    if mig:
        return profile.strip()
    if slices is None:
        return ""
    gpu, compute, mebibytes = slices
    whole = f"{gpu}g.{round(mebibytes / 1024)}gb"
    return whole if compute == gpu else f"{compute}c.{whole}"
