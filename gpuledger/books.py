"""Where a command finds the books: in a store that it opens, or at a server that holds one (`--store http://host:8050`)
and knows the caller by a token (GPULEDGER_TOKEN, or a file).

    with opened_store(store) as opened:            # what only reads; a server is asked in SQL
        rows = list_rates(opened)
    with open_books(store, author) as books:       # what changes something; a server is asked by its API
        if books.server:
            ...

What a server does not do for a command is refused first (`refuse_served`), with the reason and what to do instead.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from gpuledger.output import say
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339
from warehouse.store import Store, migrate, open_store

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
    """server: a client of the server that holds the store; None: the store is opened here, and what follows is for
    that, made when it is first asked for."""

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
        """Whoever can open the store may do everything."""
        from access.principal import Principal
        from access.roles import Role

        return Principal(self.author, frozenset({Role.admin}))

    def apply(
        self,
        what: str,
        file: File,
        reason: str,
        send: Callable[[Client, str], Applied],
        current: Callable[[Store], Any],
        put: Callable[[Store, File, str, str, datetime], str],
    ) -> str:
        """Puts a file in force. send: to a server, as text; current, put: for a store that is opened here.

        Answers the line that says so, for more to be added; empty where it was in force already, which is said here.
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
    """The store that `--store` names, with its schema; of a server its SQL, which reads alone.   Errors: StoreError."""
    with open_store(store) as opened:
        migrate(opened)
        yield opened


@contextlib.contextmanager
def recording_store(store: str, instead: str = PUSH) -> Iterator[Store]:
    """A store to write records to.   Errors: as `refuse_records`."""
    refuse_records(store, instead)
    with opened_store(store) as opened:
        yield opened


@contextlib.contextmanager
def open_books(
    store: str, author: str = "", token_file: Path | None = None, sign_in: Path | None = None
) -> Iterator[Books]:
    """The books that `--store` names.   sign_in: a file that may say which access store a store has.

    Errors: LedgerError for an author where a server's token says who that is; as `client`.
    """
    url = served(store)
    if url and author:
        raise LedgerError("--author", "a server knows who you are by your token", "Leave it out")
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(client(url, token_file)) if url else None
        yield Books(store, author, server, sign_in, stack)


def served(store: str) -> str:
    """The server that `--store` names; empty: it names a store."""
    return store if store.startswith(("http://", "https://")) else ""


def refuse_served(store: str, why: str, next_step: str) -> None:
    """Errors: LedgerError if a server holds the store: why it does not do this for a command, and what to do."""
    if served(store):
        raise LedgerError(f"--store {store}", f"a server holds this store, {why}", next_step)


def refuse_records(store: str, instead: str = PUSH) -> None:
    """Errors: LedgerError if a server holds the store, with what to do `instead`; before the work is done in vain."""
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
        raise LedgerError(error.where, error.what, error.next_step) from error


def token(token_file: Path | None) -> str:
    """The token of the file, or of the environment. Errors: LedgerError if the file cannot be read."""
    if token_file is None:
        return os.environ.get("GPULEDGER_TOKEN", "")
    try:
        return token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"--token-file {token_file}", f"cannot be read ({error})", "It holds an API token") from error
