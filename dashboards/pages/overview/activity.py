"""Waiting jobs and firing alerts, for the overview."""

from __future__ import annotations

from dash import dcc, html
from dash.development.base_component import Component

from dashboards import parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration
from dashboards.languages import Language
from dashboards.registry import has_page
from warehouse.store import Store

MOST = 6
"""Alerts shown; their own page has all."""
SEVERITIES = ("critical", "warning", "info")


def waits_card(store: Store, filters: Filters, words: Language) -> Component:
    """Queues of the period: how long was waited, and who still waits."""
    rows = filters.rows(store, __file__, "waits")
    columns = [words(f"waits.{name}") for name in ("queue", "waiting", "gpus", "started", "median", "p95")]
    cells = [
        (
            _queue(row["queue"], filters, words),
            f"{row['waiting']:,}",
            "0" if not row["waiting"] else UNKNOWN if row["waiting_gpus"] is None else f"{row['waiting_gpus']:,.4g}",
            f"{row['started']:,}",
            duration(row["median_seconds"]),
            duration(row["p95_seconds"]),
        )
        for row in rows
    ]
    content = parts.table(columns, cells) if rows else states.nothing_here(words("waits.none"))
    return parts.card(words("waits.title"), words("waits.is"), content)


def _queue(name: str, filters: Filters, words: Language) -> Component | str:
    said = name or words("no_name")
    return dcc.Link(said, href=filters.href("/queues", queue=name)) if has_page("/queues") else said


def is_evaluated(store: Store, filters: Filters) -> bool:
    """Whether alert rules were ever evaluated, as far as the reader may know."""
    return bool(filters.rows_now(store, __file__, "evaluations")[0]["evaluations"])


def alerts_card(store: Store, filters: Filters, words: Language) -> Component:
    """What fires now, the worst first; of the tenants chosen, where any are."""
    if not is_evaluated(store, filters):
        return parts.card(
            words("fires.title"), words("fires.is"), states.nothing_here(words("fires.not_evaluated")), id="alerts"
        )
    found = filters.rows_now(store, __file__, "firing")
    counted = {name: sum(alert["severity"] == name for alert in found) for name in SEVERITIES}
    content = (
        html.Ul(
            [
                html.Li(
                    [
                        html.Span(className=f"gl-dot gl-{alert['severity']}"),
                        html.Span(
                            [
                                html.Strong(alert["rule"]),
                                html.Small(alert["summary"]),
                            ]
                        ),
                        html.Small(words.moment(filters.local(alert["active_at"])), className="gl-since"),
                    ],
                )
                for alert in found[:MOST]
            ],
            className="gl-quality gl-fires",
        )
        if found
        else states.nothing_here(words("fires.none"))
    )
    said = html.Ul(
        [
            html.Li([html.Span(className=f"gl-dot gl-{name}"), f"{number} {words(f'severity.{name}')}"])
            for name, number in counted.items()
            if number
        ],
        className="gl-legend",
    )
    more = len(found) - MOST
    link = dcc.Link(words("fires.all"), href=filters.href("/alerts")) if has_page("/alerts") else None
    foot = html.P([words.count("fires.more", more) if more > 0 else "", " ", link or ""], className="gl-note")
    return parts.card(
        words("fires.title"), words("fires.is"), content, foot if more > 0 or link else None, tool=said, id="alerts"
    )
