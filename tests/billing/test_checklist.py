"""What must hold of the money, through the real ingest and close: zones, shares, prices, disorder."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.close import close
from billing.invoicing.drafts import draft_all
from billing.invoicing.month import platform_costs
from billing.ledger_report import ledger_report
from billing.periods import parse_period
from billing.rates import apply_rate_card, parse_rate_card
from billing.verify import verify
from tests.billing.facts import Facts, devices, job, put_all, samples
from tests.billing.hand_ledger import at
from tests.draws import drawn, keep_seed, seldom
from tests.stores import fresh_store
from warehouse.store import Store

NOW = datetime(2026, 11, 20, tzinfo=UTC)


def apply(store: Store, **card: Any) -> None:
    prices = [{"sku": "h100", "price_per_gpu_hour": "2.00"}]
    whole = {"currency": "EUR", "minimum_seconds": 0, "rates": prices, **card}
    apply_rate_card(store, parse_rate_card(whole), "me", "", NOW)


@contextmanager
def books_of(path: Path, facts: Facts, until: str, **card: Any) -> Iterator[Store]:
    with fresh_store(path) as store:
        apply(store, **card)
        put_all(store, facts)
        close(store, at(until), NOW)
        yield store


def held(store: Store, period: str, zone: str, *by: str) -> dict[Any, Decimal]:
    report = ledger_report(store, parse_period(period, zone), by or ("tenant",))
    return {tuple(row[name] for name in by or ("tenant",)): row["allocated_gpu_hours"] for row in report.rows}


MONTHS = [
    ("Europe/Berlin", "2026-10", "745"),  # the clock goes back
    ("Europe/Berlin", "2026-03", "743"),  # and forward
    ("America/New_York", "2025-11", "721"),
    ("Asia/Kolkata", "2026-10", "744"),  # cut at half past the hour
    ("Australia/Lord_Howe", "2026-10", "743.5"),  # half an hour forward
    ("UTC", "2024-02", "696"),  # a leap day
    ("Europe/London", "2025-12", "744"),  # the end of a year
]


@pytest.mark.parametrize(("zone", "month", "hours"), drawn(MONTHS, 0.2))
def test_a_month_and_its_days_have_the_hours_that_their_zone_gives_them(
    tmp_path: Path, zone: str, month: str, hours: str
) -> None:
    period = parse_period(month, zone)
    start, end = period.start - timedelta(days=2), period.end + timedelta(days=2)
    facts: Facts = {
        "devices": devices(f"{start:%Y-%m-%d %H:%M}", "g0"),
        "events": job("a", "chem", "g0", f"{start:%Y-%m-%d %H:%M}", f"{end:%Y-%m-%d %H:%M}"),
    }
    with books_of(tmp_path, facts, f"{end:%Y-%m-%d %H:00}", timezone=zone) as store:
        assert held(store, month, zone) == {("chem",): Decimal(hours)}
        assert held(store, month, zone, "day") == dict(days_of(month, zone))
        (invoice,) = draft_all(store, period)
        assert invoice.amount == 2 * Decimal(hours)


def days_of(month: str, zone: str) -> Iterator[tuple[tuple[str], Decimal]]:
    """Each day of a month and its hours: 23 or 25 where the clock changes."""
    day = date.fromisoformat(f"{month}-01")
    while f"{day:%Y-%m}" == month:
        midnights = [datetime.combine(one, time(), ZoneInfo(zone)) for one in (day, day + timedelta(days=1))]
        seconds = midnights[1].timestamp() - midnights[0].timestamp()
        yield (f"{day}",), Decimal(int(seconds)) / 3600
        day += timedelta(days=1)


def test_four_quarters_of_a_gpu_are_one_gpu_hour_and_an_idle_node_still_costs(tmp_path: Path) -> None:
    facts: Facts = {
        "devices": devices("2026-10-05 10:00", "g0", units=4) + devices("2026-10-05 10:00", "g1", "g2", node="idle"),
        "events": [
            row
            for n in range(4)
            for row in job(f"p{n}", f"t{n}", "g0", "2026-10-05 10:00", "2026-10-05 11:00", units=1)
        ],
    }
    with books_of(tmp_path, facts, "2026-10-05 12:00") as store:
        report = ledger_report(store, parse_period("2026-10", "UTC"), ["tenant"])
        assert [row["allocated_gpu_hours"] for row in report.rows] == [Decimal("0.25")] * 4
        assert [row["billed_cost"] for row in report.rows] == [Decimal("0.5")] * 4
        # Two devices for two hours, and the first for one.
        assert report.platform["unallocated_gpu_hours"] == 5
        assert report.platform["unallocated_cost"] == 10
        assert sum(cost.kept for cost in platform_costs(store, parse_period("2026-10", "UTC"))) == 10
        assert verify(store).balanced


def test_a_price_change_inside_a_job_splits_its_charge(tmp_path: Path) -> None:
    facts: Facts = {
        "devices": devices("2026-10-05 00:00", "g0"),
        "events": job("a", "chem", "g0", "2026-10-05 10:00", "2026-10-05 12:00"),
    }
    rates = [
        {"sku": "h100", "price_per_gpu_hour": "2.00", "effective_to": "2026-10-05T11:15:00"},
        {"sku": "h100", "price_per_gpu_hour": "4.00", "effective_from": "2026-10-05T11:15:00"},
    ]
    with books_of(tmp_path, facts, "2026-10-06 00:00", rates=rates) as store:
        (invoice,) = draft_all(store, parse_period("2026-10", "UTC"))
        assert [(line["allocated_gpu_hours"], line["amount"]) for line in invoice.lines] == [
            ("1.250000000", "2.50"), ("0.750000000", "3.00"),
        ]  # fmt: skip


def some_facts() -> Facts:
    """Three jobs of two tenants that overlap hours, one preemptible, metered in part."""
    return {
        "devices": devices("2026-10-05 00:00", "g0", "g1"),
        "events": [
            *job("a", "chem", "g0", "2026-10-05 10:10", "2026-10-05 13:30", project="x"),
            *job("b", "phys", "g1", "2026-10-05 10:20", "2026-10-05 15:00", project="y", preemptible=True),
            *job("c", "chem", "g0", "2026-10-05 14:00", "2026-10-05 14:40", project="z"),
        ],
        "samples": samples("g0", "2026-10-05 10:00", range(0, 280, 2))
        + samples("g1", "2026-10-05 11:00", range(100), 0.25),
    }


POLICIES: dict[str, Any] = {
    "minimum_seconds": 3600,
    "discounts": [{"name": "spot", "percent": "33", "match": {"preemptible": True}}],
    "idle_policy": [{"share": "allocated_cost"}],
    "commitments": [{"name": "q", "tenant": "chem", "gpus": "0.5", "price_per_gpu_hour": "1"}],
    "taxes": [{"name": "VAT", "percent": "19"}],
}


def documents(store: Store) -> list[dict[str, Any]]:
    """All drafts without the numbers of runs."""
    drafts = draft_all(store, parse_period("2026-10", "UTC"))
    return [{name: one.document[name] for name in one.document if "run" not in name} for one in drafts]


@seldom(6, "disorder and duplicates change no invoice")
def test_disorder_and_duplicates_change_no_invoice(tmp_path: Path) -> None:
    facts, chance = some_facts(), random.Random(keep_seed())
    with books_of(tmp_path, facts, "2026-10-06 00:00", **POLICIES) as first, first.scratch() as store:
        apply(store, **POLICIES)
        pieces = []
        for record, rows in facts.items():
            again = rows + chance.sample(rows, len(rows) // 2)
            chance.shuffle(again)
            cut = chance.randrange(len(again))
            pieces += [(record, again[:cut]), (record, again[cut:])]
        chance.shuffle(pieces)
        for number, (record, rows) in enumerate(pieces):
            put_all(store, {record: rows})
            if number == len(pieces) // 2:
                close(store, at("2026-10-06 00:00"), NOW)
        close(store, at("2026-10-06 00:00"), NOW)
        for one, other in zip(documents(store), documents(first), strict=True):
            assert {name: one[name] for name in one if one[name] != other[name]} == {}
        assert verify(store).balanced
