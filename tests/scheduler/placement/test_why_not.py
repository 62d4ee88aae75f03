"""Why something does not fit: every cause with its count, and what would fit instead."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduler.model import Request
from scheduler.placement.cluster import Cluster
from scheduler.placement.reasons import NEVER_FITS, NO_DOMAIN, NO_ROOM, nearest_that_fits, why_not
from tests.scheduler.placement.clusters import GIB, hold, node


def fleet() -> Cluster:
    """Two H100 nodes, one with 5 of 8 held, one short of CPU; a T4 node; one in maintenance; one of another pool."""
    cluster = Cluster(
        [
            node("h1", 8),
            node("h2", 8),
            node("t1", 4, model="T4"),
            node("h3", 8, state="maintenance"),
            node("h4", 8, pool="other", taints=frozenset({"theirs"})),
        ]
    )
    hold(cluster, "h1", (0, 1, 2, 3, 4), Request(5))
    hold(cluster, "h2", (0,), Request(1, cpu_milli=60_000))
    return cluster


def test_a_node_that_cannot_be_used_is_not_ready_whether_it_failed_or_its_agent_is_silent() -> None:
    """An executor reports `failed` for both, and for a Kubernetes node without the condition Ready."""
    cluster = fleet()
    cluster.set_state(0, "failed")
    reason = why_not(cluster, Request(8, models=frozenset({"H100"})))
    assert reason is not None
    assert reason.counts["NodeFailed"] == 1
    assert "nodes fit: 1 in maintenance, 1 not ready, " in reason.text


def test_what_fits_has_no_reason() -> None:
    assert why_not(fleet(), Request(3)) is None
    assert why_not(fleet(), Request(1), replicas=10) is None


def test_every_cause_is_counted_by_node_and_by_card() -> None:
    reason = why_not(fleet(), Request(6, cpu_milli=8000, models=frozenset({"H100"})))
    assert reason is not None
    assert reason.code == NO_ROOM
    assert reason.counts == {
        "NodeMaintenance": 1,
        "UntoleratedTaint": 1,
        "InsufficientCpu": 1,
        "InsufficientCards": 2,  # h1 has 3 left, t1 none of the model
        "CardTypeMismatch": 4,
        "CardInUse": 6,
        "CardOnUnfitNode": 26,  # 3 of h1, 7 of h2, and the two closed nodes
        "nodes": 5,
        "cards": 36,
        "nodes_that_fit": 0,
        "replicas": 1,
        "largest_gang": 0,
    }
    assert reason.text == (
        "0 of 1 replicas fit; 0 of 5 nodes fit: 1 in maintenance, 1 with a taint that is not tolerated, "
        "1 short of CPU, 2 short of cards; of 36 cards: 4 of another model, 6 in use, "
        "26 free on a node that does not fit"
    )


@pytest.mark.parametrize("held", [8, 5, 1])
def test_the_cards_of_a_reason_are_those_of_the_pool_that_was_asked_for(held: int) -> None:
    """What is in use elsewhere is no reason: as on a cluster with that pool alone."""
    nodes = [node("h1", 8), node("h2", 8, pool="train"), node("t1", 4, model="T4", pool="train")]
    whole, alone = Cluster(nodes), Cluster(nodes[1:])
    for cluster in (whole, alone):
        hold(cluster, "h2", tuple(range(held)), Request(held))
    hold(whole, "h1", (0, 1), Request(2))
    asked = Request(8, pool="train", models=frozenset({"H100"}))
    reason, expected = why_not(whole, asked), why_not(alone, asked)
    assert reason is not None and expected is not None
    free = f", {8 - held} free on a node that does not fit" if held < 8 else ""
    said = f"of 12 cards in pool train: 4 of another model, {held} in use{free}"
    assert reason.text.endswith(f": 1 outside pool train, 3 short of cards; {said}")
    assert expected.text.endswith(f"; {said}")
    assert (reason.counts["cards"], reason.counts["CardInUse"]) == (20, held + 2)


@pytest.mark.parametrize(
    "request_",
    [
        Request(3),
        Request(6, models=frozenset({"H100"})),
        Request(1, units=1, memory_bytes=90 * GIB),
        Request(9),
        Request(1, profile="1g.10gb"),
        Request(2, pool="other"),
    ],
)
def test_each_card_is_counted_once(request_: Request) -> None:
    reason = why_not(fleet(), request_, replicas=100)
    assert reason is not None
    cards = sum(count for cause, count in reason.counts.items() if cause.startswith("Card"))
    assert cards == reason.counts["cards"] == 36


def test_what_no_empty_node_could_hold_never_fits() -> None:
    for request in (
        Request(9),
        Request(1, cpu_milli=65_000),
        Request(1, models=frozenset({"B200"})),
        Request(1, memory_bytes=81 * GIB),
        Request(1, profile="1g.10gb"),
        Request(1, pool="nowhere"),
    ):
        reason = why_not(fleet(), request)
        assert reason is not None
        assert reason.code == NEVER_FITS
    closed = why_not(fleet(), Request(8))
    assert closed is not None
    assert closed.code == NO_ROOM, "one in maintenance could hold it"


def test_a_gang_that_fits_in_all_but_in_no_one_rack_says_so() -> None:
    cluster = Cluster([node(f"n{i}", 4, topology=(f"rack-{i // 2}",)) for i in range(4)])
    reason = why_not(cluster, Request(4, required_topology=0), replicas=3)
    assert reason is not None
    assert reason.code == NO_DOMAIN
    assert reason.counts["largest_gang"] == 2
    assert reason.text.startswith("no one domain holds 3 replicas, the best 2; 4 of 4 nodes fit")


def test_the_nearest_request_differs_in_one_thing_and_fits() -> None:
    cluster = fleet()
    request = Request(7, cpu_milli=8000, models=frozenset({"H100"}))
    found = nearest_that_fits(cluster, request)
    assert found == [
        (replace(request, devices=3), "3 devices instead of 7"),
        (replace(request, cpu_milli=4000), "4000 milli-CPU instead of 8000"),
    ]
    for nearest, _ in found:
        assert why_not(cluster, nearest) is None


def test_the_nearest_request_may_be_of_another_model_or_pool_or_smaller() -> None:
    cluster = Cluster([node("a", 1, units=10), node("b", 1, model="T4", units=10, pool="p")])
    hold(cluster, "a", (0,), Request(1, units=6))
    request = Request(1, units=7, models=frozenset({"H100"}))
    assert [words for _, words in nearest_that_fits(cluster, request)] == [
        "4 units of each device instead of 7",
        "model T4",
    ]
    assert [words for _, words in nearest_that_fits(cluster, Request(1, pool="q"))] == ["pool p"]
    assert nearest_that_fits(cluster, Request(1)) == []
