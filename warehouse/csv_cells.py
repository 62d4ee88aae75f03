"""CSV for people: a text that a spreadsheet would run as a formula stands behind an apostrophe.

`=`, `+`, `-`, `@`, a tab or an end of line begin a formula somewhere, and so do their full-width forms. Numbers do not.
It can be undone (`as_written`), so that what we write is what we read. The tables of pages do the same in
dashboards/assets/frame.js. Source: https://owasp.org/www-community/attacks/CSV_Injection
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
    """Writes rows, the names of their columns first. None is an empty cell.

    Trap: Python's writer quotes those line ends alone that it writes itself; a lone CR would begin a row of its own.
    """
    line = io.StringIO(newline="")
    writer = csv.writer(line, lineterminator="\r\n")
    for row in rows:
        writer.writerow([harmless(cell) for cell in row])
        file.write(line.getvalue().removesuffix("\r\n") + end)
        line.seek(0)
        line.truncate()


def harmless(cell: Any) -> Any:
    """Numbers and None stay what they are."""
    if not isinstance(cell, str) or not _FORMULA.match(cell) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


def as_written(cell: str) -> str:
    """A cell before it was made harmless."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell[1:]) and not _NUMBER.fullmatch(cell[1:]) else cell
