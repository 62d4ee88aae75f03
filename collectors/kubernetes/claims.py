"""Dynamic resource allocation: which devices a pod's ResourceClaims got, by the UUIDs that ResourceSlices carry.

A claim's allocation names (driver, pool, device); the slice of that pool says which UUID that is. Claims for what is
no accelerator (network cards, IMEX channels) and those with admin access (which take nothing away) do not count.

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/, resource.k8s.io/v1;
        attributes of https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from collectors.kubernetes.objects import Object, child, created, items, name, namespace, text
from collectors.kubernetes.resources import device_units, partition_units, quantity

ACCELERATORS = re.compile(r"(gpu|mig|tpu|npu|gaudi)\.(?:.+\.)?(?P<vendor>[a-z0-9-]+)\.[a-z]+")
"""Drivers and device classes of accelerators: gpu.nvidia.com, mig.nvidia.com, gpu.amd.com, tpu.google.com."""

SLICE_PATHS = tuple(f"/apis/resource.k8s.io/{version}/resourceslices" for version in ("v1", "v1beta2", "v1beta1"))
"""The newest that the server serves."""

DeviceName = tuple[str, str, str]
"""(driver, pool, device): how a claim names what it got."""


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device, or a partition of one, as a ResourceSlice tells it.

    device_id: the vendor's UUID of the whole device; empty if the driver does not publish it.   partition_id: that of
    the partition, empty for the whole.   units: of the device that this one takes; None = all.   since: the slice's
    creation.   usable: no taint keeps pods off it.
    """

    node: str
    vendor: str
    device_id: str = ""
    partition_id: str = ""
    partition_profile: str = ""
    units: int | None = None
    model: str = ""
    memory_bytes: int | None = None
    since: datetime | None = None
    usable: bool = True


def slice_devices(slice_: Object) -> dict[DeviceName, SliceDevice]:
    """The accelerators in one ResourceSlice."""
    spec = child(slice_, "spec")
    driver, pool = text(spec, "driver"), text(child(spec, "pool"), "name")
    match = ACCELERATORS.fullmatch(driver)
    if match is None:
        return {}
    found = {}
    for device in items(spec, "devices"):
        basic = child(device, "basic") or device  # v1beta1 has them one level down
        attributes = {key.rsplit("/", 1)[-1]: _value(value) for key, value in child(basic, "attributes").items()}
        capacity = {key.rsplit("/", 1)[-1]: value for key, value in child(basic, "capacity").items()}
        node = text(spec, "nodeName") or text(basic, "nodeName")
        found[driver, pool, text(device, "name")] = _device(
            node, match["vendor"], attributes, capacity, created(slice_), not items(basic, "taints")
        )
    return found


def _device(
    node: str,
    vendor: str,
    attributes: Mapping[str, str],
    capacity: Mapping[str, Any],
    since: datetime | None,
    usable: bool,
) -> SliceDevice:
    memory = child(capacity, "memory").get("value", capacity.get("memory"))
    memory_bytes = int(quantity(memory)) or None if isinstance(memory, str) else None
    own, parent = attributes.get("uuid", ""), attributes.get("parentUUID", "")
    model = attributes.get("productName", "") or attributes.get("model", "")
    profile = attributes.get("profile", "") or attributes.get("partitionProfile", "")
    if attributes.get("type") == "mig" or parent or "partition" in attributes.get("type", ""):
        units = partition_units(vendor, profile)
        return SliceDevice(node, vendor, parent, own if parent else "", profile, units, model, None, since, usable)
    return SliceDevice(node, vendor, own, model=model, memory_bytes=memory_bytes, since=since, usable=usable)


def _value(attribute: Any) -> str:
    """An attribute's value as text: it stands under the name of its type."""
    return next((str(value) for value in attribute.values()), "") if isinstance(attribute, Mapping) else ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim.   asked: accelerators that it asks for.   got: what it was given; None while not allocated."""

    asked: int
    got: tuple[DeviceName, ...] | None


def read_claim(claim: Object) -> Claim:
    allocation = child(claim, "status", "allocation")
    asked = 0
    for request in items(child(claim, "spec", "devices"), "requests"):
        exact = child(request, "exactly") or next(iter(items(request, "firstAvailable")), request)
        if ACCELERATORS.fullmatch(text(exact, "deviceClassName")) and not exact.get("adminAccess"):
            count = exact.get("count", 1)
            asked += count if isinstance(count, int) else 1
    if not allocation:
        return Claim(asked, None)
    got = tuple(
        (text(result, "driver"), text(result, "pool"), text(result, "device"))
        for result in items(child(allocation, "devices"), "results")
        if ACCELERATORS.fullmatch(text(result, "driver")) and not result.get("adminAccess")
    )
    return Claim(len(got), got)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A pod's claims together.   devices: what they got, once all are allocated; those without a UUID are left out."""

    asked: int
    allocated: bool
    devices: tuple[SliceDevice, ...] = ()


