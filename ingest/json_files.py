"""JSON lines, plain or compressed: one object per line; other lines are rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic_core import from_json

from ingest.columns import CONVERSION_ERRORS
from ingest.errors import IngestError
from ingest.pieces import Piece, Reject, RowNumbers, check_columns
from ingest.plain_json import looks_plain, plain_rows
from ingest.text_files import BOM, RAW_BYTES, ROW_BYTES, open_bytes, tail_of_whole, whole_lines
from warehouse.json_text import duplicate_key, keys_surely_unique
from warehouse.records import USABLE_STATES, Column, ColumnType, RecordType

PIECE_LINES = 20_000


def json_pieces(record: RecordType, path: Path, found: set[str]) -> Iterator[Piece]:
    """The rows of the file; blank lines are no rows. Adds the names of all its columns to `found`."""
    tail_of_whole(path)
    with open_bytes(path) as file:
        lines = (stripped for line in whole_lines(file) if (stripped := line.removeprefix(BOM).strip()))
        first = 1
        while chunk := list(islice(lines, PIECE_LINES)):
            if first == 1 and chunk[0].startswith(b"["):
                raise IngestError(
                    str(path), "a JSON array: expected one object a line", f"Convert it: jq -c '.[]' {path}"
                )
            yield _piece(record, path, chunk, first, found)
            first += len(chunk)


def _piece(record: RecordType, path: Path, lines: Sequence[bytes], first: int, found: set[str]) -> Piece:
    piece, names, usable = lines_piece(record, lines, first)
    found |= names
    if first == 1 and len(piece.numbers):
        check_columns(record, str(path), sorted(names), utilization=usable)
    return piece


def lines_piece(record: RecordType, lines: Sequence[bytes], first: int = 1) -> tuple[Piece, set[str], bool]:
    """Lines of JSON, none blank, numbered from `first`; the names that occur, and whether any row's state is usable."""

    def raw(index: int) -> str:
        return lines[int(numbers[index]) - first].decode("utf-8", errors="backslashreplace")

    numbers = np.arange(first, first + len(lines), dtype=np.int64)
    plain = _plain(record, lines)
    if plain is not None:
        usable = "state" in plain.column_names and pc.any(pc.is_in(plain["state"], pa.array(USABLE_STATES))).as_py()
        return Piece(plain, numbers, (), raw), set(plain.column_names), bool(usable)
    objects, numbers, rejects = _objects(lines, first)
    names = set[str]().union(*objects)
    values = {
        column.name: [found.get(column.name) for found in objects] for column in record.columns if column.name in names
    }
    usable = any(state in USABLE_STATES for state in values.get("state", ()))
    table = pa.table(
        {column.name: _column(column, values[column.name]) for column in record.columns if column.name in values}
        or {record.columns[0].name: pa.nulls(len(objects))}
    )
    return Piece(table, numbers, rejects, raw), names, usable


def _plain(record: RecordType, lines: Sequence[bytes]) -> pa.Table | None:
    text = b"\n".join(lines)
    return plain_rows(record, text, len(lines)) if looks_plain(record, text) else None


def _objects(lines: Sequence[bytes], first: int) -> tuple[list[dict[str, Any]], RowNumbers, list[Reject]]:
    """The lines' objects, the numbers of those lines, and the rejected ones."""
    try:
        values: list[Any] = [from_json(line) if len(line) <= ROW_BYTES else None for line in lines]
        if set(map(type, values)) <= {dict} and keys_surely_unique(b",".join(lines), sum(map(len, values))):
            return values, np.arange(first, first + len(values), dtype=np.int64), []
    except ValueError:
        pass  # one by one, to find which
    objects: list[dict[str, Any]] = []
    numbers, rejects = [], []
    for number, line in enumerate(lines, first):
        if len(line) > ROW_BYTES:
            detail = f"a row of more than {ROW_BYTES} bytes"
            rejects.append(
                Reject(number, "row_too_large", detail, line[:RAW_BYTES].decode("utf-8", "backslashreplace"))
            )
            continue
        try:
            value = from_json(line)
            if not isinstance(value, dict):
                raise ValueError(f"{type(value).__name__}: expected an object")
            if not keys_surely_unique(line, len(value)) and (twice := duplicate_key(line)):
                raise ValueError(twice)
        except ValueError as error:
            rejects.append(Reject(number, "bad_json", str(error), line.decode("utf-8", errors="backslashreplace")))
            continue
        objects.append(value)
        numbers.append(number)
    return objects, np.array(numbers, np.int64), rejects


def _column(column: Column, values: Sequence[Any]) -> pa.Array:
    """A column of values of one type as it is; mixed types as text, to be parsed value by value."""
    kinds = set(map(type, values)) - {type(None)}
    kind, of = _AS_THEY_ARE[column.type]
    if {dict, list}.isdisjoint(kinds):
        try:
            # Told the type, Arrow need not look through the values first.
            return pa.array(values, kind if kinds and kinds <= of else None)
        except (*CONVERSION_ERRORS, OverflowError):
            pass
    return pa.array([_text(value) for value in values], pa.string())


_AS_THEY_ARE: dict[ColumnType, tuple[pa.DataType, set[type]]] = {
    "time": (pa.string(), {str}),
    "text": (pa.string(), {str}),
    "float": (pa.float64(), {float}),
    "uint": (pa.int64(), {int}),
    "int": (pa.int64(), {int}),
    "bool": (pa.bool_(), {bool}),
}
"""Of JSON's values that are all of one kind."""


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
