"""What a command prints: tables for people, JSON and CSV for programs, one line for an error."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO

import typer

from gpuledger.hints import with_store
from gpuledger.options import Format
from warehouse.csv_cells import write_csv
from warehouse.json_values import as_json
from warehouse.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

    from billing.closed import Closed
    from billing.periods import Period

INTERRUPTED = 130
"""A command's status after it: 128 + SIGINT."""
AGAIN = "interrupted; run the same command again to continue"
_PIPE_WIDTH = 240
"""Width of a table in a pipe, in columns; wide, because grep finds nothing in folded cells."""
_WIDE = "\u2e80-\u9fff\uf900-\ufaff\uff00-\uff60"
"""Characters of Chinese and Japanese, in a class of a regular expression."""
ROWS = 40
"""Default of `--limit`: rows that a table shows."""
_most: ContextVar[int] = ContextVar("rows of a table", default=0)


def limit_rows(context: typer.Context, rows: int) -> None:
    """Limits the rows of tables until the command ends; 0: no limit."""
    before = _most.set(rows)
    context.call_on_close(lambda: _most.reset(before))


def row_limit() -> int:
    """How many rows a table shows; 0: all."""
    return _most.get()


def _terminal_width(stream: TextIO) -> int | None:
    """Columns of the terminal, or of COLUMNS; None if the stream is no terminal."""
    if stream.isatty() or os.environ.get("COLUMNS"):
        return shutil.get_terminal_size().columns
    return None


def console(stderr: bool = False) -> Console:
    """The console for tables (stdout) or progress (stderr); imports rich here, which makes other starts much faster."""
    from rich.console import Console

    if stderr:
        return Console(stderr=True, highlight=False)
    return Console(highlight=False, width=_terminal_width(sys.stdout) or _PIPE_WIDTH)


class Lines(tuple[str, ...]):
    """Several lines in one cell of a table."""

    __slots__ = ()


def complain(line: str) -> None:
    """One line on stderr."""
    print("gpuledger: " + printable(with_store(" ".join(line.split()))), file=sys.stderr)  # noqa: T201


def say(*lines: str) -> None:
    """Lines for people, on stderr, so that a pipe gets only data. A line break within a name starts no new line."""
    _write(list(map(with_store, lines)), sys.stderr)


def print_lines(*lines: str) -> None:
    """Lines of data, on stdout; an empty line if there are none."""
    _write(lines or ("",), sys.stdout)


def _write(lines: Sequence[str], stream: TextIO) -> None:
    """Wraps each line to the terminal between words, with the continuation indented like the line."""
    width = _terminal_width(stream)
    for line in map(printable, lines):
        print("\n".join([line] if width is None else _folded(line, width)), file=stream)


_PIECES = re.compile(rf"\s+|[{_WIDE}][，。；：、）》」]*|[^\s{_WIDE}]+")


def _folded(line: str, width: int) -> list[str]:
    """A line in lines of at most `width` columns, if no word is longer; Chinese has no spaces, and two columns each."""
    indent = " " * (len(line) - len(line.lstrip()))
    if line.isascii():
        return textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False, tabsize=1,
        ) if len(line) > width else [line]  # fmt: skip
    from rich.cells import cell_len

    lines = [""]
    for piece in _PIECES.findall(line):
        if lines[-1].strip() and cell_len(lines[-1] + piece.rstrip()) > width:
            lines[-1], piece = lines[-1].rstrip(), indent + piece.lstrip()
            lines.append(piece)
        else:
            lines[-1] += piece
    return lines


def figures_of(closed: Closed | None, which: str = "") -> Period | None:
    """The closed part of a period, after printing which part is not closed; None if no hour of it is.

    which: names the period in the message, where a command has several.
    """
    if closed is None:
        say("nothing is closed yet. Next: gpuledger close")
        return None
    if note := closed.note():
        say(f"{which}: {note}" if which else note)
    return closed.period if closed.closed_hours else None


def print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(as_json(document), indent=2, ensure_ascii=False) + "\n")


