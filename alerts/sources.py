"""Sources of rules that are not a single query: figures that billing computes, returned as rows like a query's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from warehouse.store import Store

Rows = list[dict[str, Any]]
Source = Callable[[Store, datetime, Mapping[str, Any]], Rows]


def budgets(store: Store, at: datetime, parameters: Mapping[str, Any]) -> Rows:
    """A row for each threshold of a budget in force: value = percent spent, or forecast, beyond the threshold; null
    where the month is not known."""
    from billing.accounts.budgets import budget_states
    from billing.ledger_report import billing_timezone

    month = at.astimezone(ZoneInfo(billing_timezone(store))).strftime("%Y-%m")
    rows = []
    for state in budget_states(store, month, at):
        for one in state.thresholds:
            percent = state.percent if one.of == "actual" else state.forecast_percent
            rows.append(
                {
                    "tenant": state.tenant,
                    "project": state.project or "",
                    "month": month,
                    "percent": format(one.percent.normalize(), "f"),
                    "of": one.of,
                    "value": None if percent is None else float(percent - one.percent),
                    "reached_percent": percent,
                    "amount": state.amount,
                    "currency": state.currency,
                    "actual": state.actual,
                    "forecast": state.forecast,
                    "crossed_at": one.crossed_at,
                    "budget_owner": state.owner,
                    "burn_per_day": state.burn_per_day,
                }
            )
    return rows


def anomalies(store: Store, at: datetime, parameters: Mapping[str, Any]) -> Rows:
    """A row for each flagged day that ended within `days` days: value = spreads from what was expected."""
    from billing.insights.anomalies import anomalies as compute
    from billing.ledger_report import billing_timezone
    from billing.money import spoken_amount
    from billing.periods import parse_period

    zone = billing_timezone(store)
    today: date = at.astimezone(ZoneInfo(zone)).date()
    since = today - timedelta(days=int(parameters["days"]))
    report = compute(store, parse_period(f"{since}..{today}", zone))
    return [
        {
            "day": str(one.day),
            "subject": one.subject,
            "tenant": one.tenant,
            "value": abs(float(one.score)),
            "direction": one.direction,
            "cost": one.cost,
            "expected": one.expected,
            "currency": one.currency,
            "contributors": ", ".join(
                f"{part.name} {spoken_amount(part.cost, one.currency or '')}" for part in one.contributors[:3]
            ),
        }
        for one in report.flagged
    ]


def books(store: Store, at: datetime, parameters: Mapping[str, Any]) -> Rows:
    """One row: value = closed device-hours of the last `hours` that do not balance."""
    from billing.verify import verify

    proof = verify(store, at - timedelta(hours=int(parameters["hours"])), at)
    return [{"books": "ledger", "value": float(len(proof.failures)), "checked": proof.device_hours}]


SOURCES: Mapping[str, Source] = {"budgets": budgets, "anomalies": anomalies, "books": books}
ENGINE = "engine"
"""The source of rules whose instances are the engine's own."""
