"""`gpuledger held`: held pushes, the effect of accepting each, and the decision."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import Books, open_books
from gpuledger.output import print_json, print_rows, say
from warehouse.printable import grouped

if TYPE_CHECKING:
    from gpuledger.client import Client
    from gpuledger.documents import HeldPushDocument
    from ingest.held import HeldPush

held = typer.Typer(no_args_is_help=True)
COLUMNS = ("id", "sender", "record_type", "reason", "subject", "rows", "first_at", "last_at", "held_since")
DECIDED = ("state", "decided_at", "decided_by", "why")
CHANGES = ("month", "tenant", "cost_before", "cost_after", "difference", "currency", "issued")
ALL_CHANGES = (*CHANGES, "payable_difference", "payable_currency")
SHOWN = 20
"""Rows that the table shows; JSON has all."""

Id = Annotated[str, typer.Argument(help="Id of a held push (see: held list); it identifies exactly its rows.")]
Author = Annotated[str, typer.Option(help="Who decides.", show_default="you")]


def register(app: typer.Typer) -> None:
    app.add_typer(held, name="held", help="Held pushes, which await approval: list, show, accept, refuse.")


@held.command("list")
def list_(
    all: Annotated[bool, typer.Option("--all", help="Include decided ones.")] = False,
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
) -> None:
    """Held pushes, oldest first."""
    from ingest.held import held_pushes

    found: Sequence[HeldPush | HeldPushDocument]
    with open_books(store) as books:
        if books.server:
            found = list(books.server.held("all" if all else ""))
        else:
            found = held_pushes(books.store, "" if all else "held")
    if not found and fmt is options.Format.table:
        say("nothing waits for you")
        return
    columns = (*COLUMNS, *DECIDED) if all else COLUMNS
    print_rows([{name: getattr(one, name) for name in columns} for one in found], columns, fmt)


@held.command("show")
def show(id: Id, store: options.Store = "", fmt: options.OutputFormat = options.Format.table) -> None:
    """The rows, and what accepting them would change in the closed books; computed on a copy, changes nothing."""
    with open_books(store) as books:
        push, changes, known, rows, closed_until = (
            _from_server(books.server, id) if books.server else _from_books(books, id)
        )
    if fmt is options.Format.json:
        print_json({**push, "changes": changes, "known": known, "closed_until": closed_until, "raw_rows": rows})
        return
    if fmt is options.Format.csv:
        print_rows(changes, ALL_CHANGES, fmt)
        return
    say(f"{grouped(push['rows'], 'row')} of {push['record_type']} from {push['sender']}, about {push['subject']}")
    say(f"{push['state']} for {push['reason']}: {push['detail']}")
    for row in rows[:SHOWN]:
        say(json.dumps(row, ensure_ascii=False))
    if len(rows) > SHOWN:
        say(f"... and {push['rows'] - SHOWN} more (--format json)")
    if changes:
        shown = [{**change, "tenant": _tenant(change)} for change in changes]
        columns = ALL_CHANGES if any(change["payable_currency"] for change in changes) else CHANGES
        print_rows(shown, columns, fmt, "A yes would change")
    elif not known:
        say("the effect of accepting is unknown: computing it takes too long here. Close, then compare the drafts")
    elif push["state"] == "held":
        say(f"accepting would change nothing that is closed (until {closed_until:%Y-%m-%d %H:%M}Z)")


@held.command("accept")
def accept(id: Id, why: options.Reason = "", author: Author = "", store: options.Store = "") -> None:
    """Store exactly these rows, as their sender's; what they change of an issued month becomes a correction."""
    _decide(id, why, author, store, yes=True)


@held.command("refuse")
def refuse(id: Id, why: options.Reason = "", author: Author = "", store: options.Store = "") -> None:
    """Discard these rows; if they are sent again, they are only counted."""
    _decide(id, why, author, store, yes=False)


def _decide(id: str, why: str, author: str, store: str, yes: bool) -> None:
    from billing import held as deciding

    done: HeldPush | HeldPushDocument
    with open_books(store, author) as books:
        if books.server:
            done = books.server.decide_held(id, yes, why)
        else:
            decision = deciding.accept if yes else deciding.refuse
            done = decision(books.store, id, books.now, books.author, why)
    rows = f"{grouped(done.rows, 'row')} of {done.record_type}"
    say(f"{done.id}: {rows} from {done.sender} {done.state} by {done.decided_by}")
    if yes:
        say("next: gpuledger close")


PushWithEffect = tuple[dict[str, Any], list[dict[str, Any]], bool, list[dict[str, Any]], datetime]
"""A held push, its effect on the books, whether that is known, its rows, and until when the books are closed."""


def _from_server(server: Client, id: str) -> PushWithEffect:
    found = server.held_push(id).model_dump()
    return found, found.pop("changes"), found.pop("known"), found.pop("raw_rows"), found.pop("closed_until")


def _from_books(books: Books, id: str) -> PushWithEffect:
    from billing.held import effect
    from ingest.held import held_push, rows_of

    push = held_push(books.store, id)
    found = effect(books.store, push)
    rows = [json.loads(row["raw"]) for row in rows_of(books.store, push)]
    changes = [{**vars(change), "difference": change.difference} for change in found.changes]
    return dict(vars(push)), changes, found.known, rows, found.closed_until


def _tenant(change: Mapping[str, Any]) -> str:
    return "(nobody: unallocated)" if change["tenant"] is None else str(change["tenant"])
