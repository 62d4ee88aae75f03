"""Books in which everything occurs that money comes from, small enough to be closed in a second."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from billing.accounts.budget_file import apply_budgets, parse_budgets
from billing.accounts.credits import Credit, add_credit, reverse_credit
from billing.accounts.prepaid import Grant, add_grant, revoke_grant
from billing.close import close
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.invoicing.invoices import credit, issue_all, void
from billing.parties.applied import apply_parties
from billing.parties.details import parse_parties
from billing.periods import parse_month
from billing.rates import apply_rate_card, parse_rate_card
from billing.tenants import apply_mapping, parse_mapping
from billing.verify.tables import VOUCHED
from tests.billing.facts import job, put, samples
from tests.billing.hand_ledger import at
from tests.stores import fresh_store
from warehouse.store import Store, identifier

ZONE = "Europe/Berlin"
FEBRUARY, MARCH = (parse_month(month, ZONE) for month in ("2026-02", "2026-03"))
CARD: dict[str, Any] = {
    "currency": "EUR",
    "timezone": ZONE,
    "minimum_seconds": 60,
    "rates": [
        {"sku": "big", "match": {"model": "H100"}, "price_per_gpu_hour": "3.07"},
        {"sku": "small", "match": {"model": "L40S"}, "price_per_gpu_hour": "1.13"},
        {"sku": "own", "match": {"model": "H100", "tenant": "phys"}, "price_per_gpu_hour": "2.71"},
    ],
    "commitments": [{"name": "quota", "tenant": "chem", "sku": "*", "gpus": "0.5", "price_per_gpu_hour": "0.11"}],
    "discounts": [{"name": "tenth", "percent": "10"}],
    "components": [{"sku": "power", "kind": "energy", "price": "0.50", "pue": "1.2"}],
    "idle_policy": [{"share": "allocated_cost"}],
    "taxes": [{"name": "VAT", "percent": "19"}],
    "invoice_currencies": [{"tenant": "kyoto", "currency": "JPY"}],
    "exchange_rates": [{"month": f"2026-0{n}", "currency": "JPY", "rate": f"16{n}.5"} for n in (2, 3)],
}


def rich_books(folder: Path) -> Store:
    """A store with those books in `folder`."""
    return fresh_store(folder, fill_books, merge)


def merge(store: Store) -> None:
    for table in VOUCHED:
        store.command(f"OPTIMIZE TABLE {identifier(table)} FINAL")


def fill_books(store: Store) -> None:
    """Two issued months: with a correction, credits given and taken back, a grant revoked, a credit note and a void."""
    apply_rate_card(store, parse_rate_card({**CARD, "discounts": []}), "ann", "first", at("2026-01-01 00:00"))
    apply_rate_card(store, parse_rate_card(CARD), "ann", "with a discount", at("2026-01-02 00:00"))
    mapping = {"rules": [{"match": {"project": "b"}, "cost_center": "4711"}]}
    apply_mapping(store, parse_mapping(mapping), "ann", "cost centers", at("2026-01-01 00:00"))
    idle = parse_energy_settings({"idle_power": [{"watts": "60"}]})
    apply_energy_settings(store, idle, "ann", "measured", at("2026-01-01 00:00"))
    budgets = {"currency": "EUR", "budgets": [{"tenant": "chem", "amount": "10.00", "thresholds": [{"percent": "80"}]}]}
    apply_budgets(store, parse_budgets(budgets), "ann", "plan", at("2026-01-01 00:00"))
    seller = {
        "name": "A GmbH",
        "address": ["Bonn"],
        "bank": {"name": "B", "holder": "A", "iban": "DE89370400440532013000"},
    }
    apply_parties(store, parse_parties({"seller": [seller]}), "ann", "our bank", at("2026-01-01 00:00"))
    for month in ("02", "03"):
        _facts(store, month)
    held = {"tenant": "phys", "amount": Decimal("2.00"), "currency": "EUR", "author": "ann", "reason": "paid before"}
    for name in ("g1", "g2"):
        span = {"starts_at": at("2026-01-01 00:00"), "expires_at": at("2027-01-01 00:00")}
        add_grant(store, Grant(name, **held, **span), at("2026-02-01 00:00"))
    for number, tenant in enumerate(("chem", "phys", "chem")):
        one = Credit(tenant, "2026-02", Decimal("0.25"), "EUR", "sorry", author="ann", id=f"c{number}")
        add_credit(store, one, at("2026-02-20 00:00"))
    reverse_credit(store, "c2", "ann", "a mistake", at("2026-02-21 00:00"))
    close(store, FEBRUARY.end + timedelta(days=1), at("2026-03-05 00:00"))
    first = issue_all(store, FEBRUARY, at("2026-03-05 00:00"), actor="ann")
    put(store, "events", job("late", "chem", "g1", "2026-02-10 10:00", "2026-02-10 10:30", project="a"))
    revoke_grant(store, "g2", "ann", "sent back", at("2026-03-06 00:00"))
    reverse_credit(store, "c1", "ann", "not due", at("2026-03-06 00:00"))
    void(store, str(first[-1].number), at("2026-03-07 00:00"), "ann", "wrong address")
    close(store, FEBRUARY.end + timedelta(days=1), at("2026-03-08 00:00"))
    issue_all(store, FEBRUARY, at("2026-03-08 00:00"), actor="ann")
    credit(store, str(first[0].number), Decimal("0.10"), at("2026-03-09 00:00"), "ann", "goodwill")
    close(store, MARCH.end + timedelta(days=1), at("2026-04-05 00:00"))
    issue_all(store, MARCH, at("2026-04-05 00:00"), actor="ann")


def _facts(store: Store, month: str) -> None:
    """Three hours of three devices on the tenth, and two hours at the month's end; a claim that is refused."""
    spans = [(f"2026-{month}-10 08:00", f"2026-{month}-10 11:00")]
    rows = []
    for device, model, units in (("g0", "H100", 1), ("g1", "H100", 1), ("g2", "L40S", 2)):
        about = {"device_id": device, "model": model, "units": units, "node": "n1", "pool": "p", "cluster": "c1"}
        for start, end in spans:
            rows += [{**about, "ts": at(start), "state": "available"}, {**about, "ts": at(end), "state": "removed"}]
    put(store, "devices", [{**row, "cluster": ""} for row in rows])
    day = f"2026-{month}-10"
    events = []
    for name, tenant, device, start, end, project in (
        ("a", "chem", "g0", "08:00", "09:20", "a"), ("b", "phys", "g1", "08:30", "09:45", "b"),
        ("k", "kyoto", "g2", "08:00", "10:10", "a"), ("x", "kyoto", "g0", "08:10", "08:50", "a"),
        ("s", "chem", "g0", "10:00:00", "10:00:20", "a"),
    ):  # fmt: skip
        more = {"project": project, "queue": "q", "priority": 5, "units": 1}
        events += job(f"{name}{month}", tenant, device, f"{day} {start}", f"{day} {end}", **more)
    put(store, "events", events)
    measured = samples("g0", f"{day} 08:00", range(60)) + samples("g1", f"{day} 08:30", range(30), 0.25)
    put(store, "samples", [{**one, "power_watts": 300.0, "memory_used_bytes": 2**30} for one in measured])
