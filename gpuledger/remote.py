"""Commands that ask a server instead of opening the store: `--url`, with a token from a file or the environment."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from warehouse.errors import LedgerError

if TYPE_CHECKING:
    from gpuledger.client import Client

Url = Annotated[
    str, typer.Option("--url", envvar="GPULEDGER_URL", help="A server that holds the store, instead of --store.")
]
TokenFile = Annotated[
    Path | None,
    typer.Option("--token-file", help="Holds the API token; or GPULEDGER_TOKEN does.", dir_okay=False),
]


@contextlib.contextmanager
def client(url: str, token_file: Path | None) -> Iterator[Client]:
    """A client of the server at the URL."""
    from gpuledger.client import Client

    with Client(url, token(token_file)) as opened:
        yield opened


def token(token_file: Path | None) -> str:
    """The token of the file, or of the environment. Errors: LedgerError if the file cannot be read."""
    if token_file is None:
        return os.environ.get("GPULEDGER_TOKEN", "")
    try:
        return token_file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(f"--token-file {token_file}", f"cannot be read ({error})", "It holds an API token") from error
