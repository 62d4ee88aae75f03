"""Ingests a file of records: picks the reader by suffix, and suggests what to do if none can read the file."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa

from ingest.csv_files import csv_pieces
from ingest.errors import IngestError
from ingest.json_files import json_pieces
from ingest.parquet_files import parquet_pieces, parquet_rows
from ingest.pieces import Piece
from ingest.pipeline import Progress, ingest_pieces
from ingest.report import IngestReport
from ingest.text_files import BLOCK_BYTES, is_gzip, open_bytes
from warehouse.gzip_data import MAGIC, gzip_problem
from warehouse.records import RecordType
from warehouse.store import Store

Reader = Callable[[RecordType, Path, set[str]], Iterator[Piece]]

READERS: dict[str, Reader] = {
    ".parquet": parquet_pieces,
    ".csv": csv_pieces,
    ".jsonl": json_pieces,
    ".ndjson": json_pieces,
    ".json": json_pieces,
}
LIKENESS = 0.75
"""Above it a column's name counts as another one, misspelt: `unit` is `units`, but `rack` is not `state`."""
UNREADABLE = (pa.ArrowException, OSError, EOFError, zlib.error)


def ingest_file(
    store: Store,
    record: RecordType,
    path: Path,
    on_progress: Progress | None = None,
    now: datetime | None = None,
    sender: str = "",
) -> IngestReport:
    """Stores the rows of a Parquet, CSV or JSON-lines file (the last two optionally gzipped), never all in memory.

    sender: who ingests it. Whoever can open the store may write anything, so no row of a file is held.

    Ingesting the same file again changes nothing. Errors: IngestError if the file cannot be read, lacks a required
    column or has a column in another unit. Nothing is written then, unless the error comes after whole batches (only a
    damaged Parquet page can do that); the message says so.
    """
    reader = READERS[suffix(path)]
    found: set[str] = set()
    done = 0

    def count(rows: int) -> None:
        nonlocal done
        done += rows
        if on_progress is not None:
            on_progress(rows)

    try:
        report = ingest_pieces(store, record, str(path), reader(record, path, found), count, now, sender)
    except UNREADABLE as error:
        raise _unreadable(path, error, done) from error
    known = {column.name for column in record.columns}
    ignored = sorted(found - known)
    return replace(report, ignored_columns=tuple(ignored), misspelt=_misspelt(ignored, known - found))


def _misspelt(ignored: Sequence[str], absent: Set[str]) -> dict[str, str]:
    """By column of no contract, the one of the record that it resembles and that the file does not have."""
    near = {name: get_close_matches(name.strip().lower(), sorted(absent), 1, LIKENESS) for name in ignored}
    return {name: matches[0] for name, matches in near.items() if matches}


def suffix(path: Path) -> str:
    """The suffix that says how to read the file, without .gz."""
    if path.is_dir():
        raise IngestError(str(path), "is a folder", f"Name its files: {path}/*.csv")
    if path.exists() and not path.is_file():
        raise IngestError(str(path), "is not a file", "Give one: it is read more than once, which no pipe can be")
    last = Path(path.name.removesuffix(".gz")).suffix.lower()
    if last not in READERS or (last == ".parquet" and path.suffix == ".gz"):
        raise IngestError(str(path), f"cannot read {path.suffix or 'a file without suffix'}", _next_step(path))
    return last


def _next_step(path: Path) -> str:
    if path.suffix in (".prom", ".metrics"):
        return "For an exporter's metrics: gpuledger exporter URL shows what they say, gpuledger agent reads them"
    return "Use .parquet, .csv(.gz) or .jsonl(.gz)"


def estimated_rows(path: Path) -> int:
    """About how many rows the file has: exact for Parquet, else from the length of its first lines. For progress."""
    try:
        if suffix(path) == ".parquet":
            return parquet_rows(path)
        with open_bytes(path) as file:
            start = file.read(BLOCK_BYTES)
            if len(start) < BLOCK_BYTES:
                return start.count(b"\n")
            # How far the compressed file was read for that much text; a plain one as far as the text.
            packed = file.fileobj.tell() if is_gzip(path) else BLOCK_BYTES  # type: ignore[attr-defined]
        return int(start.count(b"\n") * path.stat().st_size / packed)
    except (*UNREADABLE, AttributeError):
        return 0


def _unreadable(path: Path, error: BaseException, done: int) -> IngestError:
    if isinstance(error, FileNotFoundError):
        return IngestError(str(path), "no such file", f"Check the path from {Path.cwd()}")
    if isinstance(error, gzip.BadGzipFile):
        said = gzip_problem(error, MAGIC)
    else:
        said = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    lines = said.strip().splitlines()
    kind = suffix(path).removeprefix(".")
    what = f"cannot be read as {kind} ({lines[0].rstrip('.') if lines else type(error).__name__})"
    if done:
        return IngestError(
            str(path),
            f"{what}; its first {done:,} rows are in",
            "Get a whole copy and run it again: those rows count once",
        )
    return IngestError(str(path), what, "Get a whole copy of the file; nothing of it was written")
