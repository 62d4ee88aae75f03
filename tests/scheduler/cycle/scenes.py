"""Small clusters and jobs, applying plans, and a simple loop of virtual time that is independent of how decisions are
made."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from scheduler.cycle.core import Core
from scheduler.cycle.plan import CyclePlan
from scheduler.cycle.policies import Policies, Reservation
from scheduler.model import Device, Job, Node, Preempt, Queue, Request, Resize, Start, Tenant
from scheduler.placement.cluster import Cluster


class Promised(dict[str, float]):
    """The first start that was announced for each job."""

    def watch(self, _: float, plan: CyclePlan) -> None:
        for name, at in plan.expected.items():
            self.setdefault(name, at)


def nodes(count: int, gpus: int = 8, units: int = 1, racks_of: int = 0, pool: str = "") -> list[Node]:
    return [
        Node(
            f"{pool}n{number}",
            tuple(Device(f"{pool}n{number}d{index}", "A100", units) for index in range(gpus)),
            cpu_milli=1000 * gpus,
            memory_bytes=1 << 30,
            pool=pool,
            topology=(f"rack{number // racks_of}",) if racks_of else (),
        )
        for number in range(count)
    ]


def job(
    name: str,
    tenant: str = "a",
    gpus: int = 1,
    replicas: int = 1,
    at: float = 0.0,
    queue: str = "q",
    most: int = 0,
    limit: float | None = None,
    priority: int = 0,
    preemptible: bool = True,
    request: Request | None = None,
    **others: object,
) -> Job:
    return Job(
        name,
        tenant,
        queue,
        request or Request(devices=gpus),
        at,
        min_replicas=replicas,
        max_replicas=most or replicas,
        priority=priority,
        preemptible=preemptible,
        time_limit=limit,
        **others,  # type: ignore[arg-type]
    )


def core(
    cluster: Sequence[Node],
    tenants: Iterable[Tenant] = (),
    queues: Iterable[Queue] = (Queue("q"),),
    policies: Policies | None = None,
    reservations: Sequence[Reservation] = (),
    explain: bool = True,
) -> Core:
    return Core(Cluster(cluster), list(tenants), list(queues), policies, reservations, explain=explain)


def decide(state: Core, now: float, *jobs: Job) -> CyclePlan:
    """Submits the jobs, plans and applies the plan."""
    for one in jobs:
        state.submit(one, now)
    plan = state.plan(now)
    for action in plan.actions:
        state.apply(action, now)
    return plan


def started(plan: CyclePlan) -> list[str]:
    return [action.job_id for action in plan.actions if isinstance(action, Start)]


def preempted(plan: CyclePlan) -> list[tuple[str, int, str]]:
    return [(a.job_id, a.replicas, a.authority) for a in plan.actions if isinstance(a, Preempt)]


def codes(plan: CyclePlan, job_id: str) -> list[str]:
    return [reason.code for reason in plan.waiting[job_id]]


def run(
    state: Core,
    jobs: Sequence[Job],
    run_times: dict[str, float],
    watch: Callable[[float, CyclePlan], None] | None = None,
    pauses: Iterable[tuple[float, float, str]] = (),
) -> dict[str, float]:
    """Virtual time until nothing happens any more; a preempted job waits again and starts over. First start by job.

    pauses: (from, to, job) of jobs that are suspended, if they then wait or run.
    """
    arrivals = sorted(jobs, key=lambda one: (one.submitted_at, one.job_id))
    ends: list[tuple[float, int, str]] = []
    attempts: dict[str, int] = {}
    by_id = {one.job_id: one for one in jobs}
    first: dict[str, float] = {}
    position = 0
    pauses = sorted(pauses)
    edges = sorted(
        {edge for window in state.reservations for edge in (window.start, window.end)}
        | {edge for begin, end, _ in pauses for edge in (begin, end)}
    )
    last = float("-inf")
    while position < len(arrivals) or ends or edges:
        times = [ends[0][0]] if ends else []
        times += [arrivals[position].submitted_at] if position < len(arrivals) else []
        now = min(times + edges[:1])
        if state.next_promise(last) < now:
            now = state.next_promise(last)
        last = now
        edges = [edge for edge in edges if edge > now]
        while ends and ends[0][0] <= now:
            _, attempt, name = heapq.heappop(ends)
            if attempts.get(name) == attempt and name in state.running:
                state.end(name, now, True)
        while position < len(arrivals) and arrivals[position].submitted_at <= now:
            state.submit(arrivals[position], now)
            position += 1
        for begin, end, name in pauses:
            if end == now and name in state.aside:
                state.submit(by_id[name], now)
            elif begin == now and name in state.running:
                attempts[name] += 1
                state.end(name, now, False, comes_back=True)
            elif begin == now and name in state.pending:
                state.withdraw(name, now)
        for _ in range(50):
            plan = state.plan(now)
            if watch:
                watch(now, plan)
            for action in plan.actions:
                state.apply(action, now)
                if isinstance(action, Start):
                    name = action.job_id
                    first.setdefault(name, now)
                    attempts[name] = attempts.get(name, 0) + 1
                    heapq.heappush(ends, (now + run_times[name], attempts[name], name))
                elif isinstance(action, Preempt) and action.job_id not in state.running:
                    attempts[action.job_id] += 1
                    state.submit(by_id[action.job_id], now)
            if not any(isinstance(action, Start | Preempt | Resize) for action in plan.actions):
                break
        else:
            raise AssertionError(f"decisions go round in circles at {now}")
    return first
