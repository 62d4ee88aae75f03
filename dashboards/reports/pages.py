"""A report as HTML for mail programs (which all understand tables and inline styles), as text, and its chart."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from billing.accounts.budgets import BudgetState
from billing.documents.figures import DASH, HELD, hours, money, percent
from billing.documents.html import templates
from billing.documents.pdf import compiled
from billing.documents.statement_page import chart_of
from billing.insights.savings import Recommendation
from dashboards.advice import sentence, waste_summary
from dashboards.languages import Language
from dashboards.reports.report import ADVISED, Report
from warehouse.printable import printable

TEMPLATES = Path(__file__).parent / "templates"
PIXELS_PER_INCH = 216.0
COLOURS = {"used": "#1f6f78", "idle": "#e0a03b", "unmetered": "#b4bec7"}
"""As the chart's (billing/documents/templates/design.typ)."""
PAGES = (("report.open", "/tenants"), ("changes.title", "/changes"), ("savings.title", "/savings"))
"""Where a report's links lead, each with its text."""


def chart(report: Report, words: Language) -> bytes:
    """GPU-hours by day, as PNG; days that are not closed are hatched. Errors: LedgerError if it cannot be drawn."""
    found = chart_of(report.days, HELD)
    page = {"title": report.title(words), "number": "", "notes": [], "issuer": {"logo": ""}, "chart": asdict(found),
            "lang": words.code, "names": {kind: words(f"kind.{kind}") for kind in HELD}}  # fmt: skip
    drawn = compiled("report_chart", page, format="png", ppi=PIXELS_PER_INCH)
    return bytes(drawn[0] if isinstance(drawn, list) else drawn)


def as_html(report: Report, words: Language, image: str, address: str = "") -> str:
    """One page. image: where the chart is, such as cid:chart or a data: URI.

    address: where people open gpuledger, for links; empty: there are none.
    """
    values = _template_values(report, words, address)
    return templates(TEMPLATES).get_template("report.html").render(**values, image=image)


def as_text(report: Report, words: Language, address: str = "") -> str:
    """For readers without HTML; a name in it makes no line of its own."""
    names = templates(TEMPLATES).overlay(finalize=lambda value: printable(value) if isinstance(value, str) else value)
    return names.get_template("report.txt").render(**_template_values(report, words, address), padded=padded)


def padded(text: str, columns: int) -> str:
    """The text with spaces behind it (before it, where columns are negative) to so many columns, of which an ideograph
    takes two."""
    width = sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
    spaces = " " * (abs(columns) - width)
    return spaces + text if columns < 0 else text + spaces


def _template_values(report: Report, words: Language, address: str) -> dict[str, Any]:
    total = report.total

    def href(path: str, **more: str) -> str:
        """Of a page with the report's tenant, period and language."""
        asked = {"period": report.period_key, "tenant": report.tenant, **more}
        return f"{address.rstrip('/')}{path}?{urlencode({**asked, 'lang': words.code})}" if address else ""

    return {
        "report": report,
        "words": words,
        "title": report.title(words),
        "pages": [
            (words(name), href(path)) for name, path in PAGES if address
        ],
        "cost": _amount(total["billed_cost"], report.currency, words),
        "change": _change(report, words),
        "kinds": [_kind(total, kind, words) for kind in HELD],
        "efficiency": words(
            "report.efficiency", efficiency=_ratio(total["efficiency"]), coverage=_ratio(total["coverage"])
        ),
        "tables": [
            (
                words("report.projects"),
                [
                    _row(row, row["project"] or words("report.no_project"), report, words)
                    | {"href": href("/tenants", project=row["project"]) if row["project"] else ""}
                    for row in report.projects
                ],
            ),
            (
                words("report.workloads"),
                [
                    _row(row, _workload(row), report, words) | {"href": href("/workloads", workload=row["workload"])}
                    for row in report.workloads
                ],
            ),
        ],
        "budgets": [_budget(one, words) for one in report.budgets],
        "advice": [_advice(one, words) for one in report.advice.recommendations[:ADVISED]],
        "waste": waste_summary(
            report.advice, words, lambda amounts, currency: [_amount(one, currency, words) for one in amounts]
        ),
        "notes": list(_notes(report, words)),
    }  # fmt: skip


