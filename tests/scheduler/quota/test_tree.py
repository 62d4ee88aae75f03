"""The tree of tenants against its definition, and against a tree rebuilt from scratch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model import Tenant
from scheduler.quota.tree import QuotaTree


def two_departments() -> QuotaTree:
    """100 units in research (with 10 of its own to share), 60 in ops; 40 that nobody is guaranteed."""
    return QuotaTree(
        [
            Tenant("research", guaranteed=10),
            Tenant("vision", "research", guaranteed=60, lending_limit=20),
            Tenant("speech", "research", guaranteed=30, borrowing_limit=15),
            Tenant("ops", guaranteed=60, limit=70),
        ],
        capacity=200,
    )


def test_what_nobody_is_guaranteed_can_be_borrowed_by_anybody() -> None:
    tree = two_departments()
    assert tree.root.nominal == 200 - (10 + 20 + 30) - 60
    assert tree.root.subtree == 200
    # ops: its limit; speech: its own and its borrowing limit; vision: all that is lent, and its own 40 that is not.
    assert [tree.potential_available(name) for name in ("ops", "speech", "vision")] == [70, 45, 240]


def test_a_lending_limit_keeps_the_rest_for_its_owner() -> None:
    tree = two_departments()
    assert tree["vision"].local == 40
    tree.add("ops", 70)
    tree.add("speech", 45)
    assert tree.available("vision") == 40 + (200 - 70 - 45)
    tree.add("vision", 40)
    assert tree["research"].usage == 45, "what vision covers locally does not count above"
    assert tree["research"].held == 85


def test_a_borrowing_limit_caps_what_comes_from_above() -> None:
    tree = two_departments()
    tree.add("speech", 40)
    assert tree.available("speech") == 5
    assert tree["speech"].borrowing and not tree["research"].borrowing
    assert tree.within_quota("speech", 5), "research as a whole is within its own"


def test_a_cut_of_capacity_is_a_negative_availability_not_an_error() -> None:
    tree = two_departments()
    tree.add("ops", 65)
    tree.add("vision", 60)
    tree.set_capacity(100)
    assert tree.root.subtree == 120, "more is guaranteed than there is"
    tree.add("speech", 30)
    assert tree.available("ops") == 120 - 65 - 20 - 30
    assert QuotaTree([Tenant("a", limit=4)], 10).available("a") == 4


def test_a_limit_holds_for_all_that_is_below_it() -> None:
    tree = QuotaTree([Tenant("top", limit=8), Tenant("left", "top"), Tenant("right", "top")], 20)
    tree.add("left", 6)
    assert tree.available("right") == 2
    tree.add("right", 5)
    assert tree.available("left") == -3


def test_a_tenant_that_nobody_declared_borrows_what_is_left() -> None:
    tree = QuotaTree([Tenant("a", guaranteed=6)], 10)
    tree.admit("guest")
    tree.add("guest", 4)
    assert tree.available("guest") == 6
    assert not tree.within_quota("guest") and tree.within_quota("a", 6)
    assert not tree.within_quota("a", 7)


@pytest.mark.parametrize(
    ("tenants", "says"),
    [
        ([Tenant("a"), Tenant("a")], "named twice"),
        ([Tenant("a", "b")], "unknown parent 'b'"),
        ([Tenant("a", "b"), Tenant("b", "c"), Tenant("c", "a")], "its own ancestor"),
    ],
)
def test_a_tree_that_is_none_is_refused(tenants: list[Tenant], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        QuotaTree(tenants)


def test_tenants_fork_below_their_lowest_common_ancestor() -> None:
    tree = two_departments()
    fork = tree.fork("vision", "ops")
    assert fork is not None and [branch.name for branch in fork] == ["research", "ops"]
    near = tree.fork("vision", "speech")
    assert near is not None and [branch.name for branch in near] == ["vision", "speech"]
    assert tree.fork("vision", "research") is None
    assert tree.path_name("vision") == "/research/vision"


limits = st.none() | st.integers(0, 30)


@st.composite
def trees(draw: st.DrawFn) -> list[Tenant]:
    count = draw(st.integers(1, 7))
    return [
        Tenant(
            f"t{number}",
            draw(st.sampled_from(["", *(f"t{other}" for other in range(number))])),
            guaranteed=draw(st.integers(0, 20)),
            borrowing_limit=draw(limits),
            lending_limit=draw(limits),
            limit=draw(limits),
        )
        for number in range(count)
    ]


@given(trees(), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 25), st.booleans()), max_size=20))
def test_any_history_leaves_the_tree_as_what_is_held_alone_would(
    tenants: list[Tenant], history: list[tuple[int, int, bool]]
) -> None:
    tree, held = QuotaTree(tenants, 60), dict.fromkeys((t.name for t in tenants), 0)
    for number, amount, gives_back in history:
        name = tenants[number % len(tenants)].name
        amount = min(amount, held[name]) if gives_back else amount
        (tree.remove if gives_back else tree.add)(name, amount)
        held[name] += -amount if gives_back else amount
    fresh = QuotaTree(tenants, 60)
    for name, amount in reversed(held.items()):
        fresh.add(name, amount)
    for name in held:
        assert (tree[name].usage, tree[name].held) == (fresh[name].usage, fresh[name].held)
        assert tree.available(name) == fresh.available(name)
    for branch in (tree.root, *(tree[name] for name in held)):
        own = held.get(branch.name, 0)
        assert branch.usage == own + sum(max(0, child.usage - child.local) for child in branch.children)
        assert branch.held == own + sum(child.held for child in branch.children)


@given(
    trees(),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 25), st.integers(0, 25)), max_size=12),
    st.integers(0, 25),
)
def test_a_surplus_counts_for_no_guarantee_and_for_every_limit(
    tenants: list[Tenant], history: list[tuple[int, int, int]], amount: int
) -> None:
    tree, smallest, all_of_it = (QuotaTree(tenants, 60) for _ in range(3))
    for number, gang, surplus in history:
        name = tenants[number % len(tenants)].name
        tree.add(name, gang + surplus, surplus)
        smallest.add(name, gang)
        all_of_it.add(name, gang + surplus)
    for tenant in tenants:
        name = tenant.name
        assert (tree[name].firm_usage, tree[name].borrowing) == (smallest[name].usage, smallest[name].borrowing)
        assert tree.within_quota(name, amount) == smallest.within_quota(name, amount)
        assert (tree[name].usage, tree.available(name)) == (all_of_it[name].usage, all_of_it.available(name))
    for number, gang, surplus in history:
        tree.remove(tenants[number % len(tenants)].name, gang + surplus, surplus)
    assert all(tree[name].surplus == tree[name].held == 0 for name in tree.names())


@given(trees(), st.lists(st.tuples(st.integers(0, 6), st.integers(0, 25)), max_size=10), st.integers(0, 25))
def test_what_is_available_goes_down_by_what_is_taken(
    tenants: list[Tenant], holdings: list[tuple[int, int]], amount: int
) -> None:
    tree = QuotaTree(tenants, 60)
    for number, units in holdings:
        tree.add(tenants[number % len(tenants)].name, units)
    for tenant in tenants:
        before, within = tree.available(tenant.name), tree.within_quota(tenant.name, amount)
        tree.add(tenant.name, amount)
        assert tree.available(tenant.name) == before - amount
        assert within == any(not branch.borrowing for branch in tree.path(tenant.name))
        tree.remove(tenant.name, amount)
