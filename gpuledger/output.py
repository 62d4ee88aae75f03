"""What a command prints: tables for people, JSON and CSV for programs, one line for a mistake."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpuledger.options import Format
from warehouse.csv_cells import write_csv

if TYPE_CHECKING:
    from billing.closed import Closed
    from billing.periods import Period

_PIPE_WIDTH = 240
"""Columns of a table that no terminal shows: a pipe has no width, and folded cells are of no use to grep."""


def _width() -> int | None:
    """None: the terminal's own, or what COLUMNS says."""
    return None if sys.stdout.isatty() or os.environ.get("COLUMNS") else _PIPE_WIDTH


console = Console(highlight=False, width=_width())
errors = Console(stderr=True, highlight=False)


class Lines(tuple[str, ...]):
    """Several lines in one cell of a table."""

    __slots__ = ()


_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What a terminal or a reader's eye obeys: escape sequences, ends of lines, turns of the writing direction."""


def printable(text: str) -> str:
    """A text with nothing in it that acts: users name jobs and tenants, and what a name draws is not our answer."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def complain(line: str) -> None:
    """One line on stderr."""
    print("gpuledger: " + printable(" ".join(line.split())), file=sys.stderr)  # noqa: T201


def say(line: str) -> None:
    """A line for people, on stderr, so that a pipe gets the data alone."""
    errors.print("\n".join(map(printable, line.split("\n"))), markup=False, soft_wrap=True)


def figures_of(closed: Closed | None) -> Period | None:
    """The period that has figures, after what is not closed of it was said; None: nothing of it is."""
    if closed is None:
        say("nothing is closed yet. Next: gpuledger close")
        return None
    if note := closed.note():
        say(note)
    return closed.period if closed.closed_hours else None


def plain(value: Any) -> Any:
    """A value as JSON shows it: decimals as strings, instants as UTC with milliseconds."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return instant(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(plain(document), indent=2, ensure_ascii=False) + "\n")


def print_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    write_csv(sys.stdout, [columns, *([plain(row.get(c)) for c in columns] for row in rows)])


def print_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], fmt: Format, title: str = "") -> None:
    """Rows in the format asked for; numbers right-aligned in a table, an unknown value is a dash there."""
    if fmt is Format.json:
        print_json([{column: row.get(column) for column in columns} for row in rows])
    elif fmt is Format.csv:
        print_csv(columns, rows)
    else:
        table = Table(title=title or None, title_justify="left", header_style="bold", box=None, pad_edge=False)
        for column in columns:
            numeric = bool(rows) and all(isinstance(row.get(column), int | float | Decimal | None) for row in rows)
            table.add_column(Text(column), justify="right" if numeric else "left", overflow="fold", no_wrap=numeric)
        for row in rows:
            # Text, not str: a tenant may be called "[red]", and that is a name, not markup.
            table.add_row(*[Text(_cell(row.get(column))) for column in columns])
        console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, Lines):
        return "\n".join(map(printable, value))
    return "-" if value is None else printable(str(plain(value)))
