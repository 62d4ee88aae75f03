"""The kubelet's allocations -> allocations of a node's devices and instances. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from collectors.attribution.kubelet import Pod, uids_by_name
from collectors.attribution.places import Allocation, Allocations, DeviceRef, Inventory, Missing, Place
from collectors.attribution.podresources.client import ClaimedDevice, Container, Snapshot
from collectors.attribution.podresources.ids import parse

ClaimKey = tuple[str, str, str]
"""(driver, pool, device): what identifies a device to dynamic resource allocation."""


@dataclass
class _Held:
    """Collects what the pods of a node hold."""

    replicas: dict[tuple[str, Place], set[tuple[str, str]]] = field(default_factory=lambda: defaultdict(set))
    resources: dict[tuple[str, Place], str] = field(default_factory=dict)
    divided: set[tuple[str, Place]] = field(default_factory=set)
    offered: dict[Place, int] = field(default_factory=dict)
    unplaced: set[str] = field(default_factory=set)
    contested: set[Place] = field(default_factory=set)
    missing: dict[tuple[str, str], Missing] = field(default_factory=dict)
    complete: bool = True


def allocations(
    snapshot: Snapshot,
    pods: Sequence[Pod],
    inventory: Inventory,
    claim_places: Mapping[ClaimKey, Place] | None = None,
) -> tuple[Allocations, Counter[str]]:
    """A node's allocations, and the parts of the answer that were not used, by reason."""
    held, dropped = _Held(), Counter[str]()
    live = uids_by_name(pods)
    ended = {(pod.namespace, pod.name) for pod in pods if pod.terminated}
    held.offered = _offered(snapshot, inventory)
    for given in snapshot.devices:
        ref = parse(given.resource, given.id)
        if ref is None:
            dropped["resource_of_no_accelerator"] += 1
            continue
        _hold(held, dropped, _uid(given.container, live, ended), ref, inventory, given.resource, given.id)
    for claim in snapshot.claims:
        ref = _claimed(claim, claim_places or {})
        _hold(held, dropped, _uid(claim.container, live, ended), ref, inventory, claim.driver, claim.share_id)
    return _result(held, pods), dropped


def _claimed(claim: ClaimedDevice, places: Mapping[ClaimKey, Place]) -> DeviceRef:
    place = places.get((claim.driver, claim.pool, claim.device), Place(""))
    key = place.partition_id or place.device_id
    if not key:
        return DeviceRef("", f"{claim.driver}/{claim.pool}/{claim.device}", certain=False)
    return DeviceRef("", key, place.device_id, place.partition_id)


def _uid(
    container: Container, live: Mapping[tuple[str, str], Sequence[str]], ended: set[tuple[str, str]]
) -> str | None:
    """The pod's UID; empty if that is not known; None if the pod has ended."""
    name = (container.namespace, container.pod)
    uids = live.get(name, ())
    if len(uids) == 1:
        return uids[0]
    return None if not uids and name in ended else ""


def _hold(
    held: _Held,
    dropped: Counter[str],
    uid: str | None,
    ref: DeviceRef,
    inventory: Inventory,
    resource: str,
    id: str,
) -> None:
    if uid is None:
        dropped["pod_has_ended"] += 1
        return
    place = inventory.find(ref) if ref.certain else None
    if not uid:
        dropped["pod_without_uid"] += 1
        if place:
            held.contested.add(place)
        held.complete &= place is not None
        return
    if place is None:
        dropped["device_not_named" if not ref.certain else "device_not_found"] += 1
        held.unplaced.add(uid)
        if ref.certain:
            held.missing[uid, ref.key] = Missing(uid, ref.key, resource)
        return
    held.replicas[uid, place].add((resource, id))
    held.resources.setdefault((uid, place), resource)
    if ref.replica is not None:
        held.divided.add((uid, place))


def _offered(snapshot: Snapshot, inventory: Inventory) -> dict[Place, int]:
    offered: Counter[Place] = Counter()
    for resource, ids in (snapshot.offered or {}).items():
        refs = (parse(resource, id) for id in set(ids))
        places = (inventory.find(ref) for ref in refs if ref is not None)
        offered.update(place for place in places if place is not None)
    return dict(offered)


def _result(held: _Held, pods: Sequence[Pod]) -> Allocations:
    holders = Counter(place for _, place in held.replicas)
    found = []
    for (uid, place), ids in held.replicas.items():
        divided = (uid, place) in held.divided
        alone = holders[place] == 1
        offered = held.offered.get(place) if divided else (1 if alone else None)
        found.append(Allocation(uid, place, len(ids) if divided else 1, offered, held.resources[uid, place]))
    return Allocations(
        tuple(sorted(found, key=lambda one: (one.place, one.workload_id))),
        frozenset({"pod"} if held.complete else ()),
        frozenset(held.unplaced),
        frozenset(held.contested),
        tuple(held.missing.values()),
        {pod.uid: f"{pod.namespace}/{pod.name}" for pod in pods},
        {pod.cgroup_uid: pod.uid for pod in pods if pod.cgroup_uid},
    )
