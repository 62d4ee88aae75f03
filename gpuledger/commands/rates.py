"""`gpuledger rates`: apply a rate card, list its rates, show earlier cards, compare cards."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.output import print_json, print_lines, print_rows, say
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.store import Store

if TYPE_CHECKING:
    from billing.rates import RateCard
    from gpuledger.client import Client

rates = typer.Typer(no_args_is_help=True)

KEYS = ("tenant", "partition_profile", "queue", "priority", "preemptible", "pool", "cluster", "model")
COLUMNS = (
    "sku", "model", "pool", "cluster", "partition_profile", "tenant", "queue", "priority", "preemptible",
    "price_per_gpu_hour", "currency", "effective_from", "effective_to", "windows", "timezone", "version",
)  # fmt: skip
EFFECT = (
    "tenant", "model", "pool", "cluster", "partition_profile", "queue", "priority", "preemptible", "gpu_hours",
    "old_cost", "new_cost", "difference", "unpriced_before", "unpriced_after", "currency",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    app.add_typer(rates, name="rates", help="Prices: apply a rate card, list and compare cards, show their history.")


@rates.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="The rate card, YAML.")],
    store: options.Store = "",
    author: options.Author = "",
    reason: options.Reason = "",
) -> None:
    """Check and apply a rate card; repeating it changes nothing."""
    from billing.rates import apply_rate_card, current_rate_card, load_rate_card

    card = load_rate_card(file)
    with open_books(store, author) as books:
        line = books.apply(
            "rate card", card, reason, lambda server, text: server.apply_rate_card(text, reason), current_rate_card,
            apply_rate_card,
        )  # fmt: skip
    if line:
        count = f"{len(card.rates)} rate{'' if len(card.rates) == 1 else 's'}"
        say(f"{line}: {count} in {card.currency}. Next: gpuledger close")


@rates.command("list")
def list_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The rates in force: their patterns, price and time (UTC; a dash is open)."""
    from billing.rates import list_rates

    with opened_store(store) as opened:
        rows = list_rates(opened)
    if fmt is options.Format.json:
        print_json([{**{c: row[c] for c in COLUMNS}, "windows": row["windows_json"]} for row in rows])
    elif fmt is options.Format.csv:
        print_rows(rows, COLUMNS, fmt)
    elif not rows:
        say("no rate card yet. Next: gpuledger rates apply FILE")
    else:
        title = f"rate card {rows[0]['version']}, {rows[0]['currency']} per GPU-hour"
        print_rows([_for_people(row) for row in rows], ("sku", "for", "price", "from", "to"), fmt, title)


@rates.command("show")
def show(
    version: Annotated[str, typer.Argument(help="Which card.", show_default="the one in force")] = "",
    store: options.Store = "",
) -> None:
    """The card in force as YAML, or an earlier one by its version."""
    import json

    import yaml

    from billing.rates import RateError, current_rate_card

    with opened_store(store) as opened:
        if version:
            card = _of_version(opened, version)
        else:
            current = current_rate_card(opened)
            if current is None:
                raise RateError("rates", "no rate card is in force", "Run: gpuledger rates apply FILE")
            card = current.card
    typer.echo(yaml.safe_dump(json.loads(card.canonical()), sort_keys=False, allow_unicode=True), nl=False)


@rates.command("history")
def history_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """All applied cards: version, time, author and reason."""
    from billing.rates import history

    with opened_store(store) as opened:
        rows = history(opened)
    if fmt is options.Format.table and not rows:
        say("no rate card yet. Next: gpuledger rates apply FILE")
        return
    print_rows(rows, ("version", "applied_at", "author", "reason", "rules"), fmt)


