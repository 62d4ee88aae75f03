"""What the meter tells equals what a reader computes by hand from the same few events."""

from __future__ import annotations

import pytest

from scheduler.exposition import rows, series
from scheduler.metrics import Meter
from scheduler.model import Device, Grant, Job, Node, Queue, Reason, Request, Tenant
from scheduler.placement.cluster import Cluster
from scheduler.placement.fragmentation import Fragmentation
from scheduler.setup import WHOLE_GPUS
from warehouse.records import SERVICE_LEVELS

NODES = [Node("n0", tuple(Device(f"n0/{gpu}", "A100") for gpu in range(8)))]
TENANTS = [
    Tenant("lab", guaranteed=2),
    Tenant("physics", "lab", guaranteed=4, limit=5),
    Tenant("chem", "lab", guaranteed=2),
]


def meter() -> Meter:
    return Meter(NODES, TENANTS, [Queue("q", wait_bound=50.0)], 0.0)


def job(name: str, tenant: str, gpus: int, at: float = 0.0) -> Job:
    return Job(name, tenant, "q", Request(gpus), at, run_time=100.0)


def submit(m: Meter, one: Job, now: float) -> None:
    m.submitted(one, now, one.request.devices)


def grants(*devices: int) -> tuple[Grant, ...]:
    return (Grant(0, devices, (1,) * len(devices)),)


def test_redemption_is_what_was_held_of_what_was_guaranteed_and_asked_for() -> None:
    m = meter()
    submit(m, job("a", "physics", 6), 0.0)  # entitled to 4, holds none for 10 s
    m.started("a", grants(0, 1, 2, 3, 4, 5), 10.0)  # holds 6: entitled to 4, redeems 4; 1 over its limit
    m.ended("a", 30.0, "finished")
    m.advance(100.0)  # asks for nothing: entitled to nothing
    account = m.accounts()["physics", ""]
    assert m.outcomes == {("q", "completed"): 1} and m.completion == 1.0
    assert account.entitled_area == 4 * 30
    assert account.redemption == pytest.approx(20 / 30)
    assert m.breach_gpu_seconds() == 20
    assert m.accounts()["chem", ""].redemption is None
    assert m.redemption() == pytest.approx(20 / 30)  # of the leaves; lab is not counted again
    assert m.accounts()["lab", ""].held_area == 6 * 20
    assert m.utilization == pytest.approx(6 * 20 / (8 * 100))


def test_a_tenant_whose_name_begins_like_anothers_is_not_counted_with_it() -> None:
    m = meter()
    submit(m, job("a", "physics-lab", 2), 0.0)
    m.started("a", grants(0, 1), 0.0)
    m.advance(10.0)
    assert m.accounts()["physics", ""].held_area == 0
    assert m.accounts()["lab", ""].held_area == 0
    assert m.accounts()["physics-lab", ""].held_area == 20


def test_jain_is_one_when_all_get_the_same_part_and_a_half_when_one_of_two_gets_all() -> None:
    m = meter()
    for name, tenant in (("a", "physics"), ("b", "chem")):
        submit(m, job(name, tenant, 2), 0.0)
    m.started("a", grants(0, 1), 0.0)
    m.advance(10.0)
    assert m.jain() == pytest.approx(0.5)
    m.started("b", grants(2, 3), 10.0)
    m.advance(1e9)
    assert m.jain() == pytest.approx(1.0)


def test_a_bound_that_passes_is_a_violation_with_the_reason_of_that_moment() -> None:
    m = meter()
    submit(m, job("a", "chem", 1), 0.0)
    submit(m, job("b", "chem", 1), 0.0)
    m.explained({"a": (Reason("WaitingForQuota"),)})
    m.started("b", grants(0), 50.0)  # just in time
    m.advance(50.0)
    assert not m.queues["q"].violations
    m.explained({"a": (Reason("InsufficientCapacity"),)})
    m.advance(51.0)
    m.started("a", grants(1), 500.0)  # once is enough
    assert m.queues["q"].violations == {"InsufficientCapacity": 1}


def test_a_held_job_neither_waits_nor_asks() -> None:
    m = meter()
    submit(m, job("a", "chem", 1), 0.0)
    m.withdrawn("a", 10.0)
    m.advance(1000.0)
    assert not m.queues["q"].violations
    assert m.waiting() == {}
    assert m.accounts()["chem", ""].demand_area == 10


