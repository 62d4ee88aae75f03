"""Tables that sort, filter and scroll: AG Grid in the look of the pages.

Rows are dicts of plain values: None is unknown, numbers stay numbers (so that columns sort, and exports.py has them in
full), aware times are shown in the zone they are in, a `href` is where the column made with `link` leads.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import dash_ag_grid as dag
from dash.development.base_component import Component

from dashboards.column_widths import fitted, is_outgrown
from dashboards.format import UNKNOWN, symbol, unbroken
from dashboards.languages import Language
from warehouse.instants import rfc3339
from warehouse.phrases import with_english_units

LONG = 40
"""With more rows a table scrolls in itself, where its rows are no cards; what goes on below fades out."""
TALL = "clamp(600px, 100vh - 420px, 1600px)"
"""As high is such a table: as the window has room below a page's head, and no higher than its rows."""
SHAPE = re.compile(r"(?P<plus>\+?),(d|\.(?P<after>\d)(?P<short>~?)f)%?")
Column = dict[str, Any]

_THEME = (
    "themeQuartz.withParams({backgroundColor: 'var(--gl-card)', foregroundColor: 'var(--gl-ink)', "
    "borderColor: 'var(--gl-line)', headerBackgroundColor: 'var(--gl-card)', headerTextColor: 'var(--gl-ink-2)', "
    "rowHoverColor: 'var(--gl-hover)', accentColor: 'var(--gl-accent)', wrapperBorder: false, "
    "headerFontWeight: 600, fontFamily: 'inherit', fontSize: 13.5, headerFontSize: 12.5, spacing: 7, "
    "cellHorizontalPaddingScale: 0.75, pinnedRowBackgroundColor: 'var(--gl-card)', columnBorder: false, "
    "headerColumnBorder: false, headerColumnResizeHandleColor: 'transparent'})"
)


def grid(
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Any]] | None,
    words: Language,
    id: str,
    totals: Mapping[str, Any] | None = None,
    empty: str = "",
    key: str = "",
    spare: Sequence[str] = (),
) -> Component:
    """rows: None: they are still to come.   totals: a last row that stays.   empty: what to say where there are no
    rows.   key: the field that tells rows apart, so that a table drawn anew keeps what has not changed, and where the
    reader is in it.   spare: fields of columns that are left out where the others fit the screen without them, the
    first of these first; exports have them all the same (assets/frame.js)."""
    long = len(rows or ()) > LONG
    columns = [_whole(column, rows or ()) for column in columns]
    wrapping = {column["field"] for column in columns if column.get("wrapText")}
    plain = [_unbroken(_plain(row, words), wrapping) for row in rows or ()]
    last = [_plain(totals, words)] if totals and rows else []
    keyed = {"getRowId": f"params.data.{key}"} if key else {}
    return dag.AgGrid(
        id=id,
        columnDefs=[_ranked(fitted(_whole_units(column), [*plain, *last]), spare) for column in columns],
        rowData=None if rows is None else plain,
        defaultColDef={
            "sortable": True,
            "sortingOrder": ["desc", "asc"],
            "resizable": True,
            "suppressHeaderMenuButton": True,
            "flex": 1,
            "wrapHeaderText": True,
            "autoHeaderHeight": True,
        },
        dashGridOptions={
            "theme": {"function": _THEME},
            "domLayout": "normal" if long else "autoHeight",
            "pinnedBottomRowData": last,
            "enableCellTextSelection": True,
            # Arrows move within the table, and Tab leaves it, as in any grid; Enter follows a link (assets/frame.js).
            "tabToNextCell": {"function": "false"},
            "tabToNextHeader": {"function": "false"},
            "suppressColumnVirtualisation": True,
            # Otherwise a table below the screen has no width, and shows nothing in print, until somebody scrolls to it.
            "suppressContentVisibilityAuto": True,
            "localeText": {
                "noRowsToShow": empty or words("grid.nothing"),
                "showAll": words("grid.show_all"),
                "rows": words("grid.all"),
                "loadingOoo": words("grid.loading"),
            },
        },
        style={"height": TALL if long else None},
        className=" ".join(["gl-grid", *(["gl-fits"] if spare else []), *(["gl-goes-on"] if long else [])]),
        **keyed,
    )


def filled(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]], may_lack: Collection[str]) -> list[Column]:
    """Without those of `may_lack` (fields) of which no row says anything."""
    said = {name for name in may_lack if any(row[name] not in (None, "") for row in rows)}
    return [column for column in columns if column["field"] in said or column["field"] not in may_lack]


def _whole(column: Column, rows: Sequence[Mapping[str, Any]]) -> Column:
    """Wrapped, where it would cut its texts."""
    return wrapped(fitted(column, rows)) if is_outgrown(column, rows) else column


