"""The ledger as people ask for it, from entries typed here."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import pytest

from billing.ledger_report import ledger_report
from billing.periods import Period, parse_period
from tests.billing.account_books import NO_PRICES
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.errors import LedgerError
from warehouse.json_values import as_json
from warehouse.store import Store

THIRD = HOUR_MS // 3
NOON = at("2026-10-05 12:00")


TWO_TENANTS_AND_A_PLATFORM = [
    Row(NOON, "physics", "qcd", used="1800000", idle="900000", unmetered=900_000, contracted="1.50"),
    Row(NOON, "o'brien", "<b>", device="gpu-1", used=str(THIRD), idle="0", unmetered=0),
    Row(NOON + timedelta(minutes=20), device="gpu-1", unallocated=THIRD),
    Row(NOON + timedelta(minutes=40), device="gpu-1", unavailable=THIRD),
    Row(NOON + timedelta(hours=1), "physics", "bsm", units=7, model="A100", used=str(3 * HOUR_MS), price="0.70"),
    Row(NOON + timedelta(hours=1), units=7, model="A100", unallocated=4 * HOUR_MS, price="0.70"),
]


def test_hours_and_costs_by_tenant(books: Store) -> None:
    fill(books, TWO_TENANTS_AND_A_PLATFORM)
    report = as_json(ledger_report(books, None, ["tenant"]).document())
    assert report == {
        "period": {
            "start": "2026-10-05T12:00:00.000Z",
            "end": "2026-10-05T14:00:00.000Z",
            "hours": 2,
            "closed_hours": 2,
            "closed_from": "2026-10-05T12:00:00.000Z",
            "closed_until": "2026-10-05T14:00:00.000Z",
            "checked_until": None,
        },
        "rows": [
            {
                "tenant": "o'brien",
                "allocated_gpu_hours": "0.333333333",
                "used_gpu_hours": "0.333333333",
                "idle_gpu_hours": "0.000000000",
                "unmetered_gpu_hours": "0.000000000",
                "unpriced_gpu_hours": "0.000000000",
                "list_cost": "0.666666667",
                "billed_cost": "0.666666667",
                "currency": "EUR",
                "coverage": "1.000000000",
            },
            {
                "tenant": "physics",
                "allocated_gpu_hours": "1.428571429",  # 1 + 3/7
                "used_gpu_hours": "0.928571429",  # 1/2 + 3/7
                "idle_gpu_hours": "0.250000000",
                "unmetered_gpu_hours": "0.250000000",
                "unpriced_gpu_hours": "0.000000000",
                "list_cost": "2.300000000",  # 2.00 + 3/7 of 0.70
                "billed_cost": "1.800000000",
                "currency": "EUR",
                "coverage": "0.825000000",
            },
        ],
        "platform": {
            "unallocated_gpu_hours": "0.904761905",  # 1/3 + 4/7
            "unavailable_gpu_hours": "0.333333333",
            "unallocated_cost": "1.066666667",
            "unavailable_cost": "0.666666667",
        },
        "capacity": {"gpu_hours": "3.000000000", "cost": "4.700000000", "unpriced_gpu_hours": "0.000000000"},
    }


def test_every_dimension_cuts_the_same_total(books: Store) -> None:
    fill(books, TWO_TENANTS_AND_A_PLATFORM)
    keys = {
        name: [row[name] for row in ledger_report(books, None, [name]).rows]
        for name in ("project", "device", "node", "model", "day", "hour")
    }
    assert keys == {
        "project": ["<b>", "bsm", "qcd"],
        "device": ["gpu-0", "gpu-1"],
        "node": ["n1"],
        "model": ["A100", "H100"],
        "day": ["2026-10-05"],
        "hour": ["2026-10-05T12:00:00.000Z", "2026-10-05T13:00:00.000Z"],
    }
    report = ledger_report(books, None, ["tenant", "device", "tenant"])
    assert report.by == ("tenant", "device")
    assert [(row["tenant"], row["device"]) for row in report.rows] == [("o'brien", "gpu-1"), ("physics", "gpu-0")]
    assert report.total == {**ledger_report(books, None, []).rows[0]}


def test_an_unknown_dimension_is_refused(books: Store) -> None:
    with pytest.raises(LedgerError, match="'owner' is not a dimension"):
        ledger_report(books, None, ["owner"])


def test_an_unknown_price_is_not_zero(books: Store) -> None:
    fill(
        books,
        [
            Row(NOON, "priced", used=str(HOUR_MS)),
            Row(NOON, "some", used=str(THIRD), device="gpu-1"),
            Row(NOON, "some", idle=str(HOUR_MS), device="gpu-2", price=None),
            Row(NOON, "unpriced", used=str(HOUR_MS), device="gpu-3", price=None),
            Row(NOON, device="gpu-4", unallocated=HOUR_MS, price=None),
        ],
    )
    report = ledger_report(books, None, ["tenant"])
    costs = {r["tenant"]: (r["list_cost"], r["billed_cost"], r["unpriced_gpu_hours"]) for r in as_json(report.rows)}
    assert costs == {
        "priced": ("2.000000000", "2.000000000", "0.000000000"),
        "some": ("0.666666667", "0.666666667", "1.000000000"),
        "unpriced": (None, None, "1.000000000"),
    }
    assert report.platform["unallocated_cost"] is None
    assert report.platform["unavailable_cost"] == 0
    assert as_json(report.capacity) == {
        "gpu_hours": "4.333333333",
        "cost": "2.666666667",
        "unpriced_gpu_hours": "3.000000000",
    }


def test_nothing_closed_is_no_period(books: Store) -> None:
    report = ledger_report(books, None, ["tenant"])
    assert set(report.document()["period"].values()) == {None}
    assert report.rows == ()
    assert {*report.total.values(), *report.platform.values(), *report.capacity.values()} == {None}


def test_only_closed_hours_and_the_run_in_force_count(books: Store) -> None:
    fill(books, [Row(NOON, "physics", used=str(HOUR_MS))], run=7)
    fill(books, [Row(NOON, "chem", used=str(HOUR_MS))], run=8)
    assert [row["tenant"] for row in ledger_report(books, None, ["tenant"]).rows] == ["chem"]


def test_days_are_local_and_a_row_after_a_half_hour_midnight_belongs_to_the_next_day(books: Store) -> None:
    from billing.rates import apply_rate_card, parse_rate_card

    card = parse_rate_card({"currency": "EUR", "timezone": "Asia/Kolkata", "rates": NO_PRICES})
    apply_rate_card(books, card, "me", "", NOON)
    fill(
        books,
        [
            Row(at("2026-10-05 18:00"), "a", used=str(HOUR_MS // 2)),
            Row(at("2026-10-05 18:30"), "a", used=str(HOUR_MS // 2)),
        ],
    )
    assert [row["day"] for row in ledger_report(books, None, ["day"]).rows] == ["2026-10-05", "2026-10-06"]
    sixth = ledger_report(books, parse_period("2026-10-06", "Asia/Kolkata"), ["tenant"])
    assert as_json(sixth.rows[0]["allocated_gpu_hours"]) == "0.500000000"


def test_a_to_c_is_a_to_b_and_b_to_c(books: Store) -> None:
    fill(books, [Row(NOON + timedelta(hours=n), "a", units=7, used=f"{n}.5", price="0.01") for n in range(6)])
    a, c = NOON, NOON + timedelta(hours=6)
    for b in (a + timedelta(hours=n) for n in range(1, 6)):
        whole, first, second = (
            ledger_report(books, Period(x, y), ["tenant"]).rows[0]["used_gpu_hours"]
            for x, y in ((a, c), (a, b), (b, c))
        )
        assert abs(whole - first - second) <= Decimal("1e-9")


def test_sums_of_unlike_devices_are_exact(books: Store) -> None:
    fill(books, [Row(NOON, "a", device=f"gpu-{n}", units=n, used="1.000001") for n in (1, 2, 3, 7, 48)])
    used = sum(Fraction(1_000_001, n * HOUR_MS * 10**6) for n in (1, 2, 3, 7, 48))
    row = ledger_report(books, None, ["tenant"]).rows[0]
    assert row["used_gpu_hours"] == Decimal(round(used * 10**9)).scaleb(-9)


def test_two_currencies_do_not_add_up(books: Store) -> None:
    fill(books, [Row(NOON, "a", used="1"), Row(NOON, "b", used="1", currency="USD")])
    with pytest.raises(LedgerError, match="EUR and USD"):
        ledger_report(books, None, ["tenant"])
