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
from warehouse.store import Store


def layout_card(store: Store, filters: Filters, until: datetime, words: Language, device: str = "") -> Component | None:
    """A bar of units a device, at the end of the period; nothing where no device is shared."""
    rows = filters.rows(store, __file__, "layout", until=until, device=device)
    if not rows:
        return None
    tenants = sorted({row["tenant"] for row in rows if row["units"]})
    colours = figures.colours(tenants, filters.choices.values.get("tenant", ()))
    listed = [list(shares) for _, shares in groupby(rows, key=lambda row: (row["node"], row["device_id"]))]
    devices = [(shares[0], shares) for shares in listed]
    bars = [_bar(shares, colours, filters, words) for shares in listed]
    legend = html.Ul(
        [
            html.Li([html.Span(className="gl-swatch", style={"background": colour}), tenant or words("no_name")])
            for tenant, colour in colours.items()
        ],
        className="gl-legend",
    )
    if any(first["device_units"] > sum(share["units"] or 0 for share in shares) for first, shares in devices):
        legend.children.append(html.Li([html.Span(className="gl-swatch gl-free"), words("fleet.unallocated")]))
    return parts.card(
        words("fleet.layout"),
        words("fleet.layout_is", at=words.moment(filters.local(until))),
        html.Div(bars, className="gl-layouts"),
        tool=legend,
    )


def _bar(
    shares: Sequence[Mapping[str, Any]], colours: Mapping[str, str], filters: Filters, words: Language
) -> Component:
    first = shares[0]
    held = [share for share in shares if share["units"]]
    free = first["device_units"] - sum(share["units"] for share in held)
    parts_of = [
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
            **{"aria-label": f"{_share(share, first)} {share['tenant']} {share['workload_id']}"},
        )
        for share in held
    ]
    if free > 0:
        units = f"{free}/{first['device_units']}"
        said = words("fleet.free", units=units)
        named = {"role": "img", "aria-label": said}
        parts_of.append(html.Span(units, className="gl-share gl-free", title=said, style={"flexGrow": free}, **named))
    return html.Div(
        [
            html.A(
                [first["node"], html.Small(device_digits(first["device_id"]))],
                href=filters.href("/fleet", device=first["device_id"]),
                className="gl-go gl-layout-name",
                title=f"{first['device_id']}\n{first['model']}",
            ),
            html.Div(parts_of, className="gl-shares"),
        ],
        className="gl-layout",
    )


def _share(share: Mapping[str, Any], first: Mapping[str, Any]) -> str:
    return share["partition_profile"] or f"{share['units']}/{first['device_units']}"
