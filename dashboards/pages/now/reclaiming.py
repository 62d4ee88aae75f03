"""Idle jobs that the server's scheduler may reclaim: what its policy does next, and an operator's yes or no to it."""

from __future__ import annotations

from dash import html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from api.reach import Reach
from api.routes.idle_jobs import IdleJob, listed
from dashboards import forms, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration
from dashboards.languages import Language
from dashboards.said import said
from warehouse.errors import LedgerError
from warehouse.store import Store


def part(store: Store, filters: Filters, words: Language, reach: Reach) -> Component | None:
    """Nothing if the server has no scheduler. Of the fleet: a scheduler's tenants need not be those of the books."""
    if not reach.scheduler or not current().may(Action.see_fleet):
        return None
    try:
        found = listed(reach, current().actor)
    except LedgerError as error:
        return _card(words, html.P(str(error), className="gl-form-error", role="alert"))
    chosen = {name: filters.address.chosen.get(name, ()) for name in ("tenant", "queue", "cluster")}
    jobs = [
        one
        for one in found.jobs
        if all(
            not values or value in values
            for values, value in zip(chosen.values(), (one.tenant, one.queue, found.cluster), strict=True)
        )
    ]
    if not jobs:
        empty = (
            words("now.jobs_unknown", why=said(found.problem, filters, words))
            if found.problem
            else words("now.no_jobs")
        )
        return _card(words, states.nothing_here(empty))
    jobs.sort(key=lambda one: (-one.gpus * (one.idle_seconds or 0.0), one.job_id))
    heads = [words("now.job"), words("now.job_act")]
    may = current().may(Action.reclaim)
    return _card(words, parts.table(heads, [_cells(one, filters, may, words) for one in jobs]))


def _card(words: Language, content: Component) -> Component:
    return parts.card(words("now.jobs"), words("now.jobs_is"), content, id="now-reclaim")


def _cells(one: IdleJob, filters: Filters, may: bool, words: Language) -> list[Component | str]:
    """Two columns, so that a phone shows the buttons."""
    whose = f"{one.tenant} · {one.queue} · {one.gpus:,.4g} {words('unit.gpus')}"
    idle = said(one.problem, filters, words) or words(
        "now.job_idle", span=UNKNOWN if one.idle_seconds is None else duration(one.idle_seconds)
    )
    step = words.of(f"now.step_{one.step}", one.step)
    then = words("now.job_next", what=words.of(f"now.next_{one.next}", one.next))
    at = "" if one.next_at is None else words.moment(filters.local(one.next_at))
    details = " · ".join(filter(None, (idle, step, f"{then} {at}".rstrip())))
    return [
        html.Span([html.Strong(one.job_id), html.Span(whose), html.Span(details)], className="gl-idle-job"),
        html.Div(_acts(one, words), className="gl-acts") if may else "",
    ]


def _acts(one: IdleJob, words: Language) -> list[Component]:
    """Keep is for one that is not kept yet; to reclaim needs a policy and known idleness. The scheduler judges both."""
    acts = []
    if one.policy and one.idle_seconds is not None and one.step != "kept":
        sure = words("now.reclaim_sure", job=one.job_id, policy=one.policy)
        acts.append(forms.form("POST /idle-jobs/reclaim", words("now.reclaim"), words, body={"job": one.job_id},
                               sure=sure, small=True))  # fmt: skip
    if one.step != "kept":
        acts.append(forms.form("POST /idle-jobs/keep", words("now.keep"), words, body={"job": one.job_id}, small=True))
    return acts
