"""An invoice's lines as rows of a FOCUS file: pure, on documents (docs/billing.md, docs/focus.md).

Usage lines become groups, whose rows come from the ledger; reductions (discounts, and what a quota covers) are taken
off inside those rows; every other line is a row of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import quotient
from billing.invoicing.documents import Invoice
from billing.lines import kind_of
from billing.periods import Period, parse_month

COST_DIGITS = 24
QUANTITY_DIGITS = 15
PART_DIGITS = 30
UNITS = {"GPU-hours": "Hours", "GiB-hours": "GB-Hours", "kWh": "kWh"}
METERS = {"energy": "Energy", "memory": "GPU Memory"}
GroupKey = tuple[str, str, str | None, str | None]
"""Project, sku, list and contracted unit price, as an invoice line has them."""


@dataclass
class Group:
    """What one usage line covers. `cost` is at the contracted price; `billed` is what reductions left of it;
    `effective` is that with what its commitments cost. Exact."""

    line: Mapping[str, Any]
    cost: Fraction
    billed: Fraction
    effective: Fraction = Fraction(0)

    def part(self, of: Fraction) -> Decimal | None:
        """As a part of the cost; None: all of it."""
        return (
            None
            if of == self.cost
            else quotient(of.numerator * self.cost.denominator, of.denominator * self.cost.numerator, PART_DIGITS)
        )


@dataclass
class Statement:
    """An invoice, or a draft (`number` None), taken apart."""

    invoice: Invoice
    groups: dict[GroupKey, Group] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return str((self.invoice.document.get("issuer") or {}).get("name") or "GPU platform")

    def row(self, line: Mapping[str, Any], **values: Any) -> dict[str, Any]:
        """A fact with what identifies the invoice, and the rest as given."""
        document = self.invoice.document
        reference = line.get("reference") or {}
        period = period_of(document)
        if line.get("charge_class") == "Correction" and reference.get("month"):
            period = parse_month(reference["month"], document["period"]["timezone"])
        return {
            "kind": kind_of(line),
            "tenant": self.invoice.tenant,
            "project": line.get("project") or "",
            "invoice_id": self.invoice.number,
            "issuer": self.issuer,
            "currency": self.invoice.currency,
            "class": line.get("charge_class"),
            "description": line.get("description") or kind_of(line),
            "period_start": period.start,
            "period_end": period.end,
            "sku": "",
            "meter": "",
            "rate_card": document.get("rate_card") or "",
            "run": int(document.get("run") or 0),
            "corrects_invoice": reference.get("invoice"),
            "rule": line.get("rule") or None,
            **values,
        }


def key_of(line: Mapping[str, Any]) -> GroupKey:
    return (line["project"], line["sku"], line["list_unit_price"], line["contracted_unit_price"])


def period_of(document: Mapping[str, Any]) -> Period:
    period = document["period"]
    return Period(datetime.fromisoformat(period["start"]), datetime.fromisoformat(period["end"]))


def statement_of(invoice: Invoice) -> Statement:
    """The invoice taken apart. Lines without a price are in no amount, and here in no row."""
    statement = Statement(invoice)
    reductions, quotas = [], []
    for line in invoice.lines:
        own_month = line.get("charge_class") is None
        if kind_of(line) == "usage" and own_month:
            if line["billed_cost"] is not None:
                cost = _hours(line) * _fraction(line["contracted_unit_price"])
                statement.groups[key_of(line)] = Group(line, cost, cost)
        elif kind_of(line) in ("discount", "commitment") and own_month and _fraction(line["billed_cost"]) < 0:
            reductions.append(line)
        elif kind_of(line) == "commitment" and own_month:
            quotas.append(line)
        elif not _is_unmeasured(line):
            statement.rows.append(_row_of(statement, line))
    covered = _reduce(statement, reductions)
    for group in statement.groups.values():
        group.effective = group.billed
    _buy(statement, quotas, covered)
    listed = sum(
        (Fraction(row["list_cost"]) for row in statement.rows if row["category"] not in ("Tax", "Credit")), Fraction(0)
    )
    listed += sum(
        (_hours(group.line) * _fraction(group.line["list_unit_price"]) for group in statement.groups.values()),
        Fraction(0),
    )
    _tax_on_list(statement, listed)
    return statement


def _is_unmeasured(line: Mapping[str, Any]) -> bool:
    """Energy or memory of which nothing was measured: nothing is charged, and FOCUS has no usage without a quantity."""
    unknown = line.get("quantity") is None and CATEGORIES.get(kind_of(line), _ADJUSTMENT)[0] == "Usage"
    return unknown and line.get("charge_class") is None and not _fraction(line["billed_cost"])


def _reduce(statement: Statement, reductions: Iterable[Mapping[str, Any]]) -> dict[str, dict[GroupKey, Fraction]]:
    """Takes each reduction off the groups it is about, by what is left of their cost. Answers, by commitment, how much
    usage (in GPU-hours) of each group it covers. What finds no usage to be taken off becomes a row of its own."""
    covered: dict[str, dict[GroupKey, Fraction]] = {}
    for line in reductions:
        scope = {key: group for key, group in statement.groups.items() if _is_about(line, key) and group.billed > 0}
        base = sum((group.billed for group in scope.values()), Fraction(0))
        off = -_fraction(line["billed_cost"])
        if off > base + Fraction(1, 10**6):
            statement.rows.append(_row_of(statement, line))
            continue
        for key, group in scope.items():
            part = group.billed / base
            group.billed -= min(off, base) * part
            if kind_of(line) == "commitment":
                hours = covered.setdefault(line["rule"], {})
                hours[key] = hours.get(key, Fraction(0)) - _fraction(line.get("quantity")) * part
    return covered


def _is_about(line: Mapping[str, Any], key: GroupKey) -> bool:
    """A discount names its project; what a quota covers is named to the price."""
    project, sku, list_price, contracted_price = key
    if line["project"] != project:
        return False
    if kind_of(line) != "commitment":
        return True
    return (line["sku"], line["list_unit_price"], line["contracted_unit_price"]) == (sku, list_price, contracted_price)


def _buy(
    statement: Statement, quotas: Iterable[Mapping[str, Any]], covered: Mapping[str, Mapping[GroupKey, Fraction]]
) -> None:
    """A quota is bought (billed now, no effect of its own), used by the usage it covers, and the rest is unused."""
    by_rule: dict[str, list[Mapping[str, Any]]] = {}
    for line in quotas:
        by_rule.setdefault(line["rule"], []).append(line)
    for rule, lines in by_rule.items():
        bought = sum((_fraction(line["billed_cost"]) for line in lines), Fraction(0))
        hours = sum((_fraction(line.get("quantity")) for line in lines), Fraction(0))
        used = covered.get(rule, {})
        for key, quantity in used.items():
            if hours:
                statement.groups[key].effective += bought * quantity / hours
        for line in lines:
            row = _row_of(statement, line)
            statement.rows.append({**row, "effective_cost": money(Fraction(0))})
        unused = hours - sum(used.values(), Fraction(0)) if hours else Fraction(0)
        if not hours or unused > Fraction(1, 10**6):
            statement.rows.append(_unused(statement, lines[0], unused, bought * unused / hours if hours else bought))


def _unused(statement: Statement, line: Mapping[str, Any], hours: Fraction, cost: Fraction) -> dict[str, Any]:
    return statement.row(
        line,
        category="Usage",
        frequency="Usage-Based",
        description=f"Unused part of {line['rule']}",
        commitment=line["rule"],
        commitment_status="Unused",
        quantity=number(hours, QUANTITY_DIGITS) if hours else None,
        unit="Hours" if hours else None,
        billed_cost=money(Fraction(0)),
        effective_cost=money(cost),
        list_cost=money(Fraction(0)),
        contracted_cost=money(Fraction(0)),
    )


CATEGORIES = {
    "usage": ("Usage", "Usage-Based"),
    "minimum": ("Usage", "Usage-Based"),
    "energy": ("Usage", "Usage-Based"),
    "memory": ("Usage", "Usage-Based"),
    "commitment": ("Purchase", "Recurring"),
    "tax": ("Tax", "Recurring"),
    "credit": ("Credit", "One-Time"),
}
"""ChargeCategory and ChargeFrequency by kind of line; any other is an Adjustment."""
_ADJUSTMENT = ("Adjustment", "One-Time")


def _row_of(statement: Statement, line: Mapping[str, Any]) -> dict[str, Any]:
    """A line as a row. With a quantity and a price its cost is their product; else it is the amount that is billed."""
    category, frequency = CATEGORIES.get(kind_of(line), _ADJUSTMENT)
    price, listed = line.get("contracted_unit_price"), line.get("list_unit_price") or line.get("contracted_unit_price")
    own_month = line.get("charge_class") is None
    if category == "Purchase" and not own_month:
        # FOCUS: a Purchase has no effective cost. What a corrected quota comes to is one of the corrected month.
        category, frequency = _ADJUSTMENT
    if price is None or line.get("quantity") is None or not own_month or category == "Adjustment":
        cost = number(_fraction(line["amount"] if line["amount"] is not None else line["billed_cost"]), COST_DIGITS)
        # A correction is a difference of amounts; it has no price of its own.
        costs: dict[str, str | None] = dict.fromkeys(
            ("list_cost", "contracted_cost", "billed_cost", "effective_cost"), cost
        )
        if category == "Usage" and line.get("quantity") is not None:
            quantity = number(_fraction(line["quantity"]), QUANTITY_DIGITS)
            costs |= {"quantity": quantity, "consumed": quantity, "unit": _unit(line)}
        return statement.row(line, category=category, frequency=frequency, **costs)
    quantity = number(_fraction(line["quantity"]), QUANTITY_DIGITS)
    cost = money(Fraction(quantity) * _fraction(price))
    return statement.row(
        line,
        category=category,
        frequency=frequency,
        sku=line.get("sku") or "",
        meter=METERS.get(kind_of(line), "GPU Hours"),
        commitment=line["rule"] if kind_of(line) == "commitment" else None,
        quantity=quantity,
        consumed=quantity if category == "Usage" else None,
        unit=_unit(line),
        list_unit_price=listed,
        contracted_unit_price=price,
        list_cost=money(Fraction(quantity) * _fraction(listed)),
        contracted_cost=cost,
        billed_cost=cost,
        effective_cost=cost,
    )


def usage_row(statement: Statement, group: Group) -> dict[str, Any]:
    """A group as one row of the month, where the ledger no longer has the entries that it was billed from."""
    line = group.line
    row = _row_of(statement, {**line, "quantity": line["allocated_gpu_hours"], "unit": "GPU-hours"})
    cost = Fraction(row["contracted_cost"])
    parts = {"billed_cost": group.part(group.billed), "effective_cost": group.part(group.effective)}
    held, used, unmetered = (_fraction(line[f"{name}_gpu_hours"]) * 3600 for name in ("allocated", "used", "unmetered"))
    # Each of the line's hours was rounded for itself: idle is what is left, so that the row adds up.
    seconds = {"allocated": held, "used": used, "idle": held - used - unmetered, "unmetered": unmetered}
    return {
        **row,
        **{name: money(cost * Fraction(part)) for name, part in parts.items() if part is not None},
        **{f"{name}_seconds": number(value, 9) for name, value in seconds.items()},
        "description": f"GPU time of {line['project'] or 'no project'}, {line['sku']}, as invoiced",
        "used_cost": money(_fraction(line["used_gpu_hours"]) * _fraction(line["contracted_unit_price"])),
    }


def _tax_on_list(statement: Statement, listed: Fraction) -> None:
    """FOCUS: the list cost of a tax is computed on the list cost of what is taxed."""
    net = Fraction(Decimal(statement.invoice.totals.get("net") or 0))
    for row in statement.rows:
        if row["category"] == "Tax" and row["class"] is None and net:
            row["list_cost"] = money(Fraction(row["billed_cost"]) * listed / net)


def _unit(line: Mapping[str, Any]) -> str:
    unit = line.get("unit") or "GPU-hours"
    return UNITS.get(unit, unit)


def _hours(line: Mapping[str, Any]) -> Fraction:
    return _fraction(line["allocated_gpu_hours"])


def _fraction(value: str | None) -> Fraction:
    return Fraction(value or "0")


def money(value: Fraction) -> str:
    return number(value, COST_DIGITS)


def number(value: Fraction, digits: int) -> str:
    return format(quotient(value.numerator, value.denominator, digits), "f")
