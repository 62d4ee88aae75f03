"""The top floor: the command line, the typed API client, and the server processes.

Decides nothing: a command parses its arguments, calls a function of a lower floor and prints the result.

    commands   one module per command or group of related commands
    http       the HTTP server and its limits on connections, time and size
    kubectl    a plugin of kubectl: what its users ask of the books
    mcp        a read-only MCP server: an assistant's questions about the books

What commands share: books.py (open a store, or reach the server that holds it), destinations.py (where records go),
options.py, output.py (tables, JSON, CSV) and steps.py (progress and interruption). client.py is the typed client of the
HTTP API and documents.py its models, which `api` shares. serve.py is the server process.
"""

__version__ = "0.1.0"
