"""`gpuledger invoice parties`: who sends invoices and who pays them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpuledger import options, remote
from gpuledger.books import opened_store
from gpuledger.commands.invoice import invoice
from gpuledger.output import instant, print_rows, say

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
    author: Annotated[str, typer.Option(help="The author.", show_default="you")] = "",
    reason: Annotated[str, typer.Option(help="The reason, for the audit.")] = "",
) -> None:
    """Check and apply a file; issued documents do not change, and repeating it changes nothing."""
    if server := remote.address(store, author):
        remote.apply(server, file, "parties", lambda client, text: client.apply_parties(text, reason))
        return
    from billing.audit import whoever
    from billing.parties.applied import apply_parties, current_parties
    from billing.parties.details import load_parties

    details = load_parties(file)
    with opened_store(store) as opened:
        before = current_parties(opened)
        version = apply_parties(opened, details, whoever(author), reason, datetime.now(UTC))
    if before is not None and before.version == version:
        say(f"parties {version} are in force already, since {instant(before.applied_at)}")
        return
    count = f"{len(details.buyers)} buyer{'' if len(details.buyers) == 1 else 's'}"
    seller = "a seller" if details.seller else "no seller"
    say(f"parties {version} are in force: {seller}, {count}. Next: gpuledger invoice draft")


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
