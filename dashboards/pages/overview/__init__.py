"""The overview: was the fleet used, what did it cost, what was wasted, and how sure are we."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, html
from dash.development.base_component import Component

from dashboards import figures, parts
from dashboards.amounts import Amounts, amounts
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, hours, money, percent
from dashboards.kinds import ALLOCATED, KINDS, Kind
from dashboards.languages import Language
from dashboards.pages.overview.quality import quality_card, quality_of
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from warehouse.store import Store

TOP = 10
"""Tenants shown one by one among the costs; their own page has all."""
Tenants = Sequence[tuple[str, Amounts]]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    rows = filters.rows(store, __file__, "by_tenant")
    total = amounts(rows)
    tenants = [(row["tenant"] or words("no_name"), amounts([row])) for row in rows if row["is_held"]]
    quality = quality_of(store, filters)
    notes = quality.refused_count + quality.quarantined_count
    return parts.page(
        parts.titles(
            filters,
            words,
            words("overview.title"),
            parts.chip(words.count("overview.not_counted", notes), href="#quality") if notes else None,
            coverage=total.coverage,
        ),
        _headline(filters, total, words),
        parts.split(_fleet_card(store, filters, total, words), _account_card(filters, total, words)),
        parts.split(_cost_card(tenants, filters, words), quality_card(filters, quality, total, words)),
    )


def _headline(filters: Filters, total: Amounts, words: Language) -> Component:
    assert filters.period is not None
    currency, closed = filters.currency, filters.period.hours_closed
    idle = total.costs["idle"] if total.costs else None
    shown = [
        Figure(
            words("overview.allocated"),
            percent(total.allocated, total.capacity) if filters.shows_platform else hours(total.allocated),
            words("overview.of_capacity") if filters.shows_platform else words("unit.gpu_hours"),
            words("overview.gpu_hours", n=hours(total.allocated)),
        ),
        Figure(
            words("kind.used"),
            percent(total.hours["used"], total.allocated),
            words("overview.of_allocated"),
            words("overview.of_metered", share=percent(total.efficiency)),
            "used",
        ),
        Figure(
            words("overview.cost"),
            money(total.list_cost, currency),
            "",
            words("overview.billed", amount=money(total.billed_cost, currency)),
        ),
        Figure(
            words("overview.waste"),
            money(idle, currency),
            "",
            words("overview.waste_is", share=percent(idle, total.allocated_cost)),
            "idle",
        ),
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
            words("overview.gpus", n=f"{gpus:,.0f}"),
        )
        shown.insert(0, capacity)
    return parts.headline(shown)


def fleet_over_time(store: Store, filters: Filters, words: Language, grain: figures.Grain) -> Any:
    rows = filters.rows(store, __file__, "over_time", grain=grain)
    kinds = KINDS if filters.shows_platform else ALLOCATED
    return figures.stacked_over_time(figures.buckets(rows, filters.zone), grain, words, kinds)


def _fleet_card(store: Store, filters: Filters, total: Amounts, words: Language) -> Component:
    assert filters.period is not None
    grain: figures.Grain = "day" if filters.period.is_long else "hour"
    kinds = KINDS if filters.shows_platform else ALLOCATED
    whole = sum(total.hours[kind.key] for kind in kinds)
    split = ", ".join(f"{words(f'kind.{kind.key}')} {percent(total.hours[kind.key], whole)}" for kind in kinds)
    return parts.card(
        words("overview.fleet"),
        words("overview.fleet_is"),
        parts.graph(
            fleet_over_time(store, filters, words, grain),
            words("overview.fleet_says", split=split),
            id="overview-fleet",
            height=340,
        ),
        tool=dmc.SegmentedControl(
            id="overview-grain",
            data=[{"value": "day", "label": words("grain.day")}, {"value": "hour", "label": words("grain.hour")}],
            value=grain,
            size="xs",
            attributes={"root": {"aria-label": words("grain.is")}},
        ),
    )


def _account_card(filters: Filters, total: Amounts, words: Language) -> Component:
    """Capacity, split without remainder: the five kinds, and their sum."""
    kinds = KINDS if filters.shows_platform else ALLOCATED
    whole = sum(total.hours[kind.key] for kind in kinds)
    cost = sum(total.costs[kind.key] for kind in kinds) if total.costs else None
    heads = (words("account.kind"), words("unit.gpu_hours"), words("account.share"), words("account.cost"))
    name = words("overview.capacity") if filters.shows_platform else words("overview.allocated")
    last = (name, hours(whole), "100 %", money(cost, filters.currency))
    return parts.card(
        words("account.title"),
        words("account.is"),
        parts.stack([(kind, total.hours[kind.key]) for kind in kinds], whole, words, "gl-bar-tall"),
        html.Table(
            [
                html.Thead(html.Tr([html.Th(head, scope="col") for head in heads])),
                html.Tbody([_account_row(kind, total, whole, filters.currency, words) for kind in kinds]),
                html.Tfoot(html.Tr([html.Th(last[0], scope="row"), *[html.Td(cell) for cell in last[1:]]])),
            ],
            className="gl-account",
        ),
    )


def _account_row(kind: Kind, total: Amounts, whole: float, currency: str, words: Language) -> Component:
    value = total.hours[kind.key]
    return html.Tr(
        [
            html.Th(
                [
                    html.Span(className=f"gl-swatch gl-{kind.key}"),
                    html.Span([words(f"kind.{kind.key}"), html.Small(words(f"kind.{kind.key}_is"))]),
                ],
                scope="row",
            ),
            html.Td(hours(value)),
            html.Td(percent(value, whole)),
            html.Td(money(total.costs[kind.key] if total.costs else None, currency)),
        ]
    )


def _cost_card(tenants: Tenants, filters: Filters, words: Language) -> Component:
    shown = list(tenants[:TOP])
    rest = [each for _, each in tenants[TOP:]]
    if rest:
        shown.append((words.count("overview.others", len(rest)), _sum(rest)))
    longest = max((each.allocated_cost or 0.0 for _, each in shown), default=0.0)
    rows = [_cost_row(name, each, longest, filters.currency, words) for name, each in shown]
    return parts.card(
        words("overview.costs"),
        words("overview.costs_is"),
        html.Ul(rows, className="gl-costs") if filters.currency else html.P(words("no_price"), className="gl-nothing"),
        tool=parts.legend(ALLOCATED, words),
    )


def _cost_row(name: str, each: Amounts, longest: float, currency: str, words: Language) -> Component:
    costs = each.costs or {}
    split_by = [(kind, costs.get(kind.key, 0.0)) for kind in ALLOCATED]
    said = ", ".join(f"{words(f'kind.{kind.key}')} {money(part, currency)}" for kind, part in split_by)
    return html.Li(
        [
            html.Span(name, className="gl-cost-name", title=name),
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
    async def another_grain(grain: str, search: str) -> Any:
        return await ask(fleet_over_time, search, "hour" if grain == "hour" else "day")

    app.callback(
        Output("overview-fleet", "figure"),
        Input("overview-grain", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )(another_grain)


PAGE = Page(
    "/",
    "overview.title",
    10,
    layout,
    icon="M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 4v3h6V4z",
    callbacks=callbacks,
)
