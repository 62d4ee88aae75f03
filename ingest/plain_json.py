"""JSON lines as nearly all senders write them, read at once; the reader of any JSON (json_files) does the same slowly.

Plain: on every line one flat object, without escapes, of the contract's columns alone, none twice, with values of the
column's own kind and no nulls. Then Arrow's reader finds what Python's does.

Trap: on some JSON Arrow's reader ends the process (a line that says null), on some it finds other rows than there are
lines. Hence the text is looked at first: what passes is braces at the ends of lines, names, numbers, plain strings.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyarrow import json as arrow_json
from pydantic_core import from_json

from ingest.text_files import ROW_BYTES, is_text
from warehouse.records import RECORD_TYPES, Column, ColumnType, RecordType

MOST_BYTES = 1 << 30
"""Arrow counts the bytes of a block in 32 bits."""
_SPACE, _QUOTE, _BRACKET, _BACKSLASH, _OPEN, _CLOSE = (ord(mark) for mark in ' "[\\{}')
_NEWLINE = ord("\n")
_TYPES: dict[ColumnType, pa.DataType] = {
    "time": pa.string(),
    "text": pa.string(),
    "float": pa.float64(),
    "uint": pa.uint64(),
    "int": pa.int64(),
    "bool": pa.bool_(),
}
_KINDS: dict[ColumnType, tuple[type, ...]] = {
    "time": (str,),
    "text": (str,),
    "float": (float, int),
    "uint": (int,),
    "int": (int,),
    "bool": (bool,),
}
_KINDS_OF = {name: {column.name: _KINDS[column.type] for column in of.columns} for name, of in RECORD_TYPES.items()}


def looks_plain(record: RecordType, text: bytes) -> bool:
    """Whether lines are likely to be plain: a quick look, since one sender's are nearly always alike."""
    if b"\\" in text or b"[" in text or b"null" in text:
        return False
    end = text.find(b"\n")
    try:
        first = from_json(text[:end] if end >= 0 else text)
    except ValueError:
        return False
    kinds = _KINDS_OF[record.name]
    return isinstance(first, dict) and all(type(value) in kinds.get(name, ()) for name, value in first.items())


def plain_rows(record: RecordType, text: bytes, lines: int) -> pa.Table | None:
    """The rows of so many lines, of each column that any of them has; None if they are not plain.

    text: the lines with a newline between two of them.
    """
    if not lines or len(text) > MOST_BYTES or not _may_be_plain(text, lines):
        return None
    schema = pa.schema([(column.name, _TYPES[column.type]) for column in record.columns])
    try:
        table = arrow_json.read_json(
            pa.BufferReader(text),
            arrow_json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None
    columns = [column for column in record.columns if table[column.name].null_count < len(table)]
    if len(table) != lines or not _is_all(text, columns, table) or _has_negative_zero(columns, table):
        return None
    return table.select([column.name for column in columns])


def _may_be_plain(text: bytes, lines: int) -> bool:
    """Whether each line begins with its only { and ends with its only }, and the text has neither brackets, escapes nor
    control characters. Then no value can reach from one line into the next, and no line have two."""
    marks = np.frombuffer(text, np.uint8)
    ends = np.flatnonzero(marks < _SPACE)
    if len(ends) != lines - 1 or marks[0] != _OPEN or marks[-1] != _CLOSE:
        return False
    edges = np.concatenate(([-1], ends, [len(marks)]))
    return bool(
        np.diff(edges).max() <= ROW_BYTES
        and (marks[ends] == _NEWLINE).all()
        and (marks[ends - 1] == _CLOSE).all()
        and (marks[ends + 1] == _OPEN).all()
        and np.count_nonzero(marks == _OPEN) == lines
        and np.count_nonzero(marks == _CLOSE) == lines
        and not np.count_nonzero(marks == _BRACKET)
        and not np.count_nonzero(marks == _BACKSLASH)
        and (text.isascii() or is_text(text))
    )


def _is_all(text: bytes, columns: list[Column], table: pa.Table) -> bool:
    """Whether the text has no key beside the ones found: without escapes, a quote begins or ends a key or a string."""
    found = 0
    for column in columns:
        values = len(table) - table[column.name].null_count
        found += 2 * values if _TYPES[column.type] == pa.string() else values
    return bool(np.count_nonzero(np.frombuffer(text, np.uint8) == _QUOTE) == 2 * found)


def _has_negative_zero(columns: list[Column], table: pa.Table) -> bool:
    """A number that says -0 is a whole one to Python's reader, which has no negative zero."""
    for column in columns:
        if column.type == "float":
            values = table[column.name].chunk(0).to_numpy(zero_copy_only=False)
            if (np.signbit(values) & (values == 0)).any():
                return True
    return False
