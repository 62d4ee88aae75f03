"""The live loop: requests and ends of jobs go into the log; plans are made, logged, applied and carried out.

An entry is on disk before it has any effect. After a crash the entries restore the same state, and starts and stops
that may not have been carried out are sent to the executor again, which does each once.
"""

from __future__ import annotations

import copy
import itertools
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from collectors.errors import CollectorError
from collectors.jobs.wire import read_report
from collectors.readings import Row
from scheduler.codec import plain, read
from scheduler.cycle.expectations import CONFIDENCE
from scheduler.cycle.order import positions
from scheduler.cycle.reasons import EXPECTED, why_short
from scheduler.exposition import (
    Series,
    elastic_series,
    gated_series,
    idle_series,
    pools_series,
    series,
    services_series,
)
from scheduler.live.admission import misfit, mispolicy, misrange, uncountable, unfit_job_id, unfit_name
from scheduler.live.agents import AgentError, Agents
from scheduler.live.callbacks import Callbacks
from scheduler.live.executors import (
    JUST_NOW,
    AttemptName,
    Completing,
    Executor,
    HearsOfRanks,
    Launch,
    NamesHolders,
    Over,
    Recorder,
    SaysSize,
    SeesNodes,
    SeesRanksFinish,
    Vacated,
    VacatesRanks,
)
from scheduler.live.history import ended, lines
from scheduler.live.idle import Feed, Holders, Idle, Unknown, one_holder
from scheduler.live.idle_jobs import IdleJobs, Reclaim, obstacle, policy_of
from scheduler.live.outbox import Deliver, Outbox
from scheduler.live.ranks import ranks_of
from scheduler.live.scaled_jobs import BY_POLICY, Measured, ScaledJobs, Waiters, windows_asked
from scheduler.model import COMES_BACK, MOST_ASKED, Ending, Job, NodeState, Preempt, Reason
from scheduler.placement.consolidation import make_room
from scheduler.placement.fragmentation import Fragmentation, typical_demand
from scheduler.placement.holdings import Holding, Holdings
from scheduler.pools import PoolLine, pool_lines
from scheduler.records import restore as records
from scheduler.records.book import TIME_LIMIT, Live, Status
from scheduler.records.cycles import decisive, plan_cycle
from scheduler.records.events import Cause, gpus_held, instant
from scheduler.records.ladder import RECLAIMED
from scheduler.records.log import Entry, Kind, Log
from scheduler.scaling import Decision, Facts, Scaled, ScalingPolicy, asks, decided, first, unknown
from scheduler.settings import IdlePart, Settings
from scheduler.setup import WHOLE_GPUS
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339

log_to = logging.getLogger(__name__)

MOST_LISTED = 1000
RETRIED = "Retried"
"""Reason of a failed attempt that is retried."""
RESCALED = "Rescaled"
"""Reason of a change of a job's fewest and most replicas."""
SCALED = "ScaledByPolicy"
"""The same, by the job's own policy."""
AS_IT_IS = ScalingPolicy()
"""A job keeps its scaling policy."""
BY_LEASE = "lease"
"""Actor of node states that the executor reported."""
OUTAGES = ("failed", "maintenance")
DEMAND_SECONDS = 60.0
"""Unchanged demand of a service is logged at most this often."""


class RefusedError(LedgerError):
    """A request that is refused.   status: of HTTP."""

    def __init__(self, where: str, what: str, next_step: str = "", status: int = 422) -> None:
        super().__init__(where, what, next_step)
        self.status = status


