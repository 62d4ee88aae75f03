"""Who did what on a device: measured where it was, unknown where nobody can say, and never spread or repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.attribution.attribute import Cycle, attribute, without_device
from collectors.attribution.cgroup import Owner
from collectors.attribution.places import Allocation, Allocations, Missing, Place
from collectors.attribution.processes import Owners, Process
from collectors.readings import Collected, DeviceReading, ProcessReading, Reading, Row
from ingest.check_rows import check_rows
from warehouse.records import RECORD_TYPES, SAMPLE_STATES

NOW = datetime(2026, 11, 3, 12, 0, 10, tzinfo=UTC)
CYCLE = Cycle(NOW, 10.0, "east", "node-1")
GPU, MIG = "GPU-5f0a1c22-90bb-4a1e-8d3c-2b7e6a9f0d11", "MIG-0c1d2e3f-1111-5222-8333-444455556666"
GIB = 1 << 30
HERE = Place(GPU)


def ok(value: float, source: str = "nvml") -> Reading:
    return Reading("ok", value, source)


def process(pid: int, activity: float | Reading, memory: float | Reading = GIB, **more: Any) -> ProcessReading:
    activity = activity if isinstance(activity, Reading) else Reading("ok" if activity else "idle", activity)
    return ProcessReading(pid, activity, memory if isinstance(memory, Reading) else ok(memory), **more)


def device(
    readings: Mapping[str, Reading] | float = 0.5, *processes: ProcessReading, partition: str = "", state: str = ""
) -> DeviceReading:
    if isinstance(readings, float):
        readings = {"gpu_utilization": ok(readings)}
    listed: Any = state or ("ok" if processes else "idle")
    return DeviceReading(GPU, partition, readings=readings, processes=processes, processes_state=listed)


def owners(commands: Mapping[int, str] | None = None, **pids: str) -> Owners:
    """owners(p40="train", p41="?vanished", p42="-host"): a pod's, unknown and nobody's, with the reason."""
    found = {}
    for name, who in pids.items():
        pid = int(name[1:])
        owner = Owner("pod", who)
        if who[0] in "?-":
            owner = Owner("unknown" if who[0] == "?" else "none", reason=who[1:])
        found[pid] = Process(pid, owner, command=(commands or {}).get(pid, "python3"))
    return Owners("ok", found)


def allocated(*workloads: str, place: Place = HERE, **more: Any) -> Allocations:
    return Allocations(tuple(Allocation(one, place) for one in workloads), frozenset({"pod"}), **more)


def samples(collected: Collected) -> dict[str, Row]:
    """By workload; each must fit the contract and be there once."""
    for record, rows in collected.rows.items():
        checked = check_rows(RECORD_TYPES[record], rows, NOW)
        assert not checked.bad, (record, checked.example)
        keys = Counter(tuple(row.get(name, "") for name in RECORD_TYPES[record].key) for row in rows)
        assert max(keys.values()) == 1, keys
    return {row["workload_id"]: row for row in collected.rows["samples"]}


def metrics(collected: Collected) -> dict[tuple[str, str], tuple[str, float | None]]:
    rows = collected.rows.get("metrics", [])
    return {(row["metric"], row["workload_id"]): (row["state"], row.get("value")) for row in rows}


def reported(row: Row) -> tuple[str, float | None]:
    return row["state"], row.get("utilization")


def test_each_workloads_activity_is_its_processes_and_the_rest_is_nobodys() -> None:
    reading = device(0.9, process(40, 0.3), process(41, 0.2), process(42, 0.1))
    found = attribute(reading, owners(p40="train", p41="train", p42="serve"), allocated("train", "serve"), CYCLE)
    rows = samples(found)
    assert reported(rows[""]) == ("ok", 0.9)
    assert reported(rows["train"]) == ("ok", 0.5)
    assert reported(rows["serve"]) == ("ok", 0.1)
    assert rows["train"]["memory_used_bytes"] == 2 * GIB
    assert rows["train"]["utilization_source"] == "process_activity"
    state, residual = metrics(found)["unattributed_activity", ""]
    assert (state, residual) == ("ok", pytest.approx(0.3))
    assert "findings" not in found.rows


def test_memory_held_without_activity_is_idle_and_still_seen() -> None:
    readings = {
        "gpu_utilization": ok(0.0),
        "memory_used_bytes": ok(72.4 * GIB),
        "memory_total_bytes": ok(80 * GIB),
        "power_watts": ok(113.6),
    }
    found = attribute(device(readings, process(40, 0.0, 72 * GIB)), owners(p40="vllm"), allocated("vllm"), CYCLE)
    rows = samples(found)
    assert reported(rows["vllm"]) == ("idle", 0.0)
    assert rows["vllm"]["memory_used_bytes"] == 72 * GIB
    assert reported(rows[""]) == ("ok", 0.0)
    assert rows[""]["memory_used_bytes"] == int(72.4 * GIB)
    assert rows[""]["power_watts"] == 113.6


def test_an_allocation_without_processes_is_idle_and_names_its_device() -> None:
    rows = samples(attribute(device(0.0), owners(), allocated("train"), CYCLE))
    assert reported(rows["train"]) == ("idle", 0.0)
    assert (rows["train"]["device_id"], rows["train"]["memory_used_bytes"]) == (GPU, 0)
    assert reported(rows[""]) == ("idle", 0.0)


def test_power_and_energy_of_a_board_are_reported_once_and_not_for_each_instance() -> None:
    board = {
        "power_watts": ok(52.7),
        "energy_joules": ok(527.0),
        "temperature_celsius": ok(41.0),
        "sm_clock_hertz": ok(1e9),
    }
    parts = [f"MIG-{n}" for n in range(4)]
    found = attribute(device({**board, "gpu_utilization": ok(0.0)}), owners(), Allocations(), CYCLE, partitioned=True)
    for number, part in enumerate(parts):
        activity = {"graphics_active": ok(number / 10), "memory_used_bytes": ok(number * GIB)}
        found += attribute(device({**board, **activity}, partition=part), owners(), Allocations(), CYCLE)
    rows = found.rows["samples"]
    assert sum(row.get("power_watts", 0) for row in rows) == 52.7
    assert sum(row.get("energy_joules", 0) for row in rows) == 527.0
    assert [row["temperature_celsius"] for row in rows if "temperature_celsius" in row] == [41.0]
    assert sum(row["metric"] == "sm_clock_hertz" for row in found.rows["metrics"]) == 1
    assert found.dropped["board_reading_on_partition"] == 4 * len(board)
    assert [row.get("utilization") for row in rows[1:]] == [0.0, 0.1, 0.2, 0.3]
    assert [row["memory_used_bytes"] for row in rows[1:]] == [0, GIB, 2 * GIB, 3 * GIB]
    assert reported(rows[0]) == ("unsupported", None)  # gpu_utilization under MIG is a false 0


def test_time_slices_have_their_own_processes_and_the_device_is_counted_once() -> None:
    reading = device(0.714, process(40, 0.5), process(41, 0.2))
    found = attribute(reading, owners(p40="a", p41="b"), allocated("a", "b", "c"), CYCLE)
    rows = samples(found)
    assert reported(rows[""]) == ("ok", 0.714)
    assert {who: reported(rows[who]) for who in "abc"} == {"a": ("ok", 0.5), "b": ("ok", 0.2), "c": ("idle", 0.0)}


def test_time_slices_without_the_hosts_processes_are_unknown() -> None:
    reading = device(0.714, process(40, 0.5), process(41, 0.2))
    found = attribute(reading, Owners("no_permission"), allocated("a", "b", "c"), CYCLE)
    rows = samples(found)
    assert reported(rows[""]) == ("ok", 0.714)
    assert {reported(rows[who]) for who in "abc"} == {("no_permission", None)}
    assert metrics(found)["unattributed_activity", ""] == ("no_permission", None)
    assert found.dropped == {"process_not_the_hosts_proc": 2}


@pytest.mark.parametrize("state", ["unsupported", "no_permission", "blank", "stale"])
def test_a_list_that_cannot_be_believed_makes_everybody_unknown(state: str) -> None:
    found = attribute(device(0.0, state=state), owners(), allocated("train"), CYCLE)
    assert reported(samples(found)["train"]) == (state, None)
    assert "memory_used_bytes" not in samples(found)["train"]


def test_with_mig_processes_tell_memory_but_no_activity() -> None:
    blind = Reading("unsupported")
    reading = device({"sm_active": ok(0.4)}, process(40, blind, 3 * GIB), partition=MIG)
    rows = samples(attribute(reading, owners(p40="a"), allocated("a", "b", place=Place(GPU, MIG)), CYCLE))
    assert reported(rows["a"]) == ("unsupported", None)
    assert rows["a"]["memory_used_bytes"] == 3 * GIB
    assert reported(rows["b"]) == ("idle", 0.0)  # nothing of it is on the instance
    assert (reported(rows[""]), rows[""]["utilization_source"]) == (("ok", 0.4), "sm_active")


def test_a_process_that_vanished_is_counted_and_leaves_its_activity_unattributed() -> None:
    reading = device(0.6, process(40, 0.2), process(41, 0.4))
    found = attribute(reading, owners(p40="a", p41="?vanished"), allocated("a", "b"), CYCLE)
    rows = samples(found)
    assert reported(rows["a"]) == ("ok", 0.2)
    assert reported(rows["b"]) == ("blank", None)  # it may have been b's
    assert metrics(found)["unattributed_activity", ""] == ("ok", pytest.approx(0.4))
    assert found.dropped == {"process_vanished": 1}
    assert "findings" not in found.rows


def test_an_idle_process_that_vanished_leaves_no_doubt() -> None:
    found = attribute(device(0.0, process(41, 0.0)), owners(p41="?vanished"), allocated("b"), CYCLE)
    assert reported(samples(found)["b"]) == ("idle", 0.0)


def test_a_busy_device_whose_list_is_empty_is_no_proof_of_idleness() -> None:
    found = attribute(device(0.9), owners(), allocated("a"), CYCLE)
    assert reported(samples(found)["a"]) == ("blank", None)
    assert metrics(found)["unattributed_activity", ""] == ("ok", 0.9)


def test_an_mps_server_that_works_leaves_its_clients_in_doubt_unless_they_work_themselves() -> None:
    reading = device(0.8, process(7, 0.6), process(40, 0.0), process(41, 0.2))
    whose = owners({7: "nvidia-cuda-mps"}, p7="-host", p40="a", p41="b")
    rows = samples(attribute(reading, whose, allocated("a", "b"), CYCLE))
    assert reported(rows["a"]) == ("blank", None)
    assert reported(rows["b"]) == ("ok", 0.2)


def test_use_without_an_allocation_is_a_breach_and_does_not_take_the_device() -> None:
    reading = device(0.9, process(40, 0.4), process(41, 0.3, 5 * GIB), process(42, 0.2))
    whose = owners({41: "miner"}, p40="train", p41="intruder", p42="-login_session")
    found = attribute(reading, whose, allocated("train", names={"intruder": "ml/nb-7"}), CYCLE)
    assert set(samples(found)) == {"", "train"}
    assert metrics(found)["process_activity", "intruder"] == ("ok", 0.3)
    assert metrics(found)["memory_used_bytes", "intruder"] == ("ok", 5 * GIB)
    breaches = {row["workload_id"]: row for row in found.rows["findings"]}
    assert breaches["intruder"]["message"] == "pid 41 (miner) of pod ml/nb-7 is on it without an allocation"
    assert breaches[""]["message"] == "pid 42 (python3) of a login session is on it without an allocation"
    assert {(row["finding"], row["severity"], row["device_id"]) for row in breaches.values()} == {
        ("process_without_allocation", "warning", GPU)
    }
    assert metrics(found)["unattributed_activity", ""] == ("ok", pytest.approx(0.2))


def test_services_and_displays_are_reported_without_a_warning() -> None:
    reading = device(0.1, process(5, 0.0, kind="graphics"), process(6, 0.0), process(7, 0.0))
    whose = owners({5: "Xorg", 6: "nvidia-cuda-mps", 7: "nv-hostengine"}, p5="-host", p6="-host", p7="monitoring")
    found = attribute(reading, whose, allocated("train"), CYCLE)
    assert [row["severity"] for row in found.rows["findings"]] == ["info"] * 3


def test_where_allocations_are_unknown_no_process_is_in_breach_and_each_has_a_row() -> None:
    reading = device(0.5, process(40, 0.5), process(41, 0.0))
    found = attribute(reading, owners(p40="train", p41="-host"), Allocations(), CYCLE)
    assert "findings" not in found.rows
    assert reported(samples(found)["train"]) == ("ok", 0.5)


def test_a_slurm_job_is_judged_only_by_slurms_allocations() -> None:
    reading = device(0.5, process(40, 0.5))
    whose = Owners("ok", {40: Process(40, Owner("slurm", "4711"))})
    assert reported(samples(attribute(reading, whose, allocated("pod"), CYCLE))["4711"]) == ("ok", 0.5)
    slurms = Allocations(complete_for=frozenset({"slurm"}))
    assert "4711" not in samples(attribute(reading, whose, slurms, CYCLE))


@pytest.mark.parametrize("more", [{"unplaced": frozenset({"late"})}, {"contested": frozenset({HERE})}])
def test_who_may_have_been_given_the_device_is_not_in_breach(more: dict[str, Any]) -> None:
    found = attribute(device(0.5, process(40, 0.5)), owners(p40="late"), allocated("train", **more), CYCLE)
    assert "findings" not in found.rows
    assert reported(samples(found)["late"]) == ("ok", 0.5)


def test_an_instance_of_the_neighbours_is_not_his_who_holds_another() -> None:
    reading = device({"sm_active": ok(0.4)}, process(40, Reading("unsupported")), partition="MIG-other")
    found = attribute(reading, owners(p40="a"), allocated("a", place=Place(GPU, MIG)), CYCLE)
    assert [row["finding"] for row in found.rows["findings"]] == ["process_without_allocation"]


def test_shares_are_reported_where_they_are_known() -> None:
    held = (Allocation("a", HERE, 2, 4, "nvidia.com/gpu"), Allocation("b", HERE, 1, None, "nvidia.com/gpu"))
    found = attribute(device(0.0), owners(), Allocations(held, frozenset({"pod"})), CYCLE)
    assert metrics(found)["allocated_share", "a"] == ("ok", 0.5)
    assert ("allocated_share", "b") not in metrics(found)


def test_a_static_pods_processes_are_its_mirrors() -> None:
    known = allocated("api-uid", aliases={"hash": "api-uid"})
    found = attribute(device(0.5, process(40, 0.5)), owners(p40="hash"), known, CYCLE)
    assert reported(samples(found)["api-uid"]) == ("ok", 0.5)
    assert "findings" not in found.rows


@pytest.mark.parametrize(
    ("readings", "divided", "expected"),
    [
        ({"sm_active": ok(0.2), "gpu_utilization": ok(0.9)}, False, ("ok", 0.2, "sm_active")),
        ({"sm_active": Reading("unsupported"), "gpu_utilization": ok(0.9)}, False, ("ok", 0.9, "gpu_utilization")),
        ({"graphics_active": ok(0.3), "gpu_utilization": ok(0.9)}, False, ("ok", 0.9, "gpu_utilization")),
        ({"sm_active": Reading("blank"), "graphics_active": ok(0.3)}, True, ("ok", 0.3, "graphics_active")),
        ({"gpu_utilization": ok(0.0)}, True, ("unsupported", None, None)),
        ({"sm_active": Reading("unsupported"), "gpu_utilization": Reading("stale")}, False, ("stale", None, None)),
        ({"gpu_utilization": ok(8088.0)}, False, ("blank", None, None)),
        ({"gpu_utilization": ok(float("nan"))}, False, ("blank", None, None)),
        ({"gpu_utilization": ok(1.0004)}, False, ("ok", 1.0, "gpu_utilization")),
        ({}, False, ("blank", None, None)),
    ],
)  # fmt: skip
def test_the_best_measure_that_can_be_believed_is_the_devices(
    readings: dict[str, Reading], divided: bool, expected: tuple[str, float | None, str | None]
) -> None:
    row = samples(attribute(device(readings), owners(), Allocations(), CYCLE, partitioned=divided))[""]
    assert (row["state"], row.get("utilization"), row.get("utilization_source")) == expected


def test_readings_without_a_column_or_a_value_are_metrics_with_their_state() -> None:
    readings = {
        "gpu_utilization": ok(0.5, "samples"),
        "tensor_active": Reading("unsupported"),
        "power_watts": Reading("no_permission"),
        "pcie_replay_total": ok(3.0),
        "sm_active": ok(0.25),
    }
    found = attribute(device(readings), owners(), Allocations(), CYCLE)
    assert samples(found)[""]["sm_active"] == 0.25
    reported_metrics = metrics(found)
    del reported_metrics["unattributed_activity", ""]
    assert reported_metrics == {
        ("gpu_utilization", ""): ("ok", 0.5),
        ("tensor_active", ""): ("unsupported", None),
        ("power_watts", ""): ("no_permission", None),
        ("pcie_replay_total", ""): ("ok", 3.0),
    }


def test_a_pid_in_several_lists_is_one_process() -> None:
    one = process(40, Reading("unsupported"), 2 * GIB)
    other = process(40, 0.25, Reading("blank"), kind="graphics")
    row = samples(attribute(device(0.5, one, other), owners(p40="a"), allocated("a"), CYCLE))["a"]
    assert (reported(row), row["memory_used_bytes"]) == (("ok", 0.25), 2 * GIB)


def test_memory_is_unknown_if_that_of_one_process_is() -> None:
    reading = device(0.5, process(40, 0.25), process(41, 0.25, Reading("blank")))
    row = samples(attribute(reading, owners(p40="a", p41="a"), allocated("a"), CYCLE))["a"]
    assert reported(row) == ("ok", 0.5)
    assert "memory_used_bytes" not in row


def test_an_allocation_of_a_device_that_is_not_there_is_a_finding() -> None:
    found = without_device([Missing("train", "GPU-gone", "nvidia.com/gpu")], CYCLE)
    row = found.rows["findings"][0]
    assert (row["finding"], row["workload_id"], row["device_id"]) == ("allocation_without_device", "train", "GPU-gone")
    assert not check_rows(RECORD_TYPES["findings"], [row], NOW).bad


_states = st.sampled_from(SAMPLE_STATES)
_values = st.none() | st.sampled_from([0.0, 0.3, 1.0, 1.0005, 2.0**47, 2.0**63, 3.5e38, 808334905.0]) | st.floats()
_readings = st.builds(Reading, _states, _values, st.just("x"))
_names = st.sampled_from(
    ["sm_active", "graphics_active", "gpu_utilization", "tensor_active", "memory_used_bytes", "memory_total_bytes",
     "power_watts", "energy_joules", "temperature_celsius", "sm_clock_hertz", "xid_last"]
)  # fmt: skip
_who = st.sampled_from(["train", "serve", "intruder", "?vanished", "?pid_reused", "-host"])


@given(
    readings=st.dictionaries(_names, _readings),
    processes=st.lists(st.builds(ProcessReading, st.integers(1, 6), _readings, _readings), max_size=6),
    state=_states,
    partition=st.sampled_from(["", MIG]),
    whose=st.lists(_who, min_size=6, max_size=6),
    host=st.booleans(),
    known=st.booleans(),
    partitioned=st.booleans(),
)
def test_whatever_is_read_the_rows_fit_the_contract_and_nothing_unknown_is_zero(
    readings: dict[str, Reading],
    processes: list[ProcessReading],
    state: Any,
    partition: str,
    whose: list[str],
    host: bool,
    known: bool,
    partitioned: bool,
) -> None:
    reading = DeviceReading(GPU, partition, readings=readings, processes=tuple(processes), processes_state=state)
    owned = owners(**{f"p{pid}": who for pid, who in enumerate(whose, 1)}) if host else Owners("no_permission")
    place = Place(GPU, partition)
    held = allocated("train", "serve", place=place) if known else Allocations()
    found = attribute(reading, owned, held, CYCLE, partitioned=partitioned and not partition)
    rows = samples(found)
    assert ("train" in rows and "serve" in rows) or not known
    for workload, row in rows.items():
        assert (row["state"] in ("ok", "idle")) == (row.get("utilization") is not None)
        assert (row["device_id"], row["partition_id"]) == place
        if workload:
            assert "power_watts" not in row
            assert (host and state in ("ok", "idle")) or row.get("utilization") is None
        if workload and row["state"] == "idle":
            mine = [one for one in processes if whose[one.pid - 1] == workload]
            strangers = [one for one in processes if whose[one.pid - 1][0] == "?"]
            assert not any(one.activity.usable and (one.activity.value or 0) > 0 for one in [*mine, *strangers])
    for row in found.rows.get("metrics", []):
        assert (row["state"] in ("ok", "idle")) == (row.get("value") is not None)
    residual = metrics(found).get(("unattributed_activity", ""))
    if residual and residual[1] is not None:
        assert 0 <= residual[1] <= 1
