"""`gpuledger credits`: credits on drafts, and prepaid balances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store, refuse_served, served
from gpuledger.output import complain, print_rows, say
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.json_values import as_json
from warehouse.store import Store

if TYPE_CHECKING:
    from gpuledger import documents

credits_ = typer.Typer(no_args_is_help=True)

CREDIT_COLUMNS = (
    "id", "month", "tenant", "project", "kind", "amount", "currency", "reason", "author", "at", "evidence", "invoice",
)  # fmt: skip
GRANT_COLUMNS = ("id", "tenant", "amount", "currency", "starts_at", "expires_at", "reason", "author", "at")
BALANCE_COLUMNS = (
    "tenant", "currency", "granted", "upcoming", "drawn", "expired", "balance", "running", "available", "low_below",
    "state", "exhausted_at", "next_expiry", "known_until",
)  # fmt: skip

Tenant = Annotated[str, typer.Option(help="Whose.")]
Amount = Annotated[str, typer.Option(help='A decimal, such as "25.00".')]
Currency = Annotated[str, typer.Option(help="Of the amount.", show_default="the rate card's")]
Id = Annotated[
    str, typer.Option("--id", help="An id of your own; repeating it changes nothing.", show_default="a hash")
]


def register(app: typer.Typer) -> None:
    app.add_typer(credits_, name="credits", help="Credits on a month's draft; prepaid balances.")


@credits_.command("add")
def add(
    tenant: Tenant,
    amount: Amount,
    month: Annotated[str, typer.Option(help="The month whose draft shows it, like 2026-10.")],
    reason: options.Reason,
    kind: Annotated[str, typer.Option(help="manual, slo or interference.")] = "manual",
    project: Annotated[str, typer.Option(help="On this project's account.", show_default="the tenant's")] = "",
    author: options.Author = "",
    evidence: Annotated[str, typer.Option(help="JSON: what the amount was computed from.")] = "",
    currency: Currency = "",
    id_: Id = "",
    store: options.Store = "",
) -> None:
    """An amount in a tenant's favour on a month's draft (negative: against it); the same again changes nothing."""
    from billing.accounts.credits import Credit, add_credit, card_in_force, evidence_of, parse_amount

    if served(store) and (kind != "manual" or evidence):
        raise LedgerError("--kind, --evidence", "a server takes credits by hand", "Leave them out")
    given = parse_amount(amount, "--amount")
    with open_books(store, author) as books:
        unit = currency or card_in_force(books.store).currency
        if books.server:
            done = books.server.add_credit(tenant, month, amount, reason, project=project, currency=unit, id=id_)
            id_, new = done.version, done.new
        else:
            credit = Credit(
                tenant, month, given, unit, reason, kind, project, books.author,
                evidence_of(evidence, "--evidence"), id_,
            )  # fmt: skip
            id_, new = credit.id, add_credit(books.store, credit, books.now)
        _warn_of_unknown_tenant(books.store, tenant)
    say(f"credit {id_}: {as_json(given)} {unit} for {tenant} in {month}{'' if new else ' already exists'}")


@credits_.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help="CSV (.gz) or JSON lines: tenant, month, amount, reason, ...")],
    author: options.Author = "",
    store: options.Store = "",
) -> None:
    """Import credits from a table; an invalid row is one line on stderr and goes to the quarantine."""
    from billing.accounts.credit_files import import_credits

    refuse_served(
        store, "and takes one credit at a time", "Use gpuledger credits add, or stop it and give the store itself"
    )
    with open_books(store, author) as books:
        report = import_credits(books.store, file, books.author, books.now)
    for refused in report.refused:
        complain(f"{file}, row {refused.row}: {refused.why}")
    say(f"credits: read {report.read} · added {report.added} · known {report.known} · refused {len(report.refused)}")
    if report.refused:
        raise typer.Exit(1)


@credits_.command("list")
def list_(
    month: Annotated[str, typer.Option("--month", "--period", help="Only this month.", show_default="all")] = "",
    tenant: options.OneTenant = None,
    grants: Annotated[bool, typer.Option("--grants", help="List grants instead.")] = False,
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Credits and the issued invoice that includes each (a dash: none yet); or grants of prepaid balances."""
    from billing.accounts.credits import list_credits
    from billing.accounts.prepaid import grants_of

    with opened_store(store) as opened:
        if grants:
            rows = [asdict(grant) for grant in grants_of(opened, tenant)]
        else:
            rows = [
                {**asdict(added.credit), "at": added.at, "invoice": added.invoice}
                for added in list_credits(opened, month, tenant)
            ]
    if not rows and fmt is options.Format.table:
        say("none yet. Next: gpuledger credits " + ("grant" if grants else "add"))
        return
    columns: tuple[str, ...] = GRANT_COLUMNS if grants else CREDIT_COLUMNS
    if fmt is options.Format.table:
        columns = tuple(name for name in columns if name not in ("at", "evidence", "author", "currency"))
        rows = [_for_people(row) for row in rows]
    print_rows([_flat(row, fmt) for row in rows], columns, fmt)


