"""Best fit of fractions and whole GPUs at times that are given: a pod starts when the trace says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MILLI = 1000
"""A GPU has so many thousandths."""

Request = tuple[int | None, int, int, int, tuple[str, ...]]
"""start_ms (None = never), end_ms, GPUs, milli of each, models allowed (empty = any)."""


@dataclass(frozen=True)
class NodeGpus:
    """A node's GPUs, all of one model."""

    name: str
    gpus: int
    model: str


class Fleet:
    """Free thousandths of every GPU. A fraction goes to the GPU that it fills best, whole GPUs to one node."""

    def __init__(self, nodes: Sequence[NodeGpus]) -> None:
        self._node_of = [number for number, node in enumerate(nodes) for _ in range(node.gpus)]
        self._first = [0] * len(nodes)
        for number in range(1, len(nodes)):
            self._first[number] = self._first[number - 1] + nodes[number - 1].gpus
        self._nodes = nodes
        self._free = [MILLI] * len(self._node_of)
        self._whole = [node.gpus for node in nodes]
        self._shared: set[int] = set()

    def take(self, gpus: int, milli: int, models: Sequence[str]) -> tuple[int, ...]:
        """Places of the GPUs taken; empty if none fits."""
        if gpus == 1 and milli < MILLI:
            fitting = [g for g in self._shared if self._free[g] >= milli and self._allows(self._node_of[g], models)]
            if fitting:
                return self._give(min(fitting, key=lambda g: (self._free[g], g)), milli)
        nodes = [n for n, whole in enumerate(self._whole) if whole >= gpus and self._allows(n, models)]
        if not nodes:
            return ()
        node = min(nodes, key=lambda n: (self._whole[n], n))
        own = range(self._first[node], self._first[node] + self._nodes[node].gpus)
        free = [gpu for gpu in own if self._free[gpu] == MILLI][:gpus]
        return tuple(taken for gpu in free for taken in self._give(gpu, milli))

    def give_back(self, gpus: Sequence[int], milli: int) -> None:
        for gpu in gpus:
            self._change(gpu, milli)

    def _allows(self, node: int, models: Sequence[str]) -> bool:
        return not models or self._nodes[node].model in models

    def _give(self, gpu: int, milli: int) -> tuple[int, ...]:
        self._change(gpu, -milli)
        return (gpu,)

    def _change(self, gpu: int, milli: int) -> None:
        node = self._node_of[gpu]
        self._whole[node] -= self._free[gpu] == MILLI
        self._free[gpu] += milli
        self._whole[node] += self._free[gpu] == MILLI
        if 0 < self._free[gpu] < MILLI:
            self._shared.add(gpu)
        else:
            self._shared.discard(gpu)


def place(requests: Sequence[Request], nodes: Sequence[NodeGpus]) -> list[tuple[int, ...]]:
    """For each request the places of its GPUs (counted through the nodes in order); empty = not placed."""
    fleet = Fleet(nodes)
    placed: list[tuple[int, ...]] = [()] * len(requests)
    moments = [(start, 1, number) for number, (start, *_) in enumerate(requests) if start is not None]
    moments += [(request[1], 0, number) for number, request in enumerate(requests) if request[0] is not None]
    for _, starting, number in sorted(moments):  # at the same ms, ends come first
        _, _, gpus, milli, models = requests[number]
        if starting:
            placed[number] = fleet.take(gpus, milli, models)
        else:
            fleet.give_back(placed[number], milli)
    return placed