def _ranked(column: Column, spare: Sequence[str]) -> Column:
    """With its rank among those that may be left out."""
    if column["field"] not in spare:
        return column
    rank = spare.index(column["field"]) + 1
    return {**column, "initialHide": True, "context": {**column.get("context", {}), "spare": rank}}


def not_on_cards(column: Column) -> Column:
    """Left out where rows are cards; in a table it is there as any other, or among the spare ones."""
    return {**column, "context": {**column.get("context", {}), "cards": False}}


def on_cards(column: Column, name: str) -> Column:
    """What its cells are called on cards, where a header's text stands alone and has less room."""
    return {**column, "context": {**column.get("context", {}), "card": name}}


def with_unit(column: Column, unit: str) -> Column:
    """On cards each number is followed by its unit, the row's `unit`: its column is not on them."""
    return {**column, "cellRenderer": "WithUnit", "cellRendererParams": {"unit": unit}}


def text(field: str, header: str, tip: str = "", minimum: int = 120, flex: float = 1.0) -> Column:
    return {"field": field, "headerName": header, "headerTooltip": tip or header, "minWidth": minimum, "flex": flex}


def sentence(field: str, header: str, tip: str = "", minimum: int = 220, flex: float = 220) -> Column:
    """A text that may be long.   flex: its share of what the card has left; columns beside it have theirs in px."""
    return wrapped(text(field, header, tip, minimum, flex))


def wrapped(column: Column) -> Column:
    """A column of which a cell that is too long wraps; its row is as high as it needs."""
    styles = f"gl-cell-long {column.get('cellClass', '')}".strip()
    shown = column if "valueFormatter" in column else _shown_as_text(column)
    return {**shown, "wrapText": True, "autoHeight": True, "cellClass": styles}


def link(field: str, header: str, tip: str = "", minimum: int = 150, flex: float = 1.6, to: str = "href") -> Column:
    """A name that links to the row's `href`, or to the target in another field, if the row has one."""
    column = {**text(field, header, tip, minimum, flex), "cellRenderer": "Go", "cellClass": "gl-cell-name"}
    return column if to == "href" else {**column, "cellRendererParams": {"to": to}}


def device_link(field: str, header: str, minimum: int = 110, most: int = 112, to: str = "href") -> Column:
    """A device's name, shown as in the row's FIELD_text (format.device_name) and in full where one points at it.
    most: px that the text may claim.   to: the field of its target."""
    column = _shown_as_text(link(field, header, minimum=minimum))
    return {**column, "cellRendererParams": {"full": True, "to": to}, "context": {**column["context"], "most": most}}


def use_bar(header: str, tip: str) -> Column:
    """A bar of how the held time was used, from the row's allocated, used, idle, unmetered; sorts by its `use`."""
    return {
        **text("use", header, tip, 96, 1.1),
        "cellRenderer": "UseBar",
        "cellClass": "gl-usebar",
        "context": {"formatter": "UseBar"},
    }


def sparkline(field: str, header: str, tip: str = "") -> Column:
    """A small line of the numbers in the row's list; None is a gap."""
    return {
        **text(field, header, tip, 90),
        "cellRenderer": "Spark",
        "cellClass": "gl-spark",
        "sortable": False,
        "cellDataType": False,
        "context": {"drawn": True},
    }


def number(
    field: str,
    header: str,
    tip: str = "",
    shape: str = ",.1f",
    prefix: str = "",
    minimum: int = 86,
    unit: str = "",
    unknown: str = UNKNOWN,
    plus: str = "",
    after: str = "",
) -> Column:
    """shape: as Python has them (`,.1f`, `+,.2f`, `,d`), or `,.2~f` without zeros at the end; one that ends in % shows
    a share of 1 as a percentage.   unit: said in an export.   unknown: what to show for None.   plus: before what is
    more than zero.   after: behind what is known."""
    is_share = shape.endswith("%")
    value, suffix = f"params.value{' * 100' if is_share else ''}", "%" if is_share else after
    suffix = f" + '{suffix}'" if suffix else ""
    # The sign comes before a currency.
    more = f"(params.value > 0 ? '{plus}{prefix}' : '{prefix}')" if plus else f"'{prefix}'"
    signed = f"(params.value < 0 ? '−{prefix}' + {_written(f'-{value}', shape)} : {more} + {_written(value, shape)})"
    known = signed if prefix else _written(value, shape)
    formatter = {"function": f"params.value == null ? '{unknown}' : {known}{suffix}"}
    return {
        **text(field, header, tip, minimum),
        "type": "rightAligned",
        "valueFormatter": formatter,
        "context": {
            "unit": unit or ("0–1" if is_share else ""), "shape": shape, "prefix": plus + prefix + after,
            "formatter": formatter, "unknown": unknown,
        },
    }  # fmt: skip


