"""Reads CSV, plain or compressed: every column as text; rejects rows that do not split into the columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from ingest.errors import IngestError
from ingest.pieces import Piece, Reject, RowNumbers, check_columns, csv_line
from ingest.text_files import is_gzip, is_text, is_utf8, open_bytes, tail_of_whole
from warehouse.records import RecordType

CSV_BLOCK_BYTES = 4 << 20
"""Text parsed at a time; a single row must fit."""
BLOCK_REJECTS = 100_000
"""Rows of a block that do not split; with more, it is no such file."""
NAME_CHARACTERS = 10_000


def csv_pieces(record: RecordType, path: Path, found: set[str], block_bytes: int = CSV_BLOCK_BYTES) -> Iterator[Piece]:
    """The rows of the file; blank lines are no rows. Adds the names of all its columns to `found`."""
    tail = tail_of_whole(path)
    header, has_rows = _header(path)
    if any(len(name) > NAME_CHARACTERS for name in header):
        raise IngestError(str(path), "its first line has no column names", "Give a CSV file with a header")
    names = [name.strip() for name in header]
    if not names:
        return
    _refuse_other_text(record, path, names)
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
        try:
            header = next(rows, [])
        except csv.Error as error:
            raise IngestError(str(path), f"its first line has no column names ({error})", "Give a header") from error
        try:
            return header, next(rows, None) is not None
        except csv.Error:
            return header, True


def _refuse_other_text(record: RecordType, path: Path, names: Sequence[str]) -> None:
    """What spreadsheets write: UTF-16, and columns separated by semicolons or tabs. Other than ours, such a file
    has one column, with all names."""
    if names and all(not name.strip("\x00") for name in names):
        raise IngestError(str(path), "begins with zero bytes", "The disk lost what was in it: get a whole copy")
    if any("\x00" in name for name in names):
        raise IngestError(str(path), "is UTF-16 text", "Save it as CSV in UTF-8")
    if {column.name for column in record.columns} & {*names}:
        return
    for separator, name in ((";", "semicolons"), ("\t", "tabs")):
        if {*record.required} & {part.strip(' "') for part in separator.join(names).split(separator)}:
            raise IngestError(str(path), f"its columns are separated by {name}", "Save it as CSV with commas")


def _parsed(path: Path, header: list[str], names: list[str], block_bytes: int) -> Iterator[Piece]:
    rejects: list[Reject] = []
    # Arrow cannot tell us of a row that does not split and is not UTF-8: it refuses the file. As Latin-1 every file is
    # readable; what was not UTF-8 is found afterwards, row by row.
    odd = not is_utf8(path)
    found = _as_latin_1(path) if odd else header
    too_many = False

    def skip(row: pa_csv.InvalidRow) -> str:
        # Numbers are given only when one thread parses; the header is number 1.
        nonlocal too_many
        too_many = len(rejects) >= BLOCK_REJECTS
        detail = f"{row.actual_columns} fields: expected {row.expected_columns}"
        text = row.text.encode("latin-1").decode("utf-8", "backslashreplace") if odd else row.text
        rejects.append(Reject(row.number - 1, "bad_row", detail, text))
        return "error" if too_many else "skip"

    # Arrow's own reader of gzip stumbles over the zeros that may follow it.
    with open_bytes(path) as file, pa.input_stream(file if is_gzip(path) else path, compression=None) as stream:

        def reader() -> Iterator[pa.RecordBatch]:
            opened: Iterator[pa.RecordBatch] = pa_csv.open_csv(
                stream,
                read_options=pa_csv.ReadOptions(
                    use_threads=False, block_size=block_bytes, encoding="latin-1" if odd else "utf8"
                ),
                parse_options=pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=skip),
                convert_options=pa_csv.ConvertOptions(
                    # Bytes, because one text that is not UTF-8 would stop the file.
                    column_types=dict.fromkeys(found, pa.binary()),
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            return opened

        following = 1
        for batch in _batches(path, reader, lambda: too_many):
            numbers = _numbers(following, len(batch), {reject.row for reject in rejects})
            following = int(numbers[-1]) + 1 if len(numbers) else following
            due = [reject for reject in rejects if reject.row < following]
            rejects[:] = rejects[len(due) :]
            columns = [_from_latin_1(column) for column in batch.columns] if odd else batch.columns
            yield _decoded(pa.Table.from_arrays(columns, names=names), numbers, due)
        if rejects:
            empty = pa.table({name: pa.nulls(0) for name in names})
            yield Piece(empty, np.zeros(0, np.int64), list(rejects), _raw(empty))


def _batches(
    path: Path, reader: Callable[[], Iterator[pa.RecordBatch]], too_many: Callable[[], bool]
) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader()
    except pa.ArrowInvalid as error:
        if not too_many():
            raise
        what = f"more than {BLOCK_REJECTS:,} rows on end do not split into the header's columns"
        raise IngestError(str(path), what, "Check the separator: it is a comma") from error


def _as_latin_1(path: Path) -> list[str]:
    """The names as Arrow sees them when it takes the file for Latin-1."""
    with open_bytes(path) as file, io.TextIOWrapper(file, "latin-1", newline="") as text:
        return next((row for row in csv.reader(text) if row), [])


def _from_latin_1(column: pa.Array) -> pa.Array:
    """The bytes that stand in the file."""
    values = (value.decode().encode("latin-1") if value is not None else None for value in column.to_pylist())
    return pa.array(values, pa.binary())


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
            if keep[index] and value is not None and not is_text(value):
                keep[index] = False
                bad.append(Reject(int(numbers[index]), "bad_encoding", f"{name}: expected UTF-8", _raw(table)(index)))
    rejects = sorted([*rejects, *bad], key=lambda reject: reject.row)
    return _decoded(table.filter(pa.array(keep)), numbers[keep], rejects)


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
