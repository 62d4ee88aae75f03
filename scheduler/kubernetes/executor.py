"""The executor whose ranks are pods: which pods to create and delete, and how attempts end.

It does no I/O: `see` passes it the API's objects, `steps` returns what is to be done, and `carried` passes it the
result of each step. After a crash the scheduler orders its starts and stops again, and existing pods are recognized.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from collectors.kubernetes.api import Absent, Conflict, Interrupted, Refused
from collectors.kubernetes.objects import Object, child, condition, name, namespace, text, uid
from scheduler.kubernetes import pods
from scheduler.kubernetes.elastic_jobs import uncounted, unfit, unplaceable
from scheduler.live.executors import JUST_NOW, Attempt, AttemptName, Completing, Launch, Over, Result
from scheduler.live.idle import Holders
from scheduler.live.ranks import Rank
from scheduler.model import Job, Node, NodeState
from warehouse.errors import LedgerError

Name = tuple[str, str]
"""(namespace, name) of a pod."""
CONFLICT_SECONDS = 60.0
"""Seconds after which an existing object of our name is not ours: our own would have been seen by then."""
AGAIN_SECONDS = 5.0
"""Seconds before what was refused, such as the creation of a pod for a quota, is tried again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The objects that there are. jobs: ElasticJobs by uid.   nodes, namespaces: by name.   number: grows with each
    change.   pools, queues, tenants: ComputePools, Queues and Tenants by name, where settings come from them.   gated:
    pods with the label of a queue by UID, where they are admitted."""

    pods: Mapping[Name, Object]
    jobs: Mapping[str, Object]
    nodes: Mapping[str, Object]
    namespaces: Mapping[str, Object]
    number: int = 0
    pools: Mapping[str, Object] = field(default_factory=dict)
    queues: Mapping[str, Object] = field(default_factory=dict)
    tenants: Mapping[str, Object] = field(default_factory=dict)
    gated: Mapping[str, Object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Create:
    """Creates an object of an attempt.   rank: whose pod; None: the service by which its ranks find each other."""

    launch: Launch
    rank: Rank | None = None

    @property
    def attempt(self) -> AttemptName:
        return self.launch.job.job_id, self.launch.attempt

    @property
    def kind(self) -> str:
        return "Service" if self.rank is None else "Pod"

    @property
    def body(self) -> Object:
        """Made when it is asked for: a round may create thousands."""
        return pods.service_of(self.launch.payload) if self.rank is None else pods.pod_of(self.launch, self.rank)

    @property
    def name(self) -> str:
        payload, launch = self.launch.payload, self.launch
        if self.rank is None:
            return pods.service_name(payload)
        return pods.pod_name(payload["name"], launch.world, self.rank.number)


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes exactly the version of a pod that was seen, with its own grace period; a changed one is evaluated
    first."""

    namespace: str
    name: str
    uid: str
    version: str


Step = Create | Delete


@dataclass
class PodAttempt(Attempt):
    """An attempt whose ranks are pods.   begun_at: since when all ran at the same time, JUST_NOW if no kubelet says so;
    None: not yet.   refused: why the API did not take the last change to one.   again_at: when that is tried again."""

    begun_at: float | None = None
    refused: str = ""
    again_at: float = 0.0

    def over(self, result: Result, ended_at: float | None) -> Over:
        return Over(*self.name, result, self.text, self.begun_at, ended_at)


