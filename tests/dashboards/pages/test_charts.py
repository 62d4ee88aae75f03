"""Plotly takes the charts that pages send to the browser: its own objects in Python check each name and value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import plotly.graph_objects as go
import pytest
from dash import dcc
from dash.development.base_component import Component

from access.current import set_current
from access.opening import open_access
from access.principal import ANYBODY
from dashboards.frame import show
from dashboards.languages import language
from dashboards.pages.explore import answer
from tests.dashboards.pages.operated import operate
from tests.dashboards.pages.test_page_by_page import PAGES
from warehouse.store import Store

PATHS = sorted({used.path for name, used in PAGES.items() if name != "explore"})


@pytest.fixture(scope="module")
def house(house: Store) -> Store:
    operate(house)
    return house


def charts(shown: Any) -> Iterator[dict[str, Any]]:
    if isinstance(shown, dcc.Graph):
        yield shown.figure
    if isinstance(shown, Component):
        shown = getattr(shown, "children", None)
    for one in shown if isinstance(shown, list | tuple) else [shown] if isinstance(shown, Component) else []:
        yield from charts(one)


def unset(value: Any) -> bool:
    """Whether a name in it has no value: in a browser that is something else than a name that is not there."""
    if isinstance(value, dict):
        return any(one is None or unset(one) for one in value.values())
    return isinstance(value, list | tuple) and any(unset(one) for one in value if isinstance(one, dict | list | tuple))


def test_plotly_takes_the_chart_of_each_page(house: Store) -> None:
    found: dict[str, int] = {}
    with open_access(house) as access:
        set_current(ANYBODY, access)
        for path in PATHS:
            for search in ("period=2026-10", "period=2026-10-02", "period=2026-10-02&lang=zh"):
                page, _, own = path.partition("?")
                shown = show(house, ANYBODY, page, f"?{search}&{own}")
                for chart in charts(shown.page):
                    go.Figure(chart)
                    assert not unset(chart), (path, search)
                    found[path] = found.get(path, 0) + 1
    drawn = {path.partition("?")[0] for path in found}
    assert {"/", "/tenants", "/workloads", "/fleet", "/queues", "/capacity", "/alerts", "/objectives"} <= drawn, found


@pytest.mark.parametrize("kind", ["DateTime", "String"])
def test_plotly_takes_the_chart_of_an_answer(kind: str) -> None:
    columns = [answer.Column("month", kind), answer.Column("cost_center", "String"), answer.Column("cost", "Float64")]
    rows = [[f"2026-1{month}-01", name, 1.0] for month in range(3) for name in ("K-1", "", None)]
    found = answer.chart_of(answer.Answer(columns, rows, False, 1), language("en"))
    assert found is not None
    chart, _ = found
    types = {one["type"] for one in chart["data"]}
    assert types == {"scatter" if kind == "DateTime" else "bar"}
    go.Figure(chart)
