"""Each policy's choice on clusters small enough to see it, and that what is remembered is what is true."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model import Grant, Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import Policy, place, place_gang
from scheduler.placement.fgd import Fgd
from scheduler.placement.fragmentation import typical_demand
from scheduler.placement.interference import AntiInterference
from scheduler.placement.packing import BestFit, DotProduct, GpuClustering, GpuPacking, RandomFit
from tests.scheduler.placement.clusters import GIB, free_state, hold, node
from tests.scheduler.placement.test_cluster import REQUESTS, mixed

POLICIES: dict[str, Callable[[], Policy]] = {
    "best fit": BestFit,
    "dot product": DotProduct,
    "GPU packing": GpuPacking,
    "GPU clustering": GpuClustering,
    "FGD": lambda: Fgd(typical_demand(REQUESTS, 1.0)),
    "random": lambda: RandomFit(7),
    "anti-interference": lambda: AntiInterference({("a", "b"): 0.5}, BestFit()),
}


def chosen(cluster: Cluster, request: Request, policy: Policy) -> str:
    grant = place(cluster, request, policy)
    return cluster.nodes[grant.node].name if grant else ""


def test_best_fit_leaves_least_over_and_the_first_node_wins_a_tie() -> None:
    cluster = Cluster([node("a", 8), node("b", 8), node("c", 8)])
    assert chosen(cluster, Request(1), BestFit()) == "a"
    hold(cluster, "b", (0, 1, 2), Request(3))
    assert chosen(cluster, Request(1), BestFit()) == "b"
    assert chosen(cluster, Request(8), BestFit()) == "a"


def test_dot_product_avoids_the_node_that_has_much_of_what_is_asked() -> None:
    cluster = Cluster([node("rich", 8, cpu_milli=128_000), node("poor", 8, cpu_milli=32_000)])
    assert chosen(cluster, Request(4, cpu_milli=30_000), DotProduct()) == "poor"


def test_gpu_packing_takes_a_device_in_use_then_a_node_in_use_then_a_free_node() -> None:
    share, whole = Request(1, units=300), Request(1, units=1000)
    cluster = Cluster([node("free", 2, units=1000), node("used", 2, units=1000)])
    assert chosen(cluster, share, GpuPacking()) == "free"
    hold(cluster, "used", (1,), share)
    assert place(cluster, share, GpuPacking()) == Grant(1, (1,), (300,))
    assert chosen(cluster, whole, GpuPacking()) == "used"
    hold(cluster, "used", (0,), whole)
    assert chosen(cluster, whole, GpuPacking()) == "free"


def test_gpu_clustering_keeps_grants_of_one_size_together() -> None:
    share, whole = Request(1, units=300), Request(1, units=1000)
    cluster = Cluster([node("a", 4, units=1000), node("b", 4, units=1000), node("c", 4, units=1000)])
    hold(cluster, "b", (0,), share)
    hold(cluster, "c", (0,), whole)
    assert chosen(cluster, share, GpuClustering()) == "b"
    assert chosen(cluster, whole, GpuClustering()) == "c"
    assert chosen(cluster, Request(2, units=1000), GpuClustering()) == "a"


def test_fgd_fills_the_gap_that_no_other_job_can_use() -> None:
    """Demand: half the tasks want a whole device, half 400 of 1000. 400 into the 400 that is left on b leaves every
    whole device whole; a's device is of use to both while it is free."""
    whole, share = Request(1, units=1000), Request(1, units=400)
    cluster = Cluster([node("a", 1, units=1000), node("b", 1, units=1000)])
    policy = Fgd(typical_demand([whole, share], 1.0))
    hold(cluster, "b", (0,), Request(1, units=600))
    assert policy.fragmentation(cluster).fragmented() == pytest.approx(0.5 * 400)
    assert chosen(cluster, share, policy) == "b"
    hold(cluster, "b", (0,), share)
    assert policy.fragmentation(cluster).fragmented() == 0


def test_random_is_the_same_for_the_same_seed_and_goes_everywhere() -> None:
    def run(seed: int) -> list[str]:
        cluster = Cluster([node(name, 2) for name in "abcd"])
        policy = RandomFit(seed)
        return [chosen(cluster, Request(1), policy) for _ in range(60)]

    assert run(5) == run(5)
    assert run(5) != run(6)
    assert set(run(5)) == set("abcd")


def test_shares_go_beside_the_neighbour_that_slows_least() -> None:
    speeds = {("me", "noisy"): 0.5, ("noisy", "me"): 0.6, ("me", "quiet"): 0.99, ("quiet", "me"): 0.98}
    cluster = Cluster([node("a", 2, units=10), node("b", 1, units=10)])
    request, noisy = Request(1, units=4, workload_class="me"), Request(1, units=4, workload_class="noisy")
    cluster.take(Grant(0, (0,), (4,)), noisy)
    cluster.take(Grant(0, (1,), (4,)), Request(1, units=4, workload_class="quiet"))
    cluster.take(Grant(1, (0,), (4,)), noisy)
    policy = AntiInterference(speeds, BestFit())
    assert place(cluster, request, policy) == Grant(0, (1,), (4,))
    assert place(cluster, request, BestFit()) == Grant(1, (0,), (4,))
    cluster.give_back(Grant(1, (0,), (4,)), noisy)
    assert place(cluster, request, policy) == Grant(1, (0,), (4,)), "alone is better still"
    assert policy.slowdown("me", {"unmeasured": 1}) == pytest.approx(2 * (1 - 0.937))


@pytest.mark.parametrize("name", [name for name in POLICIES if name != "random"])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_remembered_scores_choose_what_fresh_ones_would(name: str, seed: int) -> None:
    """A long-lived cluster, and one made anew with the same things held, agree on every request."""
    rng, cluster, policy = random.Random(seed), mixed(), POLICIES[name]()
    held: list[tuple[Grant, Request]] = []
    for _ in range(12):
        request = rng.choice(REQUESTS)
        if rng.random() < 0.3 and held:
            cluster.give_back(*held.pop(rng.randrange(len(held))))
        grant = place(cluster, request, policy)
        fresh = mixed()
        for other in held:
            fresh.take(*other)
        assert place(fresh, request, POLICIES[name]()) == grant
        if grant is not None:
            cluster.take(grant, request)
            held.append((grant, request))


@pytest.mark.parametrize("name", list(POLICIES))
def test_a_gang_is_placed_whole_or_not_at_all(name: str) -> None:
    cluster, policy = Cluster([node("a", 8), node("b", 8), node("c", 4)]), POLICIES[name]()
    before = free_state(cluster)
    assert place_gang(cluster, Request(4), 6, policy) is None
    assert free_state(cluster) == before
    grants = place_gang(cluster, Request(4), 5, policy)
    assert grants is not None
    assert sorted(grant.node for grant in grants) == [0, 0, 1, 1, 2]
    assert not cluster.free.any()


def test_device_memory_already_asked_for_is_not_there_for_the_next_under_fgd() -> None:
    cluster = Cluster([node("n", 2, units=1000, device_memory=16 * GIB)])
    request = Request(1, units=100, memory_bytes=10 * GIB)
    policy = Fgd(typical_demand([request], 1.0))
    grants = place_gang(cluster, request, 2, policy)
    assert grants is not None
    assert sorted(grant.devices for grant in grants) == [(0,), (1,)]
    assert place(cluster, request, policy) is None
    assert place(cluster, Request(1, units=100), policy) is not None
