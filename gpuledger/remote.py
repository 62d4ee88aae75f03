"""Commands that ask a server instead of opening the store: `--store http://host:8050` (or `--url`), with a token from
the environment (or a file).

What only reads needs nothing of this: `open_store` asks the server's SQL. What changes something asks the API.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gpuledger.output import say
from warehouse.errors import LedgerError

if TYPE_CHECKING:
    from gpuledger.client import Client
    from gpuledger.documents import Applied

Url = Annotated[
    str, typer.Option("--url", envvar="GPULEDGER_URL", help="A server that holds the store, instead of --store.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="Holds the API token; or GPULEDGER_TOKEN does.", dir_okay=False),
]


def address(store: str, author: str = "") -> str:
    """The server that `--store` names; empty: it names a store. Errors: LedgerError for an author: the token tells."""
    if not store.startswith(("http://", "https://")):
        return ""
    if author:
        raise LedgerError("--author", "a server knows who you are by your token", "Leave it out")
    return store


def refuse_served(store: str) -> None:
    """Errors: LedgerError if another server holds the store, which is not for this one to serve."""
    if address(store):
        raise LedgerError(f"--store {store}", "a server holds it already", "Open that address, or give a store")


def apply(server: str, file: Path, what: str, put: Callable[[Client, str], Applied]) -> None:
    """Sends a file that is applied to the server and says what became of it. put: the client's method for it."""
    from warehouse.written_files import read_written

    text = read_written(file, what, f"It holds the {what}, YAML", LedgerError)
    with client(server) as opened:
        done = put(opened, text)
    say(f"{what} {done.version} is in force{'' if done.new else ' already'}")


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
