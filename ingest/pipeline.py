"""The pipeline from a reader to the store: validates and batches rows, and prepares the next batch while one is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import pyarrow as pa

from ingest.batches import batches
from ingest.errors import IngestError
from ingest.pieces import Piece, table_pieces
from ingest.prefetch import prefetch
from ingest.report import IngestReport
from ingest.write import write
from warehouse.records import RecordType
from warehouse.store import Store

Progress = Callable[[int], None]
"""Told after every batch how many more rows of the source are done."""


SOURCE_REJECTS = 1_000_000
"""Bad rows of one source, after which it is read no further."""


def ingest_tables(
    store: Store,
    record: RecordType,
    source: str,
    tables: Iterable[pa.Table],
    on_progress: Progress | None = None,
    now: datetime | None = None,
    sender: str = "",
) -> IngestReport:
    """Stores tables with the contract's columns, in order and in any chunking; the quarantine shows `source` as their
    origin, `sender` as who brought them.

    Ingesting the same rows again changes nothing. Errors: IngestError if a required column is missing or in a wrong
    unit.
    """
    return ingest_pieces(store, record, source, table_pieces(record, source, tables), on_progress, now, sender)


def ingest_pieces(
    store: Store,
    record: RecordType,
    source: str,
    pieces: Iterable[Piece],
    on_progress: Progress | None = None,
    now: datetime | None = None,
    sender: str = "",
) -> IngestReport:
    """Like `ingest_tables`, for the pieces of a reader."""
    report = IngestReport()
    for batch in prefetch(batches(record, source, pieces, now or datetime.now(UTC))):
        report += write(store, record, source, batch, sender)
        if (bad := sum(report.quarantined.values())) > SOURCE_REJECTS:
            raise IngestError(source, f"{bad:,} bad rows so far, more than {SOURCE_REJECTS:,}", "See gpuledger doctor")
        if on_progress is not None:
            on_progress(batch.rows)
    return report
