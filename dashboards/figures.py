"""Figures of the pages. The style sheet colours their text, so that a change of theme redraws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import plotly.graph_objects as go

from dashboards.data import Bucket, Grain
from dashboards.kinds import KINDS, Kind

GRID = "rgba(126,141,166,0.22)"


def fleet_over_time(buckets: Sequence[Bucket], grain: Grain) -> go.Figure:
    """Average GPUs of each kind, stacked to the capacity; a bucket without closed hours leaves a gap.

    The x axis is local time of the billing zone; hours keep the period's first offset, so that the hour which autumn
    repeats has a place of its own. The hover says every bucket's true local time.
    """
    offset = buckets[0].at.utcoffset() if buckets and grain == "hour" else None
    at = [_place(bucket, offset) for bucket in buckets]
    figure = go.Figure([_stacked(kind, at, buckets) for kind in KINDS])
    figure.add_scatter(
        x=at,
        y=[sum(bucket.gpus.values()) for bucket in buckets],
        name="Capacity",
        mode="lines",
        line={"width": 0},
        customdata=[_said(bucket, grain) for bucket in buckets],
        hovertemplate="%{y:,.1f}<br><b>%{customdata}</b>",
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
        xaxis={"showgrid": False, "tickformat": "%-d %b", "unifiedhovertitle": {"text": "GPUs on average"}},
        yaxis={"gridcolor": GRID, "zeroline": False, "rangemode": "tozero", "fixedrange": True, "nticks": 6},
        template="none",
        autosize=True,
    )
    return figure


def _stacked(kind: Kind, at: Sequence[datetime], buckets: Sequence[Bucket]) -> go.Bar:
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


def _place(bucket: Bucket, offset: timedelta | None) -> datetime:
    """Where a bucket stands on the axis, which knows no zones: its local time, or its instant at a fixed offset."""
    if offset is None:
        return bucket.at.replace(tzinfo=None)
    return (bucket.at.astimezone(UTC) + offset).replace(tzinfo=None)


def _said(bucket: Bucket, grain: Grain) -> str:
    """What the hover says of when the bucket is, and of how much of it is closed."""
    if grain == "hour":
        return f"{bucket.at:%a} {bucket.at.day} {bucket.at:%b, %H:%M %Z}"
    return f"{bucket.at:%a} {bucket.at.day} {bucket.at:%B}, average of {bucket.hours_closed} hours"
