"""`gpuledger users`: people who sign in with a password, for sites without single sign-on."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpuledger import options, remote
from gpuledger.commands.tokens import Author, Roles, Tenants, local_admin, shown_as
from gpuledger.output import print_rows, say
from warehouse.errors import LedgerError
from warehouse.store import migrate, open_store

users = typer.Typer(no_args_is_help=True)
COLUMNS = ("name", "roles", "tenants", "disabled", "created_at", "changed_at", "changed_by")
PasswordFile = Annotated[
    Path | None,
    typer.Option("--password-file", help="Holds the password; - is standard input.", show_default="asked for"),
]


def register(app: typer.Typer) -> None:
    app.add_typer(users, name="users", help="People who sign in with a password.")


@users.command("add")
def add(
    name: Annotated[str, typer.Argument(help="By which they sign in.")],
    role: Roles = None,
    tenant: Tenants = None,
    password_file: PasswordFile = None,
    author: Author = "",
    store: options.Store = "",
    url: remote.Url = "",
    token_file: remote.TokenFile = None,
) -> None:
    """Add a user."""
    password = _password(password_file)
    if url := url or remote.address(store):
        with remote.client(url, token_file) as client:
            client.add_user(name, password, role or [], tenant or [])
    else:
        from dashboards.access.users import add_user

        with open_store(store) as opened:
            migrate(opened)
            add_user(opened, local_admin(author).name, datetime.now(UTC), name, password, role or [], tenant or ())
    say(f"user {name}: {' '.join(role or [])}")


@users.command("set")
def set_(
    name: Annotated[str, typer.Argument(help="Whose.")],
    role: Roles = None,
    tenant: Tenants = None,
    new_password: Annotated[bool, typer.Option("--password", help="Ask for a new password.")] = False,
    password_file: PasswordFile = None,
    disabled: Annotated[bool | None, typer.Option("--disable/--enable", help="Whether they can sign in.")] = None,
    author: Author = "",
    store: options.Store = "",
    url: remote.Url = "",
    token_file: remote.TokenFile = None,
) -> None:
    """Change a user: what is given replaces what was, the rest stays. Ends their sessions."""
    password = _password(password_file) if new_password or password_file else None
    if url := url or remote.address(store):
        changes = {"password": password, "roles": role, "tenants": tenant, "disabled": disabled}
        with remote.client(url, token_file) as client:
            client.change_user(name, **{what: value for what, value in changes.items() if value is not None})
    else:
        from dashboards.access.users import change_user

        with open_store(store) as opened:
            migrate(opened)
            who = local_admin(author).name
            change_user(opened, who, datetime.now(UTC), name, password, role, tenant, disabled)
    say(f"user {name} is changed")


@users.command("list")
def list_(
    store: options.Store = "",
    fmt: options.OutputFormat = options.Format.table,
    url: remote.Url = "",
    token_file: remote.TokenFile = None,
) -> None:
    """All users."""
    if url := url or remote.address(store):
        with remote.client(url, token_file) as client:
            found = [vars(one) for one in client.users()]
    else:
        from dashboards.access.users import list_users

        with open_store(store) as opened:
            migrate(opened)
            found = [vars(one) for one in list_users(opened)]
    if not found and fmt is options.Format.table:
        say("no users yet. Next: gpuledger users add NAME --role admin")
        return
    print_rows([shown_as(fmt, one) for one in found], COLUMNS, fmt)


def _password(file: Path | None) -> str:
    if file is None:
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    try:
        text = sys.stdin.readline() if str(file) == "-" else file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"--password-file {file}", f"cannot be read ({error})", "It holds a password") from error
    return text.rstrip("\r\n")
