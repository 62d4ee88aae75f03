"""What nodes say of their devices: unavailable while they cannot be used, and never a device that nobody named."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from collectors.kubernetes.nodes import NodeRows, ReportedNode, node_rows, node_state, registered
from collectors.kubernetes.settings import Settings
from collectors.readings import Row
from tests.collectors.kubernetes.make import node, second, stamp

HERE = Settings(cluster="c1")
AGENTS: list[Row] = [
    {"ts": second(-900), "cluster": "c1", "node": "n1", "device_id": f"GPU-{letter}", "vendor": "nvidia",
     "model": "NVIDIA A100-SXM4-80GB", "units": 7, "pool": "train", "state": "available"}
    for letter in "ab"
]  # fmt: skip


def look(
    object_: dict[str, Any] | None,
    reported: ReportedNode = ReportedNode(),  # noqa: B008
    now: float = 1000,
    inventory: list[Row] | None = None,
    occupied: bool = False,
    last_end: datetime | None = None,
) -> NodeRows:
    published = registered(object_) if object_ is not None else []
    known = AGENTS if inventory is None else inventory
    # What was told survives being written down.
    again = ReportedNode.of(reported.plain())
    return node_rows(object_, known, published, again, last_end, occupied, second(now), HERE)


def short(found: NodeRows) -> list[tuple[str, str, float]]:
    return [(row["device_id"], row["state"], (row["ts"] - second(0)).total_seconds()) for row in found.devices]


def test_a_node_that_is_not_ready_takes_its_devices_with_it_and_brings_them_back() -> None:
    down = look(node(ready="Unknown", ready_at=300))
    assert short(down) == [("GPU-a", "unavailable", 300), ("GPU-b", "unavailable", 300)]
    assert down.devices[0] == {**AGENTS[0], "ts": second(300), "state": "unavailable"}
    assert short(look(node(ready="Unknown", ready_at=300), down.reported)) == []
    back = look(node(ready_at=420), down.reported)
    assert short(back) == [("GPU-a", "available", 420), ("GPU-b", "available", 420)]
    assert short(look(node(ready_at=420), back.reported)) == []


def test_a_cordoned_node_serves_those_who_are_on_it_to_their_end() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": stamp(300)}
    cordoned = node(spec={"unschedulable": True, "taints": [taint]})
    assert short(look(cordoned, occupied=True)) == []
    assert short(look(cordoned, last_end=second(700)))[0] == ("GPU-a", "unavailable", 700)
    alone = look(cordoned, last_end=second(200))
    assert short(alone)[0] == ("GPU-a", "unavailable", 300)
    assert short(look(node(), alone.reported, now=2000))[0] == (
        "GPU-a",
        "available",
        2000,
    )  # uncordoning leaves no stamp


def test_a_node_that_is_deleted_removes_its_devices() -> None:
    assert short(look(None)) == [("GPU-a", "removed", 1000), ("GPU-b", "removed", 1000)]


def test_a_healthy_node_adds_nothing_to_what_its_agent_says() -> None:
    assert short(look(node())) == []
    lost = [{**AGENTS[0], "state": "unavailable"}]
    assert short(look(node(), inventory=lost)) == []  # the agent's word, and the agent's to take back


def test_an_agent_that_starts_on_a_closed_node_does_not_open_it() -> None:
    taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": stamp(300)}
    closed = look(node(spec={"taints": [taint]}))
    restarted = [{**row, "ts": second(2000)} for row in AGENTS]
    again = look(node(spec={"taints": [taint]}), closed.reported, 2060, restarted)
    assert short(again) == [("GPU-a", "unavailable", 2060), ("GPU-b", "unavailable", 2060)]
    as_text = [{**row, "ts": stamp(2000)} for row in AGENTS]
    assert short(look(node(spec={"taints": [taint]}), closed.reported, 2060, as_text)) == short(again)
    lost = [{**AGENTS[0], "ts": second(2000), "state": "unavailable"}]
    assert short(look(node(), closed.reported, 2060, lost)) == []  # its agent found it lost since


def test_no_device_is_made_up_from_a_count() -> None:
    found = look(node(gpus=8, ready="False", ready_at=300), inventory=[])
    assert found.devices == ()


def test_devices_that_are_not_allocatable_are_a_finding_until_none_is() -> None:
    six = look(node(gpus=8, allocatable=6))
    assert [row["message"] for row in six.findings] == ["6 of 8 nvidia.com/gpu are allocatable"]
    assert short(six) == []
    assert look(node(gpus=8, allocatable=6), six.reported).findings == ()
    none = node(gpus=8, allocatable=0)
    assert node_state(none).state == "closed"
    assert short(look(none, occupied=True)) == []
    assert short(look(none))[0] == ("GPU-a", "unavailable", 1000)


@pytest.mark.parametrize(
    ("taint", "state"),
    [
        ("node.kubernetes.io/out-of-service", "down"),
        ("ToBeDeletedByClusterAutoscaler", "closed"),
        ("karpenter.sh/disrupted", "closed"),
        ("nvidia.com/gpu", "up"),  # keeps others off the GPU nodes
    ],
)
def test_taints_mean_what_they_mean(taint: str, state: str) -> None:
    assert node_state(node(spec={"taints": [{"key": taint, "effect": "NoSchedule"}]})).state == state


@pytest.mark.parametrize(
    "register",
    [
        "GPU-x,10,16384,100,NVIDIA-Tesla V100,0,true:GPU-y,10,16384,100,NVIDIA-Tesla V100,0,false:",
        '[{"id":"GPU-x","count":10,"devmem":16384,"type":"NVIDIA-Tesla V100","health":true},'
        '{"id":"GPU-y","devmem":16384,"type":"NVIDIA-Tesla V100","health":false}]',
    ],
)
def test_devices_registered_by_a_sharing_scheduler_are_reported_in_hundredths(register: str) -> None:
    shared = node(annotations={"hami.io/node-nvidia-register": register}, at=-500)
    found = look(shared, inventory=[])
    assert short(found) == [("GPU-x", "available", -500), ("GPU-y", "unavailable", 1000)]
    row = found.devices[0]
    assert (row["units"], row["model"], row["memory_bytes"]) == (100, "Tesla V100", 16384 << 20)
    for said in ("[{", "[" * 200_000):
        assert registered(node(annotations={"hami.io/node-nvidia-register": said})) == []
