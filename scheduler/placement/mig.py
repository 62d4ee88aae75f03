"""MIG geometries: where an instance of a profile may start on a device, and which start keeps the most open.

A device has memory slices, numbered from 0; an instance occupies a run of them that starts at a legal place, and a
number of compute slices (the device's units). What is occupied is a bit mask, bit i for memory slice i.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

import numpy as np
import numpy.typing as npt

from scheduler.placement.errors import PlacementError
from warehouse.yaml_text import parse_yaml


@dataclass(frozen=True, slots=True)
class Profile:
    """units: compute slices.   slices: memory slices.   starts: first memory slices that are legal."""

    name: str
    units: int
    slices: int
    starts: tuple[int, ...]

    def bits(self, start: int) -> int:
        """The mask of the memory slices of an instance that starts there."""
        return ((1 << self.slices) - 1) << start


@dataclass(frozen=True)
class Geometry:
    """units: compute slices of the device.   slices: memory slices of it."""

    name: str
    units: int
    slices: int
    profiles: Mapping[str, Profile]

    def legal_starts(self, profile: str, mask: int) -> list[int]:
        """Where an instance of that profile may still start; none for a profile that the device does not know."""
        found = self.profiles.get(profile)
        return [start for start in found.starts if not found.bits(start) & mask] if found else []

    @cached_property
    def open_placements(self) -> list[int]:
        """By mask: how many placements, of any profile, are still legal."""
        return [sum(len(self.legal_starts(name, mask)) for name in self.profiles) for mask in range(1 << self.slices)]

    def best_start(self, profile: str, mask: int) -> tuple[int, int] | None:
        """(legal placements lost, start) of the start that loses fewest, the first of several; None: there is none."""
        starts = self.legal_starts(profile, mask)
        if not starts:
            return None
        bits = self.profiles[profile].bits
        before = self.open_placements[mask]
        return min((before - self.open_placements[mask | bits(start)], start) for start in starts)

    def instances(self, profile: str) -> npt.NDArray[np.int64]:
        """By mask: the most instances of that profile that still fit."""
        return np.array(self._instances(profile), dtype=np.int64)

    def _instances(self, profile: str) -> list[int]:
        most = [0] * (1 << self.slices)
        for mask in reversed(range(1 << self.slices)):
            starts = self.legal_starts(profile, mask)
            most[mask] = max((1 + most[mask | self.profiles[profile].bits(start)] for start in starts), default=0)
        return most


@cache
def geometries() -> Mapping[str, Geometry]:
    """Those that are known (geometries.yaml), by name."""
    text = files("scheduler.placement").joinpath("geometries.yaml").read_text(encoding="utf-8")
    return {name: _geometry(name, spec) for name, spec in parse_yaml(text).items()}


def geometry(name: str) -> Geometry:
    """Errors: PlacementError, naming those that are known."""
    found = geometries().get(name)
    if found is None:
        raise PlacementError(f"geometry {name}", "is not known", f"Known are {', '.join(sorted(geometries()))}")
    return found


def _geometry(name: str, spec: Mapping[str, object]) -> Geometry:
    match spec:
        case {"units": int(units), "slices": int(slices), "profiles": dict(profiles)}:
            return Geometry(
                name,
                units,
                slices,
                {p: Profile(p, s["units"], s["slices"], tuple(s["starts"])) for p, s in profiles.items()},
            )
    raise PlacementError(f"geometries.yaml, {name}", "has no units, slices and profiles", "See the others there")
