"""`gpuledger efficiency`, `changes`, `savings` and `anomalies`: analyses of the ledger."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger import options
from gpuledger.books import opened_store
from gpuledger.output import figures_of, percent, print_json, print_rows, say, two_decimals
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.printable import grouped
from warehouse.store import Store

if TYPE_CHECKING:
    from billing.insights.anomalies import AnomalyReport
    from billing.insights.changes import ChangesReport
    from billing.insights.efficiency import EfficiencyReport
    from billing.insights.savings import SavingsReport
    from billing.periods import Period


def register(app: typer.Typer) -> None:
    app.command("efficiency")(efficiency)
    app.command("changes")(changes)
    app.command("savings")(savings)
    app.command("anomalies")(anomalies)


def efficiency(
    store: options.Store = "",
    period: options.Period = "",
    by: options.LedgerDimensions = "tenant",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """How well allocated time was used, and the cost of idle and unmetered time, by tenant or any other dimension."""
    from billing.insights.efficiency import efficiency as compute

    with opened_store(store) as opened:
        report = compute(opened, _period(opened, period), [name.strip() for name in by.split(",") if name.strip()])
    if fmt is options.Format.json:
        print_json(report.document())
    elif fmt is options.Format.csv:
        print_rows(report.rows, report.columns, fmt)
    else:
        _print_efficiency(report)


def changes(
    period: Annotated[
        str, typer.Option(help="A month (2026-10), a day (2026-10-05) or START..END, in the billing time zone.")
    ],
    against: Annotated[str, typer.Option(help="Another, written likewise.", show_default="the one before")] = "",
    store: options.Store = "",
    by: Annotated[
        str, typer.Option(help="Any of tenant, project, queue, workload, cluster, node, device, model, pool.")
    ] = "tenant",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """What changed in the cost since the period before, or another: by hours, prices, and the mix of models."""
    from billing.insights.changes import changes as compute

    with opened_store(store) as opened:
        asked = _period(opened, period)
        if asked is None:
            raise LedgerError("--period", "is empty", "Write it like 2026-10")
        dimensions = [name.strip() for name in by.split(",") if name.strip()]
        report = compute(opened, asked, _period(opened, against), dimensions)
    if fmt is options.Format.json:
        print_json(report.document())
    elif fmt is options.Format.csv:
        print_rows(report.rows, report.columns, fmt)
    else:
        _print_changes(report)


def savings(
    store: options.Store = "",
    period: options.Period = "",
    min_coverage: Annotated[
        str, typer.Option(help="Minimum metered share (0-1) of allocated time; below it nothing is judged.")
    ] = "0.9",
    idle_hours: Annotated[
        int, typer.Option(min=1, max=8784, help="Minimum consecutive idle hours to reclaim a device.")
    ] = 6,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Recommendations to reduce cost, with evidence and amounts, and the cost of idle time."""
    from billing.insights.holders import Rules
    from billing.insights.savings import ROW_COLUMNS, summary
    from billing.insights.savings import savings as compute

    rules = Rules(min_coverage=_part("--min-coverage", min_coverage), idle_hours=idle_hours)
    with opened_store(store) as opened:
        report = compute(opened, _period(opened, period), rules)
    if fmt is options.Format.json:
        print_json(report.document())
    elif fmt is options.Format.csv:
        print_rows([one.row() for one in report.recommendations], ROW_COLUMNS, fmt)
        if line := summary(report):
            say(line)
    else:
        _print_savings(report)


