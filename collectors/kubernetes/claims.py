"""Dynamic resource allocation: which devices a pod's ResourceClaims got, by the UUIDs that ResourceSlices carry.

A claim's allocation names (driver, pool, device); the slice of that pool says which UUID that is. Claims for what is
no accelerator (network cards, IMEX channels) and those with admin access (which take nothing away) do not count.

What a claim takes of a device is a part of it:

    consumed capacity   of a device that allows several allocations, each with a share ID: the claim's capacity by the
                        device's
    MIG                 the profile's compute slices by the device's
    other partitions    the counters that the device consumes by those of the counter set that it shares with others

Source: https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/, resource.k8s.io/v1;
        attributes of https://github.com/kubernetes-sigs/dra-driver-nvidia-gpu;
        https://www.kubernetes.dev/resources/keps/5075/ and /4815/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any

from collectors.kubernetes.objects import Object, child, created, items, name, namespace, text
from collectors.kubernetes.resources import ShareBy, device_units, partition_units, quantity

ACCELERATORS = re.compile(r"(gpu|mig|tpu|npu|gaudi)\.(?:.+\.)?(?P<vendor>[a-z0-9-]+)\.[a-z]+")
"""Drivers and device classes of accelerators: gpu.nvidia.com, mig.nvidia.com, gpu.amd.com, tpu.google.com."""

SLICE_PATHS = tuple(f"/apis/resource.k8s.io/{version}/resourceslices" for version in ("v1", "v1beta2", "v1beta1"))
"""The newest that the server serves."""

SHARED_UNITS = 840
"""Units of a device that only the API reports. Halves to eighths come out exactly, tenths and twelfths, and MIG's
sevenths and quarters, so that claims may share it."""

DeviceName = tuple[str, str, str]
"""(driver, pool, device): how a claim names what it got."""


Amounts = Mapping[str, Fraction]
"""Of memory, cores and the like, by their names."""


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """A device, or a partition of one, as a ResourceSlice tells it.

    device_id: the vendor's UUID of the whole device; empty if the driver does not publish it.   partition_id: that of
    the partition, empty for the whole.   part: of the device that this one is; None: unknown.   units: of the whole.
    since: the slice's creation.   usable: no taint keeps pods off it.   capacity: what claims can consume of it.
    counters: what it consumes of the counter sets that it shares with others.
    """

    node: str
    vendor: str
    device_id: str = ""
    partition_id: str = ""
    partition_profile: str = ""
    part: Fraction | None = Fraction(1)
    units: int = SHARED_UNITS
    model: str = ""
    memory_bytes: int | None = None
    since: datetime | None = None
    usable: bool = True
    capacity: Amounts = field(default_factory=dict)
    counters: Mapping[str, Amounts] = field(default_factory=dict)


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
        node = text(spec, "nodeName") or text(basic, "nodeName")
        found[driver, pool, text(device, "name")] = _device(node, match["vendor"], basic, created(slice_))
    return found


def slice_counters(slice_: Object) -> dict[tuple[str, str, str], Amounts]:
    """(driver, pool, counter set) -> all that its devices can consume of each counter."""
    spec = child(slice_, "spec")
    pool = text(child(spec, "pool"), "name")
    return {
        (text(spec, "driver"), pool, text(each, "name")): _amounts(child(each, "counters"))
        for each in items(spec, "sharedCounters")
    }


def _device(node: str, vendor: str, basic: Object, since: datetime | None) -> SliceDevice:
    attributes = {key.rsplit("/", 1)[-1]: _value(value) for key, value in child(basic, "attributes").items()}
    capacity = _amounts(child(basic, "capacity"))
    own, parent = attributes.get("uuid", ""), attributes.get("parentUUID", "")
    found = SliceDevice(
        node,
        vendor,
        own,
        model=attributes.get("productName", "") or attributes.get("model", ""),
        memory_bytes=int(capacity.get("memory", 0)) or None,
        since=since,
        usable=not items(basic, "taints"),
        capacity=capacity,
        counters={
            text(each, "counterSet"): _amounts(child(each, "counters")) for each in items(basic, "consumesCounters")
        },
    )
    profile = attributes.get("profile", "") or attributes.get("partitionProfile", "")
    if attributes.get("type") != "mig" and not parent and "partition" not in attributes.get("type", ""):
        return found
    taken, of = partition_units(vendor, profile), device_units(vendor, profile)
    return replace(
        found,
        device_id=parent,
        partition_id=own if parent else "",
        partition_profile=profile,
        part=min(Fraction(1), Fraction(taken, of)) if taken and of else None,
        memory_bytes=None,
    )


def _amounts(of: Object) -> dict[str, Fraction]:
    """Quantities by the last part of their names; each is one, or an object with one as its value."""
    found = {}
    for key, value in of.items():
        amount = value.get("value") if isinstance(value, Mapping) else value
        if isinstance(amount, str | int) and (number := quantity(amount)) > 0:
            found[key.rsplit("/", 1)[-1]] = Fraction(number)
    return found


def _ratio(taken: Amounts, of: Amounts, by: ShareBy) -> Fraction:
    """The fraction of these capacities that a claim takes, at most 1: the larger one of memory and the rest."""
    parts = {name: amount / of[name] for name, amount in taken.items() if of.get(name)}
    memory = max((part for name, part in parts.items() if "memory" in name.lower()), default=Fraction(0))
    cores = max((part for name, part in parts.items() if "memory" not in name.lower()), default=Fraction(0))
    found = max(memory, cores) if by == "larger" else (cores or memory) if by == "cores" else (memory or cores)
    return min(Fraction(1), found)


def _value(attribute: Any) -> str:
    """An attribute's value as text: it stands under the name of its type."""
    return next((str(value) for value in attribute.values()), "") if isinstance(attribute, Mapping) else ""


