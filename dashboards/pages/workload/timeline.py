"""A workload's allocations, events and measurements on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dash.development.base_component import Component

from dashboards import figures, parts
from dashboards.filters import Filters
from dashboards.format import device_digits
from dashboards.kinds import IDLE, UNMETERED, USED
from dashboards.languages import Language
from dashboards.pages.workload.lifecycle import HOUR_SECONDS, Lifecycle, Span, plain, step_seconds
from dashboards.panels import Panels
from dashboards.periods import HOUR
from dashboards.said import said
from warehouse.store import Store

LANES = 16
"""Devices drawn one by one; a bigger job shows the first of them."""
LEFT, MOST_LEFT, CHARACTER = 120, 210, 6.6
"""Pixels for the labels of lanes, and of one of their characters."""
ROOM = 0.012
"""Of the axis, at either end: half of a mark that stands there, which would cover a label."""
GOOD, PLAIN, WARN, BAD = "#22a38b", "#3f6ce6", "#c46f06", "#c4352f"
COLOURS = {"started": GOOD, "resumed": GOOD, "resized": PLAIN, "finished": PLAIN, "cancelled": WARN, "suspended": WARN,
           "failed": BAD, "preempted": BAD, "rejected": BAD}  # fmt: skip
Rows = Sequence[Mapping[str, Any]]
Lane = tuple[str, str, str]
"""Node, device, partition."""


def timeline(store: Store, filters: Filters, lifecycle: Lifecycle, words: Language) -> Component:
    assert lifecycle.window is not None
    seconds = step_seconds(lifecycle.window)
    asked = {"workload": lifecycle.workload, **lifecycle.bounds()}
    if seconds == HOUR_SECONDS:
        measured = held_throughout(filters.rows(store, __file__, "sampled_hours", **asked), lifecycle.claims)
    else:
        measured = filters.rows(store, __file__, "samples", seconds=seconds, **asked)
    slowed = filters.rows(store, __file__, "interference", seconds=seconds, **asked)
    used = filters.rows(store, __file__, "hours", **asked)
    figure, height = draw(lifecycle, filters, used, measured, slowed, words)
    return parts.graph(figure, words("workload.timeline_says"), "workload-timeline", height)


def held_throughout(hours: Rows, claims: Rows) -> Rows:
    """Without the hours in which it got or gave up something: an hour's sums are of others, too, who held it then, or
    of nobody. All of them where there are no others."""
    moments = (moment for claim in claims for moment in (claim["start_at"], claim["end_at"]) if moment is not None)
    begun = {moment: moment.replace(minute=0, second=0, microsecond=0) for moment in moments}
    in_part = {hour for moment, hour in begun.items() if moment != hour}
    return [row for row in hours if row["step"] not in in_part] or hours


def draw(
    lifecycle: Lifecycle, filters: Filters, used: Rows, measured: Rows, slowed: Rows, words: Language
) -> tuple[figures.Chart, int]:
    """The figure, and how high it is in pixels."""
    assert lifecycle.window is not None
    offset = filters.local(lifecycle.window[0]).utcoffset()
    assert offset is not None

    def at(moment: datetime) -> datetime:
        """Local time at the window's first offset: an axis knows no zones."""
        return (moment.astimezone(UTC) + offset).replace(tzinfo=None)

    lanes: list[Lane] = list(
        dict.fromkeys((claim["node"], claim["device_id"], claim["partition_id"]) for claim in lifecycle.claims)
    )
    shown = lanes[:LANES]
    rows: list[tuple[str, int]] = [("held", 34 + 20 * max(1, len(shown))), ("use", 100)]
    if any(row["utilization"] is not None for row in measured):
        rows.append(("utilization", 100))
    if any(row["memory_bytes"] is not None for row in measured):
        rows.append(("memory", 84))
    if any(row["power_watts"] is not None for row in measured):
        rows.append(("power", 84))
    if slowed:
        rows.append(("slowdown", 84))
    panels = Panels([height for _, height in rows])
    place = {name: number for number, (name, _) in enumerate(rows)}
    _held(panels, lifecycle, shown, at, filters, words)
    _use(panels, used, place["use"], lifecycle.window, at, words)
    series = {
        "utilization": (figures.PALETTE[0], [_scaled(row["utilization"], 100) for row in measured], "%{y:.1f}%"),
        "memory": (figures.PALETTE[3], [_scaled(row["memory_bytes"], 2**-30) for row in measured], "%{y:.1f} GiB"),
        "power": (figures.PALETTE[1], [row["power_watts"] for row in measured], "%{y:,.0f} W"),
    }
    step = timedelta(seconds=step_seconds(lifecycle.window))
    for name, (colour, values, hover) in series.items():
        if name in place:
            x, y = figures.in_steps([at(row["step"]) for row in measured], values, step)
            panels.add(place[name], _line(x, y, colour, hover, words(f"timeline.{name}")))
    if "utilization" in place:
        panels.y(place["utilization"], range=[0, 105], ticksuffix="%")
    if slowed:
        x, y = figures.in_steps([at(row["step"]) for row in slowed], [row["slowdown"] for row in slowed], step)
        panels.add(place["slowdown"], _line(x, y, figures.PALETTE[4], "%{y:.2f} x", words("timeline.slowdown")))
        panels.line(place["slowdown"], 1)
    room = (lifecycle.window[1] - lifecycle.window[0]) * ROOM
    span = [at(lifecycle.window[0]) - room, at(lifecycle.window[1]) + room]
    named = {"utilization": "utilization_whole"} if lifecycle.has_plain_shares else {}
    titles = [words(f"timeline.{named.get(name, name)}") for name, _ in rows]
    left = max(LEFT, min(MOST_LEFT, round(8 + CHARACTER * max(map(len, _labels(shown)), default=0))))
    return panels.figure(titles, words, span, left, hoversubplots="axis"), panels.height


