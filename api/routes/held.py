"""Held pushes: list them, their effect if accepted, and decisions; and what each sender pushed."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from api.caller import DecideHeld, SeeHeld
from api.paging import Limit, Offset, Page, page_of
from api.problems import NotFoundError
from api.strict import Body, StrictRoute
from billing import held as deciding
from billing.senders import sender_days
from gpuledger import documents
from ingest.errors import IngestError
from ingest.held import HeldPush, held_push, held_pushes, rows_of
from warehouse.store import Store

router = APIRouter(tags=["held"], route_class=StrictRoute)
MOST_ROWS = 1000
"""Rows of a held push that are shown; accepting it accepts all of its rows."""


class Why(Body):
    why: Annotated[str, Field(max_length=1000)] = ""


@router.get("/held")
def list_held(
    request: Request,
    caller: SeeHeld,
    state: Annotated[Literal["held", "accepted", "refused", "all"], Query()] = "held",
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[documents.HeldPushDocument]:
    """Pushed rows that wait for a person, or what was decided; the oldest first."""
    found = held_pushes(caller.store, "" if state == "all" else state)
    return page_of(request, found, documents.HeldPushDocument.model_validate, limit, offset)


@router.get("/held/{id}")
def show_held(caller: SeeHeld, id: str) -> documents.HeldPushWithEffect:
    """A held push with its rows and, while it waits, with what a yes would change in the closed books, computed on a
    copy."""
    push = _one(caller.store, id)
    found = deciding.effect(caller.store, push)
    rows: list[dict[str, Any]] = [json.loads(row["raw"]) for row in rows_of(caller.store, push)[:MOST_ROWS]]
    changes = [documents.HeldChange.model_validate(change) for change in found.changes]
    shown = documents.HeldPushDocument.model_validate(push).model_dump()
    return documents.HeldPushWithEffect(
        **shown, changes=changes, known=found.known, closed_until=found.closed_until, raw_rows=rows
    )


@router.post("/held/{id}/{decision}")
def decide_held(
    caller: DecideHeld, id: str, decision: Literal["accept", "refuse"], why: Why
) -> documents.HeldPushDocument:
    """accept: stores exactly these rows, as their sender's; what they change of an issued month becomes a correction.
    refuse: leaves them out for good."""
    _one(caller.store, id)
    decide = deciding.accept if decision == "accept" else deciding.refuse
    with caller.writing() as store:
        done = decide(store, id, caller.now, caller.principal.actor, why.why)
    return documents.HeldPushDocument.model_validate(done)


@router.get("/senders")
def senders(
    request: Request,
    caller: SeeHeld,
    days: Annotated[int, Query(ge=1, le=366, description="So many days back.")] = 7,
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[documents.SenderDay]:
    """What each sender pushed on a day and what became of it, the newest day first."""
    found = sender_days(caller.store, caller.now, days)
    return page_of(request, found, documents.SenderDay.model_validate, limit, offset)


def _one(store: Store, id: str) -> HeldPush:
    try:
        return held_push(store, id)
    except IngestError as error:
        raise NotFoundError(error.where, error.what, "See: /api/v1/held") from error
