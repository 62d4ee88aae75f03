"""`gpuledger mcp`: the books for an assistant, read-only, over standard input and output."""

from __future__ import annotations

import typer

from gpuledger import options, remote
from warehouse.errors import LedgerError


def register(app: typer.Typer) -> None:
    app.command("mcp")(mcp)


def mcp(store: options.Store = "", token_file: remote.TokenFile = None) -> None:
    """Serve an assistant: ten read-only questions over MCP, on standard input and output.

    --store is a server's address, and the token decides what is seen.
    """
    url = remote.address(store)
    if not url:
        raise LedgerError(
            "mcp", "asks a server, not a store", "Start one (gpuledger up) and name it: --store http://127.0.0.1:8050"
        )
    try:
        from gpuledger.mcp.server import server
    except ModuleNotFoundError as error:
        raise LedgerError("mcp", f"{error.name} is not installed", "pip install 'gpuledger[mcp]'") from error
    with remote.client(url, token_file) as client:
        client.me()
        server(client).run("stdio")
