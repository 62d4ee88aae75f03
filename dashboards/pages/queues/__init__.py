"""Queues: who waits and why, how long jobs waited, who preempted whom, and what keeps waiting jobs from idle GPUs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from dash import html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from dashboards import exports, figures, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, duration, fixed, gpu_count, percent, requested_gpus
from dashboards.languages import Language
from dashboards.objectives import all_series
from dashboards.pages.queues.longest import longest, longest_card
from dashboards.pages.queues.matrix import preemptions_card
from dashboards.pages.queues.waiters import known_until, said_at, waiters_card, waiting
from dashboards.parts import Figure
from dashboards.registry import Page
from scheduler.words import said
from warehouse.store import Store

SHAPE = re.compile(r"(?P<n>\d+) GPUs?( of (?P<models>.+))?")
"""A request as the scheduler names it (scheduler/exposition.py)."""
DRAWN = 14
"""Queues in a chart; the table has all."""
FEW = 5
"""Waiting jobs of a queue, up to which the axis has a tick for each."""
CAUSES = 9
"""Reasons with a colour of their own."""
TICKS = (1, 10, 60, 600, 3600, 6 * 3600, 48 * 3600, 14 * 86_400)
"""Of the axis of waits, seconds."""
NAMED = frozenset({1, 60, 3600, 48 * 3600, 14 * 86_400})
"""Those among them that a phone has room for."""
CATEGORIES = {"showgrid": False, "automargin": True, "dtick": 1, "type": "category"}
"""An axis of names."""
LATE, P50, P95, P99 = "#c4352f", "#3f6ce6", "#7f9cf0", "#b4c4f6"
Rows = Sequence[Mapping[str, Any]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    objectives = {row["kind"] for row in filters.rows_now(store, __file__, "kinds")}
    end = known_until(store, filters)
    submitted = filters.any_submitted(store)
    (rows, longest_ones), waiters, reported, taken = filters.at_once(
        store,
        lambda on: _waits(on, filters, objectives, end) if submitted else ([], []),
        lambda on: waiting(on, filters, at=end) if submitted else [],
        lambda on: filters.rows(on, __file__, "scheduler"),
        lambda on: preemptions(on, filters),
    )
    sees_fleet = current().may(Action.see_fleet)
    title = parts.titles(filters, words, words("queues.title"))
    if not rows and not reported and not taken:
        return parts.page(title, states.nothing(words("queues.title"), words("queues.none")))
    quota = _quota_card(store, reported, filters, sees_fleet and "quota_redemption" in objectives, words)
    at = said_at(end, filters, words)
    why_card = _why_card(rows, reported, at, filters, words)
    is_whole = {"tenant", "project", "queue"}.isdisjoint(filters.address.chosen)
    return parts.page(
        title,
        _headline(rows, taken, at, words),
        _waits_card(rows, words)
        if why_card is None
        else parts.split(_waits_card(rows, words), why_card, class_name="gl-even"),
        waiters_card(waiters, end, filters, words) if waiters else None,
        longest_card(longest_ones, filters, words),
        _table_card(rows, at, filters, words),
        *_beside(preemptions_card(taken, filters, words) if taken else None, quota),
        # What a scheduler says of all it places is no part's.
        _fragmentation_card(store, reported, filters, words) if sees_fleet and is_whole else None,
    )


def _beside(*cards: Component | None) -> Sequence[Component]:
    """Side by side where there are both: one alone would leave half of its row empty."""
    shown = [card for card in cards if card is not None]
    return [parts.split(*shown, class_name="gl-even")] if len(shown) > 1 else shown


def _waits(store: Store, filters: Filters, objectives: Container[str], end: datetime) -> tuple[Rows, Rows]:
    """Of each queue, and the longest of them."""
    rows = by_queue(store, filters, objectives, end)
    return rows, longest(store, filters, rows, end)


def by_queue(store: Store, filters: Filters, objectives: Container[str], end: datetime) -> Rows:
    """The rows of by_queue.sql. objectives: the kinds that there are; what none needs is not asked for."""
    bounds = filters.rows(store, __file__, "bounds", end=end) if "queue_wait" in objectives else []
    clusters, queues, seconds = ([row[name] for row in bounds] for name in ("cluster", "queue", "bound"))
    return filters.rows(
        store, __file__, "by_queue", end=end, bound_clusters=clusters, bound_queues=queues, bounds=seconds
    )


def preemptions(store: Store, filters: Filters) -> Rows:
    """The rows of preemptions.sql, whose planning costs more than to see that there is none."""
    (found,) = filters.rows(store, __file__, "preempted")
    return filters.rows(store, __file__, "preemptions") if found["preemptions"] else []


def _headline(rows: Rows, taken: Rows, at: str, words: Language) -> Component:
    """at: as of when jobs wait."""
    waiting, started = (sum(row[name] for row in rows) for name in ("waiting", "started"))
    asked = [row["waiting_gpus"] for row in rows if row["waiting_gpus"] is not None]
    oldest = max((row for row in rows if row["waiting"]), key=lambda row: row["oldest_seconds"], default=None)
    slowest = max((row for row in rows if row["started"]), key=lambda row: row["p95"], default=None)
    bound = [row for row in rows if row["late"] is not None]
    late, counted = (sum(row[name] for row in bound) for name in ("late", "judged"))
    unsized = sum(row["waiting_unsized"] for row in rows)
    gpus = gpu_count(sum(asked)) if asked else "0" if not waiting else UNKNOWN
    return parts.headline(
        [
            Figure(words("queues.waiting"), f"{waiting:,}", words.count("queues.jobs", waiting), at),
            Figure(
                words("queues.asked"),
                gpus,
                words("unit.gpus"),
                words.count("queues.asked_unsized", unsized) if unsized else words("queues.asked_is"),
            ),
            Figure(
                words("queues.oldest"),
                duration(oldest["oldest_seconds"] if oldest else None, words),
                "",
                oldest["queue"] or words("no_name") if oldest else words("queues.none_waiting"),
            ),
            Figure(
                words("queues.started"), f"{started:,}", words.count("queues.jobs", started), words("queues.started_is")
            ),
            Figure(
                words("queues.p95_wait"),
                duration(slowest["p95"] if slowest else None, words),
                "",
                _slowest_is(slowest, rows, words) if slowest else "",
            ),
            Figure(
                words("queues.late"),
                percent(late, counted) if bound else UNKNOWN,
                "",
                words("queues.late_jobs", n=f"{late:,}", all=f"{counted:,}") if bound else words("queues.no_bound"),
            ),
            Figure(words("queues.preempted"), f"{sum(row['taken'] for row in taken):,}", "", words("queues.lost")),
        ]
    )


def _slowest_is(slowest: Mapping[str, Any], rows: Rows, words: Language) -> str:
    """Which queue the percentile is of; its median, where there is no other queue."""
    if len(rows) == 1:
        return words("queues.median_is", wait=duration(slowest["p50"], words))
    return words("queues.slowest", queue=slowest["queue"] or words("no_name"))


def _waits_card(rows: Rows, words: Language) -> Component:
    shown = [row for row in rows if row["started"]]
    shown = sorted(shown, key=lambda row: -row["started"])[:DRAWN]
    if not shown:
        content = states.nothing_here(words("queues.nothing_began"))
    else:
        height = 70 + 26 * len(shown)
        content = parts.graph(
            waits(shown, words), words("queues.waits"), "queues-waits", max(180, height), legend_above=True
        )
    return parts.card(words("queues.waits"), words("queues.waits_is"), content)


def waits(rows: Rows, words: Language) -> figures.Chart:
    """Median, 95th and 99th percentile of each queue, and its bound where an objective sets one; a second at least."""
    names = [row["queue"] or words("no_name") for row in rows][::-1]
    found = rows[::-1]
    x: list[float | None] = []
    y: list[str | None] = []
    for name, row in zip(names, found, strict=True):
        x += [max(1.0, row["p50"]), max(1.0, row["p99"]), None]
        y += [name, name, None]
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "x": x, "y": y, "mode": "lines", "line": {"width": 6, "color": figures.GRID},
         "hoverinfo": "skip", "showlegend": False}
    ]  # fmt: skip
    for key, colour in (("p50", P50), ("p95", P95), ("p99", P99)):
        traces.append(
            {
                "type": "scatter",
                "x": [max(1.0, row[key]) for row in found],
                "y": names,
                "mode": "markers",
                "name": words(f"queues.{key}"),
                "marker": {"size": 11, "color": colour, "line": {"width": 0}},
                "customdata": [duration(row[key], words) for row in found],
                "hovertemplate": f"%{{y}}{words('part.colon')}%{{customdata}}",
            }
        )
    with_bound = [(name, row["bound"]) for name, row in zip(names, found, strict=True) if row["bound"] is not None]
    if with_bound:
        traces.append(
            {
                "type": "scatter",
                "x": [bound for _, bound in with_bound],
                "y": [name for name, _ in with_bound],
                "mode": "markers",
                "name": words("queues.bound"),
                "marker": {"symbol": "line-ns", "size": 17, "line": {"width": 2.5, "color": LATE}},
                "customdata": [duration(bound, words) for _, bound in with_bound],
                "hovertemplate": f"%{{y}}{words('part.colon')}%{{customdata}}",
            }
        )
    last = max(1.0, *(max(row["p99"], row["bound"] or 0) for row in found))
    ticks = [tick for tick in TICKS if tick <= last * 3]
    first = min(max(1.0, row["p50"]) for row in found)
    if first < 60:  # more than have room are in sight
        ticks = [tick for tick in ticks if tick in NAMED]
    named = [f"{'≤ ' if tick == TICKS[0] else ''}{duration(tick, words)}" for tick in ticks]
    return figures.made(
        traces,
        words,
        xaxis={"type": "log", "tickvals": ticks, "tickangle": 0, "showgrid": True, "gridcolor": figures.GRID,
               "ticktext": named, "tickformat": None},
        yaxis=CATEGORIES,
        hovermode="closest",
        showlegend=True,
        margin={"l": 8, "r": 16, "t": 8, "b": 30},
    )  # fmt: skip


def reasons(rows: Rows, reported: Rows, filters: Filters) -> dict[str, dict[str, int]]:
    """Waiting jobs of each queue by reason: from a scheduler's metrics, else from its events; '' is no reason."""
    narrowed = any(name in filters.address.chosen for name in ("tenant", "project"))
    found: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    queues = filters.address.chosen.get("queue", ())
    for row in reported:
        if row["name"] == "pending_jobs" and not narrowed and (not queues or row["queue"] in queues):
            found[row["queue"]][row["cause"]] += round(row["value"])
    reported_of = set(found)
    for row in rows:
        if row["queue"] not in reported_of:
            for reason, jobs in zip(row["reasons"], row["jobs"], strict=True):
                found[row["queue"]][reason] += jobs
    return {queue: dict(causes) for queue, causes in found.items() if causes}


