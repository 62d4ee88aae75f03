"""What finance does in the demo: it plans budgets, corrects an invoiced month, and writes a credit note.

Amounts follow from the demo's own books, so that every seed and every day of the month tells the same story. Each of
these functions does nothing where it has done its part before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING, Any

from billing.accounts.credits import following
from billing.invoicing.documents import Invoice
from billing.invoicing.invoices import credit, draft_all, standing
from billing.ledger_report import LedgerReport, billing_timezone, ledger_report
from billing.lines import is_correction
from billing.money import minor_digits
from billing.periods import Period, month_name, parse_month
from warehouse.store import Store, read_sql

if TYPE_CHECKING:
    from billing.accounts.budget_file import BudgetFile

PLANS: Mapping[str, Decimal] = {
    "nlp": Decimal("0.85"),
    "vision": Decimal("1.20"),
    "physics": Decimal("1.60"),
    "physics-lab": Decimal("1.50"),
    "o'brien": Decimal("1.50"),
    "研发一部": Decimal("1.50"),
    "platform": Decimal("1.50"),
}
"""A tenant's budget as a part of what it spends: one is exceeded, one nearly used up, the others have room.
Every tenant has one, so that the whole fleet has."""
MONTH_DAYS = Decimal("30.4")
OUTAGE_HOURS = 6
CREDITED, CREDITED_PART = "physics-lab", Decimal("0.05")
"""Whose invoice a credit note refers to, and the part of its net amount that it returns."""


@dataclass(frozen=True)
class Outage:
    """What was reported late: a node whose devices were unavailable.   tenants: that held any of them."""

    node: str
    devices: int
    start: datetime
    end: datetime
    tenants: Sequence[str]


def set_budgets(store: Store, invoiced: Period) -> None:
    """Applies budgets of the invoiced month, of which the demo has a part, and of whole months from then on; nothing
    where there are some already."""
    from billing.accounts.budget_file import apply_budgets, current_budgets

    if current_budgets(store) is not None:
        return
    month = month_name(invoiced, billing_timezone(store))
    plan = budgets(month, ledger_report(store, invoiced, ["tenant"]), ledger_report(store, None, ["tenant"]))
    apply_budgets(store, plan, author="demo", reason="the demo's plan of the year", now=datetime.now(UTC))


def budgets(month: str, of_month: LedgerReport, of_all: LedgerReport) -> BudgetFile:
    """The budgets: of the month by what was spent in it, later by what a day costs.

    of_month, of_all: the ledger by tenant, of that month and of all the demo's time.
    """
    from billing.accounts.budget_file import parse_budgets

    assert of_all.closed is not None
    days = Decimal((of_all.closed.period.end - of_all.closed.period.start) / timedelta(days=1))
    spent, in_all = ({row["tenant"]: row["billed_cost"] for row in one.rows} for one in (of_month, of_all))
    found = []
    for tenant, part in PLANS.items():
        owner = f"{tenant}-lead@example.org"
        if spent.get(tenant):
            amount = _rounded(spent[tenant] * part)
            dated = {"effective_from": month, "effective_to": following(month)}
            found.append({"tenant": tenant, "amount": amount, "owner": owner, **dated})
        if in_all.get(tenant):
            amount = _rounded(in_all[tenant] / days * MONTH_DAYS * part)
            found.append({"tenant": tenant, "amount": amount, "owner": owner, "effective_from": following(month)})
    return parse_budgets({"currency": of_all.currency, "budgets": found}, "the demo's budgets")


def _rounded(amount: Decimal) -> str:
    """Down to two digits, as plans are."""
    step = Decimal(1).scaleb(max(0, amount.adjusted() - 1))
    return format(max(Decimal(1), (amount / step).to_integral_value(ROUND_FLOOR) * step), ".2f")


def report_outage(store: Store, invoiced: Period, source: str) -> Outage | None:
    """Stores that a node was down for some hours of the invoiced month, which nobody had reported before; nobody is
    charged for such time, so the next close leads to corrections. None if that is known already, or nothing was held.

    source: of the records.
    """
    import pyarrow as pa

    from collectors.tables import schema
    from ingest.pipeline import ingest_tables
    from warehouse.records import DEVICES

    if store.value("SELECT count() FROM ingest_batches WHERE source = {source:String}", {"source": source}):
        return None
    found = outage(store, invoiced, OUTAGE_HOURS)
    if not found:
        return None
    ingest_tables(store, DEVICES, source, [pa.Table.from_pylist(device_rows(found), schema(DEVICES))])
    first = found[0]
    return Outage(first["node"], len(found), first["start_at"], first["end_at"], first["tenants"])


def outage(store: Store, invoiced: Period, hours: int) -> list[dict[str, Any]]:
    """The rows of demo_outage.sql: the devices of one node, and so many hours in which it was dearest."""
    params = {"start": invoiced.start, "end": invoiced.end, "hours": hours}
    return store.rows(read_sql(__file__, "demo_outage"), params)


def device_rows(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Records of these devices: unavailable in those hours."""
    facts = ("cluster", "node", "device_id", "vendor", "model", "memory_bytes", "units", "pool")
    return [
        {"ts": row[at], "state": state, **{name: row[name] for name in facts}}
        for at, state in (("start_at", "unavailable"), ("end_at", "available"))
        for row in found
    ]


def corrected(store: Store, invoiced: Period) -> list[Invoice]:
    """The drafts of the month after it that correct it: where the corrections stand until that month is issued."""
    zone = billing_timezone(store)
    after = parse_month(following(month_name(invoiced, zone)), zone)
    return [draft for draft in draft_all(store, after) if any(is_correction(line) for line in draft.lines)]


def credit_note(store: Store, invoiced: Period) -> Invoice | None:
    """The credit note on an invoice of the month, issued if it is not yet; None if the month has no invoice."""
    documents = standing(store, invoiced)
    notes = [one for one in documents if one.is_credit_note]
    if notes or not documents:
        return notes[0] if notes else None
    invoice = next((one for one in documents if one.tenant == CREDITED), documents[0])
    amount = round(Decimal(invoice.totals["net"]) * CREDITED_PART, minor_digits(invoice.currency))
    reason = "Goodwill: notebooks could not be reached on two evenings"
    return credit(store, invoice.number or "", amount, datetime.now(UTC), actor="demo", reason=reason)
