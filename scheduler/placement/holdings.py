"""Running replicas and their grants in arrays, to evaluate for all at once what each would free."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass

import numpy as np

from scheduler.model import Grant, Request
from scheduler.placement.cluster import Cluster, IntArray
from scheduler.placement.shapes import Freed, shape_key


@dataclass(frozen=True, slots=True)
class Holding:
    """One replica of a job and its grant."""

    job_id: str
    replica: int
    request: Request
    grant: Grant


class Holdings:
    """Holdings by number; numbers of those removed are used again.

    node, kind: by number, -1 for one that is not used.   requests: by kind; those of one kind can be placed alike.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._held: list[Holding | None] = []
        self._unused: list[int] = []
        self._numbers: dict[tuple[str, int], int] = {}
        self._kinds: dict[Hashable, int] = {}
        self.requests: list[Request] = []
        self.node: IntArray = np.full(0, -1, dtype=np.int64)
        self.kind: IntArray = np.full(0, -1, dtype=np.int64)
        self._freed = self._rows(0)

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[Holding]:
        return (held for held in self._held if held is not None)

    def add(self, holding: Holding) -> None:
        """A holding of the same job and replica is replaced."""
        self.remove(holding.job_id, holding.replica)
        if not self._unused:
            self._grow()
        number = self._unused.pop()
        grant, request, c = holding.grant, holding.request, self.cluster
        self._held[number] = holding
        self._numbers[holding.job_id, holding.replica] = number
        self.node[number], self.kind[number] = grant.node, self._kind(request)
        rows = self._freed
        rows.cpu[number], rows.host_memory[number] = request.cpu_milli, request.host_memory_bytes
        for row in (rows.units, rows.memory, rows.slots):
            row[number] = 0
        for d, units, memory, bits in zip(
            grant.devices, grant.units, c.device_memory(grant, request), c.device_slots(grant), strict=True
        ):
            rows.units[number, d] += units
            rows.memory[number, d] += memory
            rows.slots[number, d] |= bits

    def remove(self, job_id: str, replica: int) -> None:
        """Removes a replica's holding, if there is one."""
        number = self._numbers.pop((job_id, replica), None)
        if number is not None:
            self._held[number] = None
            self.node[number] = -1
            self._unused.append(number)

    def get(self, number: int) -> Holding:
        found = self._held[number]
        if found is None:
            raise KeyError(number)
        return found

    def numbers(self) -> IntArray:
        return np.flatnonzero(self.node >= 0)

    def freed(self, numbers: IntArray) -> Freed:
        """What each of these would give back on its node."""
        rows = self._freed
        return Freed(*(row[numbers] for row in rows))

    def freed_together(self, numbers: IntArray, nodes: IntArray) -> Freed:
        """What all of these together would give back, by the nodes asked for."""
        c = self.cluster
        of = np.searchsorted(nodes, self.node[numbers])
        total = Freed(*(np.zeros((len(nodes), *row.shape[1:]), dtype=np.int64) for row in self._freed))
        one_by_one = self.freed(numbers)
        for sums, row in zip(total[:4], one_by_one[:4], strict=True):
            np.add.at(sums, of, row)
        if any(c.geometries):
            np.bitwise_or.at(total.slots, of, one_by_one.slots)
        return total

    def _kind(self, request: Request) -> int:
        key = shape_key(request)
        if key not in self._kinds:
            self._kinds[key] = len(self.requests)
            self.requests.append(request)
        return self._kinds[key]

    def _grow(self) -> None:
        old = len(self._held)
        more = max(64, old)
        self._held += [None] * more
        self._unused += list(range(old + more - 1, old - 1, -1))
        self.node = np.concatenate([self.node, np.full(more, -1, dtype=np.int64)])
        self.kind = np.concatenate([self.kind, np.full(more, -1, dtype=np.int64)])
        pairs = zip(self._freed, self._rows(more), strict=True)
        self._freed = Freed(*(np.concatenate([row, extra]) for row, extra in pairs))

    def _rows(self, count: int) -> Freed:
        by_device = (count, self.cluster.width)
        shapes = ((count,), (count,), by_device, by_device, by_device)
        return Freed(*(np.zeros(shape, dtype=np.int64) for shape in shapes))
