"""The accelerators that a pod requests, of any vendor: pure functions of its spec and its node's labels.

Whole devices, partitions (MIG, AMD's CPX), replicas of a time-sliced device, and fractions (HAMi, Volcano, KAI and
Run:ai, Koordinator). Counts follow Kubernetes: containers and sidecars together, or the largest init container with
the sidecars started before it, whichever is more.

Source: https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers,
        https://github.com/NVIDIA/k8s-device-plugin, https://project-hami.io/docs/, KAI-Scheduler docs/gpu-sharing
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from collectors.kubernetes.objects import Object, child, items, text

Kind = Literal["whole", "partition", "replica", "fraction"]


@dataclass(frozen=True, slots=True)
class Rule:
    """Resource names that the pattern fits whole are accelerators; a group `profile` names the partition."""

    pattern: re.Pattern[str]
    vendor: str
    kind: Kind = "whole"


def _rule(pattern: str, vendor: str, kind: Kind = "whole") -> Rule:
    return Rule(re.compile(pattern), vendor, kind)


RULES: tuple[Rule, ...] = (
    _rule(r"nvidia\.com/gpu", "nvidia"),
    _rule(r"nvidia\.com/gpu\.shared", "nvidia", "replica"),
    _rule(r"nvidia\.com/mig-(?P<profile>\d+g\.\d+gb.*?)(\.shared)?", "nvidia", "partition"),
    _rule(r"amd\.com/gpu(_spx.*)?", "amd"),
    _rule(r"amd\.com/gpu_(?P<profile>(dpx|tpx|qpx|cpx)(_nps\d)?)", "amd", "partition"),
    _rule(r"google\.com/tpu", "google"),
    _rule(r"habana\.ai/gaudi\d?", "intel"),
    _rule(r"gpu\.intel\.com/(i915|xe)", "intel"),
    _rule(r"huawei\.com/(Ascend\w+|npu)", "huawei"),
    _rule(r"huawei\.com/Ascend\w+-(?P<profile>\d+c\S*)", "huawei", "partition"),
    _rule(r"aws\.amazon\.com/neuron(device)?", "aws"),
    _rule(r"cambricon\.com/(mlu|vmlu)\w*", "cambricon"),
    _rule(r"metax-tech\.com/gpu", "metax"),
    _rule(r"metax-tech\.com/sgpu", "metax", "fraction"),
    _rule(r"hygon\.com/dcu(num)?", "hygon"),
    _rule(r"iluvatar\.ai/gpu", "iluvatar"),
    _rule(r"mthreads\.com/gpu", "mthreads"),
    _rule(r"volcano\.sh/vgpu-number", "nvidia", "fraction"),
)
"""More can be given (`Settings.resources`); each of those counts whole devices."""


@dataclass(frozen=True, slots=True)
class Companions:
    """Resources that, beside a count, say how much of each device: in MiB, or in percent of its memory or cores."""

    memory: str
    memory_percent: str
    cores: str


COMPANIONS: Mapping[str, Companions] = {
    "nvidia.com/gpu": Companions("nvidia.com/gpumem", "nvidia.com/gpumem-percentage", "nvidia.com/gpucores"),
    "volcano.sh/vgpu-number": Companions(
        "volcano.sh/vgpu-memory", "volcano.sh/vgpu-memory-percentage", "volcano.sh/vgpu-cores"
    ),
    "metax-tech.com/sgpu": Companions("metax-tech.com/vmemory", "", "metax-tech.com/vcore"),
}
PERCENTAGES: Mapping[str, str] = {
    "koordinator.sh/gpu": "nvidia",
    "koordinator.sh/gpu-core": "nvidia",
    "koordinator.sh/gpu-memory-ratio": "nvidia",
    "tencent.com/vcuda-core": "nvidia",
}
"""Resources that count a device as 100."""
ShareBy = Literal["larger", "cores", "memory"]
_SHARE_NAMES: Mapping[ShareBy, str] = {"larger": "", "cores": "core", "memory": "memory"}
"""What is in the names of those of PERCENTAGES that say it; where none is asked for, the largest of all counts."""

AMD_PARTITIONS: Mapping[str, int] = {"dpx": 2, "tpx": 3, "qpx": 4, "cpx": 8}
"""Partitions of a device in each of AMD's compute modes; CPX gives one for each of the eight XCDs of MI300X."""
FOUR_SLICES = frozenset({"1g.6gb", "2g.12gb", "4g.24gb", "2g.48gb", "4g.96gb"})
"""MIG profiles that only devices with four compute slices have (A30, RTX PRO 6000); all others have seven."""


