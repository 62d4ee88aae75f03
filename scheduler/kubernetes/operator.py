"""The reconciliation loop: submits ElasticJobs to the scheduler, makes pods of its decisions, reports their status.

Each round starts from the API's objects. A restart loses nothing: jobs are in the scheduler's log, pods' names are
derived from it, and the next round completes an interrupted one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from collectors.kubernetes.api import Absent, Conflict, Interrupted
from collectors.kubernetes.connection import KubernetesError
from collectors.kubernetes.objects import Object, at, child, name, namespace, text, uid
from scheduler.kubernetes import gated_pods, pods, usage
from scheduler.kubernetes.admission import Admission, call_of
from scheduler.kubernetes.calls import MERGE, Call, event_on
from scheduler.kubernetes.declarations import Declarations
from scheduler.kubernetes.elastic_jobs import (
    API_VERSION,
    ENDED,
    KIND,
    LEVEL,
    job_id,
    job_of,
    path_of,
    policy_of,
    scaling_of,
    tenant_of,
    undeclared,
)
from scheduler.kubernetes.executor import Create, PodExecutor, Seen, Step
from scheduler.kubernetes.gates import Move
from scheduler.kubernetes.idle_events import IdleEvents
from scheduler.kubernetes.reclaims import Mark, Reclaims
from scheduler.kubernetes.status import Standing, due_for_deletion, event_of, patch_of, scaled_event, status_of
from scheduler.live.executors import Result
from scheduler.live.service import RefusedError, Service
from scheduler.model import COMES_BACK, Reason
from scheduler.records.book import Live
from scheduler.records.ladder import RECLAIMED
from warehouse.errors import LedgerError
from warehouse.isolation import weakest

log = logging.getLogger(__name__)

ACTOR = "kubernetes"
MISCONFIGURED = "Misconfigured"
"""Why an ElasticJob waits that cannot be submitted as it is."""
CODES: Mapping[Result, str] = {
    "finished": "Finished",
    "failed": "ExitStatus",
    "stopped": "Stopped",
    "lost": "NodeLost",
}
"""As the scheduler calls the cause, once it hears of it."""
USAGE_SECONDS = 300.0
"""How often the GPU-hours of a running job are reported if nothing else changes."""
POSITION_SECONDS, POSITIONS_A_SECOND = 15.0, 10.0
"""How often positions of waiting jobs are computed, and how many are written: one start changes all behind it."""
TOGETHER = 200
"""Calls that are made, and whose answers are held, at once."""
T = TypeVar("T")
Outcome = Object | Interrupted | Absent | Conflict | KubernetesError


class Cluster(Protocol):
    def look(self) -> Seen | None:
        """All objects; None if the first lists are not complete."""

    def carry_out(self, calls: Sequence[Call]) -> list[Outcome]:
        """Sends the calls; returns their outcomes in the same order."""


class Operator:
    """clock: seconds since the epoch.   declarations: of pools, queues and tenants; None: a file says them.
    admission: of gated pods; None: they are left alone."""

    def __init__(
        self,
        service: Service,
        executor: PodExecutor,
        cluster: Cluster,
        clock: Callable[[], float],
        declarations: Declarations | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._service, self._executor, self._cluster, self._clock = service, executor, cluster, clock
        self._declarations, self._admission = declarations, admission
        self._idle_events = IdleEvents(service, executor, annotates=admission is not None)
        self._reclaims = Reclaims(service)
        self._submitted: set[str] = set()
        self._refused: dict[str, str] = {}
        self._unscaled: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self._followed_at = (-1, -1)
        self._followed: dict[str, tuple[Object | None, tuple[object, ...]]] = {}
        self._reported_last = self._reported_number = -1
        self._reported_at = 0.0
        self._touched: set[str] = set()
        self._jobs_before: dict[str, Object] = {}
        self._holdings = usage.Holdings(service.log)
        self._positions: dict[str, int] = {}
        self._positions_of, self._positions_at = -1, float("-inf")

    def step(self) -> bool:
        """Runs a round, including one of the scheduler. Returns whether it did anything.

        Until the first lists are complete, nothing is decided: a job that the log says is starting may long have ended.
        """
        seen = self._cluster.look()
        if seen is None:
            self._service.outbox.hand_over()
            return False
        self._touched |= self._executor.see(seen)
        if self._declarations is not None:
            self._declarations.configure(seen)
        if self._admission is not None:
            self._admission.see(seen)
        did = self._service.hear()
        self._follow(seen)
        if self._admission is not None:
            self._admission.follow(seen)
        did |= self._service.step()
        acted = False
        steps = self._reclaims.before(self._executor.steps(), seen, self._clock())
        for step, answer in self._sent(steps, _call):
            if isinstance(step, Mark):
                acted |= not isinstance(answer, Exception)
                self._log_problem(answer, self._reclaims.carried(step, answer))
                continue
            outcome = _outcome(step, answer)
            acted |= not isinstance(outcome, Exception)
            self._log_problem(outcome, self._executor.carried(step, outcome))
            if isinstance(step, Create):
                self._touched.add(str(step.launch.payload["uid"]))
        acted |= self._admission is not None and self._admit(self._admission, seen)
        acted |= self._deliver_idle_events(seen)
        return self._report(seen) or acted or did

    def _admit(self, admission: Admission, seen: Seen) -> bool:
        """Lets gated pods in and evicts them, and says why others wait."""
        now = self._clock()
        moves = self._reclaims.before_evictions(admission.moves(), now)
        outcomes = [outcome for _, outcome in self._sent(moves, _moved)]
        notes = admission.notes(seen, now)
        for move, outcome in zip(moves, outcomes, strict=True):
            if isinstance(move, Mark):
                self._log_problem(outcome, self._reclaims.carried(move, outcome))
                continue
            self._log_problem(outcome, admission.carried(move, outcome))
            notes += admission.happened(move, outcome, now)
        return self._carry_out(notes) or any(not isinstance(outcome, Exception) for outcome in outcomes)

    def _deliver_idle_events(self, seen: Seen) -> bool:
        calls = self._idle_events.calls(seen)
        did = self._carry_out(calls, self._idle_events.carried)
        if calls:
            self._idle_events.delivered()
        return did

    # From ElasticJobs to the scheduler

    def _follow(self, seen: Seen) -> None:
        looked = (self._service.log.last, seen.number)
        if looked == self._followed_at:
            return
        for identity, job in seen.jobs.items():
            if identity in self._submitted or text(child(job, "status"), "state") in ENDED:
                continue
            if not pods.is_leaving(job):
                self._submit(identity, job, seen)
        before, self._followed = self._followed, {}
        for job_id_, live in self._service.measured(lambda service: dict(service.book.jobs)).items():
            asked_by, basis = seen.jobs.get(str(live.payload.get("uid"))), _basis(live)
            known = before.get(job_id_)
            if known is not None and known[0] is asked_by and known[1] == basis:
                self._followed[job_id_] = known
            elif not gated_pods.members(live.payload) and not self._follow_one(job_id_, asked_by, live):
                self._followed[job_id_] = (asked_by, basis)
        self._submitted &= seen.jobs.keys()
        for of_jobs in (self._unscaled, self._refused):
            for gone in of_jobs.keys() - seen.jobs.keys():
                del of_jobs[gone]
        self._service.elastic_without_job = [MISCONFIGURED] * len(self._refused)
        self._followed_at = looked

    def _follow_one(self, job_id_: str, asked_by: Object | None, live: Live) -> bool:
        """Returns whether something was asked of the scheduler, or is to be asked again."""
        asks = False
        if asked_by is not None and job_id(asked_by) == job_id_:
            asks = self._rescale(uid(asked_by), asked_by, live)
            asks |= self._suspend_or_resume(asked_by, live)
        ends = live.stop is not None and live.stop[0] not in COMES_BACK
        if not ends and (asked_by is None or pods.is_leaving(asked_by)):
            self._asked(job_id_, self._service.cancel)
            asks = True
        return asks

    def _submit(self, identity: str, job: Object, seen: Seen) -> None:
        try:
            tenant = tenant_of(job, seen.namespaces.get(namespace(job), {}), seen.tenants)
            wanted = job_of(job, tenant, self._declarations is not None)
            if self._declarations is not None and (error := undeclared(wanted["queue"], self._queues())):
                raise error
        except LedgerError as error:
            if not self._service.log.of_job(job_id(job)):
                self._refuse(identity, error)
                return
            self._submitted.add(identity)  # by an earlier process, before it was changed; it may be running
            return
        self._refused.pop(identity, None)
        try:
            self._service.submit(wanted, ACTOR)
        except RefusedError as error:
            log.info("%s", error)  # also in the scheduler's log and the job's status
            if self._known(job_id(job)) is None:
                self._refuse(identity, error)
                return
        self._submitted.add(identity)

    def _queues(self) -> Collection[str]:
        found: Collection[str] = self._service.measured(lambda service: service.restored.core.queues)
        return found

    def _refuse(self, identity: str, why: LedgerError) -> None:
        """Records a refused submission, which is tried again when the job changes."""
        self._refused[identity] = str(why)
        self._touched.add(identity)

    def _rescale(self, identity: str, job: Object, live: Live) -> bool:
        """Follows `spec.scaling`; why it cannot be followed is in the job's status."""
        (least, most), problem, asks = scaling_of(job), "", False
        try:
            policy = policy_of(job)
            if (least, most) != live.asked or policy != live.job.scaling:
                asks = True
                self._service.rescale(job_id(job), least, most, ACTOR, policy)
        except LedgerError as error:
            stays = "it stays from {} to {}".format(*live.asked)
            what = error.what if isinstance(error, RefusedError) else f"{error.where}: {error.what}"
            problem = f"spec.scaling cannot be followed, {stays}: {what}"
        if self._unscaled.get(identity, "") != problem:
            self._unscaled[identity] = problem
            self._touched.add(identity)
        return asks or bool(problem)

    def _suspend_or_resume(self, job: Object, live: Live) -> bool:
        """Follows `spec.suspend`, which takes precedence over requests to the scheduler. A job that was suspended for
        being idle stays so while that is false; set and unset, it ends that."""
        wanted = child(job, "spec").get("suspend") is True
        ending = live.stop[0] if live.stop is not None else ""
        is_suspended = live.status == "suspended" or (ending == "suspended" and live.resumed is None)
        is_reclaimed = is_suspended and live.aside.reason == RECLAIMED
        may_be = not is_suspended and live.status != "held" and ending in ("", "preempted")
        if wanted and (is_reclaimed or may_be):
            self._asked(job_id(job), self._service.suspend)
            return True
        if not wanted and is_suspended and not is_reclaimed:
            self._asked(job_id(job), self._service.resume)
            return True
        return False

    def _asked(self, job_id_: str, what: Callable[[str, str], Any]) -> None:
        try:
            what(job_id_, ACTOR)
        except RefusedError as error:
            log.warning("%s", error)  # its state has changed meanwhile; the next round tries again

    # From the scheduler to statuses and events

    def _report(self, seen: Seen) -> bool:
        """Writes changed statuses and notable events, and deletes jobs whose time to live is over."""
        now = datetime.fromtimestamp(self._clock(), UTC)
        late = [job for job in seen.jobs.values() if due_for_deletion(job, now) and not pods.is_leaving(job)]
        calls = [_deletion(path_of(job), uid(job)) for job in late]
        everything = self._reported_last < 0 or self._clock() - self._reported_at >= USAGE_SECONDS
        self._reported_at = self._clock() if everything else self._reported_at
        reported = self._service.log.last, seen.number
        if self._declarations is not None and (everything or reported != (self._reported_last, self._reported_number)):
            patches = self._declarations.patches(seen, now)
            calls += [Call("PATCH", path, {"status": patch}, MERGE) for path, patch in patches]
        self._place(seen)
        among = seen.jobs if everything else self._changed(seen)
        self._reported_last, self._reported_number = reported
        for identity in list(among):
            job = seen.jobs[identity]
            before = child(job, "status")
            if text(before, "state") in ENDED or pods.is_leaving(job):
                continue
            standing = self._standing(identity, job, seen)
            if standing is None:
                continue
            wanted = status_of(standing, before, now) | {key: before[key] for key in usage.KEYS if key in before}
            patch = patch_of(wanted, before)
            if patch or (standing.state == "Running" and _is_old(before, now)):
                wanted = {key: value for key, value in wanted.items() if key not in usage.KEYS}
                wanted |= self._usage(standing, now)
                patch = patch_of(wanted, before)
            if patch:
                calls.append(Call("PATCH", f"{path_of(job)}/status", {"status": patch}, MERGE))
                event = event_of(wanted, before)
                scaled = scaled_event(standing, before)
                calls += [event_on(job, API_VERSION, KIND, one, now) for one in (event, scaled) if one is not None]
        self._touched.clear()
        return self._carry_out(calls)

    def _changed(self, seen: Seen) -> Sequence[str]:
        """The jobs whose status may be another one since the last report: those that changed themselves, or pods of
        which did, or that the log names; and whenever it has grown, all that wait for something."""
        found = self._touched | {
            identity for identity, job in seen.jobs.items() if self._jobs_before.get(identity) is not job
        }
        self._jobs_before = dict(seen.jobs)
        if self._service.log.last != self._reported_last:
            new = list(self._service.log.entries(self._reported_last))
            if any(entry.kind == "configured" for entry in new):
                return list(seen.jobs)
            named = {job for entry in new for job in usage.concerned(entry)}
            named |= self._service.measured(
                lambda service: {job for job, live in service.book.jobs.items() if _waits(live)}
            )
            found |= {identity for identity, job in seen.jobs.items() if job_id(job) in named}
        return sorted(found & seen.jobs.keys())

    def _place(self, seen: Seen) -> None:
        """Computes the positions of waiting jobs, if they may have changed."""
        every = max(POSITION_SECONDS, len(self._positions) / POSITIONS_A_SECOND)
        if self._service.log.last == self._positions_of or self._clock() - self._positions_at < every:
            return
        before, self._positions = self._positions, self._service.positions()
        self._positions_of, self._positions_at = self._service.log.last, self._clock()
        moved = {job for job, _ in before.items() ^ self._positions.items()}
        self._touched |= {identity for identity, job in seen.jobs.items() if job_id(job) in moved}

    def _usage(self, standing: Standing, now: datetime) -> dict[str, Any]:
        def found(service: Service) -> dict[str, Any]:
            restored, at = service.restored, max(now.timestamp(), service.restored.at)
            held = self._holdings.of(standing.job_id).held(restored.setup.nodes, at)
            return usage.usage_of(held, restored.settings.policies.prices, standing.is_over, at)

        status: dict[str, Any] = self._service.measured(found)
        return status

    def _carry_out(
        self, calls: Sequence[Call], carried: Callable[[Call, Outcome], None] = lambda call, outcome: None
    ) -> bool:
        did = False
        for call, outcome in self._sent(calls, lambda call: call):
            carried(call, outcome)
            did |= not isinstance(outcome, Exception)
            if isinstance(outcome, Exception) and not isinstance(outcome, Absent | Conflict):
                self._reported_last = -1
                self._log_problem(outcome, f"{call.path}: {outcome}")
        return did

    def _sent(self, what: Sequence[T], call_of: Callable[[T], Call]) -> Iterator[tuple[T, Outcome]]:
        """Calls for all of these, so many at a time: what is sent and answered for thousands is large."""
        for start in range(0, len(what), TOGETHER):
            some = what[start : start + TOGETHER]
            yield from zip(some, self._cluster.carry_out([call_of(one) for one in some]), strict=True)

    def _log_problem(self, outcome: Outcome, what: str) -> None:
        """Logs a problem once, until it changes."""
        kind = type(outcome).__name__
        if what and self._said.get(kind) != what:
            self._said[kind] = what
            log.error("kubernetes: %s", what)

    def _standing(self, identity: str, job: Object, seen: Seen) -> Standing | None:
        """The standing of a job; None if it was not submitted yet."""
        if identity in self._refused:
            reason = Reason(MISCONFIGURED, self._refused[identity])
            return Standing("pending", "", job_id(job), reasons=(reason,))
        if identity not in self._submitted:
            return None
        return self._service.measured(lambda service: self._of_live(service, job, seen)) or self._known(job_id(job))

    def _of_live(self, service: Service, job: Object, seen: Seen) -> Standing | None:
        live = service.book.jobs.get(job_id(job))
        if live is None:
            return None
        shown = service.show(job_id(job))
        wanted = [pods.pod_name(name(job), live.world, rank["rank"]) for rank in shown["ranks"]]
        found = [seen.pods.get((namespace(job), one)) for one in wanted]
        unready = [
            f"{one}: {pods.why_not_running(pod) if pod else 'it is not there yet'}"
            for one, pod in zip(wanted, found, strict=True)
            if pod is None or not pods.has_begun(pod)
        ]
        refused = self._executor.refused(job_id(job), live.attempt)
        is_whole = self._executor.is_whole(job_id(job), live.attempt, live.world)
        status, reasons, evicted = self._how_it_is(live, service)
        return Standing(
            status,
            live.job.tenant,
            job_id(job),
            live.attempt,
            len(wanted) if status in ("starting", "running") else 0,
            len(wanted) - len(unready),
            [pods.node_of(host) for host in shown["nodes"]],
            reasons,
            service.expected(job_id(job)),
            refused or "; ".join(unready[:3]),
            live.world if is_whole else None,
            evicted,
            self._limited(uid(job), live, service),
            self._positions.get(job_id(job)) if status == "pending" else None,
            service.scaling(job_id(job)),
            self._level(live, service),
        )

    def _level(self, live: Live, service: Service) -> str:
        """What it has of its devices; '': that is not known, or it has none."""
        nodes = service.restored.setup.nodes
        on = sorted({grant.node for grant in live.grants if grant.devices})
        return weakest([nodes[number].labels.get(LEVEL, "") for number in on])

    def _limited(self, identity: str, live: Live, service: Service) -> Reason | None:
        """Why a job does not have the replicas that `spec.scaling` says."""
        problem = self._unscaled.get(identity)
        return Reason("Misconfigured", problem) if problem else service.short(live.job.job_id)

    def _how_it_is(self, live: Live, service: Service) -> tuple[str, Sequence[Reason], bool]:
        """(status, reasons, whether it was preempted). The scheduler learns of an end when all pods are gone; the pods
        show earlier how it ends."""
        job = live.job.job_id
        if live.status == "stopping" and live.stop is not None:
            ending, cause = live.stop
            return live.status, (Reason(cause.reason or ending.capitalize(), cause.text),), ending in COMES_BACK
        found = self._executor.ending(job, live.attempt) if live.status in ("starting", "running") else None
        if found is not None:
            return "stopping", (Reason(CODES[found[0]], found[1]),), found[0] == "lost"
        evicted = live.status == "suspended" or (live.status == "pending" and live.attempt > 1)
        return live.status, service.why(job), evicted

    def _known(self, job_id_: str) -> Standing | None:
        """The standing of an ended job; None if it was never submitted."""
        try:
            found = self._service.explain(job_id_)
        except RefusedError:
            return None  # it was never submitted
        causes = [line["cause"] for line in found["history"] if line.get("cause")]
        cause = causes[-1] if causes else {}
        otherwise = "" if found["status"] == "finished" else found["status"].capitalize()
        reasons = (Reason(cause.get("reason") or otherwise, cause.get("text", "")),)
        tenant = self._service.log.of_job(job_id_)[0].body["job"]["tenant"]
        return Standing(found["status"], tenant, job_id_, reasons=reasons)


