"""Figures of the pages. The style sheet colours their text, so that a change of theme redraws nothing."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboards.data import Bucket, Grain
from dashboards.kinds import KINDS, Kind

GRID = "rgba(126,141,166,0.22)"


def fleet_over_time(buckets: Sequence[Bucket], grain: Grain) -> go.Figure:
    """Average GPUs of each kind, stacked to the capacity; a bucket without closed hours leaves a gap.

    The x axis is local time of the billing zone.
    """
    at = [bucket.at.replace(tzinfo=None) for bucket in buckets]
    figure = go.Figure([_stacked(kind, at, buckets) for kind in KINDS])
    figure.add_scatter(
        x=at,
        y=[sum(bucket.gpus.values()) for bucket in buckets],
        name="Capacity",
        mode="lines",
        line={"width": 0},
        customdata=[_when(bucket, grain) for bucket in buckets],
        hovertemplate="%{y:,.1f} GPUs<br><span style='opacity:.8'>%{customdata}</span><extra>Capacity</extra>",
    )
    figure.update_layout(
        barmode="stack",
        bargap=0.14 if grain == "day" else 0,
        hovermode="x unified",
        showlegend=False,
        margin={"l": 44, "r": 8, "t": 8, "b": 30},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        font={"family": "Inter, ui-sans-serif, system-ui, sans-serif", "size": 12},
        hoverlabel={"bgcolor": "#182034", "bordercolor": "#2c3753", "font": {"color": "#f1f4fa", "size": 12.5}},
        xaxis={"showgrid": False, "tickformat": "%-d %b", "hoverformat": _hover_format(grain), "fixedrange": False},
        yaxis={"gridcolor": GRID, "zeroline": False, "rangemode": "tozero", "fixedrange": True, "nticks": 6},
        template="none",
        autosize=True,
    )
    return figure


def _stacked(kind: Kind, at: Sequence[object], buckets: Sequence[Bucket]) -> go.Bar:
    marker: dict[str, object] = {"color": kind.colour, "line": {"width": 0}}
    if kind.hatch:
        marker["color"] = "rgba(126,141,166,0.14)"
        marker["pattern"] = {"shape": kind.hatch, "fgcolor": kind.colour, "size": 6, "solidity": 0.42}
    return go.Bar(
        x=at,
        y=[bucket.gpus[kind.key] for bucket in buckets],
        name=kind.label,
        marker=marker,
        hovertemplate="%{y:,.1f}",
    )


def _when(bucket: Bucket, grain: Grain) -> str:
    """What the hover says of the bucket's completeness."""
    if grain == "hour":
        return bucket.at.strftime("%Z")
    return f"average of {bucket.hours_closed} closed hours"


def _hover_format(grain: Grain) -> str:
    return "%a %-d %b %Y" if grain == "day" else "%a %-d %b, %H:%M"
