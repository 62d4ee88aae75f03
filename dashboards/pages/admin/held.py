"""Held pushes, their effect if accepted, and what each sender pushed recently (`?push=`)."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, date, datetime
from urllib.parse import quote

from dash import dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from billing.held import Change, Effect, effect
from billing.senders import sender_days
from dashboards import exports, forms, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import device_name, duration
from dashboards.languages import Language
from ingest.errors import IngestError
from ingest.held import HELD, HeldPush, held_push, held_pushes, rows_of
from warehouse.durations import seconds_of
from warehouse.store import Store

DAYS = 7
"""Of senders' pushes that are shown; the API has more."""
BEYOND = re.compile(r"before (\S+Z), and the sender may write (\w+) back")
"""The detail of a push that reaches back too far (ingest/permissions.py)."""
MOST_ROWS = 20
"""Rows of a held push that are shown; accepting it accepts all of its rows."""


def held_part(store: Store, filters: Filters, words: Language) -> list[Component]:
    asked = filters.more.get("push", "")
    chosen = _chosen(store, asked, filters, words) if asked else []
    return [_waiting(store, filters, words), *chosen, _senders(store, filters, words)]


def _waiting(store: Store, filters: Filters, words: Language) -> Component:
    columns = [
        grids.device_link("subject", words("admin.held_subject"), minimum=150, most=200),
        grids.text("record", words("admin.record"), minimum=90),
        grids.text("sender", words("admin.sender"), minimum=110),
        grids.moment("since", words("admin.held_since"), minimum=140),
        grids.moment("first", words("admin.held_first"), words("admin.held_first_is")),
        grids.number("rows", words("admin.rows"), shape=",d"),
        grids.sentence("reason", words("admin.held_why"), minimum=150, flex=180),
        grids.sentence("detail", words("admin.held_detail"), minimum=200, flex=340),
    ]
    rows = [
        {
            "subject": one.subject,
            "subject_text": _short(one.subject),
            "href": filters.href("/administration", part="held", push=one.id),
            "record": _record(one.record_type, words),
            "sender": one.sender,
            "since": filters.local(one.held_since),
            "first": filters.local(one.first_at),
            "rows": one.rows,
            "reason": words(f"admin.held_{one.reason}"),
            "detail": detail(one, filters, words),
        }
        for one in held_pushes(store)
    ]
    spare = ("record", "rows", "first")
    table = grids.grid(columns, rows, words, "admin-held", empty=words("admin.nothing_held"), spare=spare)
    tool = exports.of_grid("admin-held", "held", replace(filters, period=None), words)
    return parts.card(words("admin.held"), words("admin.held_is"), table, tool=tool, class_name="gl-table-card")


def _short(subject: str) -> str:
    """Of cluster/device the device by its first digits; in full where one points at it."""
    cluster, sign, name = subject.partition("/")
    return f"{cluster}{sign}{device_name(name)}"


def _record(record_type: str, words: Language) -> str:
    return words.of(f"records.{record_type}", record_type)


def detail(push: HeldPush, filters: Filters, words: Language) -> str:
    """Why it is held; what `beyond_window` writes with the books' clocks and in the page's language."""
    found = BEYOND.fullmatch(push.detail)
    if found is None:
        return push.detail
    since = words.dated(filters.local(datetime.fromisoformat(found[1])))
    return words("admin.held_before", at=since, span=duration(seconds_of(found[2]), words))


def _chosen(store: Store, id: str, filters: Filters, words: Language) -> list[Component]:
    """Its effect is filled in by a callback: it closes a copy of the books."""
    try:
        push = held_push(store, id)
    except IngestError as error:
        return [parts.card(words("admin.held_one"), "", states.nothing_here(f"{error.what}. {error.next_step}"))]
    if push.state != HELD:
        said = words(f"admin.was_{push.state}", by=push.decided_by, why=push.why or "–")
        return [parts.card(push.subject, "", states.nothing_here(said))]
    said = words(
        "admin.held_one_is", rows=f"{push.rows:,}", record=_record(push.record_type, words), sender=push.sender
    )
    raw = [json.dumps(json.loads(row["raw"]), ensure_ascii=False) for row in rows_of(store, push)[:MOST_ROWS]]
    wait = states.nothing_here(words("admin.held_wait"))
    return [
        parts.card(
            push.subject, said, html.P(detail(push, filters, words)), html.Pre("\n".join(raw), className="gl-written")
        ),
        dcc.Store(id="admin-held-asked", data=id),
        html.Div(parts.card(words("admin.held_effect"), "", wait), id="admin-held-effect", **{"aria-live": "polite"}),
    ]


