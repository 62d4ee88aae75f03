"""The common result of all readers: rows as read, with their row numbers and raw text, and the rejected ones."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import IngestError
from warehouse.records import RecordType

RowNumbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Reject:
    """A row for the quarantine. row: its number in the source, from 1, header not counted."""

    row: int
    reason: str
    detail: str
    raw: str


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a source, in order.

    table: columns as read, of any type.   numbers: row numbers, ascending.   rejects: rows between them that could not
    be split into columns, ascending.   raw: returns the text of the i-th row of the table.
    """

    table: pa.Table
    numbers: RowNumbers
    rejects: Sequence[Reject]
    raw: Callable[[int], str]

    def until(self, last: int) -> Piece:
        """The rows numbered up to `last`."""
        cut = int(np.searchsorted(self.numbers, last, side="right"))
        if cut == len(self.numbers) and (not self.rejects or self.rejects[-1].row <= last):
            return self
        return Piece(self.table.slice(0, cut), self.numbers[:cut], [r for r in self.rejects if r.row <= last], self.raw)

    def after(self, last: int) -> Piece:
        """The rows numbered above `last`."""
        cut = int(np.searchsorted(self.numbers, last, side="right"))
        rejects = [reject for reject in self.rejects if reject.row > last]
        return Piece(self.table.slice(cut), self.numbers[cut:], rejects, lambda index: self.raw(index + cut))

    @property
    def last(self) -> int:
        """The highest row number; 0 if there is no row."""
        last = int(self.numbers[-1]) if len(self.numbers) else 0
        return max(last, self.rejects[-1].row if self.rejects else 0)


def table_pieces(record: RecordType, source: str, tables: Iterable[pa.Table]) -> Iterator[Piece]:
    """Tables with the contract's columns as pieces; the raw text of a row is JSON."""
    first = 1
    for table in tables:
        if not len(table):
            continue
        check_columns(record, source, table.column_names)
        check_time_type(source, table.schema.field("ts").type)
        yield piece_of(table, np.arange(first, first + len(table), dtype=np.int64))
        first += len(table)


def piece_of(table: pa.Table, numbers: RowNumbers) -> Piece:
    """All good so far; the raw text of a row is JSON."""
    return Piece(table, numbers, (), _json_row(table))


def check_columns(record: RecordType, source: str, names: Sequence[str], utilization: bool = True) -> None:
    """Errors: IngestError if the source lacks a required column, or has one of ours twice.

    utilization: whether samples need that column; not if all their states are unusable.
    """
    needed = [*record.required, *(["utilization"] if record.name == "samples" and utilization else [])]
    found = ", ".join(names) or "none"
    missing = [name for name in needed if name not in names]
    if missing:
        several = len(missing) > 1
        listed = f"{', '.join(missing[:-1])} and {missing[-1]}" if several else missing[0]
        raise IngestError(
            source,
            f"no column{'s' if several else ''} {listed}, which {record.name} need; columns found: {found}",
            f"Rename or add {'them' if several else 'it'}; {record.name} need {', '.join(needed)}",
        )
    for column in record.columns:
        if list(names).count(column.name) > 1:
            raise IngestError(source, f"column {column.name} appears twice", "Remove or rename one of them")


def check_time_type(source: str, kind: pa.DataType) -> None:
    """Refuses timestamps that are bare numbers: seconds and milliseconds look alike."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        raise IngestError(
            source, f"column ts is {kind}: expected timestamps or ISO 8601 text", "Convert it, with its unit, to UTC"
        )


def _json_row(table: pa.Table) -> Callable[[int], str]:
    def raw(index: int) -> str:
        row = table.slice(index, 1).to_pylist()[0]
        return json.dumps({k: v for k, v in row.items() if v is not None}, ensure_ascii=False, default=str)

    return raw


def csv_line(values: Iterable[Any]) -> str:
    """The values as one line of CSV; null is empty."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(["" if value is None else value for value in values])
    return text.getvalue()
