"""Reads Parquet by row group: the contract's columns only, texts as dictionaries if the file stores them so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.batches import BATCH_ROWS
from ingest.pieces import Piece, Reject, check_columns, check_time_type, piece_of
from ingest.text_files import RAW_BYTES, is_text
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
        first = 1
        for batch in read:
            if len(batch):
                yield _piece(pa.table(batch), first)
            first += len(batch)


def _piece(table: pa.Table, first: int) -> Piece:
    """A row with bytes that are not UTF-8 is rejected."""
    numbers = np.arange(first, first + len(table), dtype=np.int64)
    try:
        return piece_of(_as_texts(table), numbers)
    except pa.ArrowInvalid:
        pass  # row by row, to find which
    keep = np.ones(len(table), bool)
    bad = []
    for at, name in enumerate(table.column_names):
        kind = table.schema.field(name).type
        if not _is_text(kind) and not _is_bytes(kind):
            continue
        plain = table[name].cast(kind.value_type) if pa.types.is_dictionary(kind) else table[name]
        values = plain.cast(pa.binary()).to_pylist()
        for index, value in enumerate(values):
            if keep[index] and value is not None and not is_text(value):
                keep[index] = False
                raw = value[:RAW_BYTES].decode("utf-8", "backslashreplace")
                bad.append(Reject(int(numbers[index]), "bad_encoding", f"{name}: expected UTF-8", f"{name}: {raw}"))
        readable = [value if keep[index] else None for index, value in enumerate(values)]
        table = table.set_column(at, name, pa.array(readable, pa.binary()))
    rest = piece_of(_as_texts(table.filter(pa.array(keep))), numbers[keep])
    return replace(rest, rejects=sorted(bad, key=lambda reject: reject.row))


def _as_texts(table: pa.Table) -> pa.Table:
    """Bytes as text. Errors: pa.ArrowInvalid where they are none; Parquet's own texts need not be, either."""
    for at, name in enumerate(table.column_names):
        kind = table.schema.field(name).type
        if _is_bytes(kind):
            table = table.set_column(at, name, table[name].cast(pa.string()))
        elif pa.types.is_dictionary(kind) and _is_text(kind):
            for chunk in table[name].chunks:
                chunk.dictionary.validate(full=True)
        elif _is_text(kind):
            table[name].validate(full=True)
    return table


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def parquet_rows(path: Path) -> int:
    """How many rows the file says it has."""
    return int(pq.read_metadata(path).num_rows)
