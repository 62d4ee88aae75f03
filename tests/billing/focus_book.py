"""A small book with something of everything, whose FOCUS files are compared cell by cell (test_focus_golden.py).

golden/README.md says in prose what happened and why each charge is what it is.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from billing.accounts.credits import Credit, add_credit
from billing.invoicing.invoices import credit, issue_all
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.store import Store

ZONE = "Europe/Berlin"
OCTOBER, NOVEMBER = parse_month("2026-10", ZONE), parse_month("2026-11", ZONE)
HALF, QUARTER = HOUR_MS // 2, HOUR_MS // 4
RND, WEB = "研发一部", '=web "ж" 100%'
CARD: dict[str, Any] = {
    "currency": "EUR",
    "timezone": ZONE,
    "minimum_seconds": 0,
    "issuer": {"name": "Rechenzentrum Köln"},
    "rates": [
        {"sku": "h100", "price_per_gpu_hour": "2.00"},
        {"sku": "a100-3g", "match": {"model": "A100"}, "price_per_gpu_hour": "0.70"},
    ],
    "discounts": [
        {"name": "early", "percent": "10", "match": {"project": "qcd"}},
        {"name": "granted", "percent": "100", "match": {"tenant": "platform"}},
    ],
    "commitments": [
        {"name": "küçük", "tenant": "physics", "sku": "h100", "gpus": "0.5", "price_per_gpu_hour": "1.00"},
        {"name": "second", "tenant": "physics", "sku": "h100", "gpus": "0.25", "price_per_gpu_hour": "1.50"},
    ],
    "idle_policy": [{"pool": "*", "share": "evenly"}],
    "taxes": [{"name": "USt", "percent": "19"}],
}
FIRST, LAST = at("2026-09-30 22:00"), at("2026-10-31 22:00")
"""October's first and last hour in Berlin; it has 745."""
NOON = at("2026-10-05 12:00")
HELD = [
    Row(FIRST, "physics", "qcd", used=str(HALF), idle=str(QUARTER), unmetered=QUARTER, workload="lattice", queue="a,b",
        cluster="köln-1", cost_center="4711"),
    Row(NOON, "physics", "qcd", used=str(HOUR_MS), workload="lattice"),
    Row(NOON, "physics", "bsm", device="gpu-1", units=7, used=str(3 * HALF), idle=str(3 * HALF), sku="a100-3g",
        price="0.70", contracted="0.60", model="A100"),
    Row(NOON, RND, 'say "hi", 研发', device="gpu-1", units=7, used=str(3 * HOUR_MS), sku="a100-3g", price="0.70",
        model="A100", workload="训练-1", profile="3g.40gb"),
    Row(LAST, WEB, "", device="gpu-2", used=str(HOUR_MS)),
    Row(NOON, "platform", "own", device="gpu-4", used=str(HOUR_MS)),
]  # fmt: skip
PLATFORMS = [
    Row(NOON, device="gpu-2", unallocated=HOUR_MS),
    Row(NOON, device="gpu-3", unavailable=HOUR_MS),
    Row(NOON, "", "orphan", device="gpu-5", used=str(HOUR_MS)),
]


def write_book(books: Store) -> None:
    """October issued; then late facts, another price's worth of hours, a credit and a credit note; November issued."""
    apply_rate_card(books, parse_rate_card(CARD), "me", "", at("2026-10-01 00:00"))
    fill(books, [*HELD, *PLATFORMS], run=7, closed=[at("2026-10-31 22:00")])
    issue_all(books, OCTOBER, at("2026-11-02 09:00"))
    credit(books, "GL-2026-00002", Decimal("1.00"), at("2026-11-03 09:00"), "me", "es war langsam")
    changed = Row(NOON, "physics", "bsm", device="gpu-1", units=7, used=str(4 * HOUR_MS), sku="a100-3g", price="0.70",
                  contracted="0.60", model="A100")  # fmt: skip
    idle = Row(NOON, device="gpu-6", unallocated=HOUR_MS)
    rest = [idle, *(row for row in (*HELD, *PLATFORMS) if row.at == NOON and row.project != "bsm")]
    fill(books, [*rest, changed], run=8)
    fill(books, [Row(at("2026-10-25 01:00"), WEB, "", device="gpu-2", used=str(HOUR_MS))], run=9)
    add_credit(
        books, Credit(RND, "2026-11", Decimal("0.25"), "EUR", "Entschädigung", author="me"), at("2026-11-30 08:00")
    )
    fill(books, [Row(at("2026-11-03 00:00"), RND, "eins", used=str(HOUR_MS))], run=10, closed=[at("2026-11-30 22:00")])
    issue_all(books, NOVEMBER, at("2026-12-02 09:00"))
