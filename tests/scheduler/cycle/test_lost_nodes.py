"""Jobs on nodes that failed or are in maintenance count against their tenants, and take nothing from the others."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies, Reserve
from scheduler.model import NodeState, Preempt, Queue, Start, Tenant
from scheduler.placement.engine import place_gang
from scheduler.placement.headroom import HeadroomRule
from tests.draws import keep_seed
from tests.scheduler.cycle.scenes import codes, core, decide, job, nodes, preempted, started

LOST = ("failed", "maintenance")
STATES: tuple[NodeState, ...] = ("available", "available", "failed", "maintenance")


def test_a_tenant_borrows_what_is_free_beside_a_drained_node_that_is_held() -> None:
    state = core(nodes(2), [Tenant("a", guaranteed=8), Tenant("b")])
    assert started(decide(state, 0, job("guaranteed", gpus=8))) == ["guaranteed"]
    (node,) = {grant.node for grant in state.running["guaranteed"].grants}
    state.set_node(node, "maintenance", 1)
    assert started(decide(state, 2, job("borrows", "b", gpus=8, at=2))) == ["borrows"]


def test_what_is_held_on_a_failed_node_is_left_to_nobody_once_it_is_free() -> None:
    state = core(nodes(3), [Tenant("a", guaranteed=16), Tenant("b")])
    decide(state, 0, job("held", gpus=8))
    (node,) = {grant.node for grant in state.running["held"].grants}
    state.set_node(node, "failed", 1)
    assert state.accounts.tenants[""].available("b") == 16
    state.end("held", 2, True)
    assert state.accounts.tenants[""].available("b") == 16
    state.set_node(node, "available", 3)
    assert state.accounts.tenants[""].available("b") == 24


def test_a_guarantee_is_not_reclaimed_on_a_node_where_nobody_can_start() -> None:
    state = core(nodes(2), [Tenant("a", guaranteed=8), Tenant("b")])
    decide(state, 0, job("borrows", "b", gpus=8))
    (node,) = {grant.node for grant in state.running["borrows"].grants}
    state.set_node(node, "maintenance", 1)
    plan = decide(state, 2, job("guaranteed", gpus=8, at=2))
    assert started(plan) == ["guaranteed"] and not preempted(plan)


def test_a_limit_counts_what_is_held_on_a_lost_node_and_priority_makes_room_below_it() -> None:
    state = core(nodes(2), [Tenant("a", limit=8)], [Queue("q", policy="priority")])
    decide(state, 0, job("low", gpus=8))
    (node,) = {grant.node for grant in state.running["low"].grants}
    state.set_node(node, "failed", 1)
    assert codes(decide(state, 2, job("same", gpus=8, at=2)), "same")[0] == "WaitingForQuota"
    plan = decide(state, 3, job("high", gpus=8, at=3, priority=1))
    assert started(plan) == ["high"] and [name for name, *_ in preempted(plan)] == ["low"]


def test_a_job_that_cannot_be_preempted_takes_no_guarantee_because_others_wait_on_a_lost_node() -> None:
    state = core(nodes(2), [Tenant("a", guaranteed=8), Tenant("b"), Tenant("c")])
    decide(state, 0, job("b1", "b", gpus=8))
    (node,) = {grant.node for grant in state.running["b1"].grants}
    state.set_node(node, "failed", 1)
    plan = decide(state, 2, job("firm", "c", gpus=8, at=2, preemptible=False))
    assert codes(plan, "firm")[0] == "NotPreemptibleBeyondGuarantee"
    assert started(decide(state, 3, job("a1", gpus=8, at=3))) == ["a1"], "the guarantee can be met at any time"


def test_jobs_that_cannot_be_preempted_on_a_lost_node_leave_the_others_theirs() -> None:
    state = core(nodes(2), [Tenant("b"), Tenant("c")])
    decide(state, 0, job("b1", "b", gpus=8, preemptible=False))
    (node,) = {grant.node for grant in state.running["b1"].grants}
    state.set_node(node, "failed", 1)
    assert started(decide(state, 2, job("firm", "c", gpus=8, at=2, preemptible=False))) == ["firm"]


def test_ordinary_jobs_on_a_lost_node_take_nothing_of_what_a_pool_leaves_them() -> None:
    half = Reserve("p", HeadroomRule(8), tenants=frozenset({"vip"}))
    state = core(nodes(3, pool="p"), policies=Policies(reserves=(half,)))
    decide(state, 0, job("j1", gpus=8))
    (node,) = {grant.node for grant in state.running["j1"].grants}
    state.set_node(node, "maintenance", 1)
    assert started(decide(state, 2, job("j2", gpus=8, at=2))) == ["j2"]
    state.set_node(node, "available", 3)
    assert state.cluster.headroom is not None and int(state.cluster.headroom.left()[0]) == 0
    state.end("j1", 4, True)
    assert int(state.cluster.headroom.left()[0]) == 8


def test_whoever_may_be_preempted_never_waits_beside_free_devices_whatever_is_lost() -> None:
    """Drawn clusters whose nodes come and go, without limits: then any free device can be borrowed. What cannot be
    preempted leaves every guarantee to be met on the nodes that are there. Nobody gives way to another tenant on a lost
    node."""
    first = random.Random(f"{keep_seed()} of lost nodes").randrange(10**9)
    for seed in range(first, first + 25):
        dice = random.Random(seed)
        count, gpus = dice.randint(2, 6), dice.choice([2, 4])
        names = "abcd"[: dice.randint(2, 4)]
        tenants = [Tenant(name, guaranteed=dice.choice([0, gpus, 2 * gpus])) for name in names]
        if sum(tenant.guaranteed for tenant in tenants) > count * gpus:
            tenants = [replace(tenant, guaranteed=0) for tenant in tenants]
        policy = dice.choice(["fifo", "priority", "fair_share"])
        state = core(nodes(count, gpus), tenants, [Queue("q", policy=policy)], explain=dice.random() < 0.3)  # type: ignore[arg-type]
        for now in range(40):
            if dice.random() < 0.4:
                state.set_node(dice.randrange(count), dice.choice(STATES), now)
            if state.running and dice.random() < 0.4:
                state.end(dice.choice(sorted(state.running)), now, True)
            if dice.random() < 0.8:
                least = dice.choice([1, 1, 2, 3])
                one = job(
                    f"j{now}",
                    dice.choice(names),
                    dice.choice([1, 2, gpus]),
                    replicas=least,
                    most=least + dice.choice([0, 0, 2]),
                    at=now,
                    priority=dice.randint(0, 2),
                    preemptible=dice.random() < 0.7,
                )
                state.submit(one, now)
            check_cycles(state, tenants, now, f"seed {seed}, at {now}")


def check_cycles(state: Core, tenants: list[Tenant], now: float, where: str) -> None:
    """Until nothing more is decided at that instant."""
    lost = {number for number, at in enumerate(state.cluster.states) if at in LOST}
    there = sum(len(node.devices) for number, node in enumerate(state.cluster.nodes) if number not in lost)
    guaranteed = {tenant.name: tenant.guaranteed for tenant in tenants}
    again = True
    while again:
        again = check_cycle(state, guaranteed, lost, there, now, where)
    for one, _ in state.pending.values():
        if one.preemptible:
            mark = state.cluster.mark()
            grants = place_gang(state.cluster, one.request, one.min_replicas, state.placement)
            state.cluster.rollback(mark)
            assert grants is None, f"{where}: {one.job_id} waits beside free devices"
    tree = state.accounts.tenants[""]
    held = {name: sum(one.units for one in state.running.values() if one.job.tenant == name) for name in guaranteed}
    assert {name: tree[name].held for name in guaranteed} == held, where
    away = sum(sum(g.units) for one in state.running.values() for g in one.grants if g.node in lost)
    assert tree.unusable == away and tree.root.subtree == max(sum(guaranteed.values()), there + away), where


def check_cycle(state: Core, guaranteed: dict[str, int], lost: set[int], there: int, now: float, where: str) -> bool:
    """Whether anything was decided."""
    before = {name: ({grant.node for grant in one.grants}, one.job.tenant) for name, one in state.running.items()}
    pending, plan = dict(state.pending), state.plan(now)
    for action in plan.actions:
        if isinstance(action, Preempt):
            where_it_was, tenant = before[action.job_id]
            # Its own tenant may give way for quota alone.
            assert not where_it_was <= lost or tenant == pending[action.by_job][0].tenant, (
                f"{where}: {action} frees nothing"
            )
        state.apply(action, now)
        if isinstance(action, Preempt) and action.job_id not in state.running:
            state.gone(action.job_id)
    firm: Counter[str] = Counter()
    for one in state.running.values():
        if not one.job.preemptible:
            firm[one.job.tenant] += sum(sum(grant.units) for grant in one.grants if grant.node not in lost)
    needed = sum(max(units, firm[name]) for name, units in guaranteed.items())
    for action in plan.actions:
        job = pending[action.job_id][0] if isinstance(action, Start) else None
        if job is not None and not job.preemptible and firm[job.tenant] > guaranteed[job.tenant]:
            assert needed <= there, f"{where}: {action.job_id} takes what is guaranteed to others: {firm}"
    return bool(plan.actions)
