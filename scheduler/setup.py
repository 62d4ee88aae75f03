"""Turns settings into the running parts: the deciding state, its placement, and when cycles are due.

The simulator and the live loop both begin here, so that one configuration means the same to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies, Reservation
from scheduler.model import Node, Queue, Request, Tenant
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import Policy
from scheduler.placement.fgd import Fgd
from scheduler.placement.fragmentation import Demand, Task, typical_demand
from scheduler.placement.interference import AntiInterference
from scheduler.placement.packing import BestFit, DotProduct, GpuClustering, GpuPacking, RandomFit
from scheduler.settings import Settings
from warehouse.errors import LedgerError

PLACEMENTS: Mapping[str, Callable[[Demand, int], Policy]] = {
    "bestfit": lambda demand, seed: BestFit(),
    "fgd": lambda demand, seed: Fgd(demand),
    "dotproduct": lambda demand, seed: DotProduct(),
    "gpupacking": lambda demand, seed: GpuPacking(),
    "gpuclustering": lambda demand, seed: GpuClustering(),
    "random": lambda demand, seed: RandomFit(seed),
}
WHOLE_GPUS = Demand(tuple(Task(Request(devices), 0.25) for devices in (1, 2, 4, 8)))
"""Typical demand, if nothing is known about it."""


@dataclass(frozen=True)
class Setup:
    """A named configuration.   placement: see PLACEMENTS.   seed: of a random placement.   speeds: measured, of one
    workload class next to another; if there are any, they take precedence over the placement's own scores."""

    name: str
    nodes: Sequence[Node]
    tenants: Sequence[Tenant] = ()
    queues: Sequence[Queue] = ()
    policies: Policies = field(default_factory=Policies)
    reservations: Sequence[Reservation] = ()
    placement: str = "bestfit"
    seed: int = 42
    speeds: Mapping[tuple[str, str], float] = field(default_factory=dict)

    def core(self, requests: Iterable[Request], now: float, explain: bool) -> Core:
        """An empty state.   requests: a sample of the demand, for placements that depend on it."""
        sample = list(requests)
        demand = typical_demand(sample) if sample else WHOLE_GPUS
        return Core(
            Cluster(self.nodes),
            self.tenants,
            self.queues,
            self.policies,
            self.reservations,
            self.placing(demand),
            explain,
            now,
        )

    def placing(self, demand: Demand) -> Policy:
        """The placement policy.   demand: for placements that depend on it."""
        chosen = PLACEMENTS[self.placement](demand, self.seed)
        return AntiInterference(self.speeds, chosen) if self.speeds else chosen

    def edges(self) -> list[float]:
        """Instants at which decisions can change without an event: edges of reservations."""
        return sorted(edge for reservation in self.reservations for edge in (reservation.start, reservation.end))

    def depends_on_time(self) -> bool:
        """Whether decisions can change without an event: minimum run times pass, and usage decays."""
        return any(queue.min_run_time or queue.half_life for queue in self.queues)


def setup_of(name: str, settings: Settings, nodes: Sequence[Node] = (), seed: int = 42) -> Setup:
    """nodes: instead of those that the settings name.   Errors: LedgerError if nobody names any, and there must be
    some."""
    there = nodes or settings.nodes()
    if not there and not settings.nodes_vary:
        raise LedgerError(name, "names no pools, and no machines were given", "Add pools: or give --machines")
    return Setup(
        name,
        there,
        settings.build_tenants(),
        settings.build_queues(),
        settings.build_policies(),
        settings.build_reservations(there, name),
        settings.policies.placement,
        seed,
        settings.policies.speeds_of_pairs(),
    )
