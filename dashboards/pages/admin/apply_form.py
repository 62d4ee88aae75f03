"""The form for the next version of an applied file: write or open it, compare it with the version in force, apply it.

Exactly the compared text is applied: the form that applies it carries that text, even if the editor has changed since.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from access.current import current
from api import applied_files
from dashboards import forms, parts
from dashboards.filters import Filters
from dashboards.languages import Language
from warehouse.errors import LedgerError
from warehouse.store import Store

MOST = 200
"""Rows of the effect that are shown; the API has them all."""
NUMBERS = ("gpu_hours", "old_cost", "new_cost", "difference", "unpriced_before", "unpriced_after")


def form_card(kind: applied_files.Kind, file: Any, words: Language) -> Component | None:
    """file: the editor's initial text.   None for those who may not apply one."""
    if not current().may(kind.action):
        return None
    return parts.card(
        words("admin.next_version"),
        words("admin.next_version_is"),
        dmc.Textarea(
            id="applied-yaml",
            value=applied_files.as_yaml(file),
            autosize=True,
            minRows=8,
            maxRows=24,
            spellCheck=False,
            className="gl-sql",
            **{"aria-label": words("admin.next_yaml")},
        ),
        html.Div(
            [
                html.Button(words("admin.compare"), id="applied-compare", className="gl-press", type="button"),
                dcc.Upload(
                    html.Button(words("admin.open_file"), className="gl-press gl-small", type="button"),
                    id="applied-file",
                    max_size=applied_files.FILE_CHARACTERS,
                ),
            ],
            className="gl-run",
        ),
        html.Div(id="applied-compared", **{"aria-live": "polite"}),
    )


def comparison(store: Store, filters: Filters, words: Language, text: str | None) -> Component:
    """The effect of the text, and a form that applies it; or a line that says why it cannot be applied."""
    kind = applied_files.KINDS.get(filters.more.get("part", ""), applied_files.RATES)
    try:
        current().require(kind.action)
        found = applied_files.compare(store, kind, applied_files.read(kind, text or ""))
    except LedgerError as error:
        return html.Div(
            [html.H3(words("admin.cannot"), className="gl-sub"), html.P(str(error), className="gl-refused")],
            role="alert",
        )
    if not found.new:
        return html.P(words("admin.is_same", version=found.version), className="gl-note")
    title = "admin.would_change" if found.before else "admin.is_first"
    return html.Div(
        [
            html.H3(words(title, version=found.version), className="gl-sub"),
            *([html.Ul([html.Li(one) for one in found.changes], className="gl-changes")] if found.changes else []),
            *(_effect(found.effect, words) if found.before or found.effect else []),
            _lines(found.diff, words) if found.before else None,
            forms.form(
                f"POST {kind.api}",
                words("admin.apply"),
                words,
                forms.field("reason", words("invoices.reason"), required=True),
                body={"yaml": text},
                sure=words("admin.apply_sure", version=found.version),
                then=filters.href("/administration", part=kind.name),
            ),
        ],
        className="gl-would",
    )


def _lines(diff: Sequence[str], words: Language) -> Component:
    kinds = {"+": "gl-added", "-": "gl-removed", "@": "gl-skipped"}
    lines = [html.Span(f"{line}\n", className=kinds.get(line[:1], "")) for line in diff]
    return html.Details(
        [html.Summary(words("admin.as_lines")), html.Pre(lines, className="gl-written gl-diff")],
        open=True,
        className="gl-more",
    )


def _effect(rows: Sequence[Mapping[str, Any]], words: Language) -> list[Component]:
    """What becomes of the closed hours: columns that say nothing are left out."""
    if not rows:
        return [html.P(words("admin.nothing_in_the_books"), className="gl-note")]
    names = [name for name in rows[0] if any(row[name] not in (None, "", Decimal(0)) for row in rows)]
    names.sort(key=lambda name: name in NUMBERS)
    heads = [words.of(f"effect.{name}", name) for name in names]
    shown = [[_shown(row[name]) for name in names] for row in rows[:MOST]]
    said = words("admin.in_the_books_is", shown=f"{len(shown):,}", all=f"{len(rows):,}")
    return [
        html.H3(words("admin.in_the_books"), className="gl-sub"),
        html.P(said, className="gl-note"),
        parts.table(heads, shown),
    ]


def _shown(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:,.2f}"
    return "–" if value is None else str(value)
