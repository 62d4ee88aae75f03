"""How shared devices are divided: MIG instances, time-slices, shares of a GPU, at an instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from dash import html
from dash.development.base_component import Component

from dashboards import figures, parts
from dashboards.filters import Filters
from dashboards.format import device_digits
from dashboards.languages import Language
from dashboards.periods import HOUR
from warehouse.store import Store


def layout_card(store: Store, filters: Filters, until: datetime, words: Language, device: str = "") -> Component | None:
    """A bar of units a device, at the end of the period; nothing where no device is shared. Of chosen tenants, projects
    or queues the devices of which they have a share."""
    listed = _devices(store, filters, until, device)
    if not listed:
        return None
    shares = [share for of_device in listed for share in of_device if share["units"]]
    tenants = sorted({share["tenant"] for share in shares if share["is_chosen"]})
    colours = figures.colours(tenants, filters.choices.values.get("tenant", ()))
    bars = [_bar(of_device, colours, filters, words, of_device is listed[0]) for of_device in listed]
    legend = html.Ul(
        [
            html.Li([html.Span(className="gl-swatch", style={"background": colour}), tenant or words("no_name")])
            for tenant, colour in colours.items()
        ],
        className="gl-legend",
    )
    if any(not share["is_chosen"] for share in shares):
        legend.children.append(html.Li([html.Span(className="gl-swatch gl-others"), words("fleet.others")]))
    if any(one[0]["device_units"] > sum(share["units"] or 0 for share in one) for one in listed):
        legend.children.append(html.Li([html.Span(className="gl-swatch gl-free"), words("fleet.unallocated")]))
    return parts.card(
        words("fleet.layout"),
        words("fleet.layout_is", at=words.moment(filters.local(until))),
        html.Div(bars, className="gl-layouts", role="grid", **{"aria-label": words("fleet.layout")}),
        tool=legend,
    )


def _devices(store: Store, filters: Filters, until: datetime, device: str) -> list[list[Mapping[str, Any]]]:
    """The shares of each device, whose they are by the books' last hour, else as reported. Those of others than the
    chosen tenants, projects and queues are not `is_chosen`."""
    rows = filters.rows(store, __file__, "layout", until=until, device=device)
    if not rows:
        return []
    of_books = {_key(row): row["tenant"] for row in filters.rows(store, __file__, "layout_in_books", hour=until - HOUR)}
    narrowed = any(filters.address.chosen.get(name) for name in ("tenant", "project", "queue"))
    shares: list[Mapping[str, Any]] = [
        {**row, "tenant": of_books.get(_key(row), row["tenant"]), "is_chosen": not narrowed or _key(row) in of_books}
        for row in rows
    ]
    listed = [list(of_device) for _, of_device in groupby(shares, key=lambda row: (row["node"], row["device_id"]))]
    return [one for one in listed if any(share["is_chosen"] for share in one)]


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["cluster"], row["device_id"], row["allocation_id"]


def _bar(
    shares: Sequence[Mapping[str, Any]], colours: Mapping[str, str], filters: Filters, words: Language, is_stop: bool
) -> Component:
    """is_stop: Tab leads to its name, and to no other link of the card (assets/heat_map.js)."""
    first = shares[0]
    held = [share for share in shares if share["units"] and share["is_chosen"]]
    others = sum(share["units"] or 0 for share in shares if not share["is_chosen"])
    free = first["device_units"] - sum(share["units"] for share in held) - others
    parts_of = [
        html.Span(
            html.A(
                _share(share, first),
                href=filters.href("/workloads", workload=share["workload_id"]),
                className="gl-go gl-share",
                style={
                    "flexGrow": share["units"],
                    "background": colours[share["tenant"]],
                    "color": figures.ink(colours[share["tenant"]]),
                },
                title=f"{share['workload_id']}\n{share['tenant']}\n{share['partition_id']}".strip(),
                tabIndex="-1",
                **{"aria-label": f"{_share(share, first)} {share['tenant']} {share['workload_id']}"},
            ),
            role="gridcell",
        )
        for share in held
    ]
    for name, units in (("others", others), ("free", free)):
        if units > 0:
            parts_of.append(_rest(name, f"{units}/{first['device_units']}", units, words))
    return html.Div(
        [
            html.Span(
                html.A(
                    [first["node"], html.Small(device_digits(first["device_id"]))],
                    href=filters.href("/fleet", device=first["device_id"]),
                    className="gl-go gl-layout-name",
                    title=f"{first['device_id']}\n{first['model']}",
                    tabIndex="0" if is_stop else "-1",
                ),
                role="rowheader",
            ),
            html.Div(parts_of, className="gl-shares"),
        ],
        className="gl-layout",
        role="row",
    )


def _rest(name: str, part: str, units: int, words: Language) -> Component:
    """What nobody has of a device, or others than those whose shares are shown."""
    said = words("fleet.free", units=part) if name == "free" else f"{words('fleet.others')} {part}"
    named = {"role": "gridcell", "aria-label": said}
    return html.Span(part, className=f"gl-share gl-{name}", title=said, style={"flexGrow": units}, **named)


def _share(share: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    return share["partition_profile"] or f"{share['units']}/{first['device_units']}"