def _workload(row: Mapping[str, Any]) -> str:
    return f"{row['workload']} ({row['project']})" if row["project"] else str(row["workload"])


def _kind(total: Mapping[str, Any], kind: str, words: Language) -> tuple[str, str, str, str, str]:
    """It, its name, colour, hours and part of the held time."""
    held = total[f"{kind}_gpu_hours"]
    return kind, words(f"kind.{kind}"), COLOURS[kind], hours(held), percent(held, total["allocated_gpu_hours"])


def _amount(value: Decimal | None, currency: str, words: Language) -> str:
    return words("report.unknown") if value is None else f"{money(round(value, 2))} {currency}".strip()


def _change(report: Report, words: Language) -> str:
    """Against the period before, if both are known whole."""
    if report.known != report.period:
        return ""
    now, before = report.total["billed_cost"], report.before and report.before["billed_cost"]
    if now is None or not before:
        return ""
    share = f"{'+' if now >= before else '−'}{abs(100 * (now - before) / before):.1f}%"
    return words("report.more", share=share)


def _advice(one: Recommendation, words: Language) -> tuple[str, str]:
    """What to do and why, and what it saves."""
    title = words.of(f"advice.{one.kind}", one.kind)
    what = sentence(one.sentence, words)
    line = words("report.advice_line", who=", ".join(one.workloads[:2]), title=title, what=what)
    return line, words("report.saves", amount=_amount(one.monthly_amount, one.currency or "", words))


def _budget(one: BudgetState, words: Language) -> str:
    forecast = _amount(one.forecast, one.currency, words)
    return words(
        "report.budget_line",
        of=one.project or words("report.all_projects"),
        actual=_amount(one.actual, one.currency, words),
        amount=_amount(one.amount, one.currency, words),
        month=words.month(date.fromisoformat(f"{one.month}-01")),
        state=words(f"report.state.{one.state.name}"),
        all=words("report.expected" if one.is_estimate else "report.in_all", amount=forecast),
    )


def _notes(report: Report, words: Language) -> Iterator[str]:
    total = report.total
    if report.known != report.period:
        first, last = (_instant(at, report.timezone, words) for at in (report.known.start, report.known.end))
        yield words("report.part_closed", first=first, last=last, zone=report.timezone)
    if total["unpriced_gpu_hours"]:
        yield words("report.unpriced", hours=hours(total["unpriced_gpu_hours"]))
    if total["unmetered_gpu_hours"]:
        yield words("report.unmetered")
    if found := report.given_back:
        at_most = found["at_most"]
        yield words(
            "report.given_back",
            n=len(found["reclaims"]),
            hours=hours(found["gpu_hours"]),
            cost=_amount(found["cost"] and Decimal(found["cost"]), report.currency, words),
            open=hours(at_most["gpu_hours"] if at_most else "0"),
        )
        if Decimal(found["unpriced_gpu_hours"]):
            yield words("invoices.given_back_unpriced", hours=hours(found["unpriced_gpu_hours"]))


def _instant(at: datetime, timezone: str, words: Language) -> str:
    local = at.astimezone(ZoneInfo(timezone))
    return f"{words.day(local.date())} {local:%H:%M}"


def _ratio(value: Decimal | None) -> str:
    return DASH if value is None else f"{100 * value:.1f}%"


def _row(row: Mapping[str, Any], title: str, report: Report, words: Language) -> dict[str, str]:
    held = row["allocated_gpu_hours"]
    widths = {kind: f"{100 * row[f'{kind}_gpu_hours'] / held:.1f}" if held else "0" for kind in HELD}
    return {
        "title": title,
        "hours": hours(held),
        "efficiency": _ratio(row["efficiency"]),
        "idle_cost": _amount(row["idle_cost"], "", words),
        "cost": _amount(row["billed_cost"], "", words),
        "figures": words(
            "report.figures",
            hours=hours(held),
            efficiency=_ratio(row["efficiency"]),
            idle_cost=_amount(row["idle_cost"], report.currency, words),
            cost=_amount(row["billed_cost"], report.currency, words),
        ),
        **{f"{kind}_width": width for kind, width in widths.items()},
    }
