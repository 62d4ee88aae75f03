"""Order, admission, gangs, dependencies: what starts in a cycle, and that planning changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scheduler.cycle.policies import Policies
from scheduler.model import Queue, Request, Start, Tenant
from tests.scheduler.cycle.scenes import codes, core, decide, job, nodes, preempted, started


def test_jobs_start_in_the_order_of_their_age() -> None:
    state = core(nodes(1, 4))
    plan = decide(state, 10, job("late", at=5, gpus=2), job("early", at=1, gpus=2), job("last", at=6))
    assert started(plan) == ["early", "late"]
    assert codes(plan, "last")[0] == "InsufficientCapacity"


def test_priority_goes_before_age_in_a_queue_of_that_policy() -> None:
    state = core(nodes(1, 4), queues=[Queue("q", "priority")])
    plan = decide(state, 10, job("early", at=1, gpus=4), job("urgent", at=5, gpus=4, priority=3))
    assert started(plan) == ["urgent"]


def test_a_gang_starts_whole_or_not_at_all() -> None:
    state = core(nodes(3, 4))
    decide(state, 0, job("one"))
    plan = decide(state, 1, job("gang", gpus=4, replicas=3))
    assert started(plan) == []
    assert plan.waiting["gang"][0].counts["largest_gang"] == 2
    assert state.cluster.free.sum() == 11
    nearest = next(reason for reason in plan.waiting["gang"] if reason.code == "NearestFit")
    assert nearest.counts == {"replicas": 2}
    state.end("one", 2, True)
    assert started(decide(state, 2)) == ["gang"]


def test_a_gang_that_the_cluster_could_never_hold_gets_that_reason() -> None:
    plan = decide(core(nodes(3, 4)), 1, job("gang", gpus=4, replicas=4), job("wide", gpus=5))
    assert codes(plan, "gang")[0] == codes(plan, "wide")[0] == "NeverFits"


def test_all_that_fits_starts_in_one_cycle() -> None:
    state = core(nodes(4, 8))
    plan = decide(state, 1, *(job(f"{number:02}", at=number) for number in range(40)))
    assert len(plan.actions) == 32 and len(plan.waiting) == 8
    assert [reason.code for reason in plan.waiting["39"]][:2] == ["InsufficientCapacity", "Priority"]


def test_a_queue_with_priority_over_another_is_served_first() -> None:
    state = core(nodes(1, 4), queues=[Queue("q"), Queue("urgent", priority=5)])
    plan = decide(state, 10, job("early", at=1, gpus=4), job("late", at=9, gpus=4, queue="urgent"))
    assert started(plan) == ["late"]


def test_a_queue_below_its_guarantee_is_served_first() -> None:
    state = core(nodes(1, 8), queues=[Queue("q", priority=9), Queue("small", guaranteed=4)])
    plan = decide(state, 10, job("big", gpus=6), job("own", at=5, gpus=4, queue="small"))
    assert started(plan) == ["own"]


def test_a_queue_takes_no_more_than_its_maximum() -> None:
    state = core(nodes(1, 8), queues=[Queue("q", maximum=3)])
    plan = decide(state, 1, job("one", gpus=2), job("two", gpus=2, at=1), job("three", gpus=4, at=2))
    assert started(plan) == ["one"]
    assert codes(plan, "two")[0] == "WaitingForQuota"
    assert plan.waiting["two"][0].text == (
        "asks for 2 units, queue /q can take 1 (guaranteed 0, holds 2 of at most 3, of it 2 borrowed)"
    )
    assert codes(plan, "three")[0] == "ExceedsMaxQuota"


def test_nothing_overtakes_where_the_site_wants_it_so() -> None:
    state = core(nodes(1, 4), policies=Policies(backfill=0))
    plan = decide(state, 5, job("big", gpus=8), job("small", at=1))
    assert started(plan) == []
    assert plan.waiting["small"][0].code == "Priority" and plan.waiting["small"][0].blockers == ("big",)


def test_tenants_within_their_guarantee_come_before_those_that_would_borrow() -> None:
    state = core(nodes(1, 8), [Tenant("a"), Tenant("b", guaranteed=8)])
    plan = decide(state, 9, job("borrows", "a", gpus=8, at=0), job("own", "b", gpus=6, at=5))
    assert started(plan) == ["own"]
    assert preempted(plan) == []


def test_a_job_waits_for_the_jobs_that_it_comes_after() -> None:
    state = core(nodes(1, 4))
    plan = decide(state, 1, job("first"), job("then", after=("first",)))
    assert started(plan) == ["first"]
    assert [(r.code, r.blockers) for r in plan.waiting["then"]] == [("Dependency", ("first",))]
    state.end("first", 5, finished=True)
    assert started(decide(state, 5)) == ["then"]


def test_a_job_with_a_failed_dependency_gets_that_reason() -> None:
    state = core(nodes(1, 4))
    decide(state, 1, job("first"), job("then", after=("first",)))
    state.end("first", 5, finished=False)
    assert codes(decide(state, 5), "then") == ["DependencyFailed"]
    assert codes(decide(state, 6, job("late", after=("first",))), "late") == ["DependencyFailed"]


def test_a_withdrawn_job_is_out_of_the_queue_until_it_is_submitted_again() -> None:
    state = core(nodes(1, 4))
    state.submit(job("held"), 0)
    state.withdraw("held", 1)
    assert not state.plan(2).actions and not state.plan(2).waiting
    assert started(decide(state, 3, job("held"))) == ["held"]


def test_an_undeclared_queue_and_an_unnamed_pool_are_reported() -> None:
    state = core(nodes(1, 4, pool="p"), [Tenant("a", pool="p", guaranteed=4)])
    plan = decide(state, 1, job("lost", queue="qq"), job("anywhere"), job("named", request=Request(1, pool="p")))
    assert codes(plan, "lost") == ["UnknownQueue"] and codes(plan, "anywhere") == ["PoolNotNamed"]
    assert started(plan) == ["named"]


def test_quotas_hold_by_pool_and_over_all_pools() -> None:
    tenants = [Tenant("a", limit=5), Tenant("a", pool="p", limit=4), Tenant("a", pool="r", limit=4)]
    state = core(nodes(1, 8, pool="p") + nodes(1, 8, pool="r"), tenants)
    p, r = Request(1, pool="p"), Request(1, pool="r")
    plan = decide(state, 1, *(job(f"p{n}", request=p, at=n) for n in range(6)))
    assert len(plan.actions) == 4 and codes(plan, "p5")[0] == "WaitingForQuota"
    assert started(decide(state, 2, *(job(f"r{n}", request=r, at=9 + n) for n in range(3)))) == ["r0"]


def test_what_cannot_be_preempted_may_not_take_what_others_are_guaranteed() -> None:
    state = core(nodes(2, 8), [Tenant("a", guaranteed=4), Tenant("b", guaranteed=8)])
    assert started(decide(state, 1, job("firm", gpus=8, preemptible=False))) == ["firm"], "4 of its own, 4 of nobody's"
    plan = decide(state, 2, job("more", preemptible=False, at=2))
    assert codes(plan, "more")[0] == "NotPreemptibleBeyondGuarantee"
    assert started(decide(state, 2, job("loose", gpus=8))) == ["loose"]


def test_entitlement_says_by_which_right_a_job_runs() -> None:
    state = core(nodes(1, 8), [Tenant("a", guaranteed=2)])
    plan = decide(state, 1, *(job(f"{number}", at=number) for number in range(3)))
    assert [a.entitlement for a in plan.actions if isinstance(a, Start)] == ["guaranteed", "guaranteed", "borrowed"]


@pytest.mark.parametrize("explain", [True, False])
def test_planning_changes_nothing_and_answers_the_same_again(explain: bool) -> None:
    state = core(nodes(4, 4, units=4), [Tenant("a", guaranteed=8), Tenant("b", guaranteed=30)], explain=explain)
    decide(state, 1, job("x", gpus=2, replicas=3, most=5), *(job(f"a{n}", gpus=2, limit=50, at=n) for n in range(5)))
    for number in range(4):
        state.submit(job(f"b{number}", "b", gpus=4, limit=60, at=10 + number), 10)
    before = (state.cluster.free.copy(), state.cluster.cpu_free.copy(), state.accounts.tenants[""]["a"].usage)
    first = state.plan(20)
    assert first.actions
    second = state.plan(20)
    assert first.actions == second.actions and first.expected == second.expected
    assert {name: first.waiting[name] for name in first.waiting} == {
        name: second.waiting[name] for name in second.waiting
    }
    assert np.array_equal(before[0], state.cluster.free) and np.array_equal(before[1], state.cluster.cpu_free)
    assert state.accounts.tenants[""]["a"].usage == before[2]


def test_memory_is_that_of_jobs_that_wait_or_run() -> None:
    state = core(nodes(1, 4), explain=False)
    for number in range(300):
        decide(state, number, job(f"{number}", gpus=1 + number % 4, priority=number, at=number, limit=1))
        for name in list(state.running):
            state.end(name, number, finished=True)
    held = (state.running, state.pending, state.dependent, state.lines["q"], state.running_by_class, state.ends)
    assert [len(kept) for kept in held] == [0] * 6
    assert len(state._classes) == 0 and len(state._dependents) == 0
    assert not state.failures and not state.preempted and not state.expectations._announced


def test_new_settings_hold_for_what_runs_and_waits() -> None:
    state = core(nodes(1, 8), [Tenant("a")])
    decide(state, 1, job("runs", gpus=6), job("waits", gpus=6, at=1))
    state.reconfigure([Tenant("a", limit=4)], [Queue("q")], Policies(), (), 2)
    assert state.accounts.tenants[""]["a"].held == 6
    plan = decide(state, 3)
    assert codes(plan, "waits")[0] == "ExceedsMaxQuota"
    state.end("runs", 4, True)
    state.reconfigure([Tenant("a", limit=6)], [Queue("q")], Policies(), (), 5)
    assert started(decide(state, 5)) == ["waits"]


def test_a_node_that_fails_takes_its_units_out_of_the_quota() -> None:
    state = core(nodes(2, 4), [Tenant("a", guaranteed=4)])
    assert state.accounts.tenants[""].root.subtree == 8
    state.set_node(0, "failed", 1)
    assert state.accounts.tenants[""].root.subtree == 4
    assert started(decide(state, 2, job("one", gpus=4), job("two", gpus=4, at=1))) == ["one"]
    state.set_node(0, "available", 3)
    assert started(decide(state, 3)) == ["two"]


def test_a_quota_counts_devices_of_the_model_that_is_asked_for() -> None:
    """Beside devices that are cut into seven, a whole one of another model is still one unit."""
    cut = [
        replace(node, devices=tuple(replace(one, model="H100", units=7) for one in node.devices)) for node in nodes(2)
    ]
    whole = [replace(node, name=f"w{number}") for number, node in enumerate(nodes(2))]
    state = core([*cut, *whole], [Tenant("a", limit=16)])
    gang = job("gang", replicas=2, request=Request(8, models=frozenset({"A100"})))
    assert started(decide(state, 0, gang)) == ["gang"]
    plan = decide(state, 1, job("more", at=1, request=Request(1, models=frozenset({"H100"}))))
    (why, *_) = plan.waiting["more"]
    assert (why.code, why.counts["asked"]) == ("WaitingForQuota", 7)
