"""Possible victims, their cost, and the order in which to try them: node by node, the cheapest nodes first.

This is an estimate by counts of devices and units; scheduler.cycle.preempt checks it with placement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scheduler.cycle.state import JobClass, Running
from scheduler.cycle.trial import Trial
from scheduler.model import Grant
from scheduler.placement.shapes import NEVER

MOST_NODES, FEWER_NODES = 512, 64
"""Nodes that are evaluated in detail, those with the least to evict first; without a required topology, the smaller
number plus one per replica."""
MOST_DOMAINS = 4


class Loss(NamedTuple):
    """What victims lose, compared in this order.   gpu_seconds: since the last checkpoint.   cost: at the site's
    prices."""

    jobs: int
    gpu_seconds: float
    cost: float


@dataclass(slots=True)
class Victim:
    """A running job that may be preempted.   steps: how many grants, counted from the last, are taken after each step;
    for a job that may be killed, the last step takes all.   taken: steps done."""

    running: Running
    right: str
    steps: list[int]
    lost: float
    cost: float
    taken: int = 0

    @property
    def entitled(self) -> bool:
        """Whether it was within its tenant's guarantee when it started; among equals, it is taken last."""
        return self.running.entitlement != "borrowed"

    @property
    def removed(self) -> int:
        """Grants taken so far."""
        return self.steps[self.taken - 1] if self.taken else 0

    @property
    def killed(self) -> bool:
        return self.removed == len(self.running.grants)


def loss(victims: Iterable[Victim]) -> Loss:
    killed = [victim for victim in victims if victim.killed]
    return Loss(len(killed), sum(victim.lost for victim in killed), sum(victim.cost for victim in killed))


@dataclass(slots=True)
class Choice:
    """Victims on one node.   replicas: that fit there afterwards."""

    node: int
    replicas: int
    victims: list[int]
    loss: tuple[float, float, float]


@dataclass(slots=True)
class _Site:
    """A node with its victims: index of the victim -> (device, units) that it holds there."""

    held: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    cpu: dict[int, int] = field(default_factory=dict)
    memory: dict[int, int] = field(default_factory=dict)


