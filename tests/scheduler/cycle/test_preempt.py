"""Who gives way: by which right, how few, and never in turn."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from scheduler.cycle.core import Core
from scheduler.cycle.plan import CyclePlan
from scheduler.cycle.policies import Policies, Reservation
from scheduler.model import Device, Grant, Job, Node, Preempt, Queue, Request, Start, Tenant
from scheduler.placement.engine import place_gang
from tests.draws import keep_seed
from tests.scheduler.cycle.scenes import codes, core, decide, job, nodes, preempted, run, started

NO_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
LENDER = [Tenant("a"), Tenant("b", guaranteed=8)]


def test_lent_quota_is_reclaimed_and_the_text_names_both() -> None:
    state = core(nodes(1, 8), LENDER)
    decide(state, 0, job("borrows", gpus=8, priority=3))
    plan = decide(state, 10, job("owner", "b", gpus=4, at=10))
    assert preempted(plan) == [("borrows", 1, "ReclaimLentQuota")] and started(plan) == ["owner"]
    assert isinstance(plan.actions[0], Preempt)
    assert plan.actions[0].text == (
        "reclaims quota that its tenant had lent (policy reclaim, across tenants): gives way to job owner; "
        "its path /b, queue q, effective priority 0; given up by /a, queue q, effective priority 3"
    )


def test_a_job_waiting_for_cpus_does_not_block_guarantees() -> None:
    state = core([replace(node, cpu_milli=8000) for node in nodes(1, 8)], LENDER)
    decide(state, 0, job("borrows", gpus=8))
    decide(state, 5, job("cpus", "b", at=5, request=Request(0, cpu_milli=9000)))
    assert preempted(decide(state, 10, job("owner", "b", gpus=4, at=10))) == [("borrows", 1, "ReclaimLentQuota")]


def test_a_job_gives_way_to_a_higher_priority_in_its_queue_only() -> None:
    state = core(nodes(1, 4), queues=[Queue("q", "priority"), Queue("other", "priority")])
    decide(state, 0, job("low", gpus=4))
    assert preempted(decide(state, 1, job("same", gpus=4, at=1))) == []
    assert preempted(decide(state, 2, job("elsewhere", gpus=4, at=2, queue="other", priority=9))) == []
    assert preempted(decide(state, 3, job("high", gpus=4, at=3, priority=1))) == [("low", 1, "PriorityInQueue")]


def test_a_higher_priority_takes_nothing_from_who_is_within_a_guarantee() -> None:
    state = core(nodes(1, 8), LENDER, [Queue("q", "priority")])
    decide(state, 0, job("owner", "b", gpus=8))
    plan = decide(state, 1, job("urgent", "a", gpus=4, at=1, priority=99))
    assert preempted(plan) == [] and codes(plan, "urgent")[0] == "InsufficientCapacity"


def test_no_job_is_killed_if_its_queue_could_reclaim_the_place() -> None:
    """Each of them borrows as it is looked at; together they leave their queue with less than it is guaranteed."""
    queues = [Queue("own", guaranteed=4), Queue("other", priority=5)]
    for stays, expected in [(1, []), (4, ["large", "small"])]:
        state = core(nodes(1, 5 + stays), queues=queues, policies=Policies(preempt_by_priority="all"))
        decide(state, 0, job("small", queue="own"), job("large", gpus=4, queue="own", priority=1))
        decide(state, 1, job("stays", gpus=stays, at=1, queue="own", preemptible=False))
        plan = decide(state, 2, job("urgent", gpus=5, at=2, queue="other"))
        assert sorted(name for name, *_ in preempted(plan)) == expected, f"{stays} stay"


def test_a_queue_gets_what_it_is_guaranteed() -> None:
    state = core(nodes(1, 8), queues=[Queue("q"), Queue("own", guaranteed=4)])
    decide(state, 0, job("big", gpus=8))
    plan = decide(state, 1, job("claims", gpus=4, at=1, queue="own"))
    assert preempted(plan) == [("big", 1, "ReclaimQueueGuarantee")]


def test_fair_share_takes_from_who_has_more_even_without_it() -> None:
    state = core(nodes(1, 8), [Tenant("a"), Tenant("b")], [Queue("q", "fair_share")])
    decide(state, 0, *(job(f"a{number}", gpus=2, at=number) for number in range(4)))
    taken = [preempted(decide(state, 10 + n, job(f"b{n}", "b", gpus=2, at=10 + n))) for n in range(3)]
    assert [len(victims) for victims in taken] == [1, 1, 0], "at four each it is fair"
    assert taken[0][0][2] == "FairShare"
    assert not decide(state, 20).actions


@pytest.mark.parametrize(
    ("one", "four", "right"),
    [
        (Request(1), Request(4), "FairShare"),
        (Request(1, cpu_milli=1000), Request(1, cpu_milli=4000), "FairShare"),
        (Request(1), Request(4), "QueueFairShare"),
    ],
)
def test_what_an_elastic_job_has_grown_by_makes_no_other_job_of_its_side_give_way(
    one: Request, four: Request, right: str
) -> None:
    """Smallest gangs hold two and four of eight; without the four, two are less than the other side would have."""
    of_queues = right == "QueueFairShare"
    queues = [Queue("q", "capacity" if of_queues else "fair_share"), Queue("r")]
    policies = Policies(between_queues="fair_share" if of_queues else "priority")
    state = core(nodes(1, 8), [Tenant("a"), Tenant("b")], queues, policies)
    decide(state, 0, job("elastic", replicas=2, most=8, request=one))
    while decide(state, 0).actions:
        pass
    decide(state, 5, job("kept", at=5, request=four))
    assert {name: len(running.grants) for name, running in state.running.items()} == {"elastic": 4, "kept": 1}
    other = job("other", "a", at=10, queue="r", request=four) if of_queues else job("other", "b", at=10, request=four)
    assert preempted(decide(state, 10, other)) == [("elastic", 4, right)]


def test_the_fewest_jobs_then_the_least_work_is_lost() -> None:
    state = core(nodes(3, 4), LENDER)
    for name, gpus, at in [("wide", 4, 0.0), ("x", 2, 100.0), ("y", 2, 100.0), ("old", 4, 50.0)]:
        decide(state, at, job(name, gpus=gpus, at=at))
    plan = decide(state, 200, job("owner", "b", gpus=4, at=200))
    assert preempted(plan) == [("old", 1, "ReclaimLentQuota")], "one job, and younger than wide"


def test_work_that_a_checkpoint_saved_is_not_lost() -> None:
    state = core(nodes(2, 4), LENDER)
    decide(state, 0, job("saves", gpus=4, checkpoint_seconds=90))
    decide(state, 100, job("young", gpus=4, at=100))
    plan = decide(state, 190, job("owner", "b", gpus=4, at=190))
    assert preempted(plan) == [("saves", 1, "ReclaimLentQuota")], "10 s since its checkpoint, the other ran 90"


def test_prices_decide_between_equal_losses() -> None:
    cheap = nodes(1, 4, pool="cheap")[0]
    cheap = replace(cheap, devices=tuple(replace(device, model="T4") for device in cheap.devices))
    state = core(
        [*nodes(1, 4), cheap], [Tenant("a"), Tenant("b", guaranteed=8)], policies=Policies(prices={"A100": 4, "T4": 1})
    )
    decide(state, 0, job("one", gpus=4), job("two", gpus=4))
    plan = decide(state, 100, job("owner", "b", gpus=4, at=100))
    victim = plan.actions[0].job_id
    assert len(preempted(plan)) == 1 and isinstance(plan.actions[-1], Start)
    assert plan.actions[-1].grants[0].node == 1, f"the cheap node, where {victim} was"


def test_a_job_runs_its_least_time_before_it_gives_way() -> None:
    state = core(nodes(1, 4), LENDER, [Queue("q", min_run_time=60)], explain=False)
    decide(state, 0, job("young", gpus=4))
    assert preempted(decide(state, 30, job("owner", "b", gpus=4, at=30))) == []
    assert preempted(decide(state, 59)) == []
    assert preempted(decide(state, 60)) == [("young", 1, "ReclaimLentQuota")]


def test_who_cannot_be_preempted_stays_and_so_does_who_was_too_often() -> None:
    state = core(nodes(1, 4), queues=[Queue("q", "priority")], policies=Policies(most_preemptions=1))
    decide(state, 0, job("once", gpus=4))
    assert preempted(decide(state, 1, job("high", gpus=4, at=1, priority=5))) == [("once", 1, "PriorityInQueue")]
    state.end("high", 2, True)
    assert started(decide(state, 2, job("once", gpus=4))) == ["once"]
    assert preempted(decide(state, 3, job("again", gpus=4, at=3, priority=5))) == []
    firm = core(nodes(1, 4), queues=[Queue("q", "priority")])
    decide(firm, 0, job("firm", gpus=4, preemptible=False))
    assert preempted(decide(firm, 1, job("high", gpus=4, at=1, priority=5))) == []


def test_no_job_is_evicted_for_a_gang_that_still_would_not_fit() -> None:
    state = core(nodes(2, 4), [Tenant("a"), Tenant("b", guaranteed=6)])
    assert started(decide(state, 0, job("firm", gpus=2, preemptible=False), job("loose", gpus=4, at=1)))
    plan = decide(state, 5, job("gang", "b", gpus=3, replicas=2, at=5))
    assert preempted(plan) == [] and "gang" in plan.waiting


def test_a_gang_with_a_required_domain_empties_one_domain() -> None:
    state = core(nodes(6, 4, racks_of=2), [Tenant("a"), Tenant("b", guaranteed=24)])
    decide(state, 0, *(job(f"{n}", gpus=2, at=n) for n in range(12)))
    gang = job("gang", "b", replicas=2, at=50, request=Request(4, required_topology=0))
    plan = decide(state, 50, gang)
    start = plan.actions[-1]
    assert isinstance(start, Start) and len({grant.node // 2 for grant in start.grants}) == 1
    assert len(preempted(plan)) == 4


def test_replicas_beyond_the_smallest_gang_go_before_anybody_is_killed() -> None:
    state = core(nodes(1, 8), LENDER)
    decide(state, 0, job("elastic", replicas=2, most=6), job("small", gpus=2, at=1))
    decide(state, 1)
    assert len(state.running["elastic"].grants) == 6
    plan = decide(state, 10, job("owner", "b", gpus=3, at=10))
    assert preempted(plan) == [("elastic", 3, "ElasticSurplus")]
    assert len(state.running["elastic"].grants) == 3
    assert preempted(decide(state, 11, job("more", "b", gpus=4, at=11)))[0][:2] in (("elastic", 1), ("small", 1))


@pytest.mark.parametrize("guaranteed", [0, 4])
def test_they_go_first_for_a_guarantee_of_tenants_too_whatever_their_queue_is_guaranteed(guaranteed: int) -> None:
    """Its tenant borrows, so that the whole of it would have to give way, and its queue's guarantee does not count."""
    queues = [Queue("theirs", guaranteed=guaranteed), Queue("other")]
    state = core(nodes(1, 8), LENDER, queues)
    decide(state, 0, job("elastic", replicas=2, most=6, queue="theirs"))
    decide(state, 1)
    plan = decide(state, 10, job("owner", "b", gpus=4, at=10, queue="other"))
    assert preempted(plan) == [("elastic", 2, "ElasticSurplus")] and started(plan) == ["owner"]