def _why_card(rows: Rows, reported: Rows, at: str, filters: Filters, words: Language) -> Component | None:
    """None if one job waits at most: the table of those that wait says why it does."""
    found = reasons(rows, reported, filters)
    by_scheduler = any(row["name"] == "pending_jobs" for row in reported)
    subtitle = words("queues.why_is", at=at)
    if by_scheduler:
        subtitle = words("queues.why_at", at=_reported_at(reported, filters, words))
    if sum(sum(causes.values()) for causes in found.values()) < 2:
        return None
    content: Component
    if all(set(causes) == {""} for causes in found.values()):
        content = states.nothing_here(words("queues.no_reasons"))
    else:
        drawn = sorted(found, key=lambda queue: -sum(found[queue].values()))[:DRAWN]
        height = max(180, 70 + 26 * len(drawn))
        chart = why({queue: found[queue] for queue in drawn}, words)
        content = parts.graph(chart, words("queues.why"), "queues-why", height, legend_above=True)
    return parts.card(words("queues.why"), subtitle, content)


def _reported_at(rows: Rows, filters: Filters, words: Language) -> str:
    return words.moment(filters.local(max(row["ts"] for row in rows)))


def why(found: Mapping[str, Mapping[str, int]], words: Language) -> figures.Chart:
    """Waiting jobs of each queue, stacked by reason."""
    sums: dict[str, int] = defaultdict(int)
    for causes in found.values():
        for cause, jobs in causes.items():
            sums[cause] += jobs
    first = sorted(sums, key=lambda cause: -sums[cause])[:CAUSES]
    series = {cause: [found[queue].get(cause, 0) for queue in found] for cause in first}
    rest = [sum(jobs for cause, jobs in found[queue].items() if cause not in first) for queue in found]
    names = [f"{queue or words('no_name')} " for queue in found]
    width = min(0.5, 0.2 * len(names))
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": counts[::-1],
            "y": names[::-1],
            "orientation": "h",
            "width": width,
            "name": said(cause, words.code) or words("queues.no_reason"),
            "hovertemplate": "%{x:,d} %{fullData.name}<extra></extra>",
            "marker": {"color": figures.PALETTE[number] if cause else figures.GRID, "line": {"width": 0}},
        }
        for number, (cause, counts) in enumerate(series.items())
    ]
    if any(rest):
        traces.append(
            {"type": "bar", "width": width, "x": rest[::-1], "y": names[::-1], "orientation": "h",
             "name": words("queues.others"), "marker": {"color": figures.PALETTE[-1], "line": {"width": 0}}}
        )  # fmt: skip
    most = max(sum(causes.values()) for causes in found.values())
    steps = {"dtick": 1} if most <= FEW else {"nticks": 6}
    return figures.made(
        traces,
        words,
        xaxis={"showgrid": True, "gridcolor": figures.GRID, "tickformat": ",d", "rangemode": "tozero", **steps},
        yaxis=CATEGORIES,
        hovermode="closest",
        showlegend=True,
        barmode="stack",
        bargap=0.42,
        margin={"l": 8, "r": 16, "t": 8, "b": 30},
    )