@dataclass(frozen=True, slots=True)
class Request:
    """One kind of accelerator that a pod asks for.

    count: devices, partitions, replicas; of a fraction, the devices it is taken from.   share: of each device, 0-1;
    None while unknown.   memory_mib: of each device, where the share depends on how much it has.   cores: 0-1, 0 =
    not named.   share_by: which of the two is the share.
    """

    resource: str
    vendor: str
    kind: Kind
    count: int
    profile: str = ""
    share: float | None = 1.0
    memory_mib: float | None = None
    cores: float = 0.0
    share_by: ShareBy = "larger"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node's labels say of its devices.   replicas: tickets given out for each device (time-slicing, MPS)."""

    replicas: int = 1
    memory_mib: float | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One allocation of a pod: the `gpus` and `units` of an event row; None if they cannot be known."""

    gpus: float | None
    units: int | None = None
    profile: str = ""


def share_of(memory: float, cores: float, by: ShareBy) -> float:
    """What part of a device a request comes to that names parts of its memory and of its cores (0: does not name it).
    What names one of them alone is measured by that."""
    if by == "larger":
        return min(1.0, max(memory, cores))
    first, other = (cores, memory) if by == "cores" else (memory, cores)
    return min(1.0, first or other)


def requests(pod: Object, extra: Sequence[str] = (), share_by: ShareBy = "larger") -> tuple[Request, ...]:
    """The accelerators that the pod's spec and annotations ask for, by resource name; empty if none.

    extra: names of further resources that count whole devices.
    """
    totals, widest = _effective(pod)
    found = []
    for resource in sorted(totals):
        rule, profile = _match(resource, extra)
        count = round(totals[resource])
        if rule is None or count <= 0:
            continue
        if rule.kind == "partition":
            share = partition_share(rule.vendor, profile)
            found.append(Request(resource, rule.vendor, "partition", count, profile, share))
        elif rule.kind == "replica":
            found.append(Request(resource, rule.vendor, "replica", count, share=None))
        else:
            share, memory, cores = _share(resource, widest.get(resource, {}), share_by)
            kind: Kind = "whole" if share == 1.0 else "fraction"
            found.append(Request(resource, rule.vendor, kind, count, "", share, memory, cores, share_by))
    percent = {resource: totals[resource] for resource in PERCENTAGES if totals.get(resource, 0) > 0}
    if percent:
        wanted = [each for each in percent if _SHARE_NAMES[share_by] in each] or percent
        resource = max(sorted(wanted), key=lambda each: percent[each])
        count = max(1, -(-round(percent[resource]) // 100))
        kind = "whole" if percent[resource] == count * 100 else "fraction"
        found.append(Request(resource, PERCENTAGES[resource], kind, count, share=percent[resource] / 100 / count))
    return tuple(found) or _annotated(pod)


MOST_PARTS = 1024
"""Partitions and replicas of a pod that are allocations of their own. No node has more, so a pod that asks for more
never runs; anybody may ask for 10^18 of them."""


def parts(asked: Sequence[Request], facts: NodeFacts) -> tuple[Part, ...]:
    """The allocations of a pod that asked for these: as many, and in the same order, whatever the node. Of more
    partitions and replicas than MOST_PARTS, those of a kind are one allocation."""
    found: list[Part] = []
    apart = sum(request.count for request in asked if request.kind in ("partition", "replica")) <= MOST_PARTS
    for request in asked:
        share = request.share
        if request.kind == "partition":
            slices = partition_units(request.vendor, request.profile)
            found += _each(Part(share, slices, request.profile), request.count, apart)
        elif request.kind == "replica":
            found += _each(Part(1 / facts.replicas if facts.replicas > 1 else None, 1), request.count, apart)
        elif request.kind == "whole" and request.resource == "nvidia.com/gpu" and facts.replicas > 1:
            # Time-sliced without another name: each of these is a ticket, not a device.
            found.append(Part(request.count / facts.replicas, request.count))
        else:
            if share is None and request.memory_mib is not None and facts.memory_mib:
                share = share_of(request.memory_mib / facts.memory_mib, request.cores, request.share_by)
            found.append(Part(None if share is None else request.count * share))
    return tuple(found)


def _each(part: Part, count: int, apart: bool) -> list[Part]:
    if apart:
        return [part] * count
    return [Part(None if part.gpus is None else part.gpus * count, None, part.profile)]


def partition_units(vendor: str, profile: str) -> int | None:
    """Units of its device that a partition takes: compute slices under MIG, one of N under AMD's modes."""
    if vendor == "amd":
        return 1
    slices = re.match(r"(\d+)g\.", profile)
    return int(slices[1]) if slices else None


def device_units(vendor: str, profile: str) -> int | None:
    """Units of a device that has such partitions."""
    if vendor == "amd":
        return AMD_PARTITIONS.get(profile.split("_")[0])
    if not re.match(r"\d+g\.", profile):
        return None
    return 4 if profile.split("+")[0] in FOUR_SLICES else 7


def partition_share(vendor: str, profile: str) -> float | None:
    """A partition as a part of its device, 0-1."""
    taken, of = partition_units(vendor, profile), device_units(vendor, profile)
    return min(1.0, taken / of) if taken and of else None