specs = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 2), st.sampled_from("aab"), st.integers(0, 2), st.booleans()),
    min_size=3,
    max_size=12,
)


def _state(jobs: list[tuple[int, int, str, int, bool]], policy: str) -> Core:
    queues = [Queue("q", policy)]  # type: ignore[arg-type]
    state = core(nodes(4, 4), [Tenant("a"), Tenant("b", guaranteed=12)], queues)
    for number, (gpus, replicas, tenant, priority, preemptible) in enumerate(jobs):
        one = job(f"{number}", tenant, gpus, replicas, at=number, priority=priority, preemptible=preemptible)
        decide(state, float(number), one)
    return state


def _fits_without(state: Core, gone: list[str], newcomer: Start) -> bool:
    """Whether quotas hold and the newcomer can be placed with exactly these gone; and whether it does not take its own
    tenant beyond a guarantee within which it was, at the cost of a job of that tenant."""
    entry, kind = state.pending[newcomer.job_id]
    tree = state.accounts.tenants[""]
    own = any(state.running[name].job.tenant == entry.tenant for name in gone) and tree.within_quota(entry.tenant)
    mark = state.cluster.mark()
    for name in gone:
        running = state.running[name]
        for grant in running.grants:
            state.cluster.give_back(grant, running.job.request)
        tree.remove(running.job.tenant, running.units)
    outgrows = own and not tree.within_quota(entry.tenant, kind.amount)
    room = tree.available(entry.tenant) >= kind.amount and not outgrows
    fits = room and place_gang(state.cluster, entry.request, entry.min_replicas, state.placement) is not None
    state.cluster.rollback(mark)
    for name in gone:
        running = state.running[name]
        tree.add(running.job.tenant, running.units)
    return fits


