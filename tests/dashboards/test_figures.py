"""Charts show names as they are, whatever is in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboards import parts
from dashboards.figures import PALETTE, colours, legend, made, money_axis
from dashboards.languages import language
from dashboards.panels import Panels

LINK = '<a href="http://evil.example/">pay here</a>'
SHOWN = '&lt;a href="http://evil.example/">pay here&lt;/a>'


def test_a_legend_shows_how_each_series_is_drawn() -> None:
    """As found: on a phone, what was spent and what is forecast had the same square."""
    line = {"type": "scatter", "mode": "lines"}
    data = [
        {**line, "name": "spent", "line": {"color": "#00f", "dash": "solid"}},
        {**line, "name": "forecast", "line": {"color": "#00f", "dash": "dash"}},
        {**line, "name": "budget", "line": {"color": "#f00", "dash": "dot"}},
        {**line, "name": "band", "line": {"color": "#ccf"}, "fill": "tonexty"},
        {"type": "scatter", "mode": "markers", "name": "unusual", "marker": {"color": "#fa0", "symbol": "diamond"}},
        {
            "type": "scatter",
            "mode": "markers",
            "name": "end",
            "marker": {"color": "#00f", "symbol": "circle-open"},
        },
        {"type": "bar", "name": "used", "marker": {"color": "#0f0"}},
    ]
    marks = {name: mark for name, _, mark in legend({"data": data, "layout": {"showlegend": True}})}
    assert marks == {
        "spent": "line", "forecast": "dashed", "budget": "dotted", "band": "", "unusual": "diamond", "end": "ring",
        "used": "",
    }  # fmt: skip


def test_thousands_on_an_axis_are_written_as_in_tables() -> None:
    """As found: "1000" W beside "1,000" everywhere else."""
    assert made([], language("en"))["layout"]["yaxis"]["separatethousands"]
    assert Panels([40, 40]).figure(["", ""], language("en"))["layout"]["yaxis2"]["separatethousands"]


def test_what_hovers_has_its_names_in_the_language_s_way() -> None:
    """As found: "使用 : 12.3", as Plotly joins them."""
    trace = {"type": "bar", "name": "使用", "x": [1], "y": [2], "hovertemplate": "%{y}"}
    for code, colon in (("zh", "："), ("en", ": ")):
        drawn, own = made([trace, {**trace, "hovertemplate": "%{x}<extra></extra>"}], language(code))["data"]
        assert drawn["hovertemplate"] == f"%{{fullData.name}}{colon}%{{y}}<extra></extra>"
        assert own["hovertemplate"] == "%{x}<extra></extra>"


def test_a_name_is_no_link_in_a_chart() -> None:
    """As found: such a tenant was a link in the legend of the page Tenants. What Plotly reads as "<" begins no mark."""
    trace = {"type": "bar", "name": LINK, "x": [LINK, 2], "y": [1.5, None], "customdata": [[LINK, "/tenants?a=1&b=2"]],
             "hovertemplate": "<b>%{y}</b>"}  # fmt: skip
    layout = {"xaxis": {"ticktext": [LINK]}, "annotations": [{"text": LINK}]}
    figure: dict[str, Any] = {"data": [trace], "layout": layout}
    graph: Any = parts.graph(figure, "costs")
    found = graph.children.figure
    (drawn,) = found["data"]
    assert (drawn["name"], list(drawn["x"]), list(drawn["y"])) == (SHOWN, [SHOWN, 2], [1.5, None])
    assert drawn["customdata"][0] == [SHOWN, "/tenants?a=1&b=2"] and drawn["hovertemplate"] == "<b>%{y}</b>"
    assert found["layout"]["annotations"][0]["text"] == found["layout"]["xaxis"]["ticktext"][0] == SHOWN


def test_a_name_has_the_same_colour_whatever_else_is_shown_and_no_two_share_one() -> None:
    """As found: a tenant was orange on Fleet and red on Tenants."""
    among = [f"t{number}" for number in range(12)]
    by_cost, by_name = colours(["t7", "t2", "t4"], among), colours(["t2", "t7"], among)
    assert {name: by_cost[name] for name in by_name} == by_name == {"t2": PALETTE[2], "t7": PALETTE[7]}
    crowded = colours(["t0", "t10", "others"], among)
    assert len({*crowded.values()}) == 3
    assert len(colours([*among, "others"], among)) == 13, "more than there are colours"


@pytest.mark.parametrize(("days", "step"), [(1, 86_400_000), (3, 86_400_000), (6, 86_400_000), (7, None), (30, None)])
def test_a_day_has_one_label(days: int, step: int | None) -> None:
    """As found: on the third of a month, "31 Oct, 1 Nov, 1 Nov, 2 Nov, 2 Nov, 3 Nov, 3 Nov"."""
    at = [datetime(2026, 11, 1, tzinfo=UTC) + timedelta(days=day) for day in range(days)]
    trace = {"type": "bar", "x": at, "y": [1] * days}
    assert made([trace], language("en"))["layout"]["xaxis"].get("dtick") == step
    assert "dtick" not in made([trace], language("en"), "hour")["layout"]["xaxis"]
    month = [datetime(2026, month, 1, tzinfo=UTC) for month in (11, 12)]
    for span in (month, [one.isoformat() for one in month]):  # as found: thirty labels, one over the other
        assert "dtick" not in made([trace], language("en"), xaxis={"range": span})["layout"]["xaxis"]


def test_an_axis_of_small_amounts_has_cents() -> None:
    """As found, of a tenant that held nothing: ticks at $1, $1, $1, $0, $0 and $0."""
    assert money_axis("$", [None, 0.0, -9.5]) == {"tickprefix": "$", "tickformat": ",.2f"}
    assert money_axis("$", [])["tickformat"] == ",.2f"
    assert money_axis("€", [1.0, -120.0]) == {"tickprefix": "€", "tickformat": ",.0f"}
