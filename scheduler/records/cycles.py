"""What a cycle passes to later ones besides its actions, as JSON: promises, failed searches, announced starts.

Results about classes are not logged: they hold only until capacity is freed, so restoring plans the cycles since then
once more. Only differences from the previous cycle are written. `promises` lists all in order: an unchanged one by its
job's id, another as an object with its changed fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler.codec import plain, plan_actions, read
from scheduler.cycle.core import Core
from scheduler.cycle.plan import CyclePlan
from scheduler.cycle.promises import Promise, Promised
from scheduler.cycle.state import FOREVER
from scheduler.model import Grant

NEW: Mapping[str, Any] = {
    "start": 0.0,
    "end": None,
    "grants": [],
    "over": [],
    "hosts": [],
    "entitled": False,
    "spare": [],
}
"""The promise that a new one is compared with."""


def plan_cycle(core: Core, now: float) -> tuple[CyclePlan, dict[str, Any]]:
    """A plan, and what the log is to say of it: nothing if nobody was looked at. Promises are made when that is
    applied, so that they are what the log makes of them."""
    before = core.promised
    plan = core.plan(now)
    body = _body(plan, before, core.promised, core, now)
    core.promised = before
    return plan, body


def _body(plan: CyclePlan, before: Promised, after: Promised, core: Core, now: float) -> dict[str, Any]:
    body: dict[str, Any] = {}
    announced = {job_id: at for job_id, at in plan.expected.items() if core.expectations.announced_at(job_id) == now}
    promises = _changes(before.promises, after.promises, now)
    if promises != [promise.job_id for promise in before.promises] or (plan.anew and promises):
        body["promises"] = promises
        if not plan.anew:
            body["kept"] = True
    if plan.searches:
        body["searches"] = list(plan.searches)
    if plan.planned_again:
        body["again"] = True
    if not (plan.actions or body or announced or plan.looked):
        return {}
    return {"actions": plan_actions(plan), **body} | ({"expected": announced} if announced else {})


def decisive(body: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a record that affects later decisions."""
    return {key: value for key, value in body.items() if key != "expected"}


def recall_cycle(core: Core, body: Mapping[str, Any], now: float) -> None:
    """Into a state to which all entries before it have been applied, and not yet the actions.

    Errors: KeyError, TypeError, ValueError if it does not follow from them.
    """
    promised = core.promised.promises
    if "promises" in body:
        before = {promise.job_id: promise for promise in promised}
        promised = tuple(_read(one, before, core, now) for one in body["promises"])
    anew = "promises" in body and not body.get("kept", False)
    core.recall(promised, anew, body.get("again", False), body.get("searches", ()), now)
    core.expect(body.get("expected", {}), now)


def _changes(before: Sequence[Promise], after: Sequence[Promise], now: float) -> list[Any]:
    known = {promise.job_id: promise for promise in before}
    return [_change(known.get(promise.job_id), promise, now) for promise in after]


def _change(before: Promise | None, after: Promise, now: float) -> Any:
    if before == after:
        return after.job_id
    old = {**NEW, "made_at": now} if before is None else _plain(before)
    return {"job_id": after.job_id} | {key: value for key, value in _plain(after).items() if value != old[key]}


def _plain(promise: Promise) -> dict[str, Any]:
    return {
        "start": promise.start,
        "end": None if promise.end == FOREVER else promise.end,
        "grants": plain(promise.grants),
        "over": sorted([*place, *over] for place, over in promise.extra.items() if any(over)),
        "hosts": sorted([node, *over] for node, over in promise.extra_host.items() if any(over)),
        "made_at": promise.made_at,
        "entitled": promise.entitled,
        "spare": sorted([kind, units] for kind, units in promise.spare.items()),
    }


def _read(change: Any, before: Mapping[str, Promise], core: Core, now: float) -> Promise:
    if isinstance(change, str):
        return before[change]
    job_id = change["job_id"]
    old = before.get(job_id)
    found = ({**NEW, "made_at": now} if old is None else _plain(old)) | change
    grants = tuple(read(Grant, grant, f"promise of {job_id}") for grant in found["grants"])
    over = {(node, device): (units, size) for node, device, units, size in found["over"]}
    hosts = {node: (cpu, size) for node, cpu, size in found["hosts"]}
    return Promise(
        job_id,
        found["start"],
        FOREVER if found["end"] is None else found["end"],
        grants,
        core.pending[job_id][1].request if old is None else old.request,
        {(g.node, d): over.get((g.node, d), (0, 0)) for g in grants for d in g.devices},
        {grant.node: hosts.get(grant.node, (0, 0)) for grant in grants},
        found["made_at"],
        found["entitled"],
        dict(found["spare"]),
    )
