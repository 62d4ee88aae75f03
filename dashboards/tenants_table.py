"""The table of tenants: sortable, with the fleet's sum at its foot."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import dash_ag_grid as dag
from dash.development.base_component import Component

from dashboards.data import Tenant
from dashboards.format import SYMBOLS

LONG = 25
"""From so many tenants on the table scrolls in itself."""

_THEME = (
    "themeQuartz.withParams({backgroundColor: 'var(--gl-card)', foregroundColor: 'var(--gl-ink)', "
    "borderColor: 'var(--gl-line)', headerBackgroundColor: 'var(--gl-card)', headerTextColor: 'var(--gl-ink-2)', "
    "rowHoverColor: 'var(--gl-hover)', accentColor: 'var(--gl-accent)', wrapperBorder: false, "
    "headerFontWeight: 600, fontFamily: 'inherit', fontSize: 13.5, headerFontSize: 12.5, spacing: 7, "
    "pinnedRowBackgroundColor: 'var(--gl-card)', columnBorder: false, "
    "headerColumnBorder: false, headerColumnResizeHandleColor: 'transparent'})"
)


def tenants_table(tenants: Sequence[Tenant], currency: str) -> Component:
    rows = [_row(tenant) for tenant in tenants]
    long = len(rows) > LONG
    return dag.AgGrid(
        id="tenants",
        columnDefs=_columns(currency),
        rowData=rows,
        defaultColDef={
            "sortable": True,
            "sortingOrder": ["desc", "asc"],
            "resizable": True,
            "suppressHeaderMenuButton": True,
            "flex": 1,
        },
        dashGridOptions={
            "theme": {"function": _THEME},
            "domLayout": "normal" if long else "autoHeight",
            "pinnedBottomRowData": [_totals(rows)] if rows else [],
            "enableCellTextSelection": True,
            "suppressColumnVirtualisation": True,
            "localeText": {"noRowsToShow": "Nobody held anything in this period"},
        },
        style={"height": "640px"} if long else {"height": None},
        className="gl-grid",
    )


def _columns(currency: str) -> list[dict[str, Any]]:
    return [
        {"field": "tenant", "headerName": "Tenant", "minWidth": 150, "flex": 1.6, "cellClass": "gl-cell-name"},
        {
            "field": "use",
            "headerName": "Use",
            "minWidth": 130,
            "flex": 1.3,
            "cellRenderer": "UseBar",
            "cellClass": "gl-usebar",
            "headerTooltip": "Used, idle and unmetered parts of what was held; sorts by the part used",
        },
        _number("allocated", "Allocated", "GPU-hours held"),
        _number("used", "Used", "GPU-hours used"),
        _number("idle", "Idle", "GPU-hours held and idle"),
        _number("unmetered", "Unmetered", "GPU-hours held without trustworthy telemetry"),
        _number("coverage", "Coverage", "Metered part of what was held", ",.1f%"),
        _number("list_cost", "List cost", "At list price", *_money(currency), minimum=116),
        _number("billed_cost", "Billed cost", "At the tenant's own price", *_money(currency), minimum=116),
        _number("idle_cost", "Idle cost", "List cost of the idle part: waste", *_money(currency), minimum=116),
    ]


def _money(currency: str) -> tuple[str, str]:
    return ",.2f", SYMBOLS.get(currency, f"{currency} " if currency else "")


def _number(
    field: str, header: str, tip: str, shape: str = ",.1f", prefix: str = "", minimum: int = 104
) -> dict[str, Any]:
    scale, suffix = (" * 100", " + ' %'") if shape.endswith("%") else ("", "")
    text = f"params.value == null ? '–' : '{prefix}' + d3.format('{shape.rstrip('%')}')(params.value{scale}){suffix}"
    return {
        "field": field,
        "headerName": header,
        "headerTooltip": tip,
        "type": "rightAligned",
        "minWidth": minimum,
        "valueFormatter": {"function": text},
        "initialSort": "desc" if field == "list_cost" else None,
    }


def _row(tenant: Tenant) -> dict[str, Any]:
    amounts = tenant.amounts
    return {
        "tenant": tenant.name or "(no tenant)",
        "use": amounts.hours["used"] / amounts.allocated if amounts.allocated else None,
        "allocated": amounts.allocated,
        "used": amounts.hours["used"],
        "idle": amounts.hours["idle"],
        "unmetered": amounts.hours["unmetered"],
        "coverage": amounts.metered / amounts.allocated if amounts.allocated else None,
        "list_cost": _cents(tenant.list_cost),
        "billed_cost": _cents(tenant.billed_cost),
        "idle_cost": amounts.costs["idle"] if amounts.costs else None,
    }


def _cents(amount: Decimal | None) -> float | None:
    """An exact amount, rounded once to what the table shows; a number, so that the column sorts."""
    return None if amount is None else float(round(amount, 2))


def _totals(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The foot of the table; a sum of which a part is unknown counts what is known."""
    sums: dict[str, Any] = {"tenant": "All tenants"}
    for field in ("allocated", "used", "idle", "unmetered", "list_cost", "billed_cost", "idle_cost"):
        known = [row[field] for row in rows if row[field] is not None]
        sums[field] = sum(known) if known else None
    allocated = sums["allocated"]
    sums["use"] = sums["used"] / allocated if allocated else None
    sums["coverage"] = (sums["used"] + sums["idle"]) / allocated if allocated else None
    return sums
