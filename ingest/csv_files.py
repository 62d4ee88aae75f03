"""CSV, plain or compressed: every column as text, every row that does not split into the header's columns rejected."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from ingest.pieces import Piece, Reject, RowNumbers, check_columns, csv_line
from ingest.text_files import is_gzip, open_bytes, tail_of_whole
from warehouse.records import RecordType

CSV_BLOCK_BYTES = 4 << 20
"""Text parsed at a time; a single row must fit."""


def csv_pieces(record: RecordType, path: Path, found: set[str], block_bytes: int = CSV_BLOCK_BYTES) -> Iterator[Piece]:
    """The rows of the file; blank lines are no rows. Adds the names of all its columns to `found`."""
    tail = tail_of_whole(path)
    header, has_rows = _header(path)
    names = [name.strip() for name in header]
    if not names:
        return
    check_columns(record, str(path), names)
    found.update(names)
    if not has_rows:
        return
    waiting: Piece | None = None
    for piece in _parsed(path, header, names, block_bytes):
        if waiting is not None:
            yield waiting
        waiting = piece
    if waiting is not None:
        yield _without_open_quote(waiting, tail)


def _header(path: Path) -> tuple[list[str], bool]:
    """The names in the first line that is not blank, as written, and whether a row follows."""
    with open_bytes(path) as file, io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="") as text:
        rows = (row for row in csv.reader(text) if row)
        header = next(rows, [])
        try:
            return header, next(rows, None) is not None
        except csv.Error:
            return header, True


def _parsed(path: Path, header: list[str], names: list[str], block_bytes: int) -> Iterator[Piece]:
    rejects: list[Reject] = []

    def skip(row: pa_csv.InvalidRow) -> str:
        # Numbers are given only when one thread parses; the header is number 1.
        detail = f"{row.actual_columns} fields: expected {row.expected_columns}"
        rejects.append(Reject(row.number - 1, "bad_row", detail, row.text))
        return "skip"

    with pa.input_stream(path, compression="gzip" if is_gzip(path) else None) as stream:
        reader = pa_csv.open_csv(
            stream,
            read_options=pa_csv.ReadOptions(use_threads=False, block_size=block_bytes),
            parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
            convert_options=pa_csv.ConvertOptions(
                # Bytes, because one text that is not UTF-8 would stop the file.
                column_types=dict.fromkeys(header, pa.binary()),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
        following = 1
        for batch in reader:
            numbers = _numbers(following, len(batch), {reject.row for reject in rejects})
            following = int(numbers[-1]) + 1 if len(numbers) else following
            due = [reject for reject in rejects if reject.row < following]
            rejects[:] = rejects[len(due) :]
            yield _decoded(pa.Table.from_arrays(batch.columns, names=names), numbers, due)
        if rejects:
            empty = pa.table({name: pa.nulls(0) for name in names})
            yield Piece(empty, np.zeros(0, np.int64), list(rejects), _raw(empty))


def _numbers(first: int, count: int, rejected: set[int]) -> RowNumbers:
    """The next `count` row numbers that were not rejected."""
    if not rejected:
        return np.arange(first, first + count, dtype=np.int64)
    numbers = np.arange(first, first + count + len(rejected), dtype=np.int64)
    return numbers[~np.isin(numbers, list(rejected))][:count]


def _decoded(table: pa.Table, numbers: RowNumbers, rejects: Sequence[Reject]) -> Piece:
    """Bytes as text; a row with bytes that are not UTF-8 is rejected."""
    try:
        text = table.cast(pa.schema([(name, pa.string()) for name in table.column_names]))
        return Piece(text, numbers, rejects, _raw(text))
    except pa.ArrowInvalid:
        pass
    keep = np.ones(len(table), bool)
    bad = []
    for name, column in zip(table.column_names, table.columns, strict=True):
        for index, value in enumerate(column.to_pylist()):
            if keep[index] and value is not None and not _is_utf8(value):
                keep[index] = False
                bad.append(Reject(int(numbers[index]), "bad_encoding", f"{name}: expected UTF-8", _raw(table)(index)))
    rejects = sorted([*rejects, *bad], key=lambda reject: reject.row)
    return _decoded(table.filter(pa.array(keep)), numbers[keep], rejects)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _raw(table: pa.Table) -> Callable[[int], str]:
    def raw(index: int) -> str:
        values = (column[index].as_py() for column in table.columns)
        return csv_line(v.decode("utf-8", errors="backslashreplace") if isinstance(v, bytes) else v for v in values)

    return raw


def _without_open_quote(piece: Piece, tail: bytes) -> Piece:
    """A quote that is never closed swallows the rest of the file into the last value of the last row."""
    last = len(piece.table) - 1
    if last < 0 or tail.rstrip(b"\r\n").endswith(b'"') or "\n" not in (piece.table.columns[-1][last].as_py() or ""):
        return piece
    number = int(piece.numbers[last])
    reject = Reject(number, "bad_row", "a quote is opened and never closed", piece.raw(last))
    rejects = sorted([*piece.rejects, reject], key=lambda reject: reject.row)
    return Piece(piece.table.slice(0, last), piece.numbers[:last], rejects, piece.raw)
