"""One invoice or credit note: its lines, why a line says what it says, its files; crediting it or a line of it, making
it void, and issuing the next one in its place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from dash import dcc, html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from billing.invoicing.documents import Invoice
from billing.invoicing.explain import explain
from billing.invoicing.invoices import issued
from billing.money import minor_digits
from dashboards import exports, forms, grids, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, device_name, percent, unbroken, unit_price
from dashboards.languages import Language
from dashboards.pages.invoices.amounts import exact
from dashboards.pages.invoices.given_back import given_back_card
from dashboards.pages.invoices.line_words import described, holds, unit
from dashboards.parts import Figure
from dashboards.said import who
from warehouse.store import Store

FILES = ("pdf", "html", "csv", "json")
MOST = 2000
"""Rows of an explanation that are shown; the API has them all."""


def document_page(store: Store, filters: Filters, words: Language, number: str) -> Component:
    trail = [(words("invoices.title"), filters.href("/invoices"))]
    found = issued(store, number=number)
    if not found:
        return parts.page(
            parts.titles(filters, words, number, trail=trail), states.nothing_here(words("invoices.unknown"))
        )
    (one,) = found
    name = words.month(datetime.fromisoformat(f"{one.month}-01"))
    trail.append((name, filters.href("/invoices", month=one.month)))
    status = str(one.document["status"])
    why = (one.document.get("void") or {}).get("reason", "")
    chip = parts.chip(words.of(f"invoices.is_{status}", status), why, state="gl-warn" if one.is_void else "gl-good")
    line = _line_asked(one, filters)
    documents = issued(store, tenant=one.tenant)
    notes = [note for note in documents if note.document.get("references") == one.number]
    stands = _in_its_place(one, documents)
    return parts.page(
        parts.titles(
            filters,
            words,
            number,
            None if line else parts.ignored(filters, words, "line"),
            _credited(one, filters, words),
            chip,
            _files(number, words),
            trail=trail,
        ),
        _voided_note(one, stands, filters, words),
        _headline(one, notes, name, words),
        _lines_card(one, line, filters, words),
        given_back_card(one, filters, words),
        _explained(store, one, line, filters, words) if line else None,
        _credit_card(one, notes, line, filters, words),
        _void_card(one, stands, filters, words),
    )


def _in_its_place(one: Invoice, documents: Sequence[Invoice]) -> str | None:
    """The number of the invoice of its month that stands; None: there is none."""
    of_month = (other for other in documents if other.month == one.month)
    return next((other.number for other in of_month if not other.is_void and not other.is_credit_note), None)


def _voided_note(one: Invoice, stands: str | None, filters: Filters, words: Language) -> Component | None:
    """When, by whom and why it was made void, and what stands in its place."""
    void = one.document.get("void")
    if not void:
        return None
    at = words.dated(filters.local(datetime.fromisoformat(void["at"])))
    text = unbroken(words("invoices.voided", at=at, author=who(void["author"], words), reason=void["reason"]))
    if one.is_credit_note or stands is None:
        return html.P(text, className="gl-note")
    there = dcc.Link(stands, href=filters.href("/invoices", number=stands), className="gl-go")
    return html.P([text, words("part.break"), words("invoices.in_its_place"), " ", there], className="gl-note")


def _credited(one: Invoice, filters: Filters, words: Language) -> Component | None:
    """That it is a credit note, and on which invoice."""
    if not one.is_credit_note:
        return None
    on = str(one.document.get("references") or "")
    said = words("invoices.note_on", number=on) if on else words("invoices.credit_note")
    return parts.chip(said, href=filters.href("/invoices", number=on) if on else "", state="gl-info")


def _line_asked(one: Invoice, filters: Filters) -> int | None:
    text = filters.more.get("line", "")
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) and 1 <= int(text) <= len(one.lines) else None


def _files(number: str, words: Language) -> Component:
    address = f"/api/v1/invoices/{quote(number, safe='')}/file?format="
    return forms.links(words("invoices.files"), [(name.upper(), address + name, "") for name in FILES])


def _headline(one: Invoice, notes: Sequence[Invoice], month: str, words: Language) -> Component:
    totals, currency = one.totals, one.currency
    tenant = one.tenant or words("no_name")
    paid = totals.get("prepaid")
    prepaid = words("invoices.due_is")  # of a document that does not say how much
    if paid is not None:
        prepaid = words("invoices.prepaid", amount=exact(paid, currency)) if Decimal(paid) else ""
    figures = [
        Figure(words("filter.tenant"), tenant, "", month),
        Figure(words("invoices.net"), exact(totals.get("net"), currency), "", words("invoices.net_alone")),
        Figure(words("invoices.tax"), exact(totals.get("tax"), currency), "",
               tax_is(totals.get("net"), totals.get("tax"), words)),
        Figure(words("invoices.amount"), exact(totals["amount"], currency), "", words("invoices.amount_is")),
    ]  # fmt: skip
    if one.is_void:
        figures.append(Figure(words("invoices.due"), exact(Decimal(), currency), "", words("invoices.is_void")))
        return parts.headline(figures)
    due = " · ".join(filter(None, (_by(one, words), prepaid, _after(one, notes, words))))
    if not due and Decimal(totals.get("due") or 0) < 0:
        due = words("invoices.in_favor")
    figures.append(Figure(words("invoices.due"), exact(totals.get("due"), currency), "", due))
    payable = one.document.get("payable")
    if payable:
        said = words("invoices.payable_is", rate=payable["rate"] or UNKNOWN)
        figures.append(Figure(words("invoices.payable"), exact(payable.get("amount"), payable["currency"]), "", said))
    return parts.headline(figures)


def tax_is(net: Any, tax: Any, words: Language) -> str:
    """Which share of the net amount the tax is; '' where a document has no such amounts."""
    if net is None or tax is None or not Decimal(net):
        return ""
    return words("invoices.tax_is", rate=percent(abs(float(tax)), abs(float(net))))


def _after(one: Invoice, notes: Sequence[Invoice], words: Language) -> str:
    """What is left of the due amount once the credit notes on it are taken off; the document itself never changes."""
    standing = [Decimal(note.totals["amount"]) for note in notes if not note.is_void]
    if not standing or one.totals.get("due") is None:
        return ""
    return words("invoices.after_notes", amount=exact(Decimal(one.totals["due"]) + sum(standing), one.currency))


def _by(one: Invoice, words: Language) -> str:
    """Until when it is to be paid, where the document says so."""
    due = (one.document.get("parties") or {}).get("due_date")
    return words("invoices.due_by", day=words.day(datetime.fromisoformat(due))) if due else ""


def _lines_card(one: Invoice, chosen: int | None, filters: Filters, words: Language) -> Component:
    def href(number: int) -> str:
        return filters.href("/invoices", number=one.number, line=str(number))

    table = lines_table(one.document, words, "invoice-lines", href, chosen)
    title = f"{words('invoices.lines')} · {one.currency}"
    return parts.card(title, words("invoices.lines_is"), table, class_name="gl-table-card")


def lines_table(
    document: Mapping[str, Any],
    words: Language,
    id: str,
    href: Callable[[int], str] | None = None,
    chosen: int | None = None,
    currency: str = "",
) -> Component:
    """The lines of a document or a draft.   href: of a line, by its number.   currency: unless the card says it."""

    def priced(name: str) -> str:
        return words("invoices.in_currency", name=words(name), currency=currency) if currency else words(name)

    lines, totals, zone = document["lines"], document["totals"], document["period"]["timezone"]
    columns = [
        grids.wrapped(grids.link("what", words("invoices.line"), words("invoices.line_is"), 220, 220)),
        grids.text("kind", words("invoices.kind"), minimum=90),
        grids.text("project", words("filter.project"), minimum=90),
        grids.with_unit(grids.number("quantity", words("invoices.quantity"), shape=",.2f", unknown=""), "unit"),
        grids.not_on_cards(grids.text("unit", words("invoices.unit"), minimum=90)),
        grids.price("price", priced("invoices.price"), words("invoices.price_is")),
        grids.number("list_cost", priced("account.cost"), shape=",.2f"),
        grids.number("amount", priced("invoices.amount"), words("invoices.line_amount_is"), ",.2f"),
    ]
    rows = [
        {
            "what": f"{'▸ ' if number == chosen else ''}{number}. {_what(line, zone, words)}",
            "href": href(number) if href else "",
            "kind": words.of(f"line.{line.get('kind', 'usage')}", line.get("kind", "usage")),
            "project": line["project"],
            "unit": unit(line, words),
            **{name: _number(line.get(key)) for name, key in _NUMBERS.items()},
            "price_text": _price(line.get("contracted_unit_price")),
        }
        for number, line in enumerate(lines, 1)
    ]
    own = [line for line in lines if line.get("charge_class") != "Correction"]  # quantities of the document's period
    total_of = words("tenants.all" if len(own) == len(lines) else "invoices.total_corrected")
    total = {"what": total_of, "amount": _number(totals["amount"]), "price_text": ""}
    if own and all(line.get("list_cost") for line in own):
        total["list_cost"] = _number(str(sum(Decimal(line["list_cost"]) for line in own)))
    measured = [line for line in own if line.get("quantity") is not None]
    if len({line["unit"] for line in measured}) == 1:
        total["quantity"] = _number(str(sum(Decimal(line["quantity"]) for line in measured)))
        total["unit"] = unit(measured[0], words)
    may_lack = ("project", "quantity", "unit", "price", "list_cost")
    shown = grids.filled(columns, rows, may_lack)  # as of a credit note
    return grids.grid(shown, rows, words, id, total, spare=("kind", "list_cost"))


def _what(line: Mapping[str, Any], zone: str, words: Language) -> str:
    """What the line is about, and when its price holds."""
    return words("line_said.comma").join(filter(None, (described(line, words), holds(line, zone, words))))


_NUMBERS = {
    "quantity": "quantity",
    "price": "contracted_unit_price",
    "list_cost": "list_cost",
    "amount": "amount",
}


def _price(text: str | None) -> str:
    return UNKNOWN if text is None else unit_price(Decimal(text), "")


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)


def _explained(store: Store, one: Invoice, number: int, filters: Filters, words: Language) -> Component:
    """The rule, and the entries or lines that it was applied to."""
    by_hour = filters.more.get("by") == "hour"
    found = explain(store, one, number, by_hour)
    kind = "correction" if found.line.get("charge_class") == "Correction" else found.line.get("kind", "usage")
    is_usage = kind == "usage"
    is_change = "due_gpu_hours" in (found.rows[0] if found.rows else ())
    shown = _changed if is_change else _shown if is_usage else _of_line
    rows = [shown(row, filters, words) for row in found.rows[:MOST]]
    columns = (
        _change_columns(by_hour, words)
        if is_change
        else _usage_columns(by_hour, words)
        if is_usage
        else _line_columns(words)
    )
    said = words("invoices.why_is", card=found.rate_card, rows=words.rows(len(rows), len(found.rows)))
    choices = [("", "allocation"), ("hour", "hour")] if is_usage or is_change else []
    chooser = html.Ul(
        [
            html.Li(
                html.A(
                    words(f"invoices.by_{name}"),
                    href=filters.href("/invoices", number=one.number, line=str(number), by=key or None),
                    className="gl-choice gl-go",
                ),
                **({"aria-current": "true"} if by_hour == bool(key) else {}),
            )
            for key, name in choices
        ],
        className="gl-choices",
    )
    return parts.card(
        f"{words('invoices.why', line=number)} · {one.currency}",
        said,
        html.P(unbroken(words.of(f"formula.{kind}", found.formula)), className="gl-formula"),
        html.Pre("\n".join(json.dumps(rule, ensure_ascii=False) for rule in found.rules), className="gl-written")
        if found.rules
        else None,
        grids.grid(_without_repeats(columns, rows), rows, words, "invoice-explained"),
        tool=parts.tools(
            chooser if choices else None,
            exports.of_grid("invoice-explained", f"{one.number}-line-{number}", filters, words),
        ),
        class_name="gl-table-card",
        id="why",
    )


def _without_repeats(columns: Sequence[grids.Column], rows: Sequence[Mapping[str, Any]]) -> list[grids.Column]:
    """On cards without the allocation, if each is called as its workload."""
    same = all(row.get("allocation") == row.get("workload") for row in rows)
    return [grids.not_on_cards(one) if same and one["field"] == "allocation" else one for one in columns]


def _usage_columns(by_hour: bool, words: Language) -> list[grids.Column]:
    devices = (
        []
        if by_hour
        else [grids.number("devices", words("workload.devices"), words("workload.devices_is"), ",d", minimum=78)]
    )
    return [
        *_workload_columns(by_hour, words),
        *devices,
        grids.use_bar(words("tenants.use_bar"), words("tenants.use_bar_is")),
        grids.number("allocated", words("workload.quantity"), shape=",.2f"),
        grids.number("billed_cost", words("tenants.billed"), words("tenants.billed_is"), ",.2f"),
    ]


def _change_columns(by_hour: bool, words: Language) -> list[grids.Column]:
    return [
        *_workload_columns(by_hour, words),
        grids.number("billed", words("invoices.was_billed"), shape=",.2f"),
        grids.number("due", words("invoices.is_due"), shape=",.2f"),
        grids.number("cost", words("invoices.amount"), shape=",.2f"),
    ]


def _workload_columns(by_hour: bool, words: Language) -> list[grids.Column]:
    """The columns that say which workload's entries a row is of, and when."""
    times = (
        [
            grids.moment("hour", words("workload.hour")),
            grids.device_link("device", words("fleet.device"), to="of_device"),
        ]
        if by_hour
        else (grids.moment("from", words("fleet.from")), grids.moment("to", words("fleet.until")))
    )
    return [
        grids.link("workload", words("workload.name"), minimum=150),
        grids.text("allocation", words("invoices.allocation"), minimum=110),
        *times,
    ]


