"""The door in: files and tables of records become rows of the store, each exactly once.

Owns:      reading files (`parquet_files`, `csv_files`, `json_files`), the contract's types and rules (`columns`,
           `normalise`), the cut into batches (`batches`), writing them (`write`), and the quarantine; the way in from
           elsewhere: `wire` (what travels), `spool` (what waits on a node's disk), `deliver` (sending it), `receive`.
Owns not:  where records come from (collectors), the tables (warehouse), what the facts mean (billing).
Words:     *piece* = some rows as a reader found them; *batch* = a fixed number of rows in order, identified by a hash
           of its content, written completely or sent again; *reject* = a row that goes to quarantine, with a reason;
           *duplicate* = a row whose natural key is in the store or in the batch already.

    with open_store(url) as store:
        report = ingest_file(store, SAMPLES, Path("samples.parquet"))
        report = ingest_tables(store, EVENTS, "slurm", tables)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ingest.errors import IngestError

if TYPE_CHECKING:
    from ingest.files import ingest_file
    from ingest.pipeline import ingest_tables
    from ingest.report import IngestReport

__all__ = ["IngestError", "IngestReport", "ingest_file", "ingest_tables"]

_LATER = {"ingest_file": "ingest.files", "ingest_tables": "ingest.pipeline", "IngestReport": "ingest.report"}
"""Imported when asked for: an agent on a GPU node spools and delivers without pyarrow."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
