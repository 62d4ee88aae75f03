"""Virtual time: who starts when, and what a preemption, a limit or a wider gang does to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.readings import Row
from scheduler.metrics import Meter
from scheduler.model import Job, Plan, Preempt, Request, Resize, Start
from scheduler.records.book import Book
from scheduler.records.events import Writer
from scheduler.scaling import QueueRule, ScalingPolicy
from scheduler.simulate.engine import Clock, Outcome, Simulation
from scheduler.simulate.traces import regular_nodes
from tests.scheduler.first_come import FirstCome

NODES = regular_nodes(2, 4)


class Ran:
    """A run over two nodes of four GPUs, with its events."""

    def __init__(self, jobs: Sequence[Job], core: FirstCome | None = None, clock: Clock | None = None) -> None:
        self.rows: list[Row] = []
        self.core = core or FirstCome(NODES)
        self.meter = Meter(NODES, [], [], 0.0)
        self.book = Book(self.core, self.meter, Writer("c", NODES), lambda record, rows: self.rows.extend(rows))
        self.outcome: Outcome = Simulation(self.book, clock).run(jobs)

    def life(self, job_id: str) -> list[tuple[str, float]]:
        """(event, seconds) of a job, devices together."""
        found = [(r["event"], r["ts"].timestamp()) for r in self.rows if r["workload_id"] == job_id]
        return list(dict.fromkeys(found))


def job(name: str, at: float, run: float, gpus: int = 4, **more: Any) -> Job:
    """More than four GPUs are a gang over both nodes."""
    nodes = 2 if gpus == 8 else 1
    found = Job(name, "t", "q", Request(gpus // nodes), at, min_replicas=nodes, max_replicas=nodes, run_time=run)
    return replace(found, **more)


def test_a_job_waits_for_room_and_ends_after_its_run_time() -> None:
    ran = Ran([job("a", 0, 10), job("b", 0, 20), job("c", 1, 5)])
    assert ran.life("a") == [("submitted", 0), ("started", 0), ("finished", 10)]
    assert ran.life("c") == [("submitted", 1), ("started", 10), ("finished", 15)]
    assert (ran.outcome.jobs, ran.outcome.waiting, ran.outcome.until) == (3, 0, 20)


def test_ends_make_room_for_arrivals_of_the_same_instant() -> None:
    ran = Ran([job("a", 0, 10, 8), job("b", 10, 1, 8)])
    assert ran.life("b")[1] == ("started", 10)


def test_a_job_that_runs_into_its_limit_fails_then() -> None:
    ran = Ran([job("a", 0, 100, time_limit=30.0)])
    assert ran.life("a")[-1] == ("failed", 30)
    assert ran.rows[-1]["reason"] == "TimeLimit"


def test_a_preempted_job_starts_again_from_its_last_checkpoint() -> None:
    low = job("low", 0, 100, 8, checkpoint_seconds=30.0)
    ran = Ran([low, job("high", 70, 10, 8, priority=1)], FirstCome(NODES, preempts=True))
    # 70 s done, 60 saved: 40 s are left when it starts again at 80
    assert ran.life("low") == [
        ("submitted", 0),
        ("started", 0),
        ("preempted", 70),
        ("submitted", 70),
        ("started", 80),
        ("finished", 120),
    ]
    (count,) = ran.meter.preemptions.values()
    assert (count.jobs, count.lost_gpu_seconds) == (1, 80)
    assert {r["allocation_id"] for r in ran.rows if r["workload_id"] == "low"} == {"low", "low/2"}


def test_without_checkpoints_a_preemption_loses_what_the_attempt_did() -> None:
    ran = Ran([job("low", 0, 100, 8), job("high", 70, 10, 8, priority=1)], FirstCome(NODES, preempts=True))
    assert ran.life("low")[-1] == ("finished", 180)


class Growing(FirstCome):
    """Doubles the job `elastic` at its second cycle."""

    def plan(self, now: float) -> Plan:
        found = super().plan(now)
        start = self.running.get("elastic")
        if start is not None and len(start[1].grants) == 1 and now >= 10:
            (grant,) = start[1].grants
            return Plan((Resize("elastic", (grant, replace(grant, node=1 - grant.node)), "r"),))
        return found

    def apply(self, action: Start | Preempt | Resize, now: float) -> None:
        if isinstance(action, Resize):
            found, start = self.running["elastic"]
            self.cluster.take(action.grants[1], found.request)
            self.running["elastic"] = (found, replace(start, grants=action.grants))
        else:
            super().apply(action, now)


def test_a_job_with_twice_the_replicas_needs_half_of_what_is_left() -> None:
    elastic = job("elastic", 0, 100, max_replicas=2)
    ran = Ran([elastic, job("b", 10, 1, 0)], Growing(NODES))
    assert ran.life("elastic") == [("submitted", 0), ("started", 0), ("resized", 10), ("finished", 55)]
    assert sum(row["event"] == "resized" for row in ran.rows) == 8  # the full new set


def test_what_never_fits_is_waiting_at_the_end() -> None:
    assert Ran([job("a", 0, 1, 5)]).outcome.waiting == 1


def test_with_spacing_cycles_wait_for_each_other_as_in_a_live_loop() -> None:
    ran = Ran([job("a", 0, 5, 1), job("b", 1, 5, 1)], clock=Clock(spacing=30.0))
    assert ran.life("a")[1] == ("started", 0)
    assert ran.life("b")[1] == ("started", 30)


def test_jobs_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="job b is submitted before a"):
        Ran([job("a", 5, 1), job("b", 4, 1)])


def test_a_job_with_a_scaling_policy_is_refused_rather_than_run_without_it() -> None:
    with pytest.raises(ValueError, match="job a has a scaling policy"):
        Ran([job("a", 0, 10, scaling=ScalingPolicy(queue=QueueRule(1, 4)))])


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30), st.integers(1, 8), st.integers(0, 2)), max_size=12))
def test_whatever_happens_no_device_has_two_holders_and_all_is_given_back(
    asked: list[tuple[int, int, int, int]],
) -> None:
    jobs = [
        job(f"j{n}", at, run, min(gpus, 4), priority=priority, min_replicas=1 + gpus // 5, max_replicas=1 + gpus // 5)
        for n, (at, run, gpus, priority) in enumerate(sorted(asked))
    ]
    ran = Ran(jobs, FirstCome(NODES, preempts=True))
    holder: dict[str, str] = {}
    for row in ran.rows:
        if row["event"] == "started":
            assert row["device_id"] not in holder
            holder[row["device_id"]] = row["allocation_id"]
        elif row["event"] in ("preempted", "finished"):
            holder = {device: who for device, who in holder.items() if who != row["allocation_id"]}
    assert not holder
    assert int(ran.core.cluster.free.sum()) == 8
    assert ran.meter.held_gpus == 0
    assert sum(r["event"] == "finished" for r in ran.rows) == len(jobs)


def test_checkpoints_count_from_the_start_whatever_size_it_has_had_since() -> None:
    jobs = [
        job("elastic", 0, 200, 8, min_replicas=1, max_replicas=2, checkpoint_seconds=30.0),
        job("tick", 10, 1, 0),
        job("high", 70, 10, 8, priority=1),
    ]
    ran = Ran(jobs, Growing(NODES, preempts=True))
    # Saved at 60: 10 s of one replica and 50 of two; of 200 replica-seconds 90 are left when one starts again at 80,
    # and another with the next cycle.
    assert ran.life("elastic")[2:] == [
        ("resized", 10),
        ("preempted", 70),
        ("submitted", 70),
        ("started", 80),
        ("resized", 80.001),
        ("finished", 125.001),
    ]
