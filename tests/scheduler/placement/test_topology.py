"""Gangs that are to lie close together."""

from __future__ import annotations

import pytest

from scheduler.model import Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import place_gang
from scheduler.placement.packing import BestFit
from scheduler.placement.topology import domains_for, fill, largest_gang_in_one
from tests.scheduler.placement.clusters import node

RACKS = [
    node("a1", 4, topology=("zone", "a")),
    node("a2", 4, topology=("zone", "a")),
    node("b1", 8, topology=("zone", "b")),
    node("b2", 8, topology=("zone", "b")),
    node("c1", 2, topology=("yard", "c")),
]


def by_name(cluster: Cluster, request: Request, replicas: int) -> dict[str, int] | None:
    chosen = domains_for(cluster, request, replicas)
    return None if chosen is None else {cluster.nodes[number].name: count for number, count in chosen}


@pytest.mark.parametrize(
    ("free", "replicas", "taken"),
    [
        ([3, 3, 2, 1], 7, [3, 3, 0, 1]),  # the worked example of Kueue's KEP-2724
        ([3, 3, 2, 1], 2, [0, 0, 2, 0]),
        ([3, 3, 2, 1], 9, [3, 3, 2, 1]),
        ([1, 5, 3], 5, [0, 5, 0]),
        ([1, 5, 3], 8, [0, 5, 3]),
        ([4], 0, [0]),
    ],
)
def test_most_room_first_and_the_last_the_tightest_that_holds_the_rest(
    free: list[int], replicas: int, taken: list[int]
) -> None:
    assert fill(free, replicas) == taken


def test_the_same_example_on_nodes() -> None:
    cluster = Cluster([node(name, gpus) for name, gpus in (("n1", 3), ("n2", 3), ("n3", 2), ("n4", 1))])
    assert by_name(cluster, Request(1, preferred_topology=0), 7) == {"n1": 3, "n2": 3, "n4": 1}


def test_a_required_rack_is_the_tightest_that_holds_all() -> None:
    cluster = Cluster(RACKS)
    assert by_name(cluster, Request(1, required_topology=1), 7) == {"a1": 4, "a2": 3}
    assert by_name(cluster, Request(1, required_topology=1), 9) == {"b1": 8, "b2": 1}
    assert by_name(cluster, Request(1, required_topology=1), 17) is None
    assert by_name(cluster, Request(1, required_topology=2), 8) == {"b1": 8}, "the level after the last is the node"


def test_a_preferred_rack_gives_way_to_the_zone_and_then_to_all() -> None:
    cluster = Cluster(RACKS)
    assert by_name(cluster, Request(1, preferred_topology=1), 16) == {"b1": 8, "b2": 8}
    assert by_name(cluster, Request(1, preferred_topology=1), 18) == {"b1": 8, "b2": 8, "a1": 2}
    assert by_name(cluster, Request(1, preferred_topology=1), 26) == {"b1": 8, "b2": 8, "a1": 4, "a2": 4, "c1": 2}
    assert by_name(cluster, Request(1, preferred_topology=1), 27) is None


def test_a_gang_takes_the_devices_of_the_nodes_chosen() -> None:
    cluster = Cluster(RACKS)
    grants = place_gang(cluster, Request(2, required_topology=1), 4, BestFit())
    assert grants is not None
    assert [(cluster.nodes[grant.node].name, grant.devices) for grant in grants] == [
        ("a1", (0, 1)),
        ("a1", (2, 3)),
        ("a2", (0, 1)),
        ("a2", (2, 3)),
    ]
    assert place_gang(cluster, Request(2, required_topology=1), 9, BestFit()) is None
    assert cluster.free[2:].sum() == 18


def test_the_largest_gang_counts_one_domain_where_that_is_required() -> None:
    cluster = Cluster(RACKS)
    assert largest_gang_in_one(cluster, Request(1)) == 26
    assert largest_gang_in_one(cluster, Request(1, required_topology=1)) == 16
    assert largest_gang_in_one(cluster, Request(3, required_topology=2)) == 2
