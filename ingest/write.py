"""A batch into the store: rows, rejects and, last, the acknowledgement.

Killed anywhere, the batch has no acknowledgement; sent again it is the same batch under the same token, and the
engine adds exactly what is missing, in the table and in the targets of its views. For that the rows of a batch must
always be the same ones: rows that other batches have brought already are written again (the table collapses them)
and only *counted* as duplicates.
"""

from __future__ import annotations

from collections import Counter
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.batches import Batch
from ingest.report import IngestReport
from warehouse.records import RecordType
from warehouse.store import Store, identifier, read_sql

ONE_BLOCK = {
    "max_insert_threads": 1,
    "min_insert_block_size_rows": 1_000_000_000,
    "min_insert_block_size_bytes": 1_000_000_000_000,
    "max_partitions_per_insert_block": 0,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "optimize_on_insert": 1,
}
"""A batch is one block: the engine numbers blocks under a token, and which rows fall in which of several is chance."""


def write(store: Store, record: RecordType, source: str, batch: Batch) -> IngestReport:
    """Writes a batch unless it was written completely before; says what became of its rows."""
    reasons = dict(Counter(reject.reason for reject in batch.rejects))
    about = {"record_type": record.name, "batch": batch.id}
    if store.rows(read_sql(__file__, "batch_done"), about):
        return IngestReport(batch.rows, 0, len(batch.table), reasons)
    written = 0
    if len(batch.table):
        with store.staged(batch.table) as staged:
            written = _new_keys(store, record, batch, staged)
            _insert(store, record.name, batch, staged)
    if batch.rejects:
        _quarantine(store, record, source, batch)
    duplicate = len(batch.table) - written
    store.command(
        read_sql(__file__, "acknowledge_batch"),
        {
            **about,
            "source": source,
            "first_row": batch.first_row,
            "rows_read": batch.rows,
            "rows_written": written,
            "duplicates": duplicate,
            "quarantined": len(batch.rejects),
        },
    )
    return IngestReport(batch.rows, written, duplicate, reasons)


def _new_keys(store: Store, record: RecordType, batch: Batch, staged: str) -> int:
    """How many natural keys of the batch no other batch has brought."""
    texts = {
        "table": identifier(record.name),
        "key": ", ".join(identifier(name) for name in record.key),
        "subject": identifier(record.key[1]),
        "staged": staged,
    }
    span = pc.min_max(batch.table["ts"])
    params: dict[str, Any] = {"batch": batch.id, "first_at": span["min"].as_py(), "last_at": span["max"].as_py()}
    (row,) = store.rows(_filled("count_batch", texts), params)
    if not row["nearby"]:
        return int(row["keys"])
    params |= {"first_at": row["earliest"], "last_at": row["latest"]}
    return int(row["keys"]) - int(store.value(_filled("known_keys", texts), params))


def _insert(store: Store, table: str, batch: Batch, staged: str) -> None:
    columns = ", ".join(identifier(name) for name in batch.table.column_names)
    sql = _filled("insert_batch", {"table": identifier(table), "columns": columns, "staged": staged})
    token = f"{table}-{batch.id:016x}"
    store.command(sql, {"batch": batch.id}, {**ONE_BLOCK, "insert_deduplication_token": token})


def _quarantine(store: Store, record: RecordType, source: str, batch: Batch) -> None:
    rejects = batch.rejects
    table = pa.table(
        {
            "record_type": [record.name] * len(rejects),
            "source": [source] * len(rejects),
            "row": pa.array([reject.row for reject in rejects], pa.uint64()),
            "reason": [reject.reason for reject in rejects],
            "detail": [_storable(reject.detail) for reject in rejects],
            "raw": [_storable(reject.raw) for reject in rejects],
        }
    )
    quarantined = Batch(batch.id, batch.first_row, len(rejects), table, ())
    with store.staged(table) as staged:
        _insert(store, "quarantine", quarantined, staged)


def _storable(text: str) -> str:
    """Text that has a UTF-8 form, whatever a reader let through."""
    return text.encode("utf-8", errors="backslashreplace").decode()


def _filled(name: str, texts: dict[str, str]) -> str:
    return Template(read_sql(__file__, name)).substitute(texts)
