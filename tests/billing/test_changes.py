"""What changed in the cost of a period, and because of what: parts that are reckoned otherwise, and sum to it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.exact import rounded
from billing.insights.changes import Held, changes, walk
from billing.periods import parse_period
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.draws import drawn_seed
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
    assert (total["by_hours"], total["by_price"], total["by_mix"]) == (Decimal("-2.75"), Decimal("1.75"), 0), "as one"
    assert (total["gpu_hours_before"], total["gpu_hours"], total["unpriced_gpu_hours"]) == (4, 4, 1)
    assert report.document()["before"]["start"] == at("2026-10-05 10:00"), "where the books begin"


def test_more_hours_are_no_fall_by_hours_and_a_click_on_a_row_splits_it_no_other_way(books: Store) -> None:
    """As found: a tenant with 124 more GPU-hours cost $422 less "by hours" on its own page, as a dear project shrank
    and a cheap one grew, and $251 more in its row among tenants."""
    dear, cheap = {"model": "H100", "price": "4", "contracted": "4"}, {"model": "A100", "price": "1", "contracted": "1"}
    fill(books, [
        row("2026-10-05 10:00", "physics", "a", project="old", **dear),
        row("2026-10-05 11:00", "physics", "a", project="old", **dear),
        row("2026-10-06 10:00", "physics", "a", project="old", **dear),
        row("2026-10-06 10:00", "physics", "b", project="new", **cheap),
        row("2026-10-06 11:00", "physics", "b", project="new", **cheap),
    ])  # fmt: skip
    day = parse_period("2026-10-06", "UTC")
    by_project, (tenant,) = changes(books, day, None, ["project"]), changes(books, day, None, ["tenant"]).rows
    names = ("gpu_hours_before", "gpu_hours", "cost_before", "cost", "by_hours", "by_price", "by_mix")
    assert [by_project.total[name] for name in names] == [2, 3, 8, 6, 4, 0, -6]
    assert [tenant[name] for name in names] == [by_project.total[name] for name in names]
    assert sum(one["by_hours"] for one in by_project.rows) == -2, "what the rows lost and won, each by itself"


def test_of_a_day_that_is_not_over_as_much_of_the_other_is_compared(books: Store) -> None:
    fill(books, [each for each in FACTS if each.hour < at("2026-10-06 11:00")])
    report = changes(books, parse_period("2026-10-06", "UTC"), None, [])
    assert report.before is not None and report.period is not None
    assert report.before.period.end == at("2026-10-05 11:00") and report.period.period.end == at("2026-10-06 11:00")
    assert (report.total["cost_before"], report.total["cost"]) == (Decimal(6), Decimal(7))


def test_what_the_books_do_not_know_of_the_period_before_is_no_rise(books: Store) -> None:
    """As found: a month that followed ten days of books cost four times as much, says the page."""
    fill(books, [each for each in FACTS if each.hour >= at("2026-10-05 11:00")])
    day = parse_period("2026-10-06", "UTC")
    report = changes(books, day, None, [])
    assert report.before is not None and report.period is not None
    assert (report.before.period.start, report.period.period.start) == (at("2026-10-05 11:00"), at("2026-10-06 11:00"))
    assert (report.total["cost_before"], report.total["cost"]) == (Decimal(5), Decimal(3))
    named = changes(books, day, parse_period("2026-10-05", "UTC"), [])
    assert named.period is not None and named.period.period.start == at("2026-10-06 00:00"), "as asked for"
    assert (named.total["cost_before"], named.total["cost"]) == (Decimal(5), Decimal(10))


def test_what_cannot_be_compared_is_refused_or_unknown(books: Store) -> None:
    fill(books, FACTS)
    day = parse_period("2026-10-06", "UTC")
    with pytest.raises(LedgerError, match="'day' is in one of the two periods alone"):
        changes(books, day, None, ["day"])
    unknown = changes(books, day, parse_period("2026-09-01", "UTC"), ["tenant"])
    assert unknown.rows == () and set(unknown.total.values()) == {None}


def test_two_currencies_are_not_compared(books: Store) -> None:
    fill(books, FACTS)
    fill(books, [row("2026-10-08 10:00", "chem", "b", currency="USD")])
    with pytest.raises(LedgerError, match="one period is in EUR and the other in USD"):
        changes(books, parse_period("2026-10-08", "UTC"), parse_period("2026-10-05", "UTC"), [])


def some_facts(dice: Random, until: datetime) -> list[Row]:
    """Of four days from the 4th on; some without a price, or the platform's; some share a device."""
    facts = []
    for hour in range(int((until - at("2026-10-04 00:00")).total_seconds() // 3600)):
        for device, model, units in (("a", "A100", 1), ("b", "H100", 2), ("c", "H100", 7)):
            tenant, whole = dice.choice(["physics", "chem", "new" if hour > 48 else "gone", ""]), units * HOUR_MS
            used, idle = sorted(dice.sample(range(whole), 2))
            price = dice.choice([None, "0", "1", "2", "3"])
            held = {"used": str(used), "idle": str(idle - used), "unmetered": whole - idle}
            kind = held if tenant else {dice.choice(["unallocated", "unavailable"]): whole}
            facts.append(
                Row(at("2026-10-04 00:00") + timedelta(hours=hour), tenant, dice.choice("pq") if tenant else "", device,
                    model=model, units=units, price=price, contracted=price and dice.choice([price, "0.5"]), **kind)
            )  # fmt: skip
    return [fact for fact in facts if dice.random() < 0.3 or fact.at.hour < 3]


def reckoned(before: list[Row], now: list[Row]) -> dict[str, Any]:
    """What is said of one holder's rows of two times."""

    def hours(rows: Iterable[Row], idle: bool = False) -> Fraction:
        return sum((Fraction(int(fact.idle) if idle else int(fact.used) + int(fact.idle) + fact.unmetered)
                    / fact.units / HOUR_MS for fact in rows), Fraction(0))  # fmt: skip

    def cost(rows: Iterable[Row], idle: bool = False) -> Fraction:
        return sum((hours([fact], idle) * Fraction(fact.contracted or 0) for fact in rows), Fraction(0))

    def of(rows: list[Row], model: str) -> list[Row]:
        return [fact for fact in rows if fact.model == model and fact.price]

    was, has = ([fact for fact in some if fact.price] for some in (before, now))
    by_hours = (hours(has) - hours(was)) * cost(was) / hours(was) if was else cost(has)
    by_price = sum(
        (cost(of(now, model)) - cost(of(before, model)) / hours(of(before, model)) * hours(of(now, model))
         for model in MODELS if of(before, model) and of(now, model)),
        Fraction(0),
    )  # fmt: skip
    unpriced = hours(before) + hours(now) - hours(was) - hours(has)
    return {
        "cost_before": cost(was), "cost": cost(has), "difference": cost(has) - cost(was), "by_hours": by_hours,
        "by_price": by_price, "idle_cost_before": cost(was, True), "idle_cost": cost(has, True),
        "gpu_hours_before": hours(before), "gpu_hours": hours(now), "unpriced_gpu_hours": unpriced,
    }  # fmt: skip


def test_any_days_are_compared_by_any_dimensions_as_reckoned(books: Store) -> None:
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"changes {seed}")
    until = at("2026-10-06 00:00") + timedelta(hours=dice.choice([5, 24, 48]))
    facts = some_facts(dice, until)
    fill(books, facts, closed=[until - timedelta(hours=1)])
    start, other = at("2026-10-06 00:00"), dice.choice([at("2026-10-05 00:00"), at("2026-10-04 00:00")])
    length = min(timedelta(days=1), until - start)
    against = None if other.day == 5 else parse_period("2026-10-04", "UTC")
    for by in ([], ["tenant"], ["project", "model"], ["model"], ["device", "tenant"]):
        report = changes(books, parse_period("2026-10-06", "UTC"), against, by)
        assert report.columns[: len(by)] == tuple(by) and report.currency == "EUR"
        found = {tuple(one[name] for name in by): one for one in report.rows}
        both = [
            [fact for fact in facts if fact.tenant and since <= fact.at < since + length] for since in (other, start)
        ]
        keys = {tuple(getattr(fact, name) for name in by) for some in both for fact in some}
        assert found.keys() == keys and len(found) == len(report.rows)
        for key, one in found.items():
            its = [[fact for fact in some if tuple(getattr(fact, name) for name in by) == key] for some in both]
            expected = reckoned(*its)
            is_unpriced = not any(fact.price for some in its for fact in some)
            for name, value in expected.items():
                unknown = is_unpriced and "gpu_hours" not in name
                assert one[name] == (None if unknown else rounded(value)), (key, name)
            if not is_unpriced:
                assert one["by_mix"] == one["difference"] - one["by_hours"] - one["by_price"]
        in_all = {
            name: rounded(value) for name, value in reckoned(*([f for f in some if f.tenant] for some in both)).items()
        }
        assert {name: report.total[name] for name in in_all} == in_all, "of all of them as one"
        order = [(one["difference"] is None, -abs(one["difference"] or 0)) for one in report.rows]
        assert order == sorted(order)
