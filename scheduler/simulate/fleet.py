"""The reference scheduler on the simulated fleet (collectors.simulated): it decides who starts where on all nodes that
are not Slurm's, and the fleet does what jobs do to a scheduler: they give up, fail, grow, and devices break.

A slot of the fleet is a device here: partitions and replicas are laid out already, and are given away whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from collectors.readings import Row
from collectors.simulated.fleet import Fleet, FleetPlan, Slot, slots
from collectors.simulated.jobs import KINDS, SERVICE, TENANTS
from collectors.simulated.jobs import Job as Wanted
from collectors.simulated.placement import Decided
from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies
from scheduler.cycle.reasons import LiveWaiting
from scheduler.exposition import Series, rows
from scheduler.model import Device, Grant, Job, Node, Preempt, Queue, Request, Resize, Start, Tenant
from scheduler.records.events import message, written
from scheduler.setup import Setup

TELLS_EVERY_MS = 600_000
"""How far apart it says why jobs wait."""
LIMIT_FACTOR = 1.5
"""Time limits that users give, as multiples of what they need: backfill lives on them."""


class FleetScheduler:
    """A `Deciding` of the simulated fleet (collectors.simulated.placement). Slots are there once they are usable."""

    def __init__(self, plan: FleetPlan, fleet: Fleet) -> None:
        by_node: dict[tuple[str, str], list[Slot]] = defaultdict(list)
        for slot in slots(plan, fleet):
            if fleet.devices[slot.device].group.scheduler != "slurm":
                by_node[slot.node, slot.kind].append(slot)
        self._slots = [sorted(found, key=lambda s: (s.device, s.partition_id)) for found in by_node.values()]
        nodes = [
            Node(
                f"{node}/{kind}",
                tuple(Device(s.partition_id or fleet.devices[s.device].device_id, kind) for s in found),
                pool=kind,
            )
            for (node, kind), found in zip(by_node, self._slots, strict=True)
        ]
        self._where = {s: (n, i) for n, found in enumerate(self._slots) for i, s in enumerate(found)}
        self._kinds = {kind for _, kind in by_node}
        self._largest = {kind: max(len(n.devices) for n in nodes if n.pool == kind) for kind in self._kinds}
        queues = [Queue(name, "priority") for name in sorted({kind.queue for kind in (*KINDS, SERVICE)})]
        policies = Policies(reclaim=False, preempt_for_fairness=False)
        even = len(self._where) // len(TENANTS)
        tenants = [Tenant(name, guaranteed=even) for name in TENANTS]
        self.core: Core = Setup("fleet", nodes, tenants, queues, policies).core([], plan.start_ms / 1000, explain=False)
        self._closed: set[Slot] = set()
        self._sequence = 0
        self._codes: dict[str, str] = {}
        self._cluster = plan.cluster
        self._reported: list[Row] = []
        self._reported_until, self._end = plan.start_ms, plan.end_ms
        self.usable(list(self._where), False, plan.start_ms)

    def decides(self, kind: str) -> bool:
        return kind in self._kinds

    def submit(self, allocation_id: str, job: Wanted, now: int) -> None:
        limit = None if job.duration_ms is None else LIMIT_FACTOR * job.duration_ms / 1000
        each = self._each(job)
        self.core.submit(
            Job(
                allocation_id,
                job.tenant,
                job.kind.queue,
                Request(devices=each, pool=job.kind.slot),
                now / 1000,
                min_replicas=job.size // each,
                max_replicas=job.size // each,
                priority=job.kind.priority,
                preemptible=job.kind.preemptible,
                time_limit=limit,
                project=job.project,
            ),
            now / 1000,
        )

    def withdraw(self, allocation_id: str, now: int) -> None:
        self.core.withdraw(allocation_id, now / 1000)

    def end(self, allocation_id: str, now: int, finished: bool) -> None:
        self.core.end(allocation_id, now / 1000, finished)

    def resize(self, allocation_id: str, size: int, now: int) -> tuple[Slot, ...] | None:
        """Replicas come onto what is free, node by node in order; they go from the last."""
        running = self.core.running[allocation_id]
        each = running.job.request.devices
        more = size // each - len(running.grants)
        grants = running.grants[:more] if more < 0 else running.grants
        for _ in range(max(0, more)):
            taken = {(grant.node, index) for grant in grants for index in grant.devices}
            found = self._free(running.job.request.pool, each, taken)
            if found is None:
                return None
            grants = (*grants, found)
        self.core.apply(Resize(allocation_id, grants), now / 1000)
        return self._slots_of(grants)

    def usable(self, slots: Sequence[Slot], usable: bool, now: int) -> None:
        """A slot that is broken is one that is taken by nobody."""
        for slot in slots:
            if usable == (slot in self._closed):
                node, index = self._where[slot]
                grant, request = Grant(node, (index,), (1,)), Request(devices=1, pool=slot.kind)
                if usable:
                    self.core.cluster.give_back(grant, request)
                    self.core.freed += 1
                    self._closed.discard(slot)
                else:
                    self.core.cluster.take(grant, request)
                    self._closed.add(slot)
                self.core.version += 1

    def decide(self, now: int) -> Sequence[Decided]:
        self._tell(now)
        plan = self.core.plan(now / 1000)
        found = []
        for action in plan.actions:
            self._sequence += 1
            facts = {"sequence": self._sequence, "decision": action.decision_id}
            if isinstance(action, Start):
                facts["entitlement"] = action.entitlement
                decided = Decided(action.job_id, self._slots_of(action.grants), message=message(facts))
            elif isinstance(action, Preempt):
                facts["text"] = action.text
                decided = Decided(action.job_id, reason=action.authority, message=message(facts), by=action.by_job)
            else:
                raise AssertionError("no job of the fleet is elastic")
            self.core.apply(action, now / 1000)
            found.append(decided)
        return [*found, *self._changed(now)]

    def _changed(self, now: int) -> list[Decided]:
        """What waits for another reason than before: its code. A text each time would take longer than all else."""
        codes = {job_id: why[0].code for job_id, why in LiveWaiting(self.core).items()}
        changed = [job_id for job_id, code in codes.items() if self._codes.get(job_id) != code]
        self._codes = codes
        facts = {"sequence": self._sequence}
        return [Decided(job_id, reason=codes[job_id], message=message(facts), waits=True) for job_id in changed]

    def explain(self, now: int) -> Sequence[Decided]:
        """One cycle that explains, and is not carried out."""
        self.core.explain = True
        plan = self.core.plan(now / 1000)
        self.core.explain = False
        found = []
        for job_id in self.core.pending:
            why = plan.waiting.get(job_id)
            if why:
                facts: dict[str, Any] = {"sequence": self._sequence, "text": why[0].text}
                expected = self.core.expectations.first_interval(job_id)
                if expected is not None:
                    facts["expected_interval"] = [written(expected.low), written(expected.high)]
                found.append(Decided(job_id, reason=why[0].code, message=message(facts), waits=True))
        return found

    def reported(self) -> Sequence[Row]:
        self._tell(self._end)
        return self._reported

    def _tell(self, now: int) -> None:
        """What has held since the last decision, at each instant at which it is reported until now."""
        waiting = self._waiting() if now - self._reported_until >= TELLS_EVERY_MS else []
        while now - self._reported_until >= TELLS_EVERY_MS:
            self._reported_until += TELLS_EVERY_MS
            self._reported += rows(waiting, self._cluster, self._reported_until / 1000, TELLS_EVERY_MS / 1000)

    def _waiting(self) -> list[Series]:
        """How many jobs of each queue wait for which first reason, as the scheduler's own metrics tell it."""
        counts = Counter(
            (self.core.pending[job_id][0].queue, why[0].code) for job_id, why in LiveWaiting(self.core).items()
        )
        return [
            Series(
                "pending_jobs", "Waiting jobs, by their first reason", "gauge", jobs, {"queue": queue, "cause": cause}
            )
            for (queue, cause), jobs in sorted(counts.items())
        ]

    def _each(self, job: Wanted) -> int:
        """Devices of a replica: all, or where it is resized or no node has so many, the most that divide it."""
        sizes = (job.size, *(size for _, size in job.sizes_later))
        most = min(self._largest[job.kind.slot], *sizes) if job.sizes_later else self._largest[job.kind.slot]
        return next(n for n in range(min(most, job.size), 0, -1) if all(size % n == 0 for size in sizes))

    def _free(self, pool: str, devices: int, taken: set[tuple[int, int]]) -> Grant | None:
        cluster = self.core.cluster
        for node, there in enumerate(cluster.nodes):
            if there.pool == pool:
                free = [i for i in range(len(there.devices)) if cluster.free[node, i] > 0 and (node, i) not in taken]
                if len(free) >= devices:
                    return Grant(node, tuple(free[:devices]), (1,) * devices)
        return None

    def _slots_of(self, grants: Sequence[Grant]) -> tuple[Slot, ...]:
        return tuple(self._slots[grant.node][index] for grant in grants for index in grant.devices)
