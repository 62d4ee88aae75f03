"""Waiting jobs and firing alerts, for the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from alerts.deliver import notified_alerts
from alerts.reading import parsed
from alerts.routing import Routing, held_back
from alerts.silences import silences
from dashboards import parts, states
from dashboards.filters import Filters
from dashboards.format import duration, requested_gpus
from dashboards.idle_jobs import on_now
from dashboards.languages import Language
from dashboards.registry import has_page
from dashboards.said import texts_of
from warehouse.store import Store

MOST = 6
"""Alerts shown; their own page has all."""
SEVERITIES = ("critical", "warning", "info")
Row = Mapping[str, Any]


def waits_card(store: Store, filters: Filters, words: Language) -> Component:
    """Queues of the period: how long was waited, and who still waits."""
    rows = filters.rows(store, __file__, "waits") if filters.any_submitted(store) else []
    columns = [words(f"waits.{name}") for name in ("queue", "waiting", "gpus", "started", "median", "p95")]
    cells = [
        (
            _queue(row["queue"], filters, words),
            f"{row['waiting']:,}",
            requested_gpus(row["waiting"], row["waiting_gpus"], row["waiting_unsized"]),
            f"{row['started']:,}",
            duration(row["median_seconds"], words, whole=False),
            duration(row["p95_seconds"], words, whole=False),
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
    firing = filters.rows_now(store, __file__, "firing", with_evidence=int(words.code != "en"))
    sent = _sent(store, filters, firing)
    found, suppressed = sent[:MOST], len(firing) - len(sent)
    counted = {name: sum(alert["severity"] == name for alert in sent) for name in SEVERITIES}
    content = (
        html.Ul(
            [
                html.Li(
                    [
                        html.Span(className=f"gl-dot gl-{alert['severity']}"),
                        html.Span(
                            [
                                html.Strong(_rule(parsed(alert), filters)),
                                html.Small(texts_of(parsed(alert), filters, words).get("summary", "")),
                            ]
                        ),
                        html.Small(words.moment(filters.local(alert["active_at"])), className="gl-since"),
                    ],
                )
                for alert in found
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
    more = len(sent) - len(found)
    notes = [words.count("fires.more", more)] if more else []
    if suppressed:
        notes.append(words.count("fires.suppressed", suppressed))
    links = [
        dcc.Link(words(f"fires.{name}"), href=href)
        for name, path, href in (
            ("all", "/alerts", filters.href("/alerts")),
            ("idle", "/now", filters.href("/now", idle="1")),
        )
        if has_page(path)
    ]
    foot = html.P(
        [*map(html.Span, notes), *links],
        className="gl-note gl-apart",
    )
    return parts.card(
        words("fires.title"), words("fires.is"), content, foot if notes or links else None, tool=said, id="alerts"
    )


def _sent(store: Store, filters: Filters, found: Sequence[Row]) -> Sequence[Row]:
    """Without the suppressed ones, which are mostly about what a worse one names already; all, where all are."""
    if len(found) < 2:
        return found
    now = datetime.now(UTC)
    with filters.whole_store(store) as whole:
        quiet = held_back(notified_alerts(whole, now), Routing(), silences(whole, now), now)
    return [one for one in found if one["fingerprint"] not in quiet] or found


def _rule(alert: Row, filters: Filters) -> Component | str:
    """An idle holder's leads to its job on Now, any other one's to its alerts."""
    name = alert["rule"]
    if href := on_now(name, alert["labels"], filters):
        return dcc.Link(name, href=href)
    return dcc.Link(name, href=filters.href("/alerts", rule=name)) if has_page("/alerts") else name
