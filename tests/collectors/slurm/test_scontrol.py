"""The controller's text -> devices of jobs, states of nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.slurm import scontrol
from collectors.slurm.collect import placement_rows, read_text
from collectors.slurm.inventory import Inventory, Place, read_inventory
from collectors.slurm.jobs import Site, life
from collectors.slurm.nodes import changes, shares_per_gpu
from ingest.check_rows import check_rows
from warehouse.records import DEVICES, EVENTS, FINDINGS

SITE = Site(cluster="alpha")
NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)
JOB = """\
JobId=4711 ArrayJobId=4700 ArrayTaskId=11 JobName=train me JobState=FAILED UserId=root(0)
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=4000 Nice=0 Account=chem QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=02:00:00 TimeLimit=1-00:00:00 TimeMin=N/A
   SubmitTime=2026-10-01T09:00:00 EligibleTime=2026-10-01T09:00:00
   StartTime=2026-10-01T10:00:00 EndTime=2026-10-02T10:00:00 Deadline=N/A
   SuspendTime=None SecsPreSuspend=0 LastSchedEval=2026-10-01T10:00:00 Scheduler=Main
   Partition=train AllocNode:Sid=login1:42
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=g[1-3]
   NumNodes=3 NumCPUs=48 NumTasks=3 CPUs/Task=16
   ReqTRES=cpu=48,node=3,gres/gpu=5
   AllocTRES=cpu=48,node=3,gres/gpu=5
   JOB_GRES=gpu:h100:5
     Nodes=g[1-2] CPU_IDs=0-15 Mem=1000 GRES=gpu:h100:2(IDX:0,2)
     Nodes=g3 CPU_IDs=0-15 Mem=1000 GRES=gpu:h100:1(IDX:3)
   Command=/bin/sh JobState=CANCELLED
   Comment=NodeList=evil
"""
INVENTORY: Inventory = {
    (node, index): Place(f"GPU-{node}-{index}", model="NVIDIA H100", memory_bytes=80 << 30, pool="train")
    for node in ("g1", "g2")
    for index in range(4)
}


def placed(text: str, site: Site = SITE, inventory: Inventory = INVENTORY) -> list[dict[str, Any]]:
    parsed = scontrol.read_jobs(text, site)
    assert not parsed.problems
    rows = placement_rows(parsed.records, site, inventory).rows.get("events", [])
    assert not check_rows(EVENTS, rows, NOW).bad
    return rows


def columns(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row.get(name) for name in names) for row in rows]


def test_indices_name_devices_and_an_unknown_node_is_told_as_a_node() -> None:
    rows = placed(JOB)
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


def test_what_users_write_is_not_believed_and_a_planned_end_is_no_end() -> None:
    (job,) = scontrol.read_jobs(JOB, SITE).records
    assert (job.state, job.name, job.words["user"], job.nodes) == ("RUNNING", "4700_11", "ann", ("g1", "g2", "g3"))
    assert job.ended_at is None
    assert [row["event"] for row in life(job, SITE)] == ["submitted", "started", "started", "started"]


def test_accounting_and_the_controller_name_the_same_allocations() -> None:
    (job,) = scontrol.read_jobs(JOB, SITE).records
    started = [row["allocation_id"] for row in life(job, SITE) if row["event"] == "started"]
    assert started == list(dict.fromkeys(row["allocation_id"] for row in placed(JOB)))


def test_an_old_text_and_mig_and_shards() -> None:
    old = JOB.replace("GRES=gpu:h100:2(IDX:0,2)", "GRES_IDX=gpu(IDX:0,2)").replace("AllocTRES", "TRES")
    assert len(placed(old)) == 5
    mig = JOB.replace("gpu:h100:1(IDX:3)", "gpu:h100_3g.40gb:1(IDX:3)")
    inventory = {**INVENTORY, ("g3", 3): Place("GPU-x", "MIG-y", model="NVIDIA H100", device_units=7)}
    assert columns(
        placed(mig, inventory=inventory)[-1:], "device_id", "partition_id", "units", "partition_profile"
    ) == [("GPU-x", "MIG-y", 3, "3g.40gb")]
    shards = JOB.replace("gpu:h100:1(IDX:3)", "shard:5(0/8,4/8,1/8)")
    inventory = {**INVENTORY, ("g3", 1): Place("GPU-s1", device_units=8)}
    assert columns(placed(shards, inventory=inventory)[-2:], "device_id", "units", "gpus") == [
        ("GPU-s1", 4, None),
        (None, None, 0.125),
    ]


def test_a_restarted_job_is_placed_a_millisecond_later_than_the_end_of_its_last_run() -> None:
    later = datetime(2026, 10, 1, 10, tzinfo=UTC) + timedelta(milliseconds=1)
    assert {row["ts"] for row in placed(JOB.replace("Restarts=0", "Restarts=2"))} == {later}
    resized = JOB.replace("SuspendTime=", "ResizeTime=2026-10-01T11:00:00 SuspendTime=")
    assert {row["ts"] for row in placed(resized)} == {later + timedelta(hours=1)}


def test_waiting_and_ended_jobs_are_placed_nowhere() -> None:
    waiting = JOB.replace("JobState=RUNNING", "JobState=PENDING")
    assert placed(waiting) == []
    ended = "\n".join(line for line in JOB.split("\n") if "Nodes=" not in line)
    ended = ended.replace("JobState=RUNNING", "JobState=TIMEOUT").replace("2026-10-02T10", "2026-10-01T11")
    assert placed(ended) == []
    (job,) = scontrol.read_jobs(ended, SITE).records
    assert {(row["event"], row["reason"]) for row in life(job, SITE)[-3:]} == {("failed", "TIMEOUT")}


def test_what_was_asked_for_each_node_counts_where_the_site_does_not_account_for_gpus() -> None:
    untold = JOB.replace(",gres/gpu=5", "").replace("JobState=RUNNING", "JobState=PENDING")
    untold = untold.replace("   JOB_GRES=gpu:h100:5\n", "   TresPerNode=gres:gpu:h100:2\n")
    (job,) = scontrol.read_jobs(untold, SITE).records
    (submitted,) = life(job, SITE)
    assert (submitted["event"], submitted["gpus"]) == ("submitted", 6)


def test_a_bad_job_is_reported_with_its_line_and_one_line_output_is_refused() -> None:
    text = (
        JOB + "\n" + JOB.replace("NodeList=g[1-3]", "NodeList=g[1-") + "\nJobId=5 JobName=x UserId=a JobState=RUNNING\n"
    )
    parsed = scontrol.read_jobs(text, SITE)
    assert len(parsed.records) == 1
    length = JOB.count("\n") + 1
    assert [(p.line, p.reason) for p in parsed.problems] == [(1 + length, "unreadable"), (1 + 2 * length, "one line")]


NODES = """\
NodeName=g1 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUTot=64 CPULoad=0.00
   Gres=gpu:h100:4(S:0-1),shard:32(S:0-1)
   OS=Linux 6.1 State=IDLE
   State=DOWN*+DRAIN ThreadsPerCore=2 TmpDisk=0 Weight=1 Owner=N/A
   Partitions=train
   Reason=GPU 2 fell off the bus State=IDLE [root@2026-10-01T11:30:00]

