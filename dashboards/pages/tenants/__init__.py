"""Tenants: what each costs, and how well it uses its GPUs; a tenant's projects, a project's workloads.

The filters choose the level: one tenant shows its projects, one project its workloads, which have pages of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from billing.money import minor_digits
from dashboards import budgets as applied
from dashboards import exports, figures, grids, headline_figures, parts, states
from dashboards.advice import of_tenant
from dashboards.amounts import Amounts, amounts
from dashboards.filters import Filters
from dashboards.format import money, percent, symbol
from dashboards.kinds import ALLOCATED
from dashboards.languages import Language
from dashboards.pages import overview
from dashboards.pages.invoices.amounts import exact
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from warehouse.store import Store

MOST = 500
"""Rows of the table; there can be many thousand workloads."""
SHOWN = 9
"""Series of the chart; the rest is one more."""
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Level:
    """name: what a row is.   grain: a step of the trend.   steps: those that are closed, and how many hours
    of each are."""

    name: str
    grain: figures.Grain
    steps: Mapping[datetime, float]


def layout(store: Store, filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    level = level_of(store, filters)
    rows = filters.rows(store, __file__, "by_holder", level=level.name, grain=level.grain, most=MOST)
    total = amounts(rows)
    tenant, project = filters.only("tenant"), filters.only("project")
    title, trail = words("tenants.title"), []
    if tenant is not None:
        title, trail = tenant or words("no_name"), [(title, filters.href("/tenants", tenant=None, project=None))]
    if tenant is not None and project is not None:
        trail.append((title, filters.href("/tenants", project=None)))
        title = project or words("no_name")
    if not rows:
        return parts.page(
            parts.titles(filters, words, title, trail=trail), states.nothing_here(words("tenants.nobody"))
        )
    budgets = budgets_of(store, filters, level)
    in_all = rows[0]["in_all"]
    return parts.page(
        parts.titles(filters, words, title, coverage=total.coverage, unpriced=total.unpriced, trail=trail),
        _headline(filters, total, in_all, level, budgets, words),
        _chart(store, filters, rows, level, words),
        parts.card(
            words(f"tenants.{level.name}s"),
            " · ".join(filter(None, (_shown(in_all, words), by_invoice(filters, rows, total, level, words)))),
            _table(filters, rows, total, level, budgets, words),
            tool=exports.of_grid("tenants-grid", f"{level.name}s", filters, words),
            class_name="gl-table-card",
        ),
        *([] if tenant is None else [_advice_card(filters, words)]),
    )


def _shown(in_all: int, words: Language) -> str:
    return words("tenants.table_is" if in_all <= MOST else "tenants.table_cut", most=MOST, all=f"{in_all:,}")


def by_invoice(filters: Filters, rows: Rows, total: Amounts, level: Level, words: Language) -> str:
    """What the tenants come to rounded one by one, as invoices are, where that is another amount than the exact sum."""
    costs = [row["billed_cost"] for row in rows]
    if level.name != "tenant" or total.billed_cost is None or None in costs or rows[0]["in_all"] > len(rows):
        return ""
    digits = minor_digits(filters.currency)
    rounded = sum((round(cost, digits) for cost in costs), Decimal(0))
    if rounded == round(total.billed_cost, digits):
        return ""
    both = exact(round(total.billed_cost, digits), filters.currency), exact(rounded, filters.currency)
    return words("tenants.by_invoice", exact=both[0], amount=both[1])


def _advice_card(filters: Filters, words: Language) -> Component:
    """Filled in by a callback, because it reads more than the page."""
    return parts.card(
        words("workload.advice"),
        words("advice.tenant_is" if filters.only("project") is None else "advice.project_is"),
        dcc.Store(id="tenants-advised", data=filters.href("/tenants")),
        html.Div(html.P(words("workload.advice_wait"), className="gl-nothing"), id="tenants-advice"),
    )


def level_of(store: Store, filters: Filters) -> Level:
    assert filters.period is not None
    grain: figures.Grain = "day" if filters.period.is_long else "hour"
    return Level(filters.level, grain, filters.closed_steps(grain))


def budgets_of(store: Store, filters: Filters, level: Level) -> dict[str, Decimal]:
    """The month's budget of each row that has one; {'': amount} of the tenant itself stands beside its projects'.

    Budgets are of months: none for another period, and none where filters leave a part of the costs out.
    """
    period = filters.period
    if period is None or period.key not in {month.key for month in filters.months}:
        return {}
    found = {}
    for budget in applied.in_month(store, filters, period.key)[0]:
        if level.name == "tenant" and budget.project is None:
            found[budget.tenant] = budget.amount
        elif level.name == "project" and budget.tenant == filters.only("tenant"):
            found[budget.project or ""] = budget.amount
    return found


def _headline(
    filters: Filters, total: Amounts, in_all: int, level: Level, budgets: Mapping[str, Decimal], words: Language
) -> Component:
    currency = filters.currency
    shown = [
        Figure(words(f"tenants.{level.name}s"), f"{in_all:,}", "", words("tenants.that_held")),
        headline_figures.cost(total, currency, words),
        headline_figures.efficiency(total, words),
        headline_figures.waste(total, currency, words),
        headline_figures.allocated(total.allocated, filters.period.hours_closed if filters.period else 0, words),
    ]
    own = budgets.get("") if level.name == "project" else None
    if own is not None:
        spent = None if total.billed_cost is None else float(total.billed_cost / own)
        shown.append(
            Figure(
                words("tenants.budget"),
                percent(spent),
                words("tenants.spent"),
                words("tenants.budget_of", amount=money(own, currency)),
                "over" if spent is not None and spent > 1 else "",
            )
        )
    return parts.headline(shown)


def _chart(store: Store, filters: Filters, rows: Rows, level: Level, words: Language) -> Component:
    """Of tenants the cost of each; of one tenant how what it held was used."""
    if level.name == "tenant" and filters.currency:
        return parts.card(
            words("tenants.costs"),
            words(f"tenants.costs_{level.grain}"),
            parts.graph(
                costs_over_time(rows, filters, level, words),
                words("tenants.costs"),
                "tenants-costs",
                260,
                keys=words("figure.keys"),
            ),
        )
    return parts.card(
        words("tenants.use"),
        words("tenants.use_is"),
        parts.graph(
            _use_over_time(store, filters, rows, level, words),
            words("tenants.use"),
            "tenants-use",
            260,
            keys=words("figure.keys"),
        ),
        tool=parts.legend(ALLOCATED, words),
    )


def _use_over_time(store: Store, filters: Filters, rows: Rows, level: Level, words: Language) -> figures.Chart:
    """From the table's rows where they are all there are."""
    if rows[0]["in_all"] > MOST:
        return overview.fleet_over_time(store, filters, words, level.grain, "/tenants")
    parts_of = [
        {"step": step, "used": used, "idle": idle, "unmetered": unmetered, "unallocated": 0.0, "unavailable": 0.0}
        for row in rows
        for step, _, used, idle, unmetered in row["steps"]
    ]
    found = figures.buckets(parts_of, level.steps, filters.zone)
    return figures.stacked_over_time(
        found, level.grain, words, ALLOCATED, overview.links(found, filters, level.grain, "/tenants")
    )