@rates.command("diff")
def diff(
    one: Annotated[str, typer.Argument(metavar="CARD", help="A file, or the version of an applied card.")],
    other: Annotated[
        str, typer.Argument(metavar="[CARD]", help="Another; alone, the first is compared with the card in force.")
    ] = "",
    period: Annotated[
        str,
        typer.Option(
            help="The hours to compute the effect on: a month, a day, START..END.", show_default="all that is closed"
        ),
    ] = "",
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """What a card would change: its rules, and the cost of the closed hours. Changes nothing."""
    from billing.periods import parse_period
    from billing.rates import card_changes, current_rate_card, price_effect
    from billing.rates.changes import ALWAYS, without_rates

    with open_books(store) as books:
        if books.server:
            old, new, effect = _compared(books.server, one, other, period)
            changes = card_changes(old, new)
        else:
            current = current_rate_card(books.store)
            new = _card(books.store, other or one)
            old = _card(books.store, one) if other else current.card if current else without_rates(new)
            asked = parse_period(period, new.timezone) if period else ALWAYS
            changes = card_changes(old, new)
            effect = price_effect(books.store, old, new, asked) if changes else []
    if fmt is options.Format.json:
        print_json(
            {
                "old": old.version,
                "new": new.version,
                "changes": [{"what": c.what, "of": c.of, "words": c.words} for c in changes],
                "effect": [{name: row[name] for name in EFFECT} for row in effect],
            }
        )
    elif fmt is options.Format.csv:
        print_rows(effect, EFFECT, fmt)
    else:
        _print_diff(old, new, changes, effect)


def _compared(server: Client, file: str, other: str, period: str) -> tuple[RateCard, RateCard, list[dict[str, Any]]]:
    """The card in force, the file's, and what a server says that the closed hours would cost."""
    from billing.rates import load_rate_card, parse_rate_card
    from billing.rates.changes import without_rates

    if other or period:
        raise LedgerError("rates diff", "a server compares a file with the card in force", "Give one file, no --period")
    if not Path(file).exists():
        raise LedgerError(file, "no such file", "Give one file: a server compares it with the card in force")
    new = load_rate_card(file)
    found = server.check_rate_card(new.canonical())
    old = parse_rate_card(server.rate_card(found.before).card) if found.before else without_rates(new)
    numbers = {"gpu_hours", "old_cost", "new_cost", "difference", "unpriced_before", "unpriced_after"}
    effect = [
        {name: Decimal(value) if name in numbers and value is not None else value for name, value in row.items()}
        for row in found.effect
    ]
    return old, new, effect


def _print_diff(old: RateCard, new: RateCard, changes: list[Any], effect: list[dict[str, Any]]) -> None:
    if not changes:
        if old.version == new.version:
            say(f"both are rate card {old.version}: nothing would change")
        else:
            say(f"rate cards {old.version} and {new.version} say the same")
        return
    for change in changes:
        print_lines(f"{change.what:<8} {change.of}: {change.words}")
    if not effect:
        say("no price of what the closed hours hold would change")
        return
    dimensions = [
        k
        for k in ("tenant", "model", "pool", "cluster", "partition_profile", "queue", "priority")
        if any(row[k] for row in effect)
    ]
    dimensions += ["preemptible"] if any(row["preemptible"] for row in effect) else []
    rows = [
        {
            **{name: row[name] for name in dimensions},
            "GPU-hours": round(row["gpu_hours"], 2),
            "now": round(row["old_cost"], 2),
            "then": round(row["new_cost"], 2),
            "difference": row["difference"] and round(row["difference"], 2),
            "without a price": f"{row['unpriced_before']:,.2f} h, then {row['unpriced_after']:,.2f} h"
            if row["unpriced_before"] or row["unpriced_after"]
            else "",
        }
        for row in effect
    ]
    columns = [*dimensions, "GPU-hours", "now", "then", "difference"]
    columns += ["without a price"] if any(row["without a price"] for row in rows) else []
    print_rows(rows, columns, options.Format.table, f"what the closed hours hold, in {new.currency}")


def _card(store: Store, named: str) -> RateCard:
    from billing.rates import load_rate_card

    return load_rate_card(named) if Path(named).exists() else _of_version(store, named)


def _of_version(store: Store, version: str) -> RateCard:
    from billing.rates import RateError, rate_card_of

    applied = rate_card_of(store, version)
    if applied is None:
        raise RateError(
            version, "neither a file nor the version of a card that was applied", "See: gpuledger rates history"
        )
    return applied.card


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    patterns = [f"{key} {_word(row[key])}" for key in KEYS if row[key] is not None]
    patterns += [row["windows"]] if row["windows"] else []
    return {
        "sku": row["sku"],
        "for": ", ".join(patterns) or "anything",
        "price": row["price_per_gpu_hour"],
        "from": row["effective_from"] and rfc3339(row["effective_from"]).replace("T00:00:00.000Z", ""),
        "to": row["effective_to"] and rfc3339(row["effective_to"]).replace("T00:00:00.000Z", ""),
    }


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
