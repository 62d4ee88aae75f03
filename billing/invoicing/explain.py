"""Explains a line of an invoice: the rule behind it, and what it was computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from billing.exact import Scale, price_nano, rounded
from billing.invoicing.changes import changed_entries, run_of
from billing.invoicing.documents import Invoice, InvoiceError
from billing.invoicing.invoices import issued
from billing.rates import RateCard, rate_card_of
from billing.sums import KINDS, LedgerSum
from warehouse.store import Store, read_sql

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True)
class Explanation:
    """A line, the rules of the card that made it (as the card has them), and what they were applied to.

    `rows` are entries of the ledger for usage (by allocation, or by hour; of a correction those that changed), else the
    lines of the same invoice that the rule worked on. `formula` says in words how the amount follows.
    """

    line: Mapping[str, Any]
    formula: str
    rate_card: str
    rules: Sequence[Mapping[str, Any]]
    rows: Sequence[Mapping[str, Any]]


def explain(store: Store, invoice: Invoice, number: int, by_hour: bool = False) -> Explanation:
    """Explains line `number` (from 1) by the entries that the invoice was computed from, whatever was closed since.

    Errors: InvoiceError if the invoice has no such line.
    """
    if not 1 <= number <= len(invoice.lines):
        where = f"invoice {invoice.number or 'draft'}, line {number}"
        raise InvoiceError(where, "no such line", f"It has lines 1 to {len(invoice.lines)}")
    line = invoice.lines[number - 1]
    version = str(invoice.document["rate_card"])
    applied = rate_card_of(store, version)
    card = applied.card if applied else None
    kind = line.get("kind", "usage")
    if line.get("charge_class") == "Correction":
        rows: Sequence[Mapping[str, Any]] = _changes(store, invoice, line, by_hour) if kind == "usage" else [line]
        formula = "what the month costs now, less what was billed for it so far"
    elif kind == "usage":
        rows = _entries(store, invoice, line, by_hour)
        formula = "GPU-hours x contracted unit price, rounded once for the whole invoice"
    else:
        base = _BASE.get(kind, ())
        rows = [one for one in invoice.lines if one.get("kind", "usage") in base and not one.get("charge_class")]
        formula = _FORMULAS.get(kind, line["description"])
    return Explanation(line, formula, version, _rules(card, line, invoice.tenant, invoice.month) if card else [], rows)


_BASE = {
    "minimum": ("usage",),
    "commitment": ("usage",),
    "discount": ("usage", "commitment"),
    "tax": ("usage", "minimum", "energy", "memory", "commitment", "discount", "shared", "credit"),
}
"""The kinds of lines that a rule works on: the month's own, for corrections have theirs."""
_FORMULAS = {
    "minimum": "the shortfall of each session to the minimum, at the price in force when it ran",
    "commitment": "GPUs x hours x price, used or not; less the usage covered in each hour, most expensive first",
    "discount": "percentage of the usage left after commitments and earlier discounts",
    "shared": "the pool's unallocated cost in whole minor units, allocated by largest remainder",
    "tax": "percentage of the net total of the invoice's own lines, rounded half to even",
}


def _entries(store: Store, invoice: Invoice, line: Mapping[str, Any], by_hour: bool) -> list[dict[str, Any]]:
    period = invoice.document["period"]
    params = {
        "start": datetime.fromisoformat(period["start"]),
        "end": datetime.fromisoformat(period["end"]),
        "tenant": invoice.tenant,
        "project": line["project"],
        "sku": line["sku"],
        "list_price": line["list_unit_price"] or "",
        "contracted_price": line["contracted_unit_price"] or "",
        "by_hour": int(by_hour),
        "as_of": run_of(invoice),
    }
    found = store.rows(read_sql(__file__, "explain_usage"), params)
    scale = Scale.of(row["device_units"] for row in found)
    rows = []
    for row in found:
        sums = LedgerSum(scale)
        sums.add(row, *KINDS)
        measures = sums.measures(None)
        rows.append(
            {
                **({} if by_hour else {"devices": row["devices"]}),
                **_allocation_of(row, by_hour),
                **{name: measures[name] for name in _SHOWN},
                "billed_cost": None if sums.unpriced else rounded(sums.billed()),
                "estimated": row["estimated"],
            }
        )
    return rows


def _allocation_of(row: Mapping[str, Any], by_hour: bool) -> dict[str, Any]:
    """Which allocation's entries a row is of, and when."""
    return {
        **({"hour": row["in_hour"], "device": row["device"]} if by_hour else {}),
        "cluster": row["cluster"],
        "allocation": row["allocation_id"],
        "workload": row["workload_id"],
        "from": row["from_at"],
        "to": row["to_at"],
    }


def _changes(store: Store, invoice: Invoice, line: Mapping[str, Any], by_hour: bool) -> Sequence[Mapping[str, Any]]:
    """The allocations that were billed for another time than they held, as far as the books show it; else the line."""
    if "as_of_run" not in invoice.document:
        return [line]
    names = ("project", "sku", "list_unit_price", "contracted_unit_price")
    asked = [line[name] if name in names[:2] else line[name] and Decimal(line[name]) for name in names]
    entries = changed_entries(store, invoice, line["reference"]["month"], issued(store), by_hour)
    found = [row for row in entries if [row[name] for name in names] == asked]
    scale = Scale.of(row["device_units"] for row in found)
    rows: list[Mapping[str, Any]] = []
    for row in found:
        was, now = (scale.quantity(row[f"{name}_micro_ms"], row["device_units"]) for name in ("was", "now"))
        price = row["contracted_unit_price"]
        rows.append(
            {
                **_allocation_of(row, by_hour),
                "billed_gpu_hours": scale.hours(was),
                "due_gpu_hours": scale.hours(now),
                "cost": None if price is None else rounded(scale.money((now - was) * price_nano(price))),
            }
        )
    return rows or [line]


_SHOWN = ("allocated_gpu_hours", "used_gpu_hours", "idle_gpu_hours", "unmetered_gpu_hours", "coverage")


def _rules(card: RateCard, line: Mapping[str, Any], tenant: str, month: str) -> list[dict[str, Any]]:
    """The rules of the card that the line names: of its price, or of its policy's name. What another tenant has agreed
    is not among them, even at the same price."""
    kind = line.get("kind", "usage")
    if kind == "usage":
        prices = {Decimal(price) for name in ("list", "contracted") if (price := line[f"{name}_unit_price"])}
        own = (rule for rule in card.rates if rule.match.tenant is None or fnmatchcase(tenant, rule.match.tenant))
        return [_as_written(rule) for rule in own if prices.intersection(card.prices_of(rule).values())]
    if kind == "minimum":
        return [{"minimum_seconds": card.minimum_in(month)}]
    if kind == "shared" and not isinstance(card.idle_policy, str):
        return [_as_written(rule) for rule in card.idle_policy]
    named: dict[str, BaseModel] = {
        **{rule.name: rule for rule in card.discounts},
        **{rule.name: rule for rule in card.commitments},
        **{rule.sku: rule for rule in card.components},
        **{f"{rule.name} {rule.percent.normalize():f} %": rule for rule in card.taxes},
    }
    return [_as_written(named[line["rule"]])] if line["rule"] in named else []


def _as_written(rule: BaseModel) -> dict[str, Any]:
    return rule.model_dump(mode="json", exclude_defaults=True)
