"""Firing and pending alerts: each with its owner, cause and proposed action."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from dash import dcc, html
from dash.development.base_component import Component

from alerts.runbooks import is_url, runbooks
from dashboards import forms, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration
from dashboards.idle_jobs import on_now
from dashboards.languages import Language
from dashboards.pages.alerts.evidence import named
from dashboards.said import held_back, texts_of

MOST = 60
"""Alerts shown; filters and ?rule= show the others."""
REPORTED = ("alertname", "severity", "owner", "category", "allocation_id", "workload_id", "device_id", "tenant")
"""Labels that stand elsewhere in an alert, or lead somewhere."""
LEADS = (("workload_id", "/workloads", "workload"), ("device_id", "/fleet", "device"), ("queue", "/queues", "queue"),
         ("tenant", "/tenants", "tenant"))  # fmt: skip
"""Label, page, and the value of that page that it becomes."""
OPENS, WHY = "alert-opens", "alert-why"
"""Types of the identifiers of an alert's line and of what opens below it."""
Alert = Mapping[str, Any]


def active_card(
    found: Sequence[Alert],
    filters: Filters,
    now: datetime,
    evaluated: bool,
    may_silence: bool,
    words: Language,
    linked: Component | None = None,
) -> Component:
    """found: firing before pending, the most severe first. The evidence of each is loaded when it is opened (`why`).
    The one of `?alert=` is open, and comes first; suppressed ones come after others as severe.
    linked: what became of it, where it is not among them (linked.py)."""
    of = filters.more.get("alert", "")
    found = ranked(found, of)
    if not found:
        content = states.nothing_here(words("fires.none" if evaluated else "fires.not_evaluated"))
    else:
        content = parts.long_list(
            [html.Li(_alert(one, filters, now, of, may_silence, words)) for one in found[:MOST]],
            "gl-alerts",
            words,
            in_all=len(found),
        )
    return parts.card(
        words("alerts.active"),
        words("alerts.active_is"),
        linked,
        content,
        html.P(words("alerts.listed", n=MOST, all=f"{len(found):,}"), className="gl-note")
        if len(found) > MOST
        else None,
        tool=_rules(filters, words),
    )


def ranked(found: Sequence[Alert], of: str) -> list[Alert]:
    """As active_card shows them."""
    groups = list(dict.fromkeys((one["state"], one["severity"]) for one in found))
    return sorted(
        found,
        key=lambda one: (
            one["fingerprint"] != of,
            groups.index((one["state"], one["severity"])),
            bool(one["held_back"]),
        ),
    )


def _rules(filters: Filters, words: Language) -> Component | None:
    """A link from one rule back to all."""
    if not filters.more.get("rule"):
        return None
    return dcc.Link(words("alerts.all_rules"), href=filters.href("/alerts"), className="gl-clear")


def _alert(one: Alert, filters: Filters, now: datetime, of: str, may_silence: bool, words: Language) -> Component:
    is_open = one["fingerprint"] == of
    labels, notes = one["labels"], texts_of(one, filters, words)
    pending = one["state"] == "pending"
    return html.Details(
        [
            html.Summary(
                [
                    html.Span(className=f"gl-dot gl-{one['severity']}", title=words(f"severity.{one['severity']}")),
                    html.Span([html.Strong(one["rule"]), html.Small(notes.get("summary", ""))]),
                    _badge(words("alerts.pending")) if pending else None,
                    _badge(_held_back(one["held_back"], words), held_back(one["held_back"], filters, words))
                    if one["held_back"] and not pending
                    else None,
                    html.Span(labels.get("owner") or UNKNOWN, className="gl-alert-owner", title=words("alerts.owner")),
                    html.Span(
                        duration((now - one["active_at"]).total_seconds(), words),
                        className="gl-since",
                        title=words("alerts.since", at=words.moment(filters.local(one["active_at"]))),
                    ),
                ],
                id={"type": OPENS, "alert": one["fingerprint"]},
            ),
            html.Div(
                why(one, filters, may_silence, words) if is_open else None,
                id={"type": WHY, "alert": one["fingerprint"]},
                className="gl-alert-why",
            ),
        ],
        open=is_open,
    )


