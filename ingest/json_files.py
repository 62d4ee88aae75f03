"""JSON lines, plain or compressed: one object a line; a line that is none is rejected."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic_core import from_json

from ingest.columns import CONVERSION_ERRORS
from ingest.errors import IngestError
from ingest.pieces import Piece, Reject, check_columns
from ingest.text_files import BOM, open_bytes, tail_of_whole
from warehouse.records import USABLE_STATES, RecordType

PIECE_LINES = 20_000


def json_pieces(record: RecordType, path: Path, found: set[str]) -> Iterator[Piece]:
    """The rows of the file; blank lines are no rows. Adds the names of all its columns to `found`."""
    tail_of_whole(path)
    with open_bytes(path) as file:
        lines = (stripped for line in file if (stripped := line.removeprefix(BOM).strip()))
        first = 1
        while chunk := list(islice(lines, PIECE_LINES)):
            if first == 1 and chunk[0].startswith(b"["):
                raise IngestError(
                    str(path), "a JSON array: expected one object a line", f"Convert it: jq -c '.[]' {path}"
                )
            yield _piece(record, path, chunk, first, found)
            first += len(chunk)


def _piece(record: RecordType, path: Path, lines: Sequence[bytes], first: int, found: set[str]) -> Piece:
    objects: list[dict[str, Any]] = []
    numbers, rejects = [], []
    for number, line in enumerate(lines, first):
        try:
            value = from_json(line)
            if not isinstance(value, dict):
                raise ValueError(f"{type(value).__name__}: expected an object")
        except ValueError as error:
            rejects.append(Reject(number, "bad_json", str(error), line.decode("utf-8", errors="backslashreplace")))
            continue
        objects.append(value)
        numbers.append(number)
    names = {name for value in objects for name in value}
    found |= names
    if first == 1 and objects:
        usable = any(value.get("state") in USABLE_STATES for value in objects)
        check_columns(record, str(path), sorted(names), utilization=usable)
    table = pa.table(
        {c.name: _column([v.get(c.name) for v in objects]) for c in record.columns if c.name in names}
        or {record.columns[0].name: pa.nulls(len(objects))}
    )

    def raw(index: int) -> str:
        return lines[numbers[index] - first].decode("utf-8", errors="backslashreplace")

    return Piece(table, np.array(numbers, np.int64), rejects, raw)


def _column(values: list[Any]) -> pa.Array:
    """Values of one kind as they are; a mixture as text, to be read value by value."""
    if not any(isinstance(value, dict | list) for value in values):
        try:
            return pa.array(values)
        except (*CONVERSION_ERRORS, OverflowError):
            pass
    return pa.array([_text(value) for value in values], pa.string())


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
