"""`gpuledger invoice`: draft, issue, show and list invoices and statements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.output import percent, print_json, print_rows, say
from warehouse.errors import LedgerError
from warehouse.printable import grouped
from warehouse.store import Store

if TYPE_CHECKING:
    from billing.documents.statement import Statement
    from billing.invoicing.documents import Invoice
    from billing.periods import Period

invoice = typer.Typer(no_args_is_help=True)


class InvoiceFormat(StrEnum):
    table = "table"
    json = "json"
    csv = "csv"
    html = "html"
    pdf = "pdf"


Month = Annotated[str, typer.Option("--period", help="A month in the billing time zone, like 2026-10.")]
Tenant = options.OneTenant
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="A folder to write to: html, json, csv and pdf, or the --format asked for.",
        file_okay=False,
        writable=True,
    ),
]
Fmt = Annotated[InvoiceFormat, typer.Option("--format", help="How to print the answer.")]


def register(app: typer.Typer) -> None:
    app.add_typer(invoice, name="invoice", help="Draft, issue, show and list invoices.")


@invoice.command("draft")
def draft(
    period: Month,
    tenant: Tenant = None,
    store: options.Store = "",
    fmt: Fmt = InvoiceFormat.table,
    out: Out = None,
) -> None:
    """Drafts from the ledger as it stands now; changes nothing."""
    from billing.closed import closed_period
    from billing.invoicing.drafts import draft_all

    with opened_store(store) as opened:
        month = month_of(opened, period)
        drafts = draft_all(opened, month, tenant)
        missing = list(_missing(opened, month)) if tenant is None else []
        is_closed = bool(drafts) or closed_period(opened) is not None
    if not is_closed:
        say("nothing is closed yet. Next: gpuledger close")
    elif not drafts:
        say(f"no allocations in the closed hours of {period}")
    for line in missing:
        say(line)
    _answer(drafts, fmt, out)


@invoice.command("issue")
def issue(
    period: Month,
    tenant: Tenant = None,
    author: options.Author = "",
    store: options.Store = "",
    fmt: Fmt = InvoiceFormat.table,
    out: Out = None,
) -> None:
    """Number a closed month's invoices and store them permanently; issued ones do not change."""
    from billing.invoicing.invoices import issue_all, issued, standing

    with open_books(store, author) as books:
        month = month_of(books.store, period)
        before = {done.number for done in standing(books.store, month, tenant)}
        if books.server:
            numbers = {head.number for head in books.server.issue(period, tenant)}
            invoices = [one for one in issued(books.store, month, tenant) if one.number in numbers]
        else:
            invoices = issue_all(books.store, month, books.now, tenant, books.author)
        unnamed = _without_tenant(books.store, month) if tenant is None else Decimal(0)
        missing = list(_missing(books.store, month)) if tenant is None else []
    fresh = [one for one in invoices if one.number not in before]
    known = len(invoices) - len(fresh)
    already = f", {known} {'was' if known == 1 else 'were'} issued already" if known else ""
    say(f"{period}: {len(fresh)} invoice{'' if len(fresh) == 1 else 's'} issued{already}")
    if unnamed:
        say(f"{unnamed:,.2f} GPU-hours belong to no tenant and are on no invoice (gpuledger ledger --by project,queue)")
    for line in missing:
        say(line)
    _answer(invoices, fmt, out)


@invoice.command("show")
def show(
    number: Annotated[str, typer.Argument(help="An invoice's number; or use --period and --tenant.")] = "",
    period: Month = "",
    tenant: Tenant = None,
    store: options.Store = "",
    fmt: Fmt = InvoiceFormat.table,
    out: Out = None,
) -> None:
    """Issued invoices, as they were stored."""
    if not (number or period or tenant is not None):
        raise LedgerError("invoice show", "say which one", "Give a number, --period or --tenant (see: invoice list)")
    found = _issued(store, period, tenant, number)
    if not found:
        raise LedgerError("invoice show", "no such invoice", "See: gpuledger invoice list")
    _answer(found, fmt, out)


