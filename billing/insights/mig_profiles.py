"""The MIG profiles that each model supports.

Source: NVIDIA MIG User Guide, "Supported MIG Profiles", https://docs.nvidia.com/datacenter/tesla/mig-user-guide/
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GB = 10**9


@dataclass(frozen=True)
class MigProfile:
    """An instance of `slices` of the model's `of` compute slices.

    memory_bytes: the number in the name, in decimal gigabytes; what the instance really has is a little more.
    """

    name: str
    slices: int
    of: int
    memory_bytes: int


_TABLE = (
    # the model's name, its least memory in GB, profiles up to the whole device
    (r"\bA30\b", 0, "1g.6gb 2g.12gb 4g.24gb"),
    (r"\bA100\b", 60, "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
    (r"\bA100\b", 0, "1g.5gb 1g.10gb 2g.10gb 3g.20gb 4g.20gb 7g.40gb"),
    (r"\bGH200\b", 130, "1g.18gb 1g.36gb 2g.36gb 3g.72gb 4g.72gb 7g.144gb"),
    (r"\bGH200\b", 0, "1g.12gb 1g.24gb 2g.24gb 3g.48gb 4g.48gb 7g.96gb"),
    (r"\bH200\b", 0, "1g.18gb 1g.35gb 2g.35gb 3g.71gb 4g.71gb 7g.141gb"),
    (r"\bH100\b", 90, "1g.12gb 1g.24gb 2g.24gb 3g.47gb 4g.47gb 7g.94gb"),
    (r"\bH100\b", 0, "1g.10gb 1g.20gb 2g.20gb 3g.40gb 4g.40gb 7g.80gb"),
    (r"\bB200\b", 0, "1g.23gb 1g.45gb 2g.45gb 3g.90gb 4g.90gb 7g.180gb"),
)


def mig_profiles(model: str, memory_bytes: int) -> tuple[MigProfile, ...]:
    """The profiles of the model with that much memory, the smallest first; none if it has no MIG or is not known."""
    for pattern, least_gb, names in _TABLE:
        if re.search(pattern, model) and memory_bytes >= least_gb * GB:
            sizes = {name: _size(name) for name in names.split()}
            of = max(slices for slices, _ in sizes.values())
            return tuple(MigProfile(name, slices, of, memory * GB) for name, (slices, memory) in sizes.items())
    return ()


def profile_named(model: str, memory_bytes: int, name: str) -> MigProfile | None:
    """The model's profile of that name."""
    return next((profile for profile in mig_profiles(model, memory_bytes) if profile.name == name), None)


def _size(name: str) -> tuple[int, int]:
    """Compute slices and GB."""
    slices, memory = name.removesuffix("gb").split("g.")
    return int(slices), int(memory)