@settings(max_examples=60, deadline=None, phases=NO_PHASES)
@given(specs, st.sampled_from(["fifo", "priority"]), st.integers(1, 4), st.integers(1, 3))
@example([(1, 1, "b", 0, True), (1, 2, "a", 1, False), *[(1, 1, "b", 0, True)] * 2], "priority", 4, 3)  # of 12 of b's
def test_every_victim_is_necessary_and_for_one_node_no_fewer_would_do(
    jobs: list[tuple[int, int, str, int, bool]], policy: str, gpus: int, replicas: int
) -> None:
    state = _state(jobs, policy)
    state.submit(job("new", "b", gpus, replicas, at=99, priority=1), 99)
    plan = state.plan(99)
    victims = [a.job_id for a in plan.actions if isinstance(a, Preempt) and a.by_job == "new"]
    start = next((a for a in plan.actions if isinstance(a, Start) and a.job_id == "new"), None)
    others = [a for a in plan.actions if isinstance(a, Start) and a.job_id != "new"]
    if start is None or not victims or others:
        return
    assert _fits_without(state, victims, start)
    for one in victims:
        assert not _fits_without(state, [name for name in victims if name != one], start), f"{one} died for nothing"
    if replicas == 1:
        rights = {a.authority for a in plan.actions if isinstance(a, Preempt)}
        killable = [n for n, r in state.running.items() if r.job.preemptible and r.job.tenant == "a"]
        if rights == {"ReclaimLentQuota"} and state.accounts.tenants[""]["b"].usage + gpus <= 12:
            for fewer in range(len(victims)):
                assert not any(_fits_without(state, list(those), start) for those in combinations(killable, fewer))


