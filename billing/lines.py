"""Lines of an invoice: before they are rounded, what each step of the rating adds (docs/billing.md has the order)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

KINDS = ("usage", "minimum", "energy", "memory", "commitment", "discount", "shared", "credit", "tax")
"""In the order in which they stand on an invoice."""
CORRECTION = "correction"
"""As what corrections of other months count where lines are summed by kind (`lines_by`)."""


@dataclass(frozen=True)
class Line:
    """A line of a tenant's month. Costs are exact; None = the price is unknown, which is not a cost of zero.

    quantity x contracted_unit_price = cost where both are given. `measures` are the ledger's, of usage lines alone.
    `rule` names the policy that made the line, `description` says it in words with its figures. `price_validity`: the
    rate card's rules behind a line's contracted price, when each is in force and for what; `list_price_validity`: those
    behind its list price, where that is another.
    """

    tenant: str
    kind: str
    project: str = ""
    sku: str = ""
    description: str = ""
    quantity: Fraction | None = None
    unit: str = ""
    list_unit_price: Decimal | None = None
    contracted_unit_price: Decimal | None = None
    list_cost: Fraction | None = None
    cost: Fraction | None = None
    rule: str = ""
    measures: Mapping[str, Any] | None = None
    charge_class: str | None = None
    reference: Mapping[str, str | None] | None = None
    price_validity: Sequence[Mapping[str, str | None]] | None = None
    list_price_validity: Sequence[Mapping[str, str | None]] | None = None


def kind_of(line: Mapping[str, Any]) -> str:
    """Of a document's line; those of documents from before there were kinds are usage."""
    return str(line.get("kind") or "usage")


def is_correction(line: Mapping[str, Any]) -> bool:
    """Whether a document's line is about another month than the document's own."""
    return line.get("charge_class") == "Correction"


def lines_by(lines: Iterable[Mapping[str, Any]], *fields: str) -> Mapping[tuple[str, ...], list[Mapping[str, Any]]]:
    """A document's lines by their kind and these fields ('': it has none). Corrections are of no SKU."""
    found: dict[tuple[str, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for line in lines:
        corrects = is_correction(line)
        values = ("" if corrects and field == "sku" else line.get(field) or "" for field in fields)
        found[CORRECTION if corrects else kind_of(line), *values].append(line)
    return found
