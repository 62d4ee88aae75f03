"""What a command prints: tables for people, JSON and CSV for programs, one line for a mistake."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO

import typer

from gpuledger.options import Format
from warehouse.csv_cells import write_csv
from warehouse.instants import rfc3339
from warehouse.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

    from billing.closed import Closed
    from billing.periods import Period

_PIPE_WIDTH = 240
"""Columns of a table that no terminal shows: a pipe has no width, and folded cells are of no use to grep."""
ROWS = 40
"""Rows that a table shows unless `--limit` says otherwise."""
_most: ContextVar[int] = ContextVar("rows of a table", default=0)


def limit_rows(context: typer.Context, rows: int) -> None:
    """From now on until the command ends tables have so many rows at most; 0: all."""
    before = _most.set(rows)
    context.call_on_close(lambda: _most.reset(before))


def row_limit() -> int:
    """How many rows a table shows; 0: all."""
    return _most.get()


def _terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal, or what COLUMNS says; None: nothing has a width here."""
    if stream.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def console(stderr: bool = False) -> Console:
    """Where tables (stdout) and progress (stderr) are drawn; imported here, as a start without them is much shorter."""
    from rich.console import Console

    if stderr:
        return Console(stderr=True, highlight=False)
    return Console(highlight=False, width=_terminal_width(sys.stdout) or _PIPE_WIDTH)


class Lines(tuple[str, ...]):
    """Several lines in one cell of a table."""

    __slots__ = ()


def complain(line: str) -> None:
    """One line on stderr."""
    print("gpuledger: " + printable(" ".join(line.split())), file=sys.stderr)  # noqa: T201


def say(*lines: str) -> None:
    """Lines for people, on stderr, so that a pipe gets the data alone. A name in one does not begin another."""
    _write(lines, sys.stderr)


def print_lines(*lines: str) -> None:
    """Lines that are the answer, on stdout; without any, an empty one."""
    _write(lines or ("",), sys.stdout)


def _write(lines: Sequence[str], stream: TextIO) -> None:
    """Each line in as many as the terminal needs, between words; the next ones begin below its first word."""
    width = _terminal_width(stream)
    for line in map(printable, lines):
        indent = " " * (len(line) - len(line.lstrip()))
        folded = [line] if width is None or len(line) <= width else textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, tabsize=1,
        )  # fmt: skip
        print("\n".join(folded), file=stream)


def figures_of(closed: Closed | None, which: str = "") -> Period | None:
    """The period that has figures, after what is not closed of it was said; None: nothing of it is.

    which: of several, this one.
    """
    if closed is None:
        say("nothing is closed yet. Next: gpuledger close")
        return None
    if note := closed.note():
        say(f"{which}: {note}" if which else note)
    return closed.period if closed.closed_hours else None


def plain(value: Any) -> Any:
    """A value as JSON shows it: decimals as strings, instants as UTC with milliseconds."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return rfc3339(value)
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(plain(document), indent=2, ensure_ascii=False) + "\n")


def print_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    write_csv(sys.stdout, [columns, *([plain(row.get(c)) for c in columns] for row in rows)])


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    fmt: Format,
    title: str = "",
    totals: Sequence[Mapping[str, Any]] = (),
    of: int = 0,
) -> None:
    """Rows in the format asked for; `of`: how many there are, if these are not all. A table ends with the totals, has
    as many rows as --limit says, its numbers to the right, and a dash for what is unknown; where its columns have no
    room, each row is a block of lines."""
    if fmt is Format.json:
        print_json([{column: row.get(column) for column in columns} for row in (*rows, *totals)])
    elif fmt is Format.csv:
        print_csv(columns, (*rows, *totals))
    else:
        shown = rows[: row_limit() or None]
        if title:
            print_lines(title)
        _print_table([*shown, *totals], columns)
        if len(shown) < (there := max(of, len(rows))):
            say(f"{len(shown):,} of {there:,}; --limit 0 shows all")


def _print_table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> None:
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    drawn = console()
    numeric = [
        bool(rows) and all(isinstance(row.get(column), int | float | Decimal | None) for row in rows)
        for column in columns
    ]
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]

    def longest(texts: Iterable[str]) -> int:
        return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)

    of_columns = [[column, *(row[at] for row in cells)] for at, column in enumerate(columns)]
    widths = _widths(
        [longest(texts) for texts in of_columns],
        [
            max(longest(texts[1:]), longest(texts[0].replace("_", " ").split())) if number else longest(texts)
            for texts, number in zip(of_columns, numeric, strict=True)
        ],
        numeric,
        drawn.width,
    )
    if widths is None:
        return _print_blocks(cells, columns, drawn)
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column, number, width in zip(columns, numeric, widths, strict=True):
        heading = column if cell_len(column) <= width else "\n".join(_pieces(column, width))
        table.add_column(Text(heading), justify="right" if number else "left", overflow="fold", width=width)
    for row in cells:
        # Text, not str: a tenant may be called "[red]", and that is a name, not markup.
        table.add_row(*[Text(_parted(text, width)) for text, width in zip(row, widths, strict=True)])
    drawn.print(table)
    return None


def _widths(natural: list[int], numbers: list[int], numeric: list[bool], width: int) -> list[int] | None:
    """What each column gets: numbers are never cut, texts are folded, the widest first; None: there is no room."""
    given, room = list(natural), width - 2 * (len(natural) - 1)
    for at, number in enumerate(numeric):
        if number and sum(given) > room:
            given[at] = numbers[at]
    for least in (13, 8):  # an invoice's number, a date with its time below it; names that are still read
        while sum(given) > room:
            texts = [at for at, number in enumerate(numeric) if not number and given[at] > least]
            if not texts:
                break
            given[max(texts, key=given.__getitem__)] -= 1
    return given if sum(given) <= room else None


def _pieces(heading: str, width: int) -> list[str]:
    """A heading in lines of at most so many columns, parted after its underscores."""
    return textwrap.wrap(heading.replace("_", "_ "), width) if " " not in heading else textwrap.wrap(heading, width)


def _parted(text: str, width: int) -> str:
    """An instant that has no room on a line, with its time on the next."""
    return re.sub(r"(?<=\d-\d\d)T(?=\d\d:)", "\n", text) if len(text) > width else text


def _print_blocks(cells: Sequence[Sequence[str]], columns: Sequence[str], drawn: Console) -> None:
    """Each row by itself, a line for each column."""
    from rich.table import Table
    from rich.text import Text

    for number, row in enumerate(cells):
        if number:
            print_lines()
        block = Table(box=None, pad_edge=False, show_header=False)
        block.add_column(style="bold", no_wrap=True)
        block.add_column(overflow="fold")
        for column, text in zip(columns, row, strict=True):
            block.add_row(Text(column), Text(text))
        drawn.print(block)


def _cell(value: Any) -> str:
    if isinstance(value, Lines):
        return "\n".join(map(printable, value))
    return "-" if value is None else printable(str(plain(value)))
