"""The energy and carbon of a month, by tenant: loaded after the page, because its sums take longer than a page may."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from billing.energy.report import EnergyReport, energy_report
from billing.periods import parse_month
from dashboards import parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed, percent, unbroken
from dashboards.languages import Language
from dashboards.registry import Ask
from warehouse.store import Store

READS = "ledger energy closed_hours rate_cards energy_settings"
"""The tables that the report is read from."""
MEASURES = ("kwh", "kwh_with_pue", "kgco2e")


def emissions_card(month: str, words: Language) -> Component:
    return parts.card(
        words("emissions.title"),
        words("emissions.is"),
        dcc.Store(id="emissions-asked", data=month),
        dcc.Loading(html.Div(id="emissions"), color=parts.SPINNING, delay_show=200),
    )


def emissions(store: Store, filters: Filters, words: Language, month: str) -> Component:
    """A row for each tenant, the most carbon first, and what nobody held; or that nothing is known."""
    period = parse_month(str(month), filters.zone)
    report: EnergyReport = filters.data_version.cached(
        store, ("energy", period), READS, lambda: energy_report(store, period, ["tenant"]), until=period.end
    )
    chosen = filters.address.chosen.get("tenant", ())
    held = [row for row in report.rows if row["held_by"] == "tenant" and (not chosen or row["tenant"] in chosen)]
    if not held:
        return states.nothing_here(words("emissions.none"))
    held.sort(key=lambda row: (-(row["kgco2e"] or 0), -(row["kwh_with_pue"] or 0), row["tenant"]))
    rows = [_row(_tenant(row["tenant"], month, filters, words), row) for row in held]
    if filters.shows_platform:
        rows += [_row(words("emissions.platform"), report.platform), _row(words("emissions.total"), report.total)]
    heads = [words("filter.tenant"), *(words(f"emissions.{name}") for name in MEASURES), words("emissions.measured")]
    table = parts.table(heads, rows, "gl-last-sum" if filters.shows_platform else "")
    return html.Div([table, *_unknown(report, filters, words)])


def _tenant(name: str, month: str, filters: Filters, words: Language) -> Component:
    return dcc.Link(name or words("no_name"), href=filters.href("/tenants", tenant=name, period=month))


def _row(name: Any, row: Mapping[str, Any]) -> list[Any]:
    return [name, *(_amount(row[measure]) for measure in MEASURES), percent(_float(row["coverage"]))]


def _amount(value: Decimal | None) -> str:
    return UNKNOWN if value is None else fixed(value, 1)


def _float(value: Decimal | None) -> float | None:
    return None if value is None else float(value)


def _unknown(report: EnergyReport, filters: Filters, words: Language) -> list[Component]:
    """What the sums of the whole leave out."""
    missing = report.total["kwh_without_intensity"]
    if not filters.shows_platform or not missing:
        return []
    return [html.P(unbroken(words("emissions.without", n=_amount(missing))), className="gl-said")]


def callbacks(app: Dash, ask: Ask) -> None:
    async def loaded(month: str, search: str) -> Any:
        return await ask(emissions, search, month)

    app.callback(Output("emissions", "children"), Input("emissions-asked", "data"), State("url", "search"))(loaded)
