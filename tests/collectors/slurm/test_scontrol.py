"""The controller's text of nodes -> states of devices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.errors import CollectorError
from collectors.slurm import scontrol
from collectors.slurm.files import read_text
from collectors.slurm.inventory import GresDevice, read_inventory
from collectors.slurm.jobs import Site
from collectors.slurm.nodes import NodeInputs, changes, shares_per_gpu
from ingest.check_rows import check_rows
from tests.collectors.slurm.test_placements import INVENTORY, columns
from warehouse.records import DEVICES, FINDINGS

SITE = Site(cluster="alpha")
NOW = datetime(2026, 10, 1, 12, tzinfo=UTC)

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
    found, unavailable = changes(nodes.records, NodeInputs(NOW), SITE, INVENTORY)
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
    assert unavailable == {"g1": since, "g9": since + timedelta(minutes=10)}
    assert not check_rows(DEVICES, found.rows["devices"], NOW).bad
    assert not check_rows(FINDINGS, found.rows["findings"], NOW).bad


def test_a_node_says_nothing_until_it_changes_and_comes_back_now() -> None:
    nodes = scontrol.read_nodes(NODES, SITE).records
    _, before = changes(nodes, NodeInputs(NOW), SITE, INVENTORY)
    again, _ = changes(nodes, NodeInputs(NOW, NOW, before), SITE, INVENTORY)
    assert not again.rows
    mended = scontrol.read_nodes(NODES.replace("DOWN*+DRAIN", "IDLE"), SITE).records
    later = NOW + timedelta(hours=3)
    back, after = changes(mended, NodeInputs(later, NOW, before), SITE, INVENTORY)
    assert {(row["ts"], row["state"], row["node"]) for row in back.rows["devices"]} == {(later, "available", "g1")}
    assert "g1" not in after
    assert "findings" not in back.rows


def at(second: float) -> datetime:
    return NOW + timedelta(seconds=second)


def turns(
    state: str,
    reason_at: float | None,
    *held: tuple[float, float | None],
    unavailable: float | None = None,
    since: float | None = -60,
) -> list[tuple[float, str]]:
    """What a look at NOW says of g1, in seconds from it; the last was at `since`."""
    reason = f"   Reason=x [root@{at(reason_at):%Y-%m-%dT%H:%M:%S}]\n" if reason_at is not None else ""
    text = f"NodeName=g1\n   Gres=gpu:1\n   State={state} Weight=1\n{reason}"
    look = NodeInputs(
        NOW,
        None if since is None else at(since),
        {} if unavailable is None else {"g1": at(unavailable)},
        {"g1": [(at(start), None if end is None else at(end)) for start, end in held]},
    )
    found, _ = changes(
        scontrol.read_nodes(text, SITE).records, look, SITE, {("g1", 0): GresDevice("GPU-a", model="H100")}
    )
    return [((row["ts"] - NOW).total_seconds(), row["state"]) for row in found.rows.get("devices", [])]


def test_a_draining_node_is_available_until_its_last_job_ends() -> None:
    assert turns("MIXED+DRAIN", -50, (-90, None)) == []
    assert turns("IDLE+DRAIN", -50, (-90, None)) == []  # suspended, and still there
    assert turns("IDLE+DRAIN", -50, (-90, -12), (-70, -30)) == [(-12, "unavailable")]
    assert turns("IDLE+DRAIN", -500, (-900, -12)) == [(-12, "unavailable")]  # it was seen as it drained
    assert turns("IDLE+DRAIN", -50, (-900, -400), since=None) == [(-50, "unavailable")]
    assert turns("IDLE+DRAIN", -500, (-900, -400), since=None) == [(-400, "unavailable")]
    assert turns("IDLE+DRAIN", -50) == [(-50, "unavailable")]
    assert turns("IDLE+DRAIN", -500) == [(0, "unavailable")]  # the reason is older than a look that saw it available
    assert turns("IDLE+MAINTENANCE", None, (-900, -400)) == [(0, "unavailable")]
    assert turns("IDLE+DRAIN", None, (-90, 1)) == [(1, "unavailable")]  # it ended while the look took place
    assert turns("DOWN", -50, (-90, None)) == [(-50, "unavailable")]


def test_a_node_that_came_back_is_available_from_the_first_job_on_it() -> None:
    assert turns("MIXED", None, (-40, None), (-20, -5), unavailable=-100) == [(-40, "available")]
    assert turns("IDLE", None, (-40, -20), unavailable=-100) == [(-40, "available")]
    assert turns("IDLE", None, unavailable=-100) == [(0, "available")]
    assert turns("IDLE", None, (-200, -100), unavailable=-100) == [(0, "available")]
    # In between it came back, ran a job and was drained again.
    assert turns("IDLE+DRAIN", -10, (-40, -20), unavailable=-100) == [(-40, "available"), (-10, "unavailable")]
    assert turns("IDLE+DRAIN", -30, (-40, -20), unavailable=-100) == [(-40, "available"), (-20, "unavailable")]
    # Slurm's seconds are cut off, and what is told later must be later.
    assert turns("MIXED", None, (-100, None), unavailable=-99.5) == [(-99.499, "available")]
    assert turns("IDLE+DRAIN", -200, (-100, -99), unavailable=-99.5) == [(-99.499, "available"), (-99, "unavailable")]
    assert turns("IDLE+DRAIN", -200, (-100, -99), unavailable=-99) == []
    assert turns("IDLE+DRAIN", -200, (-100, -100), unavailable=-100) == []  # it held nothing
    assert turns("IDLE+DRAIN", -200, (-101, -100), unavailable=-100) == []


def test_of_an_unknown_node_nothing_changes() -> None:
    assert turns("UNKNOWN", None) == turns("UNKNOWN", None, unavailable=-100) == turns("FUTURE", -5) == []


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
        ("IDLE+DRAIN*", False),
        ("SOMETHING_NEW", True),
    ],
)
def test_states_of_nodes(state: str, available: bool) -> None:
    (node,) = scontrol.read_nodes(f"NodeName=g1\n   Gres=gpu:1\n   State={state} Weight=1\n", SITE).records
    assert node.available() is available


def test_shards_per_gpu_are_read_from_the_nodes_unless_they_differ() -> None:
    nodes = scontrol.read_nodes(NODES, SITE).records
    assert shares_per_gpu(nodes) == {"shard": 8}
    other = NODES.replace("NodeName=g", "NodeName=h").replace("shard:32", "shard:16")
    differ = scontrol.read_nodes(NODES + other.replace("NodeName=login1", "NodeName=login2"), SITE).records
    assert shares_per_gpu(differ) == {}


def test_a_reason_that_is_another_nodes_record_is_not_believed() -> None:
    forged = NODES.replace("kernel update", "kernel\nNodeName=g9 State=IDLE Gres=gpu:4\n")
    parsed = scontrol.read_nodes(forged, SITE)
    assert [node.name for node in parsed.records] == ["g1", "g2", "login1"]
    assert [problem.reason for problem in parsed.problems] == ["named twice"]


def test_an_inventory_is_a_csv_and_its_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "inventory.csv"
    path.write_text("index,node,device_id,units,partition_id,device_units\n3,g1,GPU-a,2,MIG-b,7\n", encoding="utf-8")
    assert read_inventory(path) == {("g1", 3): GresDevice("GPU-a", "MIG-b", 2, device_units=7)}
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


LINES = st.sampled_from([*NODES.split("\n"), "", "   Gres=", "   State=", "NodeName="])


@settings(max_examples=50)
@given(st.lists(LINES | st.text(max_size=40), max_size=25))
def test_no_text_breaks_the_reader(lines: list[str]) -> None:
    text = "\n".join(lines)
    nodes = scontrol.read_nodes(text, SITE)
    changes(nodes.records, NodeInputs(NOW), SITE, INVENTORY)
    begun = sum(line.startswith("NodeName=") for line in text.split("\n"))
    twice = {problem.detail for problem in nodes.problems if problem.reason == "named twice"}
    assert len(nodes.records) + len(nodes.problems) + len(twice) == begun


def test_a_file_says_by_itself_what_it_is() -> None:
    nodes, _ = read_text(NODES, SITE, INVENTORY, NOW, "nodes.txt")
    assert set(nodes.rows) == {"devices", "findings"}
    with pytest.raises(CollectorError, match="a job's name can forge any line of it"):
        read_text("JobId=4711 JobName=x\n   JobState=RUNNING", SITE, INVENTORY, NOW, "jobs.txt")
    for empty in ("", " \n"):
        with pytest.raises(CollectorError, match=r"jobs.txt: empty: there is nothing to read"):
            read_text(empty, SITE, INVENTORY, NOW, "jobs.txt")
