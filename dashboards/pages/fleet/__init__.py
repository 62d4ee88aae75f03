"""The fleet: every device by what it did and cost, how shared devices are partitioned; and one device (`?device=`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from dash import ClientsideFunction, Dash, Input, dcc, html
from dash.development.base_component import Component

from access.roles import Action
from dashboards import exports, grids, headline_figures, parts, states
from dashboards.filters import Filters
from dashboards.format import device_name, hours, money, percent
from dashboards.languages import Language
from dashboards.pages.fleet.cells import HELD, MEASURES, Measure, cell, scale
from dashboards.pages.fleet.device import device_page, used_is
from dashboards.pages.fleet.layout import layout_card
from dashboards.parts import Figure
from dashboards.periods import HOUR
from dashboards.registry import Ask, Page
from warehouse.store import Store

MANY = 200
"""Devices, from which on the heat map draws small cells."""
Rows = Sequence[Mapping[str, Any]]
KINDS = ("used", "idle", "unmetered", "unallocated", "unavailable")


def layout(store: Store, filters: Filters, words: Language) -> Component:
    until = last_instant(filters)
    device = filters.more.get("device")
    devices = devices_of(store, filters, until, device or "")
    if device is not None:
        return device_page(store, filters, words, device, devices[0] if devices else None, until)
    if not devices:
        return parts.page(parts.titles(filters, words, words("fleet.title")), states.nothing_here(words("fleet.none")))
    is_measure = filters.more.get("by") in {one.key for one in _measures(filters)}
    return parts.page(
        parts.titles(filters, words, words("fleet.title"), None if is_measure else parts.ignored(filters, words, "by")),
        _headline(devices, filters, words),
        _map_card(devices, filters, words),
        layout_card(store, filters, until, words),
        _table_card(devices, filters, words),
    )


def _measures(filters: Filters) -> Sequence[Measure]:
    return [one for one in MEASURES if filters.shows_platform or one is not HELD]


def last_instant(filters: Filters) -> datetime:
    """The end of the displayed part of the period."""
    assert filters.period is not None
    return min(filters.period.end, filters.months[-1].last + HOUR)


def devices_of(store: Store, filters: Filters, until: datetime, device: str = "") -> list[dict[str, Any]]:
    """The period's devices with their sums, what was reported of each, and what the last hour measured of it."""
    rows, *others = filters.at_once(
        store,
        lambda on: filters.rows(on, __file__, "devices", device=device),
        lambda on: filters.rows(on, __file__, "reported", device=device),
        lambda on: _latest(on, filters, until, device),
    )
    reported, latest = ({(row["cluster"], row["device_id"]): row for row in found} for found in others)
    unreported = {"state": "", "errors": 0}
    unknown = {"memory": None, "temperature": None, "power": None}
    devices, href = [], filters.hrefs("/fleet", "device")
    for row in rows:
        key = row["cluster"], row["device_id"]
        capacity = sum(row[kind] for kind in KINDS)
        usable = capacity - row["unavailable"]
        held = row["used"] + row["idle"] + row["unmetered"]
        devices.append(
            {
                **row,
                "capacity": capacity,
                "held": held,
                "used_part": row["used"] / usable if usable else None,
                "held_part": held / usable if usable else None,
                "href": href(row["device_id"]),
                **{name: reported.get(key, unreported)[name] for name in unreported},
                **{name: latest.get(key, unknown)[name] for name in unknown},
            }
        )
    return devices


def _latest(store: Store, filters: Filters, until: datetime, device: str) -> Rows:
    hour = until - HOUR
    inputs = filters.closed.measured.get(hour.timestamp())
    if inputs is None:
        return filters.rows(store, __file__, "latest", until=until, device=device)
    return filters.rows(store, __file__, "latest_closed", hour=hour, inputs=inputs, device=device)


def _headline(devices: Rows, filters: Filters, words: Language) -> Component:
    assert filters.period is not None
    is_whole = filters.shows_platform
    sums = {kind: sum(row[kind] for row in devices) for kind in KINDS}
    capacity = sum(sums.values())
    held = sums["used"] + sums["idle"] + sums["unmetered"]
    down = sum(row["state"] == "unavailable" for row in devices)
    free = [row["unallocated_cost"] for row in devices if row["unallocated_cost"] is not None]
    unpriced = sum(row["unallocated_unpriced"] for row in devices)
    lacking = words("quality.unpriced", n=hours(unpriced)) if unpriced else ""
    removed = sum(row["state"] == "removed" for row in devices)
    unallocated = Figure(
        words("kind.unallocated"),
        money(sum(free) if free else None, filters.currency),
        "",
        " · ".join(filter(None, (words("overview.gpu_hours", n=hours(sums["unallocated"])), lacking))),
        "unallocated",
    )
    on = [words.count("fleet.nodes", len({(row["cluster"], row["node"]) for row in devices}))]
    if removed:
        on.append(words.count("fleet.removed", removed))
    return parts.headline(
        [
            Figure(words("fleet.gpus"), f"{len(devices):,}", "", " · ".join(on)),
            Figure(
                words("overview.allocated"),
                percent(held, capacity),
                words("overview.of_capacity"),
                words("overview.gpu_hours", n=hours(held)),
            )
            if is_whole
            else headline_figures.allocated(held, filters.period.hours_closed, words),
            Figure(
                words("kind.used"),
                percent(sums["used"], capacity),
                words("overview.of_capacity" if is_whole else "overview.of_allocated"),
                words("overview.gpu_hours", n=hours(sums["used"])),
                "used",
            ),
            *([unallocated] if is_whole else []),
            Figure(words("fleet.down"), f"{down:,}", "", words("fleet.down_is"), "unavailable"),
            Figure(
                words("fleet.errors"),
                f"{sum(row['errors'] for row in devices):,}",
                "",
                words("fleet.errors_is"),
            ),
        ]
    )