def _table_card(rows: Rows, at: str, filters: Filters, words: Language) -> Component:
    columns = [
        grids.link("name", words("waits.queue")),
        grids.sorted_by(grids.number("waiting", words("queues.waiting"), at, ",d")),
        grids.as_told(grids.number("waiting_gpus", words("waits.gpus"), words("queues.asked_is"), ",.2~f")),
        grids.duration(words, "oldest", words("queues.oldest"), words("queues.oldest_is")),
        grids.number("started", words("queues.started"), words("queues.started_is"), ",d"),
        grids.duration(words, "p50", words("queues.p50")),
        *[grids.duration(words, key, key.upper(), words(f"queues.{key}")) for key in ("p95", "p99")],
        grids.duration(words, "bound", words("queues.bound"), words("queues.bound_is"), whole=True),
        grids.percent("late", words("queues.late"), words("queues.late_is")),
    ]
    shown = [
        {
            "name": row["queue"] or words("no_name"),
            "href": filters.href("/queues", queue=row["queue"]),
            **{name: row[name] for name in ("waiting", "started")},
            "waiting_gpus": row["waiting_gpus"] if row["waiting"] else 0,
            "waiting_gpus_text": requested_gpus(row["waiting"], row["waiting_gpus"], row["waiting_unsized"]),
            "oldest": row["oldest_seconds"],
            **{name: row[name] for name in ("p50", "p95", "p99", "bound")},
            "late": row["late"] / row["judged"] if row["judged"] else None,
        }
        for row in rows
    ]
    return parts.card(
        words("queues.table"),
        words("queues.table_is"),
        grids.grid(columns, shown, words, "queues-grid", spare=("p99", "waiting_gpus")),
        tool=exports.of_grid("queues-grid", "queues", filters, words),
        class_name="gl-table-card",
    )


