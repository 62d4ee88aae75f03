"""`gpuledger rates`: put a rate card in force, and see which one is."""

from __future__ import annotations

import getpass
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuledger import options
from gpuledger.output import instant, print_rows, say
from warehouse.store import migrate, open_store

rates = typer.Typer(no_args_is_help=True)

COLUMNS = (
    "sku", "model", "pool", "partition_profile", "tenant", "price_per_gpu_hour", "currency",
    "effective_from", "effective_to", "version",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    app.add_typer(rates, name="rates", help="Prices: apply a rate card, list the one in force.")


@rates.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="The rate card, YAML.")],
    store: options.Store = "",
    author: Annotated[str, typer.Option(help="Who applies it.", show_default="you")] = "",
    reason: Annotated[str, typer.Option(help="Why, for those who ask later.")] = "",
) -> None:
    """Check a rate card and put it in force; the same card again changes nothing."""
    from billing.rates import apply_rate_card, current_rate_card, load_rate_card

    card = load_rate_card(file)
    with open_store(store) as opened:
        migrate(opened)
        before = current_rate_card(opened)
        version = apply_rate_card(opened, card, author or _user(), reason, datetime.now(UTC))
    if before is not None and before.version == version:
        say(f"rate card {version} is in force already, since {instant(before.applied_at)}")
        return
    count = f"{len(card.rates)} rate{'' if len(card.rates) == 1 else 's'}"
    say(f"rate card {version} is in force: {count} in {card.currency}. Next: gpuledger close")


@rates.command("list")
def list_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The rates of the card in force: their patterns, price and time (UTC; a dash is open)."""
    from billing.rates import list_rates

    with open_store(store) as opened:
        migrate(opened)
        rows = list_rates(opened)
    if fmt is not options.Format.table:
        print_rows(rows, COLUMNS, fmt)
    elif not rows:
        say("no rate card yet. Next: gpuledger rates apply FILE")
    else:
        title = f"rate card {rows[0]['version']}, {rows[0]['currency']} per GPU-hour"
        print_rows([_for_people(row) for row in rows], ("sku", "for", "price", "from", "to"), fmt, title)


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    patterns = [f"{key} {row[key]}" for key in ("tenant", "model", "partition_profile", "pool") if row[key] is not None]
    return {
        "sku": row["sku"],
        "for": ", ".join(patterns) or "anything",
        "price": row["price_per_gpu_hour"],
        "from": row["effective_from"] and instant(row["effective_from"]).replace("T00:00:00.000Z", ""),
        "to": row["effective_to"] and instant(row["effective_to"]).replace("T00:00:00.000Z", ""),
    }


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"
