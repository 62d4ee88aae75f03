"""A report as HTML for mail programs (which all understand tables and inline styles), as text, and its chart."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from billing.documents.figures import DASH, HELD, hours, money, percent
from billing.documents.pdf import compiled
from billing.documents.statement_page import chart_of
from dashboards.reports.report import Report

if TYPE_CHECKING:
    from jinja2 import Environment

PIXELS_PER_INCH = 144.0
COLOURS = {"used": "#1f6f78", "idle": "#e0a03b", "unmetered": "#b4bec7"}
"""As the chart's (billing/documents/templates/design.typ)."""


def chart(report: Report) -> bytes:
    """GPU-hours by day, as PNG; days that are not closed are hatched. Errors: LedgerError if it cannot be drawn."""
    found = chart_of(report.days, HELD)
    page = {"title": report.title, "number": "", "notes": [], "issuer": {"logo": ""}, "chart": asdict(found)}
    drawn = compiled("report_chart", page, format="png", ppi=PIXELS_PER_INCH)
    return bytes(drawn[0] if isinstance(drawn, list) else drawn)


def as_html(report: Report, image: str) -> str:
    """One page. image: where the chart is, such as cid:chart or a data: URI."""
    return _templates().get_template("report.html").render(**_said(report), image=image)


def as_text(report: Report) -> str:
    """For readers without HTML."""
    return _templates().get_template("report.txt").render(**_said(report))


def _said(report: Report) -> dict[str, Any]:
    total = report.total
    return {
        "report": report,
        "cost": amount(total["billed_cost"], report.currency),
        "change": _change(report),
        "kinds": [_kind(total, kind) for kind in HELD],
        "efficiency": _ratio(total["efficiency"]),
        "coverage": _ratio(total["coverage"]),
        "tables": [
            ("Projects", [_row(row, row["project"] or "no project", report) for row in report.projects]),
            ("Workloads", [_row(row, f"{row['workload']} ({row['project']})", report) for row in report.workloads]),
        ],
        "budgets": [
            f"{one.project or 'all projects'}: {amount(one.actual, one.currency)} of "
            f"{amount(one.amount, one.currency)} in {one.month}, {one.state}; "
            f"{'expected' if one.is_estimate else 'in all'} {amount(one.forecast, one.currency)}"
            for one in report.budgets
        ],
        "advice": [
            (f"{', '.join(one.workloads[:2])}: {one.what}", amount(one.monthly_amount, one.currency or ""))
            for one in report.advice
        ],
    }


def _kind(total: Mapping[str, Any], kind: str) -> tuple[str, str, str, str]:
    """Its name, colour, hours and part of the held time."""
    held = total[f"{kind}_gpu_hours"]
    return kind, COLOURS[kind], hours(held), percent(held, total["allocated_gpu_hours"])


def amount(value: Decimal | None, currency: str) -> str:
    return "unknown" if value is None else f"{money(round(value, 2))} {currency}".strip()


def _change(report: Report) -> str:
    """Against the period before, as far as both are known."""
    now, before = report.total["billed_cost"], report.before and report.before["billed_cost"]
    if now is None or not before:
        return ""
    return f"{'+' if now >= before else '−'}{abs(100 * (now - before) / before):.1f} % against the period before"


def _ratio(value: Decimal | None) -> str:
    return DASH if value is None else f"{100 * value:.1f} %"


def _row(row: Mapping[str, Any], title: str, report: Report) -> dict[str, str]:
    held = row["allocated_gpu_hours"]
    widths = {kind: f"{100 * row[f'{kind}_gpu_hours'] / held:.1f}" if held else "0" for kind in HELD}
    return {
        "title": title,
        "hours": hours(held),
        "efficiency": _ratio(row["efficiency"]),
        "idle_cost": amount(row["idle_cost"], ""),
        "cost": amount(row["billed_cost"], ""),
        **{f"{kind}_width": width for kind, width in widths.items()},
    }


@functools.cache
def _templates() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

    return Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=select_autoescape(("html",)),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
