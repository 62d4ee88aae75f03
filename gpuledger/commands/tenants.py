"""`gpuledger tenants`: the tenant mapping: who pays for what the sources reported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import open_books, opened_store
from gpuledger.output import print_rows, say
from warehouse.instants import rfc3339

tenants = typer.Typer(no_args_is_help=True)

KEYS = ("workload", "project", "tenant", "queue", "source", "cluster")
COLUMNS = (
    *(f"match_{key}" for key in KEYS), "tenant", "project", "cost_center", "effective_from", "effective_to", "version",
)  # fmt: skip
UNMAPPED = (
    "reported_tenant", "reported_project", "queue", "cluster", "owner", "gpu_hours", "allocations", "since", "until",
)  # fmt: skip


def register(app: typer.Typer) -> None:
    app.add_typer(tenants, name="tenants", help="Who pays: apply a tenant mapping, list it, show what it leaves open.")


@tenants.command("apply")
def apply(
    file: Annotated[Path, typer.Argument(help="The tenant mapping, YAML.")],
    store: options.Store = "",
    author: options.Author = "",
    reason: options.Reason = "",
) -> None:
    """Check and apply a mapping; repeating it changes nothing."""
    from billing.rates import current_rate_card
    from billing.tenants import apply_mapping, current_mapping, load_mapping

    mapping = load_mapping(file)
    with open_books(store, author) as books:
        card = None if books.server else current_rate_card(books.store)
        line = books.apply(
            "tenants' mapping", mapping, reason, lambda server, text: server.apply_tenants(text, reason),
            current_mapping, apply_mapping,
        )  # fmt: skip
    if not line:
        return
    dated = any(rule.effective_from or rule.effective_to for rule in mapping.rules)
    if dated and card is not None and card.card.timezone != mapping.timezone:
        say(f"its dates are in {mapping.timezone}, those of the rate card in {card.card.timezone}")
    say(f"{line}: {_count(len(mapping.rules), 'rule')}. Next: gpuledger close")


@tenants.command("list")
def list_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The applied rules: what they match, who pays, and their time (UTC; a dash is open)."""
    from billing.tenants import current_mapping

    with opened_store(store) as opened:
        current = current_mapping(opened)
    rows = [
        {
            **{f"match_{key}": getattr(rule.match, key) for key in KEYS},
            "for": rule.words,
            "tenant": rule.tenant,
            "project": rule.project,
            "cost_center": rule.cost_center or None,
            "effective_from": rule.effective_from,
            "effective_to": rule.effective_to,
            "version": current.version,
        }
        for rule in (current.mapping.rules if current else ())
        if current
    ]
    if fmt is not options.Format.table:
        print_rows(rows, COLUMNS, fmt)
    elif current is None:
        say("no tenant mapping: the reported tenants pay. Next: gpuledger tenants apply FILE")
    else:
        rest = f"the rest: the reported tenant, or {current.mapping.unmapped_owner or 'nobody'} where none was reported"
        title = f"tenants' mapping {current.version}; {rest}"
        columns = ("for", "tenant", "project", "cost_center", "from", "to")
        print_rows([_for_people(row) for row in rows], columns, fmt, title)


@tenants.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="The tenant mapping, YAML.")],
    store: options.Store = "",
) -> None:
    """Check a mapping and show what it would change in the closed books. Changes nothing; exit 1 if no rule fits
    something that was held."""
    from billing.closed import closed_period
    from billing.tenants import load_mapping, preview

    mapping = load_mapping(file)
    rules = _count(len(mapping.rules), "rule")
    with opened_store(store) as opened:
        if closed_period(opened) is None:
            say(f"{file}: {rules}; nothing is closed yet to check against. Next: gpuledger close")
            return
        found = preview(opened, mapping)
    table = options.Format.table
    as_reported = ("reported_tenant", "reported_project", "queue", "cluster")
    if found.moves:
        print_rows(
            [_rounded(row) for row in found.moves],
            (*as_reported, "now", "then", "gpu_hours"),
            table,
            "would change",
        )
    for rule in found.idle:
        say(f"{rule} matches no allocation in the closed books")
    if found.unmapped:
        print_rows(
            [_rounded(row) for row in found.unmapped],
            (*as_reported, "owner", "gpu_hours"),
            table,
            "no rule fits",
        )
        raise typer.Exit(1)
    say(f"{file}: {rules}; everything in the closed books has one")


@tenants.command("unmapped")
def unmapped_(store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """What no rule of the mapping fits in the closed books: as reported, who pays, how much, since when."""
    from billing.closed import closed_period
    from billing.tenants import current_mapping, unmapped

    with opened_store(store) as opened:
        current, rows, closed = current_mapping(opened), unmapped(opened), closed_period(opened)
    if fmt is not options.Format.table:
        print_rows(rows, UNMAPPED, fmt)
    elif current is None:
        say("no tenant mapping: the reported tenants pay. Next: gpuledger tenants apply FILE")
    elif closed is None:
        say("nothing is closed yet. Next: gpuledger close")
    elif not rows:
        say("everything in the closed books has a rule")
    else:
        print_rows([_rounded(row) for row in rows], UNMAPPED, fmt, f"no rule of {current.version} fits")


def _for_people(row: Mapping[str, Any]) -> dict[str, Any]:
    dates = {
        short: row[key] and rfc3339(row[key]).replace("T00:00:00.000Z", "")
        for short, key in (("from", "effective_from"), ("to", "effective_to"))
    }
    return {**{name: row[name] for name in ("for", "tenant", "project", "cost_center")}, **dates}


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "gpu_hours": round(row["gpu_hours"], 2)}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
