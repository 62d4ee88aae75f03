"""`gpuledger budget`: monthly budgets of tenants and projects, compared with actual and forecast cost."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.output import print_json, print_rows, say
from warehouse.instants import rfc3339
from warehouse.store import Store

if TYPE_CHECKING:
    from billing.accounts.budgets import BudgetState

budget = typer.Typer(invoke_without_command=True)

FILE_COLUMNS = ("tenant", "project", "amount", "currency", "effective_from", "effective_to", "owner", "thresholds")
COLUMNS = (
    "tenant", "project", "month", "owner", "amount", "currency", "known_until", "actual", "unpriced_gpu_hours",
    "percent", "forecast", "forecast_low", "forecast_high", "is_estimate", "forecast_percent", "burn_per_day", "state",
    "crossed", "error_day_10", "error_day_20", "error_months",
)  # fmt: skip

Month = Annotated[
    str, typer.Option("--period", help="A month in the billing time zone, like 2026-10.", show_default="this month")
]


def register(app: typer.Typer) -> None:
    app.add_typer(budget, name="budget", help="Budgets: apply a file, list it, show the state of a month.")


@budget.callback()
def _root(
    context: typer.Context,
    period: Month = "",
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """How a month stands against its budgets (as `budget status`)."""
    if context.invoked_subcommand is None:
        status(period, store, fmt)


@budget.command("status")
def status(period: Month = "", store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """Actual and forecast cost of a month compared with its budgets, and when thresholds were crossed."""
    from billing.accounts.budgets import METHOD, budget_states

    now = datetime.now(UTC)
    with opened_store(store) as opened:
        month = period or now.astimezone(_zone(opened)).strftime("%Y-%m")
        states = budget_states(opened, month, now)
    if fmt is options.Format.json:
        print_json({"period": month, "method": METHOD, "budgets": [_document(state) for state in states]})
    elif fmt is options.Format.csv:
        print_rows([_row(state) for state in states], COLUMNS, fmt)
    elif not states:
        say(f"no budget is in force in {month}. Next: gpuledger budget apply FILE")
    else:
        _print_table(states, month, METHOD)


@budget.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="The budgets, YAML.")],
    store: options.Store = "",
    author: options.Author = "",
    reason: options.Reason = "",
) -> None:
    """Check and apply a budgets file; repeating it changes nothing."""
    from billing.accounts.budget_file import apply_budgets, current_budgets, load_budgets

    loaded = load_budgets(file)
    with open_books(store, author) as books:
        line = books.apply(
            "budgets", loaded, reason, lambda server, text: server.apply_budgets(text, reason), current_budgets,
            apply_budgets,
        )  # fmt: skip
    if line:
        say(f"{line}: {len(loaded.budgets)} in {loaded.currency}. Next: gpuledger budget")


@budget.command("list")
def list_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The applied budgets."""
    from billing.accounts.budget_file import current_budgets

    with opened_store(store) as opened:
        applied = current_budgets(opened)
    if applied is None:
        if fmt is options.Format.table:
            say("no budgets yet. Next: gpuledger budget apply FILE")
        else:
            print_rows([], FILE_COLUMNS, fmt)
        return
    rows = [
        {
            **one.model_dump(),
            "currency": applied.file.currency,
            "thresholds": ", ".join(f"{_percent(t.percent)}% {t.of}" for t in one.thresholds),
        }
        for one in applied.file.budgets
    ]
    print_rows(rows, FILE_COLUMNS, fmt, f"budgets {applied.version}")


def _zone(store: Store) -> Any:
    from zoneinfo import ZoneInfo

    from billing.ledger_report import billing_timezone

    return ZoneInfo(billing_timezone(store))


def _document(state: BudgetState) -> dict[str, Any]:
    document = {**asdict(state), "state": state.state.value}
    document["forecast_error"] = document.pop("error")
    return document


def _row(state: BudgetState) -> dict[str, Any]:
    return {
        **asdict(state),
        "state": state.state.value,
        "is_estimate": str(state.is_estimate).lower(),
        "crossed": _crossed(state),
        "error_day_10": state.error.day_10,
        "error_day_20": state.error.day_20,
        "error_months": state.error.months,
    }


def _crossed(state: BudgetState) -> str:
    return "; ".join(
        f"{_percent(one.percent)}% {one.of} at {rfc3339(one.crossed_at)}" for one in state.thresholds if one.crossed_at
    )


def _print_table(states: list[BudgetState], month: str, method: str) -> None:
    rows = [
        {
            "tenant": state.tenant,
            "project": state.project,
            "budget": state.amount,
            "actual": None if state.actual is None else round(state.actual, 2),
            "%": state.percent,
            "forecast": state.forecast,
            "per day": state.burn_per_day,
            "state": state.state.value,
        }
        for state in states
    ]
    print_rows(rows, list(rows[0]), options.Format.table, f"budgets, {month}, {states[0].currency}")
    for state in states:
        name = state.tenant + (f", {state.project}" if state.project else "")
        for line in (_crossed(state), _between(state), _error(state), _unpriced(state)):
            if line:
                say(f"{name}: {line}")
    known = states[0].known_until
    say(f"forecast: {method}; known until {rfc3339(known)}" if known else "nothing of the month is closed")


def _unpriced(state: BudgetState) -> str:
    if not state.unpriced_gpu_hours:
        return ""
    return f"{state.unpriced_gpu_hours:,.2f} GPU-hours have no price and are in no amount"


def _between(state: BudgetState) -> str:
    if not state.is_estimate or state.forecast_low is None:
        return ""
    low, high = f"{state.forecast_low:,}", f"{state.forecast_high:,}"
    return f"will end between {low} and {high}, as four of five past trials would have"


def _error(state: BudgetState) -> str:
    measured = ((10, state.error.day_10), (20, state.error.day_20))
    texts = [f"{one * 100:.1f}% after day {day}" for day, one in measured if one is not None]
    months = f"{state.error.months} past month{'' if state.error.months == 1 else 's'}"
    return f"forecasts were off by {', '.join(texts)} (mean of {months})" if texts else ""


def _percent(percent: Decimal) -> str:
    return format(percent.normalize(), "f")
