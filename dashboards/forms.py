"""Forms that change something. They call the API as the signed-in user, so that whatever a page can do, a script can.

    forms.form("POST /invoices", words("invoices.issue"), words, body={"month": "2026-10"})

assets/forms.js sends the fields as JSON from our own page (the gate requires that of requests that change something),
shows the API's reason if it refuses, and otherwise redraws the page. The reason is English; in front of it another
language says which kind of refusal it is (`refusals`, once in the document).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from access.principal import ANYBODY
from dashboards.languages import NAMES, Language, language

REFUSED = (400, 401, 403, 404, 409, 422, 503)
"""Statuses of the API's refusals (api.problems)."""
Kind = Literal["text", "number", "list", "boolean"]
"""What a field's text is to the API; a list stands in it with commas, a boolean is `true` or `false`."""


def refusals() -> Component:
    """What each kind of refusal is called, in the languages that need it."""
    said = {code: {status: language(code)(f"form.refused_{status}") for status in REFUSED} for code in NAMES}
    texts = {f"data-{code}": json.dumps(kinds, ensure_ascii=False) for code, kinds in said.items() if code != "en"}
    return html.Div(id="refusals", hidden=True, **texts)


def form(
    api: str,
    submit: str,
    words: Language,
    *fields: Component,
    body: Mapping[str, Any] | None = None,
    note: str = "",
    sure: str = "",
    shows: str = "",
    then: str = "",
    says: str = "",
    already: str = "",
    done: str = "",
    notices: str = "",
    links: Sequence[tuple[str, str]] = (),
    working: str = "",
    zone: str = "",
    small: bool = False,
) -> Component:
    """api: method and path below /api/v1; {name} in it is the text of that field.   body: sent with the fields.
    note: beside the button, what it does and whether that can be undone.   sure: asked before it is sent; a click more,
    so only where nothing is typed and a slip costs much.   shows: the key of the answer that is told this once; the
    page is not drawn again then.   then: where to go instead of drawing the page again; {key} in it is of the answer.
    says: what to say instead, {key} likewise.   already: what to say instead if it had been done before (200 where 201
    is usual), with times in `zone`.   done: what to say, {key} likewise, once the page is drawn again: beside the form,
    or, until the page is left, in its `notices` (their id), with links (text, address).   working: what to say until
    the answer.   small: a button alone.
    """
    attributes = {"api": api, "body": json.dumps(dict(body or {})), "sure": sure, "shows": shows, "then": then,
                  "says": says, "already": already, "done": done, "zone": zone, "notices": notices,
                  "links": json.dumps(links) if links else ""}  # fmt: skip
    if already and words.code != "en":
        attributes["names"] = json.dumps({ANYBODY.name: words("frame.anybody")})
    return html.Form(
        [
            *fields,
            html.Button(submit, type="submit", className="gl-press gl-small" if small else "gl-press"),
            html.P(note, className="gl-act-note") if note else None,
            html.Output("", className="gl-said", **{"aria-live": "polite"}),
        ],
        className="gl-act",
        **{f"data-{name}": value for name, value in attributes.items() if value},
        **{f"data-{name}": words(f"form.{name}") for name in ("failed", "lost", "once")},
        **{"data-working": working or words("form.working")},
    )


def notices(id: str) -> Component:
    """Where a page says what its forms have done that are gone by then (assets/forms.js)."""
    return html.Div(id=id, className="gl-notices", role="status")


def field(
    name: str,
    label: str,
    value: str = "",
    kind: Kind = "text",
    hint: str = "",
    secret: bool = False,
    required: bool = False,
) -> Component:
    """A line of text; an empty one is not sent."""
    made = dmc.PasswordInput if secret else dmc.TextInput
    return html.Div(
        made(name=name, label=label, value=value, placeholder=hint, size="xs", required=required, withAsterisk=False,
             autoComplete="new-password" if secret else "off"),
        className="gl-act-field",
        **{"data-field": name, "data-kind": kind},
    )  # fmt: skip


def elsewhere(name: str, id: str) -> Component:
    """A field whose text is in another element of the page, such as an editor."""
    return html.Div(hidden=True, **{"data-field": name, "data-kind": "text", "data-of": id})


def choice(name: str, label: str, options: Sequence[tuple[str, str]], kind: Kind = "text") -> Component:
    """One of several (value, text) pairs; the first is preselected."""
    return html.Div(
        html.Label([label, html.Select([html.Option(text, value=value) for value, text in options], name=name)]),
        className="gl-act-field",
        **{"data-field": name, "data-kind": kind},
    )


def links(label: str, entries: Sequence[tuple[str, str, str]]) -> Component:
    """Links to files, styled as buttons: (text, address, name of the file or '' for the server's choice)."""
    return html.Ul(
        [
            html.Li(html.A(text, href=href, className="gl-press gl-small", download=name))
            for text, href, name in entries
        ],
        className="gl-files",
        **{"aria-label": label},
    )