def _labels(shown: Sequence[Lane]) -> list[str]:
    return [f"{node} · {device_digits(part or device)}" for node, device, part in shown]


def _lane(claim: Mapping[str, Any]) -> Lane:
    return claim["node"], claim["device_id"], claim["partition_id"]


def _held(
    panels: Panels,
    lifecycle: Lifecycle,
    shown: Sequence[Lane],
    at: Any,
    filters: Filters,
    words: Language,
) -> None:
    """A lane a device, and what happened above them, where anything did."""
    window = lifecycle.window
    assert window is not None
    events = [event for event in lifecycle.events if window[0] <= event["ts"] <= window[1]]
    number = {lane: place for place, lane in enumerate(shown, 1)}
    x: list[datetime | None] = []
    y: list[int | None] = []
    texts: list[list[str] | None] = []
    for claim in lifecycle.claims:
        lane = number.get(_lane(claim))
        if lane is None:
            continue
        ends = claim["end_at"] or lifecycle.until
        start, end = (words.moment(filters.local(moment)) for moment in (claim["start_at"], ends))
        text = [claim["device_id"], claim["partition_profile"] or claim["model"], start, end]
        drawn = max(claim["start_at"], window[0]), min(ends, window[1])  # as far as the bars below reach
        if drawn[0] < drawn[1]:
            x += [*map(at, drawn), None]
            y += [lane, lane, None]
            texts += [text, text, None]
    held = {
        "type": "scatter",
        "x": x,
        "y": y,
        "mode": "lines",
        "line": {"color": PLAIN, "width": 13},
        "opacity": 0.8,
        "customdata": texts,
        "hovertemplate": "%{customdata[0]}<br>%{customdata[1]}<br>%{customdata[2]} – %{customdata[3]}<extra></extra>",
    }
    happened = {
        "type": "scatter",
        "x": [at(event["ts"]) for event in events],
        "y": [0] * len(events),
        "mode": "markers",
        "marker": {
            "size": 11,
            "symbol": "diamond",
            "color": [COLOURS.get(event["event"], "#6f7f9c") for event in events],
        },
        "cliponaxis": False,
        "customdata": [
            [
                words.of(f"event.{event['event']}", event["event"]),
                " ".join(
                    said(part, filters, words) for part in (event["reason"], plain(event["message"], words)) if part
                ),
                words.moment(filters.local(event["ts"])),
            ]
            for event in events
        ],
        "hovertemplate": "<b>%{customdata[0]}</b> %{customdata[2]}<br>%{customdata[1]}<extra></extra>",
    }
    panels.add(0, held, happened)
    names = {0: words("timeline.events")} if events else {}
    names |= dict(enumerate(_labels(shown), 1))
    top = -0.7 if events else 0.3
    panels.y(
        0, range=[len(shown) + 0.7, top], rangemode="normal", tickvals=list(names), ticktext=list(names.values()),
        showgrid=False, ticklabelstandoff=7,  # a mark at the beginning does not lie on its label
    )  # fmt: skip


def _use(panels: Panels, used: Rows, number: int, window: Span, at: Any, words: Language) -> None:
    """GPU-hours of each kind, hour by hour, from the books; of an hour in which it began or ended, the part that the
    lanes above have."""
    drawn = [(max(hour["hour"], window[0]), min(hour["hour"] + HOUR, window[1])) for hour in used]
    for kind in (USED, IDLE, UNMETERED):
        bars = {
            "type": "bar",
            "x": [at(first) for first, _ in drawn],
            "y": [hour[kind.key] for hour in used],
            "width": [max(0.0, (last - first).total_seconds() * 1000) for first, last in drawn],
            "offset": 0,
            "name": words(f"kind.{kind.key}"),
            "marker": {"color": kind.colour, "line": {"width": 0}},
            "hovertemplate": "%{y:,.2f}",
        }
        panels.add(number, bars)


def _line(at: Sequence[datetime], values: Sequence[float | None], colour: str, hover: str, name: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "x": list(at),
        "y": list(values),
        "mode": "lines",
        "line": {"color": colour, "width": 1.6},
        "connectgaps": False,
        "name": name,
        "hovertemplate": hover,
    }


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
