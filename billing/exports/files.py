"""Writes a FOCUS file slice by slice: CSV, gzipped CSV, or Parquet. The file gets its name only when it is complete.

The engine formats CSV, one text per row, whose bytes are written straight from the Arrow column; Parquet gets typed
columns: decimals, instants, texts.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from billing.exports.columns import INSTANTS, INTEGERS, NUMBERS
from billing.exports.errors import ExportError
from warehouse.private_files import users_folder, whole_file
from warehouse.store import identifier

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".csv", ".csv.gz", ".parquet")
GZIP_LEVEL = 1
"""The rows repeat each other so much that more effort hardly makes the file smaller."""


class FocusFile:
    """Writes Arrow tables that were selected with `selection`. Use as a context; an exception leaves no file."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path, self.columns = path, columns
        self.is_csv = not path.name.endswith(".parquet")
        self._whole = whole_file(path)
        self._parquet: Any = None
        if not path.name.endswith(SUFFIXES):
            raise ExportError("--out", f"{path.name}: unknown suffix", f"Use {', '.join(SUFFIXES)}")

    @property
    def selection(self) -> str:
        """What to select for it, as SQL; made of checked column names alone."""
        if self.is_csv:
            *first, last = self.columns
            pieces = [_csv_text(name, ",") for name in first] + [_csv_text(last, r"\n")]
            return f"concat({', '.join(pieces)}) AS line"
        return ", ".join(identifier(name) for name in self.columns)

    def __enter__(self) -> FocusFile:
        try:
            users_folder(self.path.parent)
            self._raw = self._whole.__enter__()
        except OSError as error:
            raise ExportError(
                str(self.path), f"cannot be written ({error.strerror})", "Choose another --out"
            ) from error
        # No name and no time in the header, so that the same rows give the same bytes.
        zipped = self.path.name.endswith(".gz")
        self._file: Any = gzip.GzipFile("", "wb", GZIP_LEVEL, self._raw, mtime=0) if zipped else self._raw
        if self.is_csv:
            self._file.write((",".join(f'"{name}"' for name in self.columns) + "\n").encode())
        return self

    def write(self, table: pa.Table) -> None:
        if self.is_csv:
            for chunk in table["line"].chunks:
                self._file.write(_bytes_of(chunk))
            return
        import pyarrow.parquet as pq

        table = _of_values(table.select(list(self.columns)))
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(self._file, table.schema, compression="zstd", store_schema=False)
        self._parquet.write_table(table)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._parquet is not None:
            self._parquet.close()
        if self._file is not self._raw:
            self._file.close()
        self._whole.__exit__(kind, error, trace)


def _of_values(table: pa.Table) -> pa.Table:
    """Without the engine's dictionaries, which hold texts of rows that were not selected: other tenants' names. Parquet
    makes its own, of what is written."""
    import pyarrow as pa
    import pyarrow.types as kinds

    fields = [field.with_type(field.type.value_type) if kinds.is_dictionary(field.type) else field
              for field in table.schema]  # fmt: skip
    return table.cast(pa.schema(fields))


def _csv_text(name: str, end: str) -> str:
    """A column as CSV and what follows it: texts in quotes, numbers and instants bare, nothing for the unknown.

    The end is part of each piece because most texts have few values, and the engine makes the piece once for each.
    """
    identifier(name)
    if name in INSTANTS:
        return f"formatDateTime({name}, '%Y-%m-%dT%H:%i:%SZ{end}')"
    if name in INTEGERS:
        return f"ifNull(concat(toString({name}), '{end}'), '{end}')"
    if name in NUMBERS:
        # A column of whole numbers alone would be taken for integers, where FOCUS wants decimals.
        return f"ifNull(concat(toString({name}), if(position(toString({name}), '.') = 0, '.0{end}', '{end}')), '{end}')"
    return f"ifNull(concat('\"', replaceAll({name}, '\"', '\"\"'), '\"{end}'), '{end}')"


def _bytes_of(texts: pa.Array) -> memoryview:
    """The texts of a string array, one after the other, without a copy."""
    _, offsets, data = texts.buffers()
    if data is None or not len(texts):
        return memoryview(b"")
    ends = memoryview(offsets).cast("B")
    ends = ends.cast("q") if str(texts.type).startswith("large") else ends.cast("i")
    return memoryview(data)[ends[texts.offset] : ends[texts.offset + len(texts)]]
