"""Rows in order -> batches of a fixed number of rows, each identified by its content alone.

The same source gives the same batches whatever the size of the reader's pieces, so that a batch which a kill cut
short is sent again under the same token and completes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.columns import one_array
from ingest.errors import IngestError
from ingest.normalise import Clean, Excess, expected, normalise
from ingest.pieces import Piece, Reject
from warehouse.records import Column, RecordType

BATCH_ROWS = 500_000
"""Rows of a batch, good and bad."""


@dataclass(frozen=True)
class Batch:
    """id: hash of the record type, the good rows and the rejects.   first_row: number in the source.

    table: the good rows. Columns outside the natural key that say nothing (all null, all empty) are left out, the
    store's defaults say the same.   ignored: columns of the source that no contract knows.
    """

    id: int
    first_row: int
    rows: int
    table: pa.Table
    rejects: Sequence[Reject]


def batches(record: RecordType, source: str, pieces: Iterable[Piece], now: datetime) -> Iterator[Batch]:
    """Cuts after every `BATCH_ROWS` rows of the source.

    Errors: IngestError if the first batch shows that a column is in another unit.
    """
    boundary = BATCH_ROWS
    cleans: list[Clean] = []

    def assembled() -> Batch:
        if boundary == BATCH_ROWS:
            refuse_wrong_unit(record, source, cleans)
        return assemble(record, source, boundary - BATCH_ROWS + 1, cleans)

    for piece in pieces:
        while piece.last > boundary:
            cleans.append(normalise(record, piece.until(boundary), now))
            piece = piece.after(boundary)
            yield assembled()
            cleans = []
            boundary += BATCH_ROWS
        cleans.append(normalise(record, piece, now))
        if piece.last == boundary:
            yield assembled()
            cleans = []
            boundary += BATCH_ROWS
    if any(clean.rows for clean in cleans):
        yield assembled()


def refuse_wrong_unit(record: RecordType, source: str, cleans: Sequence[Clean]) -> None:
    """Refuses a source if more than half of a bounded column's values, zeros aside, are above its maximum."""
    for column in record.columns:
        excess = sum((clean.excess[column.name] for clean in cleans if column.name in clean.excess), Excess(0, 0, 0.0))
        if excess.above * 2 > excess.counted:
            raise IngestError(
                source, f"{column.name} of {excess.example:g}: expected {expected(column)}", _unit_advice(column)
            )


def _unit_advice(column: Column) -> str:
    if column.maximum == 1:
        return "It looks like percent: divide by 100"
    return "It looks like another unit: convert it to seconds" if column.name.endswith("_seconds") else "Convert it"


def assemble(record: RecordType, source: str, first_row: int, cleans: Sequence[Clean]) -> Batch:
    """Rows that were looked at already, as one batch."""
    table = pa.concat_tables(_reunited(cleans))
    rejects = [reject for clean in cleans for reject in clean.rejects]
    digest = hashlib.blake2b(record.name.encode(), digest_size=8)
    arrays, fields = [], []
    for column in record.columns:
        array = one_array(table[column.name])
        if column.type == "text":
            array = _canonical(array)
        has_values = _has_values(column, array)
        if has_values:
            digest.update(b"\0" + column.name.encode() + b"\0")
            _hash(digest, array)
        if has_values or column.name in record.key:
            arrays.append(array)
            fields.append(pa.field(column.name, array.type, nullable=bool(array.null_count)))
    for reject in rejects:
        digest.update(repr((source, reject.row, reject.reason, reject.raw)).encode())
    return Batch(
        int.from_bytes(digest.digest(), "little"),
        first_row,
        sum(clean.rows for clean in cleans),
        pa.table(arrays, schema=pa.schema(fields)),
        rejects,
    )


def _reunited(cleans: Sequence[Clean]) -> list[pa.Table]:
    """The tables; of those that lie side by side in a larger one, its slice: hundreds cost more than their rows."""
    tables: list[pa.Table] = []
    end: tuple[int, int] | None = None
    for clean in cleans:
        start = (id(clean.whole), clean.start)
        if clean.whole is not None and start == end:
            rows = len(tables[-1])
            tables[-1] = clean.whole.slice(clean.start - rows, rows + len(clean.table))
        else:
            tables.append(clean.table)
        end = (id(clean.whole), clean.start + len(clean.table))
    return tables


def _canonical(texts: pa.DictionaryArray) -> pa.DictionaryArray:
    """The same texts with the dictionary in order of first appearance and nothing else in it."""
    used = pc.unique(texts.indices)
    if len(used) == len(texts.dictionary) and used.equals(pa.array(np.arange(len(used), dtype=np.int32))):
        return texts
    order = used.to_numpy()
    position = np.zeros(len(texts.dictionary), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(position[texts.indices.to_numpy()]), texts.dictionary.take(used))


def _has_values(column: Column, array: pa.Array) -> bool:
    if column.type == "text":
        return bool(array.dictionary.to_pylist() not in ([], [""]))
    return bool(array.null_count < len(array))


def _hash(digest: hashlib.blake2b, array: pa.Array) -> None:
    """Adds the values, independent of how Arrow happens to lay them out."""
    if pa.types.is_dictionary(array.type):
        digest.update("\0".join(array.dictionary.to_pylist()).encode())
        array = array.indices
    if array.null_count:
        digest.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
        array = array.fill_null(False if pa.types.is_boolean(array.type) else 0)
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    digest.update(np.ascontiguousarray(array.to_numpy(zero_copy_only=False)).data)
