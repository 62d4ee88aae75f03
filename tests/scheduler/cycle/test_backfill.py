"""Promises: EASY, conservative, reservations, maintenance, wait bounds."""

from __future__ import annotations

import random
from itertools import accumulate, islice

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from scheduler.cycle.plan import CyclePlan
from scheduler.cycle.policies import Policies, Reservation
from scheduler.model import Queue, Request, Start, Tenant
from tests.draws import keep_seed
from tests.scheduler.cycle.scenes import Promised, codes, core, decide, job, nodes, run, started

CONSERVATIVE = Policies(backfill=None)


def test_a_short_job_goes_before_the_head_and_a_long_one_does_not() -> None:
    state = core(nodes(1, 4))
    decide(state, 0, job("runs", gpus=3, limit=100))
    plan = decide(
        state, 10, job("head", gpus=4, limit=50, at=1), job("long", limit=200, at=2), job("short", limit=80, at=3)
    )
    assert started(plan) == ["short"]
    assert plan.expected["head"] == 100
    assert codes(plan, "long")[0] == "KeptForOthers" and plan.waiting["long"][0].blockers == ("head",)
    expected = next(reason for reason in plan.waiting["head"] if reason.code == "ExpectedStart")
    assert expected.counts == {"seconds": 90} and expected.blockers == ("runs",)


def test_a_long_job_may_take_what_the_head_leaves_over() -> None:
    state = core(nodes(1, 8))
    decide(state, 0, job("runs", gpus=6, limit=100))
    plan = decide(state, 10, job("head", gpus=5, at=1), job("long", gpus=2, at=2), job("longer", gpus=1, at=3))
    # From 100 on, 8 are free, the head takes 5: 3 are over, of which 2 are free now.
    assert started(plan) == ["long"] and plan.expected["head"] == 100
    state.end("long", 20, True)
    state.end("runs", 20, True)
    assert started(decide(state, 20)) == ["head", "longer"]


def test_of_jobs_that_are_alike_the_first_that_is_short_enough_goes() -> None:
    state = core(nodes(1, 4))
    decide(state, 0, job("runs", gpus=3, limit=100))
    alike = [job(f"{number}", limit=limit, at=5 + number) for number, limit in enumerate([500, 300, 90, 40])]
    assert started(decide(state, 10, job("head", gpus=4, at=1), *alike)) == ["2"]


def test_easy_keeps_a_place_for_the_first_only_and_conservative_for_all() -> None:
    """The head leaves one of four over from 100 on, which a long job may take, but for the second's sake."""
    jobs = [
        job("head", gpus=3, limit=50, at=1),
        job("second", gpus=4, limit=50, at=2),
        job("third", gpus=1, limit=500, at=3),
    ]
    easy = core(nodes(1, 4))
    decide(easy, 0, job("runs", gpus=2, limit=100))
    assert started(decide(easy, 10, *jobs)) == ["third"]
    state = core(nodes(1, 4), policies=CONSERVATIVE)
    decide(state, 0, job("runs", gpus=2, limit=100))
    plan = decide(state, 10, *jobs)
    assert started(plan) == [] and plan.expected == {"head": 100, "second": 150, "third": 200}
    assert started(decide(state, 11, job("brief", gpus=2, limit=80, at=11))) == ["brief"]
    assert started(decide(state, 12, job("aside", gpus=1, limit=130, at=12))) == []


def test_a_conservative_gap_before_a_promise_is_filled() -> None:
    state = core(nodes(2, 4), policies=CONSERVATIVE)
    decide(state, 0, job("runs", gpus=4, limit=100))
    plan = decide(state, 10, job("wide", gpus=4, replicas=2, limit=50, at=1), job("fills", gpus=4, limit=90, at=2))
    assert plan.expected["wide"] == 100 and started(plan) == ["fills"]


def test_a_reservation_keeps_its_nodes_for_its_tenants() -> None:
    kept = Reservation("course", 100, 200, frozenset({0}), frozenset({"b"}))
    state = core(nodes(2, 4), reservations=[kept])
    plan = decide(state, 0, job("long", gpus=4, limit=150), job("other", gpus=4, limit=150, at=1))
    assert started(plan) == ["long"]
    assert next(iter(state.running.values())).grants[0].node == 1
    assert plan.expected["other"] == 150, "when the long one ends, before the course does"
    assert started(decide(state, 10, job("short", gpus=4, limit=90, at=10))) == ["short"]
    state.end("short", 100, True)
    plan = decide(state, 100, job("lesson", "b", gpus=4, limit=50, at=100))
    assert [(a.job_id, a.entitlement) for a in plan.actions if isinstance(a, Start)] == [("lesson", "reserved")]


