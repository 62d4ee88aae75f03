"""Which node is in which ComputePool, and as what the scheduler's log knows it. Pure.

The log never forgets a node, nor takes another description of it: it knows each as a *host*. A host is a node as it was
in one pool, with one model and so many devices. The first is called as the node; `NODE~2` is the same node in another
pool, or with another number of devices. Of a node's hosts at most one is open, and none is opened while jobs are on
another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from collectors.kubernetes.objects import Object, child, created, name, text
from collectors.kubernetes.resources import quantity
from scheduler.kubernetes import virtual
from scheduler.kubernetes.elastic_jobs import LEVEL, NVIDIA, RESOURCE
from scheduler.kubernetes.pods import AGAIN, node_of
from scheduler.settings import PoolPart, Settings

MOST_DEVICES = 64
"""Of a node (scheduler.settings.PoolPart)."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What a node is to a pool. resource: in which it offers its devices.   level: what a workload has of one; '': the
    pool does not say."""

    pool: str
    model: str
    devices: int
    resource: str
    level: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """hosts: all that are known, in the order in which they became so.   open: those that are nodes of their pool now.
    waits: nodes that are to be a host which cannot be opened yet, with the one on which jobs still are."""

    hosts: Mapping[str, Offer]
    open: frozenset[str]
    waits: Mapping[str, str]

    def of_pool(self, pool: str) -> list[str]:
        return [host for host, offer in self.hosts.items() if offer.pool == pool]


def resources_of(pool: Object) -> Sequence[str]:
    """In which its nodes may offer devices; empty: the spec does not say."""
    named = virtual.resource_names(child(pool, "spec")) or virtual.made_resources(pool)
    return named or ([NVIDIA] if (text(child(pool, "spec"), "poolType") or "gpu") == "gpu" else [])


def offer_of(node: Object, pool: Object) -> Offer | None:
    """None: it does not have the pool's labels, offers no devices, or gives them away in another way than the pool
    says."""
    found = _offered(node, pool)
    if found is None or any(one.contradicts for one in virtual.differences(node, pool, found.resource, found.devices)):
        return None
    return found


def selects(pool: Object, node: Object) -> bool:
    """Whether the node has the pool's labels."""
    selector, labels = child(pool, "spec", "nodeSelector"), child(node, "metadata", "labels")
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def differs(node: Object, pool: Object) -> list[str]:
    """How a node that has the pool's labels is not as the pool says."""
    if not selects(pool, node):
        return []
    found = _offered(node, pool)
    resource, devices = ("", 0) if found is None else (found.resource, found.devices)
    return [one.text for one in virtual.differences(node, pool, resource, devices)]


def _offered(node: Object, pool: Object) -> Offer | None:
    if not selects(pool, node):
        return None
    spec, labels = child(pool, "spec"), child(node, "metadata", "labels")
    model = text(labels, text(spec, "modelLabel") or "nvidia.com/gpu.product") or text(spec, "model") or "GPU"
    for resource in resources_of(pool):
        devices = min(_count(child(node, "status", "allocatable").get(resource)), MOST_DEVICES)
        if devices:
            return Offer(name(pool), model, devices, resource, virtual.level_of(pool))
    return None


def _count(amount: Any) -> int:
    """Extended resources are whole numbers, which may be written as 1k."""
    return max(0, int(quantity(amount)))


def offers(
    pools: Mapping[str, Object],
    nodes: Mapping[str, Object],
    now_in: Mapping[str, Offer],
    as_they_are: Collection[str] = (),
) -> tuple[dict[str, Offer], dict[str, list[str]]]:
    """What each node is to be, and what each pool does not get: a node stays where it is while that pool selects it,
    else goes to the oldest that does.

    now_in: the pools' nodes.   as_they_are: pools whose spec cannot be read; they keep the nodes that they have, as
    these are now.
    """
    order = sorted(pools, key=lambda pool: (str(created(pools[pool]) or "~"), pool))
    wanted: dict[str, Offer] = {}
    conflicts: dict[str, list[str]] = {}
    for called, node in nodes.items():
        current = now_in.get(called)
        found = [one for pool in order if pool not in as_they_are and (one := offer_of(node, pools[pool])) is not None]
        if current is not None and current.pool in as_they_are:
            found = [*_still(node, current, pools[current.pool]), *found]
        if not found:
            continue
        own = [one for one in found if current is not None and one.pool == current.pool]
        wanted[called] = chosen = (own or found)[0]
        for other in found:
            if other is not chosen:
                conflicts.setdefault(other.pool, []).append(f"node {called} is in pool {chosen.pool}")
    return wanted, conflicts


def _still(node: Object, current: Offer, pool: Object) -> list[Offer]:
    """What a node that the pool selects offers now of what it was to it."""
    if not selects(pool, node):
        return []
    devices = min(_count(child(node, "status", "allocatable").get(current.resource)), MOST_DEVICES)
    return [replace(current, devices=devices)] if devices else []


def hosts_of(settings: Settings) -> dict[str, Offer]:
    return {host: _offer(pool, host) for pool in settings.pools for host in pool.hosts}


def open_hosts(settings: Settings) -> frozenset[str]:
    return frozenset(host for pool in settings.pools for host in pool.hosts if host not in pool.left)


def _offer(pool: PoolPart, host: str) -> Offer:
    labels = pool.host_labels.get(host, {})
    model, devices = pool.host_models.get(host, pool.model), len(pool.hosts[host])
    return Offer(pool.name, model, devices, labels.get(RESOURCE, ""), labels.get(LEVEL, ""))


def inventory(wanted: Mapping[str, Offer], known: Mapping[str, Offer], held: Collection[str]) -> Inventory:
    """wanted: what each node is to be.   known: hosts.   held: those on which jobs are."""
    hosts, open_, waits = dict(known), set[str](), dict[str, str]()
    of_node: dict[str, list[str]] = {}
    for host in known:
        of_node.setdefault(node_of(host), []).append(host)
    for node, offer in sorted(wanted.items()):
        own = of_node.get(node, [])
        same = next((host for host in own if known[host] == offer), None)
        busy = next((host for host in own if host in held and host != same), None)
        if busy is not None and known[busy] == replace(offer, level=""):
            open_.add(busy)  # the pool only says more of it; jobs that ask for the level go there once it is empty
            continue
        if busy is not None:
            waits[node] = busy
            continue
        host = same or (f"{node}{AGAIN}{len(own) + 1}" if own else node)
        hosts[host] = offer
        open_.add(host)
    return Inventory(hosts, frozenset(open_), waits)
