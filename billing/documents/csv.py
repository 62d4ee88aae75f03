"""An invoice as CSV: one row per line, each with the invoice's number, tenant and month."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from billing.documents.page import completed, validity
from billing.invoicing.documents import Invoice
from warehouse.csv_cells import write_csv

COLUMNS = (
    "number",
    "status",
    "tenant",
    "period_start",
    "period_end",
    "currency",
    "line",
    "kind",
    "project",
    "sku",
    "description",
    "quantity",
    "unit",
    "allocated_gpu_hours",
    "used_gpu_hours",
    "idle_gpu_hours",
    "unmetered_gpu_hours",
    "unpriced_gpu_hours",
    "list_unit_price",
    "contracted_unit_price",
    "price_validity",
    "list_cost",
    "billed_cost",
    "amount",
    "rule",
    "charge_class",
    "reference_invoice",
    "reference_month",
    "due_date",
    "buyer",
    "purchase_order",
    "document_type",
)
"""Costs are exact to nine digits, amounts are what is paid; what is unknown or does not apply is empty."""


def line_rows(invoice: Invoice) -> list[dict[str, Any]]:
    """The lines, each with what identifies its invoice."""
    document = invoice.document
    shared = {name: document[name] for name in ("number", "status", "tenant", "currency")}
    shared["document_type"] = document.get("document_type") or "invoice"
    shared |= {"period_start": document["period"]["start"], "period_end": document["period"]["end"]}
    parties = document.get("parties") or {}
    buyer = parties.get("buyer") or {}
    shared |= {"due_date": parties.get("due_date")}
    shared |= {"buyer": buyer.get("name"), "purchase_order": buyer.get("purchase_order")}
    zone = document["period"]["timezone"]
    return [
        {**shared, **completed(line), **_reference(line), "price_validity": validity(line, zone) or None}
        for line in invoice.lines
    ]


def as_csv(invoice: Invoice) -> str:
    text = io.StringIO()
    write_csv(text, [COLUMNS, *([row.get(name) for name in COLUMNS] for row in line_rows(invoice))])
    return text.getvalue()


def _reference(line: Mapping[str, Any]) -> dict[str, Any]:
    found = line.get("reference") or {}
    return {f"reference_{name}": found.get(name) for name in ("invoice", "month")}
