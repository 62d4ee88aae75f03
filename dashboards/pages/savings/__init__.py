"""Savings: recommendations for current and recurring workloads; and the rest of the idle cost, which can no longer be
saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import dash_mantine_components as dmc
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from billing.insights.holders import Rules
from billing.insights.savings import Recommendation, SavingsReport
from dashboards import exports, grids, parts, states
from dashboards.advice import examined_period, recommendation_row, savings_report, unmetered_time
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed, hours, money, money_column, percent
from dashboards.languages import Language
from dashboards.parts import Figure
from dashboards.registry import Ask, Page
from warehouse.store import Store


def layout(store: Store, filters: Filters, words: Language) -> Component:
    """The report reads a month of samples, so it is loaded after the page."""
    return parts.page(
        parts.titles(filters, words, words("savings.title")),
        dcc.Store(id="savings-asked", data=filters.href("/savings")),
        html.Div(
            [
                dmc.Skeleton(height=118, radius=14),
                parts.card(words("savings.title"), "", states.nothing_here(words("savings.wait"))),
            ],
            id="savings-report",
            className="gl-page",
            **{"aria-live": "polite"},
        ),
    )


def callbacks(app: Dash, ask: Ask) -> None:
    async def reported(_: str, search: str) -> Any:
        return await ask(answer, search)

    app.callback(Output("savings-report", "children"), Input("savings-asked", "data"), State("url", "search"))(reported)


def answer(store: Store, filters: Filters, words: Language) -> Component:
    span, tenant = examined_period(filters), filters.only("tenant") or ""
    report = savings_report(store, filters, span, tenant=tenant)
    if report.waste is None:
        return states.nothing_here(words("savings.nothing_closed"))
    held = [one for one in report.recommendations if one.still_held]
    recurs = [one for one in report.recommendations if not one.still_held]
    by = f"{words.moment(filters.local(span.start))} – {words.moment(filters.local(span.end))}"
    return html.Div(
        [
            _headline(report, held, recurs, words),
            _card("held", held, report, filters, words),
            _card("recurs", recurs, report, filters, words),
            _waste_card(report, by, filters, words),
        ],
        className="gl-page",
    )


def known(found: Sequence[Recommendation]) -> Decimal | None:
    """Their monthly amounts; None: there are some, and none has an amount."""
    amounts = [one.monthly_amount for one in found if one.monthly_amount is not None]
    return sum(amounts, Decimal(0)) if amounts or not found else None


def _headline(
    report: SavingsReport, held: Sequence[Recommendation], recurs: Sequence[Recommendation], words: Language
) -> Component:
    assert report.waste is not None
    waste, currency = report.waste.total, report.currency or ""
    covered = float(waste.covered) if waste.covered is not None else None
    idle = float(waste.idle_cost) if waste.idle_cost is not None else None
    return parts.headline(
        [
            Figure(words("savings.monthly"), money(report.monthly_amount, currency), words("savings.a_month"),
                   words.count("advice.count", len(report.recommendations))),
            Figure(words("savings.held"), money(known(held), currency), words("savings.a_month"),
                   words.count("savings.act", len(held))),
            Figure(words("savings.recurs"), money(known(recurs), currency), words("savings.a_month"),
                   words.count("savings.prevent", len(recurs))),
            Figure(words("savings.idle"), money(waste.idle_cost, currency), "",
                   words("savings.idle_is", n=hours(float(waste.idle_gpu_hours))), "idle"),
            Figure(words("savings.covered"), percent(covered, idle), "", money(waste.covered, currency)),
        ]
    )  # fmt: skip


def _card(
    which: str, found: Sequence[Recommendation], report: SavingsReport, filters: Filters, words: Language
) -> Component:
    title, subtitle = words(f"savings.{which}"), words(f"savings.{which}_is")
    now = dcc.Link(words("savings.to_now"), href=filters.href("/now", idle="1")) if which == "held" else None
    if not found and now:  # a line, not a card with nothing in it
        return html.P([words("savings.no_held", hours=Rules().idle_hours), " ", now], className="gl-note")
    if not found:
        return parts.card(title, subtitle, states.nothing_here(words("savings.no_recurs")))
    currency, id = report.currency or "", f"savings-{which}-grid"
    saves = {
        **grids.money("saves", words(f"savings.saves_{which}"), currency, words("advice.saves_is")),
        "minWidth": 160,
    }
    runs = grids.number("runs", words("savings.runs"), words("savings.runs_is"), ",d", minimum=70)
    columns = [
        grids.link("name", words("workload.name"), minimum=150),
        grids.sorted_by(grids.on_cards(saves, words("advice.per_month"))),
        grids.money("past", words("savings.past"), currency, words("savings.past_is")),
        grids.text("tenant", words("filter.tenant"), minimum=90, flex=0.8),
        grids.text("kind", words("advice.what"), minimum=158),
        grids.sentence("why", words("advice.why"), minimum=260, flex=900),
        *([runs] if which == "recurs" else []),
        grids.text("confidence", words("advice.confidence"), minimum=106, flex=0.6),
    ]
    rows = [_row(one, filters, words) for one in found]
    return parts.card(
        title, subtitle, grids.grid(columns, rows, words, id),
        tool=parts.tools(now, exports.of_grid(id, f"savings-{which}", filters, words)), class_name="gl-table-card",
    )  # fmt: skip


def _row(one: Recommendation, filters: Filters, words: Language) -> dict[str, Any]:
    row = recommendation_row(one, filters, words)
    return {**row, "tenant": one.tenant or words("no_name"), "runs": one.runs, "past": one.past_amount}


def _waste_card(report: SavingsReport, by: str, filters: Filters, words: Language) -> Component:
    """The idle cost by what can be done about it; its parts add up to it.   by: the hours that all is based on."""
    assert report.waste is not None
    waste, currency = report.waste.total, report.currency or ""
    idle = float(waste.idle_cost) if waste.idle_cost is not None else None
    named = [(words("savings.by_recommendations"), waste.covered)]
    named += [(words(f"wasted.{reason}"), amount) for reason, amount in waste.not_covered.items()]
    named.append((words("savings.idle"), waste.idle_cost))
    heads = [words("savings.from"), words("savings.amount"), words("savings.share")]
    exported = [heads[0], exports.with_unit(heads[1], currency)]
    shown = money_column([amount for _, amount in named], currency)
    cells = [
        [name, text, percent(float(amount) if amount is not None else None, idle)]
        for (name, amount), text in zip(named, shown, strict=True)
    ]
    notes = []
    if waste.unpriced_gpu_hours:
        notes.append(words("waste.unpriced", hours=fixed(waste.unpriced_gpu_hours, 0)))
    if waste.unmetered_gpu_hours:
        notes += unmetered_time(waste, words, money(waste.unmetered_cost, currency))
    unallocated = report.waste.unallocated_gpu_hours if current().may(Action.see_fleet) else None
    if unallocated:
        cost = report.waste.unallocated_cost
        notes.append(
            words("savings.unallocated", hours=fixed(unallocated, 0), amount=money(cost, currency) if cost else UNKNOWN)
        )
        if lacking := report.waste.unpriced_unallocated_gpu_hours:
            notes.append(words("savings.unpriced_unallocated", hours=fixed(lacking, 0)))
    if report.not_judged:
        notes.append(words.count("savings.not_judged", len(report.not_judged)))
    return parts.card(
        words("savings.waste"),
        words("savings.waste_is"),
        parts.table(heads, cells, "gl-compare gl-last-sum"),
        parts.note(words("part.sentences").join([*notes, words("workload.judged", by=by)])),
        tool=exports.of_rows("waste", exported, [[name, amount] for name, amount in named], filters, words),
    )


PAGE = Page(
    "/savings",
    "savings.title",
    57,
    layout,
    icon="M12 3v18M16.5 7.5c0-1.7-2-3-4.5-3s-4.5 1.3-4.500 3c0 4.5 9 3 9 7.5 0 1.7-2 3-4.5 3s-4.5-1.3-4.5-3",
    callbacks=callbacks,
    filters=("tenant",),
)
