"""`gpuledger users`: who may ask: local users, people of single sign-on, service accounts."""

from __future__ import annotations

import getpass
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gpuledger import options, remote
from gpuledger.commands.tokens import Author, Roles, Tenants, access_store, local_admin, shown_as
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
    author: Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    url: remote.Url = "",
    token_file: remote.TokenFile = None,
) -> None:
    """Add a local user, or a service account."""
    password, kind = ("", "service") if service else (_password(password_file), "local")
    if url := url or remote.address(store):
        with remote.client(url, token_file) as client:
            client.add_user(name, password, role or [], tenant or [], kind)
    else:
        from access.people import Kind, add_person

        who, now = local_admin(author).actor, datetime.now(UTC)
        with access_store(store, sign_in) as access:
            add_person(access, who, now, name, password, role or [], tenant or (), Kind(kind))
    say(f"user {name}: {' '.join(role or [])}")


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
    author: Author = "",
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    url: remote.Url = "",
    token_file: remote.TokenFile = None,
) -> None:
    """Change somebody: what is given replaces what was, the rest stays. It holds at once for sessions and tokens.
    A new password and --disable end their sessions. Roles of single sign-on are the provider's to say."""
    password = _password(password_file) if new_password or password_file else None
    if url := url or remote.address(store):
        changes = {"password": password, "roles": role, "tenants": tenant, "disabled": disabled}
        with remote.client(url, token_file) as client:
            client.change_user(name, issuer, **{what: value for what, value in changes.items() if value is not None})
    else:
        from access.people import change_person

        who = local_admin(author).actor
        with access_store(store, sign_in) as access:
            change_person(access, who, datetime.now(UTC), name, password, role, tenant, disabled, issuer)
    say(f"user {name} is changed")


@users.command("list")
def list_(
    store: options.Store = "",
    sign_in: options.AccessSignIn = None,
    fmt: options.OutputFormat = options.Format.table,
    url: remote.Url = "",
    token_file: remote.TokenFile = None,
) -> None:
    """All of them, with their last sign-in."""
    if url := url or remote.address(store):
        with remote.client(url, token_file) as client:
            found = [vars(one) for one in client.users()]
    else:
        from access.people import list_people

        with access_store(store, sign_in) as access:
            found = [vars(one) for one in list_people(access)]
    if not found and fmt is options.Format.table:
        say("no users yet. Next: gpuledger users add NAME --role admin")
        return
    print_rows([shown_as(fmt, one) for one in found], COLUMNS, fmt)


def _password(file: Path | None) -> str:
    if file is None:
        try:
            with warnings.catch_warnings():
                if not sys.stdin.isatty():  # nothing is typed here, so nothing shows
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
