"""Which metrics a device must have, so that a missing one is a finding and not an unnoticed gap.

The facts are in expected.toml. A metric is missing if its reading has no value: at once if the driver says that it is
not supported, after PATIENCE cycles if it is blank (rates need two cycles, and a value may fail once).
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from collectors.readings import State

DATA = Path(__file__).with_name("expected.toml")
MODES = ("whole", "mig_parent", "mig", "vgpu")
PROCESSES = "processes"
"""Stands for the list of processes."""
PATIENCE = 3


@dataclass(frozen=True, slots=True)
class Expectation:
    architectures: frozenset[str]
    modes: frozenset[str]
    metrics: frozenset[str]


@cache
def expectations() -> tuple[Expectation, ...]:
    with DATA.open("rb") as file:
        entries = tomllib.load(file)["expected"]
    return tuple(
        Expectation(frozenset(one["architectures"]), frozenset(one["modes"]), frozenset(one["metrics"]))
        for one in entries
    )


@cache
def expected(architecture: str, mode: str) -> frozenset[str]:
    """Metrics that a device or partition of that kind must have; none for an architecture that is not known yet."""
    return frozenset().union(
        *(one.metrics for one in expectations() if architecture in one.architectures and mode in one.modes)
    )


@dataclass(frozen=True, slots=True)
class Missing:
    """A metric that became missing in this cycle."""

    metric: str
    state: State


class Absences:
    """Remembers what is missing of each device and partition, so that it is said once, and again only after it was
    there in between."""

    def __init__(self) -> None:
        self._cycles: dict[tuple[str, str], int] = {}
        self._reported: set[tuple[str, str]] = set()

    def look(self, what: str, wanted: Iterable[str], states: Mapping[str, State]) -> list[Missing]:
        """What of `what` (a UUID) is missing now and was not before. states: by metric; absent counts as blank."""
        found: list[Missing] = []
        for metric in sorted(wanted):
            key = (what, metric)
            state = states.get(metric, "blank")
            if state in ("ok", "idle"):
                self._cycles.pop(key, None)
                self._reported.discard(key)
                continue
            self._cycles[key] = self._cycles.get(key, 0) + 1
            if state in ("blank", "stale") and self._cycles[key] < PATIENCE:
                continue
            if key not in self._reported:
                self._reported.add(key)
                found.append(Missing(metric, state))
        return found

    def keep(self, names: Iterable[str]) -> None:
        """Forget everything else, such as MIG instances that are gone."""
        kept = set(names)
        self._cycles = {key: cycles for key, cycles in self._cycles.items() if key[0] in kept}
        self._reported = {key for key in self._reported if key[0] in kept}
