"""Recommendations on pages, for one workload or a tenant (from billing/insights/savings.py)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from dash import html
from dash.development.base_component import Component

from billing.insights.holders import Holder, Rules, read_holders
from billing.insights.savings import READS, Recommendation, SavingsReport, savings
from billing.insights.sentences import Sentence
from billing.insights.waste import Waste
from billing.periods import Period
from dashboards import grids, parts, states
from dashboards.filters import Filters
from dashboards.format import hours, money, money_column
from dashboards.languages import Language
from warehouse.store import Store

EXAMINED = timedelta(days=32)
"""Examined before the period's end: a whole month at least; older use says little about the future."""


def of_workload(store: Store, filters: Filters, words: Language, workload: str) -> Component:
    """How the workload could cost less, or why that is not known."""
    span = examined_period(filters)
    report = savings_report(store, filters, span, workload=workload)
    why_not = waste_summary(report, words, money_column)
    waste = parts.note(why_not)
    if report.recommendations:
        items = [html.Li(_item(one, words)) for one in report.recommendations]
        return html.Div([html.Ul(items, className="gl-quality"), waste, _note(span, filters, words)])
    why = next((one.sentence for one in report.not_judged), None)
    text = (
        words("workload.not_judged", why=sentence(why, words)) if why else _nothing(report, "workload.no_advice", words)
    )
    # With reasons below it, it is the first of several lines, not all there is.
    nothing = html.P(text) if why_not else states.nothing_here(text)
    return html.Div([nothing, waste, _note(span, filters, words)])


def of_tenant(store: Store, filters: Filters, words: Language) -> Component:
    """How the tenant's workloads (or those of its chosen project) could cost less, the largest saving first, and what
    idle time cost."""
    span, tenant, project = examined_period(filters), filters.only("tenant"), filters.only("project")
    report = savings_report(store, filters, span, tenant=tenant or "")
    found = [one for one in report.recommendations if project is None or one.project == project]
    # Idle time is known by tenant alone.
    sentences = waste_summary(report, words, money_column) if project is None else ""
    waste = parts.note(sentences)
    if not found:
        text = _nothing(report, "advice.none", words) if sentences else words("advice.none")
        return html.Div([states.nothing_here(text), waste, _note(span, filters, words)])
    amount = sum((one.monthly_amount or Decimal(0) for one in found), Decimal(0))
    count = words.count("advice.count", len(found))
    summed = words("advice.in_all", count=count, amount=money(amount, report.currency or ""))
    return html.Div(
        [
            parts.note(summed),
            _table(found, filters, words, report.currency or ""),
            waste,
            _note(span, filters, words),
        ]
    )


def savings_report(store: Store, filters: Filters, span: Period, tenant: str = "", workload: str = "") -> SavingsReport:
    """What `savings` says of a span. It reads a month of samples, so pages share the answer, and a tenant's workloads
    what is read of its holders."""

    def cached(what: Hashable, ask: Callable[[], Any]) -> Any:
        return filters.data_version.cached(store, what, READS, ask, until=span.end)

    def read(store: Store, period: Period, rules: Rules, owner: str) -> Sequence[Holder]:
        holders: Sequence[Holder] = cached(
            ("holders", period, rules, owner), lambda: read_holders(store, period, rules, owner)
        )
        return holders

    report: SavingsReport = cached(
        ("savings", span, tenant, workload), lambda: savings(store, span, tenant=tenant, workload=workload, read=read)
    )
    return report


def _nothing(report: SavingsReport, none: str, words: Language) -> str:
    """That nothing is recommended.   none: the words for who had no idle time to speak of."""
    return words("advice.only_waste" if report.waste and report.waste.total.not_covered else none)


def examined_period(filters: Filters) -> Period:
    """The last closed days of the period, on which recommendations are based. Not the workload's own time: at the end
    of that, every workload would seem to be over."""
    if filters.period is None:
        raise filters.nothing_closed()
    end = min(filters.period.end, filters.months[-1].last + timedelta(hours=1))
    return Period(max(filters.period.start, end - EXAMINED), end)