@dataclass(frozen=True, slots=True)
class Result:
    """A device that a claim got.   consumed: of its capacity; None: the device is the claim's alone."""

    name: DeviceName
    consumed: Amounts | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim.   asked: accelerators that it asks for.   got: what it was given; None while not allocated."""

    asked: int
    got: tuple[Result, ...] | None


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
        Result(
            (text(result, "driver"), text(result, "pool"), text(result, "device")),
            _amounts(child(result, "consumedCapacity")) if text(result, "shareID") else None,
        )
        for result in items(child(allocation, "devices"), "results")
        if ACCELERATORS.fullmatch(text(result, "driver")) and not result.get("adminAccess")
    )
    return Claim(len(got), got)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A pod's claims together.   devices: what they got, once all are allocated; those without a UUID are left out. The
    `part` of each is what the claim takes of the whole device.   of: the claim of each, as namespace/name."""

    asked: int
    allocated: bool
    devices: tuple[SliceDevice, ...] = ()
    of: tuple[str, ...] = ()


@dataclass
class Claims:
    """What is known of claims and slices. `put` and `drop` take API objects.   by: which share of a device counts."""

    by: ShareBy = "larger"
    slices: dict[str, dict[DeviceName, SliceDevice]] = field(default_factory=dict)
    counters: dict[str, dict[tuple[str, str, str], Amounts]] = field(default_factory=dict)
    claims: dict[tuple[str, str], Claim] = field(default_factory=dict)
    _devices: dict[DeviceName, SliceDevice] | None = None
    _whole: dict[str, list[SliceDevice]] | None = None

    def put_slice(self, slice_: Object) -> None:
        self.slices[name(slice_)] = slice_devices(slice_)
        self.counters[name(slice_)] = slice_counters(slice_)
        self._devices = self._whole = None

    def drop_slice(self, slice_name: str) -> None:
        self.slices.pop(slice_name, None)
        self.counters.pop(slice_name, None)
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
            found.append((f"{namespace(pod)}/{claim_name}", claim))
        asked = sum(claim.asked for _, claim in found)
        if any(claim.got is None for _, claim in found):
            return Claimed(asked, allocated=False)
        devices: list[SliceDevice] = []
        of: list[str] = []
        for key, claim in found:
            for result in claim.got or ():
                device = self._taken(result)
                if device is None:
                    return None
                if device.device_id:
                    devices.append(device)
                    of.append(key)
        return Claimed(asked, True, tuple(devices), tuple(of))

    def _taken(self, result: Result) -> SliceDevice | None:
        """The device with the part of it that the claim takes; None while its slice has not been seen."""
        device = self._known().get(result.name)
        if device is None or result.consumed is None or device.part is None:
            return device
        return replace(device, part=device.part * (_ratio(result.consumed, device.capacity, self.by) or 1))

    def _known(self) -> dict[DeviceName, SliceDevice]:
        if self._devices is None:
            found = {key: device for devices in self.slices.values() for key, device in devices.items()}
            self._devices = _partitioned(
                found, {key: all_ for sets in self.counters.values() for key, all_ in sets.items()}
            )
        return self._devices

    def inventory_of(self, node: str) -> list[SliceDevice]:
        """The node's whole devices with a UUID, each once: of a partitioned one, what its partitions say of it."""
        if self._whole is None:
            self._whole = _inventory(self._known().values())
        return self._whole.get(node, [])