def _quota_card(
    store: Store, reported: Rows, filters: Filters, has_objectives: bool, words: Language
) -> Component | None:
    """Guaranteed and received GPUs: from the scheduler's metrics, else as objectives measure it. None of a queue's or a
    project's page: guarantees are tenants', in pools."""
    if not {"project", "queue"}.isdisjoint(filters.address.chosen):
        return None
    tenants = filters.address.chosen.get("tenant", ())
    accounts: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in reported:
        if row["tenant"] and (not tenants or row["tenant"] in tenants):
            accounts[row["tenant"], row["pool"]][row["name"]] = row["value"]
    guaranteed = {key: one for key, one in accounts.items() if one.get("tenant_guaranteed_gpus")}
    if guaranteed:
        heads = [words(f"queues.{name}") for name in ("tenant", "guaranteed", "held", "asked", "redeemed", "breach")]
        breach = "breach_gpu_seconds_total"
        reported_as = ("tenant_guaranteed_gpus", "tenant_held_gpus", "tenant_asked_gpus", "quota_redemption_ratio")
        in_full = [
            [tenant, pool, *[one.get(name) for name in reported_as], one[breach] / 3600 if breach in one else None]
            for (tenant, pool), one in sorted(guaranteed.items())
        ]
        units = [*[words("unit.gpus")] * 3, "0–1", words("unit.gpu_hours")]
        exported = [heads[0], words("filter.pool"), *map(exports.with_unit, heads[1:], units)]
        tool = exports.of_rows("quota", exported, in_full, filters, words)
        cells = [
            [
                html.Span([tenant, html.Small(pool) if pool else None]),
                _gpus(one.get("tenant_guaranteed_gpus")),
                _gpus(one.get("tenant_held_gpus")),
                _gpus(one.get("tenant_asked_gpus")),
                percent(one.get("quota_redemption_ratio")),
                UNKNOWN if breach not in one else fixed(one[breach] / 3600, 1),
            ]
            for (tenant, pool), one in sorted(guaranteed.items())
        ]
        said = words("queues.quota_at", at=_reported_at(reported, filters, words))
        return parts.card(words("queues.quota"), said, parts.table(heads, cells, "gl-pairs"), tool=tool)
    measured = [] if not has_objectives or filters.period is None else [
        one for one in all_series(store, filters)
        if one.kind == "quota_redemption" and one.tenant and (not tenants or one.tenant in tenants)
    ]  # fmt: skip
    heads = [words(f"queues.{name}") for name in ("tenant", "target", "redeemed")]
    rows = [[html.Span([one.tenant, html.Small(one.objective)]), percent(one.target), percent(one.sli)]
            for one in measured]  # fmt: skip
    if not rows:
        return parts.card(
            words("queues.quota"), words("queues.quota_is"), states.nothing_here(words("queues.no_quota"))
        )
    in_full = [[one.tenant, one.objective, one.target, one.sli] for one in measured]
    tool = exports.of_rows(
        "quota",
        [heads[0], words("slo.objective"), *(exports.with_unit(head, "0–1") for head in heads[1:])],
        in_full,
        filters,
        words,
    )
    return parts.card(words("queues.quota"), words("queues.quota_slo"), parts.table(heads, rows, "gl-pairs"), tool=tool)


