"""What a scrape of the agent shows, read back with Prometheus's own parser."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from collectors.agent.exposition import DeviceMetrics, Family, exposed, render
from collectors.readings import Collected

AT = datetime(2026, 10, 1, tzinfo=UTC)
PLACE = {"ts": AT, "interval_seconds": 10.0, "cluster": "c1", "node": "n1", "device_id": "GPU-0"}


def shown(devices: DeviceMetrics, now: datetime = AT) -> dict[tuple[str, str, str], tuple[str, float]]:
    """(name, partition, workload) -> (type, value), without states."""
    found = {}
    for family in text_string_to_metric_families(render(devices.families(now))):
        for sample in family.samples:
            if sample.name != "gpu_reading_state":
                key = (sample.name, sample.labels.get("partition_id", ""), sample.labels.get("workload_id", ""))
                found[key] = (family.type, sample.value)
    return found


def collected(**rows: list[dict[str, Any]]) -> Collected:
    return Collected({record: [{**PLACE, **row} for row in found] for record, found in rows.items()})


def metric(name: str, value: float | None = None, state: str = "ok", **more: Any) -> dict[str, Any]:
    return {"metric": name, "state": state, "value": value, "source": "nvml", **more}


def test_device_partition_and_workload_have_names_of_their_own() -> None:
    devices = DeviceMetrics()
    samples = [
        {"state": "ok", "utilization": 0.9, "utilization_source": "sm_active", "power_watts": 300.5},
        {"state": "ok", "utilization": 0.5, "partition_id": "MIG-1", "memory_used_bytes": 1 << 30},
        {"state": "idle", "utilization": 0.0, "workload_id": "pod-1"},
    ]
    devices.show("nvml", collected(samples=samples, metrics=[metric("gpu_utilization", 0.97)]), AT)
    assert shown(devices) == {
        ("gpu_activity_ratio", "", ""): ("gauge", 0.9),
        ("gpu_power_watts", "", ""): ("gauge", 300.5),
        ("gpu_utilization_ratio", "", ""): ("gauge", 0.97),
        ("gpu_partition_activity_ratio", "MIG-1", ""): ("gauge", 0.5),
        ("gpu_partition_memory_used_bytes", "MIG-1", ""): ("gauge", float(1 << 30)),
        ("gpu_workload_activity_ratio", "", "pod-1"): ("gauge", 0.0),
    }


def test_energy_and_throttling_of_intervals_become_counters() -> None:
    devices = DeviceMetrics()
    for tick in range(3):
        row = {"state": "ok", "utilization": 1.0, "energy_joules": 100.0}
        devices.show("nvml", collected(samples=[row], metrics=[metric("throttle_power_seconds", 0.5)]), AT)
        found = shown(devices)
        assert found["gpu_energy_joules_total", "", ""] == ("counter", 100.0 * (tick + 1))
        assert found["gpu_throttle_power_seconds_total", "", ""] == ("counter", 0.5 * (tick + 1))
    devices.show("nvml", collected(metrics=[metric("energy_joules_total", 9e9), metric("pcie_replay_total", 4)]), AT)
    assert shown(devices) == {("gpu_pcie_replay_total", "", ""): ("counter", 4.0)}


def test_what_is_unknown_has_no_value_but_a_state() -> None:
    devices = DeviceMetrics()
    devices.show(
        "nvml", collected(samples=[{"state": "no_permission"}], metrics=[metric("power_watts", None, "blank")]), AT
    )
    assert shown(devices) == {}
    text = render(devices.families(AT))
    assert 'metric="activity",state="no_permission"} 1' in text
    assert 'metric="power_watts",state="blank"} 1' in text


def test_a_source_that_has_stopped_leaves_no_stale_value() -> None:
    devices = DeviceMetrics()
    devices.show("nvml", collected(samples=[{"state": "ok", "utilization": 0.9}]), AT)
    assert shown(devices, AT + timedelta(seconds=29))
    assert shown(devices, AT + timedelta(seconds=31)) == {}
    devices.show("nvml", Collected(), AT)
    assert shown(devices, AT + timedelta(seconds=29)), "a tick without rows proves nothing"


def test_a_device_that_was_removed_is_not_shown() -> None:
    devices = DeviceMetrics()
    row = {"vendor": "nvidia", "model": "H100", "units": 7, "state": "available"}
    devices.show("nvml", collected(devices=[row]), AT)
    assert 'model="H100",state="available",units="7"} 1' in render(devices.families(AT))
    devices.show("nvml", collected(devices=[{**row, "state": "removed"}]), AT)
    assert render(devices.families(AT)) == ""


def test_names_end_in_their_unit_and_counters_in_total() -> None:
    assert exposed("gpu_utilization") == ("utilization_ratio", "gauge", False)
    assert exposed("sm_clock_hertz") == ("sm_clock_hertz", "gauge", False)
    assert exposed("ecc_corrected_total") == ("ecc_corrected_total", "counter", False)
    assert exposed("throttle_thermal_seconds") == ("throttle_thermal_seconds_total", "counter", True)
    assert exposed("last_kernel_seconds") == ("last_kernel_seconds", "gauge", False)


@given(st.text(max_size=20), st.text(max_size=20), st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_a_label_holds_the_parser_reads_it_back(label: str, reported: str, value: float) -> None:
    family = Family("x_total", "counter", reported)
    family.add(value, name=label)
    (read,) = text_string_to_metric_families(render([family]))
    (sample,) = read.samples
    assert sample.value == value
    assert sample.labels == ({"name": label} if label else {})
