"""Alerts: firing ones with their cause and owner, history, silences, and notifications."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from dash import ALL, MATCH, Dash, Input, Output, State, ctx, html, no_update
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from alerts.evaluate import CATCH_UP
from alerts.reading import alerts, parsed
from alerts.routing import Silence
from alerts.silences import silences
from dashboards import exports, figures, grids, parts, states
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.pages.alerts import silencing
from dashboards.pages.alerts.active import OPENS, WHY, active_card, why
from dashboards.pages.alerts.linked import linked_note
from dashboards.pages.overview.activity import is_evaluated
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from dashboards.said import texts_of
from warehouse.store import Store

MOST = 400
"""Rows of the history."""
NOT_EVALUATED = "rgba(126,141,166,0.16)"
"""Where the history knows nothing, since no rule was evaluated."""
SEVERITIES = {"critical": "#c4352f", "warning": "#f09a2e", "info": "#3f6ce6"}
STEPS = {"day": timedelta(days=1), "hour": timedelta(hours=1)}
_MOMENT = timedelta(microseconds=1)
Rows = Sequence[Mapping[str, Any]]
Spans = Sequence[tuple[datetime, datetime]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    now = datetime.now(UTC)
    may_silence, sees_fleet = current().may(Action.silence), current().may(Action.see_fleet)
    rule = filters.more.get("rule", "")
    found, evaluated, history, (quiet, targets) = filters.at_once(
        store,
        lambda on: active(on, filters, now),
        lambda on: is_evaluated(on, filters),
        lambda on: _history(on, filters, words) if filters.period else (),
        lambda on: _notified(on, filters, now, rule) if sees_fleet else ([], []),
    )
    begun = next((one for one in found if one["fingerprint"] == filters.more.get("silence")), None)
    silences_part = silencing.silences_card(quiet, filters, now, begun, may_silence, words) if sees_fleet else None
    return parts.page(
        parts.titles(
            filters,
            words,
            words("alerts.title"),
            None if begun else parts.ignored(filters, words, "silence"),
            _of_rule(filters, words),
        ),
        _headline(found, len(quiet) if sees_fleet else None, targets, evaluated, words),
        silences_part if begun else None,
        active_card(found, filters, now, evaluated, may_silence, words, linked_note(store, found, filters, words)),
        *history,
        *_below(
            _deliveries_card(targets, filters, words) if sees_fleet and filters.period else None,
            None if begun else silences_part,
        ),
    )


def _notified(store: Store, filters: Filters, now: datetime, rule: str) -> tuple[list[Silence], Rows]:
    """The silences, and the targets that notifications went to."""
    return silences(filters.remembered(store), now), filters.rows(
        store, __file__, "deliveries", rule=rule
    ) if filters.period else []


def _of_rule(filters: Filters, words: Language) -> Component | None:
    """Which rule's alerts alone are shown."""
    rule = filters.more.get("rule", "")
    return parts.chip(words("alerts.of_one_rule", rule=rule), state="gl-info") if rule else None


def _below(*cards: Component | None) -> list[Component]:
    """Side by side where there are two."""
    found = [one for one in cards if one is not None]
    return [parts.split(*found)] if len(found) > 1 else found


def active(store: Store, filters: Filters, now: datetime) -> list[dict[str, Any]]:
    """Firing and pending alerts, as of now; filtered by tenants, clusters, and `?rule=`."""
    wanted = {name: filters.address.chosen.get(name, ()) for name in FILTERS}
    with filters.whole_store(store) as whole:
        found = alerts(filters.remembered(store), now, rule=filters.more.get("rule", ""), whole=whole)
    return [
        one
        for one in found
        if all(not values or one["labels"].get(name, "") in values for name, values in wanted.items())
    ]


def _why(store: Store, filters: Filters, words: Language, fingerprint: str) -> list[Component]:
    found = (one for one in active(store, filters, datetime.now(UTC)) if one["fingerprint"] == fingerprint)
    return why(next(found, None), filters, current().may(Action.silence), words)


def _headline(found: Rows, silenced: int | None, targets: Rows, evaluated: bool, words: Language) -> Component:
    def count(severity: str) -> str:
        firing = [one for one in found if one["state"] == "firing" and one["severity"] == severity]
        return f"{len(firing):,}" if evaluated else "–"

    def of_which(severity: str) -> str:
        quiet = sum(one["severity"] == severity and bool(one["held_back"]) for one in found if one["state"] == "firing")
        return words("alerts.firing_some", n=f"{quiet:,}") if quiet else words("alerts.firing")

    held_back = [one["held_back"] for one in found if one["held_back"] and one["state"] == "firing"]
    pending = sum(one["state"] == "pending" for one in found)
    shown = [Figure(words(f"alerts.{name}"), count(name), "", of_which(name)) for name in SEVERITIES]
    shown.append(Figure(words("alerts.pending"), f"{pending:,}" if evaluated else "–", "", words("alerts.pending_is")))
    if silenced is not None:
        shown.append(
            Figure(
                words("alerts.held_back"),
                f"{len(held_back):,}" if evaluated else "–",
                "",
                _held_back_by(held_back, words) or words.count("alerts.in_force", silenced),
            )
        )
        failing = sum(row["last_outcome"] != "sent" for row in targets)
        shown.append(
            Figure(
                words("alerts.targets"),
                f"{len(targets):,}" if targets else "–",
                "",
                words.count("alerts.failing", failing) if targets else words("alerts.nobody_notified"),
            )
        )
    return parts.headline(shown)


