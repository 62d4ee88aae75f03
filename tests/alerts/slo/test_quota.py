"""Quota redemption: what a tenant got of what it was entitled to, beside a second-by-second count."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from billing.close import close
from tests.alerts.facts import NOON, ago, device, ended, put, started, submitted
from tests.alerts.slo.promises import known, promise
from tests.billing.hand_ledger import close as close_hours
from tests.stores import emptied
from warehouse.store import Store

QUOTA = {"name": "quota", "kind": "quota_redemption", "guaranteed_gpus": 2, "target": "0.99"}


def test_what_waits_for_a_guaranteed_gpu_is_owed(facts: Store) -> None:
    promise(facts, QUOTA)
    put(facts, [*device("GPU-0"), *device("GPU-1"), *device("GPU-2")])
    put(facts, [*submitted("a", 300, gpus=1.0), *started("a", 300), *ended("a", 120)])
    put(facts, [*submitted("b", 240, gpus=4.0), *started("b", 180, "GPU-1", "GPU-2"), *ended("b", 150)])
    put(facts, submitted("c", 240, gpus=8.0, reason="Misconfigured"))
    close(facts, until=ago(60), now=NOON)
    # a alone: 60 min of 1; b waits: 60 min of 1 of 2; both: 30 min of 2; a alone: 30 min of 1
    assert known(facts) == {("quota", "physics", ""): ((60 + 60 + 60 + 30) * 60, 60 * 60, 0)}


def test_half_a_device_is_half_a_gpu(facts: Store) -> None:
    promise(facts, QUOTA)
    put(facts, [*device("GPU-0", units=2), *submitted("a", 120, gpus=0.5), *started("a", 120, units=1)])
    close(facts, until=ago(60), now=NOON)
    assert known(facts) == {("quota", "physics", ""): (1800, 0, 0)}


@dataclass
class Job:
    """Minutes since the day began."""

    submit: int
    wait: int
    run: int
    gpus: int

    @property
    def start(self) -> int:
        return self.submit + self.wait


jobs = st.lists(
    st.builds(Job, st.integers(0, 120), st.integers(0, 60), st.integers(1, 90), st.integers(1, 3)),
    min_size=1,
    max_size=5,
)


def minute_by_minute(work: list[Job], until: int) -> tuple[float, float]:
    good = bad = 0
    for minute in range(until):
        held = sum(job.gpus for job in work if job.start <= minute < job.start + job.run)
        asked = sum(job.gpus for job in work if job.submit <= minute < job.start)
        entitled = min(2, held + asked)
        good += min(held, entitled) * 60
        bad += (entitled - min(held, entitled)) * 60
    return good, bad


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(jobs)
def test_it_equals_a_count_of_every_minute(shared_store: Store, work: list[Job]) -> None:
    emptied(shared_store)
    promise(shared_store, QUOTA)
    put(
        shared_store,
        [fact for n, job in enumerate(work) for fact in submitted(f"j{n}", 240 - job.submit, gpus=job.gpus)],
    )
    put(
        shared_store,
        [fact for n, job in enumerate(work) for fact in started(f"j{n}", 240 - job.start, event="resumed")],
    )
    held = [(n, job) for n, job in enumerate(work) for _ in range(job.gpus)]
    shared_store.insert(
        "allocations",
        pa.table(
            {
                "allocation_id": [f"j{n}" for n, _ in held],
                "tenant": ["physics"] * len(held),
                "device_id": [f"GPU-{number}" for number in range(len(held))],
                "units": pa.array([1] * len(held), pa.uint32()),
                "start_at": pa.array([ago(240 - job.start) for _, job in held], pa.timestamp("ms", "UTC")),
                "end_at": pa.array([ago(240 - job.start - job.run) for _, job in held], pa.timestamp("ms", "UTC")),
            }
        ),
    )
    close_hours(shared_store, [ago(60)])
    good, bad = minute_by_minute(work, 240)
    assert known(shared_store) == {("quota", "physics", ""): (good, bad, 0)}