@settings(max_examples=30, deadline=None, phases=NO_PHASES)
@given(specs, st.sampled_from(["fifo", "priority", "fair_share", "capacity"]), st.integers(0, 2))
def test_jobs_never_evict_each_other_in_turn_for_ever(
    jobs: list[tuple[int, int, str, int, bool]], policy: str, promises: int
) -> None:
    """`run` fails if decisions at one instant do not come to an end; everybody finishes at last."""
    queues = [Queue("q", policy), Queue("r", "priority", guaranteed=5)]  # type: ignore[arg-type]
    tenants = [Tenant("a", weight=2), Tenant("b", guaranteed=6)]
    state = core(nodes(4, 4), tenants, queues, Policies(backfill=promises), explain=False)
    all_jobs = [
        job(
            f"{n}",
            tenant,
            gpus,
            replicas,
            at=n * 2.0,
            priority=priority,
            preemptible=preemptible or tenant == "a",
            queue="qr"[n % 2],
            most=replicas + n % 3,
        )
        for n, (gpus, replicas, tenant, priority, preemptible) in enumerate(jobs)
    ]
    first = run(state, all_jobs, {one.job_id: 5.0 + 3 * len(one.job_id) for one in all_jobs})
    assert set(first) == {one.job_id for one in all_jobs}


