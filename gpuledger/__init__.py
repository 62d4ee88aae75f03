"""Top floor: the command line, settings, and the processes put together.

Owns not: any decision. A command parses its arguments, calls one function of a lower floor and prints the answer.

    commands   one module a command, or a group of commands that belong together
    http       the HTTP server, and what strangers may cost it: connections, time, size
    kubectl    a plugin of kubectl: what its users ask of the books
    mcp        questions that an assistant asks of the books
"""

__version__ = "0.1.0"
