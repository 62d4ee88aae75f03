"""The page Changes: what it shows adds up, whatever is drawn; what it sorts and exports by is exact."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from billing.exact import rounded
from billing.insights.changes import Held, in_all, walk
from dashboards.pages.changes.adding_up import in_short, with_texts
from tests.draws import dice_of

STEPS = ("by_hours", "by_price", "by_mix")


def amount(text: str) -> Decimal:
    return Decimal(re.sub(r"[+$,]", "", text).replace("−", "-"))


def holders(dice: Any, size: int) -> list[dict[str, Held]]:
    return [
        {
            model: Held(Fraction(dice.randint(1, 10**6), 997), cost := Fraction(dice.randint(0, size), 997), cost / 3)
            for model in ("H100", "A100")
        }
        for _ in range(6)
    ]


@pytest.mark.parametrize("size", [10**3, 10**5, 10**8])
def test_the_shown_changes_add_up_and_their_costs_are_those_of_other_pages(size: int) -> None:
    """As found: 26,148.38 then, 21,404.22 now, and −4,744.15 between them; then, where columns added up instead,
    $18,746.76 of a tenant whose invoice and page Tenants said $18,746.77."""
    dice = dice_of(None)
    before, now = holders(dice, size), holders(dice, size)
    changes = [walk(was, has) for was, has in zip(before, now, strict=True)]
    measured = [one.measures() | {"idle_difference": rounded(one.now.idle_cost - one.before.idle_cost)}
                for one in (*changes, in_all(before, now))]  # fmt: skip
    for row in (with_texts(one, "USD") for one in measured):
        shown = {name.removesuffix("_text"): amount(text) for name, text in row.items() if name.endswith("_text")}
        assert shown["cost"] - shown["cost_before"] == shown["difference"] == sum(shown[name] for name in STEPS)
        assert all(abs(one - row[name]) <= Decimal("0.02") for name, one in shown.items()), "and near what is exact"
        short = {name: amount(text) for name, text in in_short(row, "USD").items()}
        assert short["cost"] - short["cost_before"] == short["difference"] == sum(short[name] for name in STEPS)
        for name in ("cost_before", "cost", "idle_difference"):
            assert shown[name] == rounded(Fraction(row[name]), 2), name


def test_what_has_no_price_is_unknown_in_each_column() -> None:
    nothing = dict.fromkeys(("cost_before", "cost", "difference", *STEPS, "idle_difference"))
    row = with_texts(nothing, "USD")
    assert {text for name, text in row.items() if name.endswith("_text")} == {"–"}
    assert set(in_short(nothing, "USD").values()) == {"–"}


def test_short_amounts_are_all_with_cents_or_none() -> None:
    """As found: −$1,069, −$55.76 and −$649 beside each other."""
    known = {"cost_before": Decimal("26148.38"), "cost": Decimal("24374.62"), "by_hours": Decimal("-1069"),
             "by_price": Decimal("-55.76"), "by_mix": Decimal("-649"), "difference": Decimal("-1773.76")}  # fmt: skip
    assert in_short(known, "USD") == {
        "cost_before": "$26,148", "cost": "$24,375", "difference": "−$1,773", "by_hours": "−$1,069",
        "by_price": "−$55", "by_mix": "−$649",
    }  # fmt: skip
