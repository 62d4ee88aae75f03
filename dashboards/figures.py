"""Charts of the pages, as the browser gets them. The style sheet colours their text, so that a change of theme redraws
nothing.

Plotly's own objects in Python check and copy each value, which took longer than the rest of a page with charts; a test
has them check what each page draws.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from zoneinfo import ZoneInfo

from dashboards.format import evened
from dashboards.kinds import KINDS, Kind
from dashboards.languages import Language

Grain = Literal["day", "hour"]
Chart = dict[str, Any]
"""A figure of Plotly's: its `data` and `layout`."""
GRID = "rgba(126,141,166,0.22)"
SMALL_AMOUNT = 10
"""Below it, whole amounts are too few for the ticks of an axis."""
PALETTE = ("#3f6ce6", "#f09a2e", "#22a38b", "#9479d6", "#d9567a", "#5aa7d6", "#a3883c", "#66758f", "#7cb342", "#c06bd0")
"""Of series that are no kinds of time, in this order; holds on light and on dark ground."""

LOOK: Mapping[str, Any] = {
    "hovermode": "x unified",
    "showlegend": False,
    "margin": {"l": 44, "r": 8, "t": 8, "b": 30},
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "Inter, ui-sans-serif, system-ui, sans-serif", "size": 12},
    "hoverlabel": {"bgcolor": "#182034", "bordercolor": "#2c3753", "font": {"color": "#f1f4fa", "size": 12.5}},
    "autosize": True,
}
"""Of every figure's layout."""
Y_AXIS: Mapping[str, Any] = {
    "gridcolor": GRID,
    "zeroline": False,
    "rangemode": "tozero",
    "fixedrange": True,
    "nticks": 6,
    "separatethousands": True,
}


FEW_DAYS = timedelta(days=5)
"""Between the first and the last: Plotly has ten ticks at most, so that more days never have two each."""
DAY_MILLISECONDS = 86_400_000


def colours(names: Sequence[str], among: Sequence[str]) -> dict[str, str]:
    """A colour for each name: its place's among all there are, so that pages agree; another, where that is taken."""
    found: dict[str, str] = {}
    for name in names:
        first = among.index(name) if name in among else len(found)
        turned = [PALETTE[(first + step) % len(PALETTE)] for step in range(len(PALETTE))]
        found[name] = next((colour for colour in turned if colour not in found.values()), turned[0])
    return found


