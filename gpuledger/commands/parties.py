"""`gpuledger invoice parties`: the seller's and the buyers' details on invoices."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.commands.invoice import invoice
from gpuledger.output import print_rows, say

parties = typer.Typer(no_args_is_help=True)
COLUMNS = (
    "role", "tenant", "name", "tax_id", "purchase_order", "payment_days", "effective_from", "effective_to",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    invoice.add_typer(parties, name="parties", help="Seller's and buyers' addresses, tax ids, bank and terms.")


@parties.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="Seller and buyers, YAML (docs/billing.md).")],
    store: options.Store = "",
    author: options.Author = "",
    reason: options.Reason = "",
) -> None:
    """Check and apply a file; issued documents do not change, and repeating it changes nothing."""
    from billing.parties.applied import apply_parties, current_parties
    from billing.parties.details import load_parties

    details = load_parties(file)
    with open_books(store, author) as books:
        line = books.apply(
            "parties", details, reason, lambda server, text: server.apply_parties(text, reason), current_parties,
            apply_parties,
        )  # fmt: skip
    if line:
        count = f"{len(details.buyers)} buyer{'' if len(details.buyers) == 1 else 's'}"
        say(f"{line}: {'a seller' if details.seller else 'no seller'}, {count}. Next: gpuledger invoice draft")


@parties.command("list")
def list_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The applied seller and buyers, with their days (a dash is open)."""
    from billing.parties.applied import current_parties
    from billing.parties.details import rows_of

    with opened_store(store) as opened:
        current = current_parties(opened)
    if current is None and fmt is options.Format.table:
        say("no parties yet. Next: gpuledger invoice parties apply FILE")
        return
    rows = list(rows_of(current.parties)) if current else []
    print_rows([{**row, "version": current.version if current else ""} for row in rows], (*COLUMNS, "version"), fmt)
