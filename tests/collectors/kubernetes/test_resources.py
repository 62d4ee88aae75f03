"""What a pod asks for, counted as Kubernetes counts it, in the words of each vendor."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.kubernetes.resources import NodeFacts, Part, ShareBy, node_facts, parts, quantity, requests
from tests.collectors.kubernetes.make import container, node, pod


def asked(pod_: dict[str, Any], **facts: Any) -> list[tuple[float | None, int | None, str]]:
    return [(part.gpus, part.units, part.profile) for part in parts(requests(pod_), NodeFacts(**facts))]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"nvidia.com/gpu": 8}, [(8.0, None, "")]),
        ({"amd.com/gpu": 2}, [(2.0, None, "")]),
        ({"google.com/tpu": 4}, [(4.0, None, "")]),
        ({"habana.ai/gaudi": 8}, [(8.0, None, "")]),
        ({"huawei.com/Ascend910": 1}, [(1.0, None, "")]),
        ({"gpu.intel.com/xe": 1}, [(1.0, None, "")]),
        ({"nvidia.com/mig-1g.10gb": 2}, [(1 / 7, 1, "1g.10gb")] * 2),
        ({"nvidia.com/mig-3g.40gb": 1}, [(3 / 7, 3, "3g.40gb")]),
        ({"nvidia.com/mig-2g.12gb": 1}, [(0.5, 2, "2g.12gb")]),  # an A30 has four slices
        ({"nvidia.com/mig-1g.10gb.me": 1}, [(1 / 7, 1, "1g.10gb.me")]),
        ({"amd.com/gpu_cpx_nps4": 1}, [(1 / 8, 1, "cpx_nps4")]),
        ({"nvidia.com/gpu.shared": 2}, [(None, 1, "")] * 2),  # of how many, the node will say
        ({"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 50}, [(1.0, None, "")]),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpucores": 30}, [(0.3, None, "")]),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 4096}, [(None, None, "")]),
        ({"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-cores": 25}, [(0.25, None, "")]),
        ({"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 60}, [(0.6, None, "")]),
        ({"koordinator.sh/gpu": 200}, [(2.0, None, "")]),
        ({"nvidia.com/mig-1g.10gb": 1, "nvidia.com/mig-2g.20gb": 1}, [(1 / 7, 1, "1g.10gb"), (2 / 7, 2, "2g.20gb")]),
        ({"cpu": 4, "memory": "8Gi", "example.com/fpga": 1}, []),
        ({"nvidia.com/gpu": 0}, []),
    ],
)  # fmt: skip
def test_every_vendors_resources_become_gpus_and_units(
    resources: dict[str, Any], expected: list[tuple[float | None, int | None, str]]
) -> None:
    found = asked(pod("u", resources=resources))
    assert [(units, profile) for _, units, profile in found] == [(units, profile) for _, units, profile in expected]
    assert [gpus for gpus, _, _ in found] == pytest.approx([gpus for gpus, _, _ in expected])


@pytest.mark.parametrize("many", ["100000000", "9223372036854775807", "1E"])
def test_more_partitions_than_a_node_has_are_one_allocation_and_as_many_gpus(many: str) -> None:
    """Anybody may create such a pod; it never runs."""
    count = quantity(many)
    ((gpus, units, profile),) = asked(pod("u", resources={"nvidia.com/mig-1g.10gb": many}))
    assert (gpus, units, profile) == (pytest.approx(count / 7), None, "1g.10gb")
    assert asked(pod("u", resources={"nvidia.com/gpu.shared": many})) == [(None, None, "")]
    assert len(asked(pod("u", resources={"nvidia.com/mig-1g.10gb": 1024}))) == 1024
    kinds = {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 1000, "nvidia.com/mig-2g.20gb": 25}
    assert [gpus for gpus, _, _ in asked(pod("u", resources=kinds))] == pytest.approx([2.0, 1000 / 7, 50 / 7])


def test_the_largest_init_container_or_all_others_together_count() -> None:
    def spec(init: list[dict[str, Any]], main: list[int]) -> dict[str, Any]:
        containers = [container({"nvidia.com/gpu": each}, str(number)) for number, each in enumerate(main)]
        return pod("u", spec={"initContainers": init, "containers": containers})

    warmup = container({"nvidia.com/gpu": 4}, "warmup")
    sidecar = container({"nvidia.com/gpu": 1}, "sidecar") | {"restartPolicy": "Always"}
    assert asked(spec([warmup], [1, 2])) == [(4.0, None, "")]
    assert asked(spec([warmup], [3, 2])) == [(5.0, None, "")]
    assert asked(spec([sidecar, warmup], [1, 2])) == [(5.0, None, "")]  # the sidecar runs beside the warm-up
    assert asked(spec([warmup, sidecar], [1, 2])) == [(4.0, None, "")]  # and not before it was started
    assert asked(spec([sidecar], [1, 2])) == [(4.0, None, "")]


def test_fractions_in_annotations_alone_count() -> None:
    assert asked(pod("u", 0, 0, annotations={"gpu-fraction": "0.25"})) == [(0.25, None, "")]
    twice = {"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}
    assert asked(pod("u", 0, 0, annotations=twice)) == [(1.0, None, "")]
    assert asked(pod("u", 0, 0, annotations={"gpu-memory": "20480"}), memory_mib=81920.0) == [(0.25, None, "")]
    assert asked(pod("u", 0, 0, annotations={"gpu-fraction": "much"})) == []


def test_the_nodes_labels_say_what_a_ticket_is_worth() -> None:
    labels = {
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
        "nvidia.com/gpu.memory": "40960",
    }
    facts = node_facts(node(labels=labels))
    assert facts == NodeFacts(replicas=4, memory_mib=40960.0)
    renamed = requests(pod("u", resources={"nvidia.com/gpu.shared": 1}))
    assert parts(renamed, facts) == (Part(0.25, 1),)
    same_name = requests(pod("u", resources={"nvidia.com/gpu": 1}))
    assert parts(same_name, facts) == (Part(0.25, 1),)  # a ticket goes under the whole device's name
    memory = requests(pod("u", resources={"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10240, "nvidia.com/gpucores": 10}))
    assert parts(memory, NodeFacts(memory_mib=40960.0)) == (Part(0.25),)
    assert node_facts(node(labels=labels | {"nvidia.com/gpu.sharing-strategy": "none"})).replicas == 1


BOTH = {"nvidia.com/gpu": 2, "nvidia.com/gpumem-percentage": 50, "nvidia.com/gpucores": 20}
MIB = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10240, "nvidia.com/gpucores": 60}
RATIO = {"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory-ratio": 60}


@pytest.mark.parametrize(
    ("resources", "larger", "cores", "memory"),
    [
        (BOTH, 1.0, 0.4, 1.0),  # of two devices
        (MIB, 0.6, 0.6, 0.25),  # of 40,960 MiB
        (RATIO, 0.6, 0.5, 0.6),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpucores": 30}, 0.3, 0.3, 0.3),  # what names one is measured by that
        ({"nvidia.com/gpu": 1, "nvidia.com/gpumem": 10240}, 0.25, 0.25, 0.25),
        ({"koordinator.sh/gpu": 50}, 0.5, 0.5, 0.5),
        ({"nvidia.com/gpu": 1, "nvidia.com/gpucores": 150, "nvidia.com/gpumem-percentage": 10}, 1.0, 1.0, 0.1),
        ({"nvidia.com/gpu": 3}, 3.0, 3.0, 3.0),
    ],
)
def test_a_share_is_that_of_the_cores_of_the_memory_or_the_larger(
    resources: dict[str, Any], larger: float, cores: float, memory: float
) -> None:
    ways: tuple[ShareBy, ...] = ("larger", "cores", "memory")
    found = [parts(requests(pod("u", resources=resources), (), by), NodeFacts(memory_mib=40960.0)) for by in ways]
    assert [part.gpus for (part,) in found] == pytest.approx([larger, cores, memory])


def test_other_resources_can_be_named() -> None:
    own = pod("u", resources={"acme.com/accelerator": 2})
    assert requests(own) == ()
    (found,) = requests(own, ("acme.com/accelerator",))
    assert (found.count, found.kind, found.vendor) == (2, "whole", "acme")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("500m", 0.5),
        ("2k", 2000),
        ("1Gi", 2**30),
        ("1e3", 1000),
        ("1.5", 1.5),
        ("", 0),
        ("many", 0),
        (3, 3),
        ("9" * 400, 0),
    ],
)
def test_quantities_are_read_as_kubernetes_writes_them(written: Any, value: float) -> None:
    assert quantity(written) == pytest.approx(value)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(JUNK, st.sampled_from(["spec", "metadata", "status"]))
def test_no_object_however_odd_breaks_the_reader(junk: Any, where: str) -> None:
    assert isinstance(requests({**pod("u"), where: junk}), tuple)
