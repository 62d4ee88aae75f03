"""Charts show names as they are, whatever is in them."""

from __future__ import annotations

from typing import Any

import plotly.graph_objects as go
import pytest

from dashboards import parts

LINK = '<a href="http://evil.example/">pay here</a>'
SHOWN = '&lt;a href="http://evil.example/">pay here&lt;/a>'


@pytest.mark.parametrize("plain", [True, False])
def test_a_name_is_no_link_in_a_chart(plain: bool) -> None:
    """As found: such a tenant was a link in the legend of the page Tenants. What Plotly reads as "<" begins no mark."""
    trace = {"type": "bar", "name": LINK, "x": [LINK, 2], "y": [1.5, None], "customdata": [[LINK, "/tenants?a=1&b=2"]],
             "hovertemplate": "<b>%{y}</b>"}  # fmt: skip
    layout = {"xaxis": {"ticktext": [LINK]}, "annotations": [{"text": LINK}]}
    figure: dict[str, Any] = {"data": [trace], "layout": layout}
    graph: Any = parts.graph(figure if plain else go.Figure(figure), "costs")
    found = graph.children.figure
    (drawn,) = found["data"]
    assert (drawn["name"], list(drawn["x"]), list(drawn["y"])) == (SHOWN, [SHOWN, 2], [1.5, None])
    assert drawn["customdata"][0] == [SHOWN, "/tenants?a=1&b=2"] and drawn["hovertemplate"] == "<b>%{y}</b>"
    assert found["layout"]["annotations"][0]["text"] == found["layout"]["xaxis"]["ticktext"][0] == SHOWN
