"""Places the jobs: which job holds which slots, and when. On Slurm's nodes, jobs queue by kind of slot, by priority and
then in order of arrival; gangs start as a whole.

A short job of at most two slots may overtake a blocked one; a job of priority 100 preempts preemptible ones, the
youngest first. A job that was preempted, or whose device failed, queues again for the rest of its time. The other nodes
are Kubernetes'; a `Deciding` can be passed in to let a real scheduler decide on those.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from collectors.readings import Row
from collectors.simulated.fleet import HOUR, L40S_SHARED, MINUTE, Fleet, FleetPlan, Incident, Slot, slots
from collectors.simulated.jobs import COMES_EVERY, COMES_FOR, SHARED_SERVICE, SHARES, TENANTS, Job

EXPLAINED_MS = 48 * HOUR
"""For so long after somebody begins to watch, each wait is explained every hour; a day takes most of a CPU second."""
OVERTAKES_MS = 2 * HOUR
PREEMPTS_FROM = 100
IMPOSSIBLE = "impossible-claim"
"""The allocation that claims a device which another job holds; the books must refuse it."""


@dataclass(frozen=True)
class Lifecycle:
    """An event of an allocation; `slots` are set for started, resized and resumed."""

    ts_ms: int
    allocation: Allocation
    event: str
    slots: tuple[Slot, ...] = ()
    reason: str = ""
    message: str = ""
    actor: str = ""


@dataclass(frozen=True)
class Holding:
    """A slot held during [start_ms, end_ms) by an allocation that first started at began_ms."""

    allocation: Allocation
    slot: Slot
    start_ms: int
    end_ms: int
    began_ms: int


@dataclass(eq=False)
class Allocation:
    """One attempt of a job, named after it. since_ms: when it got the slots that it holds now."""

    allocation_id: str
    workload_id: str
    job: Job
    slots: tuple[Slot, ...] = ()
    began_ms: int = 0
    since_ms: int = 0
    active: bool = False


@dataclass
class Placed:
    """What happened: events in no order, holdings in the order of their ends."""

    events: list[Lifecycle] = field(default_factory=list)
    holdings: list[Holding] = field(default_factory=list)


@dataclass(frozen=True)
class Decided:
    """A decision: an allocation starts on these slots, or, without slots, is preempted.   by: on behalf of which
    allocation."""

    allocation_id: str
    slots: tuple[Slot, ...] = ()
    reason: str = ""
    message: str = ""
    by: str = ""
    waits: bool = False


class Deciding(Protocol):
    """A scheduler for some kinds of slots. Times are ms. Its decisions take effect at once."""

    def decides(self, kind: str) -> bool: ...

    def submit(self, allocation_id: str, job: Job, now: int) -> None: ...

    def withdraw(self, allocation_id: str, now: int) -> None: ...

    def end(self, allocation_id: str, now: int, finished: bool) -> None: ...

    def resize(self, allocation_id: str, size: int, now: int) -> tuple[Slot, ...] | None:
        """The slots after it; None: there is no room."""

    def usable(self, slots: Sequence[Slot], usable: bool, now: int) -> None:
        """Free slots come, or go; one that is held goes when it is free."""

    def decide(self, now: int) -> Sequence[Decided]: ...

    def explain(self, now: int) -> Sequence[Decided]:
        """Why each allocation that waits does, in full."""
        ...

    def reported(self) -> Sequence[Row]:
        """Rows of service_levels: what it says of itself, such as why jobs wait."""
        ...


def place(plan: FleetPlan, fleet: Fleet, jobs: Sequence[Job], deciding: Deciding | None = None) -> Placed:
    """Runs the plan from start to end; jobs that run at the end stay open."""
    return _Cluster(plan, fleet, deciding).run(jobs)


class _Free:
    """Free slots of one kind, by node; devices that are down are not in it."""

    def __init__(self) -> None:
        self.nodes: dict[str, list[Slot]] = defaultdict(list)
        self.count = 0

    def put(self, slot: Slot) -> None:
        insort(self.nodes[slot.node], slot, key=lambda s: (s.device, s.partition_id))
        self.count += 1

    def remove_device(self, device: int) -> None:
        for node, found in self.nodes.items():
            self.nodes[node] = [slot for slot in found if slot.device != device]
        self.count = sum(map(len, self.nodes.values()))

    def take(self, size: int) -> tuple[Slot, ...]:
        """The fullest node that fits them all, else the emptiest nodes."""
        fitting = [node for node, found in self.nodes.items() if len(found) >= size]
        if fitting:
            order = [min(fitting, key=lambda node: (len(self.nodes[node]), node))]
        else:
            order = sorted(self.nodes, key=lambda node: (-len(self.nodes[node]), node))
        taken: list[Slot] = []
        for node in order:
            wanted = size - len(taken)
            taken += self.nodes[node][:wanted]
            self.nodes[node] = self.nodes[node][wanted:]
        self.count -= size
        return tuple(taken)


class _Cluster:
    def __init__(self, plan: FleetPlan, fleet: Fleet, deciding: Deciding | None) -> None:
        self.plan, self.fleet, self.out, self.deciding = plan, fleet, Placed(), deciding
        self.known: dict[str, Allocation] = {}
        self.free: dict[str, _Free] = defaultdict(_Free)
        self.waiting: dict[str, list[Allocation]] = defaultdict(list)
        self.running: dict[str, list[Allocation]] = defaultdict(list)
        self.held: set[Slot] = set()
        self.down: set[int] = set()
        self.slots_of: dict[int, list[Slot]] = defaultdict(list)
        self.agenda: list[tuple[int, int, Callable[[int], None]]] = []
        self.numbers = 40_000
        self.attempts: Counter[str] = Counter()
        self.asked = 0
        for slot in slots(plan, fleet):
            self.slots_of[slot.device].append(slot)
            if fleet.devices[slot.device].since_ms == plan.start_ms:
                self.put(slot, plan.start_ms)
            else:
                self.at(fleet.devices[slot.device].since_ms, lambda now, slot=slot: self.appear(slot, now))  # type: ignore[misc]

    def run(self, jobs: Sequence[Job]) -> Placed:
        if not self.plan.clean:
            self.share()
        for incident in self.fleet.incidents:
            self.at(incident.start_ms, lambda now, i=incident: self.incident(i, now))  # type: ignore[misc]
        for job in jobs:
            self.at(job.submit_ms, lambda now, job=job: self.submit(job, now))  # type: ignore[misc]
        explained_until = min(self.plan.end_ms - HOUR, self.plan.seen_ms + EXPLAINED_MS)
        for watched in range(self.plan.seen_ms - MINUTE, explained_until, HOUR):
            self.at(watched, self.explain)
        while self.agenda and self.agenda[0][0] < self.plan.end_ms:
            now, _, act = heapq.heappop(self.agenda)
            act(now)
        self.explain(self.plan.end_ms - 2)
        for allocation in [a for running in self.running.values() for a in running]:
            self.close(allocation, self.plan.end_ms)
        if not self.plan.clean:
            self.claim_the_impossible()
        return self.out

    def at(self, ms: int, act: Callable[[int], None]) -> None:
        self.asked += 1
        heapq.heappush(self.agenda, (ms, self.asked, act))

    def tell(self, now: int, allocation: Allocation, event: str, **facts: str) -> None:
        placing = event in ("started", "resized", "resumed")
        self.out.events.append(Lifecycle(now, allocation, event, allocation.slots if placing else (), **facts))

    def explain(self, now: int) -> None:
        if self.deciding is not None:
            self.carry_out(self.deciding.explain(now), now)

    # Asking and starting

    def submit(self, job: Job, now: int, again: Mapping[str, str] | None = None) -> None:
        self.numbers += 1
        self.attempts[job.name] += 1
        attempt = self.attempts[job.name]
        pod = job.name if attempt == 1 else f"{job.name}-retry-{attempt - 1}"
        slurm = self.source(job) == "slurm"
        allocation = Allocation(
            str(self.numbers) if slurm else pod, f"slurm-{self.numbers}" if slurm else pod, job, began_ms=now
        )
        self.tell(now, allocation, "submitted", **(again or {"actor": job.actor}))
        if job.rejected:
            self.tell(now + 1000, allocation, "rejected", reason="QuotaExceeded", message="project quota exceeded")
            return
        if job.patience_ms is not None:
            self.at(now + job.patience_ms, lambda at: self.give_up(allocation, at))
        insort(self.waiting[job.kind.slot], allocation, key=lambda a: -a.job.kind.priority)
        if (other := self.other(job.kind.slot)) is not None:
            self.known[allocation.allocation_id] = allocation
            other.submit(allocation.allocation_id, job, now)
        self.schedule(job.kind.slot, now)

    def source(self, job: Job) -> str:
        return "slurm" if job.kind.slot == "h100" else "kubernetes"

    def other(self, kind: str) -> Deciding | None:
        """Who decides on slots of this kind, if not we."""
        return self.deciding if self.deciding is not None and self.deciding.decides(kind) else None

    def give_up(self, allocation: Allocation, now: int) -> None:
        queue = self.waiting[allocation.job.kind.slot]
        if allocation in queue:
            queue.remove(allocation)
            if (other := self.other(allocation.job.kind.slot)) is not None:
                other.withdraw(allocation.allocation_id, now)
            message = "cancelled while pending"
            self.tell(now, allocation, "cancelled", reason="user", message=message, actor=allocation.job.actor)

    def schedule(self, kind: str, now: int) -> None:
        if (other := self.other(kind)) is not None:
            self.carry_out(other.decide(now), now)
            return
        blocked = False
        for allocation in list(self.waiting[kind]):
            job = allocation.job
            if blocked and (job.size > 2 or (job.duration_ms or OVERTAKES_MS + 1) > OVERTAKES_MS):
                continue
            if self.free[kind].count >= job.size or (not blocked and self.make_room(allocation, now)):
                self.waiting[kind].remove(allocation)
                self.start(allocation, now)
            else:
                blocked = True

    def make_room(self, allocation: Allocation, now: int) -> bool:
        job = allocation.job
        if job.kind.priority < PREEMPTS_FROM:
            return False
        missing, victims = job.size - self.free[job.kind.slot].count, []
        for victim in sorted(self.running[job.kind.slot], key=lambda a: -a.since_ms):
            if missing > 0 and victim.job.kind.preemptible:
                victims.append(victim)
                missing -= len(victim.slots)
        if missing > 0:
            return False
        why = f"made room for {allocation.allocation_id} of {job.tenant} (priority {job.kind.priority})"
        for victim in victims:
            self.end(victim, now, "preempted", "HigherPriority", why, job.actor)
            self.again(victim, now, why, job.actor)
        return self.free[job.kind.slot].count >= job.size

    def carry_out(self, decided: Sequence[Decided], now: int) -> None:
        for one in decided:
            allocation = self.known[one.allocation_id]
            if one.waits:  # after its submission: rows of one instant would be one
                self.tell(now + 1, allocation, "submitted", reason=one.reason, message=one.message, actor="scheduler")
                continue
            if one.slots:
                self.waiting[allocation.job.kind.slot].remove(allocation)
                self.start(allocation, now, one.slots, one.message)
                continue
            self.close(allocation, now)
            self.tell(now, allocation, "preempted", reason=one.reason, message=one.message, actor=one.by)
            self.held -= set(allocation.slots)
            self.again(allocation, now, f"made room for {one.by}", one.by)

    def start(self, allocation: Allocation, now: int, slots: tuple[Slot, ...] | None = None, message: str = "") -> None:
        job = allocation.job
        allocation.slots = self.free[job.kind.slot].take(job.size) if slots is None else slots
        allocation.began_ms, allocation.since_ms, allocation.active = now, now, True
        self.held |= set(allocation.slots)
        self.running[job.kind.slot].append(allocation)
        self.tell(now, allocation, "started", actor="scheduler", message=message)
        if job.pause_ms is not None:
            self.at(now + job.pause_ms[0], lambda at: self.suspend(allocation, at))
        for after, size in job.sizes_later:
            self.at(now + after, lambda at, size=size: self.resize(allocation, size, at))  # type: ignore[misc]
        if job.duration_ms is not None:
            end = now + job.duration_ms + (job.pause_ms[1] if job.pause_ms else 0)
            self.at(end, lambda at: self.finish(allocation, at))

    # Changing and ending

    def suspend(self, allocation: Allocation, now: int) -> None:
        if not allocation.active:
            return
        self.hold_until(allocation, now)
        allocation.active = False
        self.tell(now, allocation, "suspended", reason="user", actor=allocation.job.actor)
        assert allocation.job.pause_ms is not None
        self.at(now + allocation.job.pause_ms[1], lambda at: self.resume(allocation, at))

    def resume(self, allocation: Allocation, now: int) -> None:
        if allocation not in self.running[allocation.job.kind.slot]:
            return
        allocation.since_ms, allocation.active = now, True
        self.tell(now, allocation, "resumed", reason="user", actor=allocation.job.actor)

    def resize(self, allocation: Allocation, size: int, now: int) -> None:
        kind, more = allocation.job.kind.slot, size - len(allocation.slots)
        if not allocation.active or more == 0:
            return
        before, other = allocation.slots, self.other(kind)
        if other is not None:
            after = other.resize(allocation.allocation_id, size, now)
        elif more > self.free[kind].count:
            after = None
        else:
            after = before + self.free[kind].take(more) if more > 0 else before[:size]
        if after is None:
            return
        self.hold_until(allocation, now)
        allocation.slots = after
        self.held |= set(after)
        allocation.since_ms = now
        self.tell(now, allocation, "resized", reason="elastic", actor="autoscaler")
        self.release([slot for slot in before if slot not in after], now)

    def finish(self, allocation: Allocation, now: int) -> None:
        if allocation not in self.running[allocation.job.kind.slot]:
            return
        job = allocation.job
        if job.end_is_lost:
            self.close(allocation, now)  # nobody says so; to the scheduler its slots stay held
        else:
            self.end(allocation, now, job.ending, job.reason, job.message, job.actor)

    def end(self, allocation: Allocation, now: int, event: str, reason: str, message: str, actor: str) -> None:
        self.close(allocation, now)
        self.tell(now, allocation, event, reason=reason, message=message, actor=actor)
        if (other := self.other(allocation.job.kind.slot)) is not None:
            other.end(allocation.allocation_id, now, event == "finished")
        self.release(allocation.slots, now)

    def close(self, allocation: Allocation, now: int) -> None:
        if allocation.active:
            self.hold_until(allocation, now)
        allocation.active = False
        self.running[allocation.job.kind.slot].remove(allocation)

    def hold_until(self, allocation: Allocation, now: int) -> None:
        if now > allocation.since_ms:
            self.out.holdings += [
                Holding(allocation, slot, allocation.since_ms, now, allocation.began_ms) for slot in allocation.slots
            ]

    def release(self, freed: Sequence[Slot], now: int) -> None:
        for slot in freed:
            self.held.discard(slot)
            other = self.other(slot.kind)
            if slot.device in self.down and other is not None:
                other.usable([slot], False, now)
            elif slot.device not in self.down and other is None:
                self.free[slot.kind].put(slot)
        for kind in {slot.kind for slot in freed}:
            self.at(now, lambda at, kind=kind: self.schedule(kind, at))  # type: ignore[misc]

    def again(self, allocation: Allocation, now: int, message: str, actor: str = "") -> None:
        job = allocation.job
        if job.duration_ms is not None and job.kind.name != "notebook":
            reported = {"reason": "Requeued", "message": message, "actor": actor or job.actor}
            left = max(MINUTE, job.duration_ms - (now - allocation.began_ms))
            rest = replace(job, submit_ms=now, duration_ms=left, patience_ms=None)
            self.at(now, lambda at: self.submit(rest, at, reported))

    # Incidents

    def incident(self, incident: Incident, now: int) -> None:
        affected = set(incident.devices)
        self.down |= affected
        for device in affected:
            for kind in {slot.kind for slot in self.slots_of[device]}:
                self.free[kind].remove_device(device)
                if (other := self.other(kind)) is not None:
                    there = [slot for slot in self.slots_of[device] if slot not in self.held]
                    other.usable([slot for slot in there if slot.kind == kind], False, now)
        hit = [a for running in self.running.values() for a in running if affected & {s.device for s in a.slots}]
        for allocation in hit if incident.fatal else []:
            self.end(allocation, now, "failed", incident.reason, incident.message, "node-controller")
            self.again(allocation, now, f"after {incident.reason}")
        self.at(incident.end_ms, lambda at: self.repaired(incident, at))

    def repaired(self, incident: Incident, now: int) -> None:
        for device in incident.devices:
            if self.fleet.devices[device].until_ms > now:
                self.down.discard(device)
                for slot in self.slots_of[device]:
                    if slot not in self.held:
                        self.appear(slot, now)

    def appear(self, slot: Slot, now: int) -> None:
        self.put(slot, now)
        self.schedule(slot.kind, now)

    def put(self, slot: Slot, now: int) -> None:
        if (other := self.other(slot.kind)) is not None:
            other.usable([slot], True, now)
        else:
            self.free[slot.kind].put(slot)

    # What is placed by hand

    def share(self) -> None:
        """Services that hold shares of the shared devices from the first hour on; on the last one, one comes and goes
        beside another, which it slows down (see service_levels)."""
        places = [place for place, one in enumerate(self.fleet.devices) if one.group.name == L40S_SHARED.name]
        for place in places:
            for number, share in enumerate(SHARES):
                start = self.plan.start_ms + (12 + 5 * number) * MINUTE + 250 * place
                if place != places[-1] or number == 0:
                    self.serve(share, place, f"{share[-1]}-{place - places[0]}", start)
        for number, start in enumerate(range(self.plan.start_ms + COMES_EVERY, self.plan.end_ms, COMES_EVERY)):
            self.serve(SHARES[-1], places[-1], f"{SHARES[-1][-1]}-burst-{number}", start, start + COMES_FOR)

    def serve(
        self, share: tuple[str, str, int, str], place: int, name: str, start: int, end: int | None = None
    ) -> None:
        """A service holds its share of a device from `start` on.   end: when it has gone; None: it stays."""
        tenant, project, units, _ = share
        actor = TENANTS[tenant][1][0]
        job = Job(name, SHARED_SERVICE, tenant, project, actor, start, None, 1, units=units)
        slot = Slot(place, self.fleet.devices[place].node, SHARED_SERVICE.slot, units=units)
        allocation = Allocation(name, name, job, (slot,), start, start, True)

        def come(now: int) -> None:
            self.running[slot.kind].append(allocation)
            self.tell(now, allocation, "started", actor="scheduler")

        def go(now: int) -> None:
            self.close(allocation, now)
            self.tell(now, allocation, "finished", reason="Completed", message="scaled to zero", actor=actor)

        self.tell(start - 20_000, allocation, "submitted", actor=actor)
        self.at(start, come)
        if end is not None:
            self.at(end, go)

    def claim_the_impossible(self) -> None:
        """An hour in the middle of the longest gang's first device, for somebody else."""
        gangs = [h for h in self.out.holdings if h.allocation.job.kind.name == "gang" and h.end_ms <= self.plan.seen_ms]
        if not gangs:
            return
        longest = max(gangs, key=lambda h: (h.end_ms - h.start_ms, h.start_ms, h.slot.device))
        middle = (longest.start_ms + longest.end_ms) // 2
        job = replace(longest.allocation.job, tenant="platform", project="ci", actor="kim", size=1)
        claim = Allocation(IMPOSSIBLE, IMPOSSIBLE, job, (longest.slot,))
        self.tell(middle, claim, "started", message="a claim that contradicts another; refused by the books")
        self.tell(min(middle + HOUR, longest.end_ms - 1), claim, "finished", reason="Completed")
