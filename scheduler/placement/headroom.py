"""Capacity that pools reserve, and how much ordinary jobs may still take, by kind of device.

A kind is a model and size of device in a pool. Ordinary jobs together hold at most its usable units less the reserved
ones; only a `Privileged` request may take the rest. Shares count by their units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from scheduler.model import Grant, Node, NodeState, Privileged, Request

IntArray = npt.NDArray[np.int64]
USABLE: tuple[NodeState, ...] = ("available", "reserved")
"""States in which a node's devices count as capacity."""


@dataclass(frozen=True, slots=True)
class HeadroomRule:
    """What a pool reserves of each kind of device: units, or a part of the usable ones, rounded up to whole devices."""

    units: int = 0
    part: Fraction = Fraction(0)

    def of(self, usable: int, whole: int) -> int:
        """Reserved units of `usable` ones.   whole: units of a device."""
        if self.part:
            return min(usable, math.ceil(self.part * usable / whole) * whole)
        return min(usable, self.units)


class Kind(NamedTuple):
    """Devices of a pool that are counted together."""

    pool: str
    model: str
    units: int


class Headroom:
    """kinds: with a reserve.   number: index of each device's kind, by node and device; -1: none.

    usable, ordinary: units by kind that are there, and that ordinary jobs hold of them, or promises keep for them. What
    is held on other nodes counts in neither; `held` has it by node.
    """

    def __init__(
        self, nodes: Sequence[Node], there: Sequence[bool], rules: Mapping[str, HeadroomRule], width: int
    ) -> None:
        self._rules = rules
        kinds: dict[Kind, int] = {}
        self.number: IntArray = np.full((len(nodes), width), -1, dtype=np.int64)
        for n, node in enumerate(nodes):
            for d, device in enumerate(node.devices):
                if node.pool in rules:
                    kind = Kind(node.pool, device.model, device.units)
                    self.number[n, d] = kinds.setdefault(kind, len(kinds))
        self.kinds = tuple(kinds)
        wholes: IntArray = np.array([kind.units for kind in self.kinds], dtype=np.int64)
        self._by_node: list[IntArray] = [
            np.bincount(row[row >= 0], minlength=len(kinds)).astype(np.int64) * wholes for row in self.number
        ]
        self.usable: IntArray = np.zeros(len(kinds), dtype=np.int64)
        self.ordinary: IntArray = np.zeros(len(kinds), dtype=np.int64)
        self.held: IntArray = np.zeros((len(nodes), len(kinds)), dtype=np.int64)
        self._there = [*there]
        self.limit: IntArray = np.zeros(len(kinds), dtype=np.int64)
        self.usable[:] = sum((units for units, is_there in zip(self._by_node, there, strict=True) if is_there), 0)
        self._settle()

    def set_there(self, node: int, there: bool) -> None:
        """Whether a node's devices count as capacity."""
        if there == self._there[node]:
            return
        sign = 1 if there else -1
        self._there[node] = there
        self.usable += self._by_node[node] * sign
        self.ordinary += self.held[node] * sign
        self._settle()

    def count(self, grant: Grant, request: Request, sign: int) -> None:
        """A grant is taken (1), or given back (-1)."""
        for kind, units in self.of(grant, request).items():
            self.held[grant.node, kind] += sign * units
            if self._there[grant.node]:
                self.ordinary[kind] += sign * units

    def forget(self) -> None:
        """Nothing is held."""
        self.held[:] = 0
        self.ordinary[:] = 0

    def _settle(self) -> None:
        for number, usable in enumerate(self.usable.tolist()):
            self.limit[number] = usable - self.reserved(number)

    def reserved(self, number: int) -> int:
        """Reserved units of a kind."""
        kind = self.kinds[number]
        return self._rules[kind.pool].of(int(self.usable[number]), kind.units)

    def left(self) -> IntArray:
        """Units by kind that ordinary jobs may still take; negative if they hold too much."""
        return self.limit - self.ordinary

    def of(self, grant: Grant, request: Request) -> dict[int, int]:
        """Units by kind that a grant takes of the headroom while its node is there."""
        found: dict[int, int] = {}
        free = request.kept_in if isinstance(request, Privileged) else frozenset()
        for device, units in zip(grant.devices, grant.units, strict=True):
            number = int(self.number[grant.node, device])
            if number >= 0 and self.kinds[number].pool not in free:
                found[number] = found.get(number, 0) + units
        return found

    def costs(self, request: Request, need: npt.NDArray[np.int32], never: int) -> IntArray:
        """By node and kind: the most that a replica may take of the headroom.   need: units by device; `never` if
        unsuitable."""
        free = request.kept_in if isinstance(request, Privileged) else frozenset()
        found: IntArray = np.zeros((len(self.number), len(self.kinds)), dtype=np.int64)
        asked = np.where(need == never, 0, need)
        for number, kind in enumerate(self.kinds):
            if kind.pool not in free:
                found[:, number] = request.devices * np.where(self.number == number, asked, 0).max(axis=1, initial=0)
        return found