def _changed(row: Mapping[str, Any], filters: Filters, words: Language) -> dict[str, Any]:
    amounts = {"billed": row["billed_gpu_hours"], "due": row["due_gpu_hours"], "cost": row["cost"]}
    return {**_of_workload(row, filters), **{name: _number(value) for name, value in amounts.items()}}


def _shown(row: Mapping[str, Any], filters: Filters, words: Language) -> dict[str, Any]:
    hours = {name: float(row[f"{name}_gpu_hours"]) for name in ("allocated", "used", "idle", "unmetered")}
    return {
        **_of_workload(row, filters),
        **{name: row[name] for name in ("devices", "billed_cost") if name in row},
        **hours,
        "use": hours["used"] / hours["allocated"] if hours["allocated"] else None,
    }


def _of_workload(row: Mapping[str, Any], filters: Filters) -> dict[str, Any]:
    at = {name: row[name] for name in ("from", "to")}
    if "hour" in row:
        at["hour"] = datetime.fromisoformat(row["hour"]).replace(tzinfo=UTC)
    device = row.get("device", "")
    named = {"device_text": device_name(device), "of_device": filters.href("/fleet", device=device, period=None)}
    return {
        **{name: row[name] for name in ("workload", "allocation", "device") if name in row},
        **(named if device else {}),
        "href": filters.href("/workloads", workload=row["workload"], period=None),
        **{name: filters.local(moment) for name, moment in at.items()},
    }