def _partitioned(
    devices: Mapping[DeviceName, SliceDevice], counters: Mapping[tuple[str, str, str], Amounts]
) -> dict[DeviceName, SliceDevice]:
    """With the partitions that only counters make known: the device of which they are parts is the one that consumes
    all that they share."""
    found = dict(devices)
    wholes: dict[tuple[str, str, str], str] = {}
    parts: dict[DeviceName, tuple[Fraction, tuple[str, str, str]]] = {}
    for key, device in devices.items():
        if device.partition_profile or device.partition_id or len(device.counters) != 1:
            continue
        ((counter_set, taken),) = device.counters.items()
        where = (*key[:2], counter_set)
        part = _ratio(taken, counters.get(where, {}), "larger")
        if part == 1:
            wholes[where] = device.device_id
        elif part:
            parts[key] = part, where
    for key, (part, where) in parts.items():
        own = devices[key]
        found[key] = replace(
            own,
            device_id=wholes.get(where, ""),
            partition_id=own.device_id or key[2],
            partition_profile=key[2],
            part=part,
            memory_bytes=None,
        )
    return found


def _inventory(reported: Iterable[SliceDevice]) -> dict[str, list[SliceDevice]]:
    by_id: dict[str, list[SliceDevice]] = {}
    for device in reported:
        if device.device_id and device.node:
            by_id.setdefault(device.device_id, []).append(device)
    found: dict[str, list[SliceDevice]] = {}
    for device_id in sorted(by_id):
        whole = _whole(by_id[device_id])
        found.setdefault(whole.node, []).append(whole)
    return found


def _whole(reported: Iterable[SliceDevice]) -> SliceDevice:
    """The device of which these are the whole and the partitions."""
    ordered = sorted(reported, key=lambda device: (device.partition_id != "", device.partition_id))
    first = ordered[0]
    return SliceDevice(
        node=first.node,
        vendor=first.vendor,
        device_id=first.device_id,
        model=next((each.model for each in ordered if each.model), ""),
        memory_bytes=first.memory_bytes,
        since=min((each.since for each in ordered if each.since is not None), default=None),
        usable=all(each.usable for each in ordered if not each.partition_id) if not first.partition_id else True,
    )


def claim_names(pod: Object) -> list[str]:
    """Names of the pod's claims; empty text for one that is yet to be made from its template."""
    made = {text(status, "name"): status for status in items(child(pod, "status"), "resourceClaimStatuses")}
    names: list[str] = []
    for claim in items(child(pod, "spec"), "resourceClaims"):
        direct, status = text(claim, "resourceClaimName"), made.get(text(claim, "name"))
        if direct:
            names.append(direct)
        elif status is None:
            names.append("")
        elif generated := text(status, "resourceClaimName"):
            names.append(generated)
        # A status without a name: the template asked for nothing, and no claim was needed.
    return list(dict.fromkeys(names))
