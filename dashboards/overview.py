"""The overview: was the fleet used, what did it cost, what was wasted, and how sure are we."""

from __future__ import annotations

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from dashboards import figures
from dashboards.data import Amounts, Overview, Tenant
from dashboards.format import UNKNOWN, count, hours, money, percent
from dashboards.kinds import ALLOCATED, KINDS, Kind
from dashboards.notices import quality_card
from dashboards.periods import Period
from dashboards.tenants_table import tenants_table

TOP = 10
"""Tenants shown one by one among the costs; the table has all."""


def body(answer: Overview) -> Component:
    """The page of a period of which something is closed."""
    assert answer.period is not None
    assert answer.total is not None
    total, currency = answer.total, answer.currency
    return html.Div(
        [
            _titles(answer, answer.period),
            _headline(answer, total, answer.period.hours_closed),
            html.Div([_fleet_card(answer, total), _account_card(total, currency)], className="gl-split"),
            html.Div(
                [_cost_card(answer.tenants, currency), quality_card(answer, total)], className="gl-split gl-split-even"
            ),
            _card(
                "Tenants",
                "GPU-hours and cost; every column sorts",
                tenants_table(answer.tenants, currency),
                class_name="gl-table-card",
            ),
        ],
        className="gl-page",
    )


def _titles(answer: Overview, period: Period) -> Component:
    closed = (
        "all hours closed"
        if period.hours_closed >= period.hours
        else f"{period.hours_closed:,} of {period.hours:,} hours closed"
    )
    notes = answer.quality.refused_count + answer.quality.quarantined_count
    return html.Div(
        [
            html.Div(
                [html.H1(period.label), html.P(f"{closed} · {answer.zone.replace('_', ' ')}", className="gl-scope")]
            ),
            html.A(
                [html.Span(className="gl-dot gl-warn"), f"{count(notes, 'record')} not counted"],
                href="#quality",
                className="gl-chip",
            )
            if notes
            else None,
        ],
        className="gl-titles",
    )


def _headline(answer: Overview, total: Amounts, hours_closed: int) -> Component:
    currency = answer.currency
    billed = None if answer.billed is None else float(answer.billed)
    cost = total.allocated_cost
    idle = total.costs["idle"] if total.costs else None
    gpus = total.capacity / hours_closed if hours_closed else 0.0
    figures_shown = (
        ("Capacity", hours(total.capacity), "GPU-hours", f"{gpus:,.0f} GPUs on average", ""),
        (
            "Allocated",
            percent(total.allocated, total.capacity),
            "of capacity",
            f"{hours(total.allocated)} GPU-hours",
            "",
        ),
        (
            "Used",
            percent(total.hours["used"], total.allocated),
            "of allocated",
            f"{percent(total.hours['used'], total.metered)} of what is metered",
            "used",
        ),
        ("Cost", money(cost, currency), "", f"at list price; billed {money(billed, currency)}", ""),
        (
            "Waste",
            money(idle, currency),
            "",
            f"idle: {percent(idle or 0, cost or 0)} of the cost",
            "idle",
        ),
        (
            "Coverage",
            percent(total.metered, total.allocated),
            "metered",
            f"{hours(total.hours['unmetered'])} GPU-hours unknown",
            "unmetered",
        ),
    )
    return html.Dl(
        [
            html.Div(
                [
                    html.Dt([html.Span(className=f"gl-swatch gl-{kind}") if kind else None, label]),
                    html.Dd([html.Strong(value), html.Span(unit) if unit else None], className="gl-value"),
                    html.Dd(detail, className="gl-detail"),
                ],
                className="gl-figure",
            )
            for label, value, unit, detail, kind in figures_shown
        ],
        className="gl-card gl-headline",
    )


def _fleet_card(answer: Overview, total: Amounts) -> Component:
    summary = ", ".join(f"{kind.label.lower()} {percent(total.hours[kind.key], total.capacity)}" for kind in KINDS)
    return _card(
        "The fleet over time",
        "GPUs on average, stacked to the capacity",
        html.Div(
            dcc.Graph(
                id="fleet",
                figure=figures.fleet_over_time(answer.days, "day"),
                config={"displayModeBar": False},
                responsive=True,
                style={"height": "100%"},
            ),
            className="gl-graph",
            role="img",
            **{"aria-label": f"Stacked bars of the fleet over time. Of the whole period: {summary}."},
        ),
        tool=dmc.SegmentedControl(
            id="grain",
            data=[{"value": "day", "label": "Days"}, {"value": "hour", "label": "Hours"}],
            value="day",
            size="xs",
            attributes={"root": {"aria-label": "Step of the chart"}},
        ),
    )


