"""Arrow tables with a record type's columns, from numpy arrays and plain sequences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from warehouse.records import ColumnType, RecordType

Records = Iterator[tuple[RecordType, pa.Table]]
"""What every source yields: devices first, then events, then samples in time order."""

TABLE_ROWS = 500_000
"""About how many rows a table has at most."""

_TYPES: Mapping[ColumnType, pa.DataType] = {
    "time": pa.timestamp("ms", "UTC"),
    "float": pa.float64(),
    "uint": pa.uint64(),
    "int": pa.int64(),
    "text": pa.string(),
    "bool": pa.bool_(),
}


def schema(record: RecordType) -> pa.Schema:
    return pa.schema([pa.field(column.name, _TYPES[column.type]) for column in record.columns])


def table(record: RecordType, rows: int, columns: Mapping[str, Any]) -> pa.Table:
    """A table of all of the record's columns; one that is not given is null, text is empty.

    A time is int64 milliseconds since the epoch. A plain value stands for a whole column, NaN for unknown.
    """
    unknown = set(columns) - {column.name for column in record.columns}
    if unknown:
        raise ValueError(f"{record.name} has no {', '.join(sorted(unknown))}")
    fields = schema(record)
    arrays = [
        _array(columns.get(field.name, "" if field.type == pa.string() else None), field.type, rows) for field in fields
    ]
    return pa.table(arrays, schema=fields)


def words(codes: np.ndarray, vocabulary: Sequence[str]) -> pa.Array:
    """Text of codes that index into a vocabulary."""
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(vocabulary, pa.string())).cast(
        pa.string()
    )


def _array(values: Any, kind: pa.DataType, rows: int) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, np.ndarray):
        if kind == pa.float64():
            return pa.array(values, kind, from_pandas=True)  # NaN is unknown
        if pa.types.is_timestamp(kind):
            return pa.array(values.astype(np.int64), pa.int64()).cast(kind)
        return pa.array(values, kind)
    if values is None:
        return pa.nulls(rows, kind)
    if isinstance(values, str | int | float):
        return pa.repeat(pa.scalar(values, kind), rows)
    return pa.array(values, kind)
