"""Which nodes a gang takes when its replicas must be close together.

A node's domains are named by the beginnings of its `topology`; level 0 is the widest, the level after the last is the
node itself. Source: Kueue, KEP-2724 (topology-aware scheduling), its BestFit choice of domains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler.model import Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.shapes import EVERYWHERE

Domain = tuple[str, ...]


def domains_for(cluster: Cluster, request: Request, replicas: int) -> list[tuple[int, int]] | None:
    """(node, replicas on it), for all replicas; None if they do not fit as required.

    Required: one domain of that level holds all, the tightest of those that can. Preferred: the same from that level
    upward, and if none holds all, several of the widest. Downward, each level takes the domain with most room first,
    and for the rest the tightest that holds it.
    """
    room = _room(cluster, request)
    deepest = max((len(domain) for domain in room), default=0)
    if request.required_topology is not None:
        levels, split = [min(request.required_topology + 1, deepest)], False
    else:
        preferred = request.preferred_topology if request.preferred_topology is not None else 0
        levels, split = list(range(min(preferred + 1, deepest), 0, -1)), True
    for level in levels:
        holding = [domain for domain, free in room.items() if len(domain) == level and free >= replicas]
        if holding:
            return _within(cluster, request, room, min(holding, key=room.__getitem__), replicas)
    if split and room.get((), 0) >= replicas:
        return _within(cluster, request, room, (), replicas)
    return None


def largest_gang_in_one(cluster: Cluster, request: Request) -> int:
    """The most replicas that fit at once, in one domain where the request requires that."""
    if request.required_topology is None:
        shape = cluster.shape(request)
        return shape.together(shape.replicas(EVERYWHERE))
    room = _room(cluster, request)
    level = min(request.required_topology + 1, max((len(domain) for domain in room), default=0))
    return max((free for domain, free in room.items() if len(domain) == level), default=0)


def fill(free: Sequence[int], replicas: int) -> list[int]:
    """How many replicas each domain takes, given the free places of each, which hold all together.

    The one with most room first (the first of equals), except that the last is the tightest that holds the rest.
    """
    taken = [0] * len(free)
    rest = replicas
    order = sorted(range(len(free)), key=lambda i: -free[i])
    for i in order:
        if rest and free[i] < rest:
            taken[i] = free[i]
            rest -= free[i]
        elif rest:
            enough = [j for j in order if not taken[j] and free[j] >= rest]
            taken[min(enough, key=lambda j: (free[j], j))] = rest
            break
    return taken


def _within(
    cluster: Cluster, request: Request, room: dict[Domain, int], domain: Domain, replicas: int
) -> list[tuple[int, int]]:
    """Which nodes of a domain take them. Nodes that draw on the same of what pools keep free are dealt with together:
    what is left of it is theirs, so domains that draw on several have less room together than each alone."""
    if cluster.headroom is None:
        return _spread(cluster, room, domain, replicas)
    draws = [tuple(np.flatnonzero(costs).tolist()) for costs in cluster.shape(request).costs]
    rooms = [_room(cluster, request, [one == draw for one in draws]) for draw in dict.fromkeys(draws)]
    counts = fill([there.get(domain, 0) for there in rooms], replicas)
    return [
        one for there, count in zip(rooms, counts, strict=True) if count
        for one in _spread(cluster, there, domain, count)
    ]  # fmt: skip


def _spread(cluster: Cluster, room: dict[Domain, int], domain: Domain, replicas: int) -> list[tuple[int, int]]:
    if domain and domain[-1] in cluster.index and len(domain) == _depth(cluster, domain[-1]):
        return [(cluster.index[domain[-1]], replicas)]
    children = [child for child in room if len(child) == len(domain) + 1 and child[:-1] == domain]
    found: list[tuple[int, int]] = []
    for child, count in zip(children, fill([room[child] for child in children], replicas), strict=True):
        if count:
            found += _spread(cluster, room, child, count)
    return found


def _depth(cluster: Cluster, name: str) -> int:
    return len(cluster.nodes[cluster.index[name]].topology) + 1


def _room(cluster: Cluster, request: Request, among: Sequence[bool] | None = None) -> dict[Domain, int]:
    """Replicas that fit, by domain: of everything (), of each domain, of each node (its name is the last part).
    among: which nodes count; None: all."""
    shape = cluster.shape(request)
    replicas = shape.replicas(EVERYWHERE)
    if among is not None:
        replicas = np.where(among, replicas, 0)
    room: dict[Domain, int] = {}
    inside: dict[Domain, list[int]] = {}
    for number, (node, free) in enumerate(zip(cluster.nodes, replicas.tolist(), strict=True)):
        path = (*node.topology, node.name)
        for level in range(len(path) + 1):
            room[path[:level]] = room.get(path[:level], 0) + free
            if cluster.headroom is not None:
                inside.setdefault(path[:level], []).append(number)
    for domain, nodes in inside.items():
        only = np.zeros_like(replicas)
        only[nodes] = replicas[nodes]
        room[domain] = shape.together(only)
    return room