NodeName=g2 Arch=x86_64
   Gres=gpu:h100:4(S:0-1)
   State=MIXED+DRAIN ThreadsPerCore=2
   Reason=kernel update [root@2026-10-01T11:30:00]

NodeName=g9 Arch=x86_64
   Gres=gpu:h100:4
   State=DOWN ThreadsPerCore=2
   Reason=Not responding [slurm@2026-10-01T11:40:00]

NodeName=login1
   Gres=(null)
   State=DOWN
"""


def test_a_broken_nodes_devices_are_unavailable_since_its_reason_says() -> None:
    nodes = scontrol.read_nodes(NODES, SITE)
    assert not nodes.problems
    found, available = changes(nodes.records, {}, NOW, None, SITE, INVENTORY)
    since = datetime(2026, 10, 1, 11, 30, tzinfo=UTC)
    assert found.rows["devices"] == [
        {
            "ts": since,
            "cluster": "alpha",
            "node": "g1",
            "device_id": f"GPU-g1-{index}",
            "model": "NVIDIA H100",
            "units": 1,
            "state": "unavailable",
            "memory_bytes": 80 << 30,
            "pool": "train",
        }
        for index in range(4)
    ]
    assert columns(found.rows["findings"], "node", "finding", "message", "ts") == [
        ("g1", "node_unavailable", "DOWN+DRAIN: GPU 2 fell off the bus State=IDLE", since),
        ("g9", "node_unavailable", "DOWN: Not responding", since + timedelta(minutes=10)),
    ]
    assert found.dropped == {"node's devices are not in the inventory": 1}
    assert available == {"g1": False, "g2": True, "g9": False}
    assert not check_rows(DEVICES, found.rows["devices"], NOW).bad
    assert not check_rows(FINDINGS, found.rows["findings"], NOW).bad


def test_a_node_says_nothing_until_it_changes_and_comes_back_now() -> None:
    nodes = scontrol.read_nodes(NODES, SITE).records
    _, before = changes(nodes, {}, NOW, None, SITE, INVENTORY)
    again, _ = changes(nodes, before, NOW, NOW, SITE, INVENTORY)
    assert not again.rows
    mended = scontrol.read_nodes(NODES.replace("DOWN*+DRAIN", "IDLE"), SITE).records
    later = NOW + timedelta(hours=3)
    back, after = changes(mended, before, later, NOW, SITE, INVENTORY)
    assert {(row["ts"], row["state"], row["node"]) for row in back.rows["devices"]} == {(later, "available", "g1")}
    assert after["g1"] is True
    assert "findings" not in back.rows


@pytest.mark.parametrize(
    ("state", "available"),
    [
        ("IDLE", True),
        ("ALLOCATED", True),
        ("MIXED+DRAIN", True),
        ("DRAINING", True),
        ("IDLE+DRAIN", False),
        ("DRAINED", False),
        ("DOWN*", False),
        ("IDLE+PLANNED", True),
        ("IDLE+RESERVED", True),
        ("IDLE+MAINTENANCE", False),
        ("ALLOCATED+MAINTENANCE", True),
        ("IDLE+CLOUD+POWERED_DOWN", True),
        ("IDLE+REBOOT_ISSUED", False),
        ("IDLE+REBOOT_REQUESTED", True),
        ("FAIL", False),
        ("INVAL", False),
        ("SOMETHING_NEW", True),
    ],
)
def test_states_of_nodes(state: str, available: bool) -> None:
    (node,) = scontrol.read_nodes(f"NodeName=g1\n   Gres=gpu:1\n   State={state} Weight=1\n", SITE).records
    assert node.available is available


def test_shards_per_gpu_are_read_from_the_nodes_unless_they_differ() -> None:
    nodes = scontrol.read_nodes(NODES, SITE).records
    assert shares_per_gpu(nodes) == {"shard": 8}
    differ = scontrol.read_nodes(NODES + NODES.replace("shard:32", "shard:16"), SITE).records
    assert shares_per_gpu(differ) == {}


def test_an_inventory_is_a_csv_and_its_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "inventory.csv"
    path.write_text("index,node,device_id,units,partition_id,device_units\n3,g1,GPU-a,2,MIG-b,7\n", encoding="utf-8")
    assert read_inventory(path) == {("g1", 3): Place("GPU-a", "MIG-b", 2, device_units=7)}
    for text, says in (
        ("node,index\n", "no column device_id"),
        ("node,index,device_id\ng1,x,GPU-a\n", "line 2: invalid literal"),
        ("node,index,device_id\ng1,1,\n", "line 2: node or device_id is empty"),
        ("node,index,device_id\ng1,1,a\ng1,1,b\n", "line 3: g1 has index 1 twice"),
        ("node,index,device_id,units\ng1,1,a,0\n", "line 2: units is 0"),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(CollectorError, match=says):
            read_inventory(path)
    with pytest.raises(CollectorError, match="cannot be read"):
        read_inventory(tmp_path / "nope.csv")


LINES = st.sampled_from([*JOB.split("\n"), *NODES.split("\n"), "", "   GRES=", "   Nodes= GRES=gpu:(IDX:1)"])


@settings(max_examples=50)
@given(st.lists(LINES | st.text(max_size=40), max_size=25))
def test_no_text_breaks_the_readers(lines: list[str]) -> None:
    text = "\n".join(lines)
    jobs, nodes = scontrol.read_jobs(text, SITE), scontrol.read_nodes(text, SITE)
    placement_rows(jobs.records, SITE, INVENTORY)
    changes(nodes.records, {}, NOW, None, SITE, INVENTORY)
    begun = sum(line.startswith("JobId=") for line in text.split("\n"))
    assert len(jobs.records) + len(jobs.problems) == begun


@settings(max_examples=50)
@given(st.integers(0, len(JOB)), st.text(max_size=6))
def test_text_cut_or_garbled_anywhere_is_a_job_or_a_problem(position: int, garbage: str) -> None:
    for text in (JOB[:position], JOB[:position] + garbage + JOB[position:]):
        parsed = scontrol.read_jobs(text, SITE)
        placement_rows(parsed.records, SITE, INVENTORY)
        assert all(problem.detail for problem in parsed.problems)


def test_a_file_says_by_itself_what_it_is() -> None:
    jobs, _ = read_text(JOB, SITE, INVENTORY, NOW, "jobs.txt")
    assert {row["event"] for row in jobs.rows["events"]} == {"submitted", "started", "resized"}
    nodes, _ = read_text(NODES, SITE, INVENTORY, NOW, "nodes.txt")
    assert set(nodes.rows) == {"devices", "findings"}
