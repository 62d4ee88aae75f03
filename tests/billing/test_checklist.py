"""What must hold of the money, through the real ingest and close: zones, shares, lifetimes, disorder, late facts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from billing.close import close
from billing.invoicing.drafts import draft_all, platform_costs
from billing.invoicing.invoices import issue_all
from billing.ledger_report import ledger_report
from billing.periods import Period, parse_period
from billing.rates import apply_rate_card, parse_rate_card
from billing.verify import verify
from tests.billing.facts import Facts, devices, job, put_all, samples
from tests.billing.hand_ledger import at
from tests.stores import fresh_store
from warehouse.store import Store, open_store

NOW = datetime(2026, 11, 20, tzinfo=UTC)


@contextmanager
def books_of(path: Path, facts: Facts, until: str, **card: Any) -> Iterator[Store]:
    with fresh_store(path) as store:
        prices = [{"sku": "h100", "price_per_gpu_hour": "2.00"}]
        apply_rate_card(
            store, parse_rate_card({"currency": "EUR", "minimum_seconds": 0, "rates": prices, **card}), "me", "", NOW
        )
        put_all(store, facts)
        close(store, at(until), NOW)
        yield store


def held(store: Store, period: str, zone: str, *by: str) -> dict[Any, Decimal]:
    report = ledger_report(store, parse_period(period, zone), by or ("tenant",))
    return {tuple(row[name] for name in by or ("tenant",)): row["allocated_gpu_hours"] for row in report.rows}


@pytest.mark.parametrize(
    ("zone", "month", "hours"),
    [
        ("Europe/Berlin", "2026-10", "745"),  # the clock goes back
        ("Europe/Berlin", "2026-03", "743"),  # and forward
        ("America/New_York", "2025-11", "721"),
        ("Asia/Kolkata", "2026-10", "744"),  # cut at half past the hour
        ("Australia/Lord_Howe", "2026-10", "743.5"),  # half an hour forward
        ("UTC", "2024-02", "696"),  # a leap day
        ("Europe/London", "2025-12", "744"),  # the end of a year
    ],
)
def test_a_month_has_the_hours_that_its_zone_gives_it(tmp_path: Path, zone: str, month: str, hours: str) -> None:
    period = parse_period(month, zone)
    start, end = period.start - timedelta(days=2), period.end + timedelta(days=2)
    facts: Facts = {
        "devices": devices(f"{start:%Y-%m-%d %H:%M}", "g0"),
        "events": job("a", "chem", "g0", f"{start:%Y-%m-%d %H:%M}", f"{end:%Y-%m-%d %H:%M}"),
    }
    with books_of(tmp_path, facts, f"{end:%Y-%m-%d %H:00}", timezone=zone) as store:
        assert held(store, month, zone) == {("chem",): Decimal(hours)}
        (invoice,) = draft_all(store, period)
        assert invoice.amount == 2 * Decimal(hours)


def test_a_day_has_23_or_25_hours(tmp_path: Path) -> None:
    facts: Facts = {
        "devices": devices("2026-10-20 00:00", "g0"),
        "events": job("a", "chem", "g0", "2026-10-24 00:00", "2026-10-27 12:00"),
    }
    with books_of(tmp_path, facts, "2026-10-28 00:00", timezone="Europe/Berlin") as store:
        assert held(store, "2026-10", "Europe/Berlin", "day") == {
            ("2026-10-24",): Decimal(22), ("2026-10-25",): Decimal(25),
            ("2026-10-26",): Decimal(24), ("2026-10-27",): Decimal(13),
        }  # fmt: skip


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


def test_one_name_twice_is_two_lives(tmp_path: Path) -> None:
    facts: Facts = {
        "devices": devices("2026-10-05 00:00", "g0"),
        "events": job("uid-1", "chem", "g0", "2026-10-05 00:00", "2026-10-05 01:00")
        + job("uid-2", "chem", "g0", "2026-10-05 09:00", "2026-10-05 16:00"),
    }
    with books_of(tmp_path, facts, "2026-10-06 00:00") as store:
        assert held(store, "2026-10", "UTC") == {("chem",): Decimal(8)}


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


@pytest.mark.parametrize("seed", range(3))
def test_disorder_and_duplicates_change_no_invoice(tmp_path: Path, seed: int) -> None:
    facts = some_facts()
    with books_of(tmp_path / "plain", facts, "2026-10-06 00:00", **POLICIES) as store:
        expected = documents(store)
    # The engine holds one path a process: the second store is a scratch database beside the first.
    with open_store(f"chdb://{tmp_path / 'plain'}") as first, first.scratch() as store:
        card = parse_rate_card(
            {"currency": "EUR", "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}], **POLICIES}
        )
        apply_rate_card(store, card, "me", "", NOW)
        chance = random.Random(seed)
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
        for one, other in zip(documents(store), expected, strict=True):
            assert {name: one[name] for name in one if one[name] != other[name]} == {}
        assert verify(store).balanced


def test_periods_add_up(tmp_path: Path) -> None:
    with books_of(tmp_path, some_facts(), "2026-10-06 00:00") as store:
        a, b, c = at("2026-10-05 00:00"), at("2026-10-05 13:00"), at("2026-10-06 00:00")
        whole, left, right = (ledger_report(store, Period(*span), ["tenant"]).rows for span in ((a, c), (a, b), (b, c)))
        for name in ("allocated_gpu_hours", "used_gpu_hours", "billed_cost"):
            assert sum(row[name] for row in whole) == sum(row[name] for row in (*left, *right))


def test_late_facts_come_to_the_same_as_all_at_once(tmp_path: Path) -> None:
    facts = some_facts()
    events = facts.pop("events")
    october, november = (parse_period(month, "UTC") for month in ("2026-10", "2026-11"))
    policies = {**POLICIES, "commitments": [], "idle_policy": "platform"}
    with books_of(tmp_path, {**facts, "events": events[:4]}, "2026-11-01 00:00", **policies) as store:
        billed = sum(one.amount for one in issue_all(store, october, NOW))
        put_all(store, {"events": events[4:]})
        close(store, at("2026-12-01 00:00"), at("2026-12-01 00:00"))
        billed += sum(one.amount for one in issue_all(store, november, at("2026-12-02 00:00")))
        with store.scratch() as anew:
            card = {"currency": "EUR", "rates": [{"sku": "h100", "price_per_gpu_hour": "2.00"}], **policies}
            apply_rate_card(anew, parse_rate_card(card), "me", "", NOW)
            put_all(anew, {**facts, "events": events})
            close(anew, at("2026-11-01 00:00"), NOW)
            assert billed == sum(one.amount for one in draft_all(anew, october))
