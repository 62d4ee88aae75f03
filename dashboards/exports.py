"""Download buttons for tables, as CSV: full precision, times in UTC, the period in the file's name.

The browser writes tables of grids.py, in their current order; other tables are written here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from dash import html
from dash.development.base_component import Component

from dashboards.filters import Filters
from dashboards.languages import Language
from warehouse.csv_cells import write_csv

# What keeps lines together on a page, or ends them, is in nobody's search; `plain` of frame.js knows the same.
_UNSEEN = str.maketrans({"\u200b": None, "\u2060": None, "\u00a0": " "})


def of_grid(id: str, what: str, filters: Filters, words: Language, at: datetime | None = None) -> Component:
    """A button for the table with that id.   what: part of the file's name.   at: of when it is, not of the period."""
    return _button(what, filters, words, {"data-csv-of": id}, at)


def of_rows(
    what: str, heads: Sequence[str], rows: Sequence[Sequence[Any]], filters: Filters, words: Language
) -> Component:
    """A button with its rows in the page; None is an empty cell."""
    text = io.StringIO()
    write_csv(text, ([_cell(one) for one in row] for row in (heads, *rows)), end="\r\n")
    return _button(what, filters, words, {"data-csv": text.getvalue()})


def _cell(value: Any) -> Any:
    """As the tables of grids.py are written: an instant in UTC; signs that nobody sees are left out."""
    if isinstance(value, datetime):
        return f"{value.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    return value.translate(_UNSEEN) if isinstance(value, str) else value


def with_unit(head: str, unit: str) -> str:
    """A column's heading, as tables of grids.py have theirs."""
    return f"{head} ({unit})" if unit else head


def _button(
    what: str, filters: Filters, words: Language, attributes: dict[str, str], at: datetime | None = None
) -> Component:
    return html.Button(
        "CSV",
        type="button",
        className="gl-press gl-small gl-csv",
        title=words("part.csv"),
        **{"data-file": file_name(what, filters, at), **attributes},
    )


def file_name(what: str, filters: Filters, at: datetime | None = None) -> str:
    """`gpuledger-tenants-2026-10-vision.csv`: what, when, and the chosen filters.   at: in place of the period, in the
    billing zone, as `gpuledger-now-2026-10-05T1400.csv`."""
    chosen = [value for values in filters.address.chosen.values() for value in values]
    when = f"{filters.local(at):%Y-%m-%dT%H%M}" if at else filters.period.key if filters.period else ""
    parts = ["gpuledger", what, when, *chosen]
    return re.sub(r"[^\w.-]+", "_", "-".join(part for part in parts if part))[:120] + ".csv"