def _gpus(value: float | None) -> str:
    return UNKNOWN if value is None else gpu_count(value)


def _fragmentation_card(store: Store, reported: Rows, filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    grain: figures.Grain = "day" if filters.period.is_long else "hour"
    rows = filters.rows(store, __file__, "fragmentation", grain=grain)
    if not rows:
        return parts.card(words("queues.fragmentation"), words("queues.fragmentation_is"),
                          states.nothing_here(words("queues.no_scheduler")))  # fmt: skip
    gangs = [row for row in reported if row["name"] == "largest_gang_replicas"]
    heads = [words("queues.shape"), words("queues.gang")]
    chart = parts.card(
        words("queues.fragmentation"),
        words("queues.fragmentation_is"),
        parts.graph(
            fragmented(rows, filters, grain, words), words("queues.fragmentation"), "queues-fragmentation", 220
        ),
    )
    if not gangs:
        return chart
    return parts.split(
        chart,
        parts.card(
            words("queues.gangs"),
            words("queues.gangs_is", at=_reported_at(gangs, filters, words)),
            parts.table(heads, [[_shape(row["shape"], words), fixed(row["value"], 0)] for row in gangs[:12]]),
        ),
    )


def fragmented(rows: Rows, filters: Filters, grain: figures.Grain, words: Language) -> figures.Chart:
    """Idle GPUs, and those of them that nothing asked for could use; a gap where nobody reported."""
    assert filters.period is not None
    at = figures.axis_times([filters.local(row["step"]) for row in rows], grain)
    usable = [row["idle"] - row["fragmented"] for row in rows]
    step = timedelta(days=1) if grain == "day" else timedelta(hours=1)
    width = 0.86 * step.total_seconds() * 1000
    traces = [
        {"type": "bar", "x": at, "y": values, "name": words(f"queues.{name}"), "width": width,
         "marker": {"color": colour, "line": {"width": 0}}, "hovertemplate": "%{y:,.1f}"}
        for name, values, colour in (
            ("of_no_use", [row["fragmented"] for row in rows], figures.PALETTE[1]),
            ("of_use", usable, "rgba(126,141,166,0.34)"),
        )
    ]  # fmt: skip
    ends = figures.axis_times([filters.local(at) for at in (filters.period.start, filters.period.end)], grain)
    return figures.made(
        traces,
        words,
        grain,
        xaxis={"range": [end - step / 2 for end in ends]},
        barmode="stack",
        showlegend=True,
        legend={"orientation": "h", "y": 1.2, "x": 0, "traceorder": "normal"},
        margin={"l": 44, "r": 8, "t": 30, "b": 30},
    )


def _shape(name: str, words: Language) -> str:
    """`4 GPUs of a100` in the reader's language; other shapes as the scheduler names them."""
    known = SHAPE.fullmatch(name)
    if known is None:
        return name
    gpus = words.count("queues.shape_gpus", int(known["n"]))
    return words("queues.shape_of", gpus=gpus, models=known["models"]) if known["models"] else gpus


PAGE = Page(
    "/queues",
    "queues.title",
    50,
    layout,
    icon="M4 6h16M4 12h11M4 18h6M18 14v6M15 17l3 3 3-3",
    filters=("tenant", "project", "queue", "cluster"),
)
