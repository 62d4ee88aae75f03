"""The reference scheduler as the scheduler of the simulated fleet (collectors.simulated), except on Slurm's nodes.

The fleet simulates what jobs and devices do: users give up, jobs fail and grow, devices break. A slot of the fleet is a
device here: partitions and replicas are fixed, and are granted whole. So only nodes without them, which stand first,
are in figures of GPUs: quotas and fragmentation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from collectors.readings import Row
from collectors.simulated.fleet import Fleet, FleetPlan, Slot, slots
from collectors.simulated.jobs import KINDS, SERVICE, TENANTS
from collectors.simulated.jobs import Job as Wanted
from collectors.simulated.placement import EXPLAINED_MS, Decided
from scheduler.cycle.core import Core
from scheduler.cycle.policies import Policies
from scheduler.cycle.reasons import LiveWaiting
from scheduler.exposition import Series, quota_series, rows, shape_series
from scheduler.metrics import Meter
from scheduler.model import Device, Grant, Job, Node, Preempt, Queue, Request, Resize, Start, Tenant
from scheduler.placement.fragmentation import Fragmentation
from scheduler.records.events import message, written
from scheduler.setup import WHOLE_GPUS, Setup

REPORT_EVERY_MS = 600_000
"""Interval of the counts of pending jobs by reason."""
ALL_AT_MINUTE = 50
"""Of the hour, at which quotas and fragmentation are reported too: the last report before the hour is over. From
shortly before somebody watches, they are in each report."""
QUOTAS: Mapping[str, Mapping[str, tuple[Fraction, Fraction | None]]] = {
    "a100": {
        **dict.fromkeys(("physics", "vision", "nlp", "研发一部"), (Fraction(1, 6), None)),
        **dict.fromkeys(("o'brien", "physics-lab"), (Fraction(0), Fraction(1, 2))),
    },
    "l40s": {
        "nlp": (Fraction(1, 2), None),
        "vision": (Fraction(1, 4), None),
        "platform": (Fraction(1, 12), Fraction(1, 4)),
    },
    "l4": dict.fromkeys(
        ("physics", "physics-lab", "vision", "nlp", "o'brien", "研发一部"), (Fraction(0), Fraction(1, 6))
    ),
}
"""By kind of slot and tenant: the parts of the slots that it is guaranteed, and that it may hold at most."""
SHAPES = (("a100", 1), ("a100", 4), ("a100", 8), ("l40s", 1), ("l40s", 4))
"""Of gangs whose largest size is reported."""
SEARCH_EVERY_SECONDS = 600.0
"""Least time between two searches for victims, and between two computations of promises: most of the time that a month
takes to place goes to these."""
LIMIT_FACTOR = 1.5
"""Users' time limits, as a multiple of the run time; backfill depends on them."""


