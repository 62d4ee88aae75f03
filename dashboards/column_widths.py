"""How wide the columns of a table must be so that nothing in them is cut.

Estimated from what the cells will show; the browser shares what is left of the card's width in the same proportions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from dashboards.format import UNKNOWN, duration
from warehouse.phrases import CHINESE

PADDING = 24
"""Left and right of a cell's text, px: cellHorizontalPaddingScale of grids.py, and its border."""
SORT_ARROW = 18
SHORT = 2
"""Characters of a word that stays with the one before."""
NARROWEST = 58
LONGEST = 60
"""Characters of a text that are measured."""
MOST = 200
"""px that a cell's text may claim; a column with a greater minimum may claim that."""
NARROW, WIDE = frozenset(" \N{NO-BREAK SPACE}.,:;'|!()[]/·-ijlftrI"), frozenset("mwMW@%")
_BREAKS = re.compile(rf" |{CHINESE}")
"""Where a line of a cell's text may end."""
LAST_NARROW = 0x2E7F
"""Characters after it are Chinese, or as wide."""
STEP = 8
"""Widths are multiples of it, px, so that a new figure does not move the columns of an open page."""


@lru_cache(maxsize=8192)
def text_width(text: str) -> float:
    """px at 13.5 px, bold enough for a link."""
    return sum(
        0.0
        if one == "\N{WORD JOINER}"
        else 14.0
        if ord(one) > LAST_NARROW
        else 4.9
        if one in NARROW
        else 12.4
        if one in WIDE
        else 9.3
        if one.isupper() or one.isdigit()
        else 8.1
        for one in text
    )


USED_HERE = frozenset({"shape", "prefix", "formatter", "unknown", "most", "units"})
"""In a column's context for this module alone: the format of its numbers and what unknown ones are, the formatter by
which it shows them, and another limit than MOST."""


def fitted(column: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The column with a minimum and a share of the width by what it shows. Columns whose cells are drawn, or wrap, or
    are shown by a formatter of their own keep theirs, as do tables that the browser fills.
    rows: as the grid gets them, totals included."""
    sent = {key: value for key, value in column.get("context", {}).items() if key not in USED_HERE}
    return {**column, **_widths(column, rows), **({"context": sent} if sent else {})}


def is_outgrown(column: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a text of the column needs more than it may claim, so that it would be cut, and can go on in a second
    line."""
    if column.get("cellRenderer") or "cellDataType" in column or (column.get("context") or {}).get("shape"):
        return False
    most = _most(column)
    return any(text_width(text) > most and _BREAKS.search(text) for text in _shown(column, rows) or ())


def _most(column: Mapping[str, Any]) -> float:
    most: float = column.get("context", {}).get("most") or max(MOST, column["minWidth"] - PADDING)
    return most


def _widths(column: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    header = column["headerName"]
    words = max(min(text_width(part), _most_of(part)) for part in _parts(header))
    arrow = SORT_ARROW if column.get("initialSort") else 0
    shown = _shown(column, rows)
    if shown is None or not rows:
        return {"minWidth": _step(max(column["minWidth"], words + arrow + PADDING))}
    cells = max((text_width(text) for text in shown), default=0.0)
    most = _most(column)
    minimum = max(NARROWEST, PADDING + max(min(cells, most), words + arrow))
    wanted = max(minimum, PADDING + max(min(cells, 2 * most), text_width(header) + arrow))
    return {"minWidth": _step(minimum), "flex": _step(wanted)}


def _most_of(part: str) -> float:
    """Chinese breaks anywhere."""
    return 5 * text_width(part[0]) if part and ord(part[0]) > LAST_NARROW else text_width(part)


def _parts(header: str) -> list[str]:
    """Where it may be broken: not before a unit."""
    parts: list[str] = []
    for word in header.split(" "):
        if parts and len(word) <= SHORT:
            parts[-1] += f" {word}"
        else:
            parts.append(word)
    return parts


def _step(width: float) -> int:
    return STEP * -int(-width // STEP)


def _shown(column: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> set[str] | None:
    context = column.get("context") or {}
    if column.get("wrapText") or context.get("drawn") or column.get("valueFormatter") != context.get("formatter"):
        return None
    field, shape = column["field"], context.get("shape")
    has_unknown = any(row.get(field) is None for row in rows)
    values = {row[f"{field}_text"] if row.get(f"{field}_text") else row.get(field) for row in rows} - {None, ""}
    if shape is None:
        return {str(value)[:LONGEST] for value in values}
    texts = {value for value in values if isinstance(value, str)} | set(_numbers(values, shape, context))
    return texts | ({context.get("unknown", UNKNOWN)} if has_unknown else set())


def _numbers(values: set[Any], shape: str, context: Mapping[str, Any]) -> Iterator[str]:
    """The widest are the extremes, except where trailing zeros are left out, and of durations, whose units differ."""
    numbers = [value for value in values if isinstance(value, (int, float))]
    extremes = (min(numbers), max(numbers)) if numbers else ()
    for value in numbers if "~" in shape or shape == "duration" else extremes:
        if shape == "duration":
            yield duration(value, lambda key, n: context["units"][key.rpartition(".")[2]].format(n=n), context["whole"])
            continue
        # d3 leaves out trailing zeros where there is a ~; Python has no such thing.
        plain, scale = shape.replace("~", "").rstrip("%"), 100 if shape.endswith("%") else 1
        text = format(round(value * scale) if plain.endswith("d") else value * scale, plain)
        if "~" in shape and "." in text and "e" not in text:
            text = text.rstrip("0").rstrip(".")
        yield f"{context.get('prefix', '')}{text}{'%' if scale == 100 else ''}"
