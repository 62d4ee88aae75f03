"""Who holds which devices of a node at the newest instant for which facts came. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpuledger.documents import Now, NowAllocation, NowDevice
from warehouse.isolation import level_of_share

COLUMNS = ("device", "model", "share", "isolation", "tenant", "namespace", "workload", "since", "used")


def holders(
    node: str, now: Now, devices: Sequence[Mapping[str, Any]] | None, pods: Mapping[str, str]
) -> list[dict[str, Any]]:
    """A row for each device of the node and each that holds a part of it. A device without a holder is free, or unknown
    where somebody is on the node whose devices are not known yet.

    devices: the fleet's, of the view v_devices; None: the token may not see them, and only what one node alone holds is
    told by device.   pods: names by UID.
    """
    here = [one for one in now.allocations if node in one.nodes]
    if devices is None:
        return [row for one in here for row in _of_allocation(one, pods)]
    on_node = sorted((one for one in devices if one["node"] == node), key=lambda one: str(one["device_id"]))
    unnamed = [one for one in here if not _is_seen(one, on_node) and not _elsewhere(one, devices)]
    unknown_in = {one.cluster for one in unnamed}
    rows: list[dict[str, Any]] = []
    for device in on_node:
        held = [
            (one, part)
            for one in here
            for part in one.devices
            if one.cluster == device["cluster"] and part.device_id == device["device_id"]
        ]
        known = {"cluster": device["cluster"], "device": device["device_id"], "model": device["model"]}
        state = "" if device["state"] == "available" else str(device["state"])
        rows += [{**known, "state": state, **_holder(one, part, pods)} for one, part in held]
        if not held:
            rows.append({**known, "state": state or ("unknown" if device["cluster"] in unknown_in else "free")})
    # Kubernetes names a node before an agent names the device.
    rows += [{"cluster": one.cluster, "device": None, **_holder(one, None, pods)} for one in unnamed]
    return rows


def _is_seen(allocation: NowAllocation, on_node: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of its devices is among them."""
    devices = {(one["cluster"], one["device_id"]) for one in on_node}
    return any((allocation.cluster, one.device_id) in devices for one in allocation.devices)


def _elsewhere(allocation: NowAllocation, devices: Sequence[Mapping[str, Any]]) -> bool:
    """Whether all its devices are known."""
    known = {(one["cluster"], one["device_id"]) for one in devices}
    return bool(allocation.devices) and all((allocation.cluster, one.device_id) in known for one in allocation.devices)


def _of_allocation(allocation: NowAllocation, pods: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    if len(allocation.nodes) > 1 or not allocation.devices:
        yield {"cluster": allocation.cluster, "device": None, **_holder(allocation, None, pods)}
        return
    for one in allocation.devices:
        held = _holder(allocation, one, pods)
        yield {"cluster": allocation.cluster, "device": one.device_id, **held}


def _holder(allocation: NowAllocation, part: NowDevice | None, pods: Mapping[str, str]) -> dict[str, Any]:
    """part: what it holds of the row's device; None: that is not known, and the level is that of all of its devices."""
    of = part.device_units if part else 0
    level: str | None = allocation.isolation_level
    if part is not None:
        is_whole = part.units >= of if of else None
        level = level_of_share(part.device_id, part.partition_profile, part.partition_id, is_whole, part.doubt)
    return {
        "share": f"{part.units}/{of}" if part and of else None,
        "isolation": level or None,
        "tenant": allocation.tenant,
        "namespace": allocation.project,
        "workload": pods.get(allocation.workload_id, allocation.workload_id),
        "workload_id": allocation.workload_id,
        "since": allocation.since,
        "used": allocation.used_5,
    }
