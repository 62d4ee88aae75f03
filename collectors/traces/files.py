"""CSV files of traces, gzipped or not, with errors that name file, row and expected values."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from collectors.errors import CollectorError
from warehouse.gzip_data import MAGIC, gzip_problem

T = TypeVar("T")
PLAIN_OR_GZ = "Give a CSV file, plain or .gz"


def read_rows(
    path: Path, columns: Sequence[str], optional: Sequence[str], parse: Callable[[dict[str, str]], T]
) -> list[T]:
    """The file's rows, parsed.

    Errors: CollectorError naming the file, and the row (from 1, without the header) that `parse` refused (ValueError).
    """
    return list(_parsed(path, columns, optional, parse))


def _parsed(
    path: Path, columns: Sequence[str], optional: Sequence[str], parse: Callable[[dict[str, str]], T]
) -> Iterator[T]:
    reader = csv.DictReader(io.StringIO(_text(path)))
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        found = ", ".join(reader.fieldnames or ()) or "nothing"
        raise CollectorError(str(path), f"no column {', '.join(missing)} (found {found})", _expected(columns, optional))
    number = 0
    for number, row in enumerate(reader, 1):
        try:
            yield parse(row)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise CollectorError(f"{path}, row {number}", str(error), _expected(columns, optional)) from None
    if not number:
        raise CollectorError(str(path), "has a header and no rows", "Is it the whole file?")


def _text(path: Path) -> str:
    try:
        raw = path.read_bytes()
        return (gzip.decompress(raw) if raw.startswith(MAGIC) else raw).decode("utf-8-sig")
    except FileNotFoundError:
        raise CollectorError(str(path), "no such file", f"Check the path from {Path.cwd()}") from None
    except gzip.BadGzipFile as error:
        raise CollectorError(str(path), f"cannot be read ({gzip_problem(error, MAGIC)})", PLAIN_OR_GZ) from None
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise CollectorError(str(path), f"cannot be read ({error})", PLAIN_OR_GZ) from None


def _expected(columns: Sequence[str], optional: Sequence[str]) -> str:
    return f"Expected the columns {', '.join(columns)}" + (f" and may have {', '.join(optional)}" if optional else "")


def positive(text: str, what: str) -> int:
    """A whole number of at least 1."""
    if re.fullmatch(r"[0-9]{1,18}", text.strip()) is None or int(text) < 1:
        raise ValueError(f"{what} is {text!r}, not a whole number of at least 1")
    return int(text)