@invoice.command("list")
def list_(
    period: Month = "",
    tenant: Tenant = None,
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Issued invoices, in the order of their numbers; a table has the newest first."""
    found = _issued(store, period, tenant)
    if not found and fmt is options.Format.table:
        say("no invoices yet. Next: gpuledger invoice issue --period MONTH")
        return
    rows = [
        {
            "number": one.number,
            "tenant": one.tenant,
            "period": one.month,
            "total": one.amount,
            "currency": one.currency,
            "status": "credit note" if one.is_credit_note else one.document["status"],
            "issued_at": one.document["issued_at"][:16].replace("T", " ") + "Z"
            if fmt is options.Format.table
            else one.document["issued_at"],
        }
        for one in (reversed(found) if fmt is options.Format.table else found)
    ]
    print_rows(rows, ("number", "tenant", "period", "total", "currency", "status", "issued_at"), fmt)


@invoice.command("statement")
def statement(
    period: Month,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.", show_default="all, and the platform")] = None,
    store: options.Store = "",
    fmt: Fmt = InvoiceFormat.table,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="A folder to write to: html, json and pdf, or the --format.", file_okay=False, writable=True
        ),
    ] = None,
) -> None:
    """A month by day and workload, and the platform's own time by pool; changes nothing."""
    from billing.documents.invoice_files import RENDER_STATEMENT, STATEMENT_FORMATS, write_statement
    from billing.documents.statement import platform_statement, tenant_statements

    if fmt is InvoiceFormat.csv:
        raise LedgerError("--format csv", "a statement is no table of lines", "Choose table, json, html or pdf")
    with opened_store(store) as opened:
        month = month_of(opened, period)
        found = tenant_statements(opened, month, tenant)
        if tenant is None:
            found.append(platform_statement(opened, month))
    if out is not None:
        formats = STATEMENT_FORMATS if fmt is InvoiceFormat.table else (fmt.value,)
        say(f"{grouped(sum(len(write_statement(one, out, formats)) for one in found), 'file')} in {out}")
    elif fmt is InvoiceFormat.json:
        print_json([one.document for one in found])
    elif fmt is InvoiceFormat.table:
        for one in found:
            _print_statement(one, len(found) > 1)
    elif len(found) != 1:
        raise LedgerError(
            f"--format {fmt}", f"{len(found)} statements are not one document", "Add --tenant, or --out DIR"
        )
    else:
        typer.echo(RENDER_STATEMENT[fmt.value](found[0]), nl=fmt is InvoiceFormat.html)


def _issued(store: str, period: str, tenant: str | None, number: str = "") -> list[Invoice]:
    from billing.invoicing.invoices import issued

    with opened_store(store) as opened:
        return issued(opened, month_of(opened, period) if period else None, tenant, number)


def month_of(store: Store, text: str) -> Period:
    from billing.ledger_report import billing_timezone
    from billing.periods import parse_month

    return parse_month(text, billing_timezone(store))


def _without_tenant(store: Store, month: Period) -> Decimal:
    from billing.ledger_report import ledger_report

    rows = ledger_report(store, month, ["tenant"]).rows
    return sum((row["allocated_gpu_hours"] for row in rows if row["tenant"] == ""), Decimal(0))


def _missing(store: Store, month: Period) -> Iterator[str]:
    """A line for each kind of facts that the month's invoices lack, or may lack."""
    from billing.refused import refused_in, unread_rows

    if claims := refused_in(store, month):
        are = "was refused and is" if claims == 1 else "were refused and are"
        yield f"{grouped(claims, 'claim')} of the month {are} on no invoice (gpuledger doctor shows why)"
    if unread := unread_rows(store, month):
        are = "is in the quarantine and may be" if unread == 1 else "are in the quarantine and may be"
        since = f"{month.start:%Y-%m-%dT%H:%MZ}"
        yield f"{grouped(unread, 'row')} that arrived since {since} {are} of the month (gpuledger doctor shows them)"


def _answer(invoices: Sequence[Invoice], fmt: InvoiceFormat, out: Path | None) -> None:
    from billing.documents.invoice_files import COLUMNS, FORMATS, RENDER, line_rows, write_invoice

    if out is not None:
        formats = FORMATS if fmt is InvoiceFormat.table else (fmt.value,)
        paths = [path for one in invoices for path in write_invoice(one, out, formats)]
        say(f"{grouped(len(paths), 'file')} in {out}")
    elif fmt in (InvoiceFormat.html, InvoiceFormat.pdf):
        if len(invoices) != 1:
            raise LedgerError(
                f"--format {fmt}", f"{len(invoices)} invoices are not one document", "Add --tenant, or --out DIR"
            )
        typer.echo(RENDER[fmt.value](invoices[0]), nl=fmt is InvoiceFormat.html)
        return
    if fmt is InvoiceFormat.json and out is None:
        print_json([one.document for one in invoices])
    elif fmt is InvoiceFormat.csv and out is None:
        print_rows([row for one in invoices for row in line_rows(one)], COLUMNS, options.Format.csv)
    elif fmt is InvoiceFormat.table:
        for one in invoices:
            print_table(one, len(invoices) > 1)


_WORKLOAD = {
    "workload": "workload", "project": "project", "GPU-hours": "allocated_gpu_hours", "used": "used_gpu_hours",
    "idle": "idle_gpu_hours", "unmetered": "unmetered_gpu_hours", "efficiency": "efficiency", "cost": "billed_cost",
}  # fmt: skip
_POOL = {
    "pool": "pool", "GPU-hours": "capacity_gpu_hours", "allocated": "allocated_gpu_hours",
    "unallocated": "unallocated_gpu_hours", "cost": "unallocated_cost", "shared": "shared",
    "unavailable": "unavailable_gpu_hours",
}  # fmt: skip


def _print_statement(one: Statement, among_others: bool) -> None:
    document = one.document
    kind = "pools" if one.is_platform else "workloads"
    shown = _POOL if one.is_platform else _WORKLOAD
    rows = [{name: _shown(key, row[key]) for name, key in shown.items()} for row in document[kind]]
    columns = tuple(shown)
    name = "platform" if one.is_platform else one.tenant or "(no tenant)"
    print_rows(rows, columns, options.Format.table, f"{name}  {one.month}  {document['currency']}")
    _print_given_back(document, name)
    _say_notes(document["notes"], name if among_others else "")


def _print_given_back(document: Mapping[str, Any], name: str) -> None:
    """The hours that idle policies gave back, where the document has any."""
    section = document.get("idle_reclaims")
    if not section:
        return
    rows = [
        {
            "workload": one["workload"],
            "what": f"{one['act']} {_minute(one['at'])}",
            "counted until": _minute(one["until"]),
            "because": one["until_because"].replace("_", " "),
            "GPUs": round(Decimal(one["gpus"]), 3).normalize(),
            "GPU-hours": _figure(one["gpu_hours"]),
            "cost": _figure(one["cost"]),
        }
        for one in section["reclaims"]
    ]
    sums = [{"workload": "total", **_hours_and_cost(section)}]
    if section["at_most"]:
        sums.append({"workload": "at most", **_hours_and_cost(section["at_most"])})
    title = f"given back by idle policies  {name}  (in no amount)"
    columns = ("workload", "what", "counted until", "because", "GPUs", "GPU-hours", "cost")
    print_rows(rows, columns, options.Format.table, title, totals=sums)
    unpriced = Decimal(section["unpriced_gpu_hours"])
    if unpriced:
        say(f"{unpriced:,.2f} GPU-hours given back have no price and are in no cost")


def _hours_and_cost(of: Mapping[str, Any]) -> dict[str, Decimal | None]:
    return {"GPU-hours": _figure(of["gpu_hours"]), "cost": _figure(of["cost"])}


def _minute(instant: str) -> str:
    return f"{instant[:16].replace('T', ' ')}Z"


def _say_notes(notes: Sequence[str], name: str) -> None:
    """name: before each note, if several documents are printed: tables may be redirected, notes not."""
    for note in notes:
        say(f"{name}: {note}" if name else note)


def _shown(key: str, value: str | None) -> str | Decimal | None:
    if key == "efficiency":
        return percent(None if value is None else Decimal(value))
    return value if key in ("pool", "workload", "project") else _figure(value)


def _figure(value: str | None) -> Decimal | None:
    return None if value is None else round(Decimal(value), 2)


def print_table(one: Invoice, among_others: bool) -> None:
    from billing.documents.page import page_of, validity

    head = one.number or "draft"
    kind = " credit note" if one.is_credit_note else ""
    state = " VOID" if one.is_void else ""
    name = one.tenant or "(no tenant)"
    title = f"{head}{kind}{state}  {name}  {one.month}  {one.currency}"
    zone = one.document["period"]["timezone"]
    rows = [_for_people(line, validity(line, zone)) for line in one.lines]
    totals = [(name, one.totals[name]) for name in ("net", "tax") if Decimal(one.totals.get("tax", "0"))]
    sums: list[dict[str, Any]] = [{"what": name, "amount": Decimal(amount)} for name, amount in totals]
    sums.append({**_for_people({**one.totals, "kind": "usage"}), "what": "total"})
    if Decimal(one.totals.get("prepaid", "0")):
        sums.append({"what": "prepaid", "amount": -Decimal(one.totals["prepaid"])})
        sums.append({"what": "due", "amount": Decimal(one.totals["due"])})
    if payable := one.document.get("payable"):
        sums.append({"what": f"payable in {payable['currency']}", "amount": _decimal(payable["amount"])})
    if one.is_incomplete:  # its notes say what has no price
        amounts = {} if one.known_amount is not None else {"amount": None}
        sums = [{**row, "what": f"{row['what']} (incomplete)", **amounts} for row in sums]
    columns = ("#", "project", "what", "GPU-hours", "used", "idle", "unmetered", "price", "amount")
    print_rows(rows, columns, options.Format.table, title, totals=sums)
    _print_given_back(one.document, name)
    _say_notes(one.document["notes"], name if among_others else "")
    page = page_of(one)
    if one.document.get("parties"):
        say(f"{page.issuer['name']} to {', '.join((page.tenant, *page.tenant_address))}")
    for fact in page.payment:
        say(f"{fact.label}: {fact.text}{f' ({fact.more})' if fact.more else ''}")


def _for_people(line: Mapping[str, Any], price_holds: str = "") -> dict[str, Any]:
    usage = line.get("kind", "usage") == "usage" and line.get("allocated_gpu_hours") is not None
    hours = {kind: round(Decimal(line[f"{kind}_gpu_hours"]), 2) for kind in _SHOWN} if usage else {}
    if not usage and line.get("unit") == "GPU-hours" and line["quantity"] is not None:
        hours = {"allocated": round(Decimal(line["quantity"]), 2)}
    price = _decimal(line.get("contracted_unit_price"))
    named = line.get("description") or line.get("sku") or ("(no rate)" if "line" in line else "")
    what = ", ".join(filter(None, (named, price_holds)))
    return {
        "#": line.get("line"),
        "project": line.get("project"),
        "what": f"correction, {what}" if line.get("charge_class") else what,
        "GPU-hours": hours.pop("allocated", None),
        **hours,
        "price": None if price is None else price.normalize(),
        "amount": _decimal(line["amount"]),
    }


_SHOWN = ("allocated", "used", "idle", "unmetered")


def _decimal(value: str | None) -> Decimal | None:
    return None if value is None else Decimal(value)
