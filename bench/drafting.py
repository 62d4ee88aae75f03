"""Drafting and issuing a month's invoices beside one plain GROUP BY of the same ledger.

The card has prices only, or every policy that needs work: minimum, a commitment for each tenant, discounts by month and
by session, shared cost and taxes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.apart import load_libraries, needed, peak_bytes, reset_peak, run_apart, stopwatch
from bench.report import Line, Spread
from billing.invoicing.invoices import draft_all, issue_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from warehouse.store import Store, migrate, open_store, read_sql

GOAL_SECONDS = 10
HOURS = 720
TENANTS = 200
ALLOCATIONS = 100_000
START = datetime(2026, 11, 1, tzinfo=UTC)
NOW = datetime(2026, 12, 2, tzinfo=UTC)
MONTH = parse_month("2026-11", "UTC")
SECTION = "invoices"
PRICES = {"currency": "EUR", "minimum_seconds": 60, "rates": [{"sku": "h100", "price_per_gpu_hour": "1.75"}]}
TIERS = [{"from": "100", "percent": "10"}, {"from": "500", "percent": "20"}, {"from": "1000", "percent": "30"}]
POLICIES = {
    **PRICES,
    "commitments": [
        {"name": f"quota-{n}", "tenant": f"tenant-{n}", "gpus": "2", "price_per_gpu_hour": "1.20"}
        for n in range(TENANTS)
    ],
    "discounts": [
        {"name": "spot", "percent": "40", "match": {"preemptible": True}},
        {"name": "volume", "tiers": TIERS},
        {"name": "long", "per": "session", "measure": "hours", "tiers": [{"from": "4", "percent": "5"}]},
    ],
    "idle_policy": [{"share": "allocated_cost"}],
    "taxes": [{"name": "VAT", "percent": "19"}],
}


def measure_drafting(folder: Path, rows: int, most_bytes: int, say: Callable[[str], None]) -> Iterator[Line]:
    """The plain query, then drafts and issue, with prices alone and with every policy."""
    for name, card in (("prices alone", PRICES), ("every policy", POLICIES)):
        say(f"invoices: {name}, a ledger of {rows:,} entries")
        store = f"chdb://{folder}/drafting-{len(card)}"
        result = needed(run_apart(draft, most_bytes, store=store, rows=rows, card=card), "drafting")
        if name == "prices alone":
            yield Line(
                SECTION, "the engine: one GROUP BY", Spread.of([result["plain"]]), rows, result["peak_bytes"], 1.0
            )
        for step in ("draft", "issue"):
            yield Line(
                SECTION,
                f"{step} {result['invoices']} invoices, {name}",
                Spread.of([result[step]]),
                rows,
                result["peak_bytes"],
                result[step] / result["plain"],
                GOAL_SECONDS / result["plain"],
                note=f"goal {GOAL_SECONDS} s",
            )


def draft(store: str, rows: int, card: dict[str, Any]) -> dict[str, Any]:
    """In a process of its own."""
    load_libraries()
    with open_store(store) as opened:
        _fill(opened, rows, card)
        reset_peak()
        with stopwatch() as plain:
            opened.rows(read_sql(__file__, "drafting_plain"))
        with stopwatch() as drafting:
            drafts = draft_all(opened, MONTH)
        with stopwatch() as issuing:
            issue_all(opened, MONTH, NOW)
        return {
            "plain": plain.seconds,
            "draft": drafting.seconds,
            "issue": issuing.seconds,
            "invoices": len(drafts),
            "peak_bytes": peak_bytes(),
        }


def _fill(store: Store, rows: int, card: dict[str, Any]) -> None:
    migrate(store)
    apply_rate_card(store, parse_rate_card(card), "bench", "", NOW)
    params = {"rows": rows, "devices": -(-rows // HOURS), "start": START}
    store.command(read_sql(__file__, "drafting_ledger"), {**params, "allocations": ALLOCATIONS, "tenants": TENANTS})
    store.command(read_sql(__file__, "focus_closed"), {"hours": HOURS, "start": START})
    store.command(read_sql(__file__, "drafting_allocations"))