def test_the_oldest_waiter_is_seen_while_it_waits() -> None:
    m = meter()
    submit(m, job("a", "chem", 1, 5.0), 5.0)
    submit(m, job("b", "chem", 2, 9.0), 9.0)
    m.advance(20.0)
    waiting = m.waiting()["q"]
    assert (waiting.jobs, waiting.oldest) == (2, 15.0)
    assert dict(waiting.units_by_cause) == {"PendingEvaluation": 3}


def test_a_preemption_counts_jobs_and_replicas_apart_and_who_lost_to_whom() -> None:
    m = meter()
    for name, tenant in (("a", "chem"), ("b", "physics")):
        submit(m, job(name, tenant, 1), 0.0)
    m.started("a", grants(0), 0.0)
    m.preempted("a", "b", "ReclaimLentQuota", 1, False, 30.0)
    m.preempted("a", "b", "ReclaimLentQuota", 2, True, 40.0)
    count = m.preemptions["chem", "physics", "ReclaimLentQuota"]
    assert (count.jobs, count.replicas, count.lost_gpu_seconds) == (1, 3, 70.0)


def test_bounded_slowdown_uses_ten_minutes_for_short_jobs_and_is_at_least_one() -> None:
    m = meter()
    submit(m, job("a", "chem", 1), 0.0)
    m.started("a", grants(0), 1100.0)
    m.ended("a", 1200.0, "finished")
    assert m.queues["q"].slowdown.at(1.0) == pytest.approx(2.0)
    submit(m, job("b", "chem", 1, 1200.0), 1200.0)
    m.started("b", grants(0), 1200.0)
    m.ended("b", 1300.0, "finished")
    assert m.queues["q"].slowdown.at(0.0) == pytest.approx(1.0)


def test_memory_is_that_of_jobs_that_are_not_over() -> None:
    m = meter()
    for number in range(100):
        submit(m, job(f"j{number}", "chem", 1, float(number)), float(number))
        m.started(f"j{number}", grants(0), float(number))
        m.ended(f"j{number}", number + 0.5, "finished")
    assert not m._live
    m.advance(200.0)
    assert not m._due


def test_a_node_that_is_gone_is_no_capacity() -> None:
    m = meter()
    m.node(0, "maintenance", 10.0)
    m.node(0, "available", 30.0)
    m.advance(40.0)
    assert m.capacity_area == 8 * 20


def test_what_ended_is_counted_by_outcome_and_a_preemption_is_no_end() -> None:
    m = meter()
    for number, (ending, late) in enumerate(
        [("finished", False), ("finished", False), ("failed", False), ("failed", True), ("cancelled", False)]
    ):
        submit(m, job(f"j{number}", "chem", 1), 0.0)
        m.started(f"j{number}", grants(0), 1.0)
        if number == 0:
            m.ended("j0", 1.5, "preempted")
            m.started("j0", grants(0), 1.8)
        m.ended(f"j{number}", 2.0, ending, late)  # type: ignore[arg-type]
    counted = {outcome: count for (_, outcome), count in m.outcomes.items()}
    assert counted == {"completed": 2, "failed": 1, "timeout": 1, "cancelled": 1, "preempted": 1}
    assert m.completion == 2 / 5


def test_tenants_have_rows_of_their_own_in_the_ledger() -> None:
    """Rows with one key are one row, and the key has no tenant."""
    m = meter()
    submit(m, job("a", "physics", 2), 0.0)
    submit(m, job("b", 'o"brien\\', 2), 0.0)
    m.started("b", grants(0, 1), 10.0)
    m.preempted("b", "a", "ReclaimLentQuota", 1, True, 0.0)
    m.ended("b", 20.0, "preempted")
    found = rows(series(m, Fragmentation(Cluster(NODES), WHOLE_GPUS), [Request(1), Request(4)]), "c", 20.0, 60.0)
    assert len(found) > 20
    assert len({tuple(row.get(name) for name in SERVICE_LEVELS.key) for row in found}) == len(found)
    metrics = {row["tenant"]: row["metric"] for row in found if row["metric"].startswith("tenant_held_gpus")}
    assert metrics["physics"] == 'tenant_held_gpus{pool="",tenant="physics"}'
    assert metrics['o"brien\\'] == 'tenant_held_gpus{pool="",tenant="o\\"brien\\\\"}'