def _basis(live: Live) -> tuple[object, ...]:
    """All of a job that decides what its ElasticJob asks of the scheduler."""
    return live.asked, live.job.scaling, live.status, live.stop, live.resumed, live.aside


def _waits(live: Live) -> bool:
    """To start, or for more replicas."""
    return live.status == "pending" or len(live.grants) < live.job.min_replicas


def _is_old(status: Object, now: datetime) -> bool:
    reported = at(status.get("gpuHoursAt"))
    return reported is None or (now - reported).total_seconds() >= USAGE_SECONDS


def _call(step: Step | Mark) -> Call:
    if isinstance(step, Mark):
        return step.call
    if isinstance(step, Create):
        space = step.launch.payload["namespace"]
        return Call("POST", f"/api/v1/namespaces/{space}/{step.kind.lower()}s", step.body)
    return _deletion(f"/api/v1/namespaces/{step.namespace}/pods/{step.name}", step.uid, step.version)


def _moved(move: Move | Mark) -> Call:
    return move.call if isinstance(move, Mark) else call_of(move)


def _outcome(step: Step, answer: Outcome) -> Outcome:
    """The outcome of a step. An existing service counts as created: the response to its creation may have been lost."""
    if isinstance(answer, Conflict) and isinstance(step, Create) and step.rank is None:
        return {}
    return answer


def _deletion(path: str, identity: str, version: str = "") -> Call:
    """Of that one alone, not of another that has its name by now; nor of one that has changed since the version."""
    only = {"uid": identity} | ({"resourceVersion": version} if version else {})
    return Call("DELETE", path, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": only})