def callbacks(app: Dash, ask: Ask) -> None:
    async def advised(_: str, search: str) -> Any:
        return await ask(of_tenant, search)

    app.callback(Output("tenants-advice", "children"), Input("tenants-advised", "data"), State("url", "search"))(
        advised
    )
    for chart in ("tenants-costs", "tenants-use"):
        app.clientside_callback(ClientsideFunction("gl", "follow"), Input(chart, "clickData"))


def costs_over_time(rows: Rows, filters: Filters, level: Level, words: Language) -> figures.Chart:
    """List cost of each step, stacked by tenant, the dearest at the bottom."""
    at = figures.axis_times([filters.local(step) for step in level.steps], level.grain)
    series = [(row["name"] or words("no_name"), trend(row, level)) for row in rows[:SHOWN]]
    rest = [trend(row, level) for row in rows[SHOWN:]]
    if rest:
        series.append((words.count("overview.others", len(rest)), [sum(step) for step in zip(*rest, strict=True)]))
    colours = figures.colours([name for name, _ in series], filters.choices.values.get("tenant", ()))
    traces = [
        {
            "type": "bar",
            "x": at,
            "y": costs,
            "name": name,
            "marker": {"color": colours[name], "line": {"width": 0}},
            "customdata": [filters.at_step("/tenants", step, level.grain) for step in level.steps],
            "hovertemplate": f"{symbol(filters.currency)}%{{y:,.2f}}",
        }
        for name, costs in series
    ]
    return figures.made(
        traces,
        words,
        level.grain,
        yaxis=figures.money_axis(symbol(filters.currency), [cost for _, costs in series for cost in costs]),
        barmode="stack",
        bargap=0.14 if level.grain == "day" else 0,
        showlegend=True,
        legend={"orientation": "h", "y": 1.16, "x": 0, "traceorder": "normal"},
        margin={"l": 60, "r": 8, "t": 34, "b": 30},
    )