def sentence(one: Sentence, words: Language) -> str:
    """Why something is recommended, or is not judged."""
    inner = {"what": sentence(one.what, words)} if one.what else {}
    return words(f"advised.{one.key}", **one.values, **inner)


def waste_summary(
    report: SavingsReport, words: Language, shown: Callable[[Sequence[Decimal | None], str], Sequence[str]]
) -> str:
    """The total savings, compared with the cost of idle time, and why the rest of that is not covered; empty if nothing
    is closed or has a price.

    shown: formats amounts that stand side by side, in a currency.
    """
    if report.waste is None:
        return ""
    waste, currency = report.waste.total, report.currency or ""
    idle, covered, *rest = shown([waste.idle_cost, waste.covered, *waste.not_covered.values()], currency)
    reasons = [
        words("waste.part", amount=amount, why=words(f"wasted.{reason}"))
        for reason, amount in zip(waste.not_covered, rest, strict=True)
    ]
    sentences = []
    if waste.idle_cost is not None:
        said = "waste.all" if not reasons else "waste.sum" if report.recommendations else "waste.none"
        (amount,) = shown([report.monthly_amount], currency)
        sentences.append(
            words(said, amount=amount, idle=idle, covered=covered, parts=words("waste.between").join(reasons))
        )
    if waste.unpriced_gpu_hours:
        sentences.append(words("waste.unpriced", hours=hours(float(waste.unpriced_gpu_hours))))
    if waste.unmetered_gpu_hours:
        (amount,) = shown([waste.unmetered_cost], currency)
        sentences += unmetered_time(waste, words, amount)
    return words("part.sentences").join(sentences)


def unmetered_time(waste: Waste, words: Language, amount: str) -> list[str]:
    """What it cost, and how much of it has no price."""
    found = [words("waste.unmetered", hours=hours(float(waste.unmetered_gpu_hours)), amount=amount)]
    if lacking := waste.unpriced_unmetered_gpu_hours:
        found.append(words("waste.unpriced_unmetered", hours=hours(float(lacking))))
    return found


def _item(one: Recommendation, words: Language) -> list[Component]:
    saves = words(
        "workload.saves",
        amount=money(one.monthly_amount, one.currency or ""),
        confidence=words.of(f"confidence.{one.confidence}", one.confidence),
    )
    title = html.Strong(words.of(f"advice.{one.kind}", one.kind))
    why = html.Small(sentence(one.sentence, words))
    return [html.Span(className="gl-dot gl-warn"), html.Span([title, why, html.Small(saves)])]


def _table(found: Sequence[Recommendation], filters: Filters, words: Language, currency: str) -> Component:
    saves = grids.money("saves", words("advice.saves"), currency, words("advice.saves_is"))
    columns = [
        grids.link("name", words("workload.name"), minimum=160),
        grids.text("kind", words("advice.what"), minimum=130),
        grids.sentence("why", words("advice.why"), minimum=200, flex=520),
        grids.text("confidence", words("advice.confidence"), minimum=90, flex=0.6),
        grids.sorted_by(grids.on_cards(saves, words("advice.per_month"))),
    ]
    return grids.grid(columns, [recommendation_row(one, filters, words) for one in found], words, "tenants-advice-grid")


def recommendation_row(one: Recommendation, filters: Filters, words: Language) -> dict[str, Any]:
    """A row of a table of recommendations."""
    first, *more = one.workloads
    return {
        "name": f"{first} +{len(more)}" if more else first,
        "href": filters.href("/workloads", workload=first),
        "kind": words.of(f"advice.{one.kind}", one.kind),
        "why": sentence(one.sentence, words),
        "confidence": words.of(f"confidence.{one.confidence}", one.confidence),
        "saves": one.monthly_amount,
    }


def _note(span: Period, filters: Filters, words: Language) -> Component:
    by = f"{words.moment(filters.local(span.start))} – {words.moment(filters.local(span.end))}"
    return parts.note(words("workload.judged", by=by))