@dataclass
class Claims:
    """What is known of claims and slices. `put` and `drop` take API objects."""

    slices: dict[str, dict[DeviceName, SliceDevice]] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    _devices: dict[DeviceName, SliceDevice] | None = None
    _whole: dict[str, list[SliceDevice]] | None = None

    def put_slice(self, slice_: Object) -> None:
        self.slices[name(slice_)] = slice_devices(slice_)
        self._devices = self._whole = None

    def drop_slice(self, slice_name: str) -> None:
        self.slices.pop(slice_name, None)
        self._devices = self._whole = None

    def put_claim(self, claim: Object) -> None:
        self.claims[namespace(claim), name(claim)] = read_claim(claim)

    def drop_claim(self, key: tuple[str, str]) -> None:
        self.claims.pop(key, None)

    def of(self, pod: Object) -> Claimed | None:
        """What the pod's claims got; None while one of them, or the slice of what it got, has not been seen."""
        found = []
        for claim_name in claim_names(pod):
            claim = self.claims.get((namespace(pod), claim_name)) if claim_name else None
            if claim is None:
                return None
            found.append(claim)
        asked = sum(claim.asked for claim in found)
        if any(claim.got is None for claim in found):
            return Claimed(asked, allocated=False)
        devices = [self._device(device) for claim in found for device in claim.got or ()]
        if any(device is None for device in devices):
            return None
        return Claimed(asked, True, tuple(device for device in devices if device is not None and device.device_id))

    def _device(self, wanted: DeviceName) -> SliceDevice | None:
        if self._devices is None:
            self._devices = {key: device for devices in self.slices.values() for key, device in devices.items()}
        return self._devices.get(wanted)

    def inventory_of(self, node: str) -> list[SliceDevice]:
        """The node's whole devices with a UUID, each once: of a partitioned one, what its partitions say of it."""
        if self._whole is None:
            self._whole = _inventory(device for devices in self.slices.values() for device in devices.values())
        return self._whole.get(node, [])


def _inventory(told: Iterable[SliceDevice]) -> dict[str, list[SliceDevice]]:
    by_id: dict[str, list[SliceDevice]] = {}
    for device in told:
        if device.device_id and device.node:
            by_id.setdefault(device.device_id, []).append(device)
    found: dict[str, list[SliceDevice]] = {}
    for device_id in sorted(by_id):
        whole = _whole(by_id[device_id])
        found.setdefault(whole.node, []).append(whole)
    return found


def _whole(told: Iterable[SliceDevice]) -> SliceDevice:
    """The device of which these are the whole and the partitions."""
    ordered = sorted(told, key=lambda device: (device.partition_id != "", device.partition_id))
    first, profiles = ordered[0], sorted({each.partition_profile for each in ordered if each.partition_profile})
    units = next((units for profile in profiles if (units := device_units(first.vendor, profile))), 1)
    return SliceDevice(
        node=first.node,
        vendor=first.vendor,
        device_id=first.device_id,
        units=units,
        model=next((each.model for each in ordered if each.model), ""),
        memory_bytes=first.memory_bytes,
        since=min((each.since for each in ordered if each.since is not None), default=None),
        usable=all(each.usable for each in ordered if not each.partition_id) if not first.partition_id else True,
    )


def claim_names(pod: Object) -> list[str]:
    """Names of the pod's claims; empty text for one that is yet to be made from its template."""
    made = {text(status, "name"): status for status in items(child(pod, "status"), "resourceClaimStatuses")}
    names = []
    for claim in items(child(pod, "spec"), "resourceClaims"):
        direct, status = text(claim, "resourceClaimName"), made.get(text(claim, "name"))
        if direct:
            names.append(direct)
        elif status is None:
            names.append("")
        elif generated := text(status, "resourceClaimName"):
            names.append(generated)
        # A status without a name: the template asked for nothing, and no claim was needed.
    return names
