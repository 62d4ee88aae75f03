"""One module a command (or a group of commands that belong together); each adds itself to `gpuledger.cli.app`."""

COMMANDS = (
    "init",
    "ingest",
    "doctor",
    "up",
    "rates",
    "tenants",
    "close",
    "ledger",
    "energy",
    "insights",
    "opencost",
    "invoice",
    "issued",
    "export",
    "replay",
    "credits",
    "budget",
)
