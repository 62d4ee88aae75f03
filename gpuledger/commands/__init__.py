"""One module per command, or per group of related commands; its `register` adds them to the app.

`COMMANDS` maps each command to its modules, so that a module is imported only when its command is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Entry(NamedTuple):
    """A line of `gpuledger --help`.   modules: those that register the command, in `gpuledger.commands`."""

    panel: str
    help: str
    modules: tuple[str, ...]


_PANELS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "Daily work": {
        "close": ("Compute the ledger of the hours whose facts or prices changed.",),
        "verify": ("Prove that the books balance; exit 1 names what does not.", "close"),
        "ledger": ("GPU-hours and cost of the closed hours, by any dimension.",),
        "efficiency": ("How well allocations were used, and what waste cost.", "insights"),
        "changes": ("What changed in the cost since the period before, and why.", "insights"),
        "savings": ("How to run for less, with the evidence and the amount.", "insights"),
        "anomalies": ("Days that cost more or less than expected.", "insights"),
        "energy": ("kWh and kgCO2e; carbon intensity of the grid.",),
        "allocation": ("Costs by namespace, pod or label, as OpenCost has them.", "opencost"),
        "alerts": ("Alerts that are firing, and why; rules, silences, history.",),
        "slo": ("Service level objectives: apply, status, credits.",),
        "interference": ("Interference on shared GPUs: victims and aggressors.",),
        "sql": ("Query the views and tables in SQL; read-only.",),
        "queries": ("Saved queries: list, show, save, delete.",),
        "mcp": ("Answer an assistant's questions from the books; read-only.",),
    },
    "Money": {
        "rates": ("Prices: apply a rate card, list, compare, look back.",),
        "tenants": ("Who pays: a mapping; and tenants' quotas in Kubernetes.", "tenants", "tenancy"),
        "budget": ("Budgets: apply a file, list it, see how a month stands.",),
        "credits": ("Credits on a month's draft; prepaid balances.",),
        "invoice": ("Draft, issue, show, explain and correct invoices.", "invoice", "parties", "issued"),
        "export": ("The books as files for other systems (FOCUS).",),
        "report": ("A tenant's week or month by mail.",),
        "audit": ("Who changed what, when, why and from which inputs.", "invoice", "parties", "issued"),
    },
    "Sources": {
        "ingest": ("Read files into the store; bad rows go to quarantine.",),
        "held": ("Pushed rows that wait for a person: show, accept, refuse.",),
        "agent": ("Measure this node's GPUs and deliver, until Ctrl-C.",),
        "exporter": ("What an exporter reports on its devices, and what is lost.",),
        "watch": ("Follow Kubernetes or Slurm: who was given which GPUs.",),
        "replay": ("Replay a public cluster trace.",),
    },
    "Scheduler": {
        "scheduler": ("The reference scheduler: run it, or ask one that runs.",),
        "simulate": ("What would happen: jobs on the reference scheduler.",),
        "acceptance": ("Run loads alone and side by side, and judge them.",),
    },
    "People": {
        "users": ("Local users, people of single sign-on, service accounts.",),
        "tokens": ("API tokens: make, list, revoke.",),
    },
    "Operations": {
        "init": ("Create the store, or upgrade its schema.",),
        "doctor": ("The state of the store, its senders and its quarantine.",),
        "backup": ("Copy a store into a folder, bucket or disk.",),
        "restore": ("Make a store of a backup.", "backup"),
        "retention": ("How long rows are kept, and the removal of old ones.",),
        "up": ("Serve one store: pages, hourly close, alerts, until Ctrl-C.",),
        "server": ("The same, and take in what agents push.",),
    },
}
"""The groups of `--help`: a line of at most 60 characters for each command, and its modules if their names differ from
the command's."""

COMMANDS: Mapping[str, Entry] = {
    name: Entry(panel, help, tuple(modules) or (name,))
    for panel, commands in _PANELS.items()
    for name, (help, *modules) in commands.items()
}
