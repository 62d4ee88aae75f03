"""The way in: records from files, tables and pushes become rows of the store, each exactly once.

    files:   files ─▶ parquet_files | csv_files | json_files ─▶ pipeline ─▶ normalise ─▶ batches ─▶ write
    pushes:  wire ─▶ spool ─▶ deliver ──HTTP──▶ admission ─▶ receive ─▶ normalise ─▶ judge ─▶ coalesce ─▶ write
             (on the agent's node)              (on the server)                   └▶ quarantine, held

Owns:      reading files, the types and rules of the contract (`columns`, `normalise`), batches, writing them, and the
           quarantine; for pushes also who may send what (`senders`, `permissions`, `reviews`), which rows wait for
           approval (`issued_months`, `held`), and the agent's queue on disk (`spool`).
Owns not:  where records come from (collectors), the tables (warehouse), what the facts mean (billing).
Words:     *piece* = some rows as a reader found them; *batch* = a fixed number of rows in order, identified by a hash
           of its content, written completely or sent again; *reject* = a row that goes to quarantine, with a reason;
           *duplicate* = a row whose natural key is in the store or in the batch already.

A new file format is a reader beside `csv_files`, chosen in `files`; a new check of rows goes into `normalise` and, for
agents without pyarrow, into `check_rows`.

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
"""Imported on first use: an agent on a GPU node spools and delivers without pyarrow."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
