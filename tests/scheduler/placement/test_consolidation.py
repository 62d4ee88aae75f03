"""Moves that make room: as few as it takes, each to a place that is there, and only proposed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Grant, Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.consolidation import Proposal, carry_out, make_room
from scheduler.placement.engine import place
from scheduler.placement.errors import PlacementError
from scheduler.placement.holdings import Holding, Holdings
from scheduler.placement.packing import BestFit, RandomFit
from tests.draws import keep_seed
from tests.scheduler.placement.clusters import free_state, node
from tests.scheduler.placement.test_cluster import REQUESTS, mixed


def scene(cluster: Cluster, *held: tuple[str, Grant, Request]) -> Holdings:
    holdings = Holdings(cluster)
    for job_id, grant, request in held:
        cluster.take(grant, request)
        holdings.add(Holding(job_id, 0, request, grant))
    return holdings


def share(units: int, cpu_milli: int = 0) -> Request:
    return Request(1, units=units, cpu_milli=cpu_milli)


def moved(proposal: Proposal | None) -> list[tuple[str, int]] | None:
    return None if proposal is None else [(move.holding.job_id, move.to.node) for move in proposal.moves]


def test_what_fits_needs_no_move() -> None:
    cluster = Cluster([node("a", 1)])
    assert make_room(cluster, Holdings(cluster), Request(1), BestFit()) == Proposal((), (Grant(0, (0,), (1,)),))


def test_the_smallest_replica_that_helps_is_moved() -> None:
    cluster = Cluster([node(name, 1, units=10) for name in "abc"])
    holdings = scene(
        cluster,
        ("large", Grant(0, (0,), (5,)), share(5)),
        ("small", Grant(0, (0,), (2,)), share(2)),
        ("other", Grant(1, (0,), (8,)), share(8)),
        ("third", Grant(2, (0,), (8,)), share(8)),
    )
    before = free_state(cluster)
    proposal = make_room(cluster, holdings, share(4), BestFit())
    assert moved(proposal) == [("small", 1)]
    assert free_state(cluster) == before
    assert proposal is not None
    carry_out(cluster, proposal)
    cluster.take(proposal.grants[0], share(4))
    assert cluster.free.tolist() == [[1], [0], [2]]


def test_a_chain_moves_one_into_the_place_of_another() -> None:
    """5 fits only where 4 is, 4 only where 3 is, 3 fits beside 7."""
    cluster = Cluster([node(name, 1, units=10) for name in "abc"])
    holdings = scene(
        cluster,
        ("four", Grant(0, (0,), (4,)), share(4)),
        ("a", Grant(0, (0,), (5,)), share(5)),
        ("three", Grant(1, (0,), (3,)), share(3)),
        ("b", Grant(1, (0,), (6,)), share(6)),
        ("c", Grant(2, (0,), (7,)), share(7)),
    )
    fixed = [held for held in holdings if held.job_id in "abc"]
    for held in fixed:
        holdings.remove(held.job_id, 0)
    assert moved(make_room(cluster, holdings, share(5), BestFit())) == [("three", 2), ("four", 1)]
    assert make_room(cluster, holdings, share(5), BestFit(), most_moves=1) is None


def test_two_may_change_places_for_the_cpu_they_need() -> None:
    """A device is free where CPUs are short; the CPUs are where no device is. Neither can move before the other."""
    cluster = Cluster([node("full", 1, cpu_milli=16_000), node("short", 2, cpu_milli=8000)])
    holdings = scene(
        cluster,
        ("light", Grant(0, (0,), (1,)), Request(1, cpu_milli=2000)),
        ("heavy", Grant(1, (0,), (1,)), Request(1, cpu_milli=7000)),
    )
    request = Request(1, cpu_milli=6000)
    proposal = make_room(cluster, holdings, request, BestFit())
    assert moved(proposal) == [("light", 1), ("heavy", 0)]
    assert proposal is not None
    carry_out(cluster, proposal)
    cluster.take(proposal.grants[0], request)
    assert cluster.cpu_free.tolist() == [9000, 0]


def test_several_leave_one_node_together() -> None:
    cluster = Cluster([node(name, 2, units=10) for name in "abc"])
    pieces = [(f"s{i}", Grant(0, (i % 2,), (1,)), share(1)) for i in range(4)]
    holdings = scene(
        cluster,
        *pieces,
        ("b", Grant(1, (0, 1), (8, 8)), Request(2, units=8)),
        ("c", Grant(2, (0, 1), (9, 9)), Request(2, units=9)),
    )
    holdings.remove("b", 0)
    holdings.remove("c", 0)
    proposal = make_room(cluster, holdings, Request(2), BestFit())
    found = moved(proposal)
    assert found is not None
    assert sorted(job for job, _ in found) == ["s0", "s1", "s2", "s3"]
    assert make_room(cluster, holdings, Request(2), BestFit(), most_moves=3) is None


def test_a_gang_gets_room_for_all_or_none() -> None:
    cluster = Cluster([node(name, 1, units=10) for name in "abcd"])
    held = [
        (name, Grant(i, (0,), (units,)), share(units))
        for i, (name, units) in enumerate(zip("abc", (2, 2, 7), strict=True))
    ]
    holdings = scene(cluster, *held, ("d", Grant(3, (0,), (9,)), share(9)))
    before, listed = free_state(cluster), {held.job_id for held in holdings}
    proposal = make_room(cluster, holdings, share(10), BestFit(), replicas=1)
    assert moved(proposal) in ([("a", 1)], [("a", 2)])
    assert make_room(cluster, holdings, share(10), BestFit(), replicas=3) is None
    assert free_state(cluster) == before
    assert {held.job_id for held in holdings} == listed


def test_only_those_listed_are_moved() -> None:
    cluster = Cluster([node("a", 1, units=10), node("b", 1, units=10)])
    cluster.take(Grant(0, (0,), (2,)), share(2))
    cluster.take(Grant(1, (0,), (2,)), share(2))
    assert make_room(cluster, Holdings(cluster), share(10), BestFit()) is None


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_proposal_can_be_carried_out_and_nothing_changes_before(seed: int) -> None:
    rng, cluster, policy = random.Random(seed), mixed(), RandomFit(seed)
    holdings = Holdings(cluster)
    for number in range(40):
        request = rng.choice(REQUESTS)
        grant = place(cluster, request, policy)
        if grant is not None:
            cluster.take(grant, request)
            holdings.add(Holding(str(number), 0, request, grant))
    before = free_state(cluster)
    for request in REQUESTS:
        proposal = make_room(cluster, holdings, request, BestFit())
        assert free_state(cluster) == before
        if proposal is None:
            continue
        mark = cluster.mark()
        carry_out(cluster, proposal)
        cluster.take(proposal.grants[0], request)
        assert (cluster.free >= 0).all()
        cluster.rollback(mark)


def test_a_proposal_is_refused_once_its_place_is_taken() -> None:
    cluster = Cluster([node(name, 1, units=10) for name in "ab"])
    holdings = scene(cluster, ("a", Grant(0, (0,), (2,)), share(2)), ("b", Grant(1, (0,), (8,)), share(8)))
    proposal = make_room(cluster, holdings, share(10), BestFit())
    assert moved(proposal) == [("a", 1)]
    assert proposal is not None
    cluster.take(Grant(1, (0,), (1,)), share(1))
    with pytest.raises(PlacementError, match="node b: device 0 is not free"):
        carry_out(cluster, proposal)


def test_the_fewest_leave_a_node_together_and_of_equal_ones_the_smallest() -> None:
    """Every node holds several shares, which all fit elsewhere; reckoned from how many there are, and how large."""
    for seed in range(first := random.Random(keep_seed()).randrange(10**9), first + 20):
        dice = random.Random(seed)
        count = dice.randint(2, 20)
        cluster = Cluster([node(f"n{number}", 1, units=10) for number in range(count + 1)])
        held = []
        for number in range(count):
            sizes = dice.choices([1, 2, 3], k=dice.randint(2, 3))
            held += [(f"{number}/{at}", Grant(number, (0,), (size,)), share(size)) for at, size in enumerate(sizes)]
        dice.shuffle(held)
        holdings = scene(cluster, *held)
        cluster.take(Grant(count, (0,), (1,)), share(1))  # stays, and leaves room for any of them
        proposal = make_room(cluster, holdings, share(10), BestFit())
        assert proposal is not None
        costs = [(0, 0)] * count
        for _, grant, _ in held:
            jobs, units = costs[grant.node]
            costs[grant.node] = (jobs + 1, units + grant.units[0])
        assert costs[proposal.grants[0].node] == min(costs), f"seed {seed}"
        assert len(proposal.moves) == min(costs)[0], f"seed {seed}"
