"""What the controller tells of jobs -> devices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from collectors.slurm import rest
from collectors.slurm.inventory import GresDevice, Inventory
from collectors.slurm.jobs import Site, lifecycle, profile_is_a_guess
from collectors.slurm.rows import placement_rows
from collectors.slurm.tres import gres
from ingest.check_rows import check_rows
from tests.collectors.slurm.records import TEN, controlled
from warehouse.records import EVENTS

SITE = Site(cluster="alpha")
NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
JOB: dict[str, Any] = {
    "job_id": 4711,
    "array_job_id": 4700,
    "array_task_id": 11,
    "nodes": "g[1-3]",
    "node_count": 3,
    "tres_alloc_str": "cpu=48,node=3,gres/gpu=5",
    "tres_req_str": "cpu=48,node=3,gres/gpu=5",
    "gres_detail": ["gpu:h100:2(IDX:0,2)", "gpu:h100:2(IDX:0,2)", "gpu:h100:1(IDX:3)"],
}
INVENTORY: Inventory = {
    (node, index): GresDevice(f"GPU-{node}-{index}", model="NVIDIA H100", memory_bytes=80 << 30, pool="train")
    for node in ("g1", "g2")
    for index in range(4)
}


def placed(site: Site = SITE, inventory: Inventory = INVENTORY, **more: Any) -> list[dict[str, Any]]:
    parsed = rest.read_jobs({"jobs": [controlled(**(JOB | more))]})
    assert not parsed.problems
    rows = placement_rows(parsed.records, site, inventory, NOW).rows.get("events", [])
    assert not check_rows(EVENTS, rows, NOW).bad
    return rows


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


def test_indices_name_devices_and_on_an_unknown_node_the_node_is_reported() -> None:
    rows = placed()
    assert columns(rows, "allocation_id", "node", "device_id", "gpus") == [
        ("4711", "g1", "GPU-g1-0", None),
        ("4711", "g1", "GPU-g1-2", None),
        ("4711@g2", "g2", "GPU-g2-0", None),
        ("4711@g2", "g2", "GPU-g2-2", None),
        ("4711@g3", "g3", None, 1),
    ]
    assert {(row["event"], row["workload_id"], row["ts"]) for row in rows} == {
        ("resized", "4711", datetime(2026, 10, 1, 10, tzinfo=UTC))
    }


def test_a_planned_end_is_no_end() -> None:
    (job,) = rest.read_jobs({"jobs": [controlled(**JOB)]}).records
    assert (job.state, job.name, job.words["user"], job.nodes) == ("RUNNING", "4700_11", "ann", ("g1", "g2", "g3"))
    assert job.ended_at is None
    assert [row["event"] for row in lifecycle(job, SITE)] == ["submitted", "started", "started", "started"]


def test_accounting_and_the_controller_name_the_same_allocations() -> None:
    (job,) = rest.read_jobs({"jobs": [controlled(**JOB)]}).records
    started = [row["allocation_id"] for row in lifecycle(job, SITE) if row["event"] == "started"]
    assert started == list(dict.fromkeys(row["allocation_id"] for row in placed()))


def test_a_node_without_gpus_of_the_job_loses_what_accounting_assumed() -> None:
    """Accounting spreads one GPU of two nodes to the first; a `resized` to nothing takes its place."""
    rows = placed(nodes="g[1-2]", gres_detail=["", "gpu:1(IDX:3)"], tres_alloc_str="gres/gpu=1")
    assert columns(rows, "allocation_id", "node", "device_id", "gpus") == [
        ("4711", None, None, 0),
        ("4711@g2", "g2", "GPU-g2-3", None),
    ]


def test_instances_and_shards_have_their_units() -> None:
    mig = [*JOB["gres_detail"][:2], "gpu:h100_3g.40gb:1(IDX:3)"]
    inventory = {**INVENTORY, ("g3", 3): GresDevice("GPU-x", "MIG-y", model="NVIDIA H100", device_units=7)}
    assert columns(
        placed(inventory=inventory, gres_detail=mig)[-1:], "device_id", "partition_id", "units", "partition_profile"
    ) == [("GPU-x", "MIG-y", 3, "3g.40gb")]
    shards = [*JOB["gres_detail"][:2], "shard:5(0/8,4/8,1/8)"]
    inventory = {**INVENTORY, ("g3", 1): GresDevice("GPU-s1", device_units=8)}
    assert columns(placed(inventory=inventory, gres_detail=shards)[-2:], "device_id", "units", "gpus") == [
        ("GPU-s1", 4, None),
        (None, None, 0.125),
    ]


@pytest.mark.parametrize(
    ("device_units", "units", "share"),
    [
        (100, 50, None),
        (200, 100, None),  # half of the device, not a quarter
        (128, 64, None),
        (1, 50, None),  # the inventory does not say how many
        (1023, None, 0.5),
        (7, None, 0.5),
    ],
)
def test_a_percentage_is_that_part_of_the_device_however_many_units_it_has(
    device_units: int, units: int | None, share: float | None
) -> None:
    inventory = {("g3", 1): GresDevice("GPU-p", device_units=device_units)}
    job: dict[str, Any] = {
        "nodes": "g3",
        "node_count": 1,
        "tres_alloc_str": "gres/mps=50",
        "gres_detail": ["mps:50(0/100,50/100)"],
    }
    assert columns(placed(inventory=inventory, **job), "device_id", "units", "gpus") == [
        ("GPU-p" if units else None, units, share)
    ]
    (read,) = rest.read_jobs({"jobs": [controlled(**(JOB | job))]}).records
    findings = placement_rows([read], SITE, inventory, NOW).rows.get("findings", [])
    assert [row["message"] for row in findings] == (
        [] if units else [f"g3, index 1: Slurm says 50 of 100 mps, the inventory {device_units} units"]
    )


def test_an_index_that_slurm_and_the_inventory_call_otherwise_names_no_device() -> None:
    """Slurm was seen to number instances otherwise for a while after its restart."""
    mig = {"nodes": "g3", "node_count": 1, "tres_alloc_str": "gres/gpu=1", "gres_detail": ["gpu:h100_1g.10gb:1(IDX:3)"]}
    for units, device, reported in ((3, None, 1), (1, "GPU-x", 1), (None, "GPU-x", 1)):
        inventory = {("g3", 3): GresDevice("GPU-x", "MIG-y", units, model="NVIDIA H100", device_units=7)}
        assert columns(placed(inventory=inventory, **mig), "device_id", "units") == [(device, reported)]
        (job,) = rest.read_jobs({"jobs": [controlled(**(JOB | mig))]}).records
        findings = placement_rows([job], SITE, inventory, NOW).rows.get("findings", [])
        assert [row["message"] for row in findings] == (
            [] if device else ["g3, index 3: Slurm says 1g.10gb, the inventory 3 units"]
        )


TWO_PROFILES: dict[str, Any] = {
    "nodes": "g3",
    "node_count": 1,
    "tres_alloc_str": "gres/gpu=2",
    "gres_detail": ["gpu:a100_3g.20gb:1(IDX:0),gpu:a100_1g.5gb:1(IDX:2)"],
}
MIG_NODE = Site(cluster="alpha", gres={"g3": tuple(gres("gpu:a100_3g.20gb:2,gpu:a100_1g.5gb:2"))})


def test_a_job_with_two_profiles_is_one_allocation_that_one_end_ends() -> None:
    rows = placed(**TWO_PROFILES)
    assert columns(rows, "allocation_id", "partition_profile", "units", "gpus") == [
        ("4711", "1g.5gb", 1, 1),
        ("4711", "3g.20gb", 3, 1),
    ]
    over = controlled(**(JOB | TWO_PROFILES | {"gres_detail": [], "job_state": "COMPLETED", "end_time": TEN + 60}))
    (job,) = rest.read_jobs({"jobs": [over]}).records
    assert columns(lifecycle(job, MIG_NODE)[-1:], "event", "allocation_id") == [("finished", "4711")]


def test_types_that_were_asked_for_tell_the_profiles_of_a_job_that_is_over() -> None:
    over: dict[str, Any] = JOB | TWO_PROFILES | {"gres_detail": [], "job_state": "COMPLETED", "end_time": TEN + 60}
    asked = over | {"tres_per_node": "gres:gpu:a100_3g.20gb:1,gres:gpu:a100_1g.5gb:1"}
    (job,) = rest.read_jobs({"jobs": [controlled(**asked)]}).records
    assert not profile_is_a_guess(job, MIG_NODE)
    assert columns(lifecycle(job, MIG_NODE)[1:3], "partition_profile", "units") == [("1g.5gb", 1), ("3g.20gb", 3)]
    for hostile in ("gres:gpu:a100_3g.20gb:9", "gres:gpu:(((", "x" * 1000, "gres:gpu:h100:1"):
        (job,) = rest.read_jobs({"jobs": [controlled(**(over | {"tres_per_node": hostile}))]}).records
        assert profile_is_a_guess(job, MIG_NODE)
        assert columns(lifecycle(job, MIG_NODE)[1:3], "partition_profile", "units") == [("1g.5gb", 1), ("1g.5gb", 1)]


def test_a_node_that_has_one_profile_tells_it() -> None:
    site = Site(cluster="alpha", gres={"g3": tuple(gres("gpu:a100_3g.20gb:2"))})
    over = JOB | TWO_PROFILES | {"gres_detail": [], "job_state": "COMPLETED", "end_time": TEN + 60}
    (job,) = rest.read_jobs({"jobs": [controlled(**over)]}).records
    assert not profile_is_a_guess(job, site)
    assert columns(lifecycle(job, site)[1:3], "partition_profile", "units") == [("3g.20gb", 3), ("3g.20gb", 3)]


def test_a_restarted_job_is_placed_a_millisecond_later_than_the_end_of_its_last_run() -> None:
    later = datetime(2026, 10, 1, 10, tzinfo=UTC) + timedelta(milliseconds=1)
    assert {row["ts"] for row in placed(restart_cnt=2)} == {later}
    assert {row["ts"] for row in placed(resize_time=TEN + 3600)} == {later + timedelta(hours=1)}
    # In the second of its start: what it had before was told of that second, too.
    assert {row["ts"] for row in placed(resize_time=TEN)} == {later}
    assert {row["ts"] for row in placed(resize_time=TEN, restart_cnt=1)} == {later + timedelta(milliseconds=1)}


def test_a_run_that_goes_back_into_the_queue_starts_nothing_while_it_completes() -> None:
    """Slurm 22.05 tells the instant of the requeue as its start and its end."""
    for end, events in ((0, ["submitted"]), (60, ["submitted", *["started"] * 3])):
        completing = JOB | {"job_state": "COMPLETING", "end_time": TEN + end, "gres_detail": []}
        (job,) = rest.read_jobs({"jobs": [controlled(**completing)]}).records
        assert [row["event"] for row in lifecycle(job, SITE)] == events


def test_waiting_and_ended_jobs_are_placed_nowhere() -> None:
    assert placed(job_state="PENDING") == []
    ended = {"job_state": "TIMEOUT", "end_time": TEN + 3600, "gres_detail": []}
    assert placed(**ended) == []
    (job,) = rest.read_jobs({"jobs": [controlled(**(JOB | ended))]}).records
    assert {(row["event"], row["reason"]) for row in lifecycle(job, SITE)[-3:]} == {("failed", "TIMEOUT")}


def test_a_job_says_why_it_waits_while_it_does() -> None:
    for state, reason, reported in (
        ("PENDING", "Resources", "Resources"),
        ("PENDING", "None", None),
        ("RUNNING", "Resources", None),
    ):
        (job,) = rest.read_jobs({"jobs": [controlled(**(JOB | {"job_state": state, "state_reason": reason}))]}).records
        assert lifecycle(job, SITE)[0].get("reason") == reported


def test_what_was_asked_for_each_node_counts_where_the_site_does_not_account_for_gpus() -> None:
    unreported = {
        "job_state": "PENDING",
        "tres_req_str": "cpu=48",
        "tres_alloc_str": "",
        "tres_per_node": "gres:gpu:h100:2",
    }
    (job,) = rest.read_jobs({"jobs": [controlled(**(JOB | unreported))]}).records
    (submitted,) = lifecycle(job, SITE)
    assert (submitted["event"], submitted["gpus"]) == ("submitted", 6)