def _line_columns(words: Language) -> list[grids.Column]:
    return [
        grids.text("what", words("invoices.line"), minimum=200, flex=2),
        grids.text("kind", words("invoices.kind")),
        grids.number("amount", words("invoices.amount"), shape=",.2f"),
    ]


def _of_line(row: Mapping[str, Any], filters: Filters, words: Language) -> dict[str, Any]:
    kind = row.get("kind", "usage")
    return {
        "what": f"{row['line']}. {described(row, words)}",
        "kind": words.of(f"line.{kind}", kind),
        "amount": _number(row["amount"]),
    }


def _credit_card(
    one: Invoice, notes: Sequence[Invoice], line: int | None, filters: Filters, words: Language
) -> Component | None:
    """Credit notes on it, and a form for another where one may be given; of the line that is chosen, if one is."""
    may = current().may(Action.issue) and not one.is_void and not one.is_credit_note
    if not may and not notes:
        return None
    heads = [words(f"invoices.{name}") for name in ("number", "status", "amount")]
    cells = [
        [
            html.A(note.number, href=filters.href("/invoices", number=note.number), className="gl-go"),
            words.of(f"invoices.is_{note.document['status']}", str(note.document["status"])),
            exact(Decimal(note.totals["amount"]), note.currency),
        ]
        for note in notes
    ]
    amount, reason = _of_the_line(one, line, words) if line else ("", "")
    form = forms.form(
        f"POST /invoices/{quote(str(one.number), safe='')}/credit",
        words("invoices.credit_line", line=line) if amount else words("invoices.credit"),
        words,
        forms.field(
            "amount", words("invoices.credit_amount", currency=one.currency), amount, hint="25.00", required=True
        ),
        forms.field("reason", words("invoices.reason"), reason, required=True),
    )
    return parts.card(
        words("invoices.credits"),
        words("invoices.credits_is"),
        parts.table(heads, cells) if cells else None,
        form if may else None,
        id="credit",
    )


