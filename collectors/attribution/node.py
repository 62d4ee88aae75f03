"""One cycle of a node: reads allocations and the owners of processes, and joins them to the devices' readings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from collectors.attribution.attribute import Cycle, attribute, without_device
from collectors.attribution.places import Allocations, Inventory, Place, combined
from collectors.attribution.processes import ProcessTable, seconds_since_boot
from collectors.errors import CollectorError
from collectors.readings import Collected, DeviceReading, Row

REPEAT = timedelta(minutes=10)
"""A finding that stays is reported again after so long."""


class AllocationSource(Protocol):
    """Knows the allocations on this node: the kubelet, a Slurm daemon."""

    def allocations(self, inventory: Inventory) -> tuple[Allocations, Counter[str]]:
        """What is held now, and what was dropped, by reason. Errors: CollectorError."""


class NodeAttribution:
    """Turns a node's readings into rows, cycle by cycle.

    A source that does not answer is a finding, and then nothing is known of its allocations: the workloads found by
    their processes still have their rows, and nobody is in breach.
    """

    def __init__(
        self, cluster: str, node: str, processes: ProcessTable, sources: Sequence[AllocationSource] = ()
    ) -> None:
        self._cluster, self._node = cluster, node
        self._processes, self._sources = processes, tuple(sources)
        self._reported: dict[tuple[str, ...], datetime] = {}

    def collect(
        self,
        readings: Sequence[DeviceReading],
        ts: datetime,
        interval_seconds: float,
        aliases: Mapping[str, Place] | None = None,
        asked_at: float | None = None,
    ) -> Collected:
        """Rows of all devices and partitions of the node.

        ts: when the drivers had answered; asked_at: the same in seconds since boot, by default now.   aliases: other
        names of places, as plugins use them (`places.Inventory`).
        """
        asked_at = seconds_since_boot() if asked_at is None else asked_at
        cycle = Cycle(ts, interval_seconds, self._cluster, self._node)
        inventory = Inventory(readings, aliases)
        collected = Collected()
        allocations = combined(self._ask(inventory, cycle, collected))
        pids = {process.pid for reading in readings for process in reading.processes}
        owners = self._processes.owners(pids, asked_at)
        if owners.state == "no_permission":
            message = "/proc is not the host's, so processes have no owners: set hostPID or mount the host's /proc"
            collected.add("findings", cycle.finding("no_permission", "warning", message, Place("")))
        partitioned = inventory.partitioned
        for reading in readings:
            is_parent = not reading.partition_id and reading.device_id in partitioned
            collected += attribute(reading, owners, allocations, cycle, partitioned=is_parent)
        collected += without_device(allocations.missing, cycle)
        if "findings" in collected.rows:
            collected.rows["findings"] = self._new(collected.rows["findings"], ts)
        else:
            self._reported = {}
        return collected

    def _ask(self, inventory: Inventory, cycle: Cycle, collected: Collected) -> Iterable[Allocations]:
        for source in self._sources:
            try:
                known, dropped = source.allocations(inventory)
            except CollectorError as error:
                collected.add("findings", cycle.finding("source_unreachable", "warning", str(error), Place("")))
                continue
            collected.dropped += dropped
            yield known

    def _new(self, findings: list[Row], now: datetime) -> list[Row]:
        """Findings that were not reported recently; one that had ended in between is new."""
        found = {_identity(row): row for row in findings}
        reported = {key: at for key, at in self._reported.items() if key in found}
        fresh = {key: row for key, row in found.items() if key not in reported or now - reported[key] >= REPEAT}
        self._reported = {**reported, **dict.fromkeys(fresh, now)}
        return list(fresh.values())


def _identity(row: Row) -> tuple[str, ...]:
    return tuple(str(row[name]) for name in ("finding", "device_id", "partition_id", "workload_id", "message"))
