"""What is good, bad and missing: typed facts beside what is expected of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from alerts.slo.measure import measure
from billing.close import close
from tests.alerts.facts import NOON, Fact, ago, device, ended, put, sampled, served, started, submitted
from tests.alerts.slo.promises import ERRORS, LATENCY, WAIT, arrive, known, promise, status
from warehouse.store import Store


def slow(minutes: float, low: float | None, value: float | None, high: float | None, **more: Any) -> list[Fact]:
    edges = {"value": value, "value_low": low, "value_high": high, "quantile": 0.95, "tenant": "chem", **more}
    row = {"interval_seconds": 60.0, "service": "chat", "workload_id": "p1", "metric": "request_latency_seconds"}
    return [("service_levels", {"ts": ago(minutes), **row, **edges})]


def test_a_wait_is_decided_when_it_ends_or_its_bound_passes(facts: Store) -> None:
    promise(facts, WAIT)
    put(
        facts,
        [
            *submitted("in-time", 100), *started("in-time", 70),
            *submitted("late", 100), *started("late", 69.9),
            *submitted("still-waits", 31),
            *submitted("waits-not-long-enough", 29),
            *submitted("withdrawn-before", 100), *ended("withdrawn-before", 80, "cancelled"),
            *submitted("withdrawn-after", 100), *ended("withdrawn-after", 60, "cancelled"),
            *started("nobody-told-since-when", 50),
            *submitted("elsewhere", 100, queue="batch", tenant="chem"), *started("elsewhere", 99, queue="", tenant=""),
        ],
    )  # fmt: skip
    assert known(facts) == {("wait", "physics", "train"): (1, 3, 1), ("wait", "chem", "batch"): (1, 0, 0)}
    (one, _) = sorted(status(facts), key=lambda series: series.tenant, reverse=True)
    assert (one.sli, one.coverage, one.state) == (0.25, 0.8, "missed")
    assert one.budget_left is not None
    assert round(one.budget_left, 6) == -6.5  # 0.75 bad of 0.1 allowed


def test_a_match_leaves_out_the_others(facts: Store) -> None:
    promise(facts, {**WAIT, "match": {"queue": "train-?", "tenant": "physics"}})
    put(facts, [*submitted("a", 100, queue="train-1"), *submitted("b", 100, queue="train-12")])
    put(facts, submitted("c", 100, queue="train-1", tenant="physics-lab"))
    assert known(facts) == {("wait", "physics", "train-1"): (0, 1, 0)}


def test_completion_counts_from_submission_or_from_the_start(facts: Store) -> None:
    within = {"kind": "completion_time", "within": "1h", "target": "0.9"}
    promise(facts, {**within, "name": "all"}, {**within, "name": "run", "since": "started"})
    put(facts, [*submitted("a", 200), *started("a", 150), *ended("a", 100)])
    put(facts, [*submitted("b", 200), *started("b", 190), *ended("b", 180, "failed")])
    put(facts, [*started("c", 90), *ended("c", 10)])
    assert known(facts) == {("all", "physics", "train"): (0, 1, 1), ("run", "physics", "train"): (1, 1, 0)}


def test_only_what_ends_by_itself_succeeds_or_fails(facts: Store) -> None:
    promise(facts, {"name": "ok", "kind": "job_success", "target": "0.9", "excluded_reasons": ["OutOfMemory*"]})
    for name, event, reason in (
        ("a", "finished", ""),
        ("b", "failed", "Error"),
        ("c", "failed", "OutOfMemoryKilled"),
        ("d", "preempted", "Priority"),
        ("e", "cancelled", ""),
    ):
        put(facts, [*started(name, 100), *ended(name, 50, event, reason=reason)])
    assert known(facts) == {("ok", "physics", "train"): (1, 1, 0)}


def test_a_job_of_which_nobody_told_the_end_is_missing(facts: Store) -> None:
    promise(facts, {"name": "ok", "kind": "job_success", "target": "0.9"})
    put(facts, [*device(), *started("gone", 4000), *sampled("GPU-0", 4000, 3900, 0.5, workload_id="gone")])
    put(facts, sampled("GPU-0", 3899, 60, 0.0))
    close(facts, until=ago(60), now=NOON)
    assert known(facts) == {("ok", "physics", "train"): (0, 0, 1)}


def test_a_latency_is_good_or_bad_by_the_edges_of_its_bucket(facts: Store) -> None:
    promise(facts, LATENCY)
    put(
        facts,
        [
            *slow(9, 0.25, 0.3, 0.5),  # at most the bound
            *slow(8, 0.5, 0.6, 1.0),  # above it
            *slow(7, 0.25, 0.3, 1.0),  # the bound lies within the bucket
            *slow(6, 30.0, None, None),  # above the highest edge
            *slow(5, None, None, None, observations=3),  # too few requests for a quantile
            *slow(4, None, 0.5, None),  # no histogram
        ],
    )
    # the last four minutes are silent
    assert known(facts) == {("fast", "chem", "chat"): (120, 120, 120 + 240)}
    promise(facts, {**LATENCY, "interpolate": True})
    assert known(facts) == {("fast", "chem", "chat"): (180, 120, 60 + 240)}


def test_a_minute_without_requests_is_nothing_and_a_silent_one_is_missing(facts: Store) -> None:
    promise(facts, LATENCY)
    put(facts, slow(9, 0.1, 0.2, 0.3))
    for minute in range(8, 4, -1):
        put(facts, served(minute, "requests_per_second", 0.0, workload_id="p1"))
    put(facts, served(4, "engine_sleeping", 1.0, workload_id="p1"))
    put(facts, served(3, "requests_per_second", 4.0, workload_id="p1"))  # requests, and no latency told
    assert known(facts) == {("fast", "chem", "chat"): (60, 0, 4 * 60)}


def test_a_service_that_says_nothing_for_a_day_is_gone(facts: Store) -> None:
    promise(facts, LATENCY)
    put(facts, slow(3000, 0.1, 0.2, 0.3))
    assert known(facts) == {("fast", "chem", "chat"): (60, 0, 1439 * 60)}


def test_the_whole_service_counts_before_its_replicas(facts: Store) -> None:
    promise(facts, LATENCY)
    for name, high in (("p1", 0.3), ("p2", 0.3), ("p3", 0.3), ("p4", 1.0)):
        put(facts, slow(0, high / 2, high / 2, high, workload_id=name))
    put(facts, slow(1, 0.6, 0.7, 1.0, workload_id="p1"))
    put(facts, slow(1, 0.1, 0.2, 0.3, workload_id=""))
    assert known(facts) == {("fast", "chem", "chat"): (105, 15, 0)}


def test_a_long_interval_covers_its_minutes(facts: Store) -> None:
    promise(facts, LATENCY)
    put(facts, slow(0, 0.1, 0.2, 0.3, interval_seconds=300.0))
    assert known(facts) == {("fast", "chem", "chat"): (300, 0, 0)}


def test_errors_nobody_told_of_are_not_none(facts: Store) -> None:
    promise(facts, ERRORS)
    for minute, errors in ((2, 0.5), (1, None), (0, 0.0)):
        put(facts, served(minute, "requests_per_second", 10.0, workload_id="p1", tenant="chem"))
        if errors is not None:
            put(facts, served(minute, "errors_per_second", errors, workload_id="p1"))
    put(facts, served(0, "error_ratio", 0.25, workload_id="p2", observations=400))
    assert known(facts) == {("errors", "chem", "chat"): (570 + 600 + 300, 30 + 100, 600)}


def test_metering_is_the_metered_part_of_what_was_held(facts: Store) -> None:
    promise(facts, {"name": "meter", "kind": "metering_coverage", "target": "0.99"})
    put(facts, [*device(), *started("a", 240), *ended("a", 120), *sampled("GPU-0", 239, 150, 0.5)])
    close(facts, until=ago(60), now=NOON)
    assert known(facts) == {("meter", "physics", "train"): (90 * 60, 30 * 60, 0)}
    (one,) = status(facts)
    assert one.measured_until == ago(60)


def test_what_comes_late_is_measured_again_and_nothing_else_changes(facts: Store) -> None:
    promise(facts, WAIT)
    arrive(facts, [*submitted("a", 300), *submitted("b", 290), *started("b", 280)])
    assert known(facts) == {("wait", "physics", "train"): (1, 1, 0)}
    assert measure(facts, NOON) == 0
    arrive(facts, started("a", 275))
    later = NOON + timedelta(minutes=5)
    assert known(facts, later) == {("wait", "physics", "train"): (2, 0, 0)}
    first = facts.rows("SELECT * FROM slo_series ORDER BY ALL")
    assert measure(facts, later, since=ago(3000)) > 0
    assert facts.rows("SELECT * FROM slo_series ORDER BY ALL") == first


def test_measuring_in_steps_is_the_same_as_measuring_at_once(facts: Store) -> None:
    promise(facts, WAIT, LATENCY, ERRORS)
    put(facts, [fact for n in range(40) for fact in submitted(f"j{n}", 400 - 7 * n)])
    put(facts, [fact for n in range(40) for fact in started(f"j{n}", 400 - 7 * n - 11 * (n % 5))])
    for minute in range(300, 0, -7):
        put(facts, slow(minute, 0.2, 0.3, 0.4 if minute % 3 else 0.8))
        put(facts, served(minute, "requests_per_second", 3.0, workload_id="p1"))
    for minutes in (290, 111, 0):
        measure(facts, ago(minutes))
    in_steps = known(facts)
    measure(facts, NOON, since=ago(3000))
    assert known(facts) == in_steps
    assert len(in_steps) == 3


def test_what_runs_on_shared_devices_is_told_where_neighbours_decide(facts: Store) -> None:
    """Half of the queue's GPU-hours and all of the service's are on parts of one; of another queue nobody knows."""
    fits = {"kind": "job_success", "name": "ok", "target": "0.9"}
    promise(facts, LATENCY, fits, WAIT)
    vgpu = {"partition_id": "v1", "partition_profile": "A100-10C", "units": 1}
    put(
        facts,
        [
            *device("GPU-0"), *device("GPU-1", units=4),
            *submitted("whole", 240), *started("whole", 180, "GPU-0"), *ended("whole", 150, "failed"),
            *submitted("part", 240), *started("part", 180, "GPU-1", units=2), *ended("part", 120),
            *started("p1", 180, "GPU-1", units=1, tenant="chem", queue="serving"),
            *started("v", 180, "GPU-1", tenant="chem", queue="vgpu", **vgpu),
            *ended("v", 120, tenant="chem", queue="vgpu"),
            *slow(130, 0.1, 0.2, 0.3),
        ],
    )  # fmt: skip
    close(facts, ago(60), NOON)
    parts = {(one.objective, one.tenant, one.subject): one.shared_part for one in status(facts)}
    assert {key: part for key, part in parts.items() if key[0] != "wait"} == {
        ("ok", "physics", "train"): 0.5, ("ok", "chem", "vgpu"): None, ("fast", "chem", "chat"): 1.0,
    }  # fmt: skip
    assert parts["wait", "physics", "train"] is None, "who waits for a device has no neighbours there"
