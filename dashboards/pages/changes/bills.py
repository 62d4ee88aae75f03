"""From bill to bill: where one tenant's month is compared with another, why its bill is another.

The parts are those of billing/insights/bills.py. Loaded after the page, as a draft takes longer than a page may, and
depends on what all tenants held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from access.current import current
from billing.insights.bills import BillPart, bill_of, bill_parts
from billing.invoicing.documents import Invoice
from billing.lines import CORRECTION
from billing.periods import parse_month
from dashboards import exports, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import unbroken
from dashboards.languages import Language
from dashboards.periods import HOUR
from dashboards.registry import Ask
from warehouse.store import Store


def months_of(filters: Filters) -> tuple[str, str] | None:
    """The month before and the page's, like 2026-10; None: no two months, or not all that one tenant has in them."""
    names = [month.key for month in filters.months]
    now = filters.period.key if filters.period else ""
    if now not in names or set(filters.address.chosen) != {"tenant"} or not _tenant(filters):
        return None
    before = filters.more.get("against", "") or (names[names.index(now) - 1] if names.index(now) else "")
    return (before, now) if before in names and before != now else None


def _tenant(filters: Filters) -> str:
    """The one that is chosen; '': none, several, or not one that the reader sees."""
    chosen = filters.address.chosen.get("tenant", ())
    return chosen[0] if len(chosen) == 1 and current().sees(chosen[0]) else ""


def bills_card(filters: Filters, words: Language) -> Component | None:
    months = months_of(filters)
    if months is None:
        return None
    return parts.card(
        words("changes.bills"),
        words("changes.bills_is"),
        dcc.Store(id="changes-bills-asked", data=list(months)),
        dcc.Loading(html.Div(id="changes-bills", className="gl-later"), color=parts.SPINNING, delay_show=200),
        tool=exports.of_grid("changes-bills-grid", "bills", filters, words),
        class_name="gl-table-card",
    )


def bills(whole: Store, filters: Filters, words: Language) -> Component | None:
    """whole: sees all tenants, whoever asks."""
    months, tenant = months_of(filters), _tenant(filters)
    if months is None:
        return None
    before, now = (bill_of(whole, tenant, month) for month in months)
    if before is None or now is None or before.currency != now.currency:
        return states.nothing_here(words("changes.no_bills"))
    return html.Div([_documents(before, now, filters, words), _table(before, now, words)])


def _documents(before: Invoice, now: Invoice, filters: Filters, words: Language) -> Component:
    links = [
        dcc.Link(
            words("changes.issued", number=bill.number)
            if bill.number
            else words("changes.draft", month=_name(bill, words)),
            href=filters.href("/invoices", number=bill.number)
            if bill.number
            else filters.href("/invoices", month=bill.month, draft=bill.tenant),
        )
        for bill in (before, now)
    ]
    return html.P([links[0], " → ", links[1], *_gaps((before, now), filters, words)], className="gl-note")


def _gaps(bills: Sequence[Invoice], filters: Filters, words: Language) -> Iterator[str]:
    """Of which month hours are not closed: what is unknown of it is on no bill."""
    closed = {month.key: month.hours for month in filters.months}
    for bill in bills:
        month = parse_month(bill.month, filters.zone)
        hours = (month.end - month.start) // HOUR
        if closed[bill.month] < hours:
            of = {"closed": f"{closed[bill.month]:,}", "all": f"{hours:,}"}
            is_all = closed[bill.month] + filters.closed.empty(month.start, month.end) >= hours
            gap = "changes.bill_with_devices" if is_all else "changes.bill_partly"
            yield unbroken(f" · {words(gap, month=_name(bill, words), **of)}")


def _name(bill: Invoice, words: Language) -> str:
    return words.month(date.fromisoformat(f"{bill.month}-01"))


def _table(before: Invoice, now: Invoice, words: Language) -> Component:
    currency = now.currency
    columns = [
        grids.text("what", words("invoices.line"), minimum=150),
        grids.number("hours_before", words("changes.bill_hours", month=_name(before, words)), shape=",.2f", unknown=""),
        grids.number("hours", words("changes.bill_hours", month=_name(now, words)), shape=",.2f", unknown=""),
        grids.money("before", _name(before, words), currency),
        grids.money("now", _name(now, words), currency),
        grids.money("difference", words("changes.difference"), currency, words("changes.bill_difference_is"), "+"),
    ]
    rows = [_row(part, words) for part in bill_parts(before, now)]
    total = {
        "what": words("tenants.all"),
        "before": before.known_amount,
        "now": now.known_amount,
        "difference": None if before.is_incomplete or now.is_incomplete else now.amount - before.amount,
    }
    return grids.grid(columns, rows, words, "changes-bills-grid", total, spare=("hours_before", "hours"))


def _row(part: BillPart, words: Language) -> dict[str, Any]:
    name = words("changes.corrections") if part.kind == CORRECTION else words.of(f"line.{part.kind}", part.kind)
    return {
        "what": f"{name} {part.sku}".strip(),
        "hours_before": part.hours_before,
        "hours": part.hours,
        "before": part.before,
        "now": part.now,
        "difference": part.difference,
    }


def callbacks(app: Dash, ask: Ask) -> None:
    async def loaded(months: list[str] | None, search: str) -> Component | None:
        found: Component | None = await ask.of_all(bills, search) if months else None
        return found

    app.callback(Output("changes-bills", "children"), Input("changes-bills-asked", "data"), State("url", "search"))(
        loaded
    )