class FleetScheduler:
    """A `Deciding` of the simulated fleet (collectors.simulated.placement). Slots are there once they are usable."""

    def __init__(self, plan: FleetPlan, fleet: Fleet) -> None:
        by_node: dict[tuple[str, str], list[Slot]] = defaultdict(list)
        for slot in slots(plan, fleet):
            if fleet.devices[slot.device].group.scheduler != "slurm":
                by_node[slot.node, slot.kind].append(slot)
        by_node = dict(sorted(by_node.items(), key=lambda item: bool(item[1][0].partition_id)))
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
        self._models = {kind: fleet.devices[found[0].device].group.model for (_, kind), found in by_node.items()}
        self._largest = {kind: max(len(n.devices) for n in nodes if n.pool == kind) for kind in self._kinds}
        queues = [Queue(name, "priority") for name in sorted({kind.queue for kind in (*KINDS, SERVICE)})]
        policies = Policies(backfill_seconds=SEARCH_EVERY_SECONDS, preempt_for_fairness=False)
        slots_of = Counter(kind for (_, kind), found in by_node.items() for _ in found)
        tenants = [*(Tenant(name) for name in TENANTS), *_quotas(slots_of)]
        self.core: Core = Setup("fleet", nodes, tenants, queues, policies).core([], plan.start_ms / 1000, explain=False)
        self._whole = sum(not found[0].partition_id for found in self._slots)
        self._partitioned = {slot.kind for found in self._slots for slot in found if slot.partition_id}
        metered = [tenant for tenant in tenants if tenant.pool not in self._partitioned]
        self._meter = Meter(nodes[: self._whole], metered, queues, plan.start_ms / 1000)
        self._fragmentation = Fragmentation(self.core.cluster, WHOLE_GPUS)
        self._gangs = [
            Request(devices=devices, pool=kind, models=frozenset({kind}))
            for kind, devices in SHAPES
            if kind in self._kinds
        ]
        self._metered: set[str] = set()
        self._closed: set[Slot] = set()
        self._sequence = 0
        self._codes: dict[str, str] = {}
        self._cluster = plan.cluster
        self._reported: list[Row] = []
        self._reported_until, self._end, self._watched = plan.start_ms, plan.end_ms, plan.seen_ms - REPORT_EVERY_MS
        self.usable(list(self._where), False, plan.start_ms)

    def decides(self, kind: str) -> bool:
        return kind in self._kinds

    def submit(self, allocation_id: str, job: Wanted, now: int) -> None:
        self._report(now)
        limit = None if job.duration_ms is None else LIMIT_FACTOR * job.duration_ms / 1000
        each = self._each(job)
        asked = Job(
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
        )
        self.core.submit(asked, now / 1000)
        if job.kind.slot not in self._partitioned:
            self._metered.add(allocation_id)
            self._meter.submitted(asked, now / 1000, job.size)

    def withdraw(self, allocation_id: str, now: int) -> None:
        self._report(now)
        self.core.withdraw(allocation_id, now / 1000)
        self._over(allocation_id, now)

    def end(self, allocation_id: str, now: int, finished: bool) -> None:
        self._report(now)
        self.core.end(allocation_id, now / 1000, finished)
        self._over(allocation_id, now)

    def _over(self, allocation_id: str, now: int) -> None:
        """To the meter; a job that runs again is another."""
        if allocation_id in self._metered:
            self._metered.discard(allocation_id)
            self._meter.ended(allocation_id, now / 1000, "cancelled")

    def resize(self, allocation_id: str, size: int, now: int) -> tuple[Slot, ...] | None:
        """Replicas come onto what is free, node by node in order; they go from the last."""
        self._report(now)
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
        if allocation_id in self._metered:
            self._meter.resized(allocation_id, grants, now / 1000)
        return self._slots_of(grants)

    def usable(self, slots: Sequence[Slot], usable: bool, now: int) -> None:
        """Marks slots as usable or not; an unusable slot is taken, by no job."""
        self._report(now)
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
        self._report(now)
        plan = self.core.plan(now / 1000)
        self.core.expect(plan.expected, now / 1000)
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
            if isinstance(action, Preempt):
                self.core.gone(action.job_id)
                self.core.drop(action.job_id)
                self._over(action.job_id, now)
            elif action.job_id in self._metered:
                self._meter.started(action.job_id, action.grants, now / 1000)
            found.append(decided)
        return [*found, *self._changed(now)]

    def _changed(self, now: int) -> list[Decided]:
        """Pending jobs whose reason code changed: in full on the first days on which somebody watches. Texts of the
        whole time would cost more than everything else."""
        codes = {job_id: why[0].code for job_id, why in LiveWaiting(self.core).items()}
        changed = [job_id for job_id, code in codes.items() if self._codes.get(job_id) != code]
        self._codes = codes
        in_full = changed and 0 < now - self._watched < EXPLAINED_MS
        explained = {why.allocation_id: why for why in self.explain(now)} if in_full else {}
        said = message({"sequence": self._sequence})
        return [
            explained.get(job_id) or Decided(job_id, reason=codes[job_id], message=said, waits=True)
            for job_id in changed
        ]

    def explain(self, now: int) -> Sequence[Decided]:
        """One cycle that explains, and is not carried out."""
        self.core.explain = True
        plan = self.core.plan(now / 1000)
        self.core.explain = False
        self.core.expect(plan.expected, now / 1000)
        found = []
        for job_id in self.core.pending:
            why = plan.waiting.get(job_id)
            if why:
                # Its pools are kinds of slots, which the books do not know.
                models = [self._models[self.core.pending[job_id][0].request.pool]]
                facts: dict[str, Any] = {"sequence": self._sequence, "models": models, "text": why[0].text}
                expected = self.core.expectations.first_interval(job_id)
                if expected is not None:
                    facts["expected_interval"] = [written(expected.low), written(expected.high)]
                found.append(Decided(job_id, reason=why[0].code, message=message(facts), waits=True))
        return found

    def reported(self) -> Sequence[Row]:
        self._report(self._end)
        return self._reported

    def _report(self, now: int) -> None:
        """Reports what is so since the last change, at each interval until now."""
        waiting = self._waiting() if now - self._reported_until >= REPORT_EVERY_MS else []
        while now - self._reported_until >= REPORT_EVERY_MS:
            self._reported_until += REPORT_EVERY_MS
            at = self._reported_until / 1000
            in_full = at // 60 % 60 == ALL_AT_MINUTE or self._reported_until >= self._watched
            found = [*waiting, *(self._gpus(at) if in_full else [])]
            self._reported += rows(found, self._cluster, at, REPORT_EVERY_MS / 1000)

    def _gpus(self, at: float) -> list[Series]:
        """Quotas and fragmentation of the whole GPUs."""
        self._meter.advance(at)
        there = sum(len(found) for found in self._slots[: self._whole])
        usable = there - sum(slot.kind not in self._partitioned for slot in self._closed)
        fragmented = self._fragmentation.measure(self._whole).fragmented
        return [
            *quota_series(self._meter),
            Series("held_gpus", "GPUs held by jobs", "gauge", self._meter.held_gpus, {}),
            Series("capacity_gpus", "GPUs that are there", "gauge", usable, {}),
            Series("fragmented_gpus", "GPUs that are idle and the demand cannot use", "gauge", fragmented, {}),
            *shape_series(self.core.cluster, self._gangs),
        ]

    def _waiting(self) -> list[Series]:
        """Pending jobs by queue and first reason, as in the scheduler's own metrics."""
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


def _quotas(slots_of: Mapping[str, int]) -> list[Tenant]:
    """The tenants' quotas of each pool that has some."""
    return [
        Tenant(
            name,
            pool=pool,
            guaranteed=int(guaranteed * slots_of[pool]),
            limit=None if limit is None else max(1, int(limit * slots_of[pool])),
        )
        for pool, those in QUOTAS.items()
        for name, (guaranteed, limit) in those.items()
    ]