def _held_back(why: str, words: Language) -> str:
    return words("alerts.acknowledged" if why.startswith("acknowledged") else "alerts.held_back")


def _badge(text: str, why: str = "") -> Component:
    return html.Span(text, className="gl-badge", title=why or None)


def why(one: Alert | None, filters: Filters, may_silence: bool, words: Language) -> list[Component]:
    """The evidence and runbook of an opened alert. None: it is over."""
    return [html.P(words("alerts.over"))] if one is None else list(_why(one, filters, may_silence, words))


def _why(one: Alert, filters: Filters, may_silence: bool, words: Language) -> Iterable[Component]:
    notes = texts_of(one, filters, words)
    if notes.get("description"):
        yield html.P(notes["description"])
    if notes.get("action"):
        yield html.P([html.Strong(words("alerts.action")), notes["action"]], className="gl-alert-action")
    facts = {**{key: value for key, value in one["labels"].items() if key not in REPORTED}, **one["evidence"]}
    if shown := list(named(facts, filters, words)):
        table = html.Dl(
            [html.Div([html.Dt(key), html.Dd(value, title=value)]) for key, value in shown],
            className="gl-evidence",
            **{"aria-label": words("alerts.evidence")},
        )
        # A description says the most of it in a sentence.
        folded = html.Details([html.Summary(words("alerts.evidence")), table], className="gl-runbook")
        yield folded if notes.get("description") else table
    if text := runbooks().get(notes.get("runbook", "")):
        yield html.Details([html.Summary(words("alerts.runbook")), dcc.Markdown(text)], className="gl-runbook")
    if one["held_back"]:
        yield html.P(
            words("alerts.held_back_is", why=held_back(one["held_back"], filters, words)), className="gl-reasons"
        )
    if may_silence:
        yield html.Div(list(_acts(one, filters, words)), className="gl-acts")
    yield html.Div(list(_links(one, filters, may_silence, words)), className="gl-alert-links")


def _acts(one: Alert, filters: Filters, words: Language) -> Iterable[Component]:
    """What those may do who may silence it. The API says why it does not."""
    path = quote(one["fingerprint"], safe="")
    if not one["held_back"].startswith("acknowledged"):
        yield forms.form(
            f"POST /alerts/{path}/acknowledge",
            words("alerts.acknowledge"),
            words,
            already=words("alerts.already_acknowledged"),
            zone=filters.zone,
            small=True,
        )
    if one["state"] == "firing":
        yield forms.form(
            f"POST /alerts/{path}/tell",
            words("alerts.tell"),
            words,
            forms.field("note", words("alerts.note"), hint=words("alerts.note_is")),
            says=words("alerts.told"),
        )


def _links(one: Alert, filters: Filters, may_silence: bool, words: Language) -> Iterable[Component]:
    for label, path, name in LEADS:
        value = one["labels"].get(label)
        if value:
            yield dcc.Link(f"{words(f'alerts.to_{name}')} {value}", href=filters.href(path, **{name: value}))
    if href := on_now(one["rule"], one["labels"], filters):
        yield dcc.Link(words("alerts.on_now"), href=href)
    runbook = one["annotations"].get("runbook", "")
    if is_url(runbook):
        yield html.A(words("alerts.runbook"), href=runbook, target="_blank", rel="noreferrer")
    yield dcc.Link(words("alerts.of_rule"), href=filters.href("/alerts", rule=one["rule"]))
    if may_silence:
        quiet = filters.href("/alerts", silence=one["fingerprint"])
        yield dcc.Link(words("alerts.keep_quiet"), href=quiet, className="gl-alert-quiet")
