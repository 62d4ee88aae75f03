"""What changed in the cost of a period, and because of what: parts that are reckoned otherwise, and sum to it."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.insights.changes import Held, changes, walk
from billing.periods import parse_period
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.errors import LedgerError
from warehouse.store import Store

MODELS = ("A100", "H100", "L40S")
PRICES = st.integers(0, 40).map(lambda tenths: Fraction(tenths, 10))
HELD = st.dictionaries(st.sampled_from(MODELS), st.tuples(st.integers(1, 500).map(Fraction), PRICES))


@given(HELD, HELD)
def test_the_parts_are_those_of_each_model_and_sum_to_the_difference(
    was: dict[str, tuple[Fraction, Fraction]], has: dict[str, tuple[Fraction, Fraction]]
) -> None:
    before, now = ({model: Held(q, q * p) for model, (q, p) in some.items()} for some in (was, has))
    found = walk(before, now)
    measures = found.measures()
    assert measures["by_hours"] + measures["by_price"] + measures["by_mix"] == measures["difference"]

    hours_was, hours_has = (sum((q for q, _ in some.values()), Fraction(0)) for some in (was, has))
    price = sum((q * (p - was[model][1]) for model, (q, p) in has.items() if model in was), Fraction(0))
    assert found.by_price == price
    if was and has:  # with each model's part of the hours of before, at prices of before: what another mix costs more
        at_before = {model: was.get(model, has.get(model, (0, Fraction(0))))[1] for model in MODELS}
        mix = sum(
            (has.get(model, (Fraction(0),))[0] - was.get(model, (Fraction(0),))[0] * hours_has / hours_was) * each
            for model, each in at_before.items()
        )
        assert found.now.cost - found.before.cost - found.by_hours - found.by_price == mix
    else:
        assert found.by_hours == found.now.cost - found.before.cost


@given(HELD, st.integers(1, 9))
def test_more_of_the_same_is_hours_and_a_dearer_card_is_price(
    was: dict[str, tuple[Fraction, Fraction]], times: int
) -> None:
    before = {model: Held(q, q * p) for model, (q, p) in was.items()}
    more = walk(before, {model: Held(times * one.hours, times * one.cost) for model, one in before.items()})
    assert more.measures()["by_hours"] == more.measures()["difference"]
    dearer = walk(before, {model: Held(one.hours, times * one.cost) for model, one in before.items()})
    assert dearer.measures()["by_price"] == dearer.measures()["difference"]


def row(hour: str, tenant: str, device: str, **more: Any) -> Row:
    return Row(at(hour), tenant, device=device, **{"used": str(HOUR_MS), **more})


FACTS = [
    row("2026-10-05 10:00", "physics", "a", price="2", contracted="2"),
    row("2026-10-05 10:00", "chem", "b", price="4", contracted="4", used=str(HOUR_MS // 2), idle=str(HOUR_MS // 2)),
    row("2026-10-05 11:00", "chem", "b", price="4", contracted="4"),
    row("2026-10-05 11:00", "gone", "a", price="2", contracted="1"),
    row("2026-10-06 10:00", "physics", "a", price="3", contracted="3"),
    row("2026-10-06 11:00", "physics", "a", price="3", contracted="3"),
    row("2026-10-06 10:00", "chem", "b", price="4", contracted="4"),
    row("2026-10-06 11:00", "dark", "b", price=None, contracted=None),
]


def test_a_day_against_the_one_before_by_tenant(books: Store) -> None:
    fill(books, FACTS)
    report = changes(books, parse_period("2026-10-06", "UTC"), None, ["tenant"])
    names = ("tenant", "cost_before", "cost", "difference", "by_hours", "by_price", "by_mix", "idle_cost_before")
    assert [tuple(each[name] for name in names) for each in report.rows] == [
        ("chem", 8, 4, -4, -4, 0, 0, 2),
        ("physics", 2, 6, 4, 2, 2, 0, 0),
        ("gone", 1, 0, -1, -1, 0, 0, 0),
        ("dark", None, None, None, None, None, None, None),
    ]
    total = report.total
    assert [total[name] for name in ("cost_before", "cost", "difference")] == [11, 10, -1]
    assert (total["by_hours"], total["by_price"], total["by_mix"]) == (-3, 2, 0)
    assert (total["gpu_hours_before"], total["gpu_hours"], total["unpriced_gpu_hours"]) == (4, 4, 1)
    assert report.document()["before"]["start"] == at("2026-10-05 00:00")


def test_of_a_day_that_is_not_over_as_much_of_the_other_is_compared(books: Store) -> None:
    fill(books, [each for each in FACTS if each.hour < at("2026-10-06 11:00")])
    report = changes(books, parse_period("2026-10-06", "UTC"), None, [])
    assert report.before is not None and report.period is not None
    assert report.before.period.end == at("2026-10-05 11:00") and report.period.period.end == at("2026-10-06 11:00")
    assert (report.total["cost_before"], report.total["cost"]) == (Decimal(6), Decimal(7))


def test_what_cannot_be_compared_is_refused_or_unknown(books: Store) -> None:
    fill(books, FACTS)
    day = parse_period("2026-10-06", "UTC")
    with pytest.raises(LedgerError, match="'day' is in one of the two periods alone"):
        changes(books, day, None, ["day"])
    unknown = changes(books, day, parse_period("2026-09-01", "UTC"), ["tenant"])
    assert unknown.rows == () and set(unknown.total.values()) == {None}