@credits_.command("reverse")
def reverse(
    credit: Annotated[str, typer.Argument(metavar="ID", help="Which; see: gpuledger credits list")],
    reason: options.Reason,
    author: options.Author = "",
    store: options.Store = "",
) -> None:
    """Reverse a credit in its month; if that is issued, the next invoice corrects it."""
    from billing.accounts.credits import Credit, reverse_credit

    done: Credit | documents.Credit
    with open_books(store, author) as books:
        if books.server:
            done = books.server.reverse_credit(credit, reason)
        else:
            done = reverse_credit(books.store, credit, books.author, reason, books.now)
    amount = f"{Decimal(done.amount).normalize():f} {done.currency}"
    say(f"credit {credit} is reversed by {done.id}: {amount} for {done.tenant} in {done.month}")


@credits_.command("grant")
def grant(
    tenant: Tenant,
    amount: Amount,
    expires: Annotated[str, typer.Option(help="The exclusive end, like 2027-01-01 (in the billing time zone).")],
    reason: options.Reason,
    from_: Annotated[str, typer.Option("--from", help="The start.", show_default="this month's start")] = "",
    author: options.Author = "",
    currency: Currency = "",
    id_: Id = "",
    store: options.Store = "",
) -> None:
    """Add a prepaid grant: it pays for what accrues until it expires, the soonest to expire first."""
    from dataclasses import replace

    from billing.accounts.credits import card_in_force, parse_amount
    from billing.accounts.prepaid import Grant, add_grant, grant_id

    with open_books(store, author) as books:
        now, card = books.now, card_in_force(books.store)
        given = Grant(
            id_, tenant, parse_amount(amount, "--amount"), currency or card.currency,
            _instant(from_ or now.astimezone(card.zone).strftime("%Y-%m"), card.timezone, "--from"),
            _instant(expires, card.timezone, "--expires"), books.author, reason,
        )  # fmt: skip
        given = replace(given, id=id_ or grant_id(given))
        if books.server:
            new = books.server.add_grant(
                tenant, amount, given.expires_at, reason, given.starts_at, currency=given.currency, id=given.id
            ).new
        else:
            new = add_grant(books.store, given, now)
        _warn_of_unknown_tenant(books.store, tenant)
    what = f"grant {given.id}: {as_json(given.amount)} {given.currency} for {tenant}"
    say(
        f"{what}, from {rfc3339(given.starts_at)} until {rfc3339(given.expires_at)}"
        if new
        else f"{what} already exists"
    )


@credits_.command("revoke")
def revoke(
    grant_: Annotated[str, typer.Argument(metavar="GRANT", help="Which; see: gpuledger credits list --grants")],
    reason: options.Reason,
    author: options.Author = "",
    store: options.Store = "",
) -> None:
    """Revoke a grant: it expires now, and what it paid stays paid."""
    from billing.accounts.prepaid import Grant, revoke_grant

    done: Grant | documents.Grant
    with open_books(store, author) as books:
        if books.server:
            done = books.server.revoke_grant(grant_, reason)
        else:
            done = revoke_grant(books.store, grant_, books.author, reason, books.now)
    say(f"grant {done.id} of {done.tenant} expires at {rfc3339(done.expires_at)}")


@credits_.command("balance")
def balance(
    tenant: options.OneTenant = None, store: options.Store = "", fmt: options.OutputFormat = options.Format.table
) -> None:
    """Prepaid balances: granted - drawn - expired, and what unissued months have drawn so far."""
    from billing.accounts.budget_file import current_budgets
    from billing.accounts.prepaid import balances

    with opened_store(store) as opened:
        applied = current_budgets(opened)
        low_below = applied.file.low_below() if applied else {}
        found = balances(opened, datetime.now(UTC), tenant, low_below)
    if not found and fmt is options.Format.table:
        say("nothing was granted. Next: gpuledger credits grant")
        return
    rows = [{**asdict(one), "state": one.state.value} for one in found]
    if fmt is not options.Format.table:
        print_rows(rows, BALANCE_COLUMNS, fmt)
        return
    columns = ("tenant", "granted", "drawn", "expired", "running", "available", "state")
    print_rows(rows, columns, fmt, f"prepaid, {rows[0]['currency']}")
    for one in found:
        if one.exhausted_at:
            say(f"{one.tenant}: exhausted at {rfc3339(one.exhausted_at)}")
        elif one.next_expiry:
            say(f"{one.tenant}: the next grant expires at {rfc3339(one.next_expiry)}")
    if found[0].known_until:
        say(f"running: an estimate from the ledger's charges, known until {rfc3339(found[0].known_until)}")


def _instant(text: str, timezone: str, where: str) -> datetime:
    from billing.periods import PeriodError, parse_period

    try:
        return parse_period(f"{text}..2299-01-01", timezone).start
    except PeriodError:
        raise LedgerError(where, f"found {text!r}", "A day such as 2027-01-01, a month or an instant fits") from None


def _warn_of_unknown_tenant(store: Store, tenant: str) -> None:
    rows = store.rows("SELECT 1 FROM ledger_entries WHERE tenant = {tenant:String} LIMIT 1", {"tenant": tenant})
    if not rows:
        say(f"the ledger knows no tenant {tenant!r} yet; check its spelling (gpuledger ledger --by tenant)")


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: rfc3339(value).replace(":00.000Z", "Z").replace("T00:00Z", "") if isinstance(value, datetime) else value
        for key, value in row.items()
    }


def _flat(row: Mapping[str, Any], fmt: options.Format) -> dict[str, Any]:
    import json

    if fmt is options.Format.json:
        return dict(row)
    return {key: json.dumps(value, sort_keys=True) if isinstance(value, dict) else value for key, value in row.items()}