def test_maintenance_keeps_nodes_from_everybody() -> None:
    state = core(nodes(1, 4), reservations=[Reservation("works", 100, 200, frozenset({0}), kind="maintenance")])
    plan = decide(state, 0, job("endless"), job("fits", limit=100, at=1))
    assert started(plan) == ["fits"] and plan.expected["endless"] == 200
    state.end("fits", 50, True)
    assert started(decide(state, 150)) == []
    assert started(decide(state, 200)) == ["endless"]


def test_an_edge_of_a_reservation_is_seen_without_explanations_too() -> None:
    works = Reservation("works", 0, 200, frozenset({0}), kind="maintenance")
    state = core(nodes(1, 4), reservations=[works], explain=False)
    assert started(decide(state, 10, job("waits"))) == []
    assert started(decide(state, 199)) == []
    assert started(decide(state, 200)) == ["waits"]


def test_who_waits_beyond_its_bound_is_overtaken_no_more() -> None:
    state = core(nodes(1, 4), queues=[Queue("q", "priority", wait_bound=60)], policies=Policies(backfill=1))
    decide(state, 0, job("runs", gpus=3, limit=100, priority=9))
    state.submit(job("patient", gpus=4, limit=50, at=0), 0)
    assert started(decide(state, 50, job("urgent", limit=500, at=50, priority=5))) == ["urgent"]
    state.end("urgent", 60, True)
    plan = decide(state, 70, job("urgent2", limit=500, at=70, priority=5))
    assert started(plan) == []
    assert codes(plan, "urgent2")[0] == "KeptForOthers"
    bound = next(reason for reason in plan.waiting["patient"] if reason.code == "WaitBoundExceeded")
    assert bound.counts == {"seconds_over": 10}


def test_jobs_without_limit_give_no_expected_start() -> None:
    state = core(nodes(1, 4))
    decide(state, 0, job("runs", gpus=3))
    plan = decide(state, 10, job("head", gpus=4, at=1))
    assert "head" not in plan.expected


def test_a_job_over_its_limit_is_expected_to_end_soon() -> None:
    state = core(nodes(1, 4))
    decide(state, 0, job("runs", gpus=4, limit=100))
    assert decide(state, 500, job("head", gpus=4, at=1)).expected["head"] == 560


def test_the_error_of_expected_starts_is_recorded() -> None:
    state = core(nodes(1, 4))
    for number in range(3):
        now = 1000.0 * number
        decide(state, now, job(f"runs{number}", gpus=4, limit=100))
        decide(state, now + 1, job(f"next{number}", gpus=4, at=now, limit=10))
        state.end(f"runs{number}", now + 60, True)
        assert started(decide(state, now + 60)) == [f"next{number}"]
        state.end(f"next{number}", now + 70, True)
    assert list(state.expectations.errors) == [-40.0] * 3
    decide(state, 5000, job("runs", gpus=4, limit=100))
    plan = decide(state, 5001, job("next", gpus=4, at=5001))
    text = next(reason.text for reason in plan.waiting["next"] if reason.code == "ExpectedStart")
    assert "of 3 such times half were off by less than 40 s" in text


sizes = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 60), st.integers(0, 5), st.floats(0.2, 1)),
    min_size=2,
    max_size=14,
)


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(sizes, st.sampled_from([1, 2, None]), st.booleans())
def test_no_job_starts_later_than_its_promised_start(
    specs: list[tuple[int, int, int, int, float]], promises: int | None, explain: bool
) -> None:
    """Jobs may end before their limits, never after. Then the first in the queue is never delayed, whoever comes later.

    With more promises than one, who is ahead may move into another's place; everybody still gets its turn.
    """
    now, jobs, times = 0.0, [], {}
    for number, (gpus, replicas, minutes, gap, part) in enumerate(specs):
        now += gap * 60.0
        name = f"j{number}"
        jobs.append(job(name, gpus=gpus, replicas=replicas, at=now, limit=minutes * 60.0))
        times[name] = max(1.0, minutes * 60.0 * part)
    promised = Promised()
    state = core(nodes(3, 4), policies=Policies(backfill=promises, expected=0), explain=explain)
    first = run(state, jobs, times, promised.watch)
    assert set(first) == set(times)
    for name, at in promised.items() if promises == 1 else ():
        assert first[name] <= at + 1e-6, f"{name} was promised {at} and started {first[name]}"


