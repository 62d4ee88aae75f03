"""An invoice as a document: everything in it, as stored in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any

from billing.parties.applied import AppliedParties
from warehouse.errors import LedgerError


class InvoiceError(LedgerError):
    """An invoice that cannot be drafted, issued or found."""


@dataclass(frozen=True)
class Invoice:
    """A statement for a tenant and a month.

    `document` is all of it, as JSON holds it: decimals and instants as strings, the unknown as None.
    `unpriced_months`: of a draft, GPU-hours without a price in the months that it corrects; it is not issued with any.
    """

    document: Mapping[str, Any]
    unpriced_months: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def number(self) -> str | None:
        """None for a draft."""
        number: str | None = self.document["number"]
        return number

    @property
    def tenant(self) -> str:
        return str(self.document["tenant"])

    @property
    def month(self) -> str:
        """Like 2026-10."""
        return str(self.document["period"]["month"])

    @property
    def currency(self) -> str:
        return str(self.document["currency"])

    @property
    def lines(self) -> Sequence[Mapping[str, Any]]:
        lines: Sequence[Mapping[str, Any]] = self.document["lines"]
        return lines

    @property
    def totals(self) -> Mapping[str, Any]:
        totals: Mapping[str, Any] = self.document["totals"]
        return totals

    @property
    def amount(self) -> Decimal:
        """What is to be paid."""
        return Decimal(self.totals["amount"])

    @property
    def is_incomplete(self) -> bool:
        """Of a draft: whether its amount lacks something that has no price."""
        return bool(self.totals.get("incomplete"))

    @property
    def known_amount(self) -> Decimal | None:
        """The amount, of what has a price; None: nothing has one, which is not a price of zero."""
        nothing = self.is_incomplete and all(line["amount"] is None for line in self.lines)
        return None if nothing else self.amount

    @property
    def is_void(self) -> bool:
        return bool(self.document["status"] == "void")

    @property
    def is_credit_note(self) -> bool:
        return bool(self.document.get("document_type") == "credit_note")

    @property
    def unpriced_gpu_hours(self) -> Decimal:
        return Decimal(self.totals["unpriced_gpu_hours"])

    def canonical(self) -> str:
        """The document as JSON that depends on its content alone."""
        return json.dumps(self.document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def with_parties(
    document: Mapping[str, Any], applied: AppliedParties | None, day: date, issued: bool = False
) -> Mapping[str, Any]:
    """The document with the parties' details in force on the day; as it is where none were applied. An invoice that is
    issued, and on which something is due, gets the day by which it is paid."""
    if applied is None:
        return document
    to_pay = issued and document["document_type"] == "invoice" and Decimal(document["totals"]["due"]) > 0
    return {**document, "parties": applied.parties.on_document(document["tenant"], day, to_pay)}


def text(value: Decimal | None) -> str | None:
    """A decimal as documents hold it; zero has no sign."""
    return None if value is None else format(value or abs(value), "f")
