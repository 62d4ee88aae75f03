"""The collector on each kind of board, and through everything that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from collectors.nvml import xids
from collectors.nvml.collector import NvmlCollector, NvmlCycle
from collectors.nvml.expected import PROCESSES, expected
from collectors.readings import DeviceReading
from tests.collectors.nvml.fake_nvml import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    MISMATCH,
    NO_PERMISSION,
    NOT_SUPPORTED,
    RESET_REQUIRED,
    UNINITIALIZED,
    FakeDriver,
    FakeGpu,
    FakeMig,
    FakeProcess,
    ada,
    ampere,
    busy_node,
    cut,
    hopper,
    installed,
    turing,
)
from tests.patience import until
from warehouse.records import DEVICES, FINDINGS

Boards = Any


@pytest.fixture
def driver() -> Iterator[FakeDriver]:
    with installed(FakeDriver(wait_cap=0.01)) as driver:
        yield driver


@pytest.fixture
def collector(driver: FakeDriver) -> Iterator[NvmlCollector]:
    collector = NvmlCollector("east", "node-1", pool="train", watch_xids=False)
    yield collector
    collector.close()


def cycle(collector: NvmlCollector, driver: FakeDriver, seconds: float = 10) -> NvmlCycle:
    driver.advance(seconds)
    return collector.collect(driver.at)


def findings(of: NvmlCycle) -> list[tuple[str, str]]:
    return [(row["finding"], row["device_id"]) for row in of.collected.rows.get("findings", [])]


def whole(of: NvmlCycle, index: int = 0) -> DeviceReading:
    return next(one for one in of.readings if one.index == index and not one.partition_id)


def states(of: DeviceReading, *metrics: str) -> set[str]:
    return {of.readings[metric].state for metric in metrics}


# --- boards that work ---


@pytest.mark.parametrize(
    ("board", "mode"),
    [
        (turing(), "whole"),
        (ampere(), "whole"),
        (ada(), "whole"),
        (hopper(), "whole"),
        (cut(ampere(), (3, 40), (1, 10)), "mig_parent"),
        (cut(hopper(), (3, 40), (1, 10), (1, 10), holes=(0, 2)), "mig_parent"),
    ],
    ids=["turing", "ampere", "ada", "hopper", "ampere-mig", "hopper-mig"],
)
def test_a_healthy_board_has_everything_expected_and_no_finding(
    driver: FakeDriver, collector: NvmlCollector, board: FakeGpu, mode: str
) -> None:
    driver.gpus = [board]
    found = [cycle(collector, driver) for _ in range(5)]
    assert [findings(one) for one in found] == [[]] * 5
    names = {6: "turing", 7: "ampere", 8: "ada", 9: "hopper"}
    wanted = expected(names[board.architecture], mode) - {PROCESSES}
    assert wanted
    assert states(whole(found[-1]), *wanted) == {"ok"}
    partitions = [one for one in found[-1].readings if one.partition_id]
    assert len(partitions) == len(board.migs)
    for one in partitions:
        assert states(one, *(expected(names[board.architecture], "mig") - {PROCESSES})) == {"ok"}


def test_no_reading_without_a_state_or_with_a_value_it_may_not_have(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    driver.gpus = [turing(0), ampere(1), ada(2), hopper(3), cut(ampere(4), (1, 10)), cut(hopper(5), (1, 10))]
    driver.gpus[0].fields = {}
    names = (Path(__file__).resolve().parents[3] / "docs" / "telemetry.md").read_text()
    for _ in range(3):
        for one in cycle(collector, driver).readings:
            for metric, reading in one.readings.items():
                assert f"`{metric}`" in names, metric
                assert (reading.value is not None) == (reading.state in ("ok", "idle")), metric
                assert reading.source


def test_mig_parts_are_unsupported_where_nvml_is_silent_and_never_zero(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    board = cut(ampere(), (3, 40), (1, 10))
    board.migs[0].processes = [FakeProcess(77, 9 << 30, sm=90.0)]
    driver.gpus = [board]
    cycle(collector, driver)
    found = cycle(collector, driver)
    parent, first, second = found.readings
    assert states(parent, "gpu_utilization", "encoder_utilization", "sm_active") == {"unsupported"}
    assert parent.processes_state == "unsupported"
    assert parent.readings["power_watts"].value == pytest.approx(80, rel=0.01)
    assert "power_watts" not in first.readings
    assert states(first, "sm_active", "graphics_active") == {"unsupported"}
    assert (first.partition_profile, first.units, parent.units) == ("3g.40gb", 3, 7)
    assert first.readings["memory_used_bytes"].value == 9 << 30
    assert [(one.pid, one.activity.state) for one in first.processes] == [(77, "unsupported")]
    assert (second.processes, second.processes_state) == ((), "idle")


def test_the_power_of_a_board_under_mig_is_reported_once(driver: FakeDriver, collector: NvmlCollector) -> None:
    """An exporter that repeats it for each instance makes 52.7 W into 210.8 W."""
    a30 = FakeGpu(0, "NVIDIA A30", 7, 24)
    a30.slices, a30.watts = 4, 52.7
    driver.gpus = [cut(a30, (1, 6), (1, 6), (1, 6), (1, 6))]
    cycle(collector, driver)
    found = cycle(collector, driver)
    watts = [one.readings["power_watts"].value for one in found.readings if "power_watts" in one.readings]
    assert watts == [pytest.approx(52.7, rel=0.001)]


def test_compute_instances_that_share_a_gpu_instance_have_no_activity_of_their_own(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    board = hopper()
    driver.gpus = [board]
    driver.cut(board, FakeMig("MIG-a", 1, 3, 40, 0, 1), FakeMig("MIG-b", 1, 3, 40, 1, 2))
    board.migs[0].gpm = {2: 50.0}
    cycle(collector, driver)
    found = cycle(collector, driver)
    assert [one.readings["sm_active"].state for one in found.readings[1:]] == ["unsupported", "unsupported"]


def test_a_busy_hopper_over_a_cycle(driver: FakeDriver, collector: NvmlCollector) -> None:
    gpu = hopper()
    start = driver.now
    gpu.busy = lambda at: 100.0 if int(at - start) % 2 == 0 else 0.0
    gpu.watts = 600.0
    gpu.rates[74] = 0.5e9
    gpu.processes = [FakeProcess(42, 60 << 30, sm=50.0), FakeProcess(43, 1 << 30)]
    driver.gpus = [gpu]
    cycle(collector, driver)
    found = whole(cycle(collector, driver))
    value = {metric: reading.value for metric, reading in found.readings.items()}
    assert value["gpu_utilization"] == pytest.approx(0.5, abs=0.02)
    assert value["energy_joules"] == pytest.approx(6000)
    assert value["power_watts"] == pytest.approx(600)
    assert value["throttle_power_seconds"] == pytest.approx(5)
    assert value["sm_active"] == 0.8
    assert value["memory_used_bytes"] == 61 << 30
    assert value["sm_clock_hertz"] == 1.41e9
    assert value["ecc_corrected_total"] == 3
    assert [(one.pid, one.activity.value, one.activity.state) for one in found.processes] == [
        (42, 0.5, "ok"),
        (43, 0.0, "idle"),
    ]
    assert value["memory_reserved_bytes"] == 1 << 29


def test_traffic_before_hopper_comes_from_counters(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [ampere()]
    driver.gpus[0].rates[197] = 3e9
    cycle(collector, driver)
    found = whole(cycle(collector, driver)).readings["pcie_transmit_bytes_per_second"]
    assert (found.value, found.source) == (pytest.approx(3e9), "nvml field 197")


def test_power_of_a_board_that_counts_no_energy_is_the_mean_of_its_samples(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    pascal = FakeGpu(0, "Tesla P40", 4, 24)
    start = driver.now
    pascal.watts = lambda at: 100.0 if at <= start + 5 else 200.0
    driver.gpus = [pascal]
    found = whole(cycle(collector, driver))
    assert found.readings["power_watts"].value == pytest.approx(150, abs=2)
    assert found.readings["energy_joules"].state == "unsupported"


def test_a_guest_s_vgpu_is_expected_to_have_less(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [turing()]
    driver.gpus[0].virtual = True
    driver.gpus[0].errors = {"nvmlDeviceGetTotalEnergyConsumption": NOT_SUPPORTED}
    assert [findings(cycle(collector, driver)) for _ in range(4)] == [[]] * 4


# --- rows ---


def test_rows_of_devices_are_written_when_they_change_and_only_then(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    driver.gpus = [hopper(0), hopper(1)]
    found = [cycle(collector, driver) for _ in range(3)]
    assert [len(one.collected.rows.get("devices", [])) for one in found] == [2, 0, 0]
    row = found[0].collected.rows["devices"][0]
    assert row == {
        "ts": found[0].collected.rows["devices"][1]["ts"],
        "cluster": "east",
        "node": "node-1",
        "device_id": driver.gpus[0].uuid,
        "vendor": "nvidia",
        "model": "NVIDIA H100 80GB HBM3",
        "memory_bytes": 80 << 30,
        "units": 1,
        "pool": "train",
        "state": "available",
    }
    assert set(row) <= {column.name for column in DEVICES.columns}
    collector.replicas = 10
    later = cycle(collector, driver)
    assert [one["units"] for one in later.collected.rows["devices"]] == [10, 10]
    assert [one.units for one in later.readings] == [10, 10]


def test_findings_have_the_columns_of_the_contract(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [hopper()]
    cycle(collector, driver)
    driver.gpus[0].fault = GPU_IS_LOST
    rows = cycle(collector, driver).collected.rows["findings"]
    assert rows
    for row in rows:
        assert set(row) == {column.name for column in FINDINGS.columns} - {"workload_id"}


def test_mig_reconfigured_in_the_middle_of_a_run(driver: FakeDriver, collector: NvmlCollector) -> None:
    board = cut(hopper(), (3, 40), (1, 10))
    driver.gpus = [board]
    for _ in range(2):
        before = cycle(collector, driver)
    new = FakeMig("MIG-new", 7, 2, 20)
    new.gpm = {1: 20.0, 2: 20.0, 3: 20.0, 5: 20.0, 10: 20.0}
    driver.cut(board, new)
    first, second = cycle(collector, driver), cycle(collector, driver)
    assert (before.inventory_version, first.inventory_version, second.inventory_version) == (1, 2, 2)
    assert findings(first) == [("inventory_changed", board.uuid)]
    assert findings(second) == []
    assert first.readings[1].readings["sm_active"].state == "blank"
    assert second.readings[1].readings["sm_active"].value == pytest.approx(0.2)
    assert len(first.collected.rows["devices"]) == 1
    assert [[part.uuid for part in one.devices[0].partitions] for one in (before, first)] == [
        [one.partition_id for one in before.readings[1:]],
        ["MIG-new"],
    ]
    assert len(driver.samples) == 4


# --- what goes wrong ---


@pytest.mark.parametrize(("code", "finding"), [(GPU_IS_LOST, "gpu_lost"), (RESET_REQUIRED, "reset_required")])
@pytest.mark.parametrize("remembers", [False, True], ids=["handle lost", "handle kept"])
def test_a_lost_gpu_is_reported_once_as_out_of_service_and_has_blank_readings(
    driver: FakeDriver, collector: NvmlCollector, code: int, finding: str, remembers: bool
) -> None:
    """A library may still answer from memory who the GPU is, and then nothing about it."""
    driver.gpus = [hopper(0), hopper(1)]
    if remembers:
        driver.cached = {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMigMode"}
    lost = driver.gpus[1].uuid
    for _ in range(2):
        cycle(collector, driver)
    driver.gpus[1].fault = code
    found = [cycle(collector, driver) for _ in range(3)]
    assert [findings(one) for one in found] == [[(finding, lost), ("inventory_changed", lost)], [], []]
    rows = [[(row["device_id"], row["state"]) for row in one.collected.rows.get("devices", [])] for one in found]
    assert rows == [[(lost, "unavailable")], [], []]
    for one in found:
        readings = whole(one, 1).readings
        assert readings
        assert {(reading.state, reading.value) for reading in readings.values()} == {("blank", None)}
        assert whole(one, 1).processes_state == "blank"
        assert whole(one, 0).readings["energy_joules"].state == "ok"
    driver.gpus[1].fault = 0
    driver.gpus[1].reload_driver()
    back = cycle(collector, driver)
    assert [(row["device_id"], row["state"]) for row in back.collected.rows["devices"]] == [(lost, "available")]
    assert whole(back, 1).readings["energy_joules"].state == "blank"
    assert whole(cycle(collector, driver), 1).readings["energy_joules"].value == pytest.approx(800)


def test_what_a_lost_gpu_counted_meanwhile_is_not_put_into_one_interval(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    """It answers again as if nothing had been, its counters three intervals on; and a second loss is a new finding."""
    driver.gpus = [hopper()]
    driver.gpus[0].rates[74] = 1e8
    for _ in range(2):
        cycle(collector, driver)
    for _ in range(2):
        driver.gpus[0].fault = GPU_IS_LOST
        lost = [findings(cycle(collector, driver)) for _ in range(2)]
        assert ("gpu_lost", driver.gpus[0].uuid) in lost[0]
        assert lost[1] == []
        driver.gpus[0].fault = 0
        back = whole(cycle(collector, driver))
        assert states(back, "energy_joules", "throttle_power_seconds", "sm_active") == {"blank"}
        assert back.readings["power_watts"].source == "nvmlDeviceGetSamples"
        after = whole(cycle(collector, driver)).readings
        assert after["throttle_power_seconds"].value == pytest.approx(1)


def test_a_gpu_lost_in_the_middle_of_its_questions(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [hopper()]
    cycle(collector, driver)
    driver.gpus[0].errors["nvmlDeviceGetProcessUtilization"] = GPU_IS_LOST
    found = cycle(collector, driver)
    assert findings(found)[0] == ("gpu_lost", driver.gpus[0].uuid)
    assert len(found.readings) == 1
    assert {reading.state for reading in found.readings[0].readings.values()} == {"blank"}


def test_a_lost_gpu_under_mig_leaves_its_instances_blank(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [cut(hopper(), (3, 40), (1, 10))]
    cycle(collector, driver)
    driver.gpus[0].fault = GPU_IS_LOST
    found = cycle(collector, driver)
    assert [one.partition_profile for one in found.readings] == ["", "3g.40gb", "1g.10gb"]
    assert {reading.state for one in found.readings for reading in one.readings.values()} == {"blank"}


def test_the_driver_asks_for_a_reset(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [hopper()]
    cycle(collector, driver)
    driver.gpus[0].fields[230] = (1, 4.0)
    found = [cycle(collector, driver) for _ in range(3)]
    assert [findings(one) for one in found] == [[("reset_required", driver.gpus[0].uuid)], [], []]
    assert found[0].collected.rows["findings"][0]["message"] == "the driver asks: drain, then reset the GPU"
    assert "devices" not in found[0].collected.rows


def test_a_device_that_went_missing_was_removed(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [hopper(0), hopper(1)]
    cycle(collector, driver)
    gone = driver.gpus.pop().uuid
    found = cycle(collector, driver)
    assert [(row["device_id"], row["state"]) for row in found.collected.rows["devices"]] == [(gone, "removed")]
    assert len(found.readings) == 1


@pytest.mark.parametrize(
    ("code", "state", "restart"),
    [(DRIVER_NOT_LOADED, ["unavailable"], False), (MISMATCH, [], True), (UNINITIALIZED, [], False)],
)
def test_a_library_that_goes_away_is_reported_once_and_comes_back(
    driver: FakeDriver, collector: NvmlCollector, code: int, state: list[str], restart: bool
) -> None:
    driver.gpus = [hopper()]
    for _ in range(2):
        cycle(collector, driver)
    driver.errors = {"nvmlInitWithFlags": code, "nvmlDeviceGetCount_v2": code}
    found = [cycle(collector, driver) for _ in range(3)]
    said = [one for one in findings(found[0]) if one[0] == "source_unreachable"]
    assert said == [("source_unreachable", "")]
    assert findings(found[1]) == findings(found[2]) == []
    assert [row["state"] for row in found[0].collected.rows.get("devices", [])] == state
    assert [one.restart_needed for one in found] == [restart] * 3
    for one in found:
        assert {reading.state for reading in whole(one).readings.values()} == {"blank"}
    driver.errors = {}
    driver.gpus[0].reload_driver()
    back = cycle(collector, driver)
    assert states(whole(back), "energy_joules", "sm_active", "throttle_power_seconds") == {"blank"}
    assert states(whole(back), "gpu_utilization", "memory_used_bytes") == {"ok"}
    again = cycle(collector, driver)
    assert states(whole(again), "energy_joules", "sm_active", "throttle_power_seconds") == {"ok"}
    driver.errors = {"nvmlInitWithFlags": code, "nvmlDeviceGetCount_v2": code}
    assert ("source_unreachable", "") in findings(cycle(collector, driver))


def test_a_node_without_the_library_says_so_once_and_has_no_readings(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    driver.errors["nvmlInitWithFlags"] = 12
    found = [cycle(collector, driver) for _ in range(3)]
    assert [one.readings for one in found] == [[], [], []]
    assert [findings(one) for one in found] == [[("source_unreachable", "")], [], []]
    assert "libnvidia-ml.so.1" in found[0].collected.rows["findings"][0]["message"]


def test_what_may_not_be_read_is_a_finding_and_not_zero(driver: FakeDriver, collector: NvmlCollector) -> None:
    gpu = hopper()
    gpu.processes = [FakeProcess(1, sm=50.0)]
    gpu.errors = {
        "nvmlGpmSampleGet": NO_PERMISSION,
        "nvmlDeviceGetComputeRunningProcesses_v3": NO_PERMISSION,
    }
    driver.gpus = [gpu]
    found = [cycle(collector, driver) for _ in range(4)]
    assert [findings(one) for one in found] == [[("no_permission", gpu.uuid)], [], [], []]
    message = found[0].collected.rows["findings"][0]["message"]
    assert "processes" in message
    assert "sm_active" in message
    assert whole(found[-1]).processes_state == "no_permission"
    assert states(whole(found[-1]), "sm_active") == {"no_permission"}


def test_a_missing_metric_is_reported_once(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.gpus = [ampere()]
    driver.gpus[0].errors = {
        "nvmlDeviceGetEnforcedPowerLimit": NOT_SUPPORTED,
        "nvmlDeviceGetTotalEnergyConsumption": 999,
    }
    found = [cycle(collector, driver) for _ in range(5)]
    uuid = driver.gpus[0].uuid
    assert [findings(one) for one in found] == [[("metric_missing", uuid)], [], [("metric_missing", uuid)], [], []]
    messages = [one.collected.rows["findings"][0]["message"] for one in (found[0], found[2])]
    assert messages[0] == "expected of ampere, whole, and has no value: power_limit_watts (unsupported)"
    assert messages[1].endswith("energy_joules (blank), energy_joules_total (blank)")


def test_an_old_driver_without_newer_functions_still_gives_what_it_has(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    driver.missing = {
        "nvmlDeviceGetTemperatureV",
        "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetMPSComputeRunningProcesses_v3",
        "nvmlGpmQueryDeviceSupport",
        "nvmlDeviceGetVirtualizationMode",
    }
    driver.gpus = [ampere()]
    cycle(collector, driver)
    found = whole(cycle(collector, driver))
    assert found.readings["temperature_celsius"].value == 51
    assert found.readings["memory_reserved_bytes"].state == "unsupported"
    assert found.readings["sm_active"].state == "unsupported"
    assert found.processes_state == "idle"


# --- counters and time ---


def test_energy_adds_up_over_cycles_of_any_length(driver: FakeDriver, collector: NvmlCollector) -> None:
    gpu = hopper()
    gpu.watts = 321.0
    driver.gpus = [gpu]
    cycle(collector, driver)
    lengths = [10, 7.5, 33, 600, 1]
    joules = [whole(cycle(collector, driver, seconds)).readings["energy_joules"].value for seconds in lengths]
    assert sum(one or 0 for one in joules) == pytest.approx(321 * sum(lengths), rel=1e-6)
    assert joules == [pytest.approx(321 * seconds, rel=1e-3) for seconds in lengths]


def test_a_driver_reloaded_between_two_cycles_gives_no_negative_and_no_jump(
    driver: FakeDriver, collector: NvmlCollector
) -> None:
    gpu = hopper()
    gpu.rates[74] = 1e8
    driver.gpus = [gpu]
    for _ in range(2):
        cycle(collector, driver)
    gpu.reload_driver()
    found = whole(cycle(collector, driver))
    assert states(found, "energy_joules", "throttle_power_seconds") == {"blank"}
    assert found.readings["energy_joules_total"].value == pytest.approx(800)
    assert found.readings["power_watts"].value == pytest.approx(80)
    assert states(whole(cycle(collector, driver)), "energy_joules", "throttle_power_seconds") == {"ok"}


@pytest.mark.parametrize("step", [-7200, 7200])
def test_a_clock_that_jumps_starts_over(driver: FakeDriver, collector: NvmlCollector, step: float) -> None:
    gpu = hopper()
    gpu.processes = [FakeProcess(1, sm=40.0, born=driver.now - 10_000)]
    driver.gpus = [gpu]
    for _ in range(2):
        cycle(collector, driver)
    driver.now += step
    jumped = cycle(collector, driver)
    assert findings(jumped) == [("clock_jumped", "")]
    assert jumped.interval_seconds == 10
    assert states(whole(jumped), "energy_joules", "sm_active") == {"blank"}
    after = cycle(collector, driver)
    assert findings(after) == []
    assert states(whole(after), "energy_joules", "sm_active") == {"ok"}
    assert [one.activity.value for one in whole(after).processes] == [0.4]


def test_a_sample_that_was_seen_is_not_seen_again(driver: FakeDriver, collector: NvmlCollector) -> None:
    """A process that ended; its last sample stays in the driver's buffer for many cycles."""
    gpu = hopper()
    gpu.processes = [FakeProcess(1, sm=90.0, dead=driver.now + 10)]
    driver.gpus = [gpu]
    first = whole(cycle(collector, driver)).processes
    assert [one.pid for one in first] == [1]
    gpu.garbage = [(1, driver.now - 5, 90), (2, driver.now - 3, 4000)]
    later = cycle(collector, driver)
    assert whole(later).processes == ()
    assert whole(later).processes_state == "idle"
    assert later.collected.dropped["process sample outside the interval"] >= 1