def node_facts(node: Object) -> NodeFacts:
    """Source: labels of NVIDIA's GPU feature discovery."""
    labels = child(node, "metadata", "labels")
    strategy = text(labels, "nvidia.com/gpu.sharing-strategy")
    replicas = _number(labels.get("nvidia.com/gpu.replicas"))
    return NodeFacts(
        replicas=int(replicas) if strategy not in ("", "none") and replicas and 1 < replicas <= 1024 else 1,
        memory_mib=_number(labels.get("nvidia.com/gpu.memory")) or None,
    )


def quantity(value: Any) -> float:
    """A Kubernetes quantity as a number; 0 if it is none.

    Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
    """
    return strict_quantity(value) or 0.0


def strict_quantity(value: Any) -> float | None:
    """As `quantity`; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None or match[2] not in _SUFFIXES:
        return None
    return found if isfinite(found := float(match[1]) * _SUFFIXES[match[2]]) else None


class Sum:
    """GPUs added up.   known: all parts of it are; `value` is None if they are not, or if there was none."""

    def __init__(self) -> None:
        self.total, self.parts, self.known = 0.0, 0, True

    def add(self, gpus: float | None) -> None:
        self.parts += 1
        if gpus is None:
            self.known = False
        else:
            self.total += gpus

    @property
    def value(self) -> float | None:
        return round(self.total, 9) if self.parts and self.known else None


def gpus_of_each(resource: str, extra: Sequence[str] = ()) -> float | None:
    """GPUs that one of a resource is, wherever it is; 0 if that depends on the node; None if it counts none."""
    rule, profile = _match(resource, extra)
    if rule is None:
        return None
    if rule.kind == "partition":
        return partition_share(rule.vendor, profile) or 0.0
    return 1.0 if rule.kind == "whole" else 0.0


_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d{1,2})?)([numkMGTPE]?i?)")
_SUFFIXES = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def _number(value: Any) -> float | None:
    found = quantity(value) if isinstance(value, str) else 0.0
    return found or None


def _match(resource: str, extra: Sequence[str]) -> tuple[Rule | None, str]:
    for rule in RULES:
        if found := rule.pattern.fullmatch(resource):
            return rule, found.groupdict().get("profile") or ""
    return (Rule(re.compile(re.escape(resource)), resource.split(".")[0]), "") if resource in extra else (None, "")


def _effective(pod: Object) -> tuple[dict[str, float], dict[str, dict[str, float]]]:
    """What the scheduler counts of each resource, and the requests of the container that requests most of it."""
    spec = child(pod, "spec")
    widest: dict[str, dict[str, float]] = {}
    running: dict[str, float] = {}
    peaks: dict[str, float] = {}
    for container in items(spec, "initContainers"):
        asks = _asks(container, widest)
        sidecar = container.get("restartPolicy") == "Always"
        for resource, amount in asks.items():
            together = running.get(resource, 0.0) + amount
            peaks[resource] = max(peaks.get(resource, 0.0), together)
            if sidecar:
                running[resource] = together
    for container in items(spec, "containers"):
        for resource, amount in _asks(container, widest).items():
            running[resource] = running.get(resource, 0.0) + amount
    return {resource: max(running.get(resource, 0.0), peaks.get(resource, 0.0)) for resource in running | peaks}, widest


def _asks(container: Object, widest: dict[str, dict[str, float]]) -> dict[str, float]:
    """A container's extended resources; if both are given, limits equal requests."""
    given = {**child(container, "resources", "requests"), **child(container, "resources", "limits")}
    asks = {resource: quantity(amount) for resource, amount in given.items() if "/" in resource}
    for resource, amount in asks.items():
        if amount >= widest.get(resource, {}).get(resource, 0.0):
            widest[resource] = asks
    return asks


def _share(resource: str, asks: Mapping[str, float], by: ShareBy) -> tuple[float | None, float | None, float]:
    """(share of each device, MiB of each device, share of its cores)."""
    beside = COMPANIONS.get(resource)
    if beside is None:
        return 1.0, None, 0.0
    memory, percent = asks.get(beside.memory, 0.0), asks.get(beside.memory_percent, 0.0)
    cores = min(1.0, asks.get(beside.cores, 0.0) / 100)
    if memory >= 2**20:
        memory /= 2**20  # written with a unit, where the plugin counts MiB
    if memory > 0 and not percent and not (by == "cores" and cores):
        return None, memory, cores
    if not percent and not cores:
        return 1.0, None, 0.0
    return share_of(percent / 100, cores, by), None, cores


def _annotated(pod: Object) -> tuple[Request, ...]:
    """Fractions that are in annotations only, as with KAI and Run:ai."""
    annotations = child(pod, "metadata", "annotations")
    fraction = _number(text(annotations, "gpu-fraction"))
    memory = _number(text(annotations, "gpu-memory"))
    devices = round(_number(text(annotations, "gpu-fraction-num-devices")) or 1)
    if fraction is not None and 0 < fraction <= 1:
        return (Request("gpu-fraction", "nvidia", "whole" if fraction == 1 else "fraction", devices, share=fraction),)
    if memory is not None and memory > 0:
        return (Request("gpu-memory", "nvidia", "fraction", devices, share=None, memory_mib=memory),)
    return ()