def print_csv(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> None:
    write_csv(sys.stdout, [columns, *([as_json(row.get(c)) for c in columns] for row in rows)])


def print_rows(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    fmt: Format,
    title: str = "",
    totals: Sequence[Mapping[str, Any]] = (),
    of: int = 0,
) -> None:
    """Prints rows in a format.   totals: the last rows of a table.   of: how many rows there are, if these are not all.

    A table has at most --limit rows, numbers aligned right, and a dash for what is unknown; if its columns do not fit
    the terminal, each row becomes a block of lines.
    """
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
    numeric = [bool(rows) and all(_is_number(row.get(column)) for row in rows) for column in columns]
    cells = [[_cell(row.get(column)) for column in columns] for row in rows]

    def longest(texts: Iterable[str]) -> int:
        return max((cell_len(line) for text in texts for line in text.split("\n")), default=0)

    of_columns = [[column, *(row[at] for row in cells)] for at, column in enumerate(columns)]
    widths = _widths(
        [longest(texts) for texts in of_columns],
        [
            max(longest(texts[1:]), longest(texts[0].replace("_", "_ ").split())) if number else longest(texts)
            for texts, number in zip(of_columns, numeric, strict=True)
        ],
        [
            max((cell_len(word) for text in texts for word in _parted(text, 0).split()), default=0)
            for texts in of_columns
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


_NAME = 40
"""Characters of a GPU's UUID with its vendor's prefix."""


def _widths(
    natural: list[int], numbers: list[int], words: list[int], numeric: list[bool], width: int
) -> list[int] | None:
    """The width of each column: numbers are never cut; texts are folded, the widest first and between their words as
    long as that will do; None if they do not fit."""
    given, room = list(natural), width - 2 * (len(natural) - 1)
    for at, number in enumerate(numeric):
        if number and sum(given) > room:
            given[at] = numbers[at]
    # First wide enough for an invoice's number or a date, then for a name that can still be read. A name longer than a
    # UUID is folded before what stands beside it is a word a line.
    names = [min(word, _NAME) for word in words]
    for least in (
        [max(13, word) for word in words],
        [max(13, name) for name in names],
        [max(8, name) for name in names],
        [13] * len(words),
        [8] * len(words),
    ):
        while sum(given) > room:
            texts = [at for at, number in enumerate(numeric) if not number and given[at] > least[at]]
            if not texts:
                break
            given[max(texts, key=given.__getitem__)] -= 1
    return given if sum(given) <= room else None


def _pieces(heading: str, width: int) -> list[str]:
    """A heading in lines of at most `width` columns, split after underscores."""
    if " " in heading:
        return textwrap.wrap(heading, width)
    return [line.replace("_ ", "_") for line in textwrap.wrap(heading.replace("_", "_ "), width)]


_INSTANT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:[\d:.]+(?:Z|[+-]\d\d:\d\d)?)")


def _parted(text: str, width: int) -> str:
    """An instant wider than the column, with its time on a second line. Within a text, such as a row of somebody's
    file, it stays as it was written."""
    found = _INSTANT.fullmatch(text) if len(text) > width else None
    return "\n".join(found.groups()) if found else text


def _print_blocks(cells: Sequence[Sequence[str]], columns: Sequence[str], drawn: Console) -> None:
    """Prints each row as a block, one line per column."""
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


def two_decimals(value: Any) -> Any:
    """A decimal rounded for people; anything else unchanged."""
    return round(value, 2) if isinstance(value, Decimal) else value


def grouped_digits(value: Decimal | float) -> str:
    """A figure for people, with its own decimals: `1,380.00`. Not for integers, which may be names."""
    digits = str(as_json(value))
    whole, point, rest = digits.partition(".")
    return f"{int(whole):,}{point}{rest}" if _WHOLE.fullmatch(whole) and "e" not in rest else digits


_WHOLE = re.compile(r"-?[1-9]\d*")


def percent(part: Decimal | float | None, digits: int = 1) -> str | None:
    """A share for people, such as `12.5%`; None stays unknown."""
    return None if part is None else f"{part * 100:.{digits}f}%"


_PERCENT = re.compile(r"-?\d+(?:\.\d+)?%")


def _is_number(value: Any) -> bool:
    """A number, a share as `percent` writes it, or none that is known."""
    return isinstance(value, int | float | Decimal | None) or (
        isinstance(value, str) and bool(_PERCENT.fullmatch(value))
    )


def _cell(value: Any) -> str:
    if isinstance(value, Lines):
        return "\n".join(map(printable, value))
    if isinstance(value, Decimal | float) and math.isfinite(value):
        return grouped_digits(value)
    return "-" if value is None else printable(str(as_json(value)))
