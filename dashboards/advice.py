"""What could be held cheaper, as pages show it: of one workload, or of a tenant (billing/insights/savings.py)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal

from dash import html
from dash.development.base_component import Component

from billing.insights.savings import Recommendation, savings
from billing.periods import Period
from dashboards import states
from dashboards.filters import Filters
from dashboards.format import money
from dashboards.languages import Language
from warehouse.store import Store

LOOKED = timedelta(days=31)
"""At the end of what a page shows; what was before says little of what comes."""
SHOWN = 8
"""Of a tenant; the API has all of them."""


def of_workload(
    store: Store, filters: Filters, words: Language, workload: str, window: tuple[datetime, datetime]
) -> Component:
    """What the workload could do cheaper, or why that is not known."""
    span = _last(*window)
    report = savings(store, span, workload=workload)
    if report.recommendations:
        return html.Div([_listed(report.recommendations, words), _note(span, filters, words)])
    why = next((one.reason for one in report.not_judged), "")
    said = words("workload.not_judged", why=why) if why else words("workload.no_advice")
    return html.Div([states.nothing_here(said), _note(span, filters, words)])


def of_tenant(store: Store, filters: Filters, words: Language) -> Component:
    """What the tenant's workloads could do cheaper, the greatest amount first, each with a link; of its project, if one
    is chosen."""
    assert filters.period is not None
    tenant, project = filters.only("tenant"), filters.only("project")
    closed = filters.months[-1].last + timedelta(hours=1)
    span = _last(filters.period.start, min(filters.period.end, closed))
    report = savings(store, span, tenant=tenant or "")
    found = [one for one in report.recommendations if project is None or one.project == project]
    if not found:
        return html.Div([states.nothing_here(words("advice.none")), _note(span, filters, words)])
    amount = sum((one.monthly_amount or Decimal(0) for one in found), Decimal(0))
    count = words.count("advice.count", len(found))
    summed = words("advice.in_all", count=count, amount=money(amount, report.currency or ""))
    return html.Div(
        [
            html.P(summed, className="gl-note"),
            _listed(found[:SHOWN], words, filters),
            _note(span, filters, words),
        ]
    )


def _last(start: datetime, end: datetime) -> Period:
    return Period(max(start, end - LOOKED), end)


def _listed(found: Sequence[Recommendation], words: Language, filters: Filters | None = None) -> Component:
    """filters: to link whom it concerns; None: the page says whom."""
    return html.Ul([html.Li(_item(one, words, filters)) for one in found], className="gl-quality")


def _item(one: Recommendation, words: Language, filters: Filters | None) -> list[Component]:
    saves = words(
        "workload.saves",
        amount=money(one.monthly_amount, one.currency or ""),
        confidence=words.of(f"confidence.{one.confidence}", one.confidence),
    )
    whom = [] if filters is None else _links(one, filters)
    title = html.Strong(words.of(f"advice.{one.kind}", one.kind))
    return [
        html.Span(className="gl-dot gl-warn"),
        html.Span([title, *whom, html.Small(one.what), html.Small(saves)]),
    ]


def _links(one: Recommendation, filters: Filters) -> list[Component]:
    first, *more = one.workloads
    link = html.A(first, href=filters.href("/workload", workload=first), className="gl-go")
    return [html.Small([link, f" +{len(more)}" if more else ""])]


def _note(span: Period, filters: Filters, words: Language) -> Component:
    by = f"{words.moment(filters.local(span.start))} – {words.moment(filters.local(span.end))}"
    return html.P(words("workload.judged", by=by), className="gl-note")
