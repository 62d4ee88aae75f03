"""What idle policies gave back in an invoice's month: a card of its document, where that has any."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from dash.development.base_component import Component

from billing.invoicing.documents import Invoice
from dashboards import grids, parts
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed
from dashboards.languages import Language
from dashboards.said import said


def given_back_card(one: Invoice, filters: Filters, words: Language) -> Component | None:
    """A row for each reclaim, and what of it is an upper bound."""
    section = one.document.get("idle_reclaims")
    if not section:
        return None
    columns = [
        grids.link("workload", words("workload.name"), minimum=150),
        grids.text("act", words("invoices.given_back_act"), minimum=90),
        grids.moment("at", words("fleet.from"), minimum=140),
        grids.moment("until", words("invoices.given_back_until"), minimum=140),
        grids.sentence("why", words("invoices.given_back_why"), minimum=110, flex=110),
        grids.sentence("evidence", words("invoices.given_back_evidence"), minimum=140, flex=140),
        grids.number("gpus", words("invoices.gpus"), shape=",.2~f", minimum=70),
        grids.number("hours", words("workload.quantity"), shape=",.2f"),
        grids.number("cost", words("invoices.given_back_cost"), words("invoices.given_back_cost_is"), ",.2f"),
    ]
    rows = [_row(reclaim, filters, words) for reclaim in section["reclaims"]]
    total = {"workload": words("tenants.all"), **_sums(section)}
    return parts.card(
        f"{words('invoices.given_back')} · {one.currency}",
        words("invoices.given_back_is"),
        grids.grid(columns, rows, words, "invoice-given-back", total, spare=("evidence", "at")),
        *[parts.note(note) for note in _notes(section, one.currency, words)],
        class_name="gl-table-card",
    )


def _row(reclaim: Mapping[str, Any], filters: Filters, words: Language) -> dict[str, Any]:
    at, until = (filters.local(datetime.fromisoformat(reclaim[name])) for name in ("at", "until"))
    act, why = reclaim["act"], reclaim["until_because"]
    return {
        "workload": reclaim["workload"],
        "href": filters.href("/workloads", workload=_page_of(reclaim), period=None),
        "act": words.of(f"invoices.act_{act}", act),
        "why": words.of(f"invoices.end_{why}", why),
        "evidence": said(reclaim["evidence"], filters, words),
        "gpus": float(reclaim["gpus"]),
        **grids.dated("at", at, words),
        **grids.dated("until", until, words),
        **_sums(reclaim),
    }


def _page_of(reclaim: Mapping[str, Any]) -> str:
    """The workload that has a page: of a job under the Kubernetes operator, a pod that was taken."""
    return str(next(iter(reclaim.get("pods", ())), reclaim["workload"]))


def _notes(section: Mapping[str, Any], currency: str, words: Language) -> list[str]:
    notes, unpriced = [], Decimal(section["unpriced_gpu_hours"])
    if at_most := section["at_most"]:
        cost = UNKNOWN if at_most["cost"] is None else f"{Decimal(at_most['cost']):,.2f} {currency}"
        notes.append(words("invoices.given_back_at_most", hours=f"{Decimal(at_most['gpu_hours']):,.2f}", cost=cost))
    if unpriced:
        notes.append(words("invoices.given_back_unpriced", hours=fixed(unpriced, 2)))
    return notes


def _sums(of: Mapping[str, Any]) -> dict[str, float | None]:
    return {"hours": float(of["gpu_hours"]), "cost": None if of["cost"] is None else float(of["cost"])}
