"""Checks that a FOCUS file follows the specification, row by row, and agrees with the books.

The FinOps Foundation's validator is run in addition (docs/focus.md); these are the rules that it does not check.
"""

from __future__ import annotations

import csv
import gzip
import re
import uuid
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import IO

from billing.exports.columns import CUSTOM, FOCUS_1_2, NEW_IN_1_3
from billing.exports.errors import ExportError
from billing.exports.files import SUFFIXES
from billing.exports.focus import FocusReport
from billing.exports.lines import QUANTITY_DIGITS
from warehouse.errors import StoreError
from warehouse.gzip_data import MAGIC, gzip_problem
from warehouse.sql import text_literal
from warehouse.store import Store, identifier, read_sql


@dataclass(frozen=True)
class Finding:
    """A rule that is broken, and how often."""

    rule: str
    rows: int = 1

    def __str__(self) -> str:
        return f"{self.rule} ({self.rows:,} times)" if self.rows > 1 else self.rule


def check_focus(engine: Store, path: Path, report: FocusReport | None = None, is_new: bool = False) -> list[Finding]:
    """What is wrong with the file; nothing if all is well. With the report of its export, its sums are compared too.

    engine: an embedded store; the file is only read.   is_new: we have just written it: it is not read once more to
    see whether it is damaged.
    Errors: ExportError if the file is no CSV or Parquet, or damaged.
    """
    columns = _columns(path, is_new)
    twice = [name for name, times in Counter(columns).items() if times > 1]
    if twice:
        return [Finding(f"column {name or repr(name)} is there more than once") for name in twice]
    missing = [name for name in FOCUS_1_2 if name not in columns]
    if missing:
        return [Finding(f"column {name} is missing") for name in missing]
    if odd := [name for name in columns if not _NAME.fullmatch(name)]:
        return [Finding(f"column {name!r} has other signs than letters, digits and _") for name in odd]
    known = {*FOCUS_1_2, *NEW_IN_1_3}
    findings = [Finding(f"column {name} is neither FOCUS's nor starts with x_") for name in columns
                if name not in known and not name.startswith("x_")]  # fmt: skip
    names = ["rows", "together"]
    names += ["ours"] if set(CUSTOM) <= set(columns) else []
    names += ["ratios"] if set(NEW_IN_1_3) <= set(columns) else []
    with _view(engine, path, columns) as focus:
        for name in names:
            rows = engine.rows(read_sql(__file__, f"checks/{name}"), focus, _IN_SMALL_BLOCKS)
            findings += [Finding(row["rule"], row["rows"]) for row in sorted(rows, key=lambda row: str(row["rule"]))]
        if report is not None:
            findings += _reconcile(engine, focus, report)
    return findings


def _reconcile(engine: Store, focus: dict[str, str], report: FocusReport) -> Iterator[Finding]:
    """Sums against the invoices and the ledger."""
    sums = engine.rows(read_sql(__file__, "checks/sums"), focus)
    rows = sum(row["rows"] for row in sums)
    if rows != report.rows:
        yield Finding(f"{rows:,} rows are in the file, {report.rows:,} were written")
    billed = {row["invoice"]: row["billed"] for row in sums if row["invoice"]}
    for number in sorted({*billed, *report.invoices}):
        amount = report.invoices.get(number)
        if amount is None or billed.get(number, Decimal(0)) != amount:
            yield Finding(f"invoice {number}: its rows sum to {billed.get(number)}, its amount is {amount}")
    hours = Fraction(engine.value(read_sql(__file__, "checks/consumed"), focus) or 0)
    # Each row's quantity is rounded once; those that stand for an invoice line, to the line's nine digits.
    tolerance = Fraction(rows, 2 * 10**QUANTITY_DIGITS) + (Fraction(rows, 2 * 10**9) if report.by_line else 0)
    if abs(hours - report.ledger_hours) > tolerance:
        yield Finding(f"{float(hours):.9f} GPU-hours are in the file, {float(report.ledger_hours):.9f} in the ledger")


def _columns(path: Path, is_new: bool) -> Sequence[str]:
    if not path.name.endswith(SUFFIXES):
        raise ExportError(str(path), "is not a readable FOCUS file", f"Use {', '.join(SUFFIXES)}")
    if not path.exists():
        raise ExportError(str(path), "no such file", "Check the path")
    if not path.is_file():
        raise ExportError(str(path), "is not a file", "Give one: it is read more than once, which no pipe can be")
    try:
        if path.suffix == ".parquet":
            import pyarrow.parquet as pq

            names: list[str] = list(pq.read_schema(path).names)
        else:
            with _open(path) as file:
                names = next(csv.reader(file), [])
                if not is_new:
                    _read_on(file)  # the engine reads anything as text, and says little of what is damaged
        return names
    except (ValueError, OSError, EOFError, zlib.error, csv.Error) as error:
        said = gzip_problem(error, MAGIC) if isinstance(error, gzip.BadGzipFile) else str(error)
        raise _unreadable(path, said) from error


def _read_on(file: IO[str]) -> None:
    while file.read(READ_AT_ONCE):
        pass


def _unreadable(path: Path, said: str) -> ExportError:
    return ExportError(str(path), f"cannot be read: {' '.join(said.split()).rstrip('.')}", "Is it a FOCUS file?")


def _open(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


@contextmanager
def _view(engine: Store, path: Path, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """The file as texts, whatever its format: Parquet as a view, CSV read once into a table that is gone afterwards."""
    name, file = f"focus_{uuid.uuid4().hex}", text_literal(str(path))
    if path.suffix == ".parquet":
        texts = ", ".join(_text_of(column, kind) for column, kind in _parquet_types(path).items())
        kind, create = "VIEW", read_sql(__file__, "check_parquet", name=name, columns=texts, file=file)
    else:
        structure = text_literal(", ".join(f"{column} Nullable(String)" for column in columns))
        kind, create = "TABLE", read_sql(__file__, "check_csv", name=name, columns=structure, file=file)
    try:
        engine.command(create)
        yield {"focus": name}
    except StoreError as error:
        raise _unreadable(path, _said_of_the_file(str(error))) from error
    finally:
        engine.command(f"DROP {kind} IF EXISTS {name}")


def _said_of_the_file(said: str) -> str:
    """What the engine's error is about, without its codes, files and steps."""
    if row := _ROW.search(said):
        return f"row {row[1]} has not as many cells as there are columns, or a quote in it never ends"
    what = _ENGINE_ERROR.search(said)
    return _CLASS.sub("", what[1] if what else said)


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ROW = re.compile(r"\(at row (\d+)\)")
_ENGINE_ERROR = re.compile(r"DB::Exception: (.+?)(?:: (?:read stage|While|\(in file)|\.? \(|\.?$)")
_CLASS = re.compile(r"\b\w+Exception: ")
READ_AT_ONCE = 1 << 20
_IN_SMALL_BLOCKS = {"max_threads": 2, "max_block_size": 8192, "input_format_parquet_max_block_size": 8192}
"""Rows are wide: blocks of the usual size, one for each thread, take gigabytes."""


def _parquet_types(path: Path) -> dict[str, str]:
    import pyarrow.parquet as pq

    schema = pq.read_schema(path)
    return {identifier(name): str(kind) for name, kind in zip(schema.names, schema.types, strict=True)}


def _text_of(name: str, kind: str) -> str:
    if kind.startswith("timestamp"):
        return f"formatDateTime({name}, '%Y-%m-%dT%H:%i:%SZ') AS {name}"
    return f"CAST({name} AS Nullable(String)) AS {name}"
