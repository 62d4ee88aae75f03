"""The format of the budgets file, in YAML.

currency: EUR
budgets:
  - tenant: physics
    project: qcd                    # absent: all of the tenant's
    amount: "10000.00"              # a month
    effective_from: 2026-10         # months; effective_to is exclusive, absent = open
    owner: physics-lead@example.org
    thresholds: [{percent: "80"}, {percent: "100", of: forecast}]
low_balances:
  - {tenant: physics, amount: "500.00", owner: physics-lead@example.org}
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from billing import audit
from billing.applied import add_version
from billing.rates import current_rate_card
from billing.rates.policies import Currency, DecimalText, Name, Part, Policy, Positive, TenantName, WholeFile
from warehouse.chain import head
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql
from warehouse.written_files import first_error, read_yaml


class BudgetError(LedgerError):
    """A budgets file that cannot be used."""


class Threshold(Part):
    """A percentage of the amount, compared with the actual cost or with the month's forecast."""

    percent: Positive
    of: Literal["actual", "forecast"] = "actual"


_USUAL = tuple(
    Threshold.model_validate({"percent": percent, "of": of})
    for percent, of in (("80", "actual"), ("100", "actual"), ("100", "forecast"))
)


class Budget(Policy):
    """What a tenant, or one of its projects, may spend in each month in which it is in force."""

    tenant: TenantName
    project: Name | None = None
    amount: Positive
    thresholds: Annotated[tuple[Threshold, ...], Field(strict=False, min_length=1)] = _USUAL
    owner: str = ""

    @model_validator(mode="after")
    def _thresholds_differ(self) -> Self:
        keys = [(threshold.percent, threshold.of) for threshold in self.thresholds]
        if len(set(keys)) < len(keys):
            raise ValueError("two thresholds are the same")
        return self


class LowBalance(Part):
    """A prepaid balance at or below which somebody should know."""

    tenant: TenantName
    amount: DecimalText
    owner: str = ""


class BudgetFile(WholeFile):
    """A whole file."""

    currency: Currency
    budgets: Annotated[tuple[Budget, ...], Field(strict=False)] = ()
    low_balances: Annotated[tuple[LowBalance, ...], Field(strict=False)] = ()

    @model_validator(mode="after")
    def _one_for_each(self) -> Self:
        if not self.budgets and not self.low_balances:
            raise ValueError("it has no budgets and no low_balances; a budget ends with effective_to")
        if rivals := min(self._rivals(), default=None):
            first, second = rivals
            raise ValueError(
                f"budgets[{first}] and budgets[{second}] are about the same months of "
                f"{_budgeted(self.budgets[first])}; end one where the other starts"
            )
        for tenant, times in Counter(low.tenant for low in self.low_balances).items():
            if times > 1:
                raise ValueError(f"low_balances has {tenant!r} twice")
        return self

    def _rivals(self) -> Iterator[tuple[int, int]]:
        """Places of budgets that are about the same in some month. Of each tenant's and project's alone: each budget
        beside each other one took minutes for a file of ten thousand."""
        alike: dict[tuple[str, str | None], list[tuple[int, Budget]]] = defaultdict(list)
        for place, budget in enumerate(self.budgets):
            alike[budget.tenant, budget.project].append((place, budget))
        pairs = (pair for group in alike.values() for pair in combinations(group, 2))
        return ((first, second) for (first, one), (second, other) in pairs if one.shares_a_month(other))

    def low_below(self) -> dict[tuple[str, str], Decimal]:
        """Thresholds of prepaid balances, by tenant and currency."""
        return {(low.tenant, self.currency): low.amount for low in self.low_balances}


class AppliedBudgets(Part):
    """A file as it was applied, by whom and why."""

    file: BudgetFile
    version: str
    applied_at: datetime
    author: str
    reason: str


def load_budgets(path: Path | str) -> BudgetFile:
    """Reads a file from YAML. Errors: BudgetError naming the key, what was found there and what fits."""
    content = read_yaml(path, "a budgets file", "It starts with the keys currency and budgets", BudgetError)
    return parse_budgets(content, str(path))


def parse_budgets(content: dict[str, Any], where: str = "budgets") -> BudgetFile:
    """Budgets from what the YAML holds. Errors: BudgetError with the first thing that does not fit."""
    try:
        return BudgetFile.model_validate(content)
    except ValidationError as error:
        raise first_error(where, error, BudgetFile, BudgetError, "See docs/accounts.md", content=content) from error


def apply_budgets(store: Store, file: BudgetFile, author: str, reason: str, now: datetime) -> str:
    """Puts the file in force and answers its version; the one in force already is left as it is.

    Errors: BudgetError if its currency is not the rate card's.
    """
    last = head(store, "budgets")
    check_budgets(store, file)
    rows = store.rows(read_sql(__file__, "current_budgets"))
    if rows and rows[0]["version"] == file.version:
        return file.version
    add_version(store, "budgets", "budgets", file, rows[0]["sequence"] if rows else 0, author, reason, now, last)
    audit.record(
        store, now, author, "budgets.apply", file.version, reason, {"before": rows[0]["version"] if rows else None}
    )
    return file.version


def check_budgets(store: Store, file: BudgetFile) -> None:
    """Errors: BudgetError if the file's currency is not the rate card's."""
    card = current_rate_card(store)
    if card is not None and card.card.currency != file.currency:
        raise BudgetError(
            "budgets: currency",
            f"found {file.currency}, but the rate card is in {card.card.currency}",
            f"State the amounts in {card.card.currency}",
        )


def current_budgets(store: Store) -> AppliedBudgets | None:
    """The file in force, for a tenant's connection without what is others'; None: there is none, or nothing is left."""
    rows = store.rows(read_sql(__file__, "current_budgets"))
    if not rows:
        return None
    row = rows[0]
    file = _seen_by(store, BudgetFile.model_validate_json(row["budgets"]))
    if not file.budgets and not file.low_balances:
        return None
    return AppliedBudgets(
        file=file,
        version=row["version"],
        applied_at=row["applied_at"],
        author=row["author"],
        reason=row["reason"],
    )


def _seen_by(store: Store, file: BudgetFile) -> BudgetFile:
    """The engine's filters keep a tenant from others' rows, but the file is a single cell."""
    if store.tenants is None:
        return file
    own = {
        name: tuple(one for one in getattr(file, name) if one.tenant in store.tenants)
        for name in ("budgets", "low_balances")
    }
    return file.model_copy(update=own)


def _budgeted(budget: Budget) -> str:
    return repr(budget.tenant) + (f", project {budget.project!r}" if budget.project else "")
