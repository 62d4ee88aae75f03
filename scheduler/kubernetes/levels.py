"""What a workload may have of a device, and what each level of it may promise."""

from __future__ import annotations

from collections.abc import Mapping
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


def promise(level: str) -> str:
    """In words, of a level that may be unknown."""
    return next((words for one, words in PROMISES.items() if one == level), "a level that this version does not know")