def anomalies(
    store: options.Store = "",
    period: options.Period = "",
    score: Annotated[
        str, typer.Option(help="Robust standard deviations from the expected cost to flag a day.")
    ] = "3.5",
    check: Annotated[bool, typer.Option("--check", help="Exit 1 if a day is flagged.")] = False,
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Days on which a tenant, or unallocated capacity, cost more or less than expected from its past."""
    from billing.insights.anomalies import ANOMALY_COLUMNS
    from billing.insights.anomalies import anomalies as compute

    with opened_store(store) as opened:
        report = compute(opened, _period(opened, period), threshold=_positive("--score", score))
    if fmt is options.Format.json:
        print_json(report.document())
    elif fmt is options.Format.csv:
        print_rows([one.row() for one in report.flagged], ANOMALY_COLUMNS, fmt)
    else:
        _print_anomalies(report)
    if check and report.flagged:
        raise typer.Exit(1)


def _period(store: Store, text: str) -> Period | None:
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_period

    return parse_period(text, billing_timezone(store)) if text else None


def _part(name: str, text: str) -> Decimal:
    value = _positive(name, text)
    if value > 1:
        raise LedgerError(name, f"{text!r} is not a part of 1", "Write it like 0.9")
    return value


def _positive(name: str, text: str) -> Decimal:
    try:
        value = Decimal(text)
    except ArithmeticError:
        value = Decimal("NaN")
    if not value.is_finite() or value <= 0:
        raise LedgerError(name, f"{text!r} is not a number above 0", "Write it like 0.9")
    return value


def _title(period: Period, what: str) -> str:
    return f"{rfc3339(period.start)} to {rfc3339(period.end)}, {what}"


def _print_efficiency(report: EfficiencyReport) -> None:
    if (period := figures_of(report.closed)) is None:
        return
    names = {
        "allocated_gpu_hours": "allocated",
        "efficiency": "efficiency",
        "coverage": "metered",
        "idle_cost": "idle cost",
        "unmetered_cost": "unmetered cost",
        "billed_cost": "billed",
    }
    total = {report.by[0]: "total", **report.total} if report.by else report.total
    rows = [
        {
            **{name: row.get(name) for name in report.by},
            **{text: two_decimals(row[name]) for name, text in names.items()},
            "efficiency": percent(row["efficiency"]),
            "metered": percent(row["coverage"]),
        }
        for row in ((*report.rows, total) if report.by else (total,))
    ]
    title = _title(period, f"GPU-hours and {report.currency or 'no price'}")
    print_rows(rows[:-1], (*report.by, *names.values()), options.Format.table, title, totals=rows[-1:])
    if report.total["unpriced_gpu_hours"]:
        hours = report.total["unpriced_gpu_hours"]
        say(f"{hours:,.2f} allocated GPU-hours have no price and are in no cost above")


def _print_changes(report: ChangesReport) -> None:
    if figures_of(report.before, "before") is None or (period := figures_of(report.period, "now")) is None:
        return
    assert report.before is not None
    names = {
        "cost_before": "before",
        "cost": "now",
        "difference": "difference",
        "by_hours": "by hours",
        "by_price": "by price",
        "by_mix": "by mix",
        "idle_cost_before": "idle before",
        "idle_cost": "idle now",
    }
    total = {report.by[0]: "total", **report.total} if report.by else report.total
    rows = [
        {
            **{name: row.get(name) for name in report.by},
            **{text: two_decimals(row[name]) for name, text in names.items()},
        }
        for row in ((*report.rows, total) if report.by else (total,))
    ]
    before = report.before.period
    title = _title(period, f"against {rfc3339(before.start)} to {rfc3339(before.end)}, {report.currency or 'no price'}")
    print_rows(rows[:-1], (*report.by, *names.values()), options.Format.table, title, totals=rows[-1:])
    if report.total["unpriced_gpu_hours"]:
        say(f"{report.total['unpriced_gpu_hours']:,.2f} GPU-hours have no price and are in no cost above")


def _print_savings(report: SavingsReport) -> None:
    from billing.insights.savings import summary

    if (period := figures_of(report.closed)) is None:
        return
    rows = [
        {
            "id": one.id,
            "a month": one.monthly_amount,
            "so far": one.past_amount,
            "tenant": one.tenant,
            "project": one.project,
            "workload": " ".join(one.workloads),
            "what": one.what,
            "metered": percent(one.evidence["coverage"]),
            "confidence": one.confidence,
        }
        for one in report.recommendations
    ]
    columns = ("id", "a month", "so far", "tenant", "project", "workload", "what", "metered", "confidence")
    title = _title(period, report.currency or "no price")
    if rows:
        print_rows(rows, columns, options.Format.table, title)
    else:
        say(title)
    sums = [
        {"tenant": one.tenant, "a month": one.monthly_amount, "so far": one.past_amount, "n": one.recommendations}
        for one in report.by_tenant
    ]
    if rows:
        print_rows(sums, ("tenant", "a month", "so far", "n"), options.Format.table)
    say(summary(report))
    if unpriced := sum(one.unpriced for one in report.by_tenant):
        say(f"{unpriced} recommendation{' has' if unpriced == 1 else 's have'} no price: not in any sum above")
    if report.not_judged:
        hours = sum((one.hours for one in report.not_judged), Decimal(0))
        say(
            f"not judged: {len(report.not_judged)} allocation{'' if len(report.not_judged) == 1 else 's'} with "
            f"{hours:,.2f} GPU-hours, of which too little is known (--format json lists them with the reason)"
        )


def _print_anomalies(report: AnomalyReport) -> None:
    if (period := figures_of(report.closed)) is None:
        return
    rows = [
        {
            "day": one.day,
            "who": one.tenant if one.subject == "tenant" else one.subject,
            "cost": two_decimals(one.cost),
            "expected": two_decimals(one.expected),
            "from": two_decimals(one.low),
            "to": two_decimals(one.high),
            "score": one.score,
            "most of it": ", ".join(f"{part.name} {part.cost:,.2f}" for part in one.contributors[:3]),
        }
        for one in report.flagged
    ]
    columns = ("day", "who", "cost", "expected", "from", "to", "score", "most of it")
    title = _title(period, report.currency or "no price")
    if rows:
        print_rows(rows, columns, options.Format.table, title)
    else:
        say(title)
    say(f"{grouped(report.judged, 'day')} of a tenant or the platform judged, {len(report.flagged)} flagged")
    for reason, count in report.reasons().items():
        say(f"not judged: {count} ({reason})")
