"""Budgets beside the costs on pages."""

from __future__ import annotations

from collections.abc import Sequence

from billing.accounts.budget_file import Budget, current_budgets
from dashboards.filters import Filters
from warehouse.store import Store

PARTIAL = ("queue", "pool", "model", "cluster")
"""Filters that leave out a part of what a budget is for."""


def in_month(store: Store, filters: Filters, month: str) -> tuple[Sequence[Budget], str]:
    """The budgets in force in a month, and their currency; none where filters leave out a part of the costs."""
    narrowed = any(name in filters.address.chosen for name in PARTIAL)
    applied = None if narrowed else current_budgets(store)
    if applied is None:
        return (), ""
    return [budget for budget in applied.file.budgets if budget.in_force(month)], applied.file.currency