def _held_back_by(reasons: Sequence[str], words: Language) -> str:
    """How many of them are silenced, acknowledged, inhibited; '' of none."""
    counted = (
        (name, sum(why.startswith(name) for why in reasons)) for name in ("inhibited", "silenced", "acknowledged")
    )
    return words("part.break").join(words(f"alerts.{name}_some", n=f"{number:,}") for name, number in counted if number)


def _history(store: Store, filters: Filters, words: Language) -> tuple[Component, ...]:
    """Alerts that began to fire in the period: by step, and individually."""
    assert filters.period is not None
    grain: figures.Grain = "day" if filters.period.is_long else "hour"
    rule = filters.more.get("rule", "")
    foreign = int(words.code != "en")
    # How they ended may have been written after the period.
    asked = {**filters.params(), "rule": rule, "most": MOST, "with_evidence": foreign}
    rows = filters.rows_now(store, __file__, "fired", **asked)
    if not rows:
        return (parts.card(words("alerts.history"), words("alerts.history_is"),
                           states.nothing_here(words("alerts.none_fired"))),)  # fmt: skip
    steps = filters.rows(store, __file__, "fired_over_time", rule=rule, grain=grain)
    in_all = rows[0]["in_all"]
    chart = fired_over_time(steps, not_evaluated(store, filters, grain), filters, grain, words)
    return (
        parts.card(
            words("alerts.history"),
            words("alerts.history_is" if in_all <= MOST else "alerts.history_cut", most=MOST, all=f"{in_all:,}"),
            parts.graph(chart, words("alerts.history"), "alerts-fired", 180, legend_above=True),
            grids.grid(
                _columns(words),
                [_row(row, filters, words) for row in rows],
                words,
                "alerts-history",
                spare=("owner", "severity"),
            ),
            tool=exports.of_grid("alerts-history", "alerts", filters, words),
            class_name="gl-table-card",
        ),
    )


def not_evaluated(store: Store, filters: Filters, grain: figures.Grain) -> Spans:
    """Spans of whole days or hours of the period, as far as it is over, in which no alert rule was evaluated; local."""
    now, looks_back = datetime.now(UTC), round(CATCH_UP.total_seconds())
    rows = filters.rows(store, __file__, "not_evaluated", catch_up_seconds=looks_back)
    spans = [(filters.local(row["span_start"]), filters.local(min(row["span_end"], now))) for row in rows]
    found = [(_step(start - _MOMENT, grain) + STEPS[grain], _step(end, grain)) for start, end in spans]
    return [(start, end) for start, end in found if start < end]


def _step(at: datetime, grain: figures.Grain) -> datetime:
    """The begin of its day or hour."""
    return at.replace(hour=0 if grain == "day" else at.hour, minute=0, second=0, microsecond=0)


def fired_over_time(rows: Rows, gaps: Spans, filters: Filters, grain: figures.Grain, words: Language) -> figures.Chart:
    """How many began to fire in each step, by severity.   gaps: where nobody looked; grey, for unknown is no zero."""
    assert filters.period is not None
    zone = ZoneInfo(filters.zone)
    width = 86_400_000 if grain == "day" else 3_600_000
    traces: list[dict[str, Any]] = []
    for name, colour in reversed(SEVERITIES.items()):
        of = [row for row in rows if row["severity"] == name]
        if not of:
            continue
        traces.append(
            {
                "type": "bar",
                "x": figures.axis_times([row["step"].astimezone(zone) for row in of], grain),
                "y": [row["fired"] for row in of],
                "name": words(f"alerts.{name}"),
                "marker": {"color": colour, "line": {"width": 0}},
                "hovertemplate": "%{y:,d}",
                "width": 0.86 * width,
            }
        )
    ends = figures.axis_times([filters.local(filters.period.start), filters.local(filters.period.end)], grain)
    half = timedelta(milliseconds=width / 2)
    if gaps:
        grey = {"color": NOT_EVALUATED}
        traces.append({"type": "bar", "x": [None], "y": [None], "name": words("alerts.not_evaluated"), "marker": grey})
    return figures.made(
        traces,
        words,
        grain,
        xaxis={"range": [ends[0] - half, ends[1] - half]},
        yaxis={"tickformat": ",d", "dtick": None if max(row["fired"] for row in rows) > 4 else 1},
        barmode="stack",
        bargap=0.14,
        showlegend=True,
        shapes=[_grey(span, filters, grain) for span in gaps],
    )


