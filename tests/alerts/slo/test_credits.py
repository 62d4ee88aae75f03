"""Credits for a missed month: what is offered, what is not judged, and that billing takes them."""

from __future__ import annotations

import csv
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from alerts.slo.credits import COLUMNS, MonthOfSeries, Offers, judge, percent_due, slo_credits
from alerts.slo.objectives import Credit, parse_objectives
from billing.accounts.credit_files import import_credits
from billing.accounts.credits import list_credits
from billing.rates import apply_rate_card, parse_rate_card
from tests.alerts.facts import NOON
from tests.alerts.slo.promises import WAIT, promise
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.store import Store

STEPS = [{"below": "0.9", "percent": "5"}, {"below": "0.8", "percent": "12.5"}]
CREDIT = {**WAIT, "credit": {"steps": STEPS}}
SEPTEMBER = datetime(2026, 9, 1, tzinfo=UTC)


def september(store: Store, *series: tuple[str, str, float, float, float], hours: int = 720) -> None:
    """(tenant, queue, good, bad, missing) on the 10th; so many of the month's hours were measured."""
    promise(store, CREDIT)
    rates = [{"sku": "h100", "match": {"model": "H100"}, "price_per_gpu_hour": "2.00"}]
    apply_rate_card(store, parse_rate_card({"currency": "EUR", "rates": rates}), "me", "", NOON)
    definition = parse_objectives({"objectives": [CREDIT]}).objectives[0].definition
    instant = pa.timestamp("ms", "UTC")
    tenth = SEPTEMBER + timedelta(days=9)
    count = len(series)
    store.insert(
        "slo_points",
        pa.table(
            {
                "definition": [definition] * count,
                "run": pa.array([7] * count, pa.uint64()),
                "hour": pa.array([tenth] * count, instant),
                "at": pa.array([tenth + timedelta(minutes=5)] * count, instant),
                "tenant": [one[0] for one in series],
                "subject": [one[1] for one in series],
                **{kind: [one[n] for one in series] for n, kind in ((2, "good"), (3, "bad"), (4, "missing"))},
            }
        ),
    )
    measured = [SEPTEMBER + timedelta(hours=n) for n in range(hours)]
    store.insert(
        "slo_hours",
        pa.table(
            {
                "definition": [definition] * hours,
                "hour": pa.array(measured, instant),
                "run": pa.array([7] * hours, pa.uint64()),
            }
        ),
    )
    store.insert(
        "slo_measured",
        pa.table(
            {
                "definition": [definition],
                "run": pa.array([7], pa.uint64()),
                "until": pa.array([measured[-1] + timedelta(hours=1)], instant),
            }
        ),
    )
    noon = at("2026-09-10 12:00")
    fill(
        store,
        [
            Row(noon, "physics", queue="train", used=str(HOUR_MS), price="100.00"),
            Row(noon, "physics", queue="batch", device="gpu-1", used=str(HOUR_MS), price="7.00"),
            Row(noon, "chem", queue="train", device="gpu-2", used=str(HOUR_MS), price="33.33"),
        ],
    )


def amounts(offers: Offers) -> dict[str, str]:
    return {one.tenant: str(one.amount) for one in offers.offers}


def test_the_highest_step_that_applies_counts() -> None:
    credit = Credit.model_validate({"steps": STEPS})
    assert [percent_due(credit, sli) for sli in (0.9, 0.8999, 0.8, 0.79)] == [
        None,
        Decimal(5),
        Decimal(5),
        Decimal("12.5"),
    ]


def test_what_is_not_known_lowers_the_coverage_alone() -> None:
    month = MonthOfSeries("physics", "train", 80, 10, 10, 36_000, 360_000, 720_000)
    assert (month.sli, month.coverage) == (80 / 90, pytest.approx(0.9 * 0.45))
    (objective,) = parse_objectives({"objectives": [CREDIT]}).objectives
    assert judge(objective, month) == "40.5% of the month is known, less than 90%"
    assert MonthOfSeries("a", "b", 0, 0, 9, 0, 1, 1).sli is None


def test_credits_are_a_part_of_what_was_charged_in_the_queue(facts: Store) -> None:
    september(facts, ("physics", "train", 85, 15, 0), ("physics", "batch", 95, 5, 0), ("chem", "train", 70, 30, 0))
    found = slo_credits(facts, "2026-09")
    assert amounts(found) == {"physics": "5.00", "chem": "4.17"}  # 5 % of 100.00; 12.5 % of 33.33
    assert found.not_judged == ()
    evidence = found.offers[1].evidence
    assert (evidence["kept"], evidence["target"], evidence["of"], evidence["coverage"]) == (
        "0.850000", "0.9", "100.000000000", "1.0000",
    )  # fmt: skip


def test_a_month_of_which_too_little_is_known_is_not_judged(facts: Store) -> None:
    september(facts, ("physics", "train", 85, 15, 0), ("chem", "train", 30, 30, 40), ("guest", "train", 1, 9, 0))
    found = slo_credits(facts, "2026-09")
    assert amounts(found) == {"physics": "5.00"}
    assert {one.tenant: one.why for one in found.not_judged} == {
        "chem": "60.0% of the month is known, less than 90%",
        "guest": "missed, but the ledger has no charges of the tenant to take a part of",
    }


def test_half_a_month_is_not_judged(facts: Store) -> None:
    september(facts, ("physics", "train", 85, 15, 0), hours=360)
    found = slo_credits(facts, "2026-09")
    assert (found.offers, len(found.not_judged)) == ((), 1)
    assert slo_credits(facts, "2026-08") == Offers((), ())


def test_billing_imports_the_table_once(facts: Store, tmp_path: Path) -> None:
    september(facts, ("physics", "train", 85, 15, 0), ("chem", "train", 70, 30, 0))
    path = tmp_path / "credits.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(one.row() for one in slo_credits(facts, "2026-09").offers)
    first, again = (import_credits(facts, path, "me", NOON) for _ in range(2))
    assert (first.added, first.refused, again.added, again.known) == (2, (), 0, 2)
    kept = [(one.credit.tenant, one.credit.amount, one.credit.kind) for one in list_credits(facts, "2026-09")]
    assert kept == [("chem", Decimal("4.17"), "slo"), ("physics", Decimal("5.00"), "slo")]
