"""How a ComputePool's devices are given away: whole, in partitions or in turns; what that may promise a workload; and
which nodes contradict it. Pure.

Source: labels of NVIDIA's GPU feature discovery, https://github.com/NVIDIA/k8s-device-plugin/tree/main/docs/gpu-feature-discovery;
        resources of its device plugin, https://docs.nvidia.com/datacenter/cloud-native/kubernetes/latest/index.html
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from collectors.kubernetes.objects import Object, child, items, text
from collectors.kubernetes.resources import quantity
from scheduler.kubernetes.elastic_jobs import NVIDIA
from scheduler.placement.mig import Geometry, geometries
from scheduler.settings import SettingsError
from warehouse.isolation import LEVELS, PROMISES, Level, Strategy

MIG = "nvidia.com/mig-"
MOST_REPLICAS, MOST_PARTS = 1024, 64
_MODELS: Sequence[tuple[str, str]] = (
    (r"\bA30\b", "a30-24gb"),
    (r"\bA100\b.*\b40GB\b", "a100-40gb"),
    (r"\bA100\b.*\b80GB\b", "a100-80gb"),
    (r"\bH100\b.*\b80GB\b", "h100-80gb"),
    (r"\bH200\b", "h200-141gb"),
)


@dataclass(frozen=True, slots=True)
class Virtualization:
    """strategy: '': devices are whole.   parts: of each device, by profile.   replicas: pods that take turns on it."""

    strategy: Strategy = ""
    parts: Mapping[str, int] | None = None
    replicas: int = 1


def virtualization_of(pool: Object) -> Virtualization | None:
    """None: the spec does not say.   Errors: SettingsError in one line if it contradicts itself."""
    spec, where = child(pool, "spec"), f"ComputePool {child(pool, 'metadata').get('name', '')}"
    asked = text(spec, "isolationLevel")
    if asked not in ("", *PROMISES):
        raise SettingsError(f"{where}: isolationLevel", f"is {asked[:40]!r}", f"Expected {', '.join(PROMISES)}")
    is_absent = spec.get("virtualization") is None
    if is_absent:
        if asked not in ("", "exclusive"):
            what = f"is {asked}, and nothing divides the devices"
            raise SettingsError(f"{where}: isolationLevel", what, "Say how in virtualization")
        if not asked:
            return None
    found = _said(child(spec, "virtualization"), f"{where}: virtualization", is_absent)
    _check_resources(found, spec, f"{where}: resourceNames")
    if asked and asked != LEVELS[found.strategy]:
        how = f"with {found.strategy} it is" if found.strategy else "whole devices are"
        raise SettingsError(f"{where}: isolationLevel", f"is {asked}, and {how} {LEVELS[found.strategy]}", "Change one")
    return found


def _said(of: Object, where: str, is_absent: bool) -> Virtualization:
    if is_absent:
        return Virtualization()
    strategy, parts, replicas = text(of, "strategy"), items(of, "geometry"), of.get("replicas")
    if of.get("enabled") is False:
        if strategy or parts or replicas is not None:
            raise SettingsError(where, "is not enabled, and says how", "Enable it, or say nothing else")
        return Virtualization()
    if strategy == "mig":
        _only(where, strategy, "geometry", parts, "replicas", replicas)
        return Virtualization("mig", _parts(parts, where))
    if strategy == "vgpu":
        _only(where, strategy, "geometry", parts, "replicas", replicas)
        return Virtualization("vgpu", _parts(parts, where))
    if strategy == "time-slicing":
        _only(where, strategy, "replicas", replicas, "geometry", parts)
        if type(replicas) is not int or not 2 <= replicas <= MOST_REPLICAS:
            raise SettingsError(f"{where}.replicas", f"is {str(replicas)[:40]}", f"Expected 2 to {MOST_REPLICAS}")
        return Virtualization("time-slicing", None, replicas)
    what = f"is {strategy[:40]!r}" if strategy else "is missing"
    raise SettingsError(f"{where}.strategy", what, f"Expected {', '.join(filter(None, LEVELS))}")


def _only(where: str, strategy: str, needed: str, value: object, other: str, surplus: object) -> None:
    if not value:
        raise SettingsError(f"{where}.{needed}", f"is missing, and {strategy} needs it", "Say what each device has")
    if surplus:
        raise SettingsError(f"{where}.{other}", f"is not for {strategy}", "Leave it out")


def _parts(found: Sequence[Object], where: str) -> Mapping[str, int]:
    parts: dict[str, int] = {}
    for one in found:
        profile, count = text(one, "profile"), one.get("count")
        if not profile or profile in parts or type(count) is not int or not 1 <= count <= MOST_PARTS:
            raise SettingsError(
                f"{where}.geometry", f"has {str(dict(one))[:80]}", "Name each profile once, with a count"
            )
        parts[profile] = count
    return parts


def _check_resources(found: Virtualization, spec: Object, where: str) -> None:
    """That what its nodes offer is what the strategy makes; and that a device can be cut so."""
    kind, named = text(spec, "poolType") or "gpu", resource_names(spec)
    if found.strategy == "mig":
        if kind == "npu":
            raise SettingsError(where, "of an npu pool are no MIG partitions", "Say poolType: gpu")
        parts = found.parts or {}
        fits = [*map(mig_resource, parts), *([NVIDIA] if len(parts) == 1 else [])]
        if strange := next((one for one in named if one not in fits), None):
            raise SettingsError(where, f"has {strange}, which is no partition of that geometry", f"Say {fits[0]}")
        if not named and len(parts) > 1:
            what = f"are missing, and a device has {' and '.join(parts)}"
            raise SettingsError(where, what, "Say of which its jobs get")
        if problem := unfit(parts, text(spec, "model")):
            raise SettingsError(
                where.replace("resourceNames", "virtualization.geometry"), problem, "See nvidia-smi mig -lgip"
            )
    elif not found.strategy and (part := next((one for one in named if one.startswith(MIG)), None)):
        raise SettingsError(where, f"has {part}, which is no whole device", "Say virtualization: strategy: mig")
    elif found.strategy == "vgpu" and not named:
        raise SettingsError(where, "are missing, and the names of vGPUs differ", "Say in what the nodes offer them")


def resource_names(spec: Object) -> list[str]:
    """Those that the spec has."""
    found = spec.get("resourceNames")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def mig_resource(profile: str) -> str:
    """In which the device plugin offers such partitions."""
    return f"{MIG}{profile.replace('+', '.')}"


def made_resources(pool: Object) -> list[str]:
    """In which its nodes offer what the strategy makes, if the spec does not name it; none: as without."""
    parts = items(child(pool, "spec", "virtualization"), "geometry")
    made = child(pool, "spec", "virtualization")
    if text(made, "strategy") == "mig" and len(parts) == 1 and made.get("enabled") is not False:
        return [mig_resource(text(parts[0], "profile"))]
    return []


def geometry_of(model: str) -> Geometry | None:
    """None: it is not known which partitions such a model has."""
    words = model.partition("-MIG-")[0].upper().replace("-", " ").replace("_", " ")
    return next((geometries()[name] for pattern, name in _MODELS if re.search(pattern, words)), None)


def unfit(parts: Mapping[str, int], model: str) -> str:
    """Why a device of that model cannot have all of these at once; '' if it can, or nobody knows."""
    return _unfit(tuple(parts.items()), model)


@lru_cache(maxsize=1024)
def _unfit(of_profiles: tuple[tuple[str, int], ...], model: str) -> str:
    parts = dict(of_profiles)
    bare = {profile.partition("+")[0]: count for profile, count in parts.items()}
    own = geometry_of(model)
    if own is not None:
        if strange := next((one for one in bare if one not in own.profiles), None):
            return f"{model} has no profile {strange}; it has {', '.join(own.profiles)}"
        return "" if _fits(own, bare) else f"{_written(parts)} do not fit on one {model}"
    known = [one for one in geometries().values() if any(profile in one.profiles for profile in bare)]
    whole = [one for one in known if all(profile in one.profiles for profile in bare)]
    if not known or any(_fits(one, bare) for one in whole):
        return ""
    return f"{_written(parts)} do not fit on one device" if whole else f"no device has both {' and '.join(bare)}"


def _fits(geometry: Geometry, parts: Mapping[str, int]) -> bool:
    """Largest first, at any legal place: a device has few."""
    wanted = [name for name, count in parts.items() for _ in range(count)]
    if len(wanted) > geometry.slices or sum(geometry.profiles[name].units for name in wanted) > geometry.units:
        return False
    wanted.sort(key=lambda name: -geometry.profiles[name].slices)
    masks = {0}
    for name in wanted:
        bits = geometry.profiles[name].bits
        masks = {mask | bits(start) for mask in masks for start in geometry.legal_starts(name, mask)}
    return bool(masks)


def _written(parts: Mapping[str, int]) -> str:
    return " and ".join(f"{count} x {profile}" for profile, count in parts.items())


@dataclass(frozen=True, slots=True)
class Difference:
    """A node that is not as its pool says. contradicts: its devices are given away in another way, so that the level
    would not hold there."""

    text: str
    contradicts: bool = True


def differences(node: Object, pool: Object, resource: str, devices: int) -> Iterator[Difference]:
    """How a node that the pool selects differs from what it says. resource, devices: what it offers and the pool takes;
    0: nothing.

    What a node does not tell, as without feature discovery, is no difference."""
    try:
        said = virtualization_of(pool)
    except SettingsError:
        return
    if said is None:
        return
    labels = child(node, "metadata", "labels")
    if said.strategy and not devices:
        names = resource_names(child(pool, "spec")) or made_resources(pool) or [NVIDIA]
        yield Difference(f"offers no {' nor '.join(names)}")
        return
    devices = int(quantity(child(node, "status", "allocatable").get(resource)))
    replicas = _replicas(labels, resource)
    if said.strategy == "time-slicing":
        if replicas is not None and replicas != said.replicas:
            yield Difference(f"gives each device to {replicas}, not {said.replicas}")
        elif devices % said.replicas:
            yield Difference(f"offers {devices} {resource}, no multiple of {said.replicas}", contradicts=False)
    elif replicas is not None and replicas > 1:
        yield Difference(f"gives each of {resource} to {replicas} in turns")
    product = text(labels, "nvidia.com/gpu.product")
    single = re.search(r"-MIG-(.+)$", product)
    if said.strategy in ("", "time-slicing") and single and resource == NVIDIA:
        yield Difference(f"offers MIG partitions ({single[1]}) as {NVIDIA}")
    if said.strategy == "mig":
        yield from _mig_differences(said.parts or {}, node, product, single[1] if single else "", resource)
    elif said.strategy == "vgpu" and said.parts and len(said.parts) == 1:
        yield from _uneven(devices, resource, next(iter(said.parts.values())))


def _mig_differences(
    parts: Mapping[str, int], node: Object, product: str, single: str, resource: str
) -> Iterator[Difference]:
    if resource == NVIDIA:
        profile = next(iter(parts))
        if product and single != profile.replace("+", "."):
            yield Difference(
                f"offers {f'partitions {single}' if single else 'whole devices'} as {NVIDIA}, not {profile}"
            )
    if problem := unfit(parts, product) if geometry_of(product) is not None else "":
        yield Difference(problem)
    offered = child(node, "status", "allocatable")
    per_device = set[float]()
    for profile, count in parts.items():
        of = NVIDIA if resource == NVIDIA else mig_resource(profile)
        many = quantity(offered.get(of))
        per_device.add(many / count)
        if many % count:
            yield from _uneven(int(many), of, count)
            return
    if len(per_device) > 1:
        told = ", ".join(f"{int(quantity(offered.get(mig_resource(one))))} {one}" for one in parts)
        yield Difference(f"offers {told}, not as {_written(parts)} on each device", contradicts=False)


def _uneven(many: int, resource: str, count: int) -> Iterator[Difference]:
    if many % count:
        yield Difference(f"offers {many} {resource}, no multiple of {count}", contradicts=False)


def _replicas(labels: Object, resource: str) -> int | None:
    """How many pods get each device of a resource; None: the node does not tell."""
    called = "nvidia.com/gpu" if resource in (NVIDIA, f"{NVIDIA}.shared") else resource
    found = text(labels, f"{called}.replicas")
    return int(found) if found.isascii() and found.isdigit() and len(found) < 6 else None


def level_of(pool: Object) -> Level | Literal[""]:
    """What its workloads have of a device; '': the spec does not say, or contradicts itself."""
    try:
        said = virtualization_of(pool)
    except SettingsError:
        return ""
    return "" if said is None else LEVELS[said.strategy]