def _account_card(total: Amounts, currency: str) -> Component:
    """Capacity, split without remainder: the five kinds, and their sum."""
    rows = [_account_row(kind, total, currency) for kind in KINDS]
    capacity_cost = sum(total.costs.values()) if total.costs else None
    return _card(
        "Where every GPU-hour went",
        "five kinds, no remainder",
        html.Div(
            [
                _bar([(kind, total.hours[kind.key]) for kind in KINDS], total.capacity, "gl-bar-tall"),
                html.Table(
                    [
                        html.Thead(
                            html.Tr([html.Th("Kind"), html.Th("GPU-hours"), html.Th("Share"), html.Th("List cost")])
                        ),
                        html.Tbody(rows),
                        html.Tfoot(
                            html.Tr(
                                [
                                    html.Th("Capacity"),
                                    html.Td(hours(total.capacity)),
                                    html.Td("100 %"),
                                    html.Td(money(capacity_cost, currency)),
                                ]
                            )
                        ),
                    ],
                    className="gl-account",
                ),
            ]
        ),
    )


def _account_row(kind: Kind, total: Amounts, currency: str) -> Component:
    value = total.hours[kind.key]
    return html.Tr(
        [
            html.Th(
                [
                    html.Span(className=f"gl-swatch gl-{kind.key}"),
                    html.Span([kind.label, html.Small(kind.meaning)]),
                ],
                scope="row",
            ),
            html.Td(hours(value)),
            html.Td(percent(value, total.capacity)),
            html.Td(money(total.costs[kind.key] if total.costs else None, currency)),
        ]
    )


def _cost_card(tenants: Sequence[Tenant], currency: str) -> Component:
    shown = [(tenant.name or "(no tenant)", tenant.amounts) for tenant in tenants[:TOP]]
    rest = [tenant.amounts for tenant in tenants[TOP:]]
    if rest:
        shown.append((count(len(rest), "other"), _sum(rest)))
    longest = max((amounts.allocated_cost or 0.0 for _, amounts in shown), default=0.0)
    rows = [_cost_row(name, amounts, longest, currency) for name, amounts in shown]
    return _card(
        "Cost and waste by tenant",
        "list cost of what each held, split by how it was used",
        html.Ul(rows, className="gl-costs") if currency else html.P("No price is known for this period.", "gl-note"),
        tool=html.Ul(
            [html.Li([html.Span(className=f"gl-swatch gl-{kind.key}"), kind.label]) for kind in ALLOCATED],
            className="gl-legend",
        ),
    )


def _cost_row(name: str, amounts: Amounts, longest: float, currency: str) -> Component:
    costs = amounts.costs or {}
    cost = amounts.allocated_cost
    parts = [(kind, costs.get(kind.key, 0.0)) for kind in ALLOCATED]
    split = ", ".join(f"{kind.label.lower()} {money(part, currency)}" for kind, part in parts)
    return html.Li(
        [
            html.Span(name, className="gl-cost-name", title=name),
            html.Span(money(cost, currency), className="gl-cost-sum"),
            _bar(parts, longest, "", f"{name}: {split}"),
            html.Span(
                f"{percent(costs['idle'], cost or 0)} idle" if costs else UNKNOWN,
                className="gl-cost-idle",
                title=f"idle: {money(costs.get('idle'), currency)}",
            ),
        ]
    )


def _bar(parts: Sequence[tuple[Kind, float]], whole: float, class_name: str, label: str = "") -> Component:
    """A stacked bar; what is there but small keeps a visible sliver."""
    return html.Div(
        [
            html.Span(className=f"gl-{kind.key}", style={"width": f"{100 * part / whole:.3f}%"}, title=kind.label)
            for kind, part in parts
            if part > 0 and whole > 0
        ],
        className=f"gl-stack {class_name}",
        role="img",
        title=label or None,
        **{"aria-label": label or "; ".join(f"{kind.label} {percent(part, whole)}" for kind, part in parts)},
    )


def _sum(several: Sequence[Amounts]) -> Amounts:
    known = [amounts.costs for amounts in several if amounts.costs]
    return Amounts(
        {kind.key: sum(amounts.hours[kind.key] for amounts in several) for kind in KINDS},
        {kind.key: sum(costs[kind.key] for costs in known) for kind in KINDS} if known else None,
        sum(amounts.unpriced for amounts in several),
    )


def _card(
    title: str, subtitle: str, content: Component, tool: Component | None = None, class_name: str = ""
) -> Component:
    return html.Section(
        [
            html.Div([html.Div([html.H2(title), html.P(subtitle)]), tool], className="gl-card-head"),
            content,
        ],
        className=f"gl-card {class_name}",
    )
