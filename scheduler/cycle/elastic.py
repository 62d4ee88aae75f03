"""Elastic jobs grow, one replica at a time, into capacity that no pending job could use in this cycle.

Called after all pending jobs were tried, so what is free is not promised, reserved or within others' quotas. No job
grows onto devices that a preempted job may still occupy. The tenant with the lowest share grows first, then the job
with the fewest replicas beyond its smallest gang; one that was made small because it was idle does not, nor does one of
which a rank has finished, or may have while the scheduler was down. Any job's smallest gang that needs this surplus
takes it back before a job is killed (scheduler.cycle.rights). A job that is to have more replicas than it runs with
(`State.rescale`) comes first among its tenant's.
"""

from __future__ import annotations

import heapq
from typing import Any

from scheduler.cycle.accounts import NO_SURPLUS, Surplus
from scheduler.cycle.order import branch_share
from scheduler.cycle.state import FOREVER, Running, State, units_of
from scheduler.cycle.trial import Trial
from scheduler.model import Grant


def grow(trial: Trial) -> dict[str, tuple[Grant, ...]]:
    """All grants of each job that grows: its old ones, then the new ones."""
    state = trial.state
    grown: dict[str, tuple[Grant, ...]] = {}
    heap = [
        (*_turn(trial, running, len(running.grants)), running)
        for running in state.elastic.values()
        if len(running.grants) < running.job.max_replicas
        and running.job.job_id not in trial.changed
        and running.job.job_id not in state.completing
        and running.job.job_id not in state.unheard
        and (running.job.job_id not in state.kept_small or len(running.grants) < running.job.min_replicas)
        and trial.now - running.shrunk_at >= state.policies.elastic_hold_seconds
    ]
    if not heap:
        return grown
    heapq.heapify(heap)
    mark = trial.cluster.mark()
    evicted = (state.running[job_id].grants for job_id, left in trial.changed.items() if not left)
    trial.keep_off([*state.leaving.values(), *evicted])
    while heap:
        *_, running = heapq.heappop(heap)
        job, held = running.job, grown.get(running.job.job_id, running.grants)
        added = _one_more(trial, running, len(held))
        if added is None:
            continue
        held = grown[job.job_id] = (*held, *added)
        if len(held) < job.max_replicas:
            heapq.heappush(heap, (*_turn(trial, running, len(held)), running))
    trial.cluster.rollback(mark)
    for job_id, held in grown.items():
        running = state.running[job_id]
        for grant in held[len(running.grants) :]:
            trial.cluster.take(grant, running.job.request)
    return grown


def _one_more(trial: Trial, running: Running, held: int) -> tuple[Grant, ...] | None:
    """held: replicas that it has so far."""
    job, state = running.job, trial.state
    room = state.accounts.room(running.kind.account)
    if state.least(job.request, 1) > room:
        return None
    until = max(running.ends_by, trial.now) if job.time_limit is not None else FOREVER
    added = trial.place_within(job.request, 1, job.tenant, until, room)
    if added is not None:
        surplus = NO_SURPLUS if held < job.min_replicas else Surplus(units_of(added), 1)
        trial.charge(running.kind, units_of(added), 1, surplus)
        trial.settle(added, job.request, until)
    return added


def _turn(trial: Trial, running: Running, replicas: int) -> tuple[Any, ...]:
    state: State = trial.state
    tree = state.accounts.governing(running.kind.account.pool)
    branch = tree.admit(running.kind.account.tenant)
    return (
        branch_share(state, tree, branch),
        replicas - running.job.min_replicas,
        running.started_at,
        running.job.job_id,
    )
