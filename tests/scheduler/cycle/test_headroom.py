"""What pools keep free from ordinary jobs: for whom, by model, in promises and reasons, and after settings change."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import pytest

from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies, Reserve
from scheduler.model import Device, Node, Privileged, Queue, Request, Tenant
from scheduler.placement.engine import place_gang
from scheduler.placement.headroom import HeadroomRule
from tests.draws import keep_seed
from tests.scheduler.cycle.scenes import codes, core, decide, job, nodes, preempted, started

TENTH = Reserve("p", HeadroomRule(part=Fraction(1, 10)), tenants=frozenset({"vip"}))


def pool(count: int, gpus: int = 8, *reserves: Reserve, tenants: Sequence[Tenant] = (), **others: object) -> Core:
    policies = Policies(reserves=reserves)
    return core(nodes(count, gpus, pool="p"), tenants, policies=policies, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "usable", "whole", "units"),
    [
        (HeadroomRule(part=Fraction(1, 10)), 80, 1, 8),
        (HeadroomRule(part=Fraction(1, 10)), 81, 1, 9),
        (HeadroomRule(part=Fraction(1, 10)), 30, 1, 3),
        (HeadroomRule(part=Fraction(1, 10)), 7 * 8, 7, 7),
        (HeadroomRule(part=Fraction(1, 1000)), 7 * 8, 7, 7),
        (HeadroomRule(5), 80, 1, 5),
        (HeadroomRule(5), 3, 1, 3),
        (HeadroomRule(part=Fraction(1, 10)), 0, 1, 0),
    ],
)
def test_a_part_is_rounded_up_to_whole_devices(rule: HeadroomRule, usable: int, whole: int, units: int) -> None:
    assert rule.of(usable, whole) == units


def test_ordinary_jobs_leave_the_reserve_and_the_reason_counts_it() -> None:
    state = pool(10, 8, TENTH)
    plan = decide(state, 0, *(job(f"j{number}", gpus=8, at=number) for number in range(10)))
    assert len(started(plan)) == 9 and codes(plan, "j9")[0] == "InsufficientCapacity"
    (reason, *_) = plan.waiting["j9"]
    assert reason.counts["CardReserved"] == 8 and reason.text.endswith("72 in use, 8 reserved")
    assert "NearestFit" not in codes(plan, "j9"), "nothing smaller would start either"
    assert started(decide(state, 1, job("now", "vip", gpus=8, at=20))) == ["now"], "what is kept, is kept for it"


def test_privilege_depends_on_tenant_queue_or_priority_and_cannot_be_requested() -> None:
    rule = Reserve("p", HeadroomRule(8), priority=5, queues=frozenset({"on-demand"}), tenants=frozenset({"vip"}))
    queues = [Queue("q"), Queue("on-demand"), Queue("now", parent="on-demand"), Queue("urgent", priority=4)]
    for one, may in [
        (job("plain", gpus=8), False),
        (job("vip", "vip", gpus=8), True),
        (job("below", gpus=8, queue="now"), True),
        (job("sum", gpus=8, queue="urgent", priority=1), True),
        (job("less", gpus=8, queue="urgent"), False),
        (job("claims", request=Privileged(8, kept_in=frozenset({"p"}))), False),
    ]:
        state = pool(2, 8, rule, queues=queues)
        decide(state, 0, job("first", gpus=8))
        assert started(decide(state, 1, one)) == [one.job_id] * may


def test_each_model_of_a_pool_keeps_its_part() -> None:
    devices = [tuple(Device(f"{model}{n}{d}", model) for d in range(4)) for n in range(5) for model in ("A100", "H100")]
    there = [Node(f"n{number}", those, pool="p") for number, those in enumerate(devices)]
    state = core(there, policies=Policies(reserves=(TENTH,)))
    jobs = [
        job(f"{model}{n}", at=n, request=Request(1, models=frozenset({model})))
        for n in range(20)
        for model in ("A100", "H100")
    ]
    assert Counter(name[:4] for name in started(decide(state, 0, *jobs))) == {"A100": 18, "H100": 18}


def test_a_promise_to_an_ordinary_job_leaves_the_reserve_and_holds() -> None:
    """Two units are over at the promised time, and one who would still run then may take no more of them."""
    state = pool(1, 8, Reserve("p", HeadroomRule(2), tenants=frozenset({"vip"})))
    decide(state, 0, job("runs", gpus=3, limit=100))
    plan = decide(
        state,
        1,
        job("head", gpus=5, at=1, limit=100),
        job("long", gpus=2, at=2, limit=500),
        job("one", at=3, limit=500),
    )
    assert started(plan) == ["one"] and plan.expected["head"] == 100
    assert codes(plan, "long")[0] == "KeptForOthers"
    state.end("runs", 100, True)
    assert started(decide(state, 100)) == ["head"]


def test_a_promise_to_a_privileged_job_takes_nothing_from_the_others() -> None:
    """Five of ten are kept: both are promised the instant at which all comes free, and both start then."""
    rule = Reserve("p", HeadroomRule(5), tenants=frozenset({"vip"}))
    state = core(nodes(1, 10, pool="p"), policies=Policies(backfill=None, reserves=(rule,)))
    decide(state, 0, job("all", "vip", gpus=10, limit=100))
    plan = decide(state, 1, job("its", "vip", gpus=5, at=1, limit=50), job("other", gpus=5, at=2, limit=50))
    assert plan.expected == {"its": 100, "other": 100}
    state.end("all", 100, True)
    assert started(decide(state, 100)) == ["its", "other"]


def test_a_job_that_cannot_be_preempted_leaves_every_guarantee_to_be_called_in() -> None:
    """Of ten, four are guaranteed and two kept: firm ordinary jobs may have four, who may take those two six."""
    tenants = [Tenant("own", guaranteed=4)]
    for tenant, most in (("other", 4), ("vip", 6)):
        state = pool(1, 10, Reserve("p", HeadroomRule(2), tenants=frozenset({"vip"})), tenants=tenants)
        plan = decide(state, 0, *(job(f"j{n}", tenant, at=n, preemptible=False) for n in range(10)))
        assert len(started(plan)) == most
        assert {codes(plan, name)[0] for name in plan.waiting} == {"NotPreemptibleBeyondGuarantee"}
        assert len(started(decide(state, 1, *(job(f"o{n}", "own", at=20 + n) for n in range(4))))) == 4


def test_lent_quota_is_reclaimed_where_only_the_reserve_is_free() -> None:
    state = pool(
        1, 10, Reserve("p", HeadroomRule(2), tenants=frozenset({"vip"})), tenants=[Tenant("own", guaranteed=4)]
    )
    decide(state, 0, job("borrows", gpus=8))
    plan = decide(state, 1, job("owner", "own", gpus=2, at=1))
    assert preempted(plan) == [("borrows", 1, "ReclaimLentQuota")] and started(plan) == ["owner"]


def test_reloaded_settings_change_the_reserve_and_for_whom_it_is() -> None:
    state = pool(1, 8)
    decide(state, 0, job("a", gpus=6), job("v", "vip", gpus=1, at=1))
    rules = Policies(reserves=(Reserve("p", HeadroomRule(4), tenants=frozenset({"vip"})),))
    state.reconfigure((), [Queue("q")], rules, (), 1)
    assert started(decide(state, 1, job("b", at=2), job("w", "vip", at=3))) == ["w"]
    state.end("a", 2, True)
    assert len(started(decide(state, 2, *(job(f"c{n}", at=4 + n) for n in range(5))))) == 4, "b and three more"
    state.reconfigure((), [Queue("q")], Policies(), (), 3)
    assert len(started(decide(state, 3))) == 2
    for name in sorted(state.running):
        state.end(name, 4, True)
    assert int(state.cluster.free.sum()) == 8


def test_a_part_follows_the_nodes_that_are_usable_and_never_fits_counts_it() -> None:
    half = Reserve("p", HeadroomRule(part=Fraction(1, 2)), tenants=frozenset({"vip"}))
    state = pool(4, 4, half)
    plan = decide(state, 0, job("wide", gpus=4, replicas=3))
    assert codes(plan, "wide")[0] == "NeverFits"
    assert "asks for 12 units of 8 that ordinary jobs may hold, beside 8 reserved" in plan.waiting["wide"][0].text
    state.withdraw("wide", 1)
    for node in (0, 1):
        state.set_node(node, "failed", 1)
    assert len(started(decide(state, 1, *(job(f"j{n}", gpus=1, at=n) for n in range(8))))) == 4


def test_the_oldest_job_starts_wherever_the_reserve_leaves_it_room() -> None:
    """Against replicas counted pool by pool and model by model, in each rack where one must hold all, on a cluster that
    keeps nothing."""
    first = random.Random(f"{keep_seed()} of headroom").randrange(10**9)
    for seed in range(first, first + 40):
        dice = random.Random(seed)
        there = []
        for number in range(dice.randint(2, 6)):
            model, name = dice.choice(["A100", "H100"]), dice.choice("pr")
            devices = tuple(Device(f"{number}{d}", model, 4) for d in range(4))
            rack = f"rack{number // dice.choice([2, 3])}"
            there.append(Node(f"n{number}", devices, pool=name, topology=(rack,), labels={"rack": rack}))
        rules = [Reserve(name, HeadroomRule(dice.choice([2, 4, 9]))) for name in "pr" if dice.random() < 0.7]
        state = core(
            there,
            policies=Policies(backfill=dice.choice([1, None]), reserves=tuple(rules)),
            explain=dice.random() < 0.3,
        )
        for now in range(25):
            units, width = dice.choice([(0, 1), (0, 2), (1, 1), (3, 2)])
            models = frozenset(dice.sample(["A100", "H100"], 1)) if dice.random() < 0.4 else frozenset[str]()
            close = dice.choice([{}, {"preferred_topology": 0}, {"required_topology": 0}])
            request = Request(width, units, models=models, pool=dice.choice(["", "", "p"]), **close)
            decide(state, now, job(f"j{now}", at=now, replicas=dice.choice([1, 2, 3, 5]), request=request))
            if state.running and dice.random() < 0.5:
                state.end(dice.choice(sorted(state.running)), now, True)
                decide(state, now)
            if state.pending:
                oldest = min(state.pending.values(), key=lambda one: (one[0].submitted_at, one[0].job_id))[0]
                assert not has_room(state, rules, oldest.request, oldest.min_replicas), f"seed {seed}, at {now}"


def has_room(state: Core, rules: Sequence[Reserve], request: Request, replicas: int) -> bool:
    racks = {node.topology[0] for node in state.cluster.nodes} if request.required_topology is not None else {""}
    return max(room_in(state, rules, request, rack) for rack in racks) >= replicas


def room_in(state: Core, rules: Sequence[Reserve], request: Request, rack: str) -> int:
    """rack: '' for all of them."""
    cluster, fit = state.cluster, 0
    kinds = {(node.pool, node.devices[0].model) for node in cluster.nodes}
    held: Counter[tuple[str, str]] = Counter()
    for running in state.running.values():
        for grant in running.grants:
            node = cluster.nodes[grant.node]
            held[node.pool, node.devices[0].model] += sum(grant.units)
    rooms, cluster.headroom = cluster.headroom, None
    for name, model in kinds:
        if request.pool not in ("", name) or (request.models and model not in request.models):
            continue
        usable = sum(len(n.devices) * 4 for n in cluster.nodes if (n.pool, n.devices[0].model) == (name, model))
        reserved = sum(min(usable, rule.rule.units) for rule in rules if rule.pool == name)
        labels = {"rack": rack} if rack else {}
        only = Request(request.devices, request.units, pool=name, models=frozenset({model}), labels=labels)
        mark, most = cluster.mark(), (usable - reserved - held[name, model]) // (request.devices * (request.units or 4))
        count = 0
        while count < most and place_gang(cluster, only, 1, state.placement) is not None:
            count += 1
        cluster.rollback(mark)
        fit += count
    cluster.headroom = rooms
    return fit


@pytest.mark.parametrize(("reserved", "used"), [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (3, 1), (4, 0)])
def test_ordinary_jobs_leave_a_promise_what_it_needs_of_their_part(reserved: int, used: int) -> None:
    """They are placed where the promise does not lie, and together hold no more than is left beside it as it begins."""
    state = pool(2, 4, Reserve("p", HeadroomRule(reserved), tenants=frozenset({"vip"})))
    decide(state, 0, job("ends", limit=100, request=Request(3, cpu_milli=4000)))
    if used:
        decide(state, 0.5, job("beside", at=0.5, request=Request(used, cpu_milli=used)))
    decide(state, 1, job("head", gpus=4, at=1))
    assert state.next_promise(1) == 100
    small = [job(f"s{number}", at=2 + number, request=Request(1, cpu_milli=1)) for number in range(4)]
    assert len(started(decide(state, 2, *small))) == 8 - reserved - 4 - used, "of what is there, and head's four"
    state.end("ends", 100, True)
    assert "head" in started(decide(state, 100))
