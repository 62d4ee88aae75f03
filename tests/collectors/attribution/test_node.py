"""A node's cycle from end to end: a real kubelet's protocols, a /proc, a device's readings -> rows."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from collectors.attribution.kubelet import KubeletPods
from collectors.attribution.node import NodeAttribution
from collectors.attribution.podresources import podresources_pb2 as messages
from collectors.attribution.podresources.client import PodResources
from collectors.attribution.podresources.source import KubeletAllocations
from collectors.attribution.processes import ProcessTable
from collectors.readings import Collected, DeviceReading, ProcessReading, Reading
from ingest.check_rows import check_rows
from tests.patience import slowness
from warehouse.records import RECORD_TYPES

from .kubelet_server import PodResourcesServer, PodsServer, pod, pod_json, serving
from .proc_tree import NEIGHBOUR, UID, add_process, host_proc, pod_cgroup

NOW = datetime(2026, 11, 3, 12, 0, tzinfo=UTC)
GPU, OTHER = "GPU-5f0a1c22-90bb-4a1e-8d3c-2b7e6a9f0d11", "GPU-77777777-90bb-4a1e-8d3c-2b7e6a9f0d11"
MIG = "MIG-0c1d2e3f-1111-5222-8333-444455556666"
STRANGER = "c0ffee00-1d5a-4f3b-8c21-6e7f8a9b0c1d"


@dataclass
class Node:
    """gpu 0 is time-sliced in 4 and given to two pods; gpu 1 has one instance, and a stranger on it."""

    proc: Path
    pod_resources: PodResourcesServer
    pods: PodsServer
    attribution: NodeAttribution

    def collect(self, now: datetime = NOW, readings: list[DeviceReading] | None = None) -> Collected:
        collected = self.attribution.collect(readings or READINGS, now, 10.0, asked_at=1e9)
        for record, rows in collected.rows.items():
            assert not check_rows(RECORD_TYPES[record], rows, now).bad
        return collected


def on(pid: int, activity: float | None = None) -> ProcessReading:
    share = Reading("unsupported") if activity is None else Reading("ok", activity)
    return ProcessReading(pid, share, Reading("ok", 1e9))


READINGS = [
    DeviceReading(
        GPU, index=0, vendor="nvidia", processes=(on(40, 0.5), on(41, 0.25)), processes_state="ok",
        readings={"gpu_utilization": Reading("ok", 0.8), "power_watts": Reading("ok", 300.0)},
    ),
    DeviceReading(
        OTHER, index=1, vendor="nvidia", processes_state="unsupported",
        readings={"gpu_utilization": Reading("unsupported"), "power_watts": Reading("ok", 90.0)},
    ),
    DeviceReading(
        OTHER, MIG, index=1, vendor="nvidia", processes=(on(42),), processes_state="ok",
        readings={"sm_active": Reading("ok", 0.3)},
    ),
]  # fmt: skip


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    proc = host_proc(tmp_path / "proc")
    add_process(proc, 40, pod_cgroup(UID))
    add_process(proc, 41, pod_cgroup(NEIGHBOUR))
    add_process(proc, 42, pod_cgroup(STRANGER), command="xmrig")
    with (
        tempfile.TemporaryDirectory(prefix="kubelet") as folder,
        serving(
            PodsServer([pod_json(UID, "train-0"), pod_json(NEIGHBOUR, "serve-0"), pod_json(STRANGER, "nb-3")])
        ) as pods,
    ):
        server = PodResourcesServer(Path(folder) / "kubelet.sock")
        server.pods.pods.extend([pod("train-0", f"{GPU}::0", f"{GPU}::1"), pod("serve-0", f"{GPU}::3")])
        offered = [f"{GPU}::{replica}" for replica in range(4)]
        server.allocatable.devices.extend(
            [
                messages.Devices(resource="nvidia.com/gpu", ids=offered),
                messages.Devices(resource="nvidia.com/mig-1g.10gb", ids=[MIG]),
            ]
        )
        server.start()
        client, kubelet = PodResources(server.socket, timeout_seconds=60), KubeletPods(pods.url, timeout_seconds=60)
        source = KubeletAllocations(client, kubelet)
        yield Node(proc, server, pods, NodeAttribution("east", "node-1", ProcessTable(proc), [source]))
        client.close()
        server.stop()


def by_place(collected: Collected) -> dict[tuple[str, str, str], tuple[str, float | None]]:
    return {
        (row["device_id"], row["partition_id"], row["workload_id"]): (row["state"], row.get("utilization"))
        for row in collected.rows["samples"]
    }


def shares(collected: Collected) -> dict[str, float]:
    rows = collected.rows["metrics"]
    return {row["workload_id"]: row["value"] for row in rows if row["metric"] == "allocated_share"}


def test_a_nodes_cycle_tells_every_device_and_every_holder_once(node: Node) -> None:
    collected = node.collect()
    assert by_place(collected) == {
        (GPU, "", ""): ("ok", 0.8),
        (GPU, "", UID): ("ok", 0.5),
        (GPU, "", NEIGHBOUR): ("ok", 0.25),
        (OTHER, "", ""): ("unsupported", None),
        (OTHER, MIG, ""): ("ok", 0.3),
    }
    assert shares(collected) == {UID: 0.5, NEIGHBOUR: 0.25}
    assert sum(row.get("power_watts", 0) for row in collected.rows["samples"]) == 390.0
    (breach,) = collected.rows["findings"]
    assert (breach["device_id"], breach["partition_id"], breach["workload_id"]) == (OTHER, MIG, STRANGER)
    assert breach["message"] == "pid 42 (xmrig) of pod ml/nb-3 is on it without an allocation"


def test_a_lasting_finding_is_repeated_only_after_a_while(node: Node) -> None:
    assert len(node.collect().rows["findings"]) == 1
    assert node.collect(NOW + timedelta(seconds=10)).rows["findings"] == []
    assert len(node.collect(NOW + timedelta(minutes=10)).rows["findings"]) == 1
    assert "findings" not in node.collect(NOW + timedelta(minutes=11), READINGS[:2]).rows
    assert len(node.collect(NOW + timedelta(minutes=11, seconds=10)).rows["findings"]) == 1


def test_an_unreachable_kubelet_is_a_finding_and_no_process_is_in_breach(node: Node) -> None:
    node.pod_resources.stop()
    node.pod_resources.socket.unlink(missing_ok=True)
    collected = node.collect()
    (finding,) = collected.rows["findings"]
    assert finding["finding"] == "source_unreachable"
    assert by_place(collected)[GPU, "", UID] == ("ok", 0.5)
    assert by_place(collected)[OTHER, MIG, STRANGER] == ("unsupported", None)
    node.pod_resources.start()
    assert shares(node.collect(NOW + timedelta(seconds=10))) == {UID: 0.5, NEIGHBOUR: 0.25}


def test_unknown_pods_are_a_finding_too(node: Node) -> None:
    node.pods.status = 403
    (finding,) = node.collect().rows["findings"]
    assert "nodes/pods" in finding["message"]


def test_a_name_that_passes_to_a_new_pod_takes_nothing_with_it(node: Node) -> None:
    node.collect()
    node.pods.body = node.pods.body.replace(UID.encode(), STRANGER.encode(), 1)
    collected = node.collect(NOW + timedelta(seconds=10))
    assert shares(collected) == {STRANGER: 0.5, NEIGHBOUR: 0.25}
    assert (GPU, "", UID) not in by_place(collected)  # it may still run, but it is not the device's holder any more
    assert UID in {row["workload_id"] for row in collected.rows["findings"]}


def test_without_the_hosts_processes_holders_are_unknown_and_that_is_a_finding(node: Node) -> None:
    (node.proc / "2" / "comm").write_text("pause\n")
    collected = node.collect()
    assert by_place(collected)[GPU, "", UID] == ("no_permission", None)
    assert by_place(collected)[GPU, "", ""] == ("ok", 0.8)
    assert [row["finding"] for row in collected.rows["findings"]] == ["no_permission"]


def test_an_instance_that_is_gone_is_an_allocation_without_device(node: Node) -> None:
    node.pod_resources.pods.pods.append(pod("nb-3", MIG, resource="nvidia.com/mig-1g.10gb"))
    collected = node.collect(readings=READINGS[:2])
    (finding,) = collected.rows["findings"]
    assert (finding["finding"], finding["device_id"]) == ("allocation_without_device", MIG)
    assert collected.dropped["device_not_found"] == 1


def test_a_cycle_with_eighty_pods_on_eight_gpus_is_cheap(node: Node) -> None:
    """Not a measurement: only that nothing grows with the square of what there is."""
    gpus = [f"GPU-{n:08d}-90bb-4a1e-8d3c-2b7e6a9f0d11" for n in range(8)]
    uids = [f"{n:08d}-1d5a-4f3b-8c21-6e7f8a9b0c1d" for n in range(80)]
    node.pods.body = json.dumps({"items": [pod_json(uid, f"p-{n}") for n, uid in enumerate(uids)]}).encode()
    del node.pod_resources.pods.pods[:]
    node.pod_resources.pods.pods.extend(pod(f"p-{n}", f"{gpus[n % 8]}::{n // 8}") for n in range(80))
    for n, uid in enumerate(uids):
        add_process(node.proc, 1000 + n, pod_cgroup(uid))
    readings = [
        DeviceReading(
            gpu, index=n, readings={"gpu_utilization": Reading("ok", 0.9)}, processes_state="ok",
            processes=tuple(on(1000 + k, 0.05) for k in range(n, 80, 8)),
        )
        for n, gpu in enumerate(gpus)
    ]  # fmt: skip
    began = time.process_time()
    collected = node.collect(readings=readings)
    assert time.process_time() - began < 1.0 * slowness()
    assert len(collected.rows["samples"]) == 88
    assert "findings" not in collected.rows