def ink(colour: str) -> str:
    """Of text on a colour (`#rrggbb`): white, or dark where white would not reach WCAG's contrast of 4.5."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return "#ffffff" if 0.2126 * red + 0.7152 * green + 0.0722 * blue <= 1.05 / 4.5 - 0.05 else "#121a2c"


@dataclass(frozen=True)
class Bucket:
    """A day or an hour: average GPUs of each kind over its closed hours. `at` is local time of the billing zone."""

    at: datetime
    gpus: Mapping[str, float]
    hours_closed: float


def buckets(rows: Iterable[Mapping[str, Any]], closed: Mapping[datetime, float], zone: str) -> list[Bucket]:
    """A bucket of each closed step (Filters.closed_steps), from rows with a `step` and GPU-hours of each kind.

    Rows of one step are added; a closed step without rows is zero, as the books say, one that is not closed is absent.
    """
    sums: dict[datetime, dict[str, float]] = {step: dict.fromkeys((kind.key for kind in KINDS), 0.0) for step in closed}
    for row in rows:
        for kind in KINDS:
            sums[row["step"]][kind.key] += row[kind.key]
    local = ZoneInfo(zone)
    return [
        Bucket(step.astimezone(local), {key: value / closed[step] for key, value in found.items()}, closed[step])
        for step, found in sums.items()
    ]


def stacked_over_time(
    found: Sequence[Bucket], grain: Grain, words: Language, kinds: Sequence[Kind] = KINDS, links: Sequence[str] = ()
) -> Chart:
    """Average GPUs of each kind, stacked to their sum; a bucket without closed hours leaves a gap.

    links: where a click on each bucket leads (a page's callback: ClientsideFunction("gl", "follow")).

    The x axis is local time of the billing zone; hours keep the period's first offset, so that the hour which autumn
    repeats has a place of its own. The hover says every bucket's true local time.
    """
    at = axis_times([bucket.at for bucket in found], grain)
    bars = [_stacked(kind, at, found, words, links) for kind in kinds]
    together = {
        "type": "scatter",
        "x": at,
        "y": [sum(bucket.gpus[kind.key] for kind in kinds) for bucket in found],
        "name": words("figure.together"),
        "mode": "lines",
        "line": {"width": 0},
        "customdata": [_hover_time(bucket, grain, words) for bucket in found],
        "hovertemplate": "%{y:,.1f}<br><b>%{customdata}</b>",
    }
    axis = {"unifiedhovertitle": {"text": words("figure.gpus")}}
    bargap = 0.14 if grain == "day" else 0
    return made([*bars, together], words, grain, xaxis=axis, barmode="stack", bargap=bargap)


def made(
    traces: Sequence[Mapping[str, Any]],
    words: Language,
    grain: Grain = "day",
    xaxis: Mapping[str, Any] | None = None,
    yaxis: Mapping[str, Any] | None = None,
    **layout: Any,
) -> Chart:
    """A chart in the common style."""
    across = {**_x_axis(words, grain), **(_daily(traces, xaxis or {}) if grain == "day" else {}), **(xaxis or {})}
    axes = {"xaxis": across, "yaxis": {**Y_AXIS, **(yaxis or {})}}
    is_time = (xaxis or {}).get("type", "date") == "date"
    look = {**LOOK, **layout}
    whole = {**(_with_room(look, grain) if is_time else look), **axes}
    if whole["hovermode"] == "x unified":
        traces = [_named(one, words) for one in traces]
    return {"data": timed([_evened(one) for one in traces]), "layout": whole}


def money_axis(sign: str, values: Iterable[float | None]) -> dict[str, str]:
    """The axis of amounts, with cents where whole ones would make ticks alike. sign: of the currency."""
    most = max((abs(one) for one in values if one is not None), default=0.0)
    return {"tickprefix": sign, "tickformat": ",.0f" if most >= SMALL_AMOUNT else ",.2f"}


def _evened(trace: Mapping[str, Any]) -> Mapping[str, Any]:
    """With values of which Plotly shows what figures and tables do."""
    shown = SHOWN.search(trace.get("hovertemplate") or "")
    if shown is None:
        return trace
    digits = int(shown[1])
    return {**trace, "y": [evened(one, digits) if isinstance(one, float) else one for one in trace["y"]]}


def _named(trace: Mapping[str, Any], words: Language) -> Mapping[str, Any]:
    """With its name in the language's way before its values; Plotly itself writes `name : value`."""
    shown = trace.get("hovertemplate")
    if not shown or "<extra>" in shown or not trace.get("name"):
        return trace
    return {**trace, "hovertemplate": f"%{{fullData.name}}{words('part.colon')}{shown}<extra></extra>"}


def timed(traces: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The traces with times on their x axis as the texts that browsers get: once for all that have the same."""
    texts: dict[int, list[Any]] = {}

    def text(x: Sequence[Any]) -> list[Any]:
        if id(x) not in texts:
            texts[id(x)] = [one.isoformat() if isinstance(one, datetime) else one for one in x]
        return texts[id(x)]

    return [{**one, "x": text(one["x"])} if isinstance(one.get("x"), list) else one for one in traces]


def _with_room(layout: Mapping[str, Any], grain: Grain) -> dict[str, Any]:
    """With margins for half of the last label beside its tick, and for an axis of hours for their two lines."""
    margin = layout["margin"]
    below = 44 if grain == "hour" else 30
    return {**layout, "margin": {**margin, "r": max(margin["r"], 24), "b": max(margin["b"], below)}}


def _x_axis(words: Language, grain: Grain) -> dict[str, Any]:
    return {
        "showgrid": False,
        "tickformat": words(f"time.{grain}_ticks"),
        "zeroline": False,
        "tickangle": 0,
        "ticklabelstandoff": 4,
    }  # below the zero of the other axis


def _daily(traces: Sequence[Mapping[str, Any]], axis: Mapping[str, Any]) -> dict[str, Any]:
    """One tick a day where there are few days: Plotly would write each day's label twice, at midnight and at noon.

    axis: what its `range` says counts, where it has one, and not where something is drawn."""
    shown = axis.get("range") or [at for one in traces for at in one.get("x") or ()]
    times = [at for at in shown if isinstance(at, datetime)]
    return {"dtick": DAY_MILLISECONDS} if times and max(times) - min(times) <= FEW_DAYS else {}


def legend(chart: Chart) -> list[tuple[str, str, str]]:
    """(name, colour, mark) of each series in a chart's legend; none if it has no legend."""
    if not chart.get("layout", {}).get("showlegend"):
        return []
    named = [one for one in chart["data"] if one.get("name") and one.get("showlegend") is not False]
    return [(one["name"], _colour(one), _mark(one)) for one in named]


def _mark(trace: Mapping[str, Any]) -> str:
    """How a series is drawn: `line`, `dashed`, `dotted`, `dot`, `ring`, `diamond`; '' is an area, a bar or a cell."""
    if trace.get("type") != "scatter" or trace.get("fill") not in (None, "none"):
        return ""
    if "lines" in str(trace.get("mode")):
        return {"dash": "dashed", "dot": "dotted"}.get(trace.get("line", {}).get("dash"), "line")
    return _MARKS.get(trace.get("marker", {}).get("symbol"), "")


_MARKS = {"diamond": "diamond", "circle": "dot", "circle-open": "ring", None: "dot"}
"""By Plotly's name of a marker's symbol."""


def _colour(trace: Mapping[str, Any]) -> str:
    """Of the line where only that has one."""
    marker = trace.get("marker", {})
    for part in (marker, marker.get("line", {}), trace.get("line", {})):
        if isinstance(part.get("color"), str):
            return str(part["color"])
    return GRID


SHOWN = re.compile(r"%\{y:,?\.(\d)f\}")
"""How a trace's tooltip shows its values."""
OURS = frozenset({"hovertemplate", "texttemplate"})
"""The parts of a figure that have markup, which only we write."""
PLAIN = frozenset({int, float, datetime, type(None)})
"""Types of most of a figure's values, in which no text is."""


def without_markup(value: Any) -> Any:
    """A chart, or a part of it, with markup in its texts escaped and without what is None. Plotly renders
    `<a href=...>` and `<span style=...>` in names, and users choose the names of tenants and jobs. A new line stays
    one."""
    if isinstance(value, str):
        return value.replace("<", "&lt;").replace("\n", "<br>")
    if isinstance(value, dict):
        return {key: one if key in OURS else without_markup(one) for key, one in value.items() if one is not None}
    if isinstance(value, list | tuple):
        return [one if type(one) in PLAIN else without_markup(one) for one in value]
    return value


def axis_times(at: Sequence[datetime], grain: Grain) -> list[datetime]:
    """Local times for an axis without time zones: days as they are, hours at the offset of the first one."""
    offset = at[0].utcoffset() if at and grain == "hour" else None
    return [_place(one, offset) for one in at]


def _place(at: datetime, offset: timedelta | None) -> datetime:
    if offset is None:
        return at.replace(tzinfo=None)
    return (at.astimezone(UTC) + offset).replace(tzinfo=None)


def _stacked(
    kind: Kind, at: Sequence[datetime], found: Sequence[Bucket], words: Language, links: Sequence[str]
) -> dict[str, Any]:
    marker: dict[str, object] = {"color": kind.colour, "line": {"width": 0}}
    if kind.hatch:
        marker["color"] = "rgba(126,141,166,0.14)"
        marker["pattern"] = {"shape": kind.hatch, "fgcolor": kind.colour, "size": 6, "solidity": 0.42}
    return {
        "type": "bar",
        "x": at,
        "y": [bucket.gpus[kind.key] for bucket in found],
        "name": words(f"kind.{kind.key}"),
        "marker": marker,
        "hovertemplate": "%{y:,.1f}",
        **({"customdata": list(links)} if links else {}),
    }


def _hover_time(bucket: Bucket, grain: Grain, words: Language) -> str:
    """The time in a bucket's tooltip, and how much of it is closed."""
    if grain == "hour":
        return f"{words.moment(bucket.at)} {bucket.at:%Z}"
    return words("figure.day", day=words.day(bucket.at), hours=f"{bucket.hours_closed:g}")


def in_steps(
    at: Sequence[datetime], values: Sequence[float | None], step: timedelta
) -> tuple[list[datetime], list[float | None]]:
    """Each value from its step's begin to its end; between steps that do not touch there is nothing."""
    x: list[datetime] = []
    y: list[float | None] = []
    for moment, value in zip(at, values, strict=True):
        if x and x[-1] != moment:
            x.append(x[-1])
            y.append(None)
        x += [moment, moment + step]
        y += [value, value]
    return x, y
