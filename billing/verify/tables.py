"""The tables that `verify` covers: where it notices any single changed, missing or duplicate row, and why not
elsewhere.

Every table of the store is in one of the two lists; a test checks that, and changes cells of the first.
"""

from __future__ import annotations

from collections.abc import Mapping

from warehouse.chain import CHAINED
from warehouse.sql import read_sql

IN_FORCE = read_sql(__file__, "in_force")
VOUCHED: Mapping[str, str] = {
    "ledger_entries": IN_FORCE,
    "energy_entries": IN_FORCE,
    "closed_hours": "",
    "allocations": "",
    "refused_claims": "",
    "chain_heads": "",
    **dict.fromkeys(CHAINED, ""),
}
"""By table, which of its rows: a condition, or '' for all of them."""
_FACT = (
    "a raw fact: invoice verify computes invoices again from them, and devices are compared with the ledger's capacity"
)
_INGEST = "ingest's own notes on facts, from which no document is computed"
_DERIVED = "computed from facts and ledger, and computed again whenever those change"
_SETTING = "a setting that changes no money"
NOT_VOUCHED: Mapping[str, str] = {
    **dict.fromkeys(("samples", "events", "devices", "service_levels", "metrics", "findings"), _FACT),
    **dict.fromkeys(
        (
            *(
                "ingest_batches",
                "recent_batches",
                "touched_hours",
                "stream_hours",
                "quarantine",
                "held_rows",
                "sender_days",
            ),
            *("pushed_points", "pushed_instants", "pushed_memory"),
        ),
        _INGEST,
    ),
    **dict.fromkeys(("slo_definitions", "slo_points", "slo_hours", "slo_measured"), _DERIVED),
    **dict.fromkeys(
        (
            "interference_versions",
            "interference_samples",
            "interference_hours",
            "interference_runs",
            "interference_baselines",
        ),
        _DERIVED,
    ),
    **dict.fromkeys(("slo_files", "alert_silences"), _SETTING),
    **dict.fromkeys(
        ("alert_transitions", "alert_evidence", "alert_runs", "alert_deliveries"),
        "the history of alerts, which are no money",
    ),
    "close_batches": "which facts each close read: invoice verify computes invoices again from these",
    "close_carried": "what a close need not read again; the tables that it computes from it are vouched for",
    "close_named": "when each close read facts, from which the next knows where to look for new ones",
    "ledger_days": "sums for pages, which no document is computed from; gpuledger ledger and invoices read the ledger",
    "summed_days": "says which of those sums hold; a day that is missing here is read from the ledger",
    "device_hours": "what was measured of devices, for pages; no part of the books, and made again of the samples",
    "turns": "whose turn it is among servers; gone an hour later",
    "schema_migrations": "which migrations were applied; a missing one is applied again",
}
