"""`gpuledger users`: local users, users of single sign-on, service accounts."""

from __future__ import annotations

import getpass
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpuledger import options
from gpuledger.books import TokenFile, open_books
from gpuledger.commands.tokens import Roles, Tenants, shown_as
from gpuledger.output import print_rows, say
from warehouse.errors import LedgerError

users = typer.Typer(no_args_is_help=True)
COLUMNS = ("name", "kind", "issuer", "subject", "roles", "tenants", "disabled", "seen_at", "created_at", "changed_at",
           "changed_by")  # fmt: skip
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="Holds the password; - is standard input.", show_default="asked for"),
]


def register(app: typer.Typer) -> None:
    app.add_typer(users, name="users", help="Users: local ones, those of single sign-on, service accounts.")


@users.command("add")
def add(
    name: Annotated[str, typer.Argument(help="By which they sign in.")],
    role: Roles = None,
    tenant: Tenants = None,
    password_file: PasswordFile = None,
    service: Annotated[
        bool, typer.Option("--service", help="A service account: owns tokens, has no password.")
    ] = False,
    author: options.Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    token_file: TokenFile = None,
) -> None:
    """Add a local user, or a service account."""
    from access.people import Kind, add_person, new_person
    from access.roles import roles_of

    kind = Kind.service if service else Kind.local
    roles, tenants = role or [], tenant or []
    new_person("", datetime.now(UTC), name, roles_of(roles), frozenset(tenants), kind)  # refuses before it asks
    password = "" if service else _password(password_file)
    with open_books(store, author, token_file, sign_in) as books:
        if books.server:
            books.server.add_user(name, password, roles, tenants, kind)
        else:
            who = books.admin.actor
            add_person(books.access, who, books.now, name, password, roles, tenants, kind)
    say(f"user {name}: {' '.join(roles)}")


@users.command("set")
def set_(
    name: Annotated[str, typer.Argument(help="Whose; of single sign-on, the subject will do.")],
    role: Roles = None,
    tenant: Tenants = None,
    new_password: Annotated[bool, typer.Option("--password", help="Ask for a new password.")] = False,
    password_file: PasswordFile = None,
    disabled: Annotated[
        bool | None, typer.Option("--disable/--enable", help="Whether they and their tokens have access.")
    ] = None,
    issuer: options.Issuer = "",
    author: options.Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    token_file: TokenFile = None,
) -> None:
    """Change somebody: what is given replaces what was, the rest stays. It holds at once for sessions and tokens.
    A new password and --disable end their sessions. Roles of single sign-on are the provider's to say."""
    from access.people import change_person
    from access.roles import roles_of

    roles_of(role or ())  # refuses before it asks for a password
    password = _password(password_file) if new_password or password_file else None

    with open_books(store, author, token_file, sign_in) as books:
        if books.server:
            changes = {"password": password, "roles": role, "tenants": tenant, "disabled": disabled}
            given = {what: value for what, value in changes.items() if value is not None}
            books.server.change_user(name, issuer, **given)
        else:
            who = books.admin.actor
            change_person(books.access, who, books.now, name, password, role, tenant, disabled, issuer)
    say(f"user {name} is changed")


@users.command("list")
def list_(
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    fmt: options.OutputFormat = options.Format.table,
    token_file: TokenFile = None,
) -> None:
    """All of them, with their last sign-in."""
    from access.people import list_people

    with open_books(store, "", token_file, sign_in) as books:
        found = [vars(one) for one in (books.server.users() if books.server else list_people(books.access))]
    if not found and fmt is options.Format.table:
        say("no users yet. Next: gpuledger users add NAME --role admin")
        return
    print_rows([shown_as(fmt, one) for one in found], COLUMNS, fmt)


def _password(file: Path | None) -> str:
    if file is None:
        try:
            with warnings.catch_warnings():
                if not sys.stdin.isatty():  # the echo does not matter, nobody types
                    warnings.simplefilter("ignore", getpass.GetPassWarning)
                return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
        except typer.Abort as left:
            if isinstance(left.__context__, EOFError):
                raise LedgerError("password", "nobody types one here", "Give --password-file FILE") from left
            raise
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"--password-file {file}", f"cannot be read ({error})", "It holds a password") from error
    return text.rstrip("\r\n")