def test_a_sample_that_the_driver_publishes_late_is_not_lost(driver: FakeDriver, collector: NvmlCollector) -> None:
    driver.lag = 0.5
    gpu = hopper()
    gpu.processes = [FakeProcess(1, sm=90.0, born=driver.now + 9.6, dead=driver.now + 9.9)]
    driver.gpus = [gpu]
    found = [[one.pid for one in whole(cycle(collector, driver)).processes] for _ in range(3)]
    assert found == [[], [1], []]


def test_a_pid_that_is_used_again_starts_with_its_own_activity(driver: FakeDriver, collector: NvmlCollector) -> None:
    gpu = hopper()
    start = driver.now
    gpu.processes = [FakeProcess(1, 5 << 30, sm=90.0, dead=start + 9), FakeProcess(1, 1 << 30, born=start + 15)]
    driver.gpus = [gpu]
    found = [whole(cycle(collector, driver)).processes for _ in range(3)]
    assert [[(one.pid, one.activity.state, one.memory_bytes.value) for one in each] for each in found] == [
        [(1, "ok", None)],
        [(1, "idle", 1 << 30)],
        [(1, "idle", 1 << 30)],
    ]


def test_now_must_be_aware(collector: NvmlCollector) -> None:
    with pytest.raises(ValueError, match="aware"):
        collector.collect(datetime(2027, 1, 1))  # noqa: DTZ001 - that is the point


