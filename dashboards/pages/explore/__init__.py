"""Explore: runs SQL in the browser: a statement in the URL (`?sql=`, or `?saved=` a query's name), the schema, and the
answer as a table and a chart. It opens with the first example answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from dashboards import forms, grids, parts
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.pages.explore.answer import SECONDS, answer_of, chart_of
from dashboards.pages.explore.saved import chosen, saved_part
from dashboards.registry import Ask, Page
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql

EXAMPLES = ("cost", "capacity", "efficiency", "idle", "idle_cost", "waits", "waiting", "peaks", "models", "contract",
            "partitions", "energy", "invoiced")  # fmt: skip
"""Queries of the cookbook (docs/sql.md), a file each."""
FORMATS = (("CSV", "CSVWithNames"), ("Parquet", "Parquet"))


def layout(store: Store, filters: Filters, words: Language) -> Component:
    sql = _statement(filters)
    return parts.page(
        parts.titles(replace(filters, period=None), words, words("explore.title")),
        parts.split(_editor_card(sql, filters, words), _schema_card(store, words), class_name="gl-asks"),
        _result_card(sql, filters, words) if sql else None,
    )


def _statement(filters: Filters) -> str:
    """The URL's own, or that of the saved query that it names (empty: there is none); else the first example."""
    if own := filters.more.get("sql", ""):
        return own
    if filters.more.get("saved", ""):
        found = chosen(filters)
        return found.text if found else ""
    return example(EXAMPLES[0], filters.zone)


def _title(sql: str, filters: Filters, words: Language) -> str:
    """The question, of an example; a saved query's name."""
    if not filters.more.get("sql") and (saved := chosen(filters)):
        return saved.name
    name = next((name for name in EXAMPLES if example(name, filters.zone).strip() == sql.strip()), None)
    return words(f"example.{name}") if name else words("explore.result")


WRITTEN_IN = "'Europe/Berlin'"
"""The time zone of the examples and the cookbook; a site sees its own."""


def example(name: str, timezone: str) -> str:
    """The example, with months and days cut in the billing time zone."""
    text = (Path(__file__).parent / "examples" / f"{name}.sql").read_text(encoding="utf-8")
    return text.replace(WRITTEN_IN, f"'{timezone}'")


def _editor_card(sql: str, filters: Filters, words: Language) -> Component:
    return parts.card(
        words("explore.statement"),
        words("explore.statement_is", seconds=SECONDS),
        dmc.Textarea(
            id="explore-sql",
            value=sql or example(EXAMPLES[0], filters.zone),
            autosize=True,
            minRows=9,
            maxRows=22,
            spellCheck=False,
            className="gl-sql",
            **{"aria-label": words("explore.statement")},
        ),
        html.Div(
            [
                html.Button(words("explore.run"), id="explore-run", className="gl-press", type="button"),
                html.Small(words("explore.keys")),
            ],
            className="gl-run",
        ),
        *saved_part(filters, words),
        html.H3(words("explore.examples"), className="gl-sub"),
        html.Ul(
            [
                html.Li(dcc.Link(words(f"example.{name}"), href=filters.href("/explore", sql=text),
                                 className="gl-press gl-small"))
                for name, text in ((name, example(name, filters.zone)) for name in EXAMPLES)
            ],
            className="gl-files",
        ),
    )  # fmt: skip


def _schema_card(store: Store, words: Language) -> Component:
    views = [
        html.Details(
            [
                html.Summary(
                    [
                        html.Code(row["view"]),
                        html.Small(words.of(f"view.{row['view']}", row["comment"].removeprefix("One row: "))),
                    ]
                ),
                html.Dl(
                    [
                        html.Div([html.Dt([html.Code(name), html.Small(kind)]), html.Dd(comment)])
                        for name, kind, comment in row["columns"]
                    ]
                ),
            ]
        )
        for row in store.rows(read_sql(__file__, "schema"))
    ]
    return parts.card(words("explore.views"), words("explore.views_is"), html.Div(views, className="gl-schema"))


def _result_card(sql: str, filters: Filters, words: Language) -> Component:
    return html.Div(
        [
            dcc.Store(id="explore-asked", data=[sql, filters.more.get("run", "")]),
            dcc.Loading(
                html.Div(parts.card(_title(sql, filters, words), words("explore.runs")), id="explore-result"),
                color=parts.SPINNING,
                delay_show=150,
                overlay_style={"visibility": "visible"},
            ),
        ]
    )


def result(store: Store, filters: Filters, words: Language) -> Component:
    """Runs the URL's statement, as whoever is here may."""
    try:
        current().require(Action.sql)
        sql = _statement(filters)
        found = answer_of(store, current(), sql)
    except LedgerError as error:
        return _refused(error, words)
    columns = [_column(number, column.name, column.is_number, words) for number, column in enumerate(found.columns)]
    rows = [{f"c{number}": value for number, value in enumerate(row)} for row in found.rows]
    what = "explore.cut" if found.is_cut else "explore.rows_one" if len(rows) == 1 else "explore.rows"
    said = words(what, n=f"{len(rows):,}", ms=f"{found.ms:,}")
    chart, charted = chart_of(found, words) or (None, len(rows))
    left_out = words("explore.not_charted", n=f"{charted:,}", all=f"{len(rows):,}") if charted < len(rows) else ""
    return parts.card(
        _title(sql, filters, words),
        said,
        parts.graph(chart, words("explore.chart"), "explore-chart", 280) if chart is not None else None,
        html.P(left_out, className="gl-note") if left_out else None,
        grids.grid(columns, rows, words, "explore-grid", empty=words("explore.no_rows")),
        tool=_exports(sql, words),
        class_name="gl-table-card",
    )


def _exports(sql: str, words: Language) -> Component:
    """All of the answer, made again by the endpoint; the table shows its beginning."""
    asked = [(name, "/sql?" + urlencode({"query": sql, "default_format": kind})) for name, kind in FORMATS]
    return forms.links(words("explore.export"), [(name, href, f"answer.{name.lower()}") for name, href in asked])


def _refused(error: LedgerError, words: Language) -> Component:
    return parts.card(
        words("explore.refused"),
        words("explore.refused_is"),
        html.Pre(error.what, className="gl-command gl-error", role="alert"),
        html.P(error.next_step, className="gl-note") if error.next_step else None,
    )


def _column(number: int, name: str, is_number: bool, words: Language) -> grids.Column:
    """An empty text is named as in the chart's legend."""
    field = f"c{number}"
    if is_number:
        return grids.number(field, name, shape=",.6~f", minimum=110)
    formatter = {"function": f"params.value == null || params.value === '' ? '{words('explore.blank')}' : params.value"}
    shown = {"valueFormatter": formatter, "context": {"formatter": formatter}}
    return {**grids.text(field, name), "cellDataType": False, **shown}


def callbacks(app: Dash, ask: Ask) -> None:
    async def run(_: Sequence[str], search: str) -> Any:
        return await ask(result, search)

    app.callback(Output("explore-result", "children"), Input("explore-asked", "data"), State("url", "search"))(run)
    app.clientside_callback(
        ClientsideFunction("glforms", "run"),
        Output("url", "search", allow_duplicate=True),
        Input("explore-run", "n_clicks"),
        State("url", "search"),
        prevent_initial_call=True,
    )


PAGE = Page(
    "/explore",
    "explore.title",
    70,
    layout,
    icon="M4 5h16v14H4zM8 10l3 2.5L8 15M13 15.5h4",
    callbacks=callbacks,
    filters=(),
    has_period=False,
    needs_books=False,
    refreshes=False,
    action=Action.sql,
)