def trend(row: Mapping[str, Any], level: Level) -> list[float]:
    """The list cost of each closed step; 0 where nothing was held, as the books say."""
    costs = {step: cost for step, cost, *_ in row["steps"]}
    return [costs.get(step, 0.0) for step in level.steps]


def _table(
    filters: Filters,
    rows: Rows,
    total: Amounts,
    level: Level,
    budgets: Mapping[str, Decimal],
    words: Language,
) -> Component:
    currency = filters.currency
    budget = grids.percent("budget", words("tenants.budget"), words("tenants.budget_is"))
    has_budgets, gpu_hours = any(name for name in budgets), words("unit.gpu_hours")
    columns = [
        grids.link("name", words(f"tenants.{level.name}"), minimum=120),
        grids.use_bar(words("tenants.use_bar"), words("tenants.use_bar_is")),
        grids.sparkline("trend", words("tenants.trend"), words(f"tenants.costs_{level.grain}")),
        grids.number(
            "allocated", words("overview.allocated"), words("tenants.allocated_is"), minimum=104, unit=gpu_hours
        ),
        grids.percent("efficiency", words("tenants.efficiency"), words("tenants.efficiency_is")),
        grids.percent("coverage", words("overview.coverage"), words("part.coverage_why")),
        grids.number("idle", words("kind.idle"), words("kind.idle_is"), minimum=104, unit=gpu_hours),
        grids.money("idle_cost", words("tenants.idle_cost"), currency, words("tenants.idle_cost_is")),
        grids.sorted_by(grids.money("list_cost", words("account.cost"), currency)),
        grids.money("billed_cost", words("tenants.billed"), currency, words("tenants.billed_is")),
        *([grids.on_cards(budget, words("tenants.budget_spent"))] if has_budgets else []),
    ]
    shown = [_row(filters, row, level, budgets, words) for row in rows]
    last = {**_measures(total), "name": words("tenants.all"), "budget": spent_in_all(rows, total, budgets)}
    return grids.grid(
        columns, shown, words, "tenants-grid", last, spare=("coverage", "trend", "idle", "use", "billed_cost")
    )


def spent_in_all(rows: Rows, total: Amounts, budgets: Mapping[str, Decimal]) -> float | None:
    """The spent part of all budgets together; None where one of the rows has none, or not all are shown."""
    own = [budgets.get(row["name"]) if row["name"] else None for row in rows]
    known = [amount for amount in own if amount is not None]
    if not known or len(known) < rows[0]["in_all"] or total.billed_cost is None:
        return None
    return float(total.billed_cost / sum(known))


def _row(
    filters: Filters, row: Mapping[str, Any], level: Level, budgets: Mapping[str, Decimal], words: Language
) -> dict[str, Any]:
    name, each = row["name"], amounts([row])
    links = {
        "tenant": filters.href("/tenants", tenant=name),
        "project": filters.href("/tenants", project=name),
        "workload": filters.href("/workloads", workload=name),
    }
    budget = budgets.get(name) if name else None
    spent = None if budget is None or each.billed_cost is None else float(each.billed_cost / budget)
    return {
        **_measures(each),
        "name": name or words("no_name"),
        "href": links[level.name],
        "budget": spent,
        "trend": trend(row, level),
    }


def _measures(each: Amounts) -> dict[str, Any]:
    return {
        "use": each.hours["used"] / each.allocated if each.allocated else None,
        "allocated": each.allocated,
        "used": each.hours["used"],
        "idle": each.hours["idle"],
        "unmetered": each.hours["unmetered"],
        "efficiency": each.efficiency,
        "coverage": each.coverage,
        "idle_cost": each.costs["idle"] if each.costs else None,
        "list_cost": each.list_cost,
        "billed_cost": each.billed_cost,
    }


PAGE = Page(
    "/tenants",
    "tenants.title",
    20,
    layout,
    callbacks=callbacks,
    icon="M16 20v-2a4 4 0 0 0-4-4H7a4 4 0 0 0-4 4v2M9.5 10a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7z"
    "M21 20v-2a4 4 0 0 0-3-3.85M15.5 3.2a3.5 3.5 0 0 1 0 6.7",
)