class Service:
    """One scheduler over one log. Methods may be called from any thread; they run one at a time.

    clock: seconds since the epoch; if it goes back, the last time is used until it catches up.
    deliver: takes rows for the books (see outbox); None: they are discarded.
    look_again: seconds after which a cycle runs even if nothing happened.
    """

    def __init__(
        self,
        log: Log,
        settings: Settings,
        cluster: str,
        executor: Executor,
        clock: Callable[[], float],
        deliver: Deliver | None = None,
        look_again: float = 60.0,
    ) -> None:
        self.log, self.executor, self.cluster, self.look_again = log, executor, cluster, look_again
        self._clock = clock
        self._lock = threading.RLock()
        self.outbox = Outbox(log, deliver)
        self.callbacks = Callbacks(log, cluster, clock)
        self.waiting: Mapping[str, tuple[Reason, ...]] = {}
        self.gated_without_job: Sequence[str] = ()
        """Reasons of pods that wait at the operator's gate and are no job."""
        self.elastic_without_job: Sequence[str] = ()
        """Reasons of ElasticJobs that wait and are no job."""
        self._planned_at = float("-inf")
        self._due = True
        self.cycles = 0
        configurations = log.of_kind("configured")
        wanted = settings.model_dump(mode="json")
        if not configurations or configurations[-1].body["settings"] != wanted:
            at = max(clock(), log.entry(log.last).at if log.last else 0.0)
            trial = Entry("configured", at, body={"settings": wanted})
            settings.check(records.check_nodes([*configurations, trial]))  # the log cannot be undone
            configurations += log.append([trial])
        self.callbacks.configure(settings, configurations)
        self.restored = records.restore(self._counted(), configurations, cluster, self._emit, log.last_freed())
        self.book = self.restored.book
        self._node_states = {node.name: node.state for node in self.restored.setup.nodes}
        self._left: dict[str, NodeState] = {}
        self._idle = IdleJobs()
        self._scaled_jobs = ScaledJobs()
        self.watches_idleness = False
        for entry in log.of_kind("node"):
            self._note_node(entry)
        for live in list(self.book.jobs.values()):
            if live.status == "running" or (live.status == "starting" and not live.follows):
                self._start(live)  # it may have been launched before the restart
            elif live.status == "stopping":
                executor.stop(self._launch_of(live))

    # Requests

    def submit(self, document: Mapping[str, Any], actor: str) -> dict[str, Any]:
        """Submits a job: a scheduler.model.Job without `submitted_at`, with a `payload` for the executor. Submitting
        the same job again changes nothing.

        Errors: RefusedError if it is invalid, or another job has that id.
        """
        try:
            json.dumps(document, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise RefusedError("job", f"cannot be stored ({str(error)[:100]})") from None
        with self._lock:
            now = self._now()
            fields = {key: value for key, value in document.items() if key != "payload"}
            if "job_id" not in fields:
                numbers = itertools.count(self.log.last + 1)
                fields["job_id"] = next(name for n in numbers if not self._is_known(name := f"job-{n}"))
            try:
                job = read(Job, {**fields, "submitted_at": now}, "job")
            except LedgerError as error:
                raise RefusedError(error.where, error.what, error.next_step) from error
            for what, problem in (
                ("job_id", unfit_job_id(job.job_id)),
                ("tenant", unfit_name(job.tenant)),
                ("project", unfit_name(job.project)),
            ):
                if problem:
                    raise RefusedError(what, problem, "Choose another")
            if number := uncountable(job):
                raise RefusedError(f"job.{number}", "is more than can be counted", "Ask for less")
            known = next((e for e in self.log.of_job(job.job_id) if e.kind in ("submit", "reject")), None)
            if known is not None:
                return self._known(known, job)
            strange = next((other for other in job.after if not self.log.of_job(other)), None)
            if strange is not None:
                raise RefusedError("job.after", f"{strange[:60]!r} was never submitted", "Submit it first")
            payload = document.get("payload") or {}
            cause = misfit(job, payload, self.restored.core.queues) or self._unstartable(job, payload)
            if cause is not None:
                self._happen("reject", job.job_id, {"job": plain(job), "cause": records.cause_body(cause)})
                raise RefusedError(f"job {job.job_id}", cause.text)
            self._happen("submit", job.job_id, {"job": plain(job), "actor": actor, "payload": payload})
            return self.show(job.job_id)

    def cancel(self, job_id: str, actor: str) -> dict[str, Any]:
        """Cancels a job. A running one is stopped, and its quota is free at once; a preempted one that is still
        stopping does not run again.

        Errors: RefusedError if the job is ending already, or has ended.
        """
        with self._lock:
            self.hear()
            live = self._live(job_id)
            cause = records.cause_body(Cause("Cancelled", "", actor))
            if live.status in ("pending", "held", "suspended"):
                self._happen("end", job_id, {"ending": "cancelled", "cause": cause})
                return {"job_id": job_id, "status": "cancelled"}
            if live.stop is not None:
                if live.stop[0] not in COMES_BACK:
                    raise RefusedError(f"job {job_id}", f"is stopping already ({live.stop[0]})", status=409)
                self._happen("cancel", job_id, {"ending": "cancelled", "cause": cause})
                return self.show(job_id)
            self._stop(job_id, live, "cancelled", Cause("Cancelled", "", actor))
            return self.show(job_id)

    def hold(self, job_id: str, actor: str) -> dict[str, Any]:
        """Holds a pending job until it is released."""
        with self._lock:
            self.hear()
            self._expect(job_id, "pending")
            self._happen("hold", job_id, {"actor": actor})
            return self.show(job_id)

    def release(self, job_id: str, actor: str) -> dict[str, Any]:
        with self._lock:
            self._expect(job_id, "held")
            self._happen("release", job_id, {"actor": actor})
            return self.show(job_id)

    def suspend(self, job_id: str, actor: str) -> dict[str, Any]:
        """Suspends a pending or running job until it is resumed; a running one is stopped, and its devices are free
        when it has ended. It keeps its place in the queue.

        Errors: RefusedError if it is a service's replica, or is held, suspended or ending already; one that is still
        being stopped and was resumed meanwhile is not.
        """
        with self._lock:
            self.hear()
            live = self._live(job_id)
            if live.job.service:
                raise RefusedError(
                    f"job {job_id}", f"is a replica of {live.job.service}", "Scale the service in the settings", 409
                )
            was, ending = live.status, live.stop[0] if live.stop else ""
            comes_back = ending in ("", "preempted") or live.resumed is not None
            is_over = was in ("held", "suspended") or not comes_back
            # One that was reclaimed is suspended on somebody's behalf from now on.
            if is_over and not _is_reclaimed(live):
                raise RefusedError(f"job {job_id}", f"is {was}{f' ({ending})' if ending else ''} already", status=409)
            self._happen("suspend", job_id, {"cause": records.cause_body(Cause("Suspended", "", actor))})
            if was in ("starting", "running"):
                self.executor.stop(self._launch_of(live))
            return self.show(job_id)

    def resume(self, job_id: str, actor: str) -> dict[str, Any]:
        """Lets a suspended job wait again, in order of submission; one that is still stopping, once it has stopped.

        Errors: RefusedError if it is not suspended, or was resumed already.
        """
        with self._lock:
            self.hear()
            live = self._live(job_id)
            if live.resumed is not None:
                what = f"was resumed by {live.resumed.actor or 'somebody'} already, and waits again once it has stopped"
                raise RefusedError(f"job {job_id}", what, status=409)
            stops = live.stop is not None and live.stop[0] == "suspended"
            if live.status != "suspended" and not stops:
                raise RefusedError(f"job {job_id}", f"is {live.status}, not suspended", status=409)
            self._happen("resume", job_id, {"cause": records.cause_body(Cause("Resumed", "", actor))})
            return self.show(job_id)

    def rescale(
        self, job_id: str, least: int, most: int, actor: str, scaling: ScalingPolicy | None = AS_IT_IS
    ) -> dict[str, Any]:
        """Changes how many replicas a job has at least and at most, and by which policy of its own; the same again
        changes nothing. One that runs with more gives up the last ones at once. One that runs with fewer goes on, and
        grows as there is room; once it has stopped, it starts with no fewer.

        Errors: RefusedError if that is no range, or the job could not run so, is a service's replica or is ending.
        """
        with self._lock:
            self.hear()
            live, where, asked = self._live(job_id), f"job {job_id}", (least, most)
            policy = live.job.scaling if scaling is AS_IT_IS else scaling
            if asked == live.asked and policy == live.job.scaling:
                return self.show(job_id)
            if live.job.service:
                raise RefusedError(where, f"is a replica of {live.job.service}", "Scale the service", 409)
            if live.stop is not None and live.stop[0] not in COMES_BACK:
                raise RefusedError(where, f"is stopping already ({live.stop[0]})", status=409)
            wanted = replace(live.job, min_replicas=least, max_replicas=most, scaling=policy)
            cause = misrange(least, most) or mispolicy(policy) or self._unstartable(wanted, live.payload)
            if cause is not None:
                raise RefusedError(where, cause.text)
            text = f"at least {least} and at most {most} replicas are wanted"
            if policy is None:
                self._rescale(live, least, most, Cause(RESCALED, text, actor), policy)
                return self.show(job_id)
            before = self._scaled_so_far(live, policy, asked)
            decision = decided(policy, before, self._facts(live, policy, self._waiters()), self._now())
            text += f"; {decision.scaled.text}"
            self._rescale(live, decision.least, decision.most, Cause(RESCALED, text, actor), policy, decision.scaled)
            return self.show(job_id)

    def _rescale(
        self,
        live: Live,
        least: int,
        most: int,
        cause: Cause,
        policy: ScalingPolicy | None,
        scaled: Scaled | None = None,
    ) -> None:
        """Bounds that a job has from now on. One that runs with more gives up the last ones."""
        is_there = live.status in ("starting", "running")
        body: dict[str, Any] = {"min_replicas": least, "max_replicas": most, "cause": records.cause_body(cause)}
        body["replicas"] = max(0, len(live.grants) - most) if is_there else 0
        body |= {} if scaled is None else {"scaled": plain(scaled)}
        body |= {} if policy == live.job.scaling else {"scaling": None if policy is None else plain(policy)}
        self._happen("rescale", live.job.job_id, body, at=self._next_size_at(live) if is_there else None)
        if body["replicas"]:
            self._start(live)

    def _scaled_so_far(self, live: Live, policy: ScalingPolicy, asked: tuple[int, int]) -> Scaled:
        """What a policy begins with: what it has made of the job so far, or else the size that a running one has."""
        if live.scaled is not None and policy.measures == (live.job.scaling is not None and live.job.scaling.measures):
            return asks(live.scaled, policy, asked)
        begun = first(policy, asked)
        held = len(live.grants) if policy.measures and live.status in ("starting", "running") else 0
        return replace(begun, size=min(max(begun.size, held), asked[1]))

    def scaling(self, job_id: str) -> dict[str, Any] | None:
        """What its policy has made of a job, and what it does not know; None: it has none, or was not looked at yet."""
        with self._lock:
            live = self._live(job_id)
            policy, scaled = live.job.scaling, live.scaled
            if policy is None or scaled is None:
                return None
            return {
                "asked": list(scaled.asked),
                "min_replicas": live.job.min_replicas,
                "max_replicas": live.job.max_replicas,
                "reason": scaled.reason,
                "text": scaled.text,
                "changed_at": None if scaled.at is None else instant(scaled.at),
                "problem": unknown(policy, self._facts(live, policy, None)),
            }

    def hear_use(self, seconds: float, found: Measured) -> None:
        """Takes the server's answer of how used allocations were over so many seconds."""
        with self._lock:
            self._scaled_jobs.hear(seconds, found)

    def use_windows(self) -> Sequence[float]:
        """Seconds of the windows over which jobs' policies ask for utilization."""
        with self._lock:
            return windows_asked(self.book.jobs.values())

    def _facts(self, live: Live, policy: ScalingPolicy, waiters: Waiters | None) -> Facts:
        """waiters: None: they do not matter."""
        nodes = self.restored.setup.nodes
        holders = self._holders(live) if policy.utilization is not None and live.status == "running" else None
        return self._scaled_jobs.facts(live, policy, waiters, nodes, holders, self.watches_idleness, self._now())

    def _waiters(self) -> Waiters:
        return Waiters(self.book.jobs.values(), self.restored.core, self.restored.codes)

    def _follow_policies(self) -> None:
        """Gives jobs the bounds that their own policies say now."""
        having = [live for live in self.book.jobs.values() if live.job.scaling is not None]
        having = [live for live in having if live.status in ("pending", "running")]
        waiters = self._waiters() if having else None
        for live in having:
            policy = live.job.scaling
            assert policy is not None
            before = live.scaled or first(policy, live.asked)
            now = self._now()
            decision: Decision = decided(policy, before, self._facts(live, policy, waiters), now)
            bounds = (live.job.min_replicas, live.job.max_replicas)
            if live.scaled is not None and (decision.least, decision.most) == bounds:
                continue
            cause = Cause(SCALED, decision.scaled.text, BY_POLICY)
            self._rescale(live, decision.least, decision.most, cause, policy, decision.scaled)

    def ask_rescale(self, job_id: str, least: int | None, most: int | None, actor: str) -> dict[str, Any]:
        """`rescale` by request; None: as it is.

        Errors: RefusedError as there, if nothing is asked, or if something else says the job's size.
        """
        with self._lock:
            live = self._live(job_id)
            elsewhere = self.executor.says_size(live.payload) if isinstance(self.executor, SaysSize) else ""
            if elsewhere:
                raise RefusedError(f"job {job_id}", elsewhere, status=409)
            if least is None and most is None:
                raise RefusedError("min_replicas, max_replicas", "are both absent", "Give one of them, or both")
            asked = live.asked
            bounds = (asked[0] if least is None else least, asked[1] if most is None else most)
            return self.rescale(job_id, *bounds, actor)

    def hear_idle(self, feed: Feed) -> None:
        """Takes the answer of the server that measures which allocations are idle, or why there is none."""
        with self._lock:
            self.watches_idleness = True
            self._idle.hear(feed, self._now())

    def idle_problem(self) -> str:
        """Why it is not known which jobs are idle; '' if it is."""
        with self._lock:
            return self._idle.problem(self._now())

    def idle(self) -> dict[str, Any]:
        """Running jobs that are idle, or that something was done to because they were; and those that are suspended
        for it.

        Errors: RefusedError if nobody measures that.
        """
        with self._lock:
            self._expect_feed()
            now, heard = self._now(), self._idle.heard_at
            jobs = [self._idle_job(live, now) for live in self.book.jobs.values()]
            return {
                "cluster": self.cluster,
                "problem": self._idle.problem(now),
                "heard_at": None if heard is None else instant(heard),
                "jobs": [one for one in jobs if one is not None],
            }

    def _idle_job(self, live: Live, now: float) -> dict[str, Any] | None:
        if live.status == "running":
            found = self._idle.shown(live, self._idle_policy(live), self._holders(live), now)
        else:
            found = self._idle.suspended(live) if _is_reclaimed(live) else None
        return None if found is None else {**found, "gpus": gpus_held(self.restored.setup.nodes, live.grants)}

    def reclaim(self, job_id: str, actor: str) -> dict[str, Any]:
        """An operator's yes to what the policy for an idle job says, at once.

        Errors: RefusedError if no idle policy applies to it, it is not known to be idle, it is kept, or nothing would
        be done.
        """
        with self._lock:
            step = self._reclaimable(job_id, actor)
            self._reclaim(self.book.jobs[job_id], step)
            return self.show(job_id)

    def propose(self, job_id: str, actor: str) -> dict[str, Any]:
        """Proposes what `reclaim` would do, so that an operator says yes to it, or keeps the job. It stops nothing: a
        policy without approval still does at its time what it does.

        Errors: RefusedError as for `reclaim`, or if it was proposed already.
        """
        with self._lock:
            step, idle = self._reclaimable(job_id, actor), self.book.jobs[job_id].idle
            if idle is not None and idle.step == "proposed":
                what = f"was proposed by {idle.by or 'its policy'} already"
                raise RefusedError(f"job {job_id}", what, "`reclaim` does it", 409)
            self._happen("idle", job_id, step.proposal, changes=False)
            return self.show(job_id)

    def _reclaimable(self, job_id: str, actor: str) -> Reclaim:
        """What somebody may do, or propose, about a job that is idle."""
        self._expect_feed()
        self.hear()
        self._expect(job_id, "running")
        live, where = self.book.jobs[job_id], f"job {job_id}"
        if live.idle is not None and live.idle.is_kept:
            what = f"is kept by {live.idle.by or 'somebody'}, as long as this attempt runs"
            raise RefusedError(where, what, status=409)
        policy, holders = self._idle_policy(live), self._holders(live)
        if policy is None:
            raise RefusedError(where, "no idle policy applies to it", "Add one under idle: in the settings", 409)
        found = self._idle.evidence(holders, self._now())
        if not isinstance(found, Idle):
            what = f"whether it is idle is unknown: {found.problem}" if isinstance(found, Unknown) else "is not idle"
            raise RefusedError(where, what, "`gpuledger scheduler idle` lists those that are", 409)
        problem = obstacle(policy, live, holders)
        if problem:
            raise RefusedError(where, problem, status=409)
        return Reclaim(policy, found, actor)

    def keep(self, job_id: str, actor: str) -> dict[str, Any]:
        """Exempts the running attempt of a job from what is done to idle ones. One that was made smaller may grow
        again.

        Errors: RefusedError if it does not run, or is kept already.
        """
        with self._lock:
            self.hear()
            self._expect(job_id, "running")
            live = self.book.jobs[job_id]
            if live.job.service:
                raise RefusedError(f"job {job_id}", f"is a replica of {live.job.service}", "Nothing touches it", 409)
            if live.idle is not None and live.idle.is_kept:
                raise RefusedError(f"job {job_id}", f"is kept by {live.idle.by or 'somebody'} already", status=409)
            text = "not touched for being idle, as long as this attempt runs"
            self._happen("idle", job_id, {"step": "kept", "text": text, "actor": actor})
            return self.show(job_id)

    def _expect_feed(self) -> None:
        if not self.watches_idleness:
            raise RefusedError("idle", "this scheduler does not know who is idle", "Start it with --idle-from URL", 409)

    def renew(self, job_id: str, actor: str) -> dict[str, Any]:
        """Renews the lease of a running job.

        Errors: RefusedError if it does not run, or has none.
        """
        with self._lock:
            self._expect(job_id, "running")
            if self.book.jobs[job_id].job.lease_seconds is None:
                raise RefusedError(f"job {job_id}", "has no lease", "Submit it with lease_seconds", 409)
            self._happen("renew", job_id, {"actor": actor}, changes=False)
            return self.show(job_id)

    def finish(self, job_id: str, succeeded: bool, actor: str) -> dict[str, Any]:
        """Ends a running job, as reported by whoever runs it.   Errors: RefusedError if the executor runs it."""
        with self._lock:
            self._expect(job_id, "running")
            if not isinstance(self.executor, Recorder):
                raise RefusedError(
                    f"job {job_id}", "is run by this scheduler, which notices its end itself", "`cancel` ends it", 409
                )
            ending: Ending = "finished" if succeeded else "failed"
            self._happen("end", job_id, {"ending": ending, "cause": records.cause_body(Cause("", "", actor))})
            return {"job_id": job_id, "status": ending}

    def demand(
        self, service: str, waiting: int | None, working: int | None, utilization: float | None = None
    ) -> dict[str, Any]:
        """Reports a service's waiting requests, requests in work (None: unchanged) and utilization; its replicas
        follow. Called often, so only changes are logged, and reports that keep the service from being idle or unknown.

        Errors: RefusedError if there is no such service, or less than nothing.
        """
        with self._lock:
            state = self.restored.services.states.get(service)
            if state is None or state.is_removed:
                raise RefusedError(f"service {service}", "is not in the settings", "Add it under services:", 404)
            if waiting is None and working is None and state.service.use is None:
                where = f"service {service}"
                raise RefusedError(where, "has no target for utilization", "Set one, or say how many requests wait")
            waiting = state.waiting if waiting is None else waiting
            working = state.working if working is None else working
            if min(waiting, working) < 0 or max(waiting, working) > MOST_ASKED:
                raise RefusedError(f"service {service}", "has less than no requests, or more than can be counted")
            if utilization is not None and not 0 <= utilization <= 1:
                raise RefusedError(f"service {service}", f"has a utilization of {utilization}", "Expected 0 to 1")
            now, use = self._now(), state.service.use
            fades = now - state.busy_at >= min(state.service.idle_seconds / 4, DEMAND_SECONDS)
            changed = (waiting, working) != (state.waiting, state.working) or ((waiting or working) and fades)
            if utilization is not None and use is not None:
                trial = copy.deepcopy(state)
                trial.observe(waiting, working, now, utilization)
                old = now - state.used_at >= min(use.fresh_seconds, state.service.idle_seconds) / 4
                changed = changed or old or trial.desired(now) != state.desired(now)
            if changed:
                body: dict[str, Any] = {"service": service, "waiting": waiting, "working": working}
                body |= {} if utilization is None else {"utilization": utilization}
                self._happen("demand", body=body, changes=False)
            return self.service(service)

    def service(self, name: str) -> dict[str, Any]:
        """The current state of a service.   cold_unit_seconds: device units x seconds in which its replicas were
        cold."""
        with self._lock:
            state = self.restored.services.states[name]
            return {
                "service": name,
                "waiting": state.waiting,
                "working": state.working,
                "utilization": state.utilization,
                "desired": state.desired(self._now()),
                "why": state.why(self._now()),
                **{str(name): count for name, count in state.by_state().items()},
                "cold_starts": state.cold_starts,
                "cold_unit_seconds": state.cold_unit_seconds,
            }

    def services(self) -> list[dict[str, Any]]:
        with self._lock:
            return [self.service(name) for name in self.restored.services.states]

    def pools(self) -> list[dict[str, Any]]:
        """Capacity by pool and model, in device units (see scheduler.pools)."""
        with self._lock:
            return [asdict(line) for line in self._pool_lines()]

    def pool_lines(self) -> list[PoolLine]:
        with self._lock:
            return self._pool_lines()

    def _pool_lines(self) -> list[PoolLine]:
        left = frozenset(host for pool in self.restored.settings.pools for host in pool.left)
        return pool_lines(self.restored.core, self._now(), left)

    def ready(self, job_id: str) -> dict[str, Any]:
        """Reports that a service's replica is ready."""
        with self._lock:
            self._expect(job_id, "running")
            state = self.restored.services.states.get(self.book.jobs[job_id].job.service)
            if state is None:
                raise RefusedError(f"job {job_id}", "is not a replica of a service", status=409)
            if state.replicas[job_id].ready_at is None:
                self._happen("ready", job_id, changes=False)
            return self.show(job_id) | {"cold_seconds": state.replicas[job_id].cold_seconds(self._now())}

    def set_node(self, name: str, state: NodeState) -> None:
        with self._lock:
            index = {node.name: number for number, node in enumerate(self.restored.setup.nodes)}
            if name not in index:
                raise RefusedError(f"node {name}", "is not there", "", 404)
            self._set_node(index[name], state)

    def hear_agent(self, node: str, document: Any) -> dict[str, Any]:
        """Takes the report of a node's agent, and returns what the node should run (see collectors.jobs.wire).

        While the log cannot be written, that is what it should run before.

        Errors: RefusedError if the report is invalid, the node is unknown, or another agent reports for it.
        """
        with self._lock:
            if not isinstance(self.executor, Agents):
                raise RefusedError(
                    "agents", "this scheduler starts nothing on nodes", "Start it with --executor agents", 409
                )
            if node not in self._node_states:
                raise RefusedError(f"node {node}", "is not there", "Name it under hosts of a pool", 404)
            try:
                report = read_report(document)
            except CollectorError as error:
                raise RefusedError(error.where, error.what) from error
            try:
                self.executor.take(node, report.by_clock(self._now()))
            except AgentError as error:
                raise RefusedError(error.where, error.what, error.next_step, 409) from error
            try:
                for over in self.executor.poll(node):
                    self._over(over)
                number = next(n for n, one in enumerate(self.restored.setup.nodes) if one.name == node)
                self._watch_node(number, self.executor)
                self._launch(self.executor.jobs_on(node))
            except LedgerError as error:  # has no effect yet; without an answer, the node would stop everything
                log_to.error("node %s: %s", node, error)
            return self.executor.answer(node).model_dump(mode="json")

    def configure(self, settings: Settings) -> None:
        """Applies settings; unchanged ones do nothing.   Errors: SettingsError if nodes are missing or changed,
        LedgerError if the log cannot be written; the settings are then as before."""
        with self._lock:
            wanted = settings.model_dump(mode="json")
            configurations = self.log.of_kind("configured")
            if configurations[-1].body["settings"] == wanted:
                return
            configurations.append(Entry("configured", self._now(), body={"settings": wanted}))
            nodes = records.check_nodes(configurations[-1:], self.restored.setup.nodes)
            settings.check(nodes)
            if len(nodes) > len(self.restored.setup.nodes):
                self._add_nodes(configurations)
            self._happen("configured", body={"settings": wanted})
            self.callbacks.configure(settings, self.log.of_kind("configured"))

    def _add_nodes(self, configurations: Sequence[Entry]) -> None:
        """Restores the same state with the nodes that the last configuration added; applying its entry opens them."""
        known = self.log.last

        def emit(record: str, rows: Sequence[Row]) -> None:
            if self.outbox.number > known:
                self._emit(record, rows)

        freed = self.log.last_freed()
        self.restored = records.restore(self._counted(), configurations, self.cluster, emit, freed)
        self.book = self.restored.book
        for node in self.restored.setup.nodes:
            self._node_states.setdefault(node.name, node.state)

    # Queries

    def show(self, job_id: str) -> dict[str, Any]:
        with self._lock:
            live = self._live(job_id)
            job, nodes = live.job, self.restored.setup.nodes
            return {
                "job_id": job_id,
                "status": live.status,
                "tenant": job.tenant,
                "queue": job.queue,
                "priority": job.priority,
                "submitted_at": instant(job.submitted_at),
                "since": instant(live.since),
                "attempt": live.attempt,
                "nodes": sorted({nodes[grant.node].name for grant in live.grants}),
                "ranks": [rank.plain() for rank in ranks_of(nodes, live.grants)],
                "payload": dict(live.payload),
                "entitlement": live.entitlement if live.grants else None,
                "ends_at": instant(live.ends[0]) if live.status == "running" and live.ends else None,
                "reason": found[0].code if (found := self._why(job_id, live)) else None,
            }

    def list(self, status: str = "", queue: str = "", limit: int = MOST_LISTED) -> list[dict[str, Any]]:
        """Jobs that have not ended, in order of submission."""
        with self._lock:
            found = [
                job_id
                for job_id, live in self.book.jobs.items()
                if status in ("", live.status) and queue in ("", live.job.queue)
            ]
            return [self.show(job_id) for job_id in found[:limit]]

    def room(self, job_id: str, most_moves: int = 4) -> dict[str, Any]:
        """Proposes moves of running replicas that make room for a pending job; moves nothing. Considers preemptible
        replicas only; all that move stop before any starts again.

        most_moves: for each replica of the job.   `moves` is None if none were found, though some may exist.
        """
        with self._lock:
            self._expect(job_id, "pending")
            core, nodes = self.restored.core, self.restored.setup.nodes
            job = core.pending[job_id][0] if job_id in core.pending else self.book.jobs[job_id].job
            holdings = Holdings(core.cluster)
            for name, live in self.book.jobs.items():
                if live.status == "running" and live.job.preemptible:
                    for number, grant in enumerate(live.grants):
                        holdings.add(Holding(name, number, core.running[name].job.request, grant))
            found = make_room(core.cluster, holdings, job.request, core.placement, job.min_replicas, most_moves)
            if found is None:
                return {"job_id": job_id, "moves": None, "nodes": []}
            moves = [
                {
                    "job_id": move.holding.job_id,
                    "replica": move.holding.replica,
                    "from": nodes[move.holding.grant.node].name,
                    "to": nodes[move.to.node].name,
                }
                for move in found.moves
            ]
            return {"job_id": job_id, "moves": moves, "nodes": [nodes[grant.node].name for grant in found.grants]}

    def explain(self, job_id: str) -> dict[str, Any]:
        """Everything about a job, also an ended one: why it waits, when it may start, all decisions."""
        with self._lock:
            history = self.log.of_job(job_id)
            if not history:
                raise RefusedError(f"job {job_id}", "was never submitted", "", 404)
            live = self.book.jobs.get(job_id)
            document: dict[str, Any] = self.show(job_id) if live else {"job_id": job_id, "status": ended(history)}
            reasons = self._why(job_id, live) if live is not None else ()
            if reasons:
                document["reasons"] = [plain(reason) for reason in reasons]
            if live is not None and live.status == "pending":
                expected = self.restored.core.expectations.announced(job_id)
                document["expected_start"] = None if expected is None else instant(expected)
                document["expected_interval"] = self._interval(job_id)
                document["expected_start_error_seconds"] = self._past_errors()
            idle = self._idle_job(live, self._now()) if live is not None and live.status == "running" else None
            if idle is not None:
                document["idle"] = {key: value for key, value in idle.items() if key not in document}
            scaling = self.scaling(job_id) if live is not None else None
            if scaling is not None:
                document["scaling"] = scaling
            document["history"] = lines(history, job_id, self.restored.setup.nodes)
            return document

    def why(self, job_id: str) -> tuple[Reason, ...]:
        """Why a job does not run; empty if it runs or is about to."""
        with self._lock:
            return self._why(job_id, self._live(job_id))

    def positions(self) -> dict[str, int]:
        """Which each pending job is in its queue (scheduler.cycle.order)."""
        with self._lock:
            return positions(self.restored.core, self._now())

    def short(self, job_id: str) -> Reason | None:
        """Why a job that runs does so with fewer replicas than it is to have; None if it has them or does not run."""
        with self._lock:
            live = self._live(job_id)
            return why_short(self.restored.core, job_id) if live.status in ("starting", "running") else None

    def expected(self, job_id: str) -> tuple[datetime, datetime] | None:
        """The interval of a pending job's expected start, with the confidence of `explain`; None if unknown."""
        with self._lock:
            found = self._interval(job_id) if self._live(job_id).status == "pending" else None
            return None if found is None else (found["from"], found["to"])

    def measured(self, what: Callable[[Service], Any]) -> Any:
        """Calls `what` with the service locked, so that it reads a consistent state."""
        with self._lock:
            self.book.meter.advance(self._now())
            return what(self)

    def series(self) -> Sequence[Series]:
        """The current metrics. Fragmentation is measured for the demand of pending and running jobs."""
        with self._lock:
            requests = [live.job.request for live in self.book.jobs.values()]
            demand = typical_demand(requests) if requests else WHOLE_GPUS
            shapes = [task.request for task in demand.tasks if task.request.devices]
            running = [live for live in self.book.jobs.values() if live.status == "running"]
            idle = [(live.job.queue, live.idle.step) for live in running if live.idle is not None]
            return [
                *series(self.book.meter, Fragmentation(self.restored.core.cluster, demand), shapes),
                *pools_series(self._pool_lines()),
                *services_series(self.restored.services),
                *idle_series(idle),
                *gated_series(self.gated_without_job),
                *elastic_series(self.elastic_without_job),
            ]

    # The loop

    def step(self) -> bool:
        """Runs one round: ended jobs, time limits, a cycle if something changed, launches, events. Returns whether it
        did anything."""
        with self._lock:
            before = self.log.last
            self.hear()
            if isinstance(self.executor, SeesNodes):
                for number in range(len(self.restored.setup.nodes)):
                    self._watch_node(number, self.executor)
            self._enforce_limits()
            self._watch_idleness()
            self._follow_policies()
            self._give_back_unused()
            self._scale()
            now = self._now()
            if self._due or now - self._planned_at >= self.look_again or self._edge_passed(now):
                self._cycle(now)
            self._launch()
            did = self.log.last != before
        self.outbox.hand_over()
        return did

    def hear(self) -> bool:
        """Takes note of the jobs and ranks that have ended. Returns whether any has.

        A round begins with it, and so does a request that changes or stops a running job: in the books a job does not
        end before it was resized, and what has finished is not suspended, to run once more when it is resumed.
        """
        with self._lock:
            before = self.log.last
            for over in self.executor.poll():
                self._over(over)
            if isinstance(self.executor, VacatesRanks):
                for vacated in self.executor.vacated():
                    self._vacate(vacated)
            if isinstance(self.executor, SeesRanksFinish):
                for completing in self.executor.completing():
                    self._complete(completing)
            if isinstance(self.executor, HearsOfRanks):
                self._note_unheard(self.executor.unheard())
            return self.log.last != before

    def _cycle(self, now: float) -> None:
        now = max(now, round(self.restored.planned_at + 0.001, 3))  # see Book.decide
        self._due, self._planned_at = False, now
        undo = self.restored.core.undo()
        plan, body = plan_cycle(self.restored.core, now)
        self.cycles += 1
        if body:
            kind: Kind = "plan" if len(decisive(body)) > 1 or plan.actions else "cycle"
            jobs = tuple(dict.fromkeys(_concerned(plan.actions)))
            try:
                decided = self._happen(kind, body=body, at=now, jobs=jobs, changes=bool(plan.actions)).sequence
            except LedgerError:
                undo()
                self._due = True
                raise
            for action in plan.actions:
                live = self.book.jobs[action.job_id]
                if isinstance(action, Preempt) and live.status == "stopping":
                    self.executor.stop(self._launch_of(live))
            for job_id in jobs:
                live = self.book.jobs[job_id]
                if live.status == "running" and live.world == decided:
                    self._start(live)
        self.waiting = plan.waiting
        self.book.meter.explained(plan.waiting)
        self._note_reasons(now)

    def _note_reasons(self, now: float) -> None:
        """Logs the reasons of pending jobs whose codes have changed."""
        codes = {job_id: tuple(reason.code for reason in reasons) for job_id, reasons in self.waiting.items()}
        changed = [job_id for job_id, found in codes.items() if self.restored.codes.get(job_id) != found]
        if changed:
            body = {job_id: self._noted(job_id) for job_id in changed}
            self._happen("reasons", body=body, at=now, jobs=tuple(changed), changes=False)

    def _noted(self, job_id: str) -> Sequence[dict[str, Any]]:
        """A job's reasons for the log; the expected start with the interval that `explain` shows."""
        found: Sequence[dict[str, Any]] = [plain(reason) for reason in self.waiting[job_id]]
        interval = self._interval(job_id)
        for one in found:
            if interval is not None and one["code"] == EXPECTED:
                one["interval"] = [interval["from"].isoformat(), interval["to"].isoformat()]
        return found

    def _launch(self, among: Sequence[str] | None = None) -> None:
        """Launches decided starts, of these jobs or of all, once the previous jobs have left their devices."""
        jobs = self.book.jobs
        starting = [one for one in (jobs if among is None else among) if one in jobs and jobs[one].status == "starting"]
        for job_id in starting:
            live = self.book.jobs[job_id]
            if live.follows:
                continue
            began = self._start(live)
            if began is not None and live.status == "starting":
                body = {} if began == JUST_NOW else {"began_at": live.may_have_begun(began, self._now())}
                self._happen("launched", job_id, body, changes=False)

    def _launch_of(self, live: Live) -> Launch:
        return Launch(
            live.job, live.attempt, live.world, ranks_of(self.restored.setup.nodes, live.grants), live.payload
        )

    def _start(self, live: Live) -> float | None:
        """Brings a job to its world; fails it if it cannot be started. Returns since when it has run; None: not yet."""
        try:
            return self.executor.start(self._launch_of(live))
        except LedgerError as error:
            cause = records.cause_body(Cause("StartFailed", str(error), "executor"))
            self._happen("end", live.job.job_id, {"ending": "failed", "cause": cause})
            return None

    def _watch_node(self, number: int, executor: SeesNodes) -> None:
        """Follows the executor's view of a node: failed or in maintenance, until it is available again."""
        name = self.restored.setup.nodes[number].name
        outage, state, left = executor.outage(name), self._node_states[name], self._left.get(name)
        if outage == "available":
            if left is not None:
                self._set_node(number, left, BY_LEASE)
        elif outage is not None and outage != state and (left is not None or state in ("available", "reserved")):
            self._set_node(number, outage, BY_LEASE, was=left or state)

    def _set_node(self, number: int, state: NodeState, by: str = "", was: NodeState = "available") -> None:
        """was: the state to return to when its agent is back."""
        body: dict[str, Any] = {"node": number, "state": state}
        if by:
            body |= {"by": by, "was": was}
        self._note_node(self._happen("node", body=body))

    def _note_node(self, entry: Entry) -> None:
        body = entry.body
        name = self.restored.setup.nodes[body["node"]].name
        self._node_states[name] = body["state"]
        self._left.pop(name, None)
        if body.get("by") == BY_LEASE and body["state"] in OUTAGES:
            self._left[name] = body["was"]

    def _over(self, over: Over) -> None:
        live = self.book.jobs.get(over.job_id)
        if live is not None and live.attempt == over.attempt:
            reported: dict[str, Any] = {"output": over.output} if over.output else {}
            if live.status == "starting" and over.began_at is not None:
                began = live.may_have_begun(over.began_at, self._now())
                self._happen("launched", over.job_id, {} if over.began_at == JUST_NOW else {"began_at": began})
            if over.ended_at is not None:
                reported |= {"ended_at": live.may_have_ended(over.ended_at, self._now())}
            again = "NodeLost" if over.result == "lost" else RETRIED if self._may_retry(over, live) else ""
            if again and live.status in ("starting", "running"):
                body = {"ending": "preempted", "cause": records.cause_body(Cause(again, over.text, "scheduler"))}
                self._happen("stop", over.job_id, body)
            if live.status == "stopping":
                if live.started_at is None and over.began_at is not None and over.began_at != JUST_NOW:
                    reported |= {"began_at": live.may_have_begun(over.began_at, self._now())}
                self._happen("freed", over.job_id, reported)
            elif live.status in ("starting", "running"):
                ending: Ending = "finished" if over.result == "finished" else "failed"
                reason = "" if ending == "finished" else "StartFailed" if over.began_at is None else "ExitStatus"
                cause = records.cause_body(Cause(reason, over.text, "executor"))
                self._happen("end", over.job_id, {"ending": ending, "cause": cause, **reported})
        self.executor.confirm(over)

    def _vacate(self, vacated: Vacated) -> None:
        """Gives back what ranks held that have ended, of a job that goes on without them."""
        live = self.book.jobs.get(vacated.job_id)
        if live is None or live.attempt != vacated.attempt or live.status != "running":
            return
        body = {"ranks": list(vacated.ranks), "payload": dict(vacated.payload)}
        self._happen("vacate", vacated.job_id, body, at=self._next_size_at(live))
        self._start(live)

    def _complete(self, completing: Completing) -> None:
        """Keeps a job from growing of which ranks have finished."""
        live = self.book.jobs.get(completing.job_id)
        if live is None or live.status not in ("starting", "running") or live.is_completing:
            return
        if (live.attempt, live.world) == (completing.attempt, completing.world):
            self._happen("completing", completing.job_id, {"ranks": list(completing.ranks)})

    def _note_unheard(self, unheard: Mapping[AttemptName, Sequence[str]]) -> None:
        """Keeps jobs that could grow from it until all who run their ranks have reported."""
        core = self.restored.core
        for job_id in sorted(core.unheard):
            if (job_id, self.book.jobs[job_id].attempt) not in unheard:
                self._happen("heard", job_id)
        for (job_id, attempt), nodes in unheard.items():
            running, live = core.elastic.get(job_id), self.book.jobs.get(job_id)
            if running is None or live is None or live.attempt != attempt or job_id in core.unheard:
                continue
            if len(running.grants) < running.job.max_replicas:
                self._happen("unheard", job_id, {"nodes": list(nodes)})

    def _may_retry(self, over: Over, live: Live) -> bool:
        """Whether a job's payload asks for a retry after such an end, and it has retries left."""
        if over.result != "failed" or not live.payload.get("retries"):
            return False
        stops = [entry for entry in self.log.of_job(over.job_id) if entry.kind == "stop"]
        retried: int = sum(entry.body["cause"]["reason"] == RETRIED for entry in stops)
        return retried < int(live.payload["retries"])

    def _enforce_limits(self) -> None:
        """Stops jobs at their limits, and warns shortly before."""
        now, before = self._now(), self.restored.settings.policies.warn_before
        running = ((job_id, live) for job_id, live in self.book.jobs.items() if live.status == "running")
        ends = [(job_id, live, *live.ends) for job_id, live in running if live.ends]
        for job_id, live, at, cause in ends:
            if now >= at:
                self._stop(job_id, live, "failed" if cause is TIME_LIMIT else "cancelled", cause)
            elif now >= at - before and live.warned != at and self._heeds_warnings(live):
                self._happen("warn", job_id, {"ends_at": at, "cause": records.cause_body(cause)}, changes=False)

    def _heeds_warnings(self, live: Live) -> bool:
        return live.job.lease_seconds is not None or self.callbacks.wants("ends_soon")

    def _watch_idleness(self) -> None:
        """Takes the steps that are due about running jobs that are idle."""
        now = self._now()
        if not self._idle.looks(self.book.jobs, self.log.last, now):
            return
        for job_id, live in list(self.book.jobs.items()):
            if live.status != "running" or live.job.service:
                continue
            holders = self._holders(live)
            if live.idle is None and not self._idle.has_heard_of(holders):
                continue
            for step in self._idle.due(live, self._idle_policy(live), holders, now):
                if isinstance(step, Reclaim):
                    self._reclaim(live, step)
                else:
                    self._happen("idle", job_id, step.body, changes=step.body["step"] == "busy")

    def _reclaim(self, live: Live, step: Reclaim) -> None:
        job_id, then = live.job.job_id, step.policy.then
        cause = records.cause_body(step.cause)
        if then == "cancel":
            self._stop(job_id, live, "cancelled", step.cause)
        elif then == "suspend":
            self._happen("suspend", job_id, {"cause": cause})
            self.executor.stop(self._launch_of(live))
        else:
            body = {"replicas": len(live.grants) - live.job.min_replicas, **step.evidence, "cause": cause}
            self._happen("shrink", job_id, body, at=self._next_size_at(live))
            self._start(live)

    def _next_size_at(self, live: Live) -> float:
        """When a job may change its size outside of a plan; see Book.decide."""
        return max(self._now(), round(max(self.restored.planned_at, live.reported_at) + 0.001, 3))

    def _holders(self, live: Live) -> Holders | None:
        if isinstance(self.executor, NamesHolders):
            return self.executor.holders(live.job.job_id, live.attempt, live.world)
        return one_holder(live.job.job_id, live.attempt, live.since if live.started_at is None else live.started_at)

    def _idle_policy(self, live: Live) -> IdlePart | None:
        return policy_of(self.restored.settings.idle, live.job, self.restored.core.queues)

    def _give_back_unused(self) -> None:
        """Ends reservations that were idle too long."""
        for one in self.restored.core.unused(self._now()):
            text = f"nothing of {', '.join(sorted(one.tenants))} ran there for {one.idle_seconds:.0f} s"
            body = {"reservation": one.name, "start": one.start, "text": text}
            self._happen("given_back", body=body)
            log_to.warning("reservation %s is given up: %s", one.name, text)

    def _scale(self) -> None:
        """Submits and stops replicas of services according to demand."""
        for state in [*self.restored.services.states.values()]:
            scaling = state.scale(self._now(), self._is_known)
            for job in scaling.submit:
                body = {"job": plain(job), "actor": "autoscaler", "payload": dict(state.service.payload)}
                body["why"] = scaling.reason
                self._happen("submit", job.job_id, body)
            for job_id in scaling.stop:
                live, cause = self.book.jobs[job_id], Cause("ScaledDown", scaling.reason, "autoscaler")
                if live.status in ("starting", "running"):
                    self._stop(job_id, live, "finished", cause)
                else:
                    self._happen("end", job_id, {"ending": "cancelled", "cause": records.cause_body(cause)})

    def _stop(self, job_id: str, live: Live, ending: Ending, cause: Cause) -> None:
        self._happen("stop", job_id, {"ending": ending, "cause": records.cause_body(cause)})
        self.executor.stop(self._launch_of(live))

    def _edge_passed(self, now: float) -> bool:
        """Whether a reservation began or ended, or a promise fell due, so that a cycle is needed without an event."""
        due = self.restored.core.next_promise(self._planned_at)
        return due <= now or any(self._planned_at < edge <= now for edge in self.restored.setup.edges())

    def _happen(
        self,
        kind: Kind,
        job_id: str = "",
        body: dict[str, Any] | None = None,
        at: float | None = None,
        jobs: tuple[str, ...] = (),
        changes: bool = True,
    ) -> Entry:
        """Writes an entry to the log, then applies it.   changes: whether it could change the next plan."""
        (entry,) = self.log.append([Entry(kind, self._now() if at is None else at, job_id, body or {}, jobs)])
        self._count(entry)
        self.restored.apply(entry)
        self._due |= changes
        return entry

    # Internal

    def _now(self) -> float:
        restored = getattr(self, "restored", None)
        return max(round(self._clock(), 3), restored.at if restored is not None else 0.0)

    def _counted(self) -> Any:
        for entry in self.log.entries():
            self._count(entry)
            yield entry

    def _count(self, entry: Entry) -> None:
        """Attributes the rows that are emitted next to this entry."""
        self.outbox.number = self.callbacks.number = entry.sequence

    def _emit(self, record: str, rows: Sequence[Row]) -> None:
        """Passes rows to outbox and callbacks; warnings only to callbacks, reasons for waiting only to the outbox."""
        if record != "warnings":
            self.outbox.put("events" if record == "waits" else record, rows)
        if record != "waits":
            self.callbacks.put(record, rows)

    def _live(self, job_id: str) -> Live:
        live = self.book.jobs.get(job_id)
        if live is None:
            raise RefusedError(f"job {job_id}", "is neither pending nor running", "`list` shows those that are", 404)
        return live

    def _expect(self, job_id: str, status: Status) -> None:
        found = self._live(job_id).status
        if found != status:
            raise RefusedError(f"job {job_id}", f"is {found}, not {status}", status=409)

    def _is_known(self, job_id: str) -> bool:
        """Whether a job of that name was ever submitted."""
        return bool(self.log.of_job(job_id))

    def _known(self, entry: Entry, job: Job) -> dict[str, Any]:
        same = {**entry.body["job"], "submitted_at": 0} == {**plain(job), "submitted_at": 0}
        if entry.kind == "reject" or not same:
            raise RefusedError(
                f"job {job.job_id}", "another job with that id was submitted", "Choose another job_id", 409
            )
        if job.job_id in self.book.jobs:
            return self.show(job.job_id)
        return {"job_id": job.job_id, "status": ended(self.log.of_job(job.job_id))}

    def _unstartable(self, job: Job, payload: Mapping[str, Any]) -> Cause | None:
        """Why the executor could not run a job correctly; None if it could."""
        found = self.executor.refusal(job, payload, self.restored.setup.nodes)
        return Cause("CannotRun", found) if found else None

    def _why(self, job_id: str, live: Live) -> tuple[Reason, ...]:
        """Why a job does not run; empty if it is about to."""
        if live.status == "pending":
            return self._reasons(job_id)
        if live.status == "held":
            return (Reason("Held", f"held by {live.by or 'somebody'} since {_written(live.since)}; `release` ends it"),)
        if live.status == "suspended" or (live.stop is not None and live.stop[0] == "suspended"):
            text = f"suspended by {live.by} since {_written(live.since)}"
            text += f": {live.aside.text}" if live.aside.reason == RECLAIMED else ""
            if live.status == "stopping":
                text += "; it is being stopped" + (", then it waits again" if live.resumed else "")
            return (Reason("Suspended", f"{text}; `resume` ends it" if not live.resumed else text),)
        return ()

    def _reasons(self, job_id: str) -> tuple[Reason, ...]:
        return self.waiting.get(job_id) or (Reason("PendingEvaluation", "no cycle has looked at it yet"),)

    def _interval(self, job_id: str) -> dict[str, Any] | None:
        """The interval of a job's expected start, with its confidence and the outcomes behind it; None: too few."""
        found = self.restored.core.expectations.first_interval(job_id)
        if found is None:
            return None
        return {
            "from": instant(found.low),
            "to": instant(found.high),
            "confidence": CONFIDENCE,
            "known": found.known,
        }

    def _past_errors(self) -> dict[str, Any]:
        """Errors of expected starts in seconds; late is positive."""
        errors = sorted(self.restored.core.expectations.errors)
        if not errors:
            return {"known": 0}
        return {"known": len(errors), "p50": errors[len(errors) // 2], "p95": errors[len(errors) * 95 // 100]}


def _is_reclaimed(live: Live) -> bool:
    """Whether a job is suspended, or about to be, because it was idle."""
    ending = live.stop[0] if live.stop else ""
    return live.aside.reason == RECLAIMED and live.resumed is None and "suspended" in (live.status, ending)


def _written(seconds: float) -> str:
    return rfc3339(instant(seconds), "seconds")


def _concerned(actions: Sequence[Any]) -> list[str]:
    """Jobs that a plan concerns: started, resized, preempted ones, and preemptors."""
    return [name for action in actions for name in (action.job_id, getattr(action, "by_job", "")) if name]
