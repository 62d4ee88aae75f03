"""What finance does in the demo: budgets.

Amounts follow from the demo's own books, so that every seed and every day of the month tells the same story.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from billing.accounts.credits import following
from billing.ledger_report import LedgerReport, billing_timezone, ledger_report
from billing.periods import Period, month_name
from warehouse.store import Store

if TYPE_CHECKING:
    from billing.accounts.budget_file import BudgetFile

PLANS: Mapping[str, Decimal] = {
    "nlp": Decimal("0.85"),
    "vision": Decimal("1.20"),
    "physics": Decimal("1.60"),
}
"""A tenant's budget as a part of what it spends: one is exceeded, one nearly used up, one has room."""
MONTH_DAYS = Decimal("30.4")


def set_budgets(store: Store, invoiced: Period) -> None:
    """Applies budgets of the invoiced month, of which the demo has a part, and of whole months from then on; nothing
    where there are some already."""
    from billing.accounts.budget_file import apply_budgets, current_budgets

    if current_budgets(store) is not None:
        return
    month = month_name(invoiced, billing_timezone(store))
    plan = budgets(month, ledger_report(store, invoiced, ["tenant"]), ledger_report(store, None, ["tenant"]))
    apply_budgets(store, plan, author="demo", reason="the demo's plan of the year", now=datetime.now(UTC))


def budgets(month: str, of_month: LedgerReport, of_all: LedgerReport) -> BudgetFile:
    """The budgets: of the month by what was spent in it, later by what a day costs.

    of_month, of_all: the ledger by tenant, of that month and of all the demo's time.
    """
    from billing.accounts.budget_file import parse_budgets

    assert of_all.closed is not None
    days = Decimal((of_all.closed.period.end - of_all.closed.period.start) / timedelta(days=1))
    spent, in_all = ({row["tenant"]: row["billed_cost"] for row in one.rows} for one in (of_month, of_all))
    found = []
    for tenant, part in PLANS.items():
        owner = f"{tenant}-lead@example.org"
        if spent.get(tenant):
            amount = _rounded(spent[tenant] * part)
            dated = {"effective_from": month, "effective_to": following(month)}
            found.append({"tenant": tenant, "amount": amount, "owner": owner, **dated})
        if in_all.get(tenant):
            amount = _rounded(in_all[tenant] / days * MONTH_DAYS * part)
            found.append({"tenant": tenant, "amount": amount, "owner": owner, "effective_from": following(month)})
    return parse_budgets({"currency": of_all.currency, "budgets": found}, "the demo's budgets")


def _rounded(amount: Decimal) -> str:
    """Down to two digits, as plans are."""
    step = Decimal(1).scaleb(max(0, amount.adjusted() - 1))
    return format(max(Decimal(1), (amount / step).to_integral_value(ROUND_FLOOR) * step), ".2f")