def _written(value: str, shape: str) -> str:
    """The browser's expression for a value in that shape (assets/numbers.js)."""
    digits = SHAPE.fullmatch(shape)
    if digits is None:
        raise ValueError(f"{shape}: tables show no such numbers")
    text = f"{'short' if digits['short'] else 'fixed'}({value}, {digits['after'] or 0})"
    return f"(({value} >= 0 ? '+' : '') + {text})" if digits["plus"] else text


def price(field: str, header: str, tip: str = "", unit: str = "") -> Column:
    """A number, shown as in the row's FIELD_text (format.unit_price)."""
    return as_told(number(field, header, tip, unit=unit))


def as_told(column: Column) -> Column:
    """A column of numbers, shown as in the row's FIELD_text."""
    formatter = {"function": f"params.data.{column['field']}_text"}
    return {**column, "valueFormatter": formatter, "context": {**column["context"], "formatter": formatter}}


def percent(field: str, header: str, tip: str = "", minimum: int = 90) -> Column:
    return number(field, header, tip, ",.1f%", minimum=minimum)


def money(field: str, header: str, currency: str, tip: str = "", plus: str = "") -> Column:
    return number(field, header, tip, ",.2f", symbol(currency), 122, currency, plus=plus)


def duration(words: Language, field: str, header: str, tip: str = "", whole: bool = False) -> Column:
    """Seconds, formatted as by dashboards.format.duration, or as in the row's FIELD_text; sorts as a number.

    whole: as there, for settings; in a column of what was measured, all have a decimal."""
    units = {name: words(f"duration.{name}", n="{n}") for name in ("s", "min", "h", "d")}

    def said(unit: str, shape: str, seconds: int) -> str:
        length = f"params.value / {seconds}"
        exact = f"params.value % {seconds} === 0 ? {_written(length, ',d')} : " if whole and shape == ",.1f" else ""
        return f"'{units[unit]}'.replace('{{n}}', {exact}{_written(length, shape)})"

    length = (
        f"params.value == null ? '–' : params.value < 60 ? {said('s', ',.0f', 1)} : "
        f"params.value < 3600 ? {said('min', ',.0f', 60)} : "
        f"params.value < 172800 ? {said('h', ',.1f', 3600)} : {said('d', ',.1f', 86400)}"
    )
    shown = f"params.data.{field}_text || ({length})"
    formatter = {"function": shown}
    column = {**text(field, header, tip, 84), "type": "rightAligned", "valueFormatter": formatter}
    return {
        **column,
        "context": {"unit": "s", "shape": "duration", "formatter": formatter, "units": units, "whole": whole},
    }


def moment(field: str, header: str, tip: str = "", minimum: int = 124, flex: float = 1.0) -> Column:
    """An aware time, shown in its own zone, or as in the row's FIELD_text; sorts and exports as an instant."""
    return _at(text(field, header, tip, minimum, flex))


def moment_link(field: str, header: str, tip: str = "", minimum: int = 124, flex: float = 1.0) -> Column:
    return _at(link(field, header, tip, minimum, flex))


def _at(column: Column) -> Column:
    column = _shown_as_text(column)
    return {**column, "cellDataType": False, "context": {**column["context"], "unit": "UTC"}}


def _shown_as_text(column: Column) -> Column:
    formatter = {"function": f"params.data.{column['field']}_text || params.value"}
    return {**column, "valueFormatter": formatter, "context": {**column.get("context", {}), "formatter": formatter}}


def instant(at: datetime) -> str:
    """For programs: UTC, to the second."""
    return rfc3339(at, "seconds")


def dated(field: str, at: datetime | None, words: Language) -> dict[str, Any]:
    """A time of any year for a row, to the minute, or as a day that begins then.   at: in the zone to say it in."""
    if at is None:
        return {field: None}
    is_day = at.timetz().replace(tzinfo=None) == time()
    return {field: at, f"{field}_text": words.day(at) if is_day else words.dated(at)}


def sorted_by(column: Column, order: str = "desc") -> Column:
    """The column by which the table is sorted initially."""
    return {**column, "initialSort": order}


def _whole_units(column: Column) -> Column:
    """A header that does not break before a unit: Chinese ones are written so, and exports have a plain space."""
    return {**column, "headerName": with_english_units(column["headerName"])}


def _unbroken(row: dict[str, Any], wrapping: Collection[str]) -> dict[str, Any]:
    """wrapping: fields whose cells wrap. What they hold stays as it is, for those who take it along."""
    texts = {field: row.get(f"{field}_text") or row.get(field) for field in wrapping}
    shown = {field: unbroken(text) for field, text in texts.items() if isinstance(text, str)}
    return row | {f"{field}_text": text for field, text in shown.items() if text != row[field]}


def _plain(row: Mapping[str, Any], words: Language) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in row.items():
        plain[key] = float(value) if isinstance(value, Decimal) else value
        if isinstance(value, datetime):
            plain[key] = instant(value)
            plain[f"{key}_text"] = row.get(f"{key}_text") or words.moment(value)
    return plain
