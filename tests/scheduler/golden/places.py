"""Where every policy places gangs on random clusters, why it cannot, and proposed moves."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from scheduler.model import NodeState, Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.consolidation import make_room
from scheduler.placement.engine import place_gang
from scheduler.placement.fragmentation import Fragmentation, typical_demand
from scheduler.placement.headroom import HeadroomRule
from scheduler.placement.holdings import Holding, Holdings
from scheduler.placement.interference import AntiInterference
from scheduler.placement.reasons import nearest_that_fits, why_not
from scheduler.setup import PLACEMENTS
from tests.scheduler.golden.worlds import SPEEDS, drawn_nodes, drawn_request, grant, plain

STATES: tuple[NodeState, ...] = ("available", "available", "failed", "reserved")


def history(name: str, number: int) -> Iterator[tuple[str, Any]]:
    """What becomes of each gang that comes, and all that is said of it."""
    dice = random.Random(f"places {number}")
    nodes = drawn_nodes(dice, 8)
    cluster = Cluster(nodes)
    demand = typical_demand([drawn_request(dice, nodes) for _ in range(10)], dice.choice([0.5, 0.95]))
    policy = PLACEMENTS[name](demand, number)
    if number % 4 == 3:
        policy = AntiInterference(SPEEDS, policy)
    if number % 3 == 2:
        cluster.keep_free({"p": HeadroomRule(dice.choice([2, 7]))})
    measured, held, holdings = Fragmentation(cluster, demand), dict[str, list[Holding]](), Holdings(cluster)
    for step in range(40):
        what = dice.choice(["come"] * 5 + ["go", "go", "state", "room"])
        request, replicas = drawn_request(dice, nodes), dice.choice([1, 1, 2, 4])
        if what == "come":
            key = f"g{step}"
            grants = place_gang(cluster, request, replicas, policy)
            held[key] = [Holding(key, at, request, one) for at, one in enumerate(grants or ())]
            for one in held[key]:
                holdings.add(one)
            more: Any = (why_not(cluster, request, replicas), nearest(cluster, request), held_by(cluster))
            yield f"{key} {' '.join(map(grant, grants)) if grants is not None else 'waits'}", plain(more)
        elif what == "go" and held:
            for one in held.pop(dice.choice(sorted(held))):
                cluster.give_back(one.grant, one.request)
                holdings.remove(one.job_id, one.replica)
        elif what == "state":
            cluster.set_state(dice.randrange(len(nodes)), dice.choice(STATES))
        elif what == "room":
            found = make_room(cluster, holdings, request, policy, dice.choice([1, 2]), dice.choice([1, 2, 4]))
            if found is None:
                yield "no room", plain(measured.measure())
                continue
            moves = [f"{one.holding.job_id}/{one.holding.replica} to {grant(one.to)}" for one in found.moves]
            yield f"room {' '.join(map(grant, found.grants))} if {', '.join(moves)}", plain(measured.measure())
    yield "in the end", plain((measured.measure(), held_by(cluster)))


def nearest(cluster: Cluster, request: Request) -> Any:
    return [text for _, text in nearest_that_fits(cluster, request)]


def held_by(cluster: Cluster) -> Any:
    return [cluster.free.tolist(), cluster.slots.tolist(), cluster.cpu_free.tolist(), cluster.holders.tolist()]
