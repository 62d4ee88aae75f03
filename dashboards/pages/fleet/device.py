"""One device: its time by use, its allocations, measurements and findings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from dash import html
from dash.development.base_component import Component

from dashboards import exports, figures, grids, headline_figures, parts, states
from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed, hours, money, percent, symbol
from dashboards.kinds import ALLOCATED, KINDS
from dashboards.languages import Language
from dashboards.pages.fleet.layout import layout_card
from dashboards.pages.overview import fleet_over_time
from dashboards.panels import Panels
from dashboards.parts import Figure
from dashboards.periods import HOUR
from dashboards.said import found
from warehouse.store import Store

Row = Mapping[str, Any]
HOUR_SECONDS = 3600
FEW = 3


def device_page(
    store: Store, filters: Filters, words: Language, device: str, row: Row | None, until: datetime
) -> Component:
    """row: the device's sums of the period; None: it was no part of the fleet then."""
    assert filters.period is not None
    trail = [(words("fleet.title"), filters.href("/fleet"))]
    if row is None:
        # What is reported of the device itself is for who sees the fleet.
        known = filters.rows(store, __file__, "history", device=device) if filters.shows_platform else []
        is_unknown = filters.shows_platform and not known
        return parts.page(
            parts.titles(filters, words, device, trail=trail),
            states.nothing_here(words("fleet.unknown_device" if is_unknown else "fleet.no_device")),
            _history_card(known, filters, words) if known else None,
        )
    grain: figures.Grain = "day" if filters.period.is_long else "hour"
    kinds = KINDS if filters.shows_platform else ALLOCATED
    over_time, measured_card, holders, history, layout = filters.at_once(
        store,
        lambda on: fleet_over_time(on, filters, words, grain, "/fleet", device),
        lambda on: _measured_card(on, filters, device, words),
        lambda on: _holders_card(on, filters, device, words),
        lambda on: filters.rows(on, __file__, "history", device=device),
        lambda on: layout_card(on, filters, until, words, device),
    )
    return parts.page(
        parts.titles(filters, words, device, _state_chip(row, words), trail=trail),
        _headline(row, filters, words),
        *_beside(
            parts.card(
                words("fleet.time"),
                words("fleet.time_is"),
                parts.graph(over_time, words("fleet.time"), "device-time", 260, keys=words("figure.keys")),
                tool=parts.legend(kinds, words),
            ),
            history,
            filters,
            words,
        ),
        measured_card,
        layout,
        holders,
    )


def _state_chip(row: Row, words: Language) -> Component:
    good = row["state"] == "available"
    return parts.chip(words.of(f"device.{row['state']}", row["state"]), state="gl-good" if good else "gl-warn")


def used_is(filters: Filters, words: Language) -> str:
    """Of which time the used part is: of what some tenants held where they are chosen, as their rows have no other."""
    return words("fleet.by_used_is" if filters.shows_platform else "fleet.by_used_of_held")


