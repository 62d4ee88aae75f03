"""Quantities far beyond a GPU-hour: devices of thousands of units, in everything that multiplies what was held."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from billing.accounts.costs import daily_costs
from billing.exports.check import check_focus
from billing.exports.focus import FocusOptions, export_focus
from billing.invoicing.drafts import draft_all
from billing.ledger_report import ledger_report
from billing.opencost.allocation import allocations
from billing.opencost.document import response
from billing.opencost.query import parse_query
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.store import Store

OCTOBER = parse_period("2026-10", "UTC")
UNITS, DEVICES = 20_000, 50
"""A unit-hour is 3.6e12 millionths of a unit-millisecond: with six digits after the point 2.56 of them overflow 18."""


def test_what_large_devices_hold_is_the_same_in_every_answer(books: Store, tmp_path: Path) -> None:
    card = {"currency": "EUR", "rates": [{"sku": "h100", "price_per_gpu_hour": "1000000.00"}], "minimum_seconds": 7200}
    quota = {"name": "quota", "tenant": "physics", "sku": "h100", "gpus": "1", "price_per_gpu_hour": "1.00"}
    apply_rate_card(books, parse_rate_card({**card, "commitments": [quota]}), "me", "", at("2026-11-02 09:00"))
    whole = UNITS * HOUR_MS
    rows = [
        Row(
            at("2026-10-05 12:00") + timedelta(hours=hour), "physics", "qcd", device=f"gpu-{device}", units=UNITS,
            used=str(whole * 3 // 4), idle=str(whole // 8), unmetered=whole // 8, price="1000000.00",
        )
        for device in range(DEVICES) for hour in range(2)
    ]  # fmt: skip
    rows.append(Row(at("2026-10-05 12:00"), device="gpu-x", units=UNITS, unallocated=whole, price="1000000.00"))
    fill(books, rows, closed=[at("2026-10-31 23:00")])
    held = Decimal(2 * DEVICES)

    (row,) = ledger_report(books, OCTOBER, ["tenant"]).rows
    assert (row["allocated_gpu_hours"], row["used_gpu_hours"]) == (held, held * 3 / 4)
    assert row["billed_cost"] == held * 1_000_000

    window = {"window": "2026-10", "aggregate": "label:tenant", "includeIdle": "true", "step": "7h"}
    document = response(allocations(books, parse_query(window, "UTC", at("2026-11-02 09:00"))))
    hours = [Decimal(one["gpuledger"]["gpuHours"]) for found in document["data"] for one in found.values()]
    assert sum(hours) == held + 1

    (invoice,) = [one for one in draft_all(books, OCTOBER) if one.tenant]
    # Two GPU-hours in each of the two hours are 1 covered by the quota; 744 hours of it are bought.
    assert invoice.amount == (held - 2) * 1_000_000 + 744

    report = export_focus(books, OCTOBER, tmp_path / "focus.csv", FocusOptions(which="draft", platform=True))
    assert [str(one) for one in check_focus(books, report.path, report)] == []
    assert Fraction(report.usage_hours) == Fraction(held)

    days = daily_costs(books, OCTOBER, ["physics"], "UTC")
    (cost,) = days.of("physics", None).values()
    assert Fraction(cost, days.unit) == held * 1_000_000