def _grey(span: tuple[datetime, datetime], filters: Filters, grain: figures.Grain) -> dict[str, Any]:
    """Behind the bars of a span's steps, which stand around the step's begin."""
    assert filters.period is not None
    x = figures.axis_times([filters.local(filters.period.start), *span], grain)[1:]
    x0, x1 = ((at - STEPS[grain] / 2).isoformat() for at in x)
    return {"type": "rect", "layer": "below", "xref": "x", "yref": "paper", "x0": x0, "x1": x1, "y0": 0, "y1": 1,
            "fillcolor": NOT_EVALUATED, "line": {"width": 0}}  # fmt: skip


def _columns(words: Language) -> list[grids.Column]:
    return [
        grids.moment("since", words("alerts.fired_at"), flex=0.7),
        grids.text("severity", words("alerts.severity"), minimum=90, flex=0.5),
        grids.link("name", words("alerts.rule"), minimum=150, flex=1.1),
        grids.sentence("summary", words("alerts.summary"), minimum=240, flex=640),
        grids.text("owner", words("alerts.owner"), minimum=100, flex=0.8),
        grids.duration(words, "lasted", words("alerts.lasted"), words("alerts.lasted_is")),
    ]


def _row(row: Mapping[str, Any], filters: Filters, words: Language) -> dict[str, Any]:
    ended = row["resolved_at"]
    return {
        "since": filters.local(row["since"]),
        "severity": words(f"severity.{row['severity']}"),
        "name": row["rule"],
        "href": filters.href("/alerts", rule=row["rule"]),
        "summary": texts_of(parsed(row), filters, words).get("summary", ""),
        "owner": row["owner"],
        "lasted": (ended - row["since"]).total_seconds() if ended else None,
        "lasted_text": "" if ended else words.of(f"alerts.{row['state']}", ""),
    }


def _deliveries_card(targets: Rows, filters: Filters, words: Language) -> Component:
    heads = [words(f"alerts.{name}") for name in ("target", "reported", "sent", "failed", "last")]
    cells = [
        [
            row["target"],
            f"{row['alerts']:,}",
            f"{row['sent']:,}",
            f"{row['failed']:,}",
            html.Span(
                [
                    words.of(f"alerts.outcome_{row['last_outcome']}", row["last_outcome"]),
                    html.Br(),
                    words.moment(filters.local(row["last_at"])),
                ]
            ),
        ]
        for row in targets
    ]
    wrong = [row for row in targets if row["detail"]]
    notes = [f"{row['target']}: {row['detail']}" for row in wrong[:5]]
    return parts.card(
        words("alerts.deliveries"),
        words("alerts.deliveries_is"),
        parts.table(heads, cells) if cells else states.nothing_here(words("alerts.no_deliveries")),
        *[html.P(note, className="gl-note") for note in notes],
    )


def callbacks(app: Dash, ask: Ask) -> None:
    async def opened(clicks: int | None, search: str) -> Any:
        which = ctx.triggered_id
        if clicks != 1 or not which:  # it was not opened, or says it already
            return no_update
        return await ask(_why, search, which["alert"])

    app.callback(
        Output({"type": WHY, "alert": MATCH}, "children"),
        Input({"type": OPENS, "alert": MATCH}, "n_clicks"),
        State("url", "search"),
        prevent_initial_call=True,
    )(opened)

    async def added(clicks: int | None, matchers: str, span: str, reason: str, search: str) -> Any:
        if not clicks:
            return no_update, no_update
        return await ask(silencing.add, search, matchers or "", span or "", reason or "")

    async def ended(clicks: Sequence[int | None], search: str) -> Any:
        which = ctx.triggered_id
        if not which or not any(clicks):
            return no_update
        return await ask(silencing.end, search, which["silence"])

    app.callback(
        Output("alerts-silences", "children"),
        Output("silence-said", "children"),
        Input("silence-add", "n_clicks"),
        State("silence-matchers", "value"),
        State("silence-span", "value"),
        State("silence-reason", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )(added)
    app.callback(
        Output("alerts-silences", "children", allow_duplicate=True),
        Input({"type": "silence-end", "silence": ALL}, "n_clicks"),
        State("url", "search"),
        prevent_initial_call=True,
    )(ended)


FILTERS = ("tenant", "cluster")
PAGE = Page(
    "/alerts",
    "alerts.title",
    70,
    layout,
    icon="M6 9a6 6 0 0 1 12 0c0 6 2.500 7 2.500 7h-17S6 15 6 9zM10 20a2.200 2.200 0 0 0 4 0",
    callbacks=callbacks,
    filters=FILTERS,
    needs_books=False,
)
