"""A minimal scheduling state (first come, first served, with the real placement) for tests of what surrounds it."""

from __future__ import annotations

from scheduler.cycle.policies import Reservation
from scheduler.model import Job, Node, NodeState, Plan, Preempt, Reason, Request, Resize, Start
from scheduler.placement.cluster import Cluster
from scheduler.placement.engine import place_gang
from scheduler.placement.packing import BestFit


class FirstCome:
    """Nobody overtakes. With `preempts`, a job of higher priority takes the place of whoever started last below it."""

    def __init__(self, nodes: list[Node] | tuple[Node, ...], preempts: bool = False) -> None:
        self.cluster, self.preempts = Cluster(nodes), preempts
        self.policy = BestFit()
        self.pending: dict[str, Job] = {}
        self.running: dict[str, tuple[Job, Start]] = {}
        self.decisions = 0

    def amount(self, request: Request, replicas: int) -> int:
        return request.devices * replicas

    def submit(self, job: Job, now: float) -> None:
        self.pending[job.job_id] = job

    def withdraw(self, job_id: str, now: float) -> None:
        del self.pending[job_id]

    def apply(self, action: Start | Preempt | Resize, now: float) -> None:
        if isinstance(action, Start):
            job = self.pending.pop(action.job_id)
            for grant in action.grants:
                self.cluster.take(grant, job.request)
            self.running[action.job_id] = (job, action)
            self.decisions += 1
        elif isinstance(action, Preempt):
            self._free(action.job_id)

    def end(self, job_id: str, now: float, finished: bool, comes_back: bool = False, leaves: bool = False) -> None:
        self._free(job_id)

    def launched(self, job_id: str, at: float) -> None:
        pass

    def gone(self, job_id: str) -> None:
        pass

    def drop(self, job_id: str) -> None:
        pass

    def unused(self, now: float) -> list[Reservation]:
        return []

    def next_unused(self) -> float:
        return float("inf")

    def next_promise(self, after: float) -> float:
        return float("inf")

    def give_back(self, name: str, start: float, now: float) -> None:
        raise AssertionError("there are no reservations")

    def set_node(self, node: int, state: NodeState, now: float) -> None:
        self.cluster.set_state(node, state)

    def plan(self, now: float) -> Plan:
        actions: list[Start | Preempt | Resize] = []
        mark = self.cluster.mark()
        queue = sorted(self.pending.values(), key=lambda job: (-job.priority, job.submitted_at, job.job_id))
        waiting: dict[str, tuple[Reason, ...]] = {}
        for place, job in enumerate(queue):
            grants = place_gang(self.cluster, job.request, job.min_replicas, self.policy)
            victims: list[Preempt] = []
            if grants is None and self.preempts:
                for other, start in reversed(self.running.values()):
                    if (
                        other.priority >= job.priority
                        or not other.preemptible
                        or other.job_id in {action.job_id for action in actions}
                    ):
                        continue
                    for grant in start.grants:
                        self.cluster.give_back(grant, other.request)
                    victims.append(
                        Preempt(
                            other.job_id,
                            len(start.grants),
                            job.job_id,
                            "Priority",
                            f"{job.priority} > {other.priority}",
                        )
                    )
                    grants = place_gang(self.cluster, job.request, job.min_replicas, self.policy)
                    if grants is not None:
                        break
            if grants is None:
                waiting = {j.job_id: (Reason("Priority" if n else "Resources"),) for n, j in enumerate(queue[place:])}
                break
            actions += [*victims, Start(job.job_id, grants, "guaranteed", f"d{self.decisions + len(actions) + 1}")]
        self.cluster.rollback(mark)
        return Plan(tuple(actions), waiting)

    def _free(self, job_id: str) -> None:
        job, start = self.running.pop(job_id)
        for grant in start.grants:
            self.cluster.give_back(grant, job.request)
