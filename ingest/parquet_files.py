"""Parquet: the contract's columns of each row group, texts as dictionaries where the file has them so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.batches import BATCH_ROWS
from ingest.pieces import Piece, check_columns, check_time_type, table_pieces
from warehouse.records import RecordType


def parquet_pieces(record: RecordType, path: Path, found: set[str]) -> Iterator[Piece]:
    """The rows of the file. Adds the names of all its columns to `found`."""
    with pq.ParquetFile(path) as file:
        schema = file.schema_arrow
    check_columns(record, str(path), schema.names)
    check_time_type(str(path), schema.field("ts").type)
    found.update(schema.names)
    columns = [column.name for column in record.columns if column.name in schema.names]
    texts = [c.name for c in record.columns if c.name in columns and pa.types.is_string(schema.field(c.name).type)]
    with pq.ParquetFile(path, read_dictionary=texts, memory_map=True) as file:
        # One thread: the other core is writing.
        read = file.iter_batches(batch_size=BATCH_ROWS, columns=columns, use_threads=False)
        yield from table_pieces(record, str(path), (pa.table(batch) for batch in read))


def parquet_rows(path: Path) -> int:
    """How many rows the file says it has."""
    return int(pq.read_metadata(path).num_rows)
