"""Capacity: GPUs requested and allocated hour by hour, how long jobs waited depending on what was free, and what other
GPUs would have changed.

Available capacity and what-if are hidden from users who see some tenants only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from billing.insights.capacity import ASKED, BANDS, HOURS, Capacity, GroupLine, Question, Waits, capacity, demand
from dashboards import exports, figures, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration, fixed, hours, percent
from dashboards.languages import Language
from dashboards.pages.capacity.what_if import callbacks, name_of, unknown_group, what_if_card
from dashboards.parts import Figure
from dashboards.registry import Page
from warehouse.store import Store

HELD, WAITING, AVAILABLE = "#3f6ce6", "#f09a2e", "#22a38b"
P50, P95 = "#3f6ce6", "#9fb4f4"
DAYS_DRAWN = timedelta(days=62)
"""Of longer periods the chart has days."""
Rows = Sequence[Mapping[str, Any]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    found, rows = filters.at_once(
        store, lambda on: capacity(question(on, filters)), lambda on: demand(question(on, filters))
    )
    may_see = current().may(Action.see_fleet)
    note = None if may_see else parts.chip(words("capacity.own"), words("capacity.own_is"), state="")
    return parts.page(
        parts.titles(filters, words, words("capacity.title"), unknown_group(found.groups, filters, words), note),
        _headline(rows, found, filters, words),
        _demand_card(rows, filters, words),
        what_if_card(found.groups, filters, words) if may_see else None,
        _free_card(found, words) if may_see else None,
        _groups_card(found.groups, may_see, filters, words),
    )


def question(store: Store, filters: Filters) -> Question:
    """The page's, whose answers are cached."""
    if filters.period is None:
        raise filters.nothing_closed()

    def ask(name: str, **params: Any) -> Rows:
        if name == HOURS:
            return filters.rows_of_hours(store, ASKED, name, **params)
        rows = filters.rows_now if name == "sees_all" else filters.rows
        return rows(store, ASKED, name, **params)

    start, end = filters.period.start, filters.period.end
    closed = [(hour, run) for hour, run, _, _ in filters.closed.within(start, end)]
    return Question(start, end, closed, ask)


def _headline(rows: Rows, found: Capacity, filters: Filters, words: Language) -> Component:
    average = {name: averaged(rows, name) for name in ("allocated", "waiting", "available", "capacity")}
    peak = max(rows, key=_requested, default=None)
    waits = found.total
    unsized = averaged(rows, "waiting_unsized") or 0
    return parts.headline(
        [
            Figure(words("capacity.allocated"), _gpus(average["allocated"]), words("unit.gpus"),
                   words("capacity.of_capacity", gpus=_gpus(average["available"]),
                         share=percent(average["allocated"], average["capacity"]))
                   if average["capacity"] else words("capacity.on_average")),
            Figure(words("capacity.waiting"), _gpus(average["waiting"]), words("unit.gpus"),
                   words("capacity.unsized", n=_gpus(unsized)) if unsized >= 0.05 else words("capacity.on_average")),
            Figure(words("capacity.peak"), _gpus(_requested(peak) if peak else None), words("unit.gpus"),
                   words.moment(filters.local(peak["step"])) if peak else ""),
            Figure(words("capacity.waited"), percent(waits.waited, waits.jobs), words("capacity.of_jobs"),
                   words.count("capacity.jobs_counted", waits.jobs)),
            Figure(words("capacity.p95"), duration(waits.p95_seconds, words), "",
                   words("capacity.median", wait=duration(waits.median_seconds, words))),
            Figure(words("capacity.gpu_hours_waited"), hours(waits.waited_gpu_hours if waits.jobs else None),
                   words("unit.gpu_hours"),
                   words.count("capacity.unsubmitted", waits.unsubmitted) if waits.unsubmitted else ""),
        ]
    )  # fmt: skip


def _requested(row: Mapping[str, Any]) -> float:
    return float(row["allocated"] + row["waiting"])


