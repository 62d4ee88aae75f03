"""The overview: whether the fleet was used, what it cost, what was wasted, and how reliable the numbers are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from dashboards import exports, figures, headline_figures, parts
from dashboards.amounts import Amounts, amounts
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed, hours, money, percent, unbroken
from dashboards.kinds import ALLOCATED, IDLE, KINDS, UNALLOCATED, UNAVAILABLE, UNMETERED, USED, Kind
from dashboards.languages import Language
from dashboards.pages.overview import month
from dashboards.pages.overview.activity import alerts_card, waits_card
from dashboards.pages.overview.quality import quality_card, quality_of
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from warehouse.store import Store

TOP = 10
"""Tenants shown one by one among the costs; their own page has all."""
SLIVER_PX = 3
"""Of a bar at the right end."""
Holders = Sequence[tuple[str, Amounts]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    grain = chosen_grain(filters)
    rows, waits, projects, alerts, quality = filters.at_once(
        store,
        lambda on: filters.rows(on, __file__, "by_tenant", by_project=0),
        lambda on: waits_card(on, filters, words),
        lambda on: _projects(on, filters) if len(filters.address.chosen.get("tenant", ())) == 1 else None,
        lambda on: alerts_card(on, filters, words),
        lambda on: quality_of(on, filters),
    )
    total, tenants = amounts(rows), by_name(rows)
    notes = quality.refused_count + quality.quarantined_count
    return parts.page(
        parts.titles(
            filters,
            words,
            words("overview.title"),
            None if filters.more.get("grain") in ("day", "hour") else parts.ignored(filters, words, "grain"),
            parts.chip(words.count("overview.not_counted", notes), href="#quality") if notes else None,
            coverage=total.coverage,
            unpriced=total.unpriced,
        ),
        _headline(filters, total, words),
        parts.split(
            _waterfall_card(filters, total, words),
            _fleet_card(store, grain, filters, total, words),
            class_name="gl-even",
        ),
        month.month_card(filters, words),
        parts.split(_cost_card(store, tenants, filters, words, projects), alerts),
        parts.split(waits, quality_card(filters, quality, total, words)),
    )


def chosen_grain(filters: Filters) -> figures.Grain:
    """`?grain=day` or `hour`; else days of a long period, and hours of a short one."""
    asked = filters.more.get("grain")
    is_long = filters.period is not None and filters.period.is_long
    return "hour" if asked == "hour" or (asked != "day" and not is_long) else "day"


def by_name(rows: Sequence[Mapping[str, Any]]) -> Holders:
    """What each tenant or project held; the most expensive first. The last digits of sums differ from one reading to
    the next."""
    listed = [(row["name"], amounts([row])) for row in rows if row["is_held"]]
    return sorted(listed, key=lambda one: (-(one[1].list_cost or 0), -round(one[1].allocated, 6), one[0]))


def _headline(filters: Filters, total: Amounts, words: Language) -> Component:
    assert filters.period is not None
    currency, closed = filters.currency, filters.period.hours_closed
    shown = [
        Figure(
            words("overview.allocated"),
            percent(total.allocated, total.capacity),
            words("overview.of_capacity"),
            words("overview.gpu_hours", n=hours(total.allocated)),
        )
        if filters.shows_platform
        else headline_figures.allocated(total.allocated, closed, words),
        Figure(
            words("kind.used"),
            percent(total.hours["used"], total.allocated),
            words("overview.of_allocated"),
            words("overview.of_metered", share=percent(total.efficiency)),
            "used",
        ),
        headline_figures.cost(total, currency, words),
        headline_figures.waste(total, currency, words, filters.href("/savings")),
        Figure(
            words("overview.coverage"),
            percent(total.coverage),
            words("overview.metered"),
            words("overview.unknown", n=hours(total.hours["unmetered"])),
            "unmetered",
        ),
    ]
    if filters.shows_platform:
        gpus = total.capacity / closed if closed else 0.0
        capacity = Figure(
            words("overview.capacity"),
            hours(total.capacity),
            words("unit.gpu_hours"),
            words("overview.gpus", n=fixed(gpus, 0)),
        )
        shown.insert(0, capacity)
    return parts.headline(shown)


def fleet_over_time(
    store: Store, filters: Filters, words: Language, grain: figures.Grain, path: str = "/", device: str = ""
) -> figures.Chart:
    """GPUs of each kind over the period; path: of the page it stands on; device: of this one alone."""
    ask = filters.rows if grain == "hour" else filters.rows_of_days
    rows = ask(store, __file__, "over_time", grain=grain, device=device)
    kinds = KINDS if filters.shows_platform else ALLOCATED
    found = figures.buckets(rows, filters.closed_steps(grain), filters.zone)
    return figures.stacked_over_time(found, grain, words, kinds, links(found, filters, grain, path))


def links(found: Sequence[figures.Bucket], filters: Filters, grain: figures.Grain, path: str = "/") -> list[str]:
    """Where a click on each bucket leads: to the page of its day or hour."""
    return [filters.at_step(path, bucket.at, grain) for bucket in found]


def _fleet_card(store: Store, grain: figures.Grain, filters: Filters, total: Amounts, words: Language) -> Component:
    kinds = KINDS if filters.shows_platform else ALLOCATED
    whole = sum(total.hours[kind.key] for kind in kinds)
    split = ", ".join(f"{words(f'kind.{kind.key}')} {percent(total.hours[kind.key], whole)}" for kind in kinds)
    return parts.card(
        words("overview.fleet" if filters.shows_platform else "overview.allocations"),
        words("overview.fleet_is" if filters.shows_platform else "overview.allocations_is"),
        parts.legend(kinds, words),
        dcc.Store(id="overview-drawn", data=grain),
        parts.graph(
            fleet_over_time(store, filters, words, grain),
            words("overview.fleet_says", split=split),
            id="overview-fleet",
            height=320,
            keys=words("figure.keys"),
        ),
        tool=dmc.SegmentedControl(
            id="overview-grain",
            data=[{"value": "day", "label": words("grain.day")}, {"value": "hour", "label": words("grain.hour")}],
            value=grain,
            size="xs",
            attributes={"root": {"aria-label": words("grain.is")}},
        ),
    )


def _waterfall_card(filters: Filters, total: Amounts, words: Language) -> Component:
    """From the capacity down to what was used, without remainder: each step begins where the one above ends."""
    whole = total.capacity if filters.shows_platform else total.allocated
    falls = [UNMETERED, IDLE]
    rows: list[Component] = []
    if filters.shows_platform:
        rows.append(_sum_row(words("overview.capacity"), KINDS, whole, total, filters.currency, words))
        rows += _step_rows([UNAVAILABLE, UNALLOCATED], whole, whole, total, filters.currency, words)
    rows.append(_sum_row(words("overview.allocated"), ALLOCATED, whole, total, filters.currency, words))
    rows += _step_rows(falls, total.allocated, whole, total, filters.currency, words)
    rows.append(_sum_row(words("kind.used"), (USED,), whole, total, filters.currency, words))
    heads = ("", "", words("unit.gpu_hours"), words("account.share"), words("account.cost"))
    return parts.card(
        words("account.title"),
        words("account.is" if filters.shows_platform else "account.of_allocated"),
        html.Table(
            [
                html.Thead(html.Tr([html.Th(unbroken(head), scope="col") if head else html.Td() for head in heads])),
                html.Tbody(rows),
            ],
            className="gl-account gl-waterfall",
        ),
        tool=_account_csv(filters, total, words),
    )


def _account_csv(filters: Filters, total: Amounts, words: Language) -> Component:
    """The kinds, which add up to the whole."""
    kinds = KINDS if filters.shows_platform else ALLOCATED
    heads = [
        words("account.title"),
        words("unit.gpu_hours"),
        exports.with_unit(words("account.cost"), filters.currency),
    ]
    rows = [
        [words(f"kind.{kind.key}"), total.hours[kind.key], total.costs[kind.key] if total.costs else None]
        for kind in kinds
    ]
    return exports.of_rows("account", heads, rows, filters, words)


def _step_rows(
    kinds: Sequence[Kind], top: float, whole: float, total: Amounts, currency: str, words: Language
) -> Iterator[Component]:
    """Rows of what is taken off, each bar ending where the one above begins."""
    for kind in kinds:
        value = total.hours[kind.key]
        top -= value
        name = html.Span(words(f"kind.{kind.key}"), title=words(f"kind.{kind.key}_is"))
        yield _bar_row(name, [(kind, value)], top, whole, total, currency, "gl-fall", words)


def _sum_row(
    name: str, kinds: Sequence[Kind], whole: float, total: Amounts, currency: str, words: Language
) -> Component:
    split_by = [(kind, total.hours[kind.key]) for kind in kinds]
    return _bar_row(name, split_by, 0, whole, total, currency, "gl-sum", words)


def _bar_row(
    name: Any,
    split_by: Sequence[tuple[Kind, float]],
    start: float,
    whole: float,
    total: Amounts,
    currency: str,
    class_name: str,
    words: Language,
) -> Component:
    value = sum(part for _, part in split_by)
    known = [total.costs[kind.key] for kind, _ in split_by if kind.key not in total.unknown] if total.costs else []
    bar = parts.stack(split_by, whole, words)
    # A sliver at the very end is not cut off.
    offset = f"min({100 * start / whole:.3f}%, calc(100% - {SLIVER_PX}px))" if whole else "0"
    return html.Tr(
        [
            html.Th(name, scope="row"),
            html.Td(html.Div(bar, style={"transform": f"translateX({offset})"}), className="gl-bar-cell"),
            html.Td(hours(value)),
            html.Td(percent(value, whole)),
            html.Td(money(sum(known) if known else None, currency)),
        ],
        className=class_name,
    )


def _projects(store: Store, filters: Filters) -> Holders:
    return by_name(filters.rows(store, __file__, "by_tenant", by_project=1))


def _cost_card(
    store: Store, tenants: Holders, filters: Filters, words: Language, projects: Holders | None = None
) -> Component:
    """By tenant; where there is one alone, by its projects, which are asked for if nobody has yet (None)."""
    by, of, found = "tenant", {}, tenants
    if len(tenants) == 1 and tenants[0][0]:
        projects = _projects(store, filters) if projects is None else projects
        if len(projects) > 1:
            by, of, found = "project", {"tenant": tenants[0][0]}, projects
    shown = [
        (filters.href("/tenants", **of, **{by: name}), name or words("no_name"), each) for name, each in found[:TOP]
    ]
    rest = [each for _, each in found[TOP:]]
    if rest:
        shown.append((filters.href("/tenants", **of), words.count("overview.others", len(rest)), _sum(rest)))
    longest = max((each.allocated_cost or 0.0 for _, _, each in shown), default=0.0)
    rows = [_cost_row(href, name, each, longest, filters.currency, words) for href, name, each in shown]
    return parts.card(
        words(f"overview.costs_by_{by}"),
        words(f"overview.costs_by_{by}_is"),
        html.Ul(rows, className="gl-costs") if filters.currency else html.P(words("no_price"), className="gl-nothing"),
        tool=parts.tools(parts.legend(ALLOCATED, words), _costs_csv(found, words(f"filter.{by}"), filters, words)),
    )


def _costs_csv(found: Holders, by: str, filters: Filters, words: Language) -> Component:
    """Of every tenant or project: the hours of each kind, and what they cost."""
    hours_of = [exports.with_unit(words(f"kind.{kind.key}"), words("unit.gpu_hours")) for kind in ALLOCATED]
    costs_of = [exports.with_unit(words(f"kind.{kind.key}"), filters.currency) for kind in ALLOCATED]
    rows = [
        [
            name,
            *[each.hours[kind.key] for kind in ALLOCATED],
            *[each.costs[kind.key] if each.costs else None for kind in ALLOCATED],
        ]
        for name, each in found
    ]
    return exports.of_rows("costs", [by, *hours_of, *costs_of], rows, filters, words)


def _cost_row(href: str, name: str, each: Amounts, longest: float, currency: str, words: Language) -> Component:
    costs = each.costs or {}
    split_by = [(kind, costs.get(kind.key, 0.0)) for kind in ALLOCATED]
    said = ", ".join(f"{words(f'kind.{kind.key}')} {money(part, currency)}" for kind, part in split_by)
    return html.Li(
        [
            dcc.Link(name, href=href, className="gl-cost-name", title=name),
            html.Span(money(each.allocated_cost, currency), className="gl-cost-sum"),
            parts.stack(split_by, longest, words, "", f"{name}: {said}"),
            html.Span(
                words("overview.idle", share=percent(costs["idle"], each.allocated_cost)) if costs else UNKNOWN,
                className="gl-cost-idle",
                title=money(costs.get("idle"), currency),
            ),
        ]
    )


def _sum(several: Sequence[Amounts]) -> Amounts:
    known = [each.costs for each in several if each.costs]
    return Amounts(
        {kind.key: sum(each.hours[kind.key] for each in several) for kind in KINDS},
        {kind.key: sum(costs[kind.key] for costs in known) for kind in KINDS} if known else None,
        sum(each.unpriced for each in several),
    )


def callbacks(app: Dash, ask: Ask) -> None:
    app.clientside_callback(
        ClientsideFunction("gl", "grain"),
        Output("url", "search", allow_duplicate=True),
        Input("overview-grain", "value"),
        State("overview-drawn", "data"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    app.clientside_callback(ClientsideFunction("gl", "follow"), Input("overview-fleet", "clickData"))
    month.callbacks(app, ask)


PAGE = Page(
    "/",
    "overview.title",
    10,
    layout,
    icon="M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 4v3h6V4z",
    callbacks=callbacks,
)
