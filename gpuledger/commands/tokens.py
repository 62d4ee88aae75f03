"""`gpuledger tokens`: API tokens: make, list, revoke."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpuledger import options
from gpuledger.books import TokenFile, open_books
from gpuledger.output import print_rows, say

if TYPE_CHECKING:
    from access.tokens import Token

tokens = typer.Typer(no_args_is_help=True)
COLUMNS = ("id", "name", "owner", "issuer", "roles", "tenants", "scopes", "created_at", "created_by", "expires_at",
           "revoked", "owner_disabled")  # fmt: skip

Roles = Annotated[list[str] | None, typer.Option("--role", help="admin, finance, operator, analyst or tenant.")]
Tenants = Annotated[
    list[str] | None, typer.Option("--tenant", help="Tenants that the role tenant sees; may be repeated.")
]


def register(app: typer.Typer) -> None:
    app.add_typer(tokens, name="tokens", help="API tokens: create, list and revoke them.")


@tokens.command("create")
def create(
    name: Annotated[str, typer.Argument(help="What it is for.")],
    role: Roles = None,
    tenant: Tenants = None,
    scope: Annotated[list[str] | None, typer.Option(help="read, write or sql; may be repeated.")] = None,
    days: Annotated[int, typer.Option(min=1, max=366, help="How long it works.")] = 90,
    owner: Annotated[
        str,
        typer.Option(
            help="Who uses it; a name that nobody has becomes a service account.",
            show_default="you; of a store that you open, a service account of the token's name",
        ),
    ] = "",
    issuer: options.Issuer = "",
    author: options.Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    token_file: TokenFile = None,
) -> None:
    """Create an API token, printed only this once, on standard output. It never has more rights than its owner."""
    from access.tokens import create_token

    scopes = scope or ["read"]
    with open_books(store, author, token_file, sign_in) as books:
        if books.server:
            made = books.server.create_token(
                name, days, roles=role, tenants=tenant or [], scopes=scopes, owner=owner, issuer=issuer
            )
            secret, shown = made.token, vars(made)
        else:
            token, secret = create_token(
                books.access, books.nobody_known, books.now, name, timedelta(days=days), owner, role or ["analyst"],
                tenant or (), scopes, issuer,
            )  # fmt: skip
            shown = _shown(token)
    typer.echo(secret)
    row = shown_as(options.Format.table, shown)
    owned_by = row["owner"] if row["issuer"] == "local" else f"{row['owner']} ({row['issuer']})"
    rights = f"{row['roles']}{' of ' if row['tenants'] else ''}{row['tenants']}"
    say(f"token {row['id']} of {owned_by}: {rights}; {row['scopes']}; until {row['expires_at']:%Y-%m-%d}")


@tokens.command("list")
def list_(
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    fmt: options.OutputFormat = options.Format.table,
    token_file: TokenFile = None,
) -> None:
    """All tokens, without their secrets."""
    from access.tokens import list_tokens

    with open_books(store, "", token_file, sign_in) as books:
        if books.server:
            found = [vars(one) for one in books.server.tokens()]
        else:
            found = [_shown(one) for one in list_tokens(books.access)]
    if not found and fmt is options.Format.table:
        say("no tokens yet. Next: gpuledger tokens create NAME --role analyst")
        return
    print_rows([shown_as(fmt, one) for one in found], COLUMNS, fmt)


@tokens.command("revoke")
def revoke(
    id: Annotated[str, typer.Argument(metavar="ID", help="See: gpuledger tokens list")],
    reason: options.Reason = "",
    author: options.Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    token_file: TokenFile = None,
) -> None:
    """Revoke a token now."""
    from access.tokens import revoke_token

    with open_books(store, author, token_file, sign_in) as books:
        if books.server:
            books.server.revoke_token(id, reason)
        else:
            revoke_token(books.access, books.admin, books.now, id, reason)
    say(f"token {id} is revoked")


def _shown(token: Token) -> dict[str, Any]:
    owner = token.owner
    of_owner = {"owner": owner.name, "issuer": owner.issuer, "subject": owner.subject, "owner_disabled": owner.disabled}
    return {**vars(token), **of_owner}


def shown_as(fmt: options.Format, row: dict[str, Any]) -> dict[str, Any]:
    """A row with its sets as lists for JSON, or as space-separated words for people."""
    sets = {name: sorted(value) for name, value in row.items() if isinstance(value, frozenset | list)}
    return {**row, **(sets if fmt is options.Format.json else {name: " ".join(words) for name, words in sets.items()})}