# --- XIDs ---


def test_an_xid_is_a_finding_of_its_device_and_instance(driver: FakeDriver) -> None:
    board = cut(hopper(0), (3, 40), (1, 10))
    driver.gpus = [board, hopper(1)]
    collector = NvmlCollector("east", "node-1")
    first = cycle(collector, driver)
    assert (whole(first, 1).readings["xid_last"].state, whole(first, 1).readings["xid_last"].value) == ("idle", 0.0)
    driver.raise_xid(board, 94, gi=8)
    driver.raise_xid(driver.gpus[1], 48)
    cycles = [first]

    def found() -> list[dict[str, Any]]:
        return [row for one in cycles[1:] for row in one.collected.rows.get("findings", [])]

    def both() -> bool:
        cycles.append(cycle(collector, driver))
        return len(found()) == 2

    until(both)
    rows, last = found(), cycles[-1]
    collector.close()
    assert {(row["finding"], row["device_id"], row["partition_id"], row["severity"]) for row in rows} == {
        ("xid", board.uuid, board.migs[1].uuid, "warning"),
        ("xid", driver.gpus[1].uuid, "", "critical"),
    }
    assert whole(last, 1).readings["xid_last"].value == 48
    assert driver.event_sets == {}


def test_a_new_device_is_watched_too(driver: FakeDriver) -> None:
    driver.gpus = [hopper(0)]
    collector = NvmlCollector()
    cycle(collector, driver)
    driver.gpus.append(hopper(1))
    cycle(collector, driver)
    (events,) = driver.event_sets.values()
    assert [gpu.index for gpu in events.devices] == [0, 1]
    collector.close()


