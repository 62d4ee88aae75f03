"""Rows of samples and metrics from what exporters say, and whose they may be said to be."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from collectors.exporters.exposition import names, parse
from collectors.exporters.observations import Reader
from collectors.exporters.profile import profile_of, recognise
from collectors.exporters.rows import rows
from collectors.exporters.tracker import Measurement, Tracker
from collectors.readings import Collected
from warehouse.records import RECORD_TYPES

NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
UIDS = {("ml", "train-0"): "uid-train-0", ("default", "hami-0"): "uid-hami-0"}
GPU = 'gpu="0",UUID="GPU-a",modelName="NVIDIA A100"'


def observed(body: str) -> list[Measurement]:
    found = recognise(names(body))
    assert found is not None
    seen = Reader(*found).read(parse(body).series, NOW.timestamp(), node="n1")
    return Tracker(found[0].vendor, 15).advance(seen)


def made(body: str, **options: Any) -> Collected:
    collected = rows(observed(body), cluster="c", uid_of=lambda *pod: UIDS.get(pod, ""), **options)
    for record, some in collected.rows.items():
        columns = {column.name for column in RECORD_TYPES[record].columns}
        keys = [tuple(row.get(name, "") for name in RECORD_TYPES[record].key) for row in some]
        assert len(keys) == len(set(keys)) and all(row.keys() <= columns for row in some)
        assert all(row.keys() >= set(RECORD_TYPES[record].required) for row in some)
    return collected


def sample(collected: Collected, workload_id: str = "", partition_id: str = "") -> Mapping[str, Any]:
    found = [
        row
        for row in collected.rows["samples"]
        if (row["workload_id"], row["partition_id"]) == (workload_id, partition_id)
    ]
    assert len(found) == 1, found
    return found[0]


def test_a_pod_on_a_whole_device_has_its_use() -> None:
    labels = GPU + ',pod="train-0",namespace="ml"'
    collected = made(
        f"DCGM_FI_DEV_GPU_UTIL{{{labels}}} 60\n"
        f"DCGM_FI_DEV_FB_USED{{{labels}}} 100\n"
        f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 250\n"
    )
    whole, own = sample(collected), sample(collected, "uid-train-0")
    assert (whole["utilization"], whole["power_watts"], whole["cluster"], whole["node"]) == (0.6, 250.0, "c", "n1")
    assert (own["state"], own["utilization"], own["utilization_source"]) == ("ok", 0.6, "gpu_utilization")
    assert own["memory_used_bytes"] == 100 * 1048576
    assert "power_watts" not in own  # the board's, in the device's row
    assert not collected.dropped


def test_a_uid_that_the_exporter_tells_is_taken_and_an_empty_one_is_none() -> None:
    body = f'DCGM_FI_DEV_GPU_UTIL{{{GPU},pod="x",namespace="ml",pod_uid="%s"}} 60\n'
    assert sample(made(body % "uid-x"), "uid-x")
    nameless = made(body % "")
    assert [row["workload_id"] for row in nameless.rows["samples"]] == [""]
    assert nameless.dropped == {"pod without a UID": 1}


def test_no_holder_of_a_shared_device_has_the_whole_device() -> None:
    """Acceptance 4: never N times the device."""
    body = "".join(f'DCGM_FI_DEV_GPU_UTIL{{{GPU},vgpu="{n}",pod="train-{n}",namespace="ml"}} 71\n' for n in range(3))
    collected = made(body)
    assert [(row["workload_id"], row["utilization"]) for row in collected.rows["samples"]] == [("", 0.71)]
    assert collected.dropped == {"holder of a shared device": 3}


def test_a_pod_on_one_mig_instance_has_that_instance() -> None:
    part = GPU + ',GPU_I_ID="7",GPU_I_PROFILE="1g.10gb"'
    collected = made(
        f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{{part},pod="train-0",namespace="ml"}} 0.5\n'
        f'DCGM_FI_DEV_POWER_USAGE{{{part},pod="train-0",namespace="ml"}} 200\n'
        f'DCGM_FI_DEV_GPU_UTIL{{{part},pod="train-0",namespace="ml"}} 0\n'
    )
    own = sample(collected, "uid-train-0", "GPU-a/7")
    assert (own["state"], own["utilization"], own["utilization_source"]) == ("ok", 0.5, "graphics_active")
    whole = sample(collected)
    assert (whole["state"], whole.get("utilization"), whole["power_watts"]) == ("unsupported", None, 200.0)
    assert "power_watts" not in sample(collected, "", "GPU-a/7")


def test_hamis_pods_have_what_its_hook_measured() -> None:
    labels = 'namespace="default",pod="hami-0",container="{}",vdevice_index="0",device_uuid="GPU-a"'
    both = [labels.format(container) for container in ("one", "two")]
    body = 'hami_host_gpu_utilization_ratio{device_uuid="GPU-a",device_index="0"} 50\n'
    body += "".join(f"hami_container_device_utilization_ratio{{{one}}} 20\n" for one in both)
    body += "".join(f"hami_vgpu_memory_used_bytes{{{one}}} 1024\n" for one in both)
    body += "".join(f"hami_container_last_kernel_elapsed_seconds{{{one}}} {n + 3}\n" for n, one in enumerate(both))
    collected = made(body)
    own = sample(collected, "uid-hami-0")
    assert (own["utilization"], own["utilization_source"], own["memory_used_bytes"]) == (0.4, "process_activity", 2048)
    last = [row for row in collected.rows["metrics"] if row["metric"] == "last_kernel_seconds"]
    assert [(row["value"], row["workload_id"]) for row in last] == [(3.0, "uid-hami-0")]
    assert sample(collected)["utilization"] == 0.5


def test_unknown_is_a_metric_with_its_state_and_no_value() -> None:
    collected = made(f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}} 9223372036854775794\nDCGM_FI_DEV_FB_USED{{{GPU}}} 5\n")
    assert (sample(collected)["state"], sample(collected).get("utilization")) == ("blank", None)
    (row,) = [row for row in collected.rows["metrics"] if row["metric"] == "gpu_utilization"]
    assert (row["state"], "value" in row, row["source"]) == ("blank", False, "DCGM_FI_DEV_GPU_UTIL")


def test_devices_that_went_silent_have_stale_rows_and_no_holder() -> None:
    found = observed(f'DCGM_FI_DEV_GPU_UTIL{{{GPU},pod="train-0",namespace="ml"}} 60\n')
    tracker = Tracker("NVIDIA", 15)
    seen = Reader(profile_of("dcgm")).read(parse(f"DCGM_FI_DEV_GPU_UTIL{{{GPU}}} 60\n").series, NOW.timestamp())
    tracker.advance(seen)
    collected = rows(tracker.stale(NOW.timestamp() + 15))
    assert [(row["state"], row.get("utilization")) for row in collected.rows["samples"]] == [("stale", None)]
    assert len(rows(found, believe_labels=False).rows["samples"]) == 1


def test_a_slurm_job_is_its_own_name() -> None:
    assert sample(made(f'DCGM_FI_DEV_GPU_UTIL{{{GPU},hpc_job="4711"}} 60\n'), "4711")["utilization"] == 0.6
