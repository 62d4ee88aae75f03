"""`gpuledger ledger`: allocated, used, idle and unmetered GPU-hours and their cost, by any dimension."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import typer

from gpuledger import options
from gpuledger.books import opened_store
from gpuledger.output import figures_of, percent, print_json, print_rows, say, two_decimals
from warehouse.instants import rfc3339

if TYPE_CHECKING:
    from billing.ledger_report import LedgerReport

HEADINGS = {
    "allocated_gpu_hours": "allocated",
    "used_gpu_hours": "used",
    "idle_gpu_hours": "idle",
    "unmetered_gpu_hours": "unmetered",
    "list_cost": "list cost",
    "billed_cost": "billed",
    "coverage": "metered",
}


def register(app: typer.Typer) -> None:
    app.command("ledger")(ledger)


def ledger(
    store: options.Store = "",
    period: options.Period = "",
    by: options.LedgerDimensions = "tenant",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """GPU-hours and cost of the closed hours, by tenant or any other dimension (comma-separated)."""
    from billing.ledger_report import billing_timezone, ledger_report
    from billing.periods import parse_period

    with opened_store(store) as opened:
        asked = parse_period(period, billing_timezone(opened)) if period else None
        report = ledger_report(opened, asked, [name.strip() for name in by.split(",") if name.strip()])
    if fmt is options.Format.json:
        print_json(report.document())
    elif fmt is options.Format.csv:
        print_rows(report.rows, report.columns, fmt)
    else:
        _print_table(report)


def _print_table(report: LedgerReport) -> None:
    if (period := figures_of(report.closed)) is None:
        return
    title = f"{rfc3339(period.start)} to {rfc3339(period.end)}, GPU-hours and {report.currency or 'no price'}"
    total = {report.by[0]: "total", **report.total} if report.by else report.total
    rows = [_for_people(row) for row in ((*report.rows, total) if report.by else (total,))]
    print_rows(rows[:-1], (*report.by, *HEADINGS.values()), options.Format.table, title, totals=rows[-1:])
    platform, capacity = report.platform, report.capacity
    print_rows(
        [],
        ("platform", "h", "list cost"),
        options.Format.table,
        totals=[
            {"platform": "unallocated", **_amount(platform["unallocated_gpu_hours"], platform["unallocated_cost"])},
            {"platform": "unavailable", **_amount(platform["unavailable_gpu_hours"], platform["unavailable_cost"])},
            {"platform": "capacity", **_amount(capacity["gpu_hours"], capacity["cost"])},
        ],
    )
    if report.total["unpriced_gpu_hours"]:
        hours = report.total["unpriced_gpu_hours"]
        say(f"{hours:,.2f} allocated GPU-hours have no price and are in no cost above")


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    shown = {HEADINGS.get(name, name): two_decimals(value) for name, value in row.items()}
    shown["metered"] = percent(row["coverage"])
    return shown


def _amount(hours: Decimal, cost: Decimal | None) -> dict[str, Any]:
    return {"h": two_decimals(hours), "list cost": two_decimals(cost)}
