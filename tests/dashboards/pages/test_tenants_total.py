"""What the tenants' page says where its exact sum is not what the invoices sum to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from billing.money import largest_remainder
from dashboards.amounts import Amounts
from dashboards.languages import language
from dashboards.pages.tenants import Level, by_invoice, spent_in_all


@dataclass
class Priced:
    currency: str = "EUR"


def said(costs: Sequence[str | None], level: str = "tenant", in_all: int | None = None, code: str = "en") -> str:
    rows = [{"billed_cost": cost and Decimal(cost), "in_all": in_all or len(costs)} for cost in costs]
    known = [Decimal(cost) for cost in costs if cost]
    total = Amounts({}, billed_cost=sum(known, Decimal(0)) if known else None)
    filters: Any = Priced()
    return by_invoice(filters, rows, total, Level(level, "day", {}), language(code))


@pytest.mark.parametrize("code", ["en", "zh"])
def test_the_page_says_both_amounts_where_rounding_tenant_by_tenant_is_another_one(code: str) -> None:
    text = said(["1000.004", "1000.004"], code=code)
    assert "€2,000.01" in text
    assert "€2,000.00" in text


def test_each_tenant_is_rounded_as_its_invoice_is() -> None:
    """Half to even, as the net total of an invoice; 0.005 and 0.015 are 0.00 and 0.02, together 0.02."""
    assert said(["0.005", "0.015"]) == ""
    assert [largest_remainder([Fraction(cost)], 2)[1] for cost in ("0.005", "0.015")] == [0, Decimal("0.02")]


@pytest.mark.parametrize(
    ("costs", "level", "in_all"),
    [
        (["1.00", "2.00"], "tenant", None),
        (["1000.004", "1000.004"], "project", None),
        (["1000.004", "1000.004"], "tenant", 3),
        (["1000.004", "1000.004", None], "tenant", None),
        ([None], "tenant", None),
    ],
    ids=["equal", "projects are on one invoice", "not all are shown", "a price is unknown", "no price"],
)
def test_it_says_nothing_where_there_is_nothing_to_say(costs: list[str | None], level: str, in_all: int | None) -> None:
    assert said(costs, level, in_all) == ""


@pytest.mark.parametrize(
    ("names", "in_all", "billed", "share"),
    [
        (["a", "b"], 2, "30", 0.75),
        (["a", "b", "c"], 3, "30", None),
        (["a", ""], 2, "30", None),
        (["a", "b"], 3, "30", None),
        (["a", "b"], 2, None, None),
    ],
    ids=["all have one", "one has none", "nobody's", "not all are shown", "a price is unknown"],
)
def test_the_total_s_budget_is_that_of_all_rows_or_unknown(
    names: list[str], in_all: int, billed: str | None, share: float | None
) -> None:
    """As found: a dash below seven budgets that the overview sums."""
    rows = [{"name": name, "in_all": in_all} for name in names]
    total = Amounts({}, billed_cost=Decimal(billed) if billed else None)
    assert spent_in_all(rows, total, {"a": Decimal(10), "b": Decimal(30), "": Decimal(100)}) == share