def test_shares_of_devices_are_promised_too() -> None:
    state = core(nodes(1, 1, units=10))
    decide(state, 0, job("runs", limit=100, request=Request(1, 6, cpu_milli=300)))
    plan = decide(
        state,
        1,
        job("head", request=Request(1, 8, cpu_milli=300), limit=50, at=1),
        job("long", request=Request(1, 3), at=2),
        job("fits", request=Request(1, 2, cpu_milli=400), at=3),
    )
    assert started(plan) == ["fits"], "2 units and 700 milli-CPUs are over when the head runs"
    assert plan.expected["head"] == 100


@pytest.mark.parametrize("policies", [Policies(), CONSERVATIVE])
def test_a_head_is_not_put_off_by_short_jobs_that_keep_coming(policies: Policies) -> None:
    """A job of 50 s comes every 6 s: of those that run or wait before the head the last is over at 112."""
    state = core(nodes(1, 8), policies=policies)
    jobs = [job(f"short{at}", limit=50, at=float(at)) for at in range(0, 400, 6)]
    first = run(
        state, [*jobs, job("head", gpus=8, at=61, limit=100)], {one.job_id: 50.0 for one in jobs} | {"head": 100.0}
    )
    assert 61 < first["head"] <= 112


def test_a_promise_counts_on_each_end_when_it_comes() -> None:
    """However near; who is over its limit already is given as long again."""
    state = core(nodes(1, 4))
    decide(state, 0, job("soon", gpus=2, limit=20), job("over", gpus=2, limit=5))
    plan = decide(state, 10, job("half", gpus=2, limit=9, at=10), job("whole", gpus=4, limit=9, at=11))
    assert plan.expected["half"] == 15
    assert decide(state, 19.5).expected["half"] == 20


@pytest.mark.parametrize("promises", [1, None])
def test_the_head_does_not_starve_behind_jobs_that_take_a_moment_to_stop_at_their_limit(promises: int | None) -> None:
    """Jobs of one GPU come all the time, each is gone 0.4 s after its limit; the head needs all eight."""
    state = core(nodes(1, 8), policies=Policies(backfill=promises))
    ends: dict[str, float] = {}
    for tick in range(150):
        now = round(tick * 0.2, 1)
        for name in [name for name, at in ends.items() if at <= now]:
            state.end(name, now, True)
            del ends[name]
        if tick % 3 == 0:
            state.submit(job(f"j{tick}", limit=5, at=now), now)
        if tick == 30:
            state.submit(job("head", gpus=8, limit=5, at=now), now)
        for action in state.plan(now).actions:
            state.apply(action, now)
            ends[action.job_id] = now + 5.4
            if action.job_id == "head":
                assert now <= 6 + 5.4 + 0.4
                return
    raise AssertionError("it still waits")


@pytest.mark.parametrize("explain", [True, False])
def test_a_start_that_did_not_take_place_takes_nothing_of_what_a_promise_leaves_over(explain: bool) -> None:
    for needs in range(5, 8):
        state = core(nodes(1, 8), policies=Policies(backfill_seconds=30.0), explain=explain)
        decide(state, 0, job("runs", gpus=4, limit=100))
        decide(state, 1, job("head", at=1, request=Request(needs, cpu_milli=1000 * needs)))
        state.submit(job("beside", at=2, request=Request(8 - needs, cpu_milli=8000 - 1000 * needs)), 2)
        assert started(state.plan(2)) == ["beside"], "it may, and somebody does not let it"
        assert started(state.plan(3)) == ["beside"]
        assert state.next_promise(3) == 100


def expected_starts(plan: CyclePlan, waiting: list[str]) -> dict[str, int]:
    """Who has an expected start among the reasons, in how many seconds."""
    found = {name: [reason for reason in plan.waiting[name] if reason.code == "ExpectedStart"] for name in waiting}
    return {name: reasons[0].counts["seconds"] for name, reasons in found.items() if reasons}