@dataclass
class _OwnPodsAttempt(PodAttempt):
    """there: names of pods of this world that were seen.   whole: whether all were, perhaps by an earlier process.
    done: those that finished.   taken: since when a name is taken by another object.   meets: whether its service was
    there when this world began; somebody may have deleted an earlier world's."""

    there: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    whole: bool = False
    meets: bool = False
    taken: dict[str, float] = field(default_factory=dict)

    @property
    def uid(self) -> str:
        return str(self.launch.payload["uid"])

    def names(self) -> Iterator[tuple[Rank, Name]]:
        payload = self.launch.payload
        for rank in self.launch.ranks:
            yield rank, (payload["namespace"], pods.pod_name(payload["name"], self.launch.world, rank.number))

    def is_of(self, pod: Object) -> bool:
        """Whether a pod is of this world, by its unique name."""
        payload, world, rank = self.launch.payload, self.launch.world, pods.rank_of(pod)
        is_named = name(pod) == pods.pod_name(payload["name"], world, rank) and 0 <= rank < len(self.launch.ranks)
        return is_named and pods.job_uid(pod) == self.uid and pods.world_of(pod) == str(world)

    def finished_ranks(self) -> list[int]:
        return [rank.number for rank, (_, called) in self.names() if called in self.done]

    def moves_to(self, launch: Launch) -> None:
        if launch.world != self.launch.world:
            self.there, self.done, self.taken, self.whole, self.meets = set(), set(), {}, False, False
        self.launch = launch

    def ended_at(self, of_job: Sequence[Object]) -> float | None:
        """When the last of its pods ended; None if one is gone, of a former world too: it may have been the last."""
        own = [pod for pod in of_job if pods.allocation_of(pod) == pods.allocation_id(self.launch)]
        were = {called for _, (_, called) in self.names()} if self.whole else self.there
        worlds = Counter((pods.world_of(pod), pods.size_of(pod)) for pod in own)
        is_complete = were <= {name(pod) for pod in own} and all(
            str(many) == size for (_, size), many in worlds.items()
        )
        return pods.all_ended_at(own) if is_complete else None

    def look(self, of_job: Sequence[Object]) -> None:
        """Updates the attempt from the pods of its job."""
        ranks = [called for _, (_, called) in self.names()]
        own = {name(pod): pod for pod in of_job if self.is_of(pod)}
        self.there |= own.keys()
        self.done |= {called for called, pod in own.items() if pods.has_finished(pod)}
        self.whole |= len(self.there) == len(ranks)
        if self.whole:
            self.refused = ""  # if a creation succeeded without a response, its pod has been seen by now
        if self.begun_at is None:
            self.begun_at = self._began(of_job)
        if self.result == "failed" and any(map(pods.was_disrupted, own.values())):
            self.result = "lost"  # a rank fails when a peer is gone; only now is the disruption of the peer known
        if self.result is None and self._has_a_finished_world(of_job):
            self.result = "finished"
        if self.result is None:
            self.result, self.text = self._judged(own)

    def _began(self, of_job: Sequence[Object]) -> float | None:
        """Since when all pods of a world have run, including one that was replaced before anybody saw it run."""
        allocation, payload = pods.allocation_id(self.launch), self.launch.payload
        worlds: dict[tuple[str, str], list[Object]] = {}
        for pod in of_job:
            world = pods.world_of(pod)
            is_named = name(pod) == f"{payload['name']}-{world}-{pods.rank_of(pod)}"
            if is_named and pods.allocation_of(pod) == allocation and pods.has_begun(pod):
                worlds.setdefault((world, pods.size_of(pod)), []).append(pod)
        whole = [found for (_, size), found in worlds.items() if str(len(found)) == size]
        since = [pods.all_begun_at(found) for found in whole]
        return min((JUST_NOW if one is None else one for one in since), default=None)

    def _has_a_finished_world(self, of_job: Sequence[Object]) -> bool:
        """Whether a world has finished, including one that was to be replaced by another."""
        allocation = pods.allocation_id(self.launch)
        finished = Counter(
            (pods.world_of(pod), pods.size_of(pod))
            for pod in of_job
            if pods.allocation_of(pod) == allocation and pods.has_finished(pod)
        )
        return any(str(count) == size for (_, size), count in finished.items())

    def _judged(self, own: Mapping[str, Object]) -> tuple[Result | None, str]:
        """The attempt's result from its pods, None if it continues. A lost pod takes precedence over failed ones, which
        may have failed because of it."""
        failed = ""
        for rank, at in self.names():
            pod, where = own.get(at[1]), f"rank {rank.number} on {rank.node}"
            if at[1] in self.done:
                continue
            if pod is None:
                if self.whole or at[1] in self.there:
                    return "lost", f"{where}: its pod is gone"
            elif pods.was_disrupted(pod) or (pods.is_leaving(pod) and not pods.ended_by_itself(pod)):
                why = pods.why_failed(pod) if pods.was_disrupted(pod) else "somebody deletes its pod"
                return "lost", f"{where}: {why}"
            elif pods.phase(pod) == "Failed":
                failed = failed or f"{where}: {pods.why_failed(pod)}"
        if failed:
            return "failed", failed
        return ("finished" if len(self.done) == len(self.launch.ranks) else None), ""