def test_xids_that_may_not_be_waited_for_are_a_finding(driver: FakeDriver) -> None:
    driver.gpus = [hopper()]
    driver.gpus[0].errors["nvmlDeviceRegisterEvents"] = NO_PERMISSION
    collector = NvmlCollector()
    found = [cycle(collector, driver) for _ in range(2)]
    collector.close()
    assert [findings(one) for one in found] == [[("no_permission", driver.gpus[0].uuid)], []]
    assert whole(found[1]).readings["xid_last"].state == "no_permission"


def test_the_kernel_s_log_fills_the_time_before_the_start(
    driver: FakeDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.gpus = [hopper(0), hopper(1)]
    booted = driver.at - timedelta(days=30)
    monkeypatch.setattr(xids, "boot_time", lambda: booted)
    at = [timedelta(days=days).total_seconds() for days in (1, 29, 40)]
    path = tmp_path / "kmsg"
    path.write_text(
        "".join(f"4,1,{seconds * 1e6:.0f},-;NVRM: Xid (PCI:0000:19:00): 79, pid=1, gone\n" for seconds in at)
    )
    collector = NvmlCollector(watch_xids=False, kernel_log=path)
    found = cycle(collector, driver)
    (row,) = found.collected.rows["findings"]
    assert (row["finding"], row["device_id"], row["source"]) == ("xid", driver.gpus[1].uuid, "kernel log")
    assert row["ts"] == booted + timedelta(days=29)
    assert whole(found, 1).readings["xid_last"].value == 79
    assert findings(cycle(collector, driver)) == []
    collector.close()


def test_a_kernel_s_log_that_may_not_be_read_is_a_finding(driver: FakeDriver, tmp_path: Path) -> None:
    driver.gpus = [hopper()]
    collector = NvmlCollector(watch_xids=False, kernel_log=tmp_path / "none")
    assert findings(cycle(collector, driver)) == [("no_permission", "")]
    assert findings(cycle(collector, driver)) == []
    collector.close()


# --- a day ---


def test_a_busy_node_leaves_nothing_behind(driver: FakeDriver) -> None:
    node = busy_node(gpus=2, processes=10)
    with installed(node):
        collector = NvmlCollector("c", "n", watch_xids=False)
        for _ in range(20):
            last = cycle(collector, node)
        shares = [one.activity.value for one in whole(last).processes]
        assert shares == [0.09] * 10
        assert len(node.samples) == 4
        collector.close()
        assert node.samples == {}
        assert not node.started
