"""`gpuledger invoice void|credit|explain|verify|platform|months` and `gpuledger audit`: issued invoices, their
corrections, and who did what."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.commands.invoice import Month, Tenant, invoice, month_of
from gpuledger.output import print_json, print_rows, say
from warehouse.errors import LedgerError
from warehouse.printable import grouped
from warehouse.store import Store

if TYPE_CHECKING:
    from billing.invoicing.documents import Invoice
    from billing.invoicing.explain import Explanation
    from gpuledger import documents

Number = Annotated[str, typer.Argument(help="An invoice's number (see: invoice list).")]
Reason = Annotated[str, typer.Option(help="The reason, for the document and the audit.")]


def register(app: typer.Typer) -> None:
    invoice.command("void")(void)
    invoice.command("credit")(credit)
    invoice.command("explain")(explain)
    invoice.command("verify")(verify)
    invoice.command("platform")(platform)
    invoice.command("months")(months)
    app.command("audit")(audit)


def void(number: Number, reason: Reason = "", author: options.Author = "", store: options.Store = "") -> None:
    """Void an issued invoice; its number stays assigned, and the month can be issued again."""
    from billing.invoicing import invoices
    from billing.invoicing.documents import Invoice

    with open_books(store, author) as books:
        if books.server:
            gone = Invoice(books.server.void(number, reason).model_dump())
        else:
            gone = invoices.void(books.store, number, books.now, books.author, reason)
    why = gone.document["void"]
    say(f"{number} is void since {why['at']}, by {why['author']}: {why['reason']}")
    say(f"next: gpuledger invoice issue --period {gone.month} --tenant {gone.tenant}")


def credit(
    number: Number,
    amount: Annotated[str, typer.Option(help="Net, in the invoice's currency, such as 25.00.")],
    reason: Reason = "",
    author: options.Author = "",
    store: options.Store = "",
) -> None:
    """Issue a credit note on an issued invoice, with the taxes on the amount."""
    from billing.accounts.credits import parse_amount
    from billing.invoicing import invoices
    from billing.invoicing.documents import Invoice

    given = parse_amount(amount, "--amount")
    with open_books(store, author) as books:
        if books.server:
            note = Invoice(books.server.credit(number, str(given), reason).model_dump())
        else:
            note = invoices.credit(books.store, number, given, books.now, books.author, reason)
    say(f"{note.number}: {-note.amount} {note.currency} to {note.tenant}'s credit on {number}")


def explain(
    line: Annotated[int, typer.Argument(help="The number of a line, from 1.")],
    number: Annotated[str, typer.Option(help="An issued invoice's number; or use --period and --tenant.")] = "",
    period: Month = "",
    tenant: Tenant = None,
    by_hour: Annotated[bool, typer.Option("--by-hour", help="Include hours and devices.")] = False,
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Explain a line: its rule, and the allocations and hours behind it."""
    from billing.invoicing.explain import explain as explained

    with opened_store(store) as opened:
        found = explained(opened, _which(opened, number, period, tenant), line, by_hour)
    if fmt is options.Format.json:
        print_json(vars(found))
    elif fmt is options.Format.csv:
        print_rows(found.rows, list(found.rows[0]) if found.rows else (), fmt)
    else:
        _print_explanation(found)


