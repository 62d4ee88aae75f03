"""Grafana's dashboards from boards/*.yaml: `python deploy/grafana/build.py` writes dashboards/*.json.

The books come from the data source grafana-clickhouse-datasource, which asks a gpuledger server or ClickHouse itself;
devices, agents, scheduler and alerting from Prometheus. Queries are those of an analyst (docs/sql.md).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

try:
    import yaml
    from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, table, timeseries
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.runtime import UnknownDataquery
    from grafana_foundation_sdk.models.common import (
        GraphDrawStyle,
        LegendDisplayMode,
        LegendPlacement,
        StackingMode,
        TooltipDisplayMode,
    )
    from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableOption, VariableRefresh, VariableSort
    from pydantic import BaseModel, ConfigDict, Field
except ModuleNotFoundError as missing:
    sys.exit(f"{sys.argv[0]}: this Python has no {missing.name}. Next: make dev, then .venv/bin/python {sys.argv[0]}")

HERE = Path(__file__).parent
SOURCES = {
    "books": DataSourceRef(type_val="grafana-clickhouse-datasource", uid="gpuledger-books"),
    "metrics": DataSourceRef(type_val="prometheus", uid="gpuledger-metrics"),
}
REFRESH = {"books": "5m", "metrics": "1m"}
TIMESERIES, TABLE = 0, 1
"""The ClickHouse data source's numbers of formats."""


class Panel(BaseModel):
    """sql, or promql by legend.   unit: Grafana's name, or a suffix.   width: of 24."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    what: str = ""
    kind: Literal["stat", "lines", "stack", "bars", "table"]
    unit: str = "short"
    width: Annotated[int, Field(ge=1, le=24)] = 12
    height: int = 8
    sql: str = ""
    promql: dict[str, str] = {}


class Board(BaseModel):
    """variables: query by name; each may be several values, or all."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uid: str
    title: str
    what: str
    source: Literal["books", "metrics"]
    since: str
    variables: dict[str, str]
    panels: tuple[Panel, ...]


class Sql(Builder[UnknownDataquery]):
    """A query of the ClickHouse data source, which the SDK does not know."""

    def __init__(self, sql: str, form: int) -> None:
        kind = "timeseries" if form == TIMESERIES else "table"
        source = SOURCES["books"].to_json()
        self._query = {"refId": "A", "datasource": source, "editorType": "sql", "rawSql": sql, "queryType": kind,
                       "format": form}  # fmt: skip

    def build(self) -> UnknownDataquery:
        return UnknownDataquery(self._query)


def boards() -> list[Board]:
    """As they are written."""
    found = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted((HERE / "boards").glob("*.yaml"))]
    return [Board.model_validate(one) for one in found]


def build(board: Board) -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    made = dashboard.Dashboard(board.title).uid(board.uid).description(board.what).tags(["gpuledger"])
    made.timezone("browser").time(board.since, "now").refresh(REFRESH[board.source])
    for name, query in board.variables.items():
        made.with_variable(_variable(name, query, SOURCES[board.source]))
    for number, panel in enumerate(board.panels, 1):
        made.with_panel(_panel(panel, SOURCES[board.source]).id(number))
    document: dict[str, Any] = json.loads(json.dumps(made.build(), cls=JSONEncoder))
    return document


def _variable(name: str, query: str, source: DataSourceRef) -> dashboard.QueryVariable:
    made = dashboard.QueryVariable(name).query(query).datasource(source).multi(True).include_all(True)
    made.current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    return made.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)


def _panel(panel: Panel, source: DataSourceRef) -> Any:
    shapes: dict[str, Any] = {"stat": stat.Panel, "table": table.Panel}
    made = shapes.get(panel.kind, timeseries.Panel)()
    made.title(panel.title).description(panel.what).datasource(source).unit(panel.unit).span(panel.width)
    made.height(panel.height).no_value("unknown").targets(list(_targets(panel)))
    if panel.kind in ("stack", "bars"):
        made.stacking(common.StackingConfig().mode(StackingMode.NORMAL))
    if panel.kind == "bars":
        made.draw_style(GraphDrawStyle.BARS)
    if panel.kind == "stat":
        made.reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    elif panel.kind == "table":
        made.show_header(True)
    else:
        legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
        made.fill_opacity(0 if panel.kind == "lines" else 40)
        made.legend(legend.show_legend(True)).tooltip(common.VizTooltipOptions().mode(TooltipDisplayMode.MULTI))
    return made


def _targets(panel: Panel) -> Iterator[Builder[Any]]:
    at_once = panel.kind in ("stat", "table")
    if panel.sql:
        yield Sql(panel.sql.strip(), TABLE if at_once else TIMESERIES)
    for number, (legend, expr) in enumerate(panel.promql.items()):
        query = prometheus.Dataquery().expr(expr).legend_format(legend).ref_id("ABCDEF"[number])
        yield query.instant() if at_once else query.range()


def main() -> int:
    for board in boards():
        text = json.dumps(build(board), indent=1, ensure_ascii=False) + "\n"
        (HERE / "dashboards" / f"{board.uid}.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
