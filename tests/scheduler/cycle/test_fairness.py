"""Tenants in fair-share and capacity queues, elastic growth, and what must hold after any history."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from scheduler.cycle.accounts import Amount
from scheduler.cycle.core import Core
from scheduler.cycle.order import Fairness
from scheduler.cycle.policies import Policies
from scheduler.cycle.state import units_of
from scheduler.cycle.trial import Trial
from scheduler.model import Preempt, Queue, Request, Resize, Tenant
from scheduler.placement.engine import place_gang
from tests.draws import keep_seed
from tests.scheduler.cycle.scenes import core, decide, job, nodes, preempted, started
from tests.scheduler.cycle.test_worlds import seeds

FAIR = [Queue("q", "fair_share")]


def held(state: Core) -> dict[str, int]:
    units = Counter[str]()
    for running in state.running.values():
        units[running.job.tenant] += running.units
    return dict(units)


def test_backlogs_of_four_tenants_end_as_in_kueues_third_story() -> None:
    tenants = [
        Tenant("cs"),
        Tenant("source", "cs", guaranteed=300),
        Tenant("c1"),
        Tenant("1a", "c1"),
        Tenant("1b", "c1"),
        Tenant("1c", "c1", weight=3),
        Tenant("c2"),
        Tenant("2a", "c2"),
    ]
    state = core(nodes(10, 30), tenants, FAIR, explain=False)
    for number in range(200):
        for tenant in ("1a", "1b", "1c", "2a"):
            state.submit(job(f"{tenant}-{number}", tenant, at=number), 0)
    decide(state, 1)
    assert held(state) == {"1a": 30, "1b": 30, "1c": 90, "2a": 150}


def test_the_dominant_resource_decides_who_is_next() -> None:
    """Both hold as many GPUs; b holds most of the CPUs."""
    state = core(nodes(2, 8), [Tenant("a"), Tenant("b")], FAIR)
    decide(state, 0, job("a0", "a"), job("b0", "b", request=Request(1, cpu_milli=7000)))
    plan = decide(state, 1, job("b1", "b", at=1), job("a1", "a", at=2))
    assert started(plan) == ["a1", "b1"]


def test_jobs_without_gpus_take_turns_by_their_cpus_within_a_cycle() -> None:
    """Node of 8 CPUs; each start of a cycle counts for the next."""
    state = core(nodes(1, 8), [Tenant("a"), Tenant("b")], FAIR)
    request = Request(0, cpu_milli=2000)
    waiting = [job(f"{tenant}{number}", tenant, at=number, request=request) for tenant in "ab" for number in range(4)]
    assert started(decide(state, 1, *waiting)) == ["a0", "b0", "a1", "b1"]


def test_remembered_usage_counts_after_it_is_over() -> None:
    queues = [Queue("q", "fair_share", half_life=3600)]
    state = core(nodes(1, 4), [Tenant("a"), Tenant("b")], queues, Policies(usage_weight=4))
    decide(state, 0, job("before", "a", gpus=4))
    state.end("before", 3600, True)
    waiting = [job(f"{t}{n}", t, at=3600 + n) for n in range(4) for t in "ab"]
    decide(state, 3700, *waiting)
    assert held(state) == {"b": 4}, "a had its share for the last hour"
    fresh = core(nodes(1, 4), [Tenant("a"), Tenant("b")], FAIR)
    decide(fresh, 3700, *waiting)
    assert held(fresh) == {"a": 2, "b": 2}


def test_a_capacity_queue_serves_who_has_least_of_its_runtime_quota() -> None:
    tenants = [Tenant("a", guaranteed=6, weight=1), Tenant("b", guaranteed=2, weight=3)]
    state = core(nodes(2, 8), tenants, [Queue("q", "capacity")])
    decide(state, 1, *(job(f"{t}{n:02}", t, at=n) for n in range(16) for t in "ab"))
    assert held(state) == {"a": 8, "b": 8}, "6 + a quarter of 8, 2 + three quarters of 8"


def test_runtime_quotas_share_out_what_there_is_and_what_a_parent_uses_itself_comes_first() -> None:
    """At each branch: its own part, and for those below it all of the rest that they ask for and may have."""
    first = random.Random(f"{keep_seed()} of runtime quotas").randrange(10**9)
    for seed in range(first, first + 30):
        dice = random.Random(seed)
        left, tenants = 32, list[Tenant]()
        for number in range(dice.randint(2, 7)):
            left -= (own := dice.choice([0, dice.randint(0, left)]))
            parent = dice.choice(["", "", *(one.name for one in tenants)])
            limit = dice.choice([None, None, own + dice.randint(0, 8)])
            tenants.append(Tenant(f"t{number}", parent, guaranteed=own, limit=limit, weight=dice.choice([1, 2, 5])))
        state = core(nodes(4, 8), tenants, [Queue("q", "capacity")], explain=False)
        for number in range(dice.randint(1, 12)):
            state.submit(job(f"j{number}", dice.choice(tenants).name, dice.choice([1, 2, 4, 8])), 1)
            if dice.random() < 0.4:
                decide(state, 1)
        with Trial(state, 2) as trial:
            quota = Fairness(trial).shares(state.queues["q"], "")
        asked = Counter(held(state))
        for one, _ in state.pending.values():
            asked[one.tenant] += one.request.devices
        below = {name: [one for one in tenants if one.parent == name] for name in ["", *(one.name for one in tenants)]}

        def wanted(name: str, below: dict[str, list[Tenant]] = below, asked: Counter[str] = asked) -> int:
            return asked[name] + sum(wanted(one.name, below, asked) for one in below[name])

        for name, children in below.items():
            has = quota[name] if name else 32
            most = [min(wanted(one.name), wanted(one.name) if one.limit is None else one.limit) for one in children]
            given = [quota[one.name] for one in children]
            assert all(part <= bound for part, bound in zip(given, most, strict=True))
            assert sum(given) == min(has - min(has, asked[name]), sum(most)), f"seed {seed}, {name or 'root'}: {quota}"


def test_elastic_jobs_grow_into_capacity_that_no_job_waits_for() -> None:
    state = core(nodes(1, 8), [Tenant("a"), Tenant("b")])
    decide(state, 0, job("one", "a", most=8), job("two", "b", most=3, at=1))
    plan = decide(state, 1)
    assert [type(action) for action in plan.actions] == [Resize, Resize]
    assert {name: len(one.grants) for name, one in state.running.items()} == {"one": 5, "two": 3}
    assert not decide(state, 2).actions


def test_elastic_jobs_leave_what_is_promised_and_stay_below_limits() -> None:
    state = core(nodes(1, 8), [Tenant("a", limit=5)])
    decide(state, 0, job("grows", most=8, limit=1000), job("runs", "b", gpus=3, limit=100, at=1))
    decide(state, 1, job("head", "b", gpus=6, limit=50, at=2))
    assert len(state.running["grows"].grants) == 2, "from 100 on all but two are for the head"
    other = core(nodes(1, 8), [Tenant("a", limit=5)])
    decide(other, 0, job("grows", most=8))
    decide(other, 1)
    assert len(other.running["grows"].grants) == 5


def test_a_job_that_shrank_keeps_its_size_for_a_while() -> None:
    state = core(nodes(1, 4), [Tenant("a"), Tenant("b", guaranteed=4)], policies=Policies(elastic_hold_seconds=60))
    decide(state, 0, job("elastic", most=4))
    decide(state, 1)
    assert preempted(decide(state, 2, job("own", "b", gpus=2, at=2))) == [("elastic", 2, "ElasticSurplus")]
    state.end("own", 10, True)
    assert not decide(state, 30).actions
    assert [type(action) for action in decide(state, 70).actions] == [Resize]


steps = st.lists(
    st.tuples(
        st.sampled_from(["submit", "submit", "submit", "end", "withdraw", "node"]),
        st.integers(0, 11),
        st.integers(1, 4),
        st.integers(1, 2),
        st.sampled_from("abc"),
    ),
    min_size=5,
    max_size=25,
)


@settings(max_examples=100, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(steps, st.sampled_from(["fifo", "priority", "fair_share", "capacity"]), st.sampled_from([0, 1, None]))
def test_after_any_history_devices_trees_and_guarantees_are_right(
    history: list[tuple[str, int, int, int, str]], policy: str, promises: int | None
) -> None:
    tenants = [Tenant("top", guaranteed=2), Tenant("a", "top", guaranteed=6), Tenant("b", guaranteed=4), Tenant("c")]
    queues = [Queue("q", policy), Queue("r", "fifo", maximum=8)]  # type: ignore[arg-type]
    states = [
        core(nodes(5, 4, units=2), tenants, queues, Policies(backfill=promises), explain=explain)
        for explain in (True, True, False)
    ]
    for now, (what, number, gpus, replicas, tenant) in enumerate(history):
        for state in states:
            _step(state, float(now), what, number, gpus, replicas, tenant)
        plans = [decide(state, float(now)) for state in states]
        assert plans[0].actions == plans[1].actions, "the same history, the same plan"
        assert plans[0].actions == plans[2].actions, "whether or not it is explained"
        for state in states:
            _check(state)
        _check_guarantees(states[0], plans[0].actions != (), promises)


def _step(state: Core, now: float, what: str, number: int, gpus: int, replicas: int, tenant: str) -> None:
    if what == "submit":
        units = number % 3
        request = Request(gpus, units, cpu_milli=100 * gpus)
        one = job(
            f"j{now}",
            tenant,
            replicas=replicas,
            most=replicas + number % 3,
            at=now,
            priority=number % 4,
            queue="qqr"[number % 3],
            request=request,
            limit=float(20 + number) if number % 2 else None,
            preemptible=number % 5 > 0,
        )
        state.submit(one, now)
    elif what == "end" and state.running:
        state.end(sorted(state.running)[number % len(state.running)], now, number % 2 == 0)
    elif what == "withdraw" and state.pending:
        state.withdraw(sorted(state.pending)[number % len(state.pending)], now)
    elif what == "node":
        node = number % 5
        state.set_node(node, "available" if state.cluster.states[node] == "failed" else "failed", now)


def _check(state: Core) -> None:
    """No device over its units; the trees hold what the running jobs do."""
    used = Counter[tuple[int, int]]()
    by_tenant, by_queue = Counter[str](), Counter[str]()
    for running in state.running.values():
        assert len(running.grants) >= running.job.min_replicas
        assert running.units == units_of(running.grants)
        by_tenant[running.job.tenant] += running.units
        by_queue[running.job.queue] += running.units
        for grant in running.grants:
            for device, units in zip(grant.devices, grant.units, strict=True):
                used[grant.node, device] += units
    for (node, device), units in used.items():
        assert units <= state.cluster.capacity[node, device]
        assert state.cluster.free[node, device] == state.cluster.capacity[node, device] - units
    for node in range(len(state.cluster.nodes)):
        there = {name for name, one in state.running.items() if any(grant.node == node for grant in one.grants)}
        assert state.on_node[node] == there
    tree = state.accounts.tenants[""]
    for tenant in "abc":
        if tenant in tree:
            assert tree[tenant].held == by_tenant[tenant]
    assert tree.root.held == sum(by_tenant.values())
    assert by_queue["r"] <= 8
    assert all(one.tested_at <= state.freed for one in state.waiting_classes())


def _check_guarantees(state: Core, acted: bool, promises: int | None) -> None:
    """A job within its guarantee does not wait while it would fit in place of preemptible borrowers."""
    if acted or promises == 0:
        return
    tree = state.accounts.tenants[""]
    for one, kind in list(state.pending.values()):
        if state.accounts.entitlement(kind.account, kind.amount) != "guaranteed" or one.queue != "q":
            continue
        mark, gone = state.cluster.mark(), []
        for running in state.running.values():
            if running.job.preemptible and running.job.tenant == "c":
                gone.append(running)
                for grant in running.grants:
                    state.cluster.give_back(grant, running.job.request)
                state.accounts.remove(running.kind.account, Amount(running.units))
        fits = state.accounts.room(kind.account) >= kind.amount and (
            place_gang(state.cluster, one.request, one.min_replicas, state.placement) is not None
        )
        state.cluster.rollback(mark)
        for running in gone:
            state.accounts.add(running.kind.account, Amount(running.units))
        assert not (fits and gone), f"{one.job_id} waits while {[r.job.job_id for r in gone]} borrow"
        assert tree.root.held >= 0


@pytest.mark.parametrize("queue", ["fifo", "fair_share"])
def test_a_tenant_within_its_guarantee_gets_it_at_once(queue: str) -> None:
    state = core(nodes(4, 8), [Tenant("a"), Tenant("b", guaranteed=16)], [Queue("q", queue)])  # type: ignore[arg-type]
    decide(state, 0, *(job(f"a{n}", gpus=1 + n % 3, at=n) for n in range(30)))
    plan = decide(state, 50, job("b0", "b", gpus=8, replicas=2, at=50))
    assert started(plan) == ["b0"] and all(isinstance(a, Preempt) for a in plan.actions[:-1])


@pytest.mark.parametrize("queue", [*FAIR, Queue("q", "fair_share", half_life=60.0), Queue("q", "capacity")])
def test_a_tenant_of_weight_0_gets_what_nobody_else_wants(queue: Queue) -> None:
    """Of those who borrow, whatever was held and used before: nobody else at all, or nobody beside it in the tree."""
    met = 0
    for seed in seeds(30):
        dice = random.Random(f"{seed} of weights")
        above = {"x": 1.0, "y": dice.choice([0.0, 1.0])}
        own = {name: dice.choice([0.0, 0.0, 0.001, 1.0, 3.0]) for name in "abcd"}
        parent = {name: dice.choice(["", "x", "y"]) for name in own}
        top = {name: above.get(parent[name], own[name]) for name in own}

        def comes_before(
            other: str, one: str, own: dict[str, float] = own, top: dict[str, float] = top, of: dict[str, str] = parent
        ) -> bool:
            if queue not in FAIR:
                return not (own[one] and top[one]) and bool(own[other] and top[other])
            weights = own if of[one] == of[other] else top
            return not weights[one] and bool(weights[other])

        tenants = [Tenant(name, weight=weight) for name, weight in above.items()]
        tenants += [Tenant(name, parent[name], weight=weight) for name, weight in own.items()]
        penalty, usage_weight = dice.choice([0, 30]), dice.choice([0, 1, 3])
        policies = Policies(
            entry_penalty_seconds=penalty, usage_weight=usage_weight, preempt_for_fairness=False
        )  # which goes by what is held
        state, now, count = core(nodes(2, dice.randint(2, 5)), tenants, [queue], policies), 0.0, 0
        for _ in range(12):
            now += dice.choice([1, 5, 60])
            for name in dice.sample(sorted(state.running), dice.randint(0, len(state.running))):
                state.end(name, now, True)
            jobs = [job(f"j{count + n}", dice.choice("abcd"), at=now) for n in range(dice.randint(0, 8))]
            count += len(jobs)
            begun = {state.running[name].job.tenant for name in started(decide(state, now, *jobs))}
            waits = {one.tenant for one, _ in state.pending.values()}
            wrong = [(one, other) for one in begun for other in waits if comes_before(other, one)]
            assert not wrong, f"{seed}: {own}, {parent}, {above}: {wrong}"
            met += any(comes_before(other, one) for one in begun for other in own)
    assert met
