"""Why a request does not fit: every cause, counted by node and by device, and what would fit instead.

A node is counted under each cause that holds for it. A device (a "Card") is counted once, under the first that holds:
not the model, no such profile, too large for its limits, held by others, too little memory, no legal MIG start, or
free on a node that lacks something else. Names follow Kueue's and HAMi's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from scheduler.model import Reason, Request
from scheduler.placement.cluster import BoolArray, Cluster
from scheduler.placement.shapes import EVERYWHERE, NEVER, Shape, true_in_rows
from scheduler.placement.topology import largest_gang_in_one
from warehouse.printable import counted

NEVER_FITS, NO_ROOM, NO_DOMAIN = "NeverFits", "InsufficientCapacity", "TopologyPlacementFailed"
NODE_CAUSES = {
    "NodeReserved": "reserved",
    "NodeMaintenance": "in maintenance",
    "NodeFailed": "not ready",
    "PoolMismatch": "of another pool",
    "LabelMismatch": "without the labels",
    "UntoleratedTaint": "with a taint that is not tolerated",
    "InsufficientCpu": "short of CPU",
    "InsufficientHostMemory": "short of memory",
    "InsufficientCards": "short of cards",
}
CARD_CAUSES = {
    "CardTypeMismatch": "of another model",
    "CardProfileUnknown": "without that MIG profile or share",
    "CardBeyondLimit": "larger than limits allow",
    "CardInsufficientMemory": "short of memory",
    "CardInUse": "in use",
    "CardInsufficientUnits": "short of units",
    "CardMigTopologyInfeasible": "without a legal MIG start",
    "CardOnUnfitNode": "free on a node that does not fit",
    "CardReserved": "reserved",
    "CardFits": "would do",
}


def why_not(cluster: Cluster, request: Request, replicas: int = 1) -> Reason | None:
    """None if so many replicas fit now, by themselves.

    counts: causes of NODE_CAUSES in nodes and of CARD_CAUSES in devices, with `nodes` and `cards` (all there are),
    `nodes_that_fit`, `replicas` and `largest_gang` (as many fit at once).
    """
    shape = cluster.shape(request)
    key = ("why not", shape, replicas, request.required_topology)
    return cluster.known(key, lambda: _why_not(cluster, shape, request, replicas))


def _why_not(cluster: Cluster, shape: Shape, request: Request, replicas: int) -> Reason | None:
    fitting = shape.fits(EVERYWHERE)
    permitted = shape.permitted()
    nodes_that_fit = int((fitting if permitted is None else fitting & permitted).sum())
    fit = largest_gang_in_one(cluster, request) if nodes_that_fit else 0
    if fit >= replicas:
        return None
    everywhere: BoolArray = np.ones(len(cluster.nodes), dtype=np.bool_)
    found = _node_causes(cluster, shape) | _card_causes(cluster, shape, fitting, everywhere)
    counts = {cause: count for cause, count in found.items() if count}
    counts |= {
        "nodes": len(cluster.nodes),
        "cards": cluster.devices,
        "nodes_that_fit": nodes_that_fit,
        "replicas": replicas,
        "largest_gang": fit,
    }
    if not shape.ever_fits:
        code, first = NEVER_FITS, "no node could hold it with everything free"
    elif nodes_that_fit and shape.together(shape.replicas(EVERYWHERE)) >= replicas:
        code, first = NO_DOMAIN, f"no one domain holds {replicas} replicas, the best {fit}"
    else:
        code, first = NO_ROOM, f"{fit} of {replicas} replicas fit"
    return Reason(code, f"{first}; {_text(counts, request.pool, _cards_text(cluster, shape, fitting, counts))}", counts)


def nearest_that_fits(cluster: Cluster, request: Request) -> list[tuple[Request, str]]:
    """Requests that fit now and differ in one thing, and the difference in words; the smallest step for each thing."""
    key = ("nearest", cluster.shape(request), request.required_topology, request.preferred_topology)
    return cluster.known(key, lambda: list(_nearest(cluster, request)))


def _nearest(cluster: Cluster, request: Request) -> Iterator[tuple[Request, str]]:
    if bool(_fitting(cluster, request).any()):
        return
    for devices in range(request.devices - 1, 0, -1):
        fewer = replace(request, devices=devices)
        if bool(_fitting(cluster, fewer).any()):
            yield fewer, f"{counted(devices, 'device')} instead of {request.devices}"
            break
    units = _units_that_fit(cluster, request)
    if units:
        yield (
            replace(request, units=units),
            f"{counted(units, 'unit')} of each device instead of {request.units or 'all'}",
        )
    without_cpu = cluster.shape(replace(request, cpu_milli=0)).fits(EVERYWHERE)
    cpu = int(cluster.cpu_free[without_cpu].max(initial=0))
    if request.cpu_milli and without_cpu.any():
        yield replace(request, cpu_milli=cpu), f"{cpu} milli-CPU instead of {request.cpu_milli}"
    without_memory = cluster.shape(replace(request, host_memory_bytes=0)).fits(EVERYWHERE)
    memory = int(cluster.host_memory_free[without_memory].max(initial=0))
    if request.host_memory_bytes and without_memory.any():
        yield (
            replace(request, host_memory_bytes=memory),
            f"{memory} bytes of memory instead of {request.host_memory_bytes}",
        )
    if request.models:
        models = frozenset(kind.model for kind in cluster.kinds)
        other = frozenset(m for m in models if _fitting(cluster, replace(request, models=frozenset({m}))).any())
        if other:
            yield replace(request, models=other), f"model {' or '.join(sorted(other))}"
    if request.pool:
        pools = sorted({node.pool for node in cluster.nodes} - {request.pool, ""})
        for pool in pools:
            if bool(_fitting(cluster, replace(request, pool=pool)).any()):
                yield replace(request, pool=pool), f"pool {pool}"
                break


def _units_that_fit(cluster: Cluster, request: Request) -> int:
    """The most units of each device for which it fits; 0 if none, or where units are not asked for."""
    if not request.units or request.profile or not request.devices:
        return 0
    low, high = 0, request.units - 1
    while low < high:
        middle = (low + high + 1) // 2
        fits = bool(_fitting(cluster, replace(request, units=middle)).any())
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _fitting(cluster: Cluster, request: Request) -> BoolArray:
    shape = cluster.shape(request)
    return cluster.known(("fitting", shape), lambda: _allowed(shape))


def _allowed(shape: Shape) -> BoolArray:
    fits, permitted = shape.fits(EVERYWHERE), shape.permitted()
    return fits if permitted is None else fits & permitted


def _node_causes(cluster: Cluster, shape: Shape) -> dict[str, int]:
    c, request = cluster, shape.request
    causes = {
        "InsufficientCpu": int((c.cpu_free < request.cpu_milli).sum()),
        "InsufficientHostMemory": int((c.host_memory_free < request.host_memory_bytes).sum()),
    }
    if not c.open.all():
        states: Counter[str] = Counter(c.states)
        closed = {"NodeReserved": "reserved", "NodeMaintenance": "maintenance", "NodeFailed": "failed"}
        causes |= {cause: states[state] for cause, state in closed.items()}
    if not shape.suits.all():
        causes |= {
            "PoolMismatch": sum(bool(request.pool) and node.pool != request.pool for node in c.nodes),
            "LabelMismatch": sum(any(n.labels.get(k) != v for k, v in request.labels.items()) for n in c.nodes),
            "UntoleratedTaint": sum(not node.taints <= request.tolerations for node in c.nodes),
        }
    if request.devices:
        times: Any = shape.instances_left(EVERYWHERE) if request.profile else shape.usable(EVERYWHERE)
        there = times.sum(axis=1) if request.profile else true_in_rows(times)
        causes["InsufficientCards"] = int((there < request.devices).sum())
    return {cause: causes[cause] for cause in NODE_CAUSES if cause in causes}


def _card_causes(cluster: Cluster, shape: Shape, fitting: BoolArray, within: BoolArray) -> dict[str, int]:
    """Each card under one cause: what it lacks for ever first, then what it lacks now, then what its node lacks.

    within: by node, whether its cards are counted.
    """
    c, request = cluster, shape.request
    if not request.devices:
        return {}
    wanted = np.array([not request.models or kind.model in request.models for kind in c.kinds] + [False])[c.kind]
    whole = cluster.shape(replace(request, most_units=0)) if request.most_units else shape
    if request.profile:
        known = np.array([cut is not None and request.profile in cut.profiles for cut in c.geometries] + [False])[
            c.kind
        ]
        usable = shape.instances_left(EVERYWHERE) > 0
    else:
        known = whole.need != NEVER
        usable = shape.usable(EVERYWHERE)
    ever, its = shape.devices_ever > 0, within[:, None]
    beyond = int(((whole.need != NEVER) & (shape.need == NEVER) & its).sum())
    of_model, of_profile = int((wanted & its).sum()), int((wanted & known & its).sum())
    could = int((ever & its).sum())
    in_use = int((ever & (c.free < shape.need) & its).sum())
    usable = usable & its
    free = int(usable.sum())
    short = could - in_use - free
    on_fitting = int(usable[fitting].sum())
    reserved = _reserved(cluster, shape, usable & fitting[:, None])
    return {
        "CardTypeMismatch": _devices(cluster, within) - of_model,
        "CardProfileUnknown": of_model - of_profile,
        "CardBeyondLimit": beyond,
        "CardInsufficientMemory": of_profile - beyond - could + (0 if request.profile else short),
        "CardInUse": in_use if request.profile or not request.units else 0,
        "CardInsufficientUnits": 0 if request.profile or not request.units else in_use,
        "CardMigTopologyInfeasible": short if request.profile else 0,
        "CardOnUnfitNode": free - on_fitting,
        "CardReserved": reserved,
        "CardFits": on_fitting - reserved,
    }


def _devices(cluster: Cluster, within: BoolArray) -> int:
    return sum(len(node.devices) for node, counts in zip(cluster.nodes, within.tolist(), strict=True) if counts)


def _reserved(cluster: Cluster, shape: Shape, usable: BoolArray) -> int:
    """How many of the available cards are reserved for other requests."""
    headroom, request, reserved = cluster.headroom, shape.request, 0
    if headroom is None:
        return 0
    for kind, left in enumerate(headroom.left().tolist()):
        at = headroom.number == kind
        if shape.costs[:, kind].any() and (there := int((usable & at).sum())):
            most = max(0, left) // (int(shape.costs[:, kind].max()) // request.devices)
            reserved += max(0, there - most)
    return reserved


def _cards_text(cluster: Cluster, shape: Shape, fitting: BoolArray, counts: dict[str, int]) -> str:
    """Of the cards in the pool that was asked for, if one was: what others have is no news."""
    pool, of = shape.request.pool, f"{counts['cards']} cards"
    if pool:
        within = np.array([node.pool == pool for node in cluster.nodes], dtype=np.bool_)
        counts, of = (
            _card_causes(cluster, shape, fitting, within),
            f"{counted(_devices(cluster, within), 'card')} in pool {pool}",
        )
    cards = [f"{counts[cause]} {words}" for cause, words in CARD_CAUSES.items() if counts.get(cause)]
    return f"; of {of}: {', '.join(cards)}" if cards else ""


def _text(counts: dict[str, int], pool: str, cards: str) -> str:
    """pool: that was asked for, which says more than that others are others."""
    said = NODE_CAUSES | {"PoolMismatch": f"outside pool {pool}"}
    nodes = [f"{counts[cause]} {words}" for cause, words in said.items() if cause in counts]
    text = f"{counts['nodes_that_fit']} of {counts['nodes']} nodes fit"
    return text + (f": {', '.join(nodes)}" if nodes else "") + cards