def verify(number: Number, store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """Compute an issued invoice again from the raw facts of its time, and walk the chain of the documents; exit 1 if it
    comes out otherwise, if a document does not fit the chain, or if its facts were removed."""
    from billing.invoicing.rederive import Rederived, rederive

    answer: Rederived | documents.InvoiceProof
    with open_books(store) as books:
        answer = books.server.invoice_proof(number) if books.server else rederive(books.store, number)
    rows, failures = [dict(vars(one)) for one in answer.differences], answer.chain_failures
    if fmt is not options.Format.table:
        print_rows(rows, ("where", "stored", "computed"), fmt)
    elif rows:
        shown = [{name: _abridged(value) for name, value in row.items()} for row in rows]
        print_rows(shown, ("where", "stored", "computed"), fmt, f"{number} differs from the facts")
    for failure in failures[:1]:
        say(f"{failure} ({grouped(len(failures), 'check')} failed)")
    if rows:
        say("the facts say otherwise: issue a correction with the next month, or void it and issue it again")
    elif answer.unknown:
        say(f"{number} cannot be computed again: {answer.unknown}")
    elif answer.is_credit_note:
        say(f"{number} is a credit note, given by hand; see: gpuledger audit")
    else:
        hours = grouped(answer.hours, "hour")
        say(f"{number} follows from the facts ingested until {answer.cutoff:%Y-%m-%d %H:%M:%S}Z ({hours})")
    if not rows and not failures:
        say(f"the documents' chain is whole; {number} has the digest {answer.digest}")
    if not answer.same:
        raise typer.Exit(1)


def platform(period: Month, store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The cost of a month's unallocated time, by pool, and who pays it."""
    from billing.invoicing.month import platform_costs
    from billing.rates import current_rate_card

    with opened_store(store) as opened:
        costs = platform_costs(opened, month_of(opened, period))
        applied = current_rate_card(opened)
    rows: list[dict[str, Any]] = [
        {
            "pool": cost.pool,
            "policy": cost.share,
            "unallocated_gpu_hours": cost.unallocated_gpu_hours,
            "unpriced_gpu_hours": cost.unpriced_gpu_hours,
            "cost": cost.unallocated,
            "shared": cost.unallocated - cost.kept,
            "kept": cost.kept,
        }
        for cost in costs
    ]
    if not rows and fmt is options.Format.table:
        say(f"nothing was unallocated in the closed hours of {period}, or no rate card is in force")
        return
    columns = ("pool", "policy", "unallocated_gpu_hours", "unpriced_gpu_hours", "cost", "shared", "kept")
    if fmt is options.Format.table:
        for row in rows:
            row |= {name: round(row[name], 2) for name in ("unallocated_gpu_hours", "unpriced_gpu_hours")}
    print_rows(rows, columns, fmt, f"{period}, GPU-hours and {applied.card.currency}" if applied else "")


def months(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The state of each month: open, closing, closed, partly issued or issued; and to how many tenants of how many."""
    from billing.invoicing.month_states import month_states

    with opened_store(store) as opened:
        found = month_states(opened, datetime.now(UTC))
    rows = [
        {"month": one.name, "state": one.state.value, "closes_at": one.closes_at, "invoices": one.invoices,
         "tenants": one.tenants}
        for one in found
    ]  # fmt: skip
    if not rows and fmt is options.Format.table:
        say("nothing is closed yet. Next: gpuledger close")
        return
    print_rows(rows, ("month", "state", "closes_at", "invoices", "tenants"), fmt)


def audit(
    action: Annotated[
        str, typer.Option(help="Only this kind, such as rates or invoice.void.", show_default="all")
    ] = "",
    what: Annotated[
        str, typer.Option("--object", help="Only this object: a number, a version.", show_default="all")
    ] = "",
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Who applied, issued, credited or voided what, when, why and from which inputs; a table has the newest first."""
    from billing.audit import history

    with opened_store(store) as opened:
        rows = history(opened, action, what)
    if not rows and fmt is options.Format.table:
        say("nothing yet")
        return
    for row in rows:
        row["inputs"] = json.loads(row["inputs"]) if fmt is options.Format.json else row["inputs"]
    shown = rows[::-1] if fmt is options.Format.table else rows  # a table is cut after --limit rows
    print_rows(shown, ("at", "actor", "action", "object", "reason", "inputs"), fmt)


def _which(store: Store, number: str, period: str, tenant: str | None) -> Invoice:
    from billing.invoicing.drafts import draft_all
    from billing.invoicing.invoices import issued, standing

    if number:
        found: Sequence[Invoice] = issued(store, number=number)
    elif period and tenant is not None:
        month = month_of(store, period)
        found = [one for one in standing(store, month, tenant) if not one.is_credit_note] or draft_all(
            store, month, tenant
        )
    else:
        raise LedgerError("invoice explain", "of which invoice?", "Say --number, or --period and --tenant")
    if not found:
        raise LedgerError(f"invoice {number!r}", "was never issued", "See: gpuledger invoice list")
    return found[0]


def _print_explanation(found: Explanation) -> None:
    line = found.line
    what = " ".join(str(line.get(name) or "") for name in ("kind", "project", "sku", "description")).strip()
    say(
        f"line {line['line']}: {' '.join(what.split())} = {line['amount'] if line['amount'] is not None else 'unknown'}"
    )
    say(f"how: {found.formula}")
    for rule in found.rules:
        say(f"rule: {json.dumps(rule, ensure_ascii=False)} (rate card {found.rate_card})")
    rows = [_for_people(row) for row in found.rows]
    if rows:
        print_rows(rows, list(rows[0]), options.Format.table)


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    """A ledger entry or an invoice line, narrow enough for a terminal."""
    if "allocation" not in row:
        return {name: row.get(name) for name in ("line", "kind", "project", "sku", "description", "amount")}
    of = {
        "from": f"{row['from']:%m-%d %H:%M}Z",
        "to": f"{row['to']:%m-%d %H:%M}Z",
        "workload": row["workload"],
    }
    if "due_gpu_hours" in row:
        return {
            **of,
            **({"device": row["device"]} if "device" in row else {"allocation": row["allocation"]}),
            "billed GPU-h": round(row["billed_gpu_hours"], 2),
            "due GPU-h": round(row["due_gpu_hours"], 2),
            "cost": None if row["cost"] is None else round(row["cost"], 2),
        }
    hours = {name: round(row[f"{name}_gpu_hours"], 2) for name in ("used", "idle", "unmetered")}
    return {
        **of,
        **({"device": row["device"]} if "device" in row else {"GPUs": row["devices"]}),
        "GPU-h": round(row["allocated_gpu_hours"], 2),
        **hours,
        "cost": None if row["billed_cost"] is None else round(row["billed_cost"], 2),
    }


def _abridged(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
