"""`gpuledger queries`: saved queries: list, show, save, delete. `gpuledger sql --saved NAME` runs one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from gpuledger import options
from gpuledger.books import TokenFile, open_books
from gpuledger.output import print_json, print_rows, say

queries = typer.Typer(no_args_is_help=True)
COLUMNS = ("name", "owner", "shared", "description", "changed_at", "changed_by")

Name = Annotated[str, typer.Argument(help="Of the query.")]
Owner = Annotated[str, typer.Option(help="Whose it is.", show_default="you")]


def register(app: typer.Typer) -> None:
    app.add_typer(queries, name="queries", help="Saved queries: list, show, save and delete them.")


@queries.command("list")
def list_(
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    fmt: options.OutputFormat = options.Format.table,
    token_file: TokenFile = None,
) -> None:
    """Your queries and shared ones; with a local store, all."""
    from api.sql.saved import saved_queries

    with open_books(store, "", token_file, sign_in) as books:
        listed = books.server.saved_queries() if books.server else saved_queries(books.access, books.admin)
        found = [vars(one) for one in listed]
    if not found and fmt is options.Format.table:
        say("no saved queries yet. Next: gpuledger queries save NAME STATEMENT")
        return
    print_rows(found, COLUMNS if fmt is options.Format.table else (*COLUMNS, "created_at", "text"), fmt)


@queries.command("show")
def show(
    name: Name,
    owner: Annotated[str, typer.Option(help="Whose it is.", show_default="yours, else a shared one")] = "",
    issuer: options.Issuer = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    fmt: options.OutputFormat = options.Format.table,
    token_file: TokenFile = None,
) -> None:
    """A query's text; with --format json, all its details."""
    from api.sql.saved import saved_query

    with open_books(store, "", token_file, sign_in) as books:
        found = vars(
            books.server.saved_query(name, owner, issuer)
            if books.server
            else saved_query(books.access, books.admin, name, owner, issuer)
        )
    if fmt is options.Format.json:
        print_json(found)
    elif fmt is options.Format.csv:
        print_rows([found], (*COLUMNS, "created_at", "text"), fmt)
    else:
        typer.echo(found["text"], nl=not found["text"].endswith("\n"))


@queries.command("save")
def save(
    name: Name,
    statement: Annotated[str, typer.Argument(help="The statement; - reads it from standard input.")],
    description: Annotated[str, typer.Option(help="What it answers.")] = "",
    shared: Annotated[bool, typer.Option("--shared/--private", help="Whether others may see it.")] = False,
    owner: Owner = "",
    issuer: options.Issuer = "",
    author: options.Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    token_file: TokenFile = None,
) -> None:
    """Save a query, or replace it; repeating it changes nothing."""
    text = sys.stdin.read() if statement == "-" else statement
    from api.sql.saved import save_query

    asked = (name, text, description, shared, owner, issuer)
    with open_books(store, author, token_file, sign_in) as books:
        named = (
            books.server.save_query(*asked)
            if books.server
            else save_query(books.access, books.admin, books.now, *asked)
        ).owner
    say(f"query {name!r} of {named} is saved{', and shared' if shared else ''}. Next: gpuledger sql --saved {name!r}")


@queries.command("delete")
def delete(
    name: Name,
    owner: Owner = "",
    issuer: options.Issuer = "",
    author: options.Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    token_file: TokenFile = None,
) -> None:
    """Delete a query."""
    from api.sql.saved import delete_query

    with open_books(store, author, token_file, sign_in) as books:
        named = (
            books.server.delete_query(name, owner, issuer)
            if books.server
            else delete_query(books.access, books.admin, books.now, name, owner, issuer)
        ).owner
    say(f"query {name!r} of {named} is deleted")
