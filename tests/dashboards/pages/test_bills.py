"""From bill to bill: the parts sum to the difference of what is to be paid, whatever the lines are."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest

from access.current import set_current
from access.principal import Principal
from access.roles import Role
from billing.insights.bills import bill_of, bill_parts
from billing.invoicing.documents import Invoice
from billing.invoicing.invoices import credit, issue_all, void
from billing.lines import KINDS, lines_by
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from dashboards.filters import filters_of
from dashboards.languages import language
from dashboards.pages.changes.bills import bills, months_of
from gpuledger.mcp import tools
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.draws import dice_of
from warehouse.store import Store

SEPTEMBER, OCTOBER = parse_month("2026-09", "UTC"), parse_month("2026-10", "UTC")
NOW = at("2026-11-02 09:00")
CARD: dict[str, Any] = {
    "currency": "EUR",
    "minimum_seconds": 0,
    "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}],
    "discounts": [{"name": "volume", "tiers": [{"from": "5", "percent": "10"}]}],
    "taxes": [{"name": "VAT", "percent": "19"}],
}


def books(store: Store) -> None:
    """nlp holds a GPU for 4 hours of September and 9 of October, vision for 2 of October alone."""
    apply_rate_card(store, parse_rate_card(CARD), "me", "", NOW)
    rows = [Row(at(f"2026-09-10 {hour:02}:00"), "nlp", "a", used=str(HOUR_MS)) for hour in range(4)]
    rows += [Row(at(f"2026-10-10 {hour:02}:00"), "nlp", "a", used=str(HOUR_MS)) for hour in range(9)]
    rows += [Row(at(f"2026-10-10 {hour:02}:00"), "vision", device="gpu-2", used=str(HOUR_MS)) for hour in range(2)]
    months = [SEPTEMBER.start + n * timedelta(hours=1) for n in range(24 * 61)]
    fill(store, rows, closed=months)


def test_the_parts_of_two_bills_say_all_of_the_difference_and_the_page_shows_them(store: Store) -> None:
    books(store)
    before, now = (bill_of(store, "nlp", month) for month in ("2026-09", "2026-10"))
    assert before is not None and now is not None
    assert (before.amount, now.amount) == (Decimal("9.52"), Decimal("20.47"))  # (8 × 1.19, (18 − 4 × 2 × 10 %) × 1.19)
    found = {(one.kind, one.sku): (one.before, one.now, one.hours_before, one.hours) for one in bill_parts(before, now)}
    assert found["usage", "h100"] == (Decimal("8.00"), Decimal("18.00"), 4, 9)
    assert {kind for kind, _ in found} == {"usage", "discount", "tax"}
    assert sum(one.difference or 0 for one in bill_parts(before, now)) == Decimal("10.95")
    (september,) = issue_all(store, SEPTEMBER, NOW, "nlp")
    assert bill_of(store, "nlp", "2026-09") == september
    assert september.number is not None
    note = credit(store, september.number, Decimal("1.00"), NOW, "me", "late")
    assert bill_of(store, "nlp", "2026-09") == september, "a credit note is a document of its own"
    for one in (note, september):
        void(store, str(one.number), NOW, "me", "wrong")
    drafted = bill_of(store, "nlp", "2026-09")
    assert drafted is not None and drafted.number is None
    assert bill_of(store, "vision", "2026-09") is None


@pytest.mark.parametrize(
    ("search", "months"),
    [
        ("?period=2026-10&tenant=nlp", ("2026-09", "2026-10")),
        ("?period=2026-09&tenant=nlp", None),
        ("?period=2026-09&tenant=nlp&against=2026-10", ("2026-10", "2026-09")),
        ("?period=2026-10", None),
        ("?period=2026-10&tenant=nlp&tenant=vision", None),
        ("?period=2026-10&tenant=nlp&project=a", None),
        ("?period=2026-10-10&tenant=nlp", None),
        ("?period=2026-10&tenant=nlp&against=2026-10", None),
        ("?period=2026-10&tenant=nlp&against=2026-09-10", None),
    ],
)
@pytest.mark.usefixtures("anybody")
def test_bills_are_of_months_and_of_one_tenant_with_all_it_has(
    store: Store, search: str, months: tuple[str, str] | None
) -> None:
    books(store)
    filters = filters_of(store, search)
    assert months_of(filters) == months
    shown = str(bills(store, filters, language("en")))
    assert ("'sku" in shown or "h100" in shown) == (months is not None)


def test_nobody_sees_the_bills_of_a_tenant_that_is_not_theirs(store: Store) -> None:
    books(store)
    set_current(Principal("v", frozenset({Role.tenant}), frozenset({"vision"})))
    for tenant, months in (("vision", ("2026-09", "2026-10")), ("nlp", None)):
        filters = filters_of(store, f"?period=2026-10&tenant={tenant}")
        assert months_of(filters) == months
        assert "h100" not in str(bills(store, filters, language("en")))


def drawn(dice: Random) -> Invoice:
    lines = []
    for _ in range(dice.randint(0, 12)):
        kind = dice.choice(KINDS)
        lines.append(
            {
                "kind": kind,
                "project": dice.choice(["", "a", "b"]),
                "sku": dice.choice(["", "a100", "h100"]),
                "quantity": f"{dice.randint(0, 999)}.5" if kind == "usage" else None,
                "amount": f"{dice.randint(-9999, 9999) / 100:.2f}",
                "charge_class": dice.choice([None, None, "Correction"]),
            }
        )
    amount = sum((Decimal(str(line["amount"])) for line in lines), Decimal(0))
    return Invoice({"currency": "EUR", "lines": lines, "totals": {"amount": str(amount)}})


def test_of_any_two_bills_the_parts_sum_to_the_difference() -> None:
    dice = dice_of(None)
    for _ in range(200):
        before, now = drawn(dice), drawn(dice)
        parts = bill_parts(before, now)
        assert sum(one.difference or Decimal(0) for one in parts) == now.amount - before.amount
        assert len({(one.kind, one.sku) for one in parts}) == len(parts)
        if not before.lines:
            continue
        spoiled = dice.choice(before.lines)
        spoiled["amount"] = None
        unknown = [one for one in bill_parts(before, now) if one.difference is None]
        assert len(unknown) == 1, "what has no price is not free"


def test_what_changed_a_bill_is_the_same_for_assistants_as_on_the_page() -> None:
    """They are told of projects, too."""
    dice = dice_of(None)
    for _ in range(100):
        bills = before, now = drawn(dice), drawn(dice)
        was, has = ({key: tools._charged(of) for key, of in lines_by(bill.lines, "project", "sku").items()}
                    for bill in bills)  # fmt: skip
        found: dict[tuple[str, str], Decimal | None] = {}
        for key in {*was, *has}:
            effect = tools._effect(key, was.get(key, tools.NOTHING), has.get(key, tools.NOTHING))
            found[key[0], key[2]] = (found.get((key[0], key[2])) or 0) + effect["difference"]
        assert found == {(part.kind, part.sku): part.difference for part in bill_parts(before, now)}