def averaged(rows: Rows, name: str) -> float | None:
    """Of all that is closed; None: unknown, or nothing is."""
    if not rows or any(row[name] is None for row in rows):
        return None
    return float(sum(row[name] * row["hours"] for row in rows) / sum(row["hours"] for row in rows))


def _gpus(value: float | None) -> str:
    return UNKNOWN if value is None else fixed(value, 1) if value < 1000 else fixed(value, 0)


def _demand_card(rows: Rows, filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    by_day = filters.period.end - filters.period.start > DAYS_DRAWN
    grain: figures.Grain = "day" if by_day else "hour"
    heads = [
        f"{words('workload.hour')} (UTC)",
        *(
            exports.with_unit(words(f"capacity.{name}"), words("unit.gpus"))
            for name in ("allocated", "waiting", "available")
        ),
    ]
    full = [[row["step"], row["allocated"], row["waiting"], row["available"]] for row in rows]
    return parts.card(
        words("capacity.demand"),
        words("capacity.demand_is" if any(row["available"] is not None for row in rows) else "capacity.demand_own"),
        parts.graph(drawn(by_days(rows, filters) if by_day else rows, filters, grain, words), words("capacity.demand"),
                    "capacity-demand", 300),
        tool=exports.of_rows("demand", heads, full, filters, words),
    )  # fmt: skip


def by_days(rows: Rows, filters: Filters) -> Rows:
    """Averages of days of the billing zone."""
    days: dict[Any, list[Mapping[str, Any]]] = {}
    for row in rows:
        days.setdefault(filters.local(row["step"]).date(), []).append(row)
    names = ("allocated", "waiting", "available")
    return [{"step": found[0]["step"], **{name: averaged(found, name) for name in names}} for found in days.values()]


def drawn(rows: Rows, filters: Filters, grain: figures.Grain, words: Language) -> figures.Chart:
    """GPUs allocated and waited for, stacked; what was available as a line, which ends where nothing is closed."""
    local = [filters.local(row["step"]) for row in rows]
    if grain == "day":
        local = [at.replace(hour=0, minute=0) for at in local]
    at = figures.axis_times(local, grain)
    traces: list[dict[str, Any]] = [
        {"type": "bar", "x": at, "y": [row[name] for row in rows], "name": words(f"capacity.{name}"),
         "marker": {"color": colour, "line": {"width": 0}}, "hovertemplate": "%{y:,.1f}"}
        for name, colour in (("allocated", HELD), ("waiting", WAITING))
    ]  # fmt: skip
    if any(row["available"] is not None for row in rows):
        x, y = with_gaps(at, [row["available"] for row in rows], timedelta(days=1 if grain == "day" else 0, hours=1))
        traces.append(
            {"type": "scatter", "x": x, "y": y, "name": words("capacity.available"), "mode": "lines",
             "connectgaps": False, "line": {"color": AVAILABLE, "width": 2, "shape": "hvh"},
             "hovertemplate": "%{y:,.1f}"}
        )  # fmt: skip
    legend = {"orientation": "h", "y": 1.16, "x": 0, "traceorder": "normal"}
    margin = {"l": 44, "r": 8, "t": 30, "b": 40}
    return figures.made(traces, words, grain, barmode="stack", bargap=0, showlegend=True, legend=legend, margin=margin)


def with_gaps(
    at: Sequence[datetime], values: Sequence[float | None], step: timedelta
) -> tuple[list[datetime], list[float | None]]:
    """The line, broken where the next point is farther than a step."""
    x: list[datetime] = []
    y: list[float | None] = []
    for place, value in zip(at, values, strict=True):
        if x and place - x[-1] > step:
            x.append(x[-1] + step / 2)
            y.append(None)
        x.append(place)
        y.append(value)
    return x, y


def _free_card(found: Capacity, words: Language) -> Component:
    bands = sorted(found.by_free)
    title = words("capacity.by_free")
    if not bands:
        return parts.card(title, words("capacity.by_free_is"), states.nothing_here(words("capacity.no_jobs")))
    heads = [words(f"capacity.{name}") for name in ("free", "jobs", "waited", "p50", "p95", "gpu_hours_waited")]
    cells = [[band_name(band, words), *_cells(found.by_free[band], words)] for band in bands]
    return parts.card(title, words("capacity.by_free_is"), parts.table(heads, cells, "gl-compare"))


def band_name(band: int, words: Language) -> str:
    first, end = (f"{100 * at:.0f}%" for at in (*BANDS, BANDS[-1])[band : band + 2])
    if band + 1 == len(BANDS):
        return words("capacity.band_from", first=first)
    return words("capacity.band_below", end=end) if band == 0 else words("capacity.band", first=first, end=end)


def _cells(waits: Waits, words: Language) -> list[str]:
    return [
        f"{waits.jobs:,}", percent(waits.waited, waits.jobs), duration(waits.median_seconds, words, whole=False),
        duration(waits.p95_seconds, words, whole=False), hours(waits.waited_gpu_hours),
    ]  # fmt: skip


def _groups_card(lines: Sequence[GroupLine], may_see: bool, filters: Filters, words: Language) -> Component:
    tip = words("capacity.gpu_hours_waited_is")
    columns = [
        grids.wrapped(grids.link("name", words("capacity.group"), minimum=180, flex=280)),
        grids.sorted_by(grids.number("gpu_hours", words("capacity.gpu_hours_waited"), tip, minimum=138)),
        grids.duration(words, "p95", words("capacity.p95"), words("capacity.wait_is")),
        grids.duration(words, "p50", words("capacity.p50"), words("capacity.wait_is")),
        grids.number("jobs", words("capacity.jobs"), words("capacity.jobs_is"), ",d"),
        grids.percent("waited", words("capacity.waited"), words("capacity.waited_is")),
        *(
            [
                grids.number("gpus", words("unit.gpus"), words("capacity.gpus_is"), ",d", minimum=70),
                grids.percent("allocated", words("capacity.allocated"), words("capacity.allocated_is")),
                grids.percent("full", words("capacity.full"), words("capacity.full_is")),
                grids.percent("least_free", words("capacity.least_free"), words("capacity.least_free_is")),
            ]
            if may_see
            else []
        ),
    ]
    several = len({one.cluster for one in lines}) > 1
    rows = [
        {
            "name": name_of(one, lines),
            "href": filters.href(
                "/capacity", pool=one.pool, model=one.model, **({"cluster": one.cluster} if several else {})
            ),
            "gpus": one.gpus,
            "allocated": one.allocated / one.capacity if one.capacity and one.allocated is not None else None,
            "full": one.full_hours / one.hours if one.hours and one.full_hours is not None else None,
            "least_free": one.least_free,
            "jobs": one.waits.jobs,
            "waited": one.waits.waited / one.waits.jobs if one.waits.jobs else None,
            "p50": one.waits.median_seconds,
            "p95": one.waits.p95_seconds,
            "gpu_hours": one.waits.waited_gpu_hours if one.waits.jobs else None,
        }
        for one in lines
    ]
    return parts.card(
        words("capacity.groups"),
        words("capacity.groups_is"),
        grids.grid(
            columns,
            rows,
            words,
            "capacity-grid",
            empty=words("capacity.no_jobs"),
            spare=("least_free", "full", "p50", "jobs"),
        ),
        tool=exports.of_grid("capacity-grid", "capacity", filters, words),
        class_name="gl-table-card",
    )


PAGE = Page(
    "/capacity",
    "capacity.title",
    55,
    layout,
    icon="M4 20V10M10 20V4M16 20v-7M22 20H2M18 6h4M20 4v4",
    callbacks=callbacks,
    refreshes=False,  # under a question that somebody types, or an answer that they read
)
