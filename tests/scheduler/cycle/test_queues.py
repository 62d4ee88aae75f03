"""Queues below queues: limits at every level, turns by guarantee, priority and weight, whose priority counts where."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from scheduler.cycle.core import Core
from scheduler.cycle.order import Lines, positions
from scheduler.cycle.plan import CyclePlan
from scheduler.cycle.policies import Policies
from scheduler.cycle.trial import Trial
from scheduler.model import Job, Preempt, Queue, Reason, Tenant
from tests.draws import keep_seed
from tests.scheduler.cycle.queueing import (
    above,
    check_limits,
    drawn_queues,
    held,
    in_scope,
    leaves,
    priority,
    promised,
    smallest,
)
from tests.scheduler.cycle.scenes import codes, core, decide, job, nodes, preempted, run, started

FAIR = Policies(between_queues="fair_share")


def draws(number: int) -> list[random.Random]:
    first = random.Random(f"{keep_seed()} of queues").randrange(10**9)
    return [random.Random(first + more) for more in range(number)]


def test_queues_that_share_by_fairness_hold_what_their_weights_say() -> None:
    queues = [Queue("train", weight=3), Queue("serve"), Queue("idle", weight=5)]
    state = core(nodes(2, 8), queues=queues, policies=FAIR, explain=False)
    for number in range(20):
        for queue in ("train", "serve"):
            state.submit(job(f"{queue}{number}", queue=queue, at=number), 0)
    decide(state, 0)
    assert held(state) == {"train": 12, "serve": 4}


def test_children_share_what_their_parent_has() -> None:
    """The parent's guarantee is its children's to share, and its maximum holds for all of them."""
    queues = [
        Queue("ml", "fair_share", guaranteed=8, maximum=8),
        Queue("train", parent="ml", weight=3),
        Queue("serve", parent="ml"),
        Queue("other"),
    ]
    state = core(nodes(2, 8), queues=queues)
    decide(state, 0, *(job(f"o{number}", queue="other") for number in range(16)))
    jobs = [job(f"{queue}{n}", queue=queue, at=n) for n in range(12) for queue in ("train", "serve")]
    plan = decide(state, 1, *jobs)
    assert {right for *_, right in preempted(plan)} == {"ReclaimQueueGuarantee"}
    assert held(state) == {"ml": 8, "train": 6, "serve": 2, "other": 8}
    (reason, *_) = plan.waiting["train11"]
    assert reason.code == "WaitingForQuota"
    assert reason.text == (
        "asks for 1 unit, queue /ml/train can take 0"
        " (guaranteed 0, holds 6, of it 6 borrowed; /ml holds 8 of at most 8)"
    )


def test_a_parent_holds_no_jobs() -> None:
    state = core(nodes(1, 8), queues=[Queue("ml"), Queue("train", parent="ml"), Queue("serve", parent="ml")])
    plan = decide(state, 0, job("lost", queue="ml"), job("fine", queue="train"))
    assert started(plan) == ["fine"]
    assert plan.waiting["lost"] == (Reason("ParentQueue", "queue ml holds no jobs; name one of serve, train"),)


@pytest.mark.parametrize(
    ("preempts", "authority"),
    [
        ("never", {}),
        ("queue", {"same": "PriorityInQueue"}),
        ("tenant", {"own": "PriorityInTenant"}),
        ("all", {"same": "PriorityInQueue", "own": "PriorityInTenant", "other": "PriorityAcrossQueues"}),
        (("low",), {"own": "PriorityInTenant", "other": "PriorityAcrossQueues"}),
        (("below",), {"own": "PriorityInTenant", "other": "PriorityAcrossQueues"}),
    ],
)
def test_a_queue_decides_whether_its_jobs_give_way(preempts: Any, authority: Mapping[str, str]) -> None:
    queues = [Queue("high", priority=2, preempts=preempts), Queue("below"), Queue("low", parent="below")]
    for name, running in {
        "same": job("same", "b", gpus=4, queue="high"),
        "own": job("own", "a", gpus=4, queue="low"),
        "other": job("other", "b", gpus=4, queue="low"),
    }.items():
        state = core(nodes(1, 4), queues=queues, policies=Policies(preempt_by_priority="all"))
        assert started(decide(state, 0, running)) == [name]
        plan = decide(state, 1, job("new", "a", gpus=4, at=1, queue="high", priority=1))
        assert [right for *_, right in preempted(plan)] == [authority[name] for _ in range(name in authority)]
        for action in plan.actions[:1] if name in authority else ():
            said = ", ".join(preempts) if isinstance(preempts, tuple) else preempts
            more = 1 if name == "same" else 3
            assert isinstance(action, Preempt)
            assert f"(queue high preempts: {said}, by {more} of at least 1): gives way to job new" in action.text


def test_priority_crosses_queues_only_as_far_as_configured_and_never_into_a_guarantee() -> None:
    queues = [Queue("q"), Queue("r"), Queue("kept", guaranteed=4)]
    policies = Policies(preempt_by_priority="all", priority_difference=3)
    state = core(nodes(3, 4), [Tenant("a"), Tenant("b"), Tenant("firm", guaranteed=4)], queues, policies)
    owners = [job("firm", "firm", gpus=4, queue="r"), job("kept", "b", gpus=4, queue="kept", at=1)]
    decide(state, 0, *owners, job("loose", "b", gpus=4, queue="r", at=2))
    assert len(state.running) == 3
    assert preempted(decide(state, 5, job("two", "a", gpus=4, at=5, priority=2))) == []
    plan = decide(state, 6, job("three", "a", gpus=4, at=6, priority=3))
    assert preempted(plan) == [("loose", 1, "PriorityAcrossQueues")]
    assert "policy preempt_by_priority: all, by 3 of at least 3" in plan.actions[0].text  # type: ignore[union-attr]
    assert preempted(decide(state, 7, job("nine", "a", gpus=4, replicas=2, at=7, priority=9))) == []
    assert codes(decide(state, 8), "nine")[0] == "InsufficientCapacity"


def test_a_queue_below_its_fair_share_takes_from_who_has_more() -> None:
    state = core(nodes(1, 8), queues=[Queue("q"), Queue("r", weight=3)], policies=FAIR)
    decide(state, 0, *(job(f"q{number}", "b", gpus=2, at=number) for number in range(4)))
    taken = [preempted(decide(state, 10 + n, job(f"r{n}", gpus=2, at=10 + n, queue="r"))) for n in range(4)]
    assert [len(victims) for victims in taken] == [1, 1, 1, 0], "six and two are fair"
    assert {right for victims in taken for *_, right in victims} == {"QueueFairShare"}
    assert not decide(state, 20).actions


def plain_turn(state: Core, heads: Mapping[str, tuple[bool, int, float]], parent: str = "") -> tuple[Any, str] | None:
    """Whose head is next below a parent, down the tree: everybody looked at. heads: borrows, units, since."""
    queues, found = list(state.queues.values()), []
    policy = state.policies.between_queues if not parent else state.queues[parent].policy
    root = state.accounts.queues.root.subtree
    for queue in queues:
        best = plain_turn(state, heads, queue.name) if queue.parent == parent else None
        leaf = heads.get(queue.name) if queue.parent == parent else None
        if best is None and leaf is None:
            continue
        name = best[1] if best is not None else queue.name
        borrows, units, since = heads[name]
        own, has = promised(queues, queue.name), state.accounts.queues[queue.name].held
        turn: Any = 0
        if policy == "priority":
            turn = -queue.priority
        elif policy == "fair_share":
            beyond = max(0, has + units - own) / root if root else 0
            turn = (bool(beyond) and not queue.weight, beyond / queue.weight if queue.weight else beyond)
        short = has < own
        key = (borrows, not short, Fraction(has, own) if short else 1, turn, since, name)
        found.append((key, name))
    return min(found) if found else None


def test_queues_take_turns_as_a_plain_choice_says_whatever_starts_or_gives_way() -> None:
    for dice in draws(40):
        policies = Policies(between_queues=dice.choice(["priority", "fair_share"]))
        queues = drawn_queues(dice, 32, policies.between_queues)
        tenants = [Tenant("a", guaranteed=dice.randint(0, 16)), Tenant("b")]
        state = core(nodes(4, 8), tenants, queues, policies, explain=False)
        for number in range(30):
            one = job(
                f"j{number}",
                dice.choice("ab"),
                dice.choice([1, 2, 4]),
                at=number % 5,
                queue=dice.choice(leaves(queues)),
            )
            state.submit(one, 9.0)
        with Trial(state, 10.0) as trial:
            lines = Lines(trial, {id(kind) for kind in state.waiting_classes()})
            for line, kind, job_id in lines if len(state.lines) > 1 else ():
                heads = {}
                for name, other in lines._turns._by_name.items():
                    head = other.own
                    assert head is not None
                    heads[name] = (head.borrows, head.kind.amount, head.submitted_at)
                expected = plain_turn(state, heads)
                assert expected is not None and expected[1] == kind.queue
                if dice.random() < 0.7:
                    trial.charge(kind, kind.amount, kind.replicas)
                    trial.started.append((20.0, (), kind.request))
                    trial.started_ids.add(job_id)
                    line.next()
                else:
                    line.blocked()


def check_rights(state: Core, plan: CyclePlan) -> Counter[str]:
    """Of the first decision of a plan that is not applied yet: that each victim gave way by a right that it says."""
    queues, tenants = list(state.queues.values()), {one.name: one.guaranteed for one in state.declared}
    units = held(state, smallest)
    owned: dict[str, int] = {}
    for running in state.running.values():
        one = running.job
        owned[one.tenant] = owned.get(one.tenant, 0) + smallest(running)
    by, counted = "", Counter[str]()
    for action in plan.actions:
        if not isinstance(action, Preempt) or by not in ("", action.by_job):
            break
        by = action.by_job
        mine, theirs = state.pending[by][0], state.running[action.job_id].job
        path, own = above(queues, theirs.queue), above(queues, mine.queue)
        below = [name for name in path if name not in own]
        queue_borrows = all(units[name] > promised(queues, name) for name in below)
        tenant_borrows = owned[theirs.tenant] > tenants.get(theirs.tenant, 0)
        right = action.authority
        counted[right] += 1
        killed = action.replicas == len(state.running[action.job_id].grants)
        assert killed == (right != "ElasticSurplus"), f"{right} takes {action.replicas} replicas"
        if right.startswith("Priority"):
            assert in_scope(state.policies, queues, (mine.queue, mine.tenant), (theirs.queue, theirs.tenant))
            more = priority(queues, mine.queue, mine.priority) - priority(queues, theirs.queue, theirs.priority)
            assert more >= state.policies.priority_difference
            same = (theirs.queue == mine.queue, theirs.tenant == mine.tenant)
            assert right == {True: "PriorityInQueue"}.get(
                same[0], "PriorityInTenant" if same[1] else "PriorityAcrossQueues"
            )
            assert same[0] or (queue_borrows and (same[1] or tenant_borrows)), "priority takes only what is borrowed"
        elif right in ("ReclaimQueueGuarantee", "QueueFairShare"):
            assert below and queue_borrows
            fork = state.queues[below[0]].parent
            fair = (state.queues[fork].policy if fork else state.policies.between_queues) == "fair_share"
            assert right != "QueueFairShare" or (fair and (tenant_borrows or theirs.tenant == mine.tenant))
        elif right == "ReclaimLentQuota":
            assert tenant_borrows and owned.get(mine.tenant, 0) < tenants.get(mine.tenant, 0)
        if right != "ReclaimLentQuota":
            more = state.pending[by][1].amount
            entitled = owned.get(mine.tenant, 0) + more <= tenants.get(mine.tenant, 0)
            calls_back = right == "ElasticSurplus" and entitled and tenant_borrows and theirs.tenant != mine.tenant
            fits = any(units[name] + more <= promised(queues, name) for name in own if name not in path)
            within = not (fits or queue_borrows or calls_back)
            assert not within, f"{right} takes from a queue within its guarantee for one that is not"
            within = not (entitled or tenant_borrows or mine.tenant == theirs.tenant)
            assert not within, f"{right} takes from a tenant's guarantee"
    check_nobody_is_owed_the_place_back(state, plan, by)
    return counted


def check_nobody_is_owed_the_place_back(state: Core, plan: CyclePlan, by: str) -> None:
    """Nobody who was killed would be within what his queue is guaranteed as soon as he is back, for a job that is not
    within any guarantee."""
    if not by:
        return
    queues, units, (job, kind) = list(state.queues.values()), Counter(held(state, smallest)), state.pending[by]
    taken = [one for one in plan.actions if isinstance(one, Preempt) and one.by_job == by]
    for one in taken:
        gone = state.running[one.job_id]
        for name in above(queues, gone.job.queue):
            units[name] -= smallest(gone) if one.replicas == len(gone.grants) else 0
    for name in above(queues, job.queue):
        units[name] += kind.amount
    guaranteed = next((one.guaranteed for one in state.declared if one.name == job.tenant), 0)
    owned = sum(smallest(one) for one in state.running.values() if one.job.tenant == job.tenant)
    if owned + kind.amount <= guaranteed:
        return
    if any(units[name] <= promised(queues, name) for name in above(queues, job.queue)):
        return
    for one in taken:
        gone = state.running[one.job_id]
        if one.replicas == len(gone.grants):
            path = above(queues, gone.job.queue)
            back = any(units[name] + gone.kind.amount <= promised(queues, name) for name in path)
            assert not back, f"{one.job_id} of {gone.job.queue} could have its place back at once"


def scene(dice: random.Random, explain: bool = False) -> tuple[Core, list[Job], dict[str, float]]:
    policies = Policies(
        backfill=dice.choice([1, None, 0]),
        between_queues=dice.choice(["priority", "fair_share"]),
        preempt_by_priority=dice.choice(["never", "queue", "tenant", "all", "all"]),
        priority_difference=dice.choice([1, 1, 2]),
    )
    units = 12
    queues = drawn_queues(dice, units, policies.between_queues)
    tenants = [Tenant("a", weight=2), Tenant("b", guaranteed=dice.randint(0, 6)), Tenant("c")]
    state = core(nodes(3, 4), tenants, queues, policies, explain=explain)
    at, jobs = 0.0, []
    for number in range(dice.randint(5, 25)):
        at += dice.choice([0, 1, 3])
        one = job(
            f"j{number}",
            dice.choice("abc"),
            dice.choice([1, 2, 4]),
            dice.choice([1, 1, 2]),
            at,
            dice.choice(leaves(queues)),
            priority=dice.choice([0, 0, 1, 4]),
            preemptible=dice.random() < 0.9,
            limit=dice.choice([None, 30.0]),
        )
        jobs.append(replace(one, max_replicas=one.min_replicas + dice.choice([0, 0, 2])))
    return state, jobs, {one.job_id: dice.uniform(2, 20) for one in jobs}


def test_no_history_goes_round_in_circles_or_breaks_a_limit_or_takes_without_a_right() -> None:
    """`run` fails if decisions at one instant do not come to an end."""
    for dice in draws(20):
        state, jobs, lasts = scene(dice)

        def watch(_: float, plan: CyclePlan, state: Core = state) -> None:
            check_limits(state)
            check_rights(state, plan)

        run(state, jobs, lasts, watch)


def test_growth_of_an_elastic_job_gives_no_right_over_its_smallest_gang() -> None:
    """Its surplus makes its tenant hold more than is guaranteed, and a larger job of the tenant would take its place;
    that one loses it to a third, and the first calls it back from there: for ever."""
    queues = [Queue("q0", "capacity", priority=3), Queue("q1", weight=3, preempts="all")]
    policies = Policies(backfill=0, between_queues="fair_share", preempt_by_priority="tenant", elastic_hold_seconds=1)
    tenants = [Tenant("a", guaranteed=4), Tenant("b", guaranteed=3), Tenant("c", guaranteed=1)]
    state = core(nodes(2, 4), tenants, queues, policies)
    arrivals = [
        job("large", "b", gpus=4, queue="q0", at=0, priority=2),
        job("kept", "a", gpus=3, queue="q0", at=2),
        job("third", "c", gpus=2, replicas=2, queue="q1", at=6),
        job("small", "b", gpus=2, most=9, queue="q0", at=6),
    ]
    jobs, quiet = {one.job_id: one for one in arrivals}, 0
    for now in range(0, 80, 2):
        plan = decide(state, now, *(one for one in arrivals if one.submitted_at == now))
        for name in {victim for victim, *_ in preempted(plan)} - state.running.keys():
            state.gone(name)
            state.submit(jobs[name], now)
        quiet = 0 if plan.actions else quiet + 1
    assert quiet > 10


@pytest.mark.parametrize("policy", ["fifo", "priority", "fair_share", "capacity", "half-life"])
def test_positions_are_the_order_in_which_jobs_start_as_room_comes_free(policy: str) -> None:
    """Room comes free for one job of a drawn queue after the other."""
    rules = {"half-life": ("fair_share", 1e9)}.get(policy, (policy, 0.0))
    for dice in draws(5):
        names = [Queue("q", rules[0], half_life=rules[1]), Queue("r", rules[0], half_life=rules[1])]
        tenants = [
            Tenant("x"),
            *(Tenant(name, dice.choice(["", "x"]), guaranteed=dice.choice([0, 2])) for name in "abc"),
        ]
        policies = Policies(reclaim=False, preempt_for_fairness=False, preempt_by_priority="never")
        state = core(nodes(2, 6), [*tenants, Tenant("z")], names, policies)
        fill = [job(f"z{number}", "z") for number in range(12)]
        decide(state, 0, *fill)
        assert len(state.running) == 12
        waiting = [
            job(f"j{n}", dice.choice("abc"), at=n, queue=dice.choice("qqr"), priority=dice.choice([0, 0, 5]))
            for n in range(10)
        ]
        for one in waiting:
            state.submit(one, 20)
        before, found = state.accounts.tenants[""].root.held, positions(state, 20)
        for queue in "qr":
            numbers = sorted(found[one.job_id] for one in waiting if one.queue == queue)
            assert numbers == list(range(1, len(numbers) + 1))
        assert state.accounts.tenants[""].root.held == before, "nothing was charged"
        assert len(found) == len(waiting)
        for number in range(10):
            state.end(f"z{number}", 21 + number, True)
            found = positions(state, 21 + number)
            (begun,) = started(decide(state, 21 + number))
            assert found[begun] == 1, f"{begun} of {found}"