class NodeOrder:
    """Which victims on which nodes make room for the job, by the devices and units that they hold."""

    def __init__(self, trial: Trial, kind: JobClass, victims: Sequence[Victim]) -> None:
        self.kind, self.victims = kind, victims
        self.cluster = trial.cluster
        self.shape = self.cluster.shape(kind.request)
        self._on: dict[int, list[tuple[int, Grant]]] = {}
        self._sites: dict[int, _Site] = {}
        suits = self.shape.suits.tolist()
        for number, victim in enumerate(victims):
            for grant in _grants_of(victim):
                if suits[grant.node]:
                    self._on.setdefault(grant.node, []).append((number, grant))

    def _site(self, node: int) -> _Site:
        site = self._sites.get(node)
        if site is None:
            site = self._sites[node] = _Site()
            for number, grant in self._on.get(node, ()):
                request = self.victims[number].running.job.request
                site.held.setdefault(number, []).extend(zip(grant.devices, grant.units, strict=True))
                site.cpu[number] = site.cpu.get(number, 0) + request.cpu_milli
                site.memory[number] = site.memory.get(number, 0) + request.host_memory_bytes
        return site

    def choices(self) -> list[Choice]:
        """A choice for every node where evicting helps, or that has room already; the cheapest first, by loss per
        replica."""
        free = self.shape.replicas(np.arange(len(self.cluster.nodes)))
        found = [Choice(node, int(free[node]), [], (0.0, 0.0, 0.0)) for node in np.flatnonzero(free).tolist()]
        most = FEWER_NODES + self.kind.replicas if self.kind.request.required_topology is None else MOST_NODES
        dense = sorted(self._on, key=lambda node: (self._evicted(node), node))[:most]
        for node in dense:
            if not self.cluster.open[node]:
                continue
            choice = self._choice(node, self.kind.replicas, int(free[node]))
            if choice is not None:
                found.append(choice)
        found.sort(key=lambda choice: (*choice.loss, self._entitled(choice), choice.node))
        return found

    def _entitled(self, choice: Choice) -> int:
        return sum(self.victims[number].entitled for number in choice.victims)

    def _evicted(self, node: int) -> tuple[int, float]:
        """(jobs, GPU-seconds lost) if the node were emptied."""
        numbers = {number for number, _ in self._on[node]}
        return len(numbers), sum(self.victims[number].lost for number in numbers)

    def orders(self) -> list[list[Choice]]:
        """Ways to place the whole gang, the cheapest by estimate first."""
        choices = self.choices()
        level = self.kind.request.required_topology
        if level is not None:
            domains: dict[tuple[str, ...], list[Choice]] = {}
            for choice in choices:
                domains.setdefault(self.cluster.nodes[choice.node].topology[: level + 1], []).append(choice)
            found = [self._enough(those) for those in domains.values()]
            ways = [way for way in found if way]
            ways.sort(key=lambda way: tuple(sum(c.loss[i] * c.replicas for c in way) for i in range(3)))
            return ways[:MOST_DOMAINS]
        if self.kind.replicas == 1:
            return [[choice] for choice in choices if choice.victims][:MOST_DOMAINS]
        way = self._enough(choices)
        return [way] if way else []

    def _enough(self, choices: Sequence[Choice]) -> list[Choice]:
        """The first choices that hold the gang, each node once; free capacity on a node counts first."""
        way: list[Choice] = []
        room: dict[int, int] = {}
        for choice in choices:
            rest = self.kind.replicas - sum(room.values())
            more = choice.replicas - room.get(choice.node, 0)
            if rest <= 0:
                break
            if more > rest and choice.victims:
                tighter = self._choice(choice.node, rest + room.get(choice.node, 0), room.get(choice.node, 0))
                choice = tighter or choice
            way.append(choice)
            room[choice.node] = choice.replicas
        return way if sum(room.values()) >= self.kind.replicas else []

    def _choice(self, node: int, most: int, free_replicas: int) -> Choice | None:
        """Evicts the largest victims on the node until as many replicas as possible fit; then spares unnecessary
        ones."""
        site, request = self._site(node), self.kind.request
        need = self.shape.need[node]
        free = self.cluster.free[node].tolist()
        usable = [index for index, units in enumerate(need.tolist()) if units != NEVER]
        total = list(free)
        for held in site.held.values():
            for device, units in held:
                total[device] += units
        cpu, memory = int(self.cluster.cpu_free[node]), int(self.cluster.host_memory_free[node])
        wanted = min(
            most, self._fit(total, cpu + sum(site.cpu.values()), memory + sum(site.memory.values()), usable, node)
        )
        if wanted <= free_replicas:
            return None
        order = sorted(
            site.held,
            key=lambda v: (-sum(u for _, u in site.held[v]), self.victims[v].lost, self.victims[v].entitled, v),
        )
        if not request.devices:
            order.sort(key=lambda v: -site.cpu[v])
        chosen: list[int] = []
        for number in order:
            if self._fit(free, cpu, memory, usable, node) >= wanted:
                break
            chosen.append(number)
            cpu, memory = cpu + site.cpu[number], memory + site.memory[number]
            for device, units in site.held[number]:
                free[device] += units
        for number in sorted(chosen, key=lambda v: (-self.victims[v].lost, v)):
            less = list(free)
            for device, units in site.held[number]:
                less[device] -= units
            if self._fit(less, cpu - site.cpu[number], memory - site.memory[number], usable, node) >= wanted:
                chosen.remove(number)
                free, cpu, memory = less, cpu - site.cpu[number], memory - site.memory[number]
        self._swap(site, chosen, free, cpu, memory, usable, node, wanted)
        picked = [self.victims[number] for number in chosen]
        jobs = sum(victim.steps[-1] == len(victim.running.grants) for victim in picked)
        sums = (jobs, sum(victim.lost for victim in picked), sum(victim.cost for victim in picked))
        return Choice(node, wanted, chosen, (sums[0] / wanted, sums[1] / wanted, sums[2] / wanted))

    def _swap(
        self,
        site: _Site,
        chosen: list[int],
        free: list[int],
        cpu: int,
        memory: int,
        usable: list[int],
        node: int,
        wanted: int,
    ) -> None:
        """Replaces chosen victims by ones that lose less, if these are enough as well."""
        spared = sorted((v for v in site.held if v not in chosen), key=lambda v: (self.victims[v].lost, v))
        for position, number in enumerate(chosen):
            for other in spared:
                if self.victims[other].lost >= self.victims[number].lost:
                    break
                swapped = list(free)
                for device, units in site.held[number]:
                    swapped[device] -= units
                for device, units in site.held[other]:
                    swapped[device] += units
                new_cpu = cpu - site.cpu[number] + site.cpu[other]
                new_memory = memory - site.memory[number] + site.memory[other]
                if self._fit(swapped, new_cpu, new_memory, usable, node) >= wanted:
                    chosen[position] = other
                    spared.remove(other)
                    free[:], cpu, memory = swapped, new_cpu, new_memory
                    break

    def _fit(self, free: list[int], cpu: int, memory: int, usable: list[int], node: int) -> int:
        """How many replicas fit into this free capacity."""
        request, most = self.kind.request, self.kind.replicas
        if request.cpu_milli:
            most = min(most, cpu // request.cpu_milli)
        if request.host_memory_bytes:
            most = min(most, memory // request.host_memory_bytes)
        if request.devices:
            need = self.shape.need[node]
            times = sum(free[index] // int(need[index]) for index in usable)
            most = min(most, times // request.devices)
        return most


def _grants_of(victim: Victim) -> Sequence[Grant]:
    """The grants that all its steps together would free."""
    return victim.running.grants[len(victim.running.grants) - victim.steps[-1] :]