def test_whether_and_when_a_job_is_expected_to_start_depends_on_its_turn_and_not_on_who_is_looked_at() -> None:
    state = core(nodes(1, 4))
    decide(state, 0, job("runs", gpus=4, limit=100))
    names = ["zeta", "alpha", "mid"]
    one_each = [job(name, tenant=name, gpus=4, limit=50, at=1 + number) for number, name in enumerate(names)]
    first = decide(state, 10, *one_each, job("alike", tenant="zeta", gpus=4, limit=10, at=9))
    expected = {"zeta": 100, "alpha": 150, "mid": 200, "alike": 250}
    assert first.expected == expected
    for now in (11, 80):  # nothing has happened, and the reasons are told anew
        assert expected_starts(decide(state, now), list(expected)) == {name: at - now for name, at in expected.items()}
    late = decide(state, 81, job("late", tenant="late", gpus=4, limit=10, at=81))
    assert late.expected["late"] == 260 and expected_starts(late, ["zeta", "late"]) == {"zeta": 19, "late": 179}
    state.withdraw("alpha", 82)
    state.drop("alpha")
    assert expected_starts(decide(state, 82), ["mid", "alike", "late"]) == {"mid": 68, "alike": 118, "late": 128}


@pytest.mark.parametrize("promises", [1, 3, None])
def test_expected_starts_are_those_of_the_jobs_whose_turn_is_next_at_every_instant(promises: int | None) -> None:
    """One node, of which each job takes all: they start one after the other, whoever arrives and whoever looks."""
    dice = random.Random(f"{keep_seed()} {promises}")
    for _ in range(10):
        most = dice.choice([2, 4, 16])
        state = core(nodes(1, 4), policies=Policies(backfill=promises, expected=most))
        queue, ends, now = list[tuple[str, int]](), 0, 0
        for number in range(60):
            now += dice.choice([0, 1, 10, 30, 70])
            while state.running and ends <= now:  # as soon as the one before is over
                state.end(*state.running, ends, True)
                assert started(decide(state, ends)) == [name for name, _ in queue[:1]]
                ends += queue.pop(0)[1] if queue else 0
            if dice.random() < 0.5:
                name, limit = f"j{number:02}", dice.choice([20, 40, 80])
                plan = decide(state, now, job(name, dice.choice("abc"), 4, at=now, limit=limit))
                if started(plan):
                    ends = now + limit
                else:
                    queue.append((name, limit))
            else:
                plan = decide(state, now)
            starts = accumulate((limit for _, limit in queue), initial=ends)
            reckoned = {name: at - now for (name, _), at in zip(queue, starts, strict=False)}
            first = dict(islice(reckoned.items(), max(most, 100 if promises is None else promises)))
            assert expected_starts(plan, [name for name, _ in queue]) == first, f"at {now}"


@pytest.mark.parametrize("ends", [None, 100])
def test_capacity_that_quotas_deny_a_job_is_not_promised_to_it(ends: float | None) -> None:
    """Who cannot be preempted gets only what nobody else is guaranteed: as long as that is held, or for ever, it keeps
    no place from others."""
    tenants = [Tenant("a", guaranteed=8), Tenant("b"), Tenant("c")]
    state = core(nodes(2), tenants)
    decide(state, 0, job("a1", gpus=8, limit=50), job("b1", "b", gpus=8, preemptible=False, limit=ends))
    plan = decide(state, 1, job("firm", "b", gpus=8, at=1, preemptible=False))
    assert dict(plan.expected) == ({} if ends is None else {"firm": ends})
    assert "ExpectedStart" not in codes(plan, "firm") or ends is not None
    decide(state, 2, job("borrows", "c", gpus=8, at=2, limit=20))
    state.end("a1", 50, True)
    assert started(decide(state, 50)) == ["borrows"]


def test_a_job_that_can_never_start_keeps_no_place_that_became_free() -> None:
    state = core(nodes(1), [Tenant("a", guaranteed=8), Tenant("b"), Tenant("c")])
    decide(state, 0, job("a1", gpus=8, limit=50))
    decide(state, 1, job("firm", "b", gpus=8, at=1, preemptible=False))
    decide(state, 2, job("borrows", "c", gpus=8, at=2))
    state.end("a1", 50, True)
    assert started(decide(state, 50)) == ["borrows"]


def test_capacity_that_a_tenant_does_not_lend_is_promised_to_no_other() -> None:
    state = core(nodes(2), [Tenant("a", guaranteed=16, lending_limit=0), Tenant("b")])
    decide(state, 0, job("a1", gpus=8, replicas=2, limit=50))
    assert not decide(state, 1, job("b1", "b", gpus=8, at=1)).expected
    decide(state, 2, job("a2", gpus=8, at=2, limit=100))
    state.end("a1", 50, True)
    assert started(decide(state, 50)) == ["a2"]
    assert not decide(state, 51).expected