def _map_card(devices: Rows, filters: Filters, words: Language) -> Component:
    """A cell per device, by node and pool; its colour shows one measure, which links choose."""
    measures = _measures(filters)
    measure = next((one for one in measures if one.key == filters.more.get("by")), measures[0])
    top = measure.top(devices)
    chooser = html.Ul(
        [
            html.Li(
                dcc.Link(words(f"fleet.by_{one.key}"), href=filters.href("/fleet", by=one.key), className="gl-choice"),
                **({"aria-current": "true"} if one is measure else {}),
            )
            for one in measures
        ],
        className="gl-choices",
        **{"aria-label": words("fleet.by")},
    )
    pools = [
        html.Section(
            [html.H3([pool or words("no_name"), html.Small(words.count("workload.gpus", len(of_pool)))]),
             html.Div(list(_nodes(of_pool, devices[0], measure, top, filters, words)), className="gl-nodes",
                      role="grid", **{"aria-label": f"{words('fleet.map')}: {pool or words('no_name')}"})],
            className="gl-pool",
        )
        for pool, of_pool in ((pool, list(rows)) for pool, rows in groupby(devices, key=lambda row: row["pool"]))
    ]  # fmt: skip
    return parts.card(
        words("fleet.map"),
        used_is(filters, words) if measure.key == "used" else words(f"fleet.by_{measure.key}_is"),
        html.Div(pools, className="gl-heat" if len(devices) > MANY else "gl-heat gl-large"),
        scale(measure, top, filters.currency, words),
        tool=chooser,
    )


def _nodes(
    devices: Rows, stop: Mapping[str, Any], measure: Measure, top: float, filters: Filters, words: Language
) -> Iterable[Component]:
    """stop: the device that Tab leads to."""
    for node, rows in groupby(devices, key=lambda row: row["node"]):
        listed = list(rows)
        yield html.Div(
            [
                html.Span(node, className="gl-node-name", title=f"{node} · {listed[0]['model']}", role="rowheader"),
                html.Div(
                    [cell(row, measure, top, filters, words, row is stop) for row in listed], className="gl-cells"
                ),
            ],
            className="gl-node",
            role="row",
        )


def _table_card(devices: Rows, filters: Filters, words: Language) -> Component:
    held = [grids.percent("held_part", words("overview.allocated"), words("fleet.by_held_is"))]
    columns = [
        grids.device_link("name", words("fleet.device")),
        grids.text("node", words("fleet.node"), minimum=110, flex=1.2),
        grids.text("model", words("filter.model"), minimum=120, flex=1.6),
        grids.text("pool", words("filter.pool"), minimum=92),
        grids.text("state", words("fleet.state"), minimum=90),
        grids.percent("used_part", words("kind.used"), used_is(filters, words)),
        *(held if filters.shows_platform else []),
        grids.percent("memory", words("fleet.by_memory"), words("fleet.by_memory_is")),
        grids.number("temperature", words("fleet.warm"), words("fleet.by_temperature_is"), ",.0f"),
        grids.number("errors", words("fleet.errors"), words("fleet.by_errors_is"), ",d", minimum=80),
        grids.money("list_cost", words("account.cost"), filters.currency),
    ]
    fields = [one["field"] for one in columns if one["field"] not in ("name", "state")]
    rows = [
        {
            "name": row["device_id"],
            "name_text": device_name(row["device_id"]),
            "href": row["href"],
            "state": words.of(f"device.{row['state']}", row["state"]),
            **{name: row[name] for name in fields},
        }
        for row in devices
    ]
    table = grids.grid(
        columns,
        rows,
        words,
        "fleet-grid",
        spare=("pool", "temperature", "state", "memory", "errors", "held_part", "node"),
    )
    tool = exports.of_grid("fleet-grid", "devices", filters, words)
    return parts.card(words("fleet.devices"), words("fleet.devices_is"), table, tool=tool, class_name="gl-table-card")


def callbacks(app: Dash, _: Ask) -> None:
    app.clientside_callback(ClientsideFunction("gl", "follow"), Input("device-time", "clickData"))


PAGE = Page(
    "/fleet",
    "fleet.title",
    40,
    layout,
    callbacks=callbacks,
    icon="M6 6h12v12H6zM10 10h4v4h-4zM9 2v4M15 2v4M9 18v4M15 18v4M2 9h4M2 15h4M18 9h4M18 15h4",
    action=Action.see_fleet,
)