def effect_of(store: Store, filters: Filters, words: Language) -> Component:
    """The effect of accepting the push, in money, and buttons to accept or refuse it for those who may."""
    current().require(Action.see_held)
    title = words("admin.held_effect")
    try:
        push = held_push(store, filters.more.get("push", ""))
        found = effect(store, push)
    except IngestError as error:
        return parts.card(title, "", states.nothing_here(f"{error.what}. {error.next_step}"))
    decisions = _decisions(push, found, words) if current().may(Action.decide_held) else []
    if not found.known:
        return parts.card(title, words("admin.held_not_known"), *decisions)
    if not found.changes:
        until = f"{filters.local(found.closed_until):%Y-%m-%d %H:%M}"
        return parts.card(title, words("admin.held_no_effect", until=until), *decisions)
    tool = exports.of_grid("admin-held-changes", "held-effect", replace(filters, period=None), words)
    return parts.card(title, words("admin.held_effect_is"), _changes(found, words), *decisions, tool=tool)


def _changes(found: Effect, words: Language) -> Component:
    currency = next((one.currency for one in found.changes if one.currency), "")
    columns = [
        grids.text("month", words("admin.month"), minimum=90),
        grids.text("tenant", words("filter.tenant"), minimum=170),
        grids.text("invoice", words("admin.invoice"), minimum=130),
        grids.money("before", words("admin.cost_before"), currency),
        grids.money("after", words("admin.cost_after"), currency),
        grids.money("difference", words("admin.cost_difference"), currency),
        grids.number("hours", words("admin.hours_difference"), shape="+,.2f", minimum=110),
    ]
    rows = [
        {
            "month": _month(one.month, words),
            "tenant": words("admin.nobody_holds") if one.tenant is None else one.tenant or words("no_name"),
            "invoice": one.issued,
            "before": one.cost_before,
            "after": one.cost_after,
            "difference": one.difference,
            "hours": one.gpu_hours_after - one.gpu_hours_before,
        }
        for one in found.changes
    ]
    return grids.grid(columns, rows, words, "admin-held-changes")


def _month(name: str, words: Language) -> str:
    """Like 2026-10, in words."""
    return words.month(date.fromisoformat(f"{name}-01"))


def _owed(one: Change, words: Language) -> str:
    of = words("quality.comma").join((one.tenant or words("admin.nobody_holds"), _month(one.month, words)))
    return f"{of}{words('part.colon')}{one.difference:+,.2f} {one.currency}"


def _decisions(push: HeldPush, found: Effect, words: Language) -> list[Component]:
    issued = [one for one in found.changes if one.issued]
    amounts = (_owed(one, words) for one in issued[:5])
    money = words("part.break").join(amounts) or "–"
    money = money if found.known else words("admin.held_not_known")
    why = forms.field("why", words("admin.held_reason"))
    return [
        forms.form(
            f"POST /held/{quote(push.id, safe='')}/{what}",
            words(f"admin.{what}"),
            words,
            why,
            sure=words(f"admin.{what}_sure", rows=f"{push.rows:,}", subject=push.subject, money=money),
            then=f"/administration?part=held&push={quote(push.id, safe='')}",
        )
        for what in ("accept", "refuse")
    ]


def _senders(store: Store, filters: Filters, words: Language) -> Component:
    columns = [
        grids.sorted_by(grids.moment("last", words("admin.last_push"))),
        grids.text("sender", words("admin.sender"), minimum=110),
        grids.text("record", words("admin.record"), minimum=100),
        grids.text("outcome", words("admin.outcome"), minimum=110),
        grids.text("reason", words("admin.held_why"), minimum=130),
        grids.number("pushes", words("admin.pushes"), shape=",d"),
        grids.number("rows", words("admin.rows"), shape=",d"),
    ]
    rows = [
        {
            "last": filters.local(one["last_at"]),
            "sender": one["sender"] or words("admin.nobody_known"),
            "record": _record(one["record_type"], words),
            "outcome": words(f"admin.push_{one['outcome']}"),
            "reason": words.of(f"admin.held_{one['reason']}", one["reason"]),
            "pushes": one["pushes"],
            "rows": one["rows"],
        }
        for one in sender_days(store, datetime.now(UTC), DAYS)
    ]
    table = grids.grid(columns, rows, words, "admin-senders", empty=words("admin.nothing_pushed"))
    tool = exports.of_grid("admin-senders", "senders", replace(filters, period=None), words)
    said = words("admin.senders_is", days=DAYS)
    return parts.card(words("admin.senders"), said, table, tool=tool, class_name="gl-table-card")
