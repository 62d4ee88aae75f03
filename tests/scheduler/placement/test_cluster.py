"""No device over its units, nothing lost: what is taken comes back exactly, what was tried is undone exactly."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Device, Grant, Node, Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import place
from scheduler.placement.errors import PlacementError
from scheduler.placement.packing import BestFit, RandomFit
from tests.scheduler.placement.clusters import GIB, free_state, hold, node

REQUESTS = (
    Request(1, cpu_milli=4000),
    Request(1, units=300, cpu_milli=1000, models=frozenset({"T4"})),
    Request(2, units=500, memory_bytes=4 * GIB),
    Request(8, cpu_milli=32_000, host_memory_bytes=64 * GIB),
    Request(1, profile="1g.10gb"),
    Request(2, profile="3g.40gb", cpu_milli=500),
    Request(0, cpu_milli=2000),
)


def mixed() -> Cluster:
    return Cluster(
        [
            node("whole", 8),
            node("cut", 2, units=7, geometry="h100-80gb"),
            node("shared", 4, model="T4", units=1000, device_memory=16 * GIB),
            Node("both", (Device("a", "T4", 1000, 16 * GIB), Device("b", "H100", 1, 80 * GIB)), 16_000, 64 * GIB),
            node("cpu", 0, cpu_milli=8000),
        ]
    )


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 9), max_size=60))
def test_no_device_is_ever_over_its_units_and_all_comes_back(seed: int, steps: list[int]) -> None:
    cluster, policy, rng = mixed(), RandomFit(seed), random.Random(seed)
    before = free_state(cluster)
    held: list[tuple[Grant, Request]] = []
    for step in steps:
        if step < len(REQUESTS):
            grant = place(cluster, REQUESTS[step], policy)
            if grant is not None:
                cluster.take(grant, REQUESTS[step])
                held.append((grant, REQUESTS[step]))
        elif held:
            cluster.give_back(*held.pop(rng.randrange(len(held))))
        assert (cluster.free >= 0).all()
        assert (cluster.free <= cluster.capacity).all()
        assert (cluster.memory_free >= 0).all()
        assert (cluster.cpu_free >= 0).all()
        used = np.zeros_like(cluster.free)
        for grant, _ in held:
            for device, units in zip(grant.devices, grant.units, strict=True):
                used[grant.node, device] += units
        assert (cluster.capacity - cluster.free == used).all()
        assert (cluster.scaled(cluster.free).sum(axis=1) == cluster.parts_free).all()
    for grant, request in held:
        cluster.give_back(grant, request)
    assert free_state(cluster) == before


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 8), st.integers(0, 8))
def test_a_rollback_undoes_exactly_what_came_after_its_mark(seed: int, first: int, second: int) -> None:
    cluster, policy, rng = mixed(), RandomFit(seed), random.Random(seed)

    def some(count: int) -> None:
        for _ in range(count):
            request = replace(rng.choice(REQUESTS), workload_class="a-class")
            grant = place(cluster, request, policy)
            if grant is not None:
                cluster.take(grant, request)
                if rng.random() < 0.3:
                    cluster.give_back(grant, request)
        cluster.set_state(rng.randrange(5), rng.choice(("available", "maintenance", "failed")))

    some(3)
    outer_state = free_state(cluster)
    outer = cluster.mark()
    some(first)
    inner_state = free_state(cluster)
    inner = cluster.mark()
    some(second)
    cluster.rollback(inner)
    assert free_state(cluster) == inner_state
    cluster.rollback(outer)
    assert free_state(cluster) == outer_state


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**9))
def test_equal_versions_have_equal_content_and_what_was_found_of_one_holds(seed: int) -> None:
    """Changes, marks, rollbacks in any order: scores that were kept choose as scores made anew."""
    cluster, kept, dice = mixed(), BestFit(), random.Random(seed)
    seen = {cluster.version: free_state(cluster)}
    held: list[tuple[Grant, Request]] = []
    marks: list[tuple[int, int]] = []
    for _ in range(60):
        what, request = dice.choice(["take", "take", "give", "node", "mark", "rollback", "keep"]), dice.choice(REQUESTS)
        grant = place(cluster, request, kept)
        assert grant == place(cluster, request, BestFit())
        if what == "take" and grant is not None:
            cluster.take(grant, request)
            held.append((grant, request))
        elif what == "give" and held and not marks:
            cluster.give_back(*held.pop(dice.randrange(len(held))))
        elif what == "node":
            cluster.set_state(dice.randrange(5), dice.choice(("available", "available", "failed")))
        elif what == "mark":
            marks.append((cluster.mark(), len(held)))
        elif what == "rollback" and marks:
            mark, before = marks.pop()
            cluster.rollback(mark)
            del held[before:]
        elif what == "keep" and marks:
            cluster.keep(marks.pop()[0])
        now = free_state(cluster)
        assert seen.setdefault(cluster.version, now) == now
        assert cluster.known("state", lambda: free_state(cluster)) == now


def test_committed_changes_stay_until_an_outer_mark_undoes_them() -> None:
    cluster = Cluster([node("n", 2)])
    before = free_state(cluster)
    outer = cluster.mark()
    inner = cluster.mark()
    hold(cluster, "n", (0,), Request(1))
    cluster.keep(inner)
    assert cluster.free.tolist() == [[0, 1]]
    cluster.rollback(outer)
    assert free_state(cluster) == before


@pytest.mark.parametrize(
    ("grant", "request_", "what"),
    [
        (Grant(0, (0,), (1,)), Request(1), "device 0"),
        (Grant(0, (1,), (1,)), Request(1, cpu_milli=70_000), "CPU"),
        (Grant(0, (1,), (1,)), Request(1, host_memory_bytes=600 * GIB), "host memory"),
        (Grant(0, (1, 1), (1, 1)), Request(2), "device 1"),
    ],
)
def test_what_is_not_free_is_refused_and_nothing_is_taken(grant: Grant, request_: Request, what: str) -> None:
    cluster = Cluster([node("n", 2)])
    hold(cluster, "n", (0,), Request(1))
    before = free_state(cluster)
    with pytest.raises(PlacementError, match=f"node n: {what} is not free"):
        cluster.take(grant, request_)
    assert free_state(cluster) == before


def test_a_share_may_not_take_more_memory_than_is_left() -> None:
    cluster = Cluster([node("n", 1, units=10)])
    request = Request(1, units=1, memory_bytes=50 * GIB)
    hold(cluster, "n", (0,), request)
    with pytest.raises(PlacementError, match="memory of device 0 is not free"):
        cluster.take(Grant(0, (0,), (1,)), request)
    assert place(cluster, request, BestFit()) is None


def test_what_is_given_back_twice_is_refused() -> None:
    cluster = Cluster([node("n", 2)])
    grant = hold(cluster, "n", (0,), Request(1))
    cluster.give_back(grant, Request(1))
    with pytest.raises(PlacementError, match="is not held"):
        cluster.give_back(grant, Request(1))


def test_only_an_available_node_is_given_more_and_a_failed_one_takes_back() -> None:
    cluster = Cluster([node("n", 2)])
    grant = hold(cluster, "n", (0,), Request(1))
    cluster.set_state(0, "failed")
    assert place(cluster, Request(1), BestFit()) is None
    cluster.give_back(grant, Request(1))
    cluster.set_state(0, "available")
    assert place(cluster, Request(2), BestFit()) == Grant(0, (0, 1), (1, 1))


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(PlacementError, match="node n: is listed 2 times"):
        Cluster([node("n"), node("m"), node("n")])


def test_a_device_with_other_units_than_its_geometry_is_refused() -> None:
    with pytest.raises(PlacementError, match=r"a30-24gb: has 7 units\. Give it 4"):
        Cluster([node("n", 1, units=7, geometry="a30-24gb")])


def test_pool_labels_and_taints_decide_where_it_may_run() -> None:
    cluster = Cluster(
        [
            node("plain", 1),
            node("pooled", 1, pool="train"),
            node("labelled", 1, labels={"disk": "fast"}),
            node("tainted", 1, taints=frozenset({"dedicated"})),
        ]
    )
    only = {
        "pooled": Request(1, pool="train"),
        "labelled": Request(1, labels={"disk": "fast"}),
        "plain": Request(1),
    }
    for name, request in only.items():
        grant = place(cluster, request, BestFit())
        assert grant is not None
        assert cluster.nodes[grant.node].name == name
    tolerant = Request(1, tolerations=frozenset({"dedicated"}))
    assert cluster.shape(tolerant).fits(np.arange(4)).tolist() == [True, True, True, True]
    assert cluster.shape(Request(1)).fits(np.arange(4)).tolist() == [True, True, True, False]