def _headline(row: Row, filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    currency = filters.currency
    price = UNKNOWN if row["price"] is None else f"{symbol(currency)}{fixed(row['price'], 2)}"
    warm = UNKNOWN if row["temperature"] is None else f"{fixed(row['temperature'], 0)} °C"
    power = "" if row["power"] is None else f"{words('fleet.by_power')} {fixed(row['power'], 0)}\u00a0W"
    return parts.headline(
        [
            Figure(words("fleet.node"), row["node"], "", f"{row['model']} · {row['pool']}"),
            Figure(
                words("overview.allocated"),
                percent(row["held_part"]),
                "",
                words("overview.gpu_hours", n=hours(row["held"])),
            )
            if filters.shows_platform
            else headline_figures.allocated(row["held"], filters.period.hours_closed, words),
            Figure(words("kind.used"), percent(row["used_part"]), "", used_is(filters, words), "used"),
            Figure(words("overview.cost"), money(row["list_cost"], currency), "", words("fleet.an_hour", price=price)),
            Figure(words("fleet.by_memory"), percent(row["memory"]), "", words("fleet.last_hour")),
            Figure(words("fleet.by_temperature"), warm, "", power),
        ]
    )


def _beside(chart: Component, rows: Sequence[Row], filters: Filters, words: Language) -> Sequence[Component]:
    """Beside the chart stands a history that is about as high; a short one stands below it."""
    history = _history_card(rows, filters, words)
    return [parts.split(chart, history)] if len(rows) > FEW else [chart, history]


def _history_card(rows: Sequence[Row], filters: Filters, words: Language) -> Component:
    items = [
        html.Li(
            [
                html.Span(className=f"gl-dot gl-{row['severity']}"),
                html.Span([html.Strong(words.of(f"device.{row['what']}", what)), html.Small(message)]),
                html.Small(words.moment(filters.local(row["ts"])), className="gl-since"),
            ]
        )
        for row in rows
        for what, message in [(found(row["what"], filters, words), _message(row, filters, words))]
    ]
    content = parts.long_list(items, "gl-quality gl-fires", words) if items else states.nothing_here("")
    return parts.card(words("fleet.history"), words("fleet.history_is"), content)


def _message(row: Row, filters: Filters, words: Language) -> str:
    """Where it is, and into how many units it can be divided; or what was found on it."""
    shared = words("fleet.in_units", n=row["units"]) if row["units"] else ""
    return " · ".join(filter(None, (found(row["message"], filters, words), shared)))


def _measured_card(store: Store, filters: Filters, device: str, words: Language) -> Component:
    rows = measured_hours(store, filters, device)
    content = (
        parts.graph(measured(rows, filters, words), words("fleet.measured"), "device-measured", 280)
        if rows
        else states.nothing_here(words("fleet.not_measured"))
    )
    return parts.card(words("fleet.measured"), words("fleet.measured_is"), content)


def measured_hours(store: Store, filters: Filters, device: str) -> Sequence[Row]:
    """The rows of measured.sql; of hours that were measured already those of measured_closed.sql. Those alone that have
    power or memory."""
    return [
        row
        for row in _measured_hours(store, filters, device)
        if row["power_watts"] is not None or row["memory_bytes"] is not None
    ]


def _measured_hours(store: Store, filters: Filters, device: str) -> Sequence[Row]:
    assert filters.period is not None
    done = filters.closed.measured
    if not done:
        return filters.rows(store, __file__, "measured", device=device)
    begun = math.ceil(filters.period.start.timestamp() / HOUR_SECONDS) * HOUR_SECONDS
    first = max(begun, filters.closed.hours[0][0])  # before it there are no facts
    hours = range(first, math.ceil(filters.period.end.timestamp()), HOUR_SECONDS)
    missing = [datetime.fromtimestamp(hour, UTC) for hour in hours if hour not in done]
    rows = filters.rows(store, __file__, "measured_closed", device=device)
    if not missing:
        return rows
    more = filters.rows(store, __file__, "measured", device=device, start=missing[0], end=missing[-1] + HOUR)
    others = set(missing)
    return sorted([*rows, *(row for row in more if row["hour"] in others)], key=lambda row: row["hour"])


def measured(rows: Sequence[Row], filters: Filters, words: Language) -> figures.Chart:
    """Power and memory of each hour; an hour in which nothing was reported leaves a gap."""
    offset = filters.local(rows[0]["hour"]).utcoffset()
    assert offset is not None
    hours = [_local(hour, offset) for hour in [*filters.closed_steps("hour"), *(row["hour"] for row in rows)]]
    panels = Panels([100, 100])
    lines = (("power_watts", 1, "%{y:,.0f} W", 1), ("memory_bytes", 2**30, "%{y:,.1f} GiB", 3))
    for number, (name, unit, said, colour) in enumerate(lines):
        reported = [row for row in rows if row[name] is not None]
        at = [_local(row["hour"], offset) for row in reported]
        x, y = figures.in_steps(at, [row[name] / unit for row in reported], HOUR)
        line = {
            "type": "scatter",
            "x": x,
            "y": y,
            "mode": "lines",
            "line": {"color": figures.PALETTE[colour], "width": 1.6},
            "hovertemplate": said + "<extra></extra>",
        }
        panels.add(number, line)
    span = (min(hours), max(hours) + HOUR)  # also of hours after the device was removed, as the chart above
    return panels.figure([words("fleet.power"), words("timeline.memory")], words, span, grain="day")


def _local(moment: datetime, offset: timedelta) -> datetime:
    return (moment.astimezone(UTC) + offset).replace(tzinfo=None)


def _holders_card(store: Store, filters: Filters, device: str, words: Language) -> Component:
    columns = [
        grids.link("name", words("workload.name"), minimum=180, flex=2),
        grids.text("tenant", words("filter.tenant"), minimum=90),
        grids.text("project", words("filter.project"), minimum=90),
        grids.text("share", words("fleet.share"), minimum=90),
        grids.moment("first", words("fleet.held_from"), words("fleet.held_is")),
        grids.moment("last", words("fleet.held_until"), words("fleet.held_is")),
        grids.use_bar(words("tenants.use_bar"), words("tenants.use_bar_is")),
        grids.number(
            "allocated", words("overview.allocated"), words("tenants.allocated_is"), unit=words("unit.gpu_hours")
        ),
        grids.money("list_cost", words("account.cost"), filters.currency),
    ]
    shown = []
    for row in filters.rows(store, __file__, "holders", device=device):
        allocated = row["used"] + row["idle"] + row["unmetered"]
        shown.append(
            {
                "name": row["workload_id"],
                "href": filters.href("/workloads", workload=row["workload_id"]),
                "share": row["partition_profile"] or f"{row['units']}/{row['device_units']}",
                "first": filters.local(row["first_at"]),
                "last": filters.local(row["last_at"]),
                "allocated": allocated,
                "use": row["used"] / allocated if allocated else None,
                **{key: row[key] for key in ("tenant", "project", "used", "idle", "unmetered", "list_cost")},
            }
        )
    return parts.card(
        words("fleet.holders"),
        words("fleet.holders_is"),
        grids.grid(columns, shown, words, "fleet-holders"),
        tool=exports.of_grid("fleet-holders", f"{device}-holders", filters, words),
        class_name="gl-table-card",
    )
