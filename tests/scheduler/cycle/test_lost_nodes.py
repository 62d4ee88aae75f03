"""Jobs on nodes that failed or are in maintenance count against their tenants, and take nothing from the others."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest

from scheduler.cycle.accounts import Accounts, Amount
from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies, Reservation, Reserve
from scheduler.model import Job, NodeState, Preempt, Privileged, Queue, Start, Tenant
from scheduler.placement.engine import place_gang
from scheduler.placement.headroom import HeadroomRule
from scheduler.setup import Setup
from tests.draws import keep_seed, seeds
from tests.scheduler.cycle.scenes import Promised, codes, core, decide, job, nodes, preempted, run, started
from tests.scheduler.golden import worlds

SEEDS = seeds("GPULEDGER_LOST")
LOST = ("failed", "maintenance")
STATES: tuple[NodeState, ...] = ("available", "available", "failed", "maintenance")


def test_a_tenant_borrows_what_is_free_beside_a_drained_node_that_is_held() -> None:
    state = core(nodes(2), [Tenant("a", guaranteed=8), Tenant("b")])
    assert started(decide(state, 0, job("guaranteed", gpus=8))) == ["guaranteed"]
    (node,) = {grant.node for grant in state.running["guaranteed"].grants}
    state.set_node(node, "maintenance", 1)
    assert started(decide(state, 2, job("borrows", "b", gpus=8, at=2))) == ["borrows"]


def test_capacity_freed_on_a_failed_node_goes_to_no_job() -> None:
    state = core(nodes(3), [Tenant("a", guaranteed=16), Tenant("b")])
    decide(state, 0, job("held", gpus=8))
    (node,) = {grant.node for grant in state.running["held"].grants}
    state.set_node(node, "failed", 1)
    assert state.accounts.tenants[""].available("b") == 16
    state.end("held", 2, True)
    assert state.accounts.tenants[""].available("b") == 16
    state.set_node(node, "available", 3)
    assert state.accounts.tenants[""].available("b") == 24


def test_a_guarantee_is_not_reclaimed_on_an_unusable_node() -> None:
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


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_guarantee_that_is_held_on_a_lost_node_is_not_given_again_to_a_job_that_cannot_be_preempted(
    preemptible: bool,
) -> None:
    tenants = [Tenant("a", guaranteed=8), Tenant("b", guaranteed=8)]
    state = core(nodes(2), tenants)
    decide(state, 0, job("a1", gpus=8, preemptible=preemptible))
    (node,) = {grant.node for grant in state.running["a1"].grants}
    state.set_node(node, "maintenance", 1)
    plan = decide(state, 2, job("firm", gpus=8, at=2, preemptible=False))
    (reason,) = [one for one in plan.waiting["firm"] if one.code == "NotPreemptibleBeyondGuarantee"]
    used_up = "of it 8 used up on nodes that are not ready or in maintenance"
    assert f"can take 0 (guaranteed 8, {used_up}, holds 0, of it 0 borrowed)" in reason.text
    assert started(decide(state, 3, job("b1", "b", gpus=8, at=3))) == ["b1"], "the other guarantee can be met"
    state.end("b1", 4, True)
    state.end("a1", 4, True)
    assert started(decide(state, 4)) == ["firm"]


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


WINDOW = Reservation("firmware", 10, 20, frozenset({0}), kind="maintenance")


def test_a_maintenance_window_takes_its_nodes_from_what_a_pool_reserves_a_part_of() -> None:
    half = Reserve("p", HeadroomRule(part=Fraction(1, 2)), tenants=frozenset({"vip"}))
    state = core(nodes(2, pool="p"), policies=Policies(reserves=(half,)), reservations=[WINDOW])
    plan = decide(state, 10, *(job(f"j{number}", gpus=4, at=10) for number in range(2)))
    assert len(started(plan)) == 1, "the other half of the node that is there is kept"
    assert started(decide(state, 20)) == ["j1"]


def test_a_place_after_a_maintenance_window_is_promised_where_a_pool_reserves_a_part() -> None:
    half = Reserve("p", HeadroomRule(part=Fraction(1, 2)), tenants=frozenset({"vip"}))
    state = core(nodes(2, pool="p"), policies=Policies(reserves=(half,)), reservations=[WINDOW])
    plan = decide(state, 10, *(job(f"j{number}", gpus=4, at=10, limit=100) for number in range(2)))
    assert len(started(plan)) == 1 and list(plan.expected.values()) == [20]


def test_in_a_maintenance_window_a_guarantee_is_kept_free_of_what_cannot_be_preempted() -> None:
    state = core(nodes(2), [Tenant("a", guaranteed=8), Tenant("b")], reservations=[WINDOW])
    plan = decide(state, 10, job("firm", "b", gpus=8, at=10, preemptible=False))
    assert codes(plan, "firm")[0] == "NotPreemptibleBeyondGuarantee"
    assert started(decide(state, 11, job("a1", gpus=8, at=11))) == ["a1"]
    assert started(decide(state, 20)) == ["firm"]


def test_what_outlasts_the_beginning_of_a_maintenance_window_is_held_and_takes_nothing_from_others() -> None:
    tenants = [Tenant("a", guaranteed=8), Tenant("b")]
    state = core(nodes(2), tenants, reservations=[replace(WINDOW, nodes=frozenset({0, 1}))])
    decide(state, 0, job("late", gpus=8, limit=5))
    (node,) = {grant.node for grant in state.running["late"].grants}
    policies = state.policies
    state.reconfigure(tenants, [Queue("q")], policies, [replace(WINDOW, nodes=frozenset({node}))], 8)
    assert started(decide(state, 12, job("borrows", "b", gpus=8, at=12))) == ["borrows"]
    state.reconfigure(tenants, [Queue("q")], policies, [], 13)
    assert state.accounts.tenants[""].available("a") == 0 and not state.cluster.shut


@pytest.mark.parametrize("number", (208, 249, 251, *SEEDS))
def test_nobody_starts_late_around_maintenance_windows_where_a_pool_reserves_a_part(number: int | None) -> None:
    """Jobs keep to their limits. 208, 249, 251: what a promise took on nodes that were in a window now was not counted
    where another promise began after it."""
    first = random.Random(f"{keep_seed()} of windows").randrange(10**9) if number is None else number
    for seed in range(first, first + (1 if number is not None else 20)):
        dice = random.Random(seed)
        count = dice.randint(2, 4)
        part = HeadroomRule(part=Fraction(dice.choice([2, 5]), 10))
        windows = []
        for name in range(dice.randint(1, 2)):
            begin = dice.uniform(0, 60)
            end, closed = begin + dice.uniform(5, 60), dice.sample(range(count), dice.randint(1, count - 1))
            windows.append(Reservation(f"w{name}", begin, end, frozenset(closed), kind="maintenance"))
        jobs, lasts, at = list[Job](), dict[str, float](), 0.0
        for index in range(dice.randint(8, 25)):
            at += dice.choice([0, 0, 1, 2, 5, 10])
            limit, tenant = dice.choice([5.0, 10.0, 30.0, 60.0]), dice.choice("aav")
            gpus, replicas = dice.choice([1, 2, 4]), dice.choice([1, 1, 2])
            jobs.append(job(f"j{index}", tenant, gpus, replicas, at, limit=limit))
            lasts[f"j{index}"] = limit * dice.choice([1, 1, 1, 0.5])
        policies = Policies(
            backfill=dice.choice([1, None]), expected=0, reserves=(Reserve("p", part, tenants=frozenset("v")),)
        )
        promised = Promised()
        began = run(
            core(nodes(count, 4, pool="p"), (), [Queue("q")], policies, windows, False), jobs, lasts, promised.watch
        )
        late = {name: (start, began.get(name)) for name, start in promised.items() if began.get(name, 1e9) > start}
        assert not late, f"seed {seed}: {late}"


def test_a_window_that_new_settings_bring_begins_also_where_nothing_was_planned_before() -> None:
    """As many windows had begun or ended before as after: the nodes are others all the same."""
    tenants = [Tenant("a", guaranteed=8), Tenant("b")]
    state = core(nodes(2), tenants, reservations=[replace(WINDOW, start=0, end=100)])
    decide(state, 1, job("short", at=1))
    state.end("short", 2, True)
    state.reconfigure(tenants, [Queue("q")], state.policies, [replace(WINDOW, nodes=frozenset({1}), end=1000)], 5)
    plan = decide(state, 12, job("firm", "b", gpus=8, at=12, preemptible=False))
    assert state.cluster.shut == {1}
    assert codes(plan, "firm")[0] == "NotPreemptibleBeyondGuarantee"


@pytest.mark.parametrize("whose", ["", "b"])
def test_devices_in_a_window_are_not_among_those_that_would_do(whose: str) -> None:
    window = replace(WINDOW, tenants=frozenset(whose), kind="reservation" if whose else "maintenance")
    state = core(nodes(2), reservations=[window])
    decide(state, 10, job("runs", gpus=4, at=10))
    plan = decide(state, 11, job("gang", replicas=14, at=11))
    reason = plan.waiting["gang"][0]
    assert reason.code == "InsufficientCapacity" and reason.text.startswith("4 of 14 replicas fit; 1 of 2 nodes fit")
    assert reason.counts["NodeReserved" if whose else "NodeMaintenance"] == 1
    assert reason.counts["CardFits"] == 4 and reason.counts["CardOnUnfitNode"] == 8


@pytest.mark.parametrize(("asked", "code"), [(6, "KeptForOthers"), (10, "NeverFits"), (13, "NeverFits")])
def test_in_a_maintenance_window_never_means_after_it_as_well(asked: int, code: str) -> None:
    half = Reserve("p", HeadroomRule(part=Fraction(1, 2)), tenants=frozenset({"vip"}))
    state = core(nodes(2, pool="p"), policies=Policies(reserves=(half,)), reservations=[WINDOW])
    plan = decide(state, 10, job("gang", replicas=asked, at=10, limit=50))
    reason = plan.waiting["gang"][0]
    assert reason.code == code
    if code == "NeverFits":
        assert reason.text.startswith(f"asks for {asked} units of 8 that ordinary jobs may hold, beside 8 reserved")
        assert reason.counts["CardFits"] == 4 and reason.counts["CardReserved"] == 4


@pytest.mark.parametrize("preemptible", [True, False])
def test_a_place_after_a_maintenance_window_is_promised_by_what_quotas_leave_then(preemptible: bool) -> None:
    tenants = [Tenant("a", guaranteed=8), Tenant("b")]
    state = core(nodes(2), tenants, reservations=[WINDOW])
    plan = decide(
        state,
        11,
        job("a1", gpus=8, at=11, limit=5),
        job("firm", "b", gpus=8, at=11, limit=30, preemptible=preemptible),
    )
    assert started(plan) == ["a1"] and dict(plan.expected) == {"firm": 16 if preemptible else 20}


def test_capacity_that_a_coming_maintenance_window_takes_is_not_promised() -> None:
    window = replace(WINDOW, start=30, end=1000)
    state = core(nodes(3), [Tenant("a", guaranteed=16), Tenant("b"), Tenant("c")], reservations=[window])
    decide(state, 0, job("a1", gpus=8, limit=40), job("c1", "c", gpus=8), job("c2", "c", gpus=8, limit=20))
    assert dict(decide(state, 1, job("firm", "b", gpus=8, at=1, preemptible=False)).expected) == {"firm": 1000}


def test_only_the_counted_part_of_what_a_failed_node_holds_is_reported_as_used() -> None:
    """It holds 8 there; usable nodes have 4 less than all guarantees."""
    state = core(nodes(3), [Tenant("a", guaranteed=16), Tenant("b", guaranteed=4)])
    decide(state, 0, job("a1", gpus=8))
    state.set_node(state.running["a1"].grants[0].node, "failed", 1)
    plan = decide(state, 2, job("firm", gpus=8, replicas=2, at=2, preemptible=False))
    assert "can take 12 (guaranteed 16, of it 4 used up on nodes that" in plan.waiting["firm"][0].text


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
    check_firm(state, guaranteed, lost, there, where)
    away = sum(sum(g.units) for one in state.running.values() for g in one.grants if g.node in lost)
    assert tree.unusable == away and tree.root.subtree == max(sum(guaranteed.values()), there + away), where


def check_firm(state: Core, guaranteed: dict[str, int], lost: set[int], there: int, where: str) -> None:
    """What jobs that cannot be preempted may still take: of the tenant's guarantee what such jobs do not hold yet, of
    what nobody is guaranteed what is left, both on nodes that are there. Where these have less than all guarantees,
    what the tenant holds elsewhere is not given again."""
    used, gone = Counter[str](), Counter[str]()
    for one in state.running.values():
        for grant in one.grants:
            if grant.node in lost:
                gone[one.job.tenant] += sum(grant.units)
            elif not one.job.preemptible:
                used[one.job.tenant] += sum(grant.units)
    beyond = sum(max(0, used[name] - own) for name, own in guaranteed.items())
    free = there - sum(guaranteed.values())
    for name, own in guaranteed.items():
        may = max(0, own - used[name]) - min(own, gone[name], max(0, -free)) + max(0, free) - beyond
        assert state.accounts.firm[""].available(name) == may, f"{where}: {name}"


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


@pytest.mark.parametrize("number", SEEDS)
def test_in_any_history_quotas_are_those_of_what_is_held_now(number: int | None) -> None:
    """Worlds of all features in which nodes are lost with their jobs. After each change all trees and the headroom are
    those of accounts made anew from what runs, and whoever starts has room; explained or not, the same is decided."""
    number = random.Random(f"{keep_seed()} of lost worlds").randrange(10**9) if number is None else number
    print(f"GPULEDGER_LOST={number}-{number}")
    for world in range(number, number + 1 if "GPULEDGER_LOST" in os.environ else number + 4):
        assert decisions(world, explain=True) == decisions(world, explain=False), world


def decisions(world: int, explain: bool) -> list[str]:
    dice = random.Random(f"lost world {world}")
    there = worlds.drawn_nodes(dice)
    setup = Setup(f"lost {world}", there, **worlds.drawn_site(dice, there, 0.0), seed=world)
    state = setup.core([worlds.drawn_request(dice, there) for _ in range(8)], 0.0, explain)
    jobs: dict[str, Job] = {}
    now, done = 0.0, []
    for _ in range(40):
        now += dice.choice([0.0, 1.0, 5.0, 12.0, 30.0])
        if dice.random() < 0.25:
            state.set_node(dice.randrange(len(there)), dice.choice((*STATES, "reserved")), now)
            check_made_anew(state, f"{world} at {now}")
        what = worlds.happen(dice, state, jobs, now)
        check_made_anew(state, f"{world} at {now}: {what}")
        pending, plan = dict(state.pending), state.plan(now)
        closed = [one.nodes for one in state.reservations if not one.tenants and one.start <= now < one.end]
        if plan.looked:
            assert state.cluster.shut == {node for nodes in closed for node in nodes}, f"{world} at {now}"
        check_made_anew(state, f"{world} at {now}: {what}, planned")
        for action in plan.actions:
            state.apply(action, now)
        check_made_anew(state, f"{world} at {now}: {what}, applied")
        starts = [action for action in plan.actions if isinstance(action, Start)]
        # Who starts on a reservation's nodes asks no quota.
        for action in starts if all(one.entitlement != "reserved" for one in starts) else ():
            room = state.accounts.room(pending[action.job_id][1].account)
            assert room >= 0, f"{world} at {now}: {action} leaves {room}"
        done.append(f"{now:g} {what}: {'; '.join(map(worlds.action, plan.actions))}")
    return done


def check_made_anew(state: Core, where: str) -> None:
    lost = {number for number, at in enumerate(state.cluster.states) if at in LOST} | state.cluster.shut
    capacity: Counter[str] = Counter()
    for number, node in enumerate(state.cluster.nodes):
        for pool in {"", node.pool} if number not in lost else ():
            capacity[pool] += sum(device.units for device in node.devices)
    headroom, reserved = state.cluster.headroom, None
    if headroom is not None:
        reserved, ordinary = Counter[str](), [0] * len(headroom.kinds)
        for number, kind in enumerate(headroom.kinds):
            for pool in {"", kind.pool}:
                reserved[pool] += headroom.reserved(number)
        for one in state.running.values():
            free = one.job.request.kept_in if isinstance(one.job.request, Privileged) else frozenset()
            for grant in one.grants:
                for device, units in zip(grant.devices, grant.units, strict=True):
                    kind_of = int(headroom.number[grant.node, device])
                    if kind_of >= 0 and grant.node not in lost and headroom.kinds[kind_of].pool not in free:
                        ordinary[kind_of] += units
        assert headroom.ordinary.tolist() == ordinary, where
    anew = Accounts(state.declared, state.queues.values(), capacity, reserved)
    for one in state.running.values():
        units = sum(sum(grant.units) for grant in one.grants)
        away = sum(sum(grant.units) for grant in one.grants if grant.node in lost)
        beyond = sum(sum(grant.units) for grant in one.grants[one.job.min_replicas :])
        anew.add(one.kind.account, Amount(units, surplus_units=beyond, unusable=away))
    for mine, made in (
        *zip(state.accounts.tenants.values(), anew.tenants.values(), strict=True),
        *zip(state.accounts.firm.values(), anew.firm.values(), strict=True),
        *zip(state.accounts.ordinary.values(), anew.ordinary.values(), strict=True),
        (state.accounts.queues, anew.queues),
    ):
        assert mine.root.subtree == made.root.subtree, where
        for name in made.names():
            found = [(tree[name].held, tree[name].usage, tree.available(name)) for tree in (mine, made)]
            assert found[0] == found[1], f"{where}: {name} {found}"
