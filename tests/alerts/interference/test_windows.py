"""Alone, beside others, or not known: what a window is, and what is said of it.

Scenarios are clusters of one store, measured together.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from alerts.interference.measure import measure, newest_baselines
from alerts.interference.ranking import aggressors
from alerts.interference.versions import declare_version
from tests.alerts.facts import NOON, Fact, ago, device, put
from tests.alerts.interference.sharing import TOKEN, Seen, measures, reports, runs, seen, windows
from warehouse.store import Store

ALONE: Seen = ("exclusive", "measured", False, 1.0)
CHAT: dict[str, Any] = {"metric": TOKEN, "service": "chat", "observations": 1000}


def beside(slow: float = 5.0, first: float = 40) -> list[Fact]:
    """a makes ten steps a second alone, and `slow` in the last 20 minutes, beside b, which tells nothing."""
    return [
        *device(units=4),
        *runs("a", first, 1),
        *runs("b", 20, 1),
        *reports("a", first, 21, 10.0),
        *reports("a", 20, 1, slow),
    ]


def alone() -> list[Fact]:
    """a makes ten steps a second."""
    return [*device(units=4), *runs("a", 40, 1), *reports("a", 40, 1, 10.0)]


def replica(name: str, first: float, last: float, running: float, latency: float) -> list[Fact]:
    reported = reports(name, first, last, running, "requests_running", "chat")
    return [*runs(name, first, last), *reports(name, first, last, latency, **CHAT), *reported]


def queued(first: float, last: float, queue: float) -> list[Fact]:
    about = {"service": "api", "observations": 10}
    return [
        *reports("a", first, last, queue + 0.4, "request_latency_seconds", **about),
        *reports("a", first, last, queue, "request_queue_seconds", **about),
    ]


def tailed(observations: int) -> list[Fact]:
    """P99/P50 is 1.5 alone and 3 beside b."""
    found = [*device(units=4), *runs("a", 40, 1), *runs("b", 20, 1)]
    for first, last, p50, p99 in ((40, 21, 0.02, 0.03), (20, 1, 0.03, 0.09)):
        for quantile, value in ((None, p50), (0.5, p50), (0.99, p99)):
            found += reports("a", first, last, value, TOKEN, "chat", quantile=quantile, observations=observations)
    return found


def instance(number: int, first: float, last: float, use: float) -> list[Fact]:
    """Samples of a MIG instance, which name nobody."""
    return runs("", first, last, use=use, partition_id=f"MIG-{number}")


def cut_by_mig() -> list[Fact]:
    """a, b and c hold an instance each. a makes ten steps a second, five while b computes; c never does."""
    used = [*instance(1, 40, 1, 0.9), *instance(2, 40, 21, 0.0), *instance(2, 20, 1, 0.9), *instance(3, 40, 1, 0.0)]
    return [*device(units=7), *used, *reports("a", 40, 21, 10.0), *reports("a", 20, 1, 5.0)]


SCENARIOS: dict[str, list[Fact]] = {
    "slices": cut_by_mig(),
    "slice of two": cut_by_mig(),
    "halves": beside(),
    "nearly": beside(slow=10 / 1.09),
    "never alone": [*device(units=4), *runs("a", 40, 1), *runs("b", 40, 1), *reports("a", 40, 1, 5.0)],
    "four alone": beside(first=24),
    "five alone": beside(first=25),
    "silent holder": alone(),
    # b was asked, and has no process there
    "idle holder": [*alone(), *runs("b", 40, 21, use=0.0, state="idle", memory_used_bytes=0)],
    "sole holder": [*device(units=4), *reports("a", 40, 1, 10.0)],
    "stranger": [
        *alone(),
        *measures("unattributed_activity", 40, 21, 0.04),
        *measures("unattributed_activity", 20, 1, 0.4),
    ],
    "breach": [
        *device(units=4),
        *runs("a", 40, 1),
        *reports("a", 40, 21, 10.0),
        *reports("a", 20, 1, 4.0),
        *measures("process_activity", 20, 1, 0.5, workload_id="intruder"),
    ],
    "instances": [
        *device(units=7),
        *runs("a", 40, 1, partition_id="MIG-1"),
        *runs("b", 20, 1, partition_id="MIG-2"),
        *reports("a", 40, 21, 10.0),
        *reports("a", 20, 1, 8.0),
    ],
    "load": [
        *device(units=4),
        *replica("p1", 60, 41, 4, 0.020),
        *replica("p1", 40, 31, 16, 0.050),
        *replica("p2", 30, 21, 5, 0.030),  # beside b, with as many requests as p1 had
        *replica("p2", 20, 11, 40, 0.090),  # nobody was alone with so many
        *runs("b", 30, 1),
    ],
    "queue": [*device(units=4), *runs("a", 40, 1), *runs("b", 20, 1), *queued(40, 21, 0.1), *queued(20, 1, 2.1)],
    "versions": [
        *device(units=4),
        *runs("a", 90, 1),
        *reports("a", 90, 61, 10.0),
        *reports("a", 60, 31, 20.0),
        *reports("a", 30, 1, 10.0),
        *runs("b", 40, 21),
    ],
    "driver": beside(),
    "hardware": [
        *device("GPU-0", units=4),
        *device("GPU-1", units=4, model="A100"),
        *runs("a", 40, 21),
        *reports("a", 40, 21, 10.0),
        *runs("a", 20, 1, "GPU-1"),
        *runs("b", 20, 1, "GPU-1"),
        *reports("a", 20, 1, 3.0),
    ],
    "clock": [
        *device(units=4),
        *runs("a", 40, 1),
        *runs("b", 20, 1),
        *measures("sm_clock_hertz", 40, 21, 1.98e9),
        *measures("sm_clock_hertz", 20, 1, 1.5e9),
        *measures("throttle_power_seconds", 10, 1, 20.0),
    ],
    "likely": [
        *device(units=4),
        *runs("a", 40, 21, use=0.8),
        *runs("a", 20, 1, use=0.5),
        *runs("b", 20, 1, use=0.5),
        *reports("a", 40, 1, 3.0, "requests_waiting", "chat"),
    ],
    "whole": [*device(), *runs("a", 40, 1)],
    "tail": tailed(300),
    "short tail": tailed(299),
}
CONTENDED: list[tuple[str, float, float, list[str]]] = [
    ("dram_active", 0.4, 0.72, ["memory"]),
    ("dram_active", 0.4, 0.68, []),
    ("context_switch_active", 0.1, 0.3, ["scheduler"]),
    ("context_switch_active", 0.1, 0.11, []),
    ("sm_active", 0.5, 0.85, ["scheduler"]),
    ("sm_active", 0.5, 0.75, []),
    ("pcie_receive_bytes_per_second", 1e9, 45e9, ["pcie"]),
    ("pcie_receive_bytes_per_second", 1e9, 40e9, []),
]
"""A metric of the device, alone and beside another, and the channel that it speaks of."""


def holds(store: Store, cluster: str, *names: str, units: int = 1, instances: tuple[int, ...] = ()) -> None:
    """As the books have it, during the last 40 minutes but one.   instances: of MIG, which they hold."""
    count = len(names)
    store.insert(
        "allocations",
        pa.table(
            {
                "cluster": [cluster] * count,
                "allocation_id": names,
                "workload_id": names,
                "tenant": ["physics"] * count,
                "device_id": ["GPU-0"] * count,
                "partition_id": [f"MIG-{number}" for number in instances] or [""] * count,
                "partition_profile": ["2g.20gb" if instances else ""] * count,
                "units": pa.array([units] * count, pa.uint32()),
                "start_at": pa.array([ago(41)] * count, pa.timestamp("ms", "UTC")),
                "end_at": pa.array([ago(1)] * count, pa.timestamp("ms", "UTC")),
            }
        ),
    )


@pytest.fixture(scope="module")
def measured(shared_store: Store) -> Store:
    for cluster, facts in SCENARIOS.items():
        put(shared_store, facts, cluster)
    for n, (metric, before, after, _) in enumerate(CONTENDED):
        put(
            shared_store,
            [
                *device(units=4),
                *runs("a", 40, 1),
                *runs("b", 20, 1),
                *measures(metric, 40, 21, before),
                *measures(metric, 20, 1, after),
            ],
            f"contended {n}",
        )
    for cluster in ("silent holder", "idle holder"):
        holds(shared_store, cluster, "a", "b")
    holds(shared_store, "sole holder", "a", units=4)
    holds(shared_store, "slices", "a", "b", "c", units=2, instances=(1, 2, 3))
    holds(shared_store, "slice of two", "a", "b", "c", units=2, instances=(1, 2, 2))
    declare_version(shared_store, "a", "v1", ago(200), cluster="versions")
    declare_version(shared_store, "a", "v2", ago(60.5), cluster="versions")
    declare_version(shared_store, "a", "v1", ago(30.5), cluster="versions")
    declare_version(shared_store, "", "driver 580", ago(20.5), cluster="driver")
    measure(shared_store, NOON)
    return shared_store


def test_a_rate_that_halves_beside_another_is_a_slowdown_of_two(measured: Store) -> None:
    assert seen(measured, "a", "halves") == [ALONE, ("shared", "measured", True, 2.0)]
    last = windows(measured, "a", "halves")[-1]
    assert (last["coefficient"], last["neighbours"], last["baseline_windows"]) == (1.0, ["b"], 20)
    (baseline,) = [one for one in newest_baselines(measured) if one["cluster"] == "halves"]
    assert (baseline["identity"], baseline["value"], baseline["windows"]) == ("a", 10.0, 20)


def test_a_tenth_is_disturbed_and_less_is_not(measured: Store) -> None:
    assert seen(measured, "a", "nearly")[-1] == ("shared", "measured", False, 1.09)


def test_who_is_never_alone_has_no_baseline(measured: Store) -> None:
    assert seen(measured, "a", "never alone") == [("shared", "unknown", None, None)]


def test_four_windows_alone_are_too_few_and_five_are_not(measured: Store) -> None:
    assert seen(measured, "a", "four alone")[-1] == ("shared", "unknown", None, None)
    assert seen(measured, "a", "five alone")[-1] == ("shared", "measured", True, 2.0)


def test_the_holder_of_a_mig_instance_that_is_used_is_a_neighbour(measured: Store) -> None:
    assert seen(measured, "a", "slices")[:2] == [ALONE, ("shared", "measured", True, 2.0)]
    row = next(one for one in windows(measured, "a", "slices") if one["state"] == "shared")
    # Instances have their own SMs: two that are busy do not contend for them.
    assert (row["neighbours"], row["channels"]) == (["b"], [])
    (pair,) = [one for one in aggressors(measured, ago(60), NOON) if one.cluster == "slices" and one.victim == "a"]
    assert (pair.aggressor, pair.disturbed, pair.verdict) == ("b", pair.windows, "candidate")


def test_an_instance_that_two_hold_names_neither(measured: Store) -> None:
    assert {row["state"] for row in windows(measured, "a", "slice of two")} == {"unsure"}


def test_who_holds_a_share_and_does_not_tell_makes_it_unsure(measured: Store) -> None:
    assert seen(measured, "a", "silent holder") == [("unsure", "unknown", None, None)]
    assert seen(measured, "a", "idle holder")[:2] == [ALONE, ("unsure", "unknown", None, 1.0)]


def test_a_sole_holder_is_alone_though_no_process_is_known(measured: Store) -> None:
    assert seen(measured, "a", "sole holder") == [ALONE]
    assert windows(measured, "a", "sole holder")[-1]["gpus"] == 1.0


def test_someone_unknown_at_work_makes_it_unsure(measured: Store) -> None:
    assert seen(measured, "a", "stranger") == [ALONE, ("unsure", "unknown", None, 1.0)]


def test_a_breach_is_a_neighbour(measured: Store) -> None:
    assert windows(measured, "a", "breach")[-1]["neighbours"] == ["intruder"]
    assert seen(measured, "a", "breach")[-1] == ("shared", "measured", True, 2.5)


def test_a_neighbour_in_another_instance_of_the_device_counts(measured: Store) -> None:
    assert seen(measured, "a", "instances") == [ALONE, ("shared", "measured", True, 1.25)]


def test_a_service_is_compared_at_equal_load_and_its_replicas_share_a_baseline(measured: Store) -> None:
    assert seen(measured, "p1", "load") == [ALONE]
    assert seen(measured, "p2", "load") == [("shared", "measured", True, 1.5), ("shared", "unknown", None, None)]
    assert {row["load"] for row in windows(measured, "p1", "load")} == {"r2", "r4"}


def test_a_queue_is_no_slowdown_of_the_gpu(measured: Store) -> None:
    assert seen(measured, "a", "queue") == [ALONE, ("shared", "measured", False, 1.0)]


def test_another_version_starts_anew_and_an_earlier_one_comes_back(measured: Store) -> None:
    found = {(row["version"], row["state"], row["slowdown"]) for row in windows(measured, "a", "versions")}
    assert found == {(v, state, 1.0) for v in ("v1", "v2") for state in ("exclusive", "shared")}


def test_a_driver_is_a_version_of_everything(measured: Store) -> None:
    assert seen(measured, "a", "driver") == [ALONE, ("shared", "unknown", None, None)]


def test_other_hardware_has_another_baseline(measured: Store) -> None:
    assert seen(measured, "a", "hardware") == [ALONE, ("shared", "unknown", None, None)]


@pytest.mark.parametrize(("number", "channels"), [(n, one[3]) for n, one in enumerate(CONTENDED)])
def test_a_contended_device_is_a_suspicion_and_a_quiet_one_proves_nothing(
    measured: Store, number: int, channels: list[str]
) -> None:
    cluster = f"contended {number}"
    assert windows(measured, "a", cluster)[-1]["channels"] == channels
    expected = ("suspected", True) if channels else ("unknown", None)
    assert seen(measured, "a", cluster)[-1] == ("shared", *expected, None)


def test_a_slower_clock_counts_only_with_its_reason(measured: Store) -> None:
    found = [row["channels"] for row in windows(measured, "a", "clock")]
    assert (found[-11], found[-1]) == ([], ["clock"])


def test_own_utilization_that_falls_with_work_at_hand_makes_it_likely(measured: Store) -> None:
    assert seen(measured, "a", "likely")[-1] == ("shared", "likely", True, None)


def test_devices_that_nobody_can_share_and_that_tell_nothing_have_no_windows(measured: Store) -> None:
    assert windows(measured, "a", "whole") == []


def test_jitter_needs_three_hundred_observations(measured: Store) -> None:
    assert round(windows(measured, "a", "tail")[-1]["jitter"], 6) == 2.0
    assert {row["jitter"] for row in windows(measured, "a", "short tail")} == {None}


def test_measuring_in_steps_and_again_changes_nothing(shared_store: Store) -> None:
    with shared_store.scratch() as facts:
        put(facts, beside())
        for minutes in (30, 0):
            measure(facts, ago(minutes))
        first = seen(facts, "a")
        assert measure(facts, NOON) == 0
        measure(facts, NOON, since=ago(1000))
        assert seen(facts, "a") == first == [ALONE, ("shared", "measured", True, 2.0)]
        tables = facts.rows("SELECT name FROM system.tables WHERE match(name, '^interference_[0-9a-f]{32}$')")
        assert tables == []