def _of_the_line(one: Invoice, number: int, words: Language) -> tuple[str, str]:
    """Amount and reason that the form begins with; of a tax, or of a line in the tenant's favour: nothing."""
    line = one.lines[number - 1]
    amount = Decimal(line["amount"] or 0)
    if amount <= 0 or line.get("kind") == "tax":
        return "", ""
    what = described(line, words)
    return f"{amount:.{minor_digits(one.currency)}f}", words("invoices.line_reason", line=number, what=what)


def _void_card(one: Invoice, stands: str | None, filters: Filters, words: Language) -> Component | None:
    """Making it void; and once it is, issuing the month's next one, where none stands in its place."""
    if not current().may(Action.issue):
        return None
    if not one.is_void:
        form = forms.form(
            f"POST /invoices/{quote(str(one.number), safe='')}/void",
            words("invoices.void", number=one.number),
            words,
            forms.field("reason", words("invoices.reason"), required=True),
            note=words("invoices.void_note"),
            small=True,
        )
        what = "voiding_note_is" if one.is_credit_note else "voiding_is"
        return parts.card(words("invoices.voiding"), words(f"invoices.{what}"), form)
    if one.is_credit_note or stands:
        return None
    again = forms.form(
        "POST /invoices",
        words("invoices.again_for", tenant=one.tenant),
        words,
        body={"month": one.month, "tenant": one.tenant},
        then=_to_number(filters),
    )
    return parts.card(words("invoices.again"), words("invoices.again_is"), again)


def _to_number(filters: Filters) -> str:
    """Where the form leads: the document that was issued, as the answer names it."""
    address = filters.href("/invoices")
    return f"{address}{'&' if '?' in address else '?'}number={{number}}"
