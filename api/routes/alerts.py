"""Alerts: firing ones with evidence, history, notifications, and silences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from alerts import reading
from alerts.errors import AlertError
from alerts.reading import CURRENT
from alerts.routing import Silence
from alerts.silences import ACKNOWLEDGED_FOR, acknowledge, add_silence, end_silence, silences
from alerts.telling import firing, tell
from api.caller import Caller, See, SeeFleet, SilenceAlerts
from api.paging import Limit, Offset, Page, page_of
from api.problems import NotFoundError
from api.reach import Reach
from api.strict import Body, ReasonText, StrictRoute
from api.values import aware
from gpuledger import documents

router = APIRouter(tags=["alerts"], route_class=StrictRoute)
MOST_CHANGES = 10_000
Globs = Annotated[list[Annotated[str, Field(max_length=300)]], Field(min_length=1, max_length=100)]
States = Annotated[
    list[Literal["firing", "pending", "resolved", "inactive"]], Query(description="By default what fires or may soon.")
]
RuleName = Annotated[str, Query(max_length=100, description="Of this rule alone.")]
Fingerprint = Annotated[str, Query(max_length=100, description="Of this alert alone.")]


class NewSilence(Body):
    """matchers: label to globs, all of which must fit.   starts_at: now, if it is absent or past."""

    matchers: Annotated[dict[Annotated[str, Field(max_length=100)], Globs], Field(min_length=1, max_length=50)]
    ends_at: datetime
    starts_at: datetime | None = None
    reason: ReasonText


class Acknowledgement(Body):
    """hours: nobody is reminded for so long, as long as the alert goes on."""

    reason: Annotated[str, Field(max_length=1000)] = ""
    hours: Annotated[float, Field(gt=0, le=8784)] = ACKNOWLEDGED_FOR / timedelta(hours=1)


class NewTelling(Body):
    """receivers: names of the routing file; by default as the alert is routed.   note: in front of the evidence."""

    receivers: Annotated[list[Annotated[str, Field(max_length=100)]], Field(max_length=20, default_factory=list)]
    note: Annotated[str, Field(max_length=1000)] = ""


@router.get("/alerts")
def alerts_(
    request: Request,
    caller: See,
    state: States = ["firing", "pending"],  # noqa: B006 (FastAPI copies it)
    rule: RuleName = "",
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[documents.Alert]:
    """Alerts as they are, the worst first, each with its evidence; a tenant sees those of its own workloads."""
    found = _alerts(caller, state, rule)
    return page_of(request, found, documents.Alert.model_validate, limit, offset)


@router.get("/alerts/history")
def alert_history(
    request: Request,
    caller: See,
    rule: RuleName = "",
    fingerprint: Fingerprint = "",
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[documents.AlertChange]:
    """Changes of state, the newest first, at most ten thousand."""
    found = reading.history(caller.store, rule, fingerprint, MOST_CHANGES)
    return page_of(request, found, documents.AlertChange.model_validate, limit, offset)


@router.get("/alerts/deliveries")
def alert_deliveries(
    request: Request,
    caller: SeeFleet,
    rule: RuleName = "",
    fingerprint: Fingerprint = "",
    limit: Limit = 100,
    offset: Offset = 0,
) -> Page[documents.AlertDelivery]:
    """Attempts to deliver notifications, the newest first, at most ten thousand."""
    found = reading.attempts(caller.store, rule, fingerprint, MOST_CHANGES)
    return page_of(request, found, documents.AlertDelivery.model_validate, limit, offset)


@router.get("/alerts/silences")
def list_silences(caller: SeeFleet, past: bool = False) -> list[documents.Silence]:
    """Silences in force and to come; with `past` those that are over too."""
    return [_silence(one) for one in silences(caller.store, caller.now, past)]


@router.post("/alerts/silences", status_code=201)
def silence_alerts(caller: SilenceAlerts, new: NewSilence) -> documents.Silence:
    """Silences matching alerts: they keep firing, but nobody is notified."""
    with caller.writing() as store:
        added = add_silence(
            store, new.matchers, aware(new.ends_at), caller.principal.actor, new.reason, caller.now,
            max(caller.now, aware(new.starts_at or caller.now)),
        )  # fmt: skip
    return _silence(added)


@router.delete("/alerts/silences/{id}")
def end_silence_(caller: SilenceAlerts, id: str) -> documents.Silence:
    """Ends a silence now."""
    if id not in {one.id for one in silences(caller.store, caller.now)}:
        raise NotFoundError(f"silence {id!r}", "is not active or scheduled", "See: /api/v1/alerts/silences")
    with caller.writing() as store:
        return _silence(end_silence(store, id, caller.principal.actor, caller.now))


@router.post(
    "/alerts/{fingerprint}/acknowledge",
    status_code=201,
    responses={200: {"model": documents.Silence, "description": "Acknowledged already: by whom and when"}},
)
def acknowledge_alert(
    caller: SilenceAlerts, response: Response, fingerprint: str, new: Acknowledgement
) -> documents.Silence:
    """Acknowledges an alert: nobody is reminded of this occurrence for a while; those who were notified learn of its
    end. If it is acknowledged already, answers 200 with that acknowledgement, and nothing is written."""
    found = _one(caller, fingerprint, CURRENT)
    actor, hours = caller.principal.actor, timedelta(hours=new.hours)
    with caller.writing() as store:
        made, is_new = acknowledge(
            store, fingerprint, found["active_at"], found["labels"], actor, new.reason, caller.now, hours
        )
    response.status_code = 201 if is_new else 200
    return _silence(made)


@router.post("/alerts/{fingerprint}/tell")
def tell_alert(request: Request, caller: SilenceAlerts, fingerprint: str, new: NewTelling) -> documents.Told:
    """Tells receivers of the routing file of a firing alert now, with its evidence: by default the one called like its
    owner, else those of its routes. A note goes in front."""
    _one(caller, fingerprint, ("firing",))
    reach: Reach = request.app.state.reach
    alert = firing(caller.store, fingerprint, caller.now)
    actor = caller.principal.actor
    # Not while `writing`: nobody else's change should wait for a mail server.
    outcomes = tell(caller.store, alert, reach.receivers(), new.receivers, actor, new.note, caller.now, reach.rules)
    failed = {one.delivery.target: one.detail for one in outcomes if one.outcome != "sent"}
    if len(failed) == len(outcomes):
        raise AlertError("nobody was told", "; ".join(f"{target}: {why}" for target, why in failed.items()))
    targets = [one.delivery.target for one in outcomes if one.outcome == "sent"]
    return documents.Told(fingerprint=fingerprint, at=caller.now, by=actor, targets=targets, failed=failed)


@router.get("/alerts/{fingerprint}")
def alert(caller: See, fingerprint: str) -> documents.AlertWithHistory:
    """One alert, in whatever state, with its evidence and its latest changes."""
    found = _one(caller, fingerprint, ("firing", "pending", "resolved", "inactive"))
    return documents.AlertWithHistory.model_validate(
        {**found, "changes": reading.history(caller.store, "", fingerprint)}
    )


def _one(caller: Caller, fingerprint: str, states: Sequence[str]) -> dict[str, Any]:
    """Errors: NotFoundError if there is none in these states that they may see."""
    for row in _alerts(caller, states, ""):
        if row["fingerprint"] == fingerprint:
            return row
    what = "does not exist" if len(states) > 2 else f"is not {' or '.join(states)}"
    raise NotFoundError(f"alert {fingerprint!r}", f"{what}, or you don't have access to it", "See: /api/v1/alerts")


def _alerts(caller: Caller, states: Sequence[str], rule: str) -> list[dict[str, Any]]:
    """Those that they may see. Whether one is held back follows from all alerts and silences, also of others."""
    with caller.whole_store() as whole:
        found = reading.alerts(caller.store, caller.now, None, states, rule, whole)
    return [row for row in found if caller.principal.sees(_tenant(row))]


def _tenant(row: Mapping[str, Any]) -> str:
    return str(row["labels"].get("tenant", ""))


def _silence(one: Silence) -> documents.Silence:
    return documents.Silence.model_validate({**vars(one), "matchers": {k: list(v) for k, v in one.matchers.items()}})