def reclaims(owner: Job, borrowers: Sequence[Job], on: Sequence[Node], **others: Any) -> CyclePlan:
    """What is decided once a tenant that is guaranteed everything asks, and others run on it."""
    units = sum(device.units for node in on for device in node.devices)
    state = core(on, [Tenant("a", guaranteed=units), Tenant("b")], **others)
    for one in borrowers:
        assert started(decide(state, 0, one)) == [one.job_id]
    return decide(state, 10, owner)


def test_a_guarantee_is_honoured_where_a_reservation_keeps_the_emptiest_nodes() -> None:
    """On the first four nodes what can be taken back is the cheapest, and of no use: they are another tenant's soon."""
    soon = Reservation("course", 1000, 2000, frozenset(range(4)), frozenset({"c"}))
    borrowers = [job(f"b{number}", "b", gpus=7, limit=900, at=number) for number in range(10)]
    plan = reclaims(job("own", "a", gpus=8, at=10, limit=5000), borrowers, nodes(10), reservations=[soon])
    assert "own" in started(plan)
    assert len(preempted(plan)) == 1


def test_a_guarantee_is_honoured_where_borrowers_hold_the_memory() -> None:
    """Units are left on every device; memory is not."""
    device = Device("d", "A100", 10, 80 << 30)
    on = [Node(f"n{number}", (replace(device, device_id=f"d{number}"),), 64_000, 1 << 40) for number in range(6)]
    borrowers = [job(f"b{number}", "b", at=number, request=Request(1, 5, memory_bytes=70 << 30)) for number in range(6)]
    plan = reclaims(job("own", "a", at=10, request=Request(1, 1, memory_bytes=60 << 30)), borrowers, on)
    assert started(plan) == ["own"] and len(preempted(plan)) == 1


@pytest.mark.parametrize("apart", [0, 1, 3])
def test_who_holds_something_where_the_job_can_run_goes_before_the_many_who_do_not(apart: int) -> None:
    """Units are left there, memory is not; whoever goes first costs the right to all others, and the one that is needed
    has most to lose. It lies on `apart` other nodes too."""
    device = Device("d", "A100", 10, 80 << 30)
    on = [
        Node(f"n{number}", (replace(device, device_id=f"d{number}"),), 64_000, 1 << 40, pool="" if number else "only")
        for number in range(80 + apart)
    ]
    gang = job("gang", "b", replicas=apart + 1, request=Request(1, 5, memory_bytes=70 << 30))
    share = [(Grant(number, (0,), (5,)),) for number in range(len(on))]
    state = core(on, [Tenant("a", guaranteed=10), Tenant("b", guaranteed=5 * len(on) - 1)], explain=False)
    state.start(gang, tuple(grant for (grant,) in share[: apart + 1]), "borrowed", 0)
    for number in range(apart + 1, len(on)):
        state.start(job(f"b{number}", "b", at=1, request=Request(1, 5)), share[number], "borrowed", 1)
    request = Request(1, 1, memory_bytes=60 << 30, pool="only")
    plan = decide(state, 10, job("own", "a", at=10, request=request))
    assert [name for name, *_ in preempted(plan)] == ["gang"] and started(plan) == ["own"]


def test_a_guarantee_is_honoured_where_shares_must_be_of_different_devices() -> None:
    on = nodes(3, 4, units=10)
    borrowers = [job(f"b{number}", "b", at=number, request=Request(1, 6)) for number in range(12)]
    plan = reclaims(job("own", "a", at=20, request=Request(4, 5)), borrowers, on)
    assert started(plan) == ["own"] and len(preempted(plan)) == 4


