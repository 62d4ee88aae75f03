"""CSV that is safe to open in a spreadsheet: an apostrophe before any text that would run as a formula.

Some spreadsheets start a formula at `=`, `+`, `-`, `@`, a tab or a line end, or the full-width form of one. Numbers are
left alone. Reading undoes it (`unescape_formula`). dashboards/assets/frame.js does the same for tables on pages.
Source: https://owasp.org/www-community/attacks/CSV_Injection
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import IO, Any

_FORMULA = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[-+]?[0-9][0-9,]*(\.[0-9]+)?([eE][-+]?[0-9]+)?%?")


def write_csv(file: IO[str], rows: Iterable[Iterable[Any]], end: str = "\n") -> None:
    """Writes rows, the first of them the column names. None is an empty cell.

    Trap: Python's writer quotes only the line end that it writes itself, so a lone CR would begin a new row.
    """
    line = io.StringIO(newline="")
    writer = csv.writer(line, lineterminator="\r\n")
    for row in rows:
        writer.writerow([escape_formula(cell) for cell in row])
        file.write(line.getvalue().removesuffix("\r\n") + end)
        line.seek(0)
        line.truncate()


def escape_formula(cell: Any) -> Any:
    """The cell; a text that could run as a formula gets an apostrophe in front."""
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def unescape_formula(cell: str) -> str:
    """The cell as it was before `escape_formula`."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) and not _NUMBER.fullmatch(cell[1:]) else cell
