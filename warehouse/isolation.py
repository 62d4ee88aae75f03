"""What a workload may have of a device (its isolation level), and what each level may promise. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal

Strategy = Literal["", "mig", "time-slicing", "vgpu"]
Level = Literal["exclusive", "partitioned", "shared"]
LEVELS: Mapping[Strategy, Level] = {"": "exclusive", "mig": "partitioned", "time-slicing": "shared", "vgpu": "shared"}
"""What a workload has of a device. A vGPU has its memory for itself, and computes in turns with the others."""
PROMISES: Mapping[Level, str] = {
    "exclusive": "whole devices: compute, memory and faults are the workload's own; objectives on throughput and "
    "latency may be promised",
    "partitioned": "partitions of a device: their compute slices, memory and faults are the workload's own; objectives "
    "may be promised for that share",
    "shared": "devices in turns: compute, and with time-slicing memory and faults, are shared with others; no "
    "objective on throughput or latency may be promised",
}
"""What a level is, in words."""
ANY_LEVEL = ("queue_wait", "quota_redemption", "metering_coverage")
"""Kinds of objectives (docs/slo.md) that neighbours on a device do not touch."""
OWN_DEVICE = ("completion_time", "job_success", "latency", "error_rate")
"""Those that depend on how fast a workload computes, and on whether somebody else's fault stops it."""
OBJECTIVES: Mapping[Level, Sequence[str]] = {
    "exclusive": (*ANY_LEVEL, *OWN_DEVICE),
    "partitioned": (*ANY_LEVEL, *OWN_DEVICE),
    "shared": ANY_LEVEL,
}
"""Kinds of objectives that may be promised to a workload of a level."""
MIG_PROFILE = r"(?i)(^|[^a-z0-9])[0-9]+g\.[0-9]+gb"
"""As NVIDIA and Slurm write it: 1g.10gb, 1c.3g.20gb, 1g.10gb+me, a100_3g.20gb."""
REPLICA = r"::[0-9]+$"
"""As NVIDIA's device plugin ends the ids of replicas that take turns, of a device or of a MIG instance: GPU-UUID::3."""


def promise(level: str) -> str:
    """In words, of a level that may be unknown."""
    return next((words for one, words in PROMISES.items() if one == level), "a level that this version does not know")


def level_of_share(
    device_id: str, profile: str, partition_id: str, is_whole: bool | None, doubt: str = ""
) -> Level | Literal[""]:
    """Of what is recorded of an allocation on one device; '': that does not say.

    is_whole: whether it holds all units of the device; None: the device is not in the inventory.
    doubt: `assumed`: its source named a node only, and the books assumed the device; `contested`: others hold the same,
    so that they share it unseen.
    A replica takes turns with the others, whatever else is recorded. A part without a partition is a time-slice or
    another fraction of a device that takes turns. What partitions of other vendors keep apart is not known. As SQL: the
    column isolation_level of v_charges.
    """
    if re.search(REPLICA, partition_id) or re.search(REPLICA, device_id):
        return "shared"
    if doubt == "contested":
        return ""
    if re.search(MIG_PROFILE, profile) or partition_id.startswith("MIG-"):
        return "partitioned"
    if profile or partition_id or is_whole is None or doubt:
        return ""
    return "exclusive" if is_whole else "shared"


def weakest(levels: Sequence[str]) -> str:
    """Of all that a workload is on; '': of one it is not known, or there is none."""
    order = ("", "shared", "partitioned", "exclusive")
    return min(levels, key=lambda one: order.index(one) if one in order else 0, default="")
