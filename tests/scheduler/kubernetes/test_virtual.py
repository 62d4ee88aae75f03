"""How pools say that their devices are given away, what that promises, and nodes that contradict it."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest

from collectors.kubernetes.objects import condition
from scheduler.kubernetes.inventory import differs, offer_of
from scheduler.kubernetes.virtual import level_of, unfit, virtualization_of
from scheduler.placement.mig import geometries
from scheduler.settings import SettingsError
from tests.draws import keep_seed
from tests.scheduler.kubernetes.site import DeclaredSite
from tests.scheduler.kubernetes.standin import Thing, declared, gpu_node, node_of

SEVEN = {"strategy": "mig", "geometry": [{"profile": "1g.10gb", "count": 7}]}
MIXED = {"strategy": "mig", "geometry": [{"profile": "3g.40gb", "count": 1}, {"profile": "1g.10gb", "count": 4}]}
FOUR = {"strategy": "time-slicing", "replicas": 4}
VGPU = {"strategy": "vgpu", "geometry": [{"profile": "A100-10C", "count": 8}]}
A100 = "NVIDIA-A100-SXM4-80GB"


def pool(**spec: Any) -> Thing:
    return declared("p", nodeSelector={"pool": "p"}, **spec)


def node(name: str = "n", labels: dict[str, str] | None = None, **resources: int) -> Thing:
    """resources: below nvidia.com, with dashes and dots as underscores."""
    found = gpu_node(name, 0, pool="p")
    found["metadata"]["labels"] |= {f"nvidia.com/{key}": value for key, value in (labels or {}).items()}
    found["status"]["allocatable"] = {
        f"nvidia.com/{key.replace('__', '.').replace('_', '-')}": str(value) for key, value in resources.items()
    }
    return found


@pytest.mark.parametrize(
    ("spec", "level"),
    [
        ({}, ""),
        ({"virtualization": None}, ""),
        ({"isolationLevel": "exclusive"}, "exclusive"),
        ({"virtualization": {"enabled": False}}, "exclusive"),
        ({"virtualization": SEVEN}, "partitioned"),
        ({"virtualization": MIXED, "resourceNames": ["nvidia.com/mig-1g.10gb"]}, "partitioned"),
        (
            {"virtualization": SEVEN, "resourceNames": ["nvidia.com/gpu"], "isolationLevel": "partitioned"},
            "partitioned",
        ),
        ({"virtualization": SEVEN, "model": A100}, "partitioned"),
        ({"virtualization": {"strategy": "mig", "geometry": [{"profile": "9g.999gb", "count": 2}]}}, "partitioned"),
        ({"virtualization": FOUR, "isolationLevel": "shared"}, "shared"),
        ({"virtualization": VGPU, "resourceNames": ["nvidia.com/GRID_A100-10C"]}, "shared"),
    ],
)
def test_a_level_follows_from_how_devices_are_given_away(spec: dict[str, Any], level: str) -> None:
    virtualization_of(pool(**spec))
    assert level_of(pool(**spec)) == level


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ({"isolationLevel": "dedicated"}, "is 'dedicated'. Expected exclusive, partitioned, shared"),
        ({"isolationLevel": "shared"}, "is shared, and nothing divides the devices"),
        ({"isolationLevel": "exclusive", "resourceNames": ["nvidia.com/mig-1g.10gb"]}, "which is no whole device"),
        ({"virtualization": {}}, "strategy: is missing"),
        ({"virtualization": {"enabled": True}}, "strategy: is missing"),
        ({"virtualization": "mig"}, "strategy: is missing"),
        ({"virtualization": SEVEN | {"enabled": False}}, "is not enabled, and says how"),
        ({"virtualization": {"strategy": "mps"}}, "is 'mps'. Expected mig, time-slicing, vgpu"),
        ({"virtualization": {"strategy": "mig"}}, "geometry: is missing, and mig needs it"),
        ({"virtualization": SEVEN | {"replicas": 2}}, "replicas: is not for mig"),
        ({"virtualization": {"strategy": "time-slicing"}}, "replicas: is missing"),
        ({"virtualization": FOUR | {"replicas": 1}}, "is 1. Expected 2 to 1024"),
        ({"virtualization": FOUR | {"geometry": SEVEN["geometry"]}}, "geometry: is not for time-slicing"),
        ({"virtualization": VGPU}, "are missing, and the names of vGPUs differ"),
        ({"virtualization": MIXED}, "are missing, and a device has 3g.40gb and 1g.10gb"),
        ({"virtualization": SEVEN, "resourceNames": ["nvidia.com/mig-3g.40gb"]}, "no partition of that geometry"),
        ({"virtualization": SEVEN, "poolType": "npu", "resourceNames": ["a.b/c"]}, "of an npu pool are no MIG"),
        ({"virtualization": SEVEN, "isolationLevel": "exclusive"}, "is exclusive, and with mig it is partitioned"),
        ({"virtualization": {"enabled": False}, "isolationLevel": "shared"}, "and whole devices are exclusive"),
        ({"virtualization": SEVEN, "model": "NVIDIA A30"}, "NVIDIA A30 has no profile 1g.10gb"),
        ({"virtualization": {"strategy": "mig", "geometry": [{"profile": "1g.10gb", "count": 8}]}}, "do not fit"),
        ({"virtualization": {"strategy": "mig", "geometry": [{"profile": "3g.40gb"}]}}, "Name each profile once"),
    ],
)
def test_what_contradicts_itself_is_refused_in_one_line(spec: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingsError, match=match) as caught:
        virtualization_of(pool(**spec))
    assert "\n" not in str(caught.value)
    assert level_of(pool(**spec)) == ""


def test_partitions_fit_if_each_has_a_legal_place() -> None:
    """Against every way to place them, one after the other in any order."""
    dice = random.Random(keep_seed())
    seen = set()
    for _ in range(60):
        geometry = geometries()[dice.choice(["a100-80gb", "a100-40gb", "a30-24gb"])]
        model = {"a100-80gb": A100, "a100-40gb": "NVIDIA-A100-SXM4-40GB", "a30-24gb": "NVIDIA-A30"}[geometry.name]
        names = dice.sample(sorted(geometry.profiles), dice.randint(1, 2))
        parts = {name: dice.randint(1, 3) for name in names}
        wanted = [geometry.profiles[name] for name, count in parts.items() for _ in range(count)]
        fits = sum(one.units for one in wanted) <= geometry.units and any(
            sum(bin(one.bits(start)).count("1") for one, start in zip(wanted, starts, strict=True))
            == bin(_together(wanted, starts)).count("1")
            for starts in itertools.product(*(one.starts for one in wanted))
        )
        assert (unfit(parts, model) == "") == fits, (parts, model)
        seen.add(fits)
    assert seen == {True, False}


def _together(wanted: list[Any], starts: tuple[int, ...]) -> int:
    found = 0
    for one, start in zip(wanted, starts, strict=True):
        found |= one.bits(start)
    return found


@pytest.mark.parametrize(
    ("spec", "there", "said", "is_taken"),
    [
        ({}, node(gpu=32, labels={"gpu.replicas": "8"}), [], True),
        ({"isolationLevel": "exclusive"}, node(gpu=4), [], True),
        ({"isolationLevel": "exclusive"}, node(gpu=4, labels={"gpu.replicas": "1"}), [], True),
        ({"isolationLevel": "exclusive"}, node(gpu=32, labels={"gpu.replicas": "8"}),
         ["gives each of nvidia.com/gpu to 8 in turns"], False),
        ({"isolationLevel": "exclusive"}, node(gpu=28, labels={"gpu.product": f"{A100}-MIG-1g.10gb"}),
         ["offers MIG partitions (1g.10gb) as nvidia.com/gpu"], False),
        ({"virtualization": FOUR}, node(gpu=16, labels={"gpu.replicas": "4"}), [], True),
        ({"virtualization": FOUR}, node(gpu=16), [], True),
        ({"virtualization": FOUR | {"replicas": 100}}, node(gpu=800, labels={"gpu.replicas": "100"}), [], True),
        ({"virtualization": FOUR}, node(gpu=32, labels={"gpu.replicas": "8"}),
         ["gives each device to 8, not 4"], False),
        ({"virtualization": FOUR}, node(gpu=4, labels={"gpu.replicas": "1"}), ["gives each device to 1, not 4"], False),
        ({"virtualization": FOUR}, node(gpu=6), ["offers 6 nvidia.com/gpu, no multiple of 4"], True),
        ({"virtualization": SEVEN}, node(mig_1g__10gb=28, labels={"gpu.product": A100}), [], True),
        ({"virtualization": SEVEN}, node(gpu=4), ["offers no nvidia.com/mig-1g.10gb"], False),
        ({"virtualization": SEVEN}, node(mig_1g__10gb=27),
         ["offers 27 nvidia.com/mig-1g.10gb, no multiple of 7"], True),
        ({"virtualization": SEVEN}, node(mig_1g__10gb=28, labels={"mig-1g.10gb.replicas": "2"}),
         ["gives each of nvidia.com/mig-1g.10gb to 2 in turns"], False),
        ({"virtualization": SEVEN}, node(mig_1g__10gb=28, labels={"gpu.product": "NVIDIA-H200"}),
         ["NVIDIA-H200 has no profile 1g.10gb; it has 1g.18gb, 1g.35gb, 2g.35gb, 3g.71gb, 4g.71gb, 7g.141gb"], False),
        ({"virtualization": SEVEN, "resourceNames": ["nvidia.com/gpu"]},
         node(gpu=28, labels={"gpu.product": f"{A100}-MIG-1g.10gb"}), [], True),
        ({"virtualization": SEVEN, "resourceNames": ["nvidia.com/gpu"]}, node(gpu=28, labels={"gpu.product": A100}),
         ["offers whole devices as nvidia.com/gpu, not 1g.10gb"], False),
        ({"virtualization": MIXED, "resourceNames": ["nvidia.com/mig-1g.10gb"]},
         node(mig_1g__10gb=8, mig_3g__40gb=2), [], True),
        ({"virtualization": MIXED, "resourceNames": ["nvidia.com/mig-1g.10gb"]}, node(mig_1g__10gb=8, mig_3g__40gb=4),
         ["offers 4 3g.40gb, 8 1g.10gb, not as 1 x 3g.40gb and 4 x 1g.10gb on each device"], True),
    ],
)  # fmt: skip
def test_a_node_that_contradicts_its_pool_is_named_and_not_taken(
    spec: dict[str, Any], there: Thing, said: list[str], is_taken: bool
) -> None:
    assert differs(there, pool(**spec)) == said
    assert (offer_of(there, pool(**spec)) is not None) == is_taken


def test_a_workload_has_the_level_of_its_nodes_and_asks_for_one(tmp_path: Path) -> None:
    site = DeclaredSite(tmp_path)
    whole = site.declare("computepools", "p", nodeSelector={"pool": "p"}, isolationLevel="exclusive", model="A100")
    for name in ("s-0", "s-1"):
        site.cluster.put("nodes", gpu_node(name, 8, pool="s"))
    turns = site.declare("computepools", "s", nodeSelector={"pool": "s"}, virtualization=FOUR)
    anywhere = site.create("anywhere", least=5, gpusPerReplica=4)
    shared = site.create("shared", isolationLevel="shared")
    never = site.create("never", isolationLevel="partitioned")
    for _ in range(3):
        site.settle()
        site.run()
    site.settle()
    assert (whole["status"]["isolationLevel"], turns["status"]["isolationLevel"]) == ("exclusive", "shared")
    assert "no objective" in turns["status"]["promises"]
    assert condition(turns, "Virtualized")["reason"] == "AsDeclared"
    assert anywhere["status"]["isolationLevel"] == "shared", "the weakest of its nodes"
    assert (shared["status"]["isolationLevel"], node_of(site.pods_of(shared)[0])[0]) == ("shared", "s")
    assert (never["status"]["state"], never["status"]["reason"]) == ("Pending", "NeverFits")
    site.cluster.put("nodes", gpu_node("s-1", 16, pool="s", **{"nvidia.com/gpu.replicas": "8"}))
    site.cluster.put("nodes", gpu_node("s-0", 8, pool="s", **{"nvidia.com/gpu.replicas": "8"}))
    site.settle()
    drift = condition(turns, "Virtualized")
    assert (drift["status"], drift["reason"]) == ("False", "Drift")
    assert drift["message"] == "node s-0 gives each device to 8, not 4; node s-1 gives each device to 8, not 4"
    assert condition(turns, "Ready")["reason"] == "NoNodes"
    assert shared["status"]["state"] == "Running", "what runs continues"
    site.declare("computepools", "s", nodeSelector={"pool": "s"}, virtualization=FOUR, isolationLevel="exclusive")
    site.settle()
    assert condition(turns, "Ready")["reason"] == "Invalid"
    site.declare("computepools", "s", nodeSelector={"pool": "s"})
    site.settle()
    assert condition(turns, "Virtualized") == {}
    assert "isolationLevel" not in turns["status"]


def test_a_pool_that_only_says_more_goes_on_and_one_that_says_something_else_waits_for_its_nodes(
    tmp_path: Path,
) -> None:
    site = DeclaredSite(tmp_path)
    own = site.declare("computepools", "p", nodeSelector={"pool": "p"})
    first = [site.create(f"a{number}", gpusPerReplica=3) for number in range(3)]
    site.settle()
    site.declare("computepools", "p", nodeSelector={"pool": "p"}, isolationLevel="exclusive")
    second, asks = site.create("b"), site.create("c", isolationLevel="exclusive")
    for _ in range(3):
        site.settle()
        site.run()
    site.settle()
    assert (second["status"]["state"], own["status"]["nodes"]) == ("Running", 3), "nobody waits for empty nodes"
    assert "isolationLevel" not in second["status"]
    assert asks["status"]["state"] == "Pending"
    for pod in [*site.pods_of(first[0]), *site.pods_of(first[1]), *site.pods_of(second)]:
        site.cluster.ends(pod, 0)
    for _ in range(3):
        site.settle()
        site.run()
    site.settle()
    assert (asks["status"]["state"], asks["status"]["isolationLevel"]) == ("Running", "exclusive")
    site.declare("computepools", "p", nodeSelector={"pool": "p"}, virtualization=FOUR)
    site.settle()
    assert own["status"]["nodes"] == 2, "the node of what asked for another level waits until it is empty"
    assert "is still used by jobs of pool p" in condition(own, "Ready")["message"]
