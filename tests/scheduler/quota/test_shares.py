"""Fair shares against the worked examples of the systems they come from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Tenant
from scheduler.quota.shares import Claim, Share, divide, dominant_share, runtime_quota, tree_shares
from scheduler.quota.tree import QuotaTree


def test_the_rest_goes_by_weight_as_in_kai() -> None:
    claims = [Claim("a", 10, 100, weight=3), Claim("b", 10, 100, weight=1)]
    assert divide(100, claims) == {"a": 70, "b": 30}


def test_runtime_quota_as_in_koordinator() -> None:
    """100 units; A lends 5 of its 20, 40 are unreserved: 45 by weights 60, 50, 80."""
    spare = [Claim("b", 0, 999, weight=60), Claim("c", 0, 999, weight=50), Claim("d", 0, 999, weight=80)]
    assert divide(45, spare) == {"b": 14, "c": 12, "d": 19}
    # B wants only 5 more than its minimum of 15, so that 9 go to C and D: 3 and 6.
    claims = [
        Claim("a", 20, 15, weight=40),
        Claim("b", 15, 20, weight=60),
        Claim("c", 20, 50, limit=50, weight=50),
        Claim("d", 5, 80, limit=80, weight=80),
    ]
    assert runtime_quota(100, claims) == {"a": 15, "b": 20, "c": 20 + 12 + 3, "d": 5 + 19 + 6}


def test_minima_beyond_the_total_are_scaled_down() -> None:
    assert runtime_quota(50, [Claim("a", 60, 60), Claim("b", 40, 40)]) == {"a": 30, "b": 20}


def test_three_levels_as_in_kueues_third_story() -> None:
    """300 units that one tenant has and does not use: half for each cohort, within one of them 1:1:3."""
    tree = QuotaTree(
        [
            Tenant("cs"),
            Tenant("source", "cs", guaranteed=300),
            Tenant("c1"),
            Tenant("1a", "c1"),
            Tenant("1b", "c1"),
            Tenant("1c", "c1", weight=3),
            Tenant("c2"),
            Tenant("2a", "c2"),
        ]
    )
    endless = dict.fromkeys(("1a", "1b", "1c", "2a"), 1000)
    shares = tree_shares(tree, endless, {})
    assert [shares[name] for name in ("c1", "1a", "1b", "1c", "c2", "2a")] == [150, 30, 30, 90, 150, 150]


def test_priority_is_served_before_weight() -> None:
    claims = [Claim("low", 5, 50, weight=100), Claim("high", 5, 30, priority=1)]
    assert divide(40, claims) == {"low": 10, "high": 30}


def test_past_usage_counts_against_a_weight() -> None:
    claims = [Claim("idle", 0, 100), Claim("busy", 0, 100, usage=0.5)]
    assert divide(100, claims, k=0) == {"idle": 50, "busy": 50}
    # Weights of a half each: idle 0.5 + 1 * (0.5 - 0) = 1, busy 0.5 + 1 * (0.5 - 0.5) = 0.5
    assert divide(90, claims, k=1) == {"idle": 60, "busy": 30}


def test_whoever_used_far_beyond_its_share_gets_what_others_leave() -> None:
    claims = [Claim("idle", 0, 20), Claim("busy", 0, 100, usage=1.5)]
    assert divide(100, claims, k=2) == {"idle": 20, "busy": 0}
    assert divide(100, claims, k=0.5) == {"idle": 20, "busy": 80}


def test_the_dominant_resource_decides_and_nothing_borrowed_is_no_share() -> None:
    lendable = {"gpu": 100, "cpu": 1000, "memory": 0}
    assert dominant_share({"gpu": 0, "cpu": 0}, lendable) == Share(False, 0.0)
    assert dominant_share({"gpu": 10, "cpu": 300, "memory": 9}, lendable) == Share(False, 0.3, "cpu")
    assert dominant_share({"gpu": 10, "cpu": 100}, lendable).resource == "cpu", "of equals the first in the alphabet"
    assert dominant_share({"gpu": 10}, lendable, weight=2) < dominant_share({"gpu": 10}, lendable)
    nobody = dominant_share({"gpu": 1}, lendable, weight=0)
    assert nobody > dominant_share({"gpu": 90}, lendable)
    assert nobody < dominant_share({"gpu": 2}, lendable, weight=0)


claims = st.lists(
    st.builds(
        Claim,
        name=st.uuids().map(str),
        deserved=st.integers(0, 30),
        request=st.integers(0, 60),
        limit=st.none() | st.integers(0, 50),
        weight=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        usage=st.floats(0, 2),
        priority=st.integers(0, 2),
    ),
    min_size=1,
    max_size=6,
)


@given(st.integers(0, 120), claims, st.sampled_from([0.0, 0.5, 4.0]))
def test_nobody_gets_more_than_asked_nor_less_than_deserved_nor_all_more_than_there_is(
    total: int, parties: list[Claim], k: float
) -> None:
    shares = divide(total, parties, k)
    for claim in parties:
        assert min(claim.deserved, claim.requestable) <= shares[claim.name] <= claim.requestable
    promised = sum(min(claim.deserved, claim.requestable) for claim in parties)
    assert sum(shares.values()) <= max(total, promised)
    if k == 0 and sum(shares.values()) < total:
        assert all(shares[c.name] == c.requestable for c in parties if c.weight), "something is left, so all are sated"


@pytest.mark.parametrize("total", [0, 1, 2, 99])
def test_the_same_claims_are_divided_alike_whatever_else_happened(total: int) -> None:
    parties = [Claim(name, 0, 50) for name in "abc"]
    assert divide(total, parties) == divide(total, list(parties))
    assert max(divide(total, parties).values()) - min(divide(total, parties).values()) <= 1
