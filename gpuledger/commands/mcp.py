"""`gpuledger mcp`: an MCP server for an assistant's questions about the books, on standard input and output."""

from __future__ import annotations

import typer

from gpuledger import options
from gpuledger.books import TokenFile, client, served
from warehouse.errors import LedgerError


def register(app: typer.Typer) -> None:
    app.command("mcp")(mcp)


def mcp(store: options.Store = "", token_file: TokenFile = None) -> None:
    """Serve an assistant: read-only questions over MCP, on standard input and output.

    --store is a server's address, and the token decides what is seen.
    """
    if not served(store):
        raise LedgerError(
            "mcp", "asks a server, not a store", "Start one (gpuledger up) and name it: --store http://127.0.0.1:8050"
        )
    try:
        from gpuledger.mcp.server import server
    except ModuleNotFoundError as error:
        raise LedgerError("mcp", f"{error.name} is not installed", "pip install 'gpuledger[mcp]'") from error
    with client(store, token_file) as asked:
        asked.me()
        server(asked).run("stdio")