def test_among_many_nodes_those_are_emptied_that_lose_least() -> None:
    """Node by node, reckoned: the fewest jobs, then the least work. More nodes than are looked at closely."""
    for seed in range(first := random.Random(keep_seed()).randrange(10**9), first + 6):
        dice = random.Random(seed)
        count, replicas = dice.randint(72, 90), dice.choice([1, 2, 3, 70])
        state = core(nodes(count, 4), [Tenant("a"), Tenant("b", guaranteed=4 * replicas)], explain=False)
        costs = []
        for node in range(count):
            number, lost, names = dice.choice([2, 4]), 0.0, []
            for place in range(number):
                began, size = dice.randint(0, 900), 4 // number
                grant = Grant(node, tuple(range(place * size, place * size + size)), (1,) * size)
                state.start(job(f"{node}/{place}", gpus=size, at=began), (grant,), "borrowed", began)
                lost += (1000 - began) * size
                names.append(f"{node}/{place}")
            costs.append((number, lost, names))
        plan = decide(state, 1000, job("owner", "b", gpus=4, replicas=replicas, at=1000))
        gone = [name for name, *_ in preempted(plan)]
        emptied = {int(name.partition("/")[0]) for name in gone}
        assert sorted(gone) == sorted(name for node in emptied for name in costs[node][2])
        least = [one[:2] for one in sorted(costs)[:replicas]]  # of equal ones any may go
        assert sorted(costs[node][:2] for node in emptied) == least, f"seed {seed}: {replicas} of {count} nodes"


def test_on_each_node_goes_who_loses_less_whatever_else_the_jobs_hold() -> None:
    """A large and a small job on each of many nodes, beside one that stays: either makes room for one replica, and both
    together for no more, since CPUs or memory are short."""
    for seed in range(first := random.Random(keep_seed()).randrange(10**9), first + 4):
        dice = random.Random(seed)
        count, replicas = dice.randint(20, 90), dice.randint(3, 6)
        there = [replace(one, cpu_milli=10, memory_bytes=10) for one in nodes(count, 6)]
        state = core(there, [Tenant("a"), Tenant("b", guaranteed=2 * replicas)], explain=False)
        short = dice.choice([("cpu_milli",), ("host_memory_bytes",), ("cpu_milli", "host_memory_bytes")])
        stays, leaves, comes = (dict.fromkeys(short, part) for part in (5, 2, 3))
        least, losses = [], set[int]()  # no two losses are equal: of equal ones any may go
        for node in range(count):
            here = job(f"{node}/stays", preemptible=False, request=Request(1, **stays))
            state.start(here, (Grant(node, (5,), (1,)),), "borrowed", 0)
            lost = []
            for devices in ((0, 1, 2), (3, 4)):
                began, name = dice.randint(0, 900), f"{node}/{len(devices)}"
                while (loss := (1000 - began) * len(devices)) in losses:
                    began = dice.randint(0, 900)
                losses.add(loss)
                held = Grant(node, devices, (1,) * len(devices))
                state.start(job(name, request=Request(len(devices), **leaves)), (held,), "borrowed", began)
                lost.append((loss, name))
            least.append(min(lost))
        plan = decide(state, 1000, job("owner", "b", replicas=replicas, at=1000, request=Request(2, **comes)))
        gone = sorted(name for name, *_ in preempted(plan))
        assert gone == sorted(name for _, name in sorted(least)[:replicas]), f"seed {seed}: {replicas} of {count} nodes"


@pytest.mark.parametrize("nodes_of", [(4, 2), (8, 1)])
@pytest.mark.parametrize("entitled", [0, 1])
def test_of_equal_victims_who_is_within_a_guarantee_goes_last(nodes_of: tuple[int, int], entitled: int) -> None:
    """On nodes of their own, and on one."""
    gpus, count = nodes_of
    state = core(nodes(count, gpus), [Tenant("a", guaranteed=4)], [Queue("q", "priority")])
    for number in range(2):
        at = number if count > 1 else 0
        held = Grant(at, tuple(range(4) if count > 1 else range(4 * number, 4 * number + 4)), (1,) * 4)
        state.start(job(f"j{number}", gpus=4), (held,), "guaranteed" if number == entitled else "borrowed", 0)
    plan = decide(state, 9, job("high", gpus=4, at=9, priority=1))
    assert preempted(plan) == [(f"j{1 - entitled}", 1, "PriorityInQueue")]
