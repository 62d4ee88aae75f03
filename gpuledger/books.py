"""How a command reaches the books: in a store that it opens, or through the server that holds it.

A server is named by `--store http://host:8050` and identifies the caller by a token (GPULEDGER_TOKEN, or a file).

    with opened_store(store) as opened:            # reads only; over a server, through its SQL
        rows = list_rates(opened)
    with open_books(store, author) as books:       # changes something; over a server, through its API
        if books.server:
            ...

A command that does not work over a server says so first (`refuse_served`), with the reason and the alternative.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gpuledger.output import say
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.store import Store, embedded_path, migrate, migrations, open_store, refuse_backups, refuse_unfinished

if TYPE_CHECKING:
    from access.principal import Principal
    from access.store import AccessStore
    from billing.applied import Versioned
    from gpuledger.client import Client
    from gpuledger.documents import Applied

    File = TypeVar("File", bound=Versioned)

TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="Holds the API token for a server; or GPULEDGER_TOKEN does.", dir_okay=False),
]

PUSH = "Push them (docs/agent.md), or stop it and give the store itself"


class Books:
    """server: a client of the server that holds the store; None: this process opens the store. The other attributes
    are for that case, and are opened on first use."""

    def __init__(
        self, store: str, author: str, server: Client | None, sign_in: Path | None, stack: contextlib.ExitStack
    ) -> None:
        self.server = server
        self._store, self._author, self._sign_in, self._stack = store, author, sign_in, stack

    @cached_property
    def store(self) -> Store:
        return self._stack.enter_context(opened_store(self._store))

    @cached_property
    def access(self) -> AccessStore:
        """People, tokens and saved queries."""
        from access.opening import open_access
        from access.settings import load_access

        settings = load_access(self._sign_in) if self._sign_in else None
        return self._stack.enter_context(open_access(self.store, settings))

    @property
    def now(self) -> datetime:
        return datetime.now(UTC)

    @property
    def author(self) -> str:
        from billing.audit import whoever

        return whoever(self._author)

    @property
    def admin(self) -> Principal:
        """The administrator: whoever can open the store may do anything."""
        from access.principal import Principal
        from access.roles import Role

        return Principal(self.author, frozenset({Role.admin}))

    @property
    def nobody_known(self) -> Principal:
        """The same, who is none of the store's users, whatever they are called on this machine."""
        from access.principal import OPEN

        return replace(self.admin, how="open", issuer=OPEN)

    def apply(
        self,
        what: str,
        file: File,
        reason: str,
        send: Callable[[Client, str], Applied],
        current: Callable[[Store], Any],
        put: Callable[[Store, File, str, str, datetime], str],
    ) -> str:
        """Applies a file. send: to a server, as text; current, put: in a store that is open here.

        Returns the line to print, which the caller completes; empty if the file was in force already, which is printed
        here.
        """
        since = ""
        if self.server:
            done = send(self.server, file.canonical())
            version, new = done.version, done.new
        else:
            before = current(self.store)
            version = put(self.store, file, self.author, reason, self.now)
            new = before is None or before.version != version
            since = "" if new else f", since {rfc3339(before.applied_at)}"
        line = f"{what} {version} {'are' if what.endswith('s') else 'is'} in force"
        if new:
            return line
        say(f"{line} already{since}")
        return ""


@contextlib.contextmanager
def opened_store(store: str) -> Iterator[Store]:
    """The store that `--store` names, migrated; for a server, a read-only one over its SQL. Says if it is new: its name
    may be mistyped.   Errors: StoreError."""
    with open_store(store) as opened:
        _, first, _ = migrations()[0]
        if first in migrate(opened):
            say(f"{opened.url}: this store is new")
        yield opened


@contextlib.contextmanager
def recording_store(store: str, instead: str = PUSH) -> Iterator[Store]:
    """A store to write records to, which may begin with them.   Errors: as `refuse_records`."""
    refuse_records(store, instead)
    with open_store(store) as opened:
        migrate(opened)
        yield opened


@contextlib.contextmanager
def open_books(
    store: str, author: str = "", token_file: Path | None = None, sign_in: Path | None = None
) -> Iterator[Books]:
    """The books that `--store` names.   sign_in: a file that may name the access store.

    Errors: LedgerError if an author is given to a server, which takes the token's owner; as `client`.
    """
    url = served(store)
    if url and author:
        raise LedgerError("--author", "a server knows who you are by your token", "Leave it out")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(client(url, token_file)) if url else None
        yield Books(store, author, server, sign_in, stack)


def served(store: str) -> str:
    """The URL of the server that `--store` names; empty if it names a store."""
    return store if store.startswith(("http://", "https://")) else ""


def refuse_served(store: str, why: str, next_step: str) -> None:
    """Errors: LedgerError if `--store` names a server: why the command does not work over it, and what to do."""
    if served(store):
        raise LedgerError(f"--store {store}", f"a server holds this store, {why}", next_step)


def refuse_absent(store: str, wanted: str) -> None:
    """Errors: LedgerError if `--store` names an embedded store that is not there: in a mistyped one all is well.

    wanted: what is to be done to it, as in "copied".
    """
    if store.startswith("chdb:///") or not store:
        path = embedded_path(store)
        refuse_backups(path)
        refuse_unfinished(path)
        if not (path / "engine").is_dir():
            raise LedgerError(f"store {path}", "is not there", f"Name the store that is to be {wanted} with --store")


def refuse_records(store: str, instead: str = PUSH) -> None:
    """Errors: LedgerError if `--store` names a server, with what to do `instead`; called before any work is done."""
    refuse_served(store, "and takes records that are pushed", instead)


@contextlib.contextmanager
def client(url: str, token_file: Path | None = None) -> Iterator[Client]:
    """A client of the server at the URL.   Errors: LedgerError for what the server refuses, or if it is not there."""
    from gpuledger.client import ApiError, Client
    from ingest.prompt_client import PromptClient

    try:
        with Client(url, token(token_file), http=PromptClient) as opened:
            yield opened
    except ApiError as error:
        what = _FIELD.sub(r"\1: ", error.what)
        raise LedgerError(error.where, what, _as_typed(error.next_step)) from error


_FIELD = re.compile(r"^(?:body|query|path)\.(\w+)[\w.]*: ")
"""Which field of a request a server did not understand; its number in a list, and so on, is not what was typed."""
_COMMANDS = {
    "/api/v1/alerts": "alerts list",
    "/api/v1/alerts/silences": "alerts silence list",
    "/api/v1/credits": "credits list",
    "/api/v1/grants": "credits list --grants",
    "/api/v1/held": "held list",
    "/api/v1/invoices": "invoice list",
    "/api/v1/objectives": "slo list",
    "/api/v1/rates/cards": "rates history",
}
"""The commands that list what a server's next steps name by its path."""


def _as_typed(next_step: str) -> str:
    """A server's next step, as who types commands takes it."""
    if next_step == "See /api/v1/openapi.json":
        return "See the command's --help"
    command = _COMMANDS.get(next_step.removeprefix("See: "))
    return f"See: gpuledger {command}" if command else next_step


def token(token_file: Path | None) -> str:
    """The token of the file, or of the environment. Errors: LedgerError if the file cannot be read."""
    if token_file is None:
        return os.environ.get("GPULEDGER_TOKEN", "").strip()
    try:
        return token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"--token-file {token_file}", f"cannot be read ({error})", "It holds an API token") from error
