"""Accepts or refuses a held push, and records it in the audit."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from billing import audit
from ingest.held import ACCEPTED, DECISIONS, REFUSED, Decision, HeldPush, decide, held_push
from warehouse.store import Store

ACTIONS = {ACCEPTED: "held.accept", REFUSED: "held.refuse"}
"""As the audit calls them."""


def accept(store: Store, id: str, now: datetime, actor: str, why: str = "") -> HeldPush:
    """Writes exactly the rows of a held push, as their sender's. What they change of an issued month becomes a
    correction in the next open one. Errors: IngestError as `ingest.held.decide`."""
    return _decided(store, id, ACCEPTED, now, actor, why)


def refuse(store: Store, id: str, now: datetime, actor: str, why: str = "") -> HeldPush:
    """Leaves the rows out for good: sent again they are counted, and nothing else. Errors: IngestError as `accept`."""
    return _decided(store, id, REFUSED, now, actor, why)


def _decided(store: Store, id: str, decision: Decision, now: datetime, actor: str, why: str) -> HeldPush:
    # Two people, each at another server, cannot both have it their way.
    with store.turn(DECISIONS) as held:
        push = held_push(store, id)
        inputs = {name: getattr(push, name) for name in ("sender", "record_type", "reason", "subject", "rows")}
        note = partial(audit.record, store, now, actor, ACTIONS[decision], push.id, why, inputs)
        return decide(store, push, decision, now, actor, why, note, held)