class PodExecutor:
    """Methods may be called by any thread.   clock: seconds that only go on.   left: nodes of the scheduler that are in
    no pool now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._attempts: dict[AttemptName, _OwnPodsAttempt] = {}
        self._seen: Seen | None = None
        self._of_job: dict[str, dict[Name, Object]] = {}
        self._open: set[str] = set()
        self._astray: dict[str, Delete] = {}
        self._lock = threading.RLock()
        self.left: Collection[str] = ()

    # As an executor

    def refusal(self, job: Job, payload: Mapping[str, Any], nodes: Sequence[Node]) -> str:
        return unfit(payload) or uncounted(payload) or unplaceable(job, nodes)

    def says_size(self, payload: Mapping[str, Any]) -> str:
        return "has its size from its ElasticJob. Change spec.scaling, as by `kubectl scale`"

    def start(self, launch: Launch) -> float | None:
        problem = unfit(launch.payload)
        if problem:
            raise LedgerError(f"job {launch.job.job_id}", problem)
        with self._lock:
            return self._know(launch).begun_at

    def stop(self, launch: Launch) -> None:
        with self._lock:
            attempt = self._know(launch)
            attempt.ends("stopped")
            self._open.add(attempt.uid)

    def poll(self) -> list[Over]:
        with self._lock:
            if self._seen is None:
                return []
            return [
                one.over(one.result, one.ended_at(self._pods_of(one.uid)))
                for one in self._attempts.values()
                if one.result is not None and all(map(pods.is_over, self._pods_of(one.uid)))
            ]

    def completing(self) -> list[Completing]:
        with self._lock:
            found = [one for one in self._attempts.values() if one.done and one.result is None]
            return [Completing(*one.name, one.launch.world, one.finished_ranks()) for one in found]

    def confirm(self, over: Over) -> None:
        with self._lock:
            attempt = self._attempts.pop((over.job_id, over.attempt), None)
            if attempt is not None:
                self._open.add(attempt.uid)

    def holders(self, job_id: str, attempt: int, world: int) -> Holders | None:
        """Its pods, of which the books know each by its UID."""
        with self._lock:
            found = self._attempts.get((job_id, attempt))
            if found is None or found.launch.world != world or found.result is not None:
                return None
            there = self._of_job.get(found.uid, {})
            return pods.holders([there.get(at) for _, at in found.names()])

    def outage(self, node: str) -> NodeState | None:
        """What keeps pods from a node: it is gone or not ready, or it is cordoned or has left its pool."""
        if self._seen is None:
            return None
        found = self._seen.nodes.get(pods.node_of(node))
        if found is None or condition(found, "Ready").get("status") != "True":
            return "failed"
        is_closed = node in self.left or child(found, "spec").get("unschedulable") is True
        return "maintenance" if is_closed else "available"

    # For the operator

    def see(self, seen: Seen) -> set[str]:
        """Takes the API's objects. Returns the uids of jobs with changes; only these are evaluated again."""
        with self._lock:
            before, self._seen = self._seen or Seen({}, {}, {}, {}), seen
            if before.number == seen.number and before.pods:
                return set()
            changed = {at for at, pod in seen.pods.items() if before.pods.get(at) is not pod}
            touched = {identity for identity, job in seen.jobs.items() if before.jobs.get(identity) is not job}
            touched |= before.jobs.keys() - seen.jobs.keys()
            vanished = before.pods.keys() - seen.pods.keys()
            for pod in (before.pods[at] for at in vanished):
                if not pods.is_leaving(pod) and not pods.is_over(pod):
                    # Gone at once, or somebody took our label or its owner from it, and it runs on beside all quotas.
                    self._astray[uid(pod)] = Delete(namespace(pod), name(pod), uid(pod), "")
            for at in changed | vanished:
                if at in before.pods:
                    self._of_job.get(pods.job_uid(before.pods[at]), {}).pop(at, None)
                    touched.add(pods.job_uid(before.pods[at]))
            for at in changed:
                job = pods.job_uid(seen.pods[at])
                if job in seen.jobs and namespace(seen.jobs[job]) != at[0]:
                    continue  # a forged owner: owners are in the same namespace
                self._of_job.setdefault(job, {})[at] = seen.pods[at]
                touched.add(job)
            for job in touched:
                if not self._of_job.get(job, True):
                    del self._of_job[job]
            for attempt in self._attempts.values():
                if attempt.uid in touched:
                    self._look(attempt, seen)
            self._open |= touched
            return touched

    def pods_of(self, job: str) -> Sequence[Object]:
        """The pods of an ElasticJob, by its UID."""
        with self._lock:
            return self._pods_of(job)

    def steps(self) -> list[Step]:
        """Steps towards the wanted pods. No pod of a world is created before all pods of the previous one are gone."""
        with self._lock:
            astray: list[Step] = list(self._astray.values())
            if self._seen is None or not self._open:
                return astray
            wanted = {one.uid: one for one in self._attempts.values() if one.result is None}
            found: list[Step] = []
            for job in sorted(self._open):
                attempt, exists = wanted.get(job), job in self._seen.jobs
                unwanted = [pod for pod in self._pods_of(job) if _is_unwanted(pod, attempt, exists)]
                steps: list[Step] = [_deletion(pod) for pod in unwanted if not pods.is_leaving(pod)]
                if attempt is not None and exists and not unwanted and not attempt.whole:
                    steps += self._missing(attempt, self._seen.pods)
                if not steps and not (attempt is not None and exists and not attempt.whole):
                    self._open.discard(job)  # until one of its objects changes
                found += steps
            return found + astray

    def _pods_of(self, job: str) -> Sequence[Object]:
        return list(self._of_job.get(job, {}).values())

    def carried(self, step: Step, outcome: Object | Exception) -> str:
        """Takes the result of a step. Returns a message for the log, or ''."""
        if isinstance(step, Delete):
            if not isinstance(outcome, Interrupted):
                with self._lock:
                    self._astray.pop(step.uid, None)
            return "" if isinstance(outcome, Absent | Conflict | Mapping) else f"pod {step.name}: {outcome}"
        with self._lock:
            attempt, called = self._attempts.get(step.attempt), f"{step.kind.lower()} {step.name}"
            if attempt is None:
                return ""
            if not isinstance(outcome, Exception):
                attempt.refused = ""
                if step.rank is None:
                    attempt.meets = True
                return ""
            if isinstance(outcome, Conflict):
                now = self._clock()
                if now - attempt.taken.setdefault(step.name, now) < CONFLICT_SECONDS:
                    return ""
                attempt.ends("failed", f"{called} is there, and is not this job's")
            elif isinstance(outcome, Refused):
                attempt.ends("failed", f"{called} is not accepted: {outcome}")
            else:
                attempt.refused = f"{called} could not be created: {outcome}"
                if isinstance(outcome, Absent):
                    attempt.again_at = self._clock() + AGAIN_SECONDS
            return attempt.refused or attempt.text

    def refused(self, job_id: str, attempt: int) -> str:
        """Why pods of an attempt could not be created; '' if they were."""
        with self._lock:
            found = self._attempts.get((job_id, attempt))
            return found.refused if found is not None else ""

    def ending(self, job_id: str, attempt: int) -> tuple[Result, str] | None:
        """How an attempt ends, once that is known; its pods may still exist."""
        with self._lock:
            found = self._attempts.get((job_id, attempt))
            return None if found is None or found.result is None else (found.result, found.text)

    def is_whole(self, job_id: str, attempt: int, world: int) -> bool:
        """Whether all pods of that world existed at some time."""
        with self._lock:
            found = self._attempts.get((job_id, attempt))
            return found is not None and found.launch.world == world and found.whole

    def _know(self, launch: Launch) -> _OwnPodsAttempt:
        attempt = self._attempts.get((launch.job.job_id, launch.attempt))
        if attempt is None or attempt.launch.world != launch.world:
            attempt = self._attempts.setdefault((launch.job.job_id, launch.attempt), _OwnPodsAttempt(launch))
            attempt.moves_to(launch)
            self._open.add(attempt.uid)
            if self._seen is not None:
                self._look(attempt, self._seen)
        return attempt

    def _look(self, attempt: _OwnPodsAttempt, seen: Seen) -> None:
        job = seen.jobs.get(attempt.uid)
        attempt.whole |= job is not None and child(job, "status").get("world") == attempt.launch.world
        attempt.look(self._pods_of(attempt.uid))

    def _missing(self, attempt: _OwnPodsAttempt, there: Mapping[Name, Object]) -> list[Step]:
        """Steps that create pods that were never seen; if ranks must find each other, first only the service."""
        if self._clock() < attempt.again_at:
            return []
        missing = [(rank, at) for rank, at in attempt.names() if at not in there and at[1] not in attempt.there]
        if len(attempt.launch.ranks) > 1 and not attempt.meets and missing:
            return [Create(attempt.launch)]
        return [Create(attempt.launch, rank) for rank, _ in missing]


def _is_unwanted(pod: Object, attempt: _OwnPodsAttempt | None, exists: bool) -> bool:
    """Whether a pod is to be deleted: its job is gone, or it runs in another world than the wanted one."""
    if not exists:
        return True
    return not pods.is_over(pod) and (attempt is None or not attempt.is_of(pod))


def _deletion(pod: Object) -> Delete:
    return Delete(namespace(pod), name(pod), uid(pod), text(child(pod, "metadata"), "resourceVersion"))
