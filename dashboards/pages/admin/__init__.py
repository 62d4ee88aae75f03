"""Administration: applied configuration (prices, tenants, budgets, objectives, energy, parties), held pushes, tokens,
users, and the audit (`?part=`).
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from api.applied_files import BUDGETS, ENERGY, OBJECTIVES, PARTIES
from dashboards import exports, grids, parts, states
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.pages.admin.applied_files import file_part, rates_part, tenants_part, unmapped_table
from dashboards.pages.admin.apply_form import comparison
from dashboards.pages.admin.held import effect_of, held_part
from dashboards.pages.admin.people import tokens_part, users_part
from dashboards.registry import Ask, Page
from dashboards.said import who
from warehouse.phrases import with_moments
from warehouse.store import Store, read_sql

MOST = 500
"""Entries of the audit that are shown; the API has all of them."""
Part = Callable[[Store, Filters, Language], list[Component]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    shown = [name for name in PARTS if current().may(ACTIONS.get(name, Action.see_audit))]
    asked = filters.more.get("part", shown[0])
    if asked in PARTS and asked not in shown:
        return states.not_yours(words, filters.href("/administration"))
    part = asked if asked in PARTS else shown[0]
    links = [
        html.Li(
            dcc.Link(words(f"admin.{name}"), href=filters.href("/administration", part=name), className="gl-choice"),
            **({"aria-current": "true"} if name == part else {}),
        )
        for name in shown
    ]
    chooser = html.Ul(links, className="gl-choices", **{"aria-label": words("admin.parts")})
    unknown = None if asked in PARTS else parts.ignored(filters, words, "part")
    return parts.page(
        parts.titles(replace(filters, period=None), words, words("admin.title"), unknown, chooser),
        *PARTS[part](store, filters, words),
    )


def audit_part(store: Store, filters: Filters, words: Language) -> list[Component]:
    find = filters.more.get("find", "")
    found = store.rows(read_sql(__file__, "audit"), {"find": find, "most": MOST})
    columns = [
        grids.moment("at", words("admin.at"), minimum=156),
        grids.text("actor", words("admin.actor"), minimum=110),
        grids.text("action", words("admin.action"), minimum=120),
        grids.sentence("object", words("admin.object"), minimum=140, flex=170),
        grids.sentence("reason", words("invoices.reason"), minimum=140, flex=220),
        grids.sentence("inputs", words("admin.inputs"), minimum=260, flex=320),
    ]
    rows = [
        {
            "actor": who(row["actor"], words),
            "action": row["action"],
            **_object(row),
            **grids.dated("at", filters.local(row["at"]), words),
            "inputs": (inputs := _inputs(json.loads(row["inputs"] or "{}"))),
            "inputs_text": with_moments(inputs, INSTANT, lambda at: words.dated(filters.local(at))),
        }
        for row in found
    ]
    said = words("admin.audit_is", rows=words.rows(len(rows), found[0]["in_all"] if found else 0))
    tool = dmc.TextInput(
        id="admin-find",
        value=find,
        placeholder=words("admin.find"),
        debounce=True,
        size="xs",
        className="gl-find",
        **{"aria-label": words("admin.find")},
    )
    table = grids.grid(columns, rows, words, "admin-audit", empty=words("admin.nothing_done"))
    tools = parts.tools(tool, exports.of_grid("admin-audit", "audit", replace(filters, period=None), words))
    return [parts.card(words("admin.audit"), said, table, tool=tools, class_name="gl-table-card")]


def _object(row: Mapping[str, Any]) -> dict[str, str]:
    """What was acted on, and why; of a new token the audit has its name as the reason."""
    if row["action"] == "token.create" and row["reason"]:
        return {"object": f"{row['reason']}, {row['object']}", "reason": ""}
    return {"object": row["object"], "reason": row["reason"]}


INSTANT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)")
"""As inputs have it."""


def _inputs(named: Mapping[str, Any]) -> str:
    """All but those that there were none of."""
    return ", ".join(f"{key}: {_text(value)}" for key, value in named.items() if value is not None)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


PARTS: dict[str, Part] = {
    "rates": rates_part,
    "tenants": tenants_part,
    **{kind.name: functools.partial(file_part, kind) for kind in (BUDGETS, OBJECTIVES, ENERGY, PARTIES)},
    "held": held_part,
    "tokens": tokens_part,
    "users": users_part,
    "audit": audit_part,
}
ACTIONS = {"users": Action.see_access, "held": Action.see_held}


def callbacks(app: Dash, ask: Ask) -> None:
    async def unmapped(_: str, search: str) -> Any:
        return await ask(unmapped_table, search)

    async def held(_: str, search: str) -> Any:
        return await ask(effect_of, search)

    async def compared(_: int | None, text: str | None, search: str) -> Any:
        return await ask(comparison, search, text)

    app.callback(
        Output("applied-compared", "children"),
        Input("applied-compare", "n_clicks"),
        State("applied-yaml", "value"),
        State("url", "search"),
        prevent_initial_call=True,
        running=[(Output("applied-compare", "disabled"), True, False)],
    )(compared)
    app.clientside_callback(
        ClientsideFunction("glforms", "opened"),
        Output("applied-yaml", "value"),
        Output("applied-compared", "children", allow_duplicate=True),
        Input("applied-file", "contents"),
        prevent_initial_call=True,
    )
    app.callback(Output("admin-held-effect", "children"), Input("admin-held-asked", "data"), State("url", "search"))(
        held
    )
    app.callback(Output("admin-unmapped", "children"), Input("admin-asked", "data"), State("url", "search"))(unmapped)
    app.clientside_callback(
        ClientsideFunction("gl", "find"),
        Output("url", "search", allow_duplicate=True),
        Input("admin-find", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )


PAGE = Page(
    "/administration",
    "admin.title",
    90,
    layout,
    icon="M4 6h10M18 6h2M4 12h2M10 12h10M4 18h8M16 18h4M16 4v4M8 10v4M14 16v4",
    callbacks=callbacks,
    filters=(),
    has_period=False,
    needs_books=False,
    refreshes=False,
    action=Action.see_audit,
    formerly="/admin",
)
