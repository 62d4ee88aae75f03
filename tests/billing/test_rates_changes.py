"""Policies under issued invoices, classes of priority, and what another card would change."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from billing.invoicing.invoices import issue_all
from billing.periods import parse_period
from billing.rates import (
    RateCard,
    RateError,
    apply_rate_card,
    card_changes,
    history,
    parse_rate_card,
    price_effect,
)
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.stores import emptied
from warehouse.store import Store
from warehouse.yaml_text import parse_yaml

NOW = at("2026-11-02 09:00")
H100 = {"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"}


def card(*rules: dict[str, Any], **keys: Any) -> RateCard:
    return parse_rate_card({"currency": "EUR", "rates": list(rules) or [H100], **keys})


# --- what an issued invoice holds fast -------------------------------------------------------------------------------

BEFORE: dict[str, Any] = {
    "discounts": [{"name": "big", "percent": "10"}, {"name": "old", "percent": "10"}],
    "exchange_rates": [{"month": "2026-10", "currency": "USD", "rate": "1.1"}],
}


@pytest.fixture
def issued(shared_store: Store) -> Store:
    """October, invoiced by a card with BEFORE, which is in force; nothing but what is refused or holds later since."""
    known = card(**BEFORE).version
    if known not in [row["version"] for row in history(shared_store)]:
        invoiced(emptied(shared_store), card(**BEFORE))
    assert apply_rate_card(shared_store, card(**BEFORE), "", "", NOW) == known
    return shared_store


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (
            {"minimum_seconds": 300},
            r"minimum_seconds in 2026-10: would change from 60 to 300, .* date the new one: minimum_seconds: "
            r"\[\{seconds: 60, effective_to: MONTH\}",
        ),
        ({"exchange_rates": []}, "Leave it as it was: an issued month keeps its rate"),
        (
            {"discounts": [{"name": "big", "percent": "20"}, BEFORE["discounts"][1]]},
            "discounts 'big' in 2026-10: would change from name big, percent 10 to name big, percent 20",
        ),
        (
            {"taxes": [{"name": "VAT", "percent": "19"}]},
            "taxes 'VAT' in 2026-10: would change from none to name VAT.*Start it later, with effective_from",
        ),
        (
            {"idle_policy": [{"pool": "*", "share": "evenly"}]},
            "idle_policy '.*' in 2026-10: would change from none",
        ),
        (
            {
                "discounts": [
                    BEFORE["discounts"][0],
                    {"name": "old", "percent": "10", "effective_to": "2026-10"},
                ]
            },
            "discounts 'old' in .* to none, but invoice GL-2026-00001 was computed with it",
        ),
    ],
)
def test_a_policy_of_a_month_with_an_issued_invoice_does_not_change(
    issued: Store, after: dict[str, Any], says: str
) -> None:
    with pytest.raises(RateError, match=says):
        apply_rate_card(issued, card(**{**BEFORE, **after}), "", "", NOW)


@pytest.mark.parametrize(
    "after",
    [
        {
            "discounts": [
                {"name": "big", "percent": "10", "effective_to": "2026-11"},
                {"name": "big", "percent": "20", "effective_from": "2026-11"},
                BEFORE["discounts"][1],
            ]
        },
        {"taxes": [{"name": "VAT", "percent": "19", "effective_from": "2026-11"}]},
        # not the invoiced one's
        {"discounts": [*BEFORE["discounts"], {"name": "theirs", "percent": "5", "match": {"tenant": "b*"}}]},
        {"exchange_rates": [*BEFORE["exchange_rates"], {"month": "2026-11", "currency": "USD", "rate": "1.1"}]},
        {
            "minimum_seconds": [
                {"seconds": 60, "effective_to": "2026-11"},
                {"seconds": 300, "effective_from": "2026-11"},
            ]
        },
        {"grace_days": 3},
        {"issuer": {"name": "Another"}},
    ],
)
def test_a_policy_may_end_and_be_followed_or_concern_others(issued: Store, after: dict[str, Any]) -> None:
    then = card(**{**BEFORE, **after})
    assert apply_rate_card(issued, then, "", "", NOW) == then.version


@pytest.mark.parametrize(
    ("before", "october"),
    [
        (60, 60),
        ([{"seconds": 30, "effective_to": "2026-10"}, {"seconds": 90, "effective_from": "2026-10"}], 90),
    ],
)
def test_what_is_advised_in_place_of_another_minimum_is_taken_as_it_is_written(
    books: Store, before: Any, october: int
) -> None:
    """Also by a card whose minimum was dated already: the months before keep theirs."""
    old = card(minimum_seconds=before)
    invoiced(books, old)
    with pytest.raises(RateError, match=f"minimum_seconds in 2026-10: would change from {october} to 300") as refused:
        apply_rate_card(books, card(minimum_seconds=300), "", "", NOW)
    advised = refused.value.next_step.partition("and date the new one: ")[2]
    written = parse_yaml(advised.replace("MONTH", "2026-11").replace("NEW", "300"))
    followed = card(**written)
    assert apply_rate_card(books, followed, "", "", NOW) == followed.version
    months = ("2026-09", "2026-10", "2026-11", "2027-01")
    assert [followed.minimum_in(month) for month in months] == [old.minimum_in("2026-09"), october, 300, 300]


def test_late_time_without_a_price_may_get_one_and_what_had_one_keeps_it(books: Store) -> None:
    """A model that came late has no price, and keeps the next invoices back until it has one."""
    since = {"effective_from": "2026-10-05"}
    invoiced(books, card({**H100, **since}))
    fill(books, [Row(at("2026-10-05 13:00"), "a", used=str(HOUR_MS), model="L4", price=None)], run=8)
    l4 = {"sku": "l4", "match": {"model": "L4"}, "price_per_gpu_hour": "0.50"}
    assert apply_rate_card(books, card({**H100, **since}, l4), "", "", NOW) == card({**H100, **since}, l4).version
    assert apply_rate_card(books, card(H100, l4), "", "", NOW), "before it was held, it had no price either"
    with pytest.raises(RateError, match=r"the price of 'L4' for 'a' at 2026-10-01 .* would change from 0.50"):
        apply_rate_card(books, card(H100, {**l4, "price_per_gpu_hour": "0.60"}), "", "", NOW)
    with pytest.raises(RateError, match=r"the price of 'H100' for 'a' at 2026-10-05 .* would change from 2.00"):
        apply_rate_card(books, card({**H100, "effective_to": "2026-10-05"}, l4), "", "", NOW)


def test_a_void_invoice_holds_nothing_fast(books: Store) -> None:
    invoiced(books, card())
    books.command(
        "INSERT INTO voided_invoices (number, at, author, reason) VALUES ('GL-2026-00001', '2026-11-02', '', 'x')"
    )
    try:
        apply_rate_card(books, card({**H100, "price_per_gpu_hour": "3.00"}), "", "", NOW)
    finally:
        books.command("TRUNCATE TABLE voided_invoices")


def test_a_price_by_queue_priority_or_preemption_is_held_fast_as_well(books: Store) -> None:
    gold = {"sku": "gold", "match": {"queue": "gold"}, "price_per_gpu_hour": "5.00"}
    entry = Row(at("2026-10-05 12:00"), "a", used=str(HOUR_MS), sku="gold", price="5.00", queue="gold")
    invoiced(books, card(H100, gold), entry)
    with pytest.raises(RateError, match=r"would change from 5\.00 \(gold, list 5\.00\) to 6\.00"):
        apply_rate_card(books, card(H100, {**gold, "price_per_gpu_hour": "6.00"}), "", "", NOW)
    with pytest.raises(RateError, match=r"to 2\.00"):
        apply_rate_card(books, card(H100, {**gold, "windows": [{"days": ["sat"]}]}), "", "", NOW)
    other = {"sku": "spot", "match": {"preemptible": True}, "price_per_gpu_hour": "1.00"}
    apply_rate_card(books, card(H100, gold, other), "", "nobody held any", NOW)


def invoiced(books: Store, first: RateCard, *rows: Row) -> None:
    """October is issued to tenant a."""
    apply_rate_card(books, first, "", "", NOW - timedelta(hours=1))
    entries = rows or (Row(at("2026-10-05 12:00"), "a", used=str(HOUR_MS)),)
    fill(books, entries, closed=[at("2026-10-31 23:00")])
    assert [one.number for one in issue_all(books, parse_period("2026-10", "UTC"), NOW)] == ["GL-2026-00001"]


# --- classes of priority ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, r"rates\[0\] \(a\) is for priority 'high', which is not a class; priority_classes declares none"),
        ({"priority_classes": {"low": {"to": 0}}}, "declares low"),
        ({"priority_classes": {"high": {"from": 5, "to": 5}}}, "to 5 is not above from 5"),
        ({"priority_classes": {"high": {}}}, "from, to or both"),
        ({"priority_classes": {"high": {"from": 1}, "low": {"to": 2}}}, "high and low share priorities"),
        ({"priority_classes": {"high": {"above": 1}}}, r"high\.above: unknown key.*known here: from, to"),
    ],
)
def test_a_class_that_does_not_fit_is_one_line(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(RateError, match=says):
        card({"sku": "a", "match": {"priority": "high"}, "price_per_gpu_hour": "1"}, **keys)


def test_a_priority_is_in_the_class_from_its_start_until_before_its_end() -> None:
    classes = card(priority_classes={"low": {"to": 0}, "high": {"from": 100}})
    assert [classes.priority_class(n) for n in (-1, 0, 99, 100, None)] == ["low", "", "", "high", ""]


# --- comparing --------------------------------------------------------------------------------------------------------


def test_a_comparison_says_in_words_what_was_added_ended_changed_and_removed() -> None:
    old = card(
        H100,
        {"sku": "a100", "match": {"model": "A100"}, "price_per_gpu_hour": "1.50"},
        {"sku": "l4", "match": {"model": "L4"}, "price_per_gpu_hour": "0.50", "effective_to": "2026-11-01"},
        {"sku": "l4", "match": {"model": "L4"}, "price_per_gpu_hour": "0.60", "effective_from": "2026-11-01"},
        {"sku": "rest", "price_per_gpu_hour": "0.05"},
        discounts=[{"name": "big", "percent": "10"}],
    )
    new = card(
        {**H100, "effective_to": "2026-11-01"},
        {**H100, "price_per_gpu_hour": "2.50", "effective_from": "2026-11-01"},
        {"sku": "a100", "match": {"model": "A100"}, "price_per_gpu_hour": "1.60"},
        {"sku": "spot", "match": {"preemptible": True}, "price_per_gpu_hour": "0.10", "windows": [{"days": ["sat"]}]},
        minimum_seconds=0,
    )
    assert [(c.what, c.of, c.words) for c in card_changes(old, new)] == [
        ("changed", "minimum_seconds", "from 60 to 0"),
        ("ended", "h100 (model H100)", "2.00 until 2026-11-01"),
        ("added", "h100 (model H100)", "2.50 from 2026-11-01"),
        ("changed", "a100 (model A100)", "from 1.50 to 1.60"),
        ("removed", "l4 (model L4)", "0.50 until 2026-11-01"),
        ("removed", "l4 (model L4)", "0.60 from 2026-11-01"),
        ("removed", "rest (anything)", "0.05"),
        ("added", "spot (preemptible true, sat)", "0.10"),
        ("removed", "discounts", "name big, percent 10"),
    ]
    assert card_changes(old, old) == []


def test_a_comparison_says_the_currency_of_prices_that_have_their_own() -> None:
    franc = {"sku": "ch", "match": {"cluster": "ch"}, "price_per_gpu_hour": "2.00", "currency": "CHF"}
    rates = [{"month": "2026-10", "currency": "CHF", "rate": "0.95"}]
    old, ended, dearer = (
        card(H100, {**franc, **change}, exchange_rates=rates)
        for change in ({}, {"effective_to": "2026-11-01"}, {"price_per_gpu_hour": "2.50"})
    )
    assert [c.words for c in card_changes(old, ended)] == ["2.00 CHF until 2026-11-01"]
    assert [c.words for c in card_changes(old, dearer)] == ["from 2.00 CHF to 2.50 CHF"]


def test_the_effect_is_what_was_held_times_each_cards_price(books: Store) -> None:
    hour = str(HOUR_MS)
    fill(
        books,
        [
            Row(at("2026-10-05 07:00"), "a", used=hour),
            Row(at("2026-10-05 08:00"), "a", used=hour),
            Row(at("2026-10-05 09:00"), "a", idle=hour),
            Row(at("2026-10-05 08:00"), "b", used=hour, device="gpu-1", model="A100"),
            Row(at("2026-10-05 08:00"), "c", used=hour, device="gpu-2", model="L4"),
        ],
    )
    a100 = {"sku": "a100", "match": {"model": "A100"}, "price_per_gpu_hour": "1.00"}
    day = {**H100, "sku": "day", "price_per_gpu_hour": "3.00", "windows": [{"from": "08:00", "to": "20:00"}]}
    l4 = {"sku": "l4", "match": {"model": "L4"}, "price_per_gpu_hour": "0.50"}
    effect = price_effect(books, card(H100, a100), card(H100, a100, day, l4))
    assert [
        (row["tenant"], row["model"], row["gpu_hours"], row["old_cost"], row["new_cost"], row["difference"])
        for row in effect
    ] == [
        ("a", "H100", 3, 6, 8, 2),  # one hour at 2.00, two at 3.00
        ("c", "L4", 1, 0, Decimal("0.5"), None),  # had no price: the difference is unknown, not 0.50
    ]
    assert effect[1]["unpriced_before"] == 1
    assert price_effect(books, card(H100), card(H100)) == []
