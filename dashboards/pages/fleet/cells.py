"""The heat map's cells and colours, for each measure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dash import html
from dash.development.base_component import Component

from dashboards.filters import Filters
from dashboards.format import UNKNOWN, fixed, percent, symbol
from dashboards.languages import Language

STEPS = 8
"""Of colour, from nothing to the top."""


@dataclass(frozen=True)
class Measure:
    """key: in the URL.   column: of a device's row.   most: the top of the scale; None: the greatest that there is.

    ramp: the colours of the style sheet.   least: the bottom.   said: the value as text.
    """

    key: str
    column: str
    most: float | None
    ramp: str
    formatted: Callable[[float, str], str]
    least: float = 0

    def top(self, devices: Sequence[Mapping[str, Any]]) -> float:
        known = [row[self.column] for row in devices if row[self.column] is not None]
        return self.most if self.most is not None else float(max(known, default=0)) or 1.0


HELD = Measure("held", "held_part", 1, "cool", lambda value, _: percent(value))
"""Of all time, so that some tenants' part of it says nothing."""
MEASURES = (
    Measure("used", "used_part", 1, "cool", lambda value, _: percent(value)),
    HELD,
    Measure("memory", "memory", 1, "cool", lambda value, _: percent(value)),
    Measure("temperature", "temperature", 95, "hot", lambda value, _: f"{fixed(value, 0)} °C", 20),
    Measure("power", "power", None, "hot", lambda value, _: f"{fixed(value, 0)} W"),
    Measure("errors", "errors", None, "hot", lambda value, _: f"{value:,}"),
    Measure("price", "price", None, "cool", lambda value, currency: f"{symbol(currency)}{fixed(value, 2)}"),
)


def cell(
    row: Mapping[str, Any], measure: Measure, top: float, filters: Filters, words: Language, is_stop: bool = False
) -> Mapping[str, Any]:
    """A device as a coloured link, as Dash writes one: a thousand components cost a third of the page's Python. Unknown
    is hatched; unavailable has another hatching.   is_stop: the one that Tab leads to (assets/heat_map.js)."""
    value = row[measure.column]
    formatted = UNKNOWN if value is None else measure.formatted(value, filters.currency)
    is_down = row["state"] == "unavailable"
    state = words.of(f"device.{row['state']}", row["state"])
    label = f"{row['device_id']} · {words(f'fleet.by_{measure.key}')} {formatted} · {state}"
    step = 0 if value is None else _step(value - measure.least, top - measure.least)
    kind = "gl-unavailable" if is_down else "gl-unknown" if value is None else f"gl-{measure.ramp}-{step}"
    shared = " gl-shared" if row["device_units"] > 1 else ""
    props = {
        "children": None,
        "href": row["href"],
        "title": f"{row['device_id']}\n{row['model']}\n{words(f'fleet.by_{measure.key}')}: {formatted}\n{state}",
        "className": f"gl-go gl-cell {kind}{shared}",
        "aria-label": label,
        "tabIndex": 0 if is_stop else -1,
    }
    link = {"props": props, "type": "A", "namespace": "dash_html_components"}
    return {"props": {"children": link, "role": "gridcell"}, "type": "Span", "namespace": "dash_html_components"}


def scale(measure: Measure, top: float, currency: str, words: Language) -> Component:
    """What the colours mean."""
    ramp = [html.Span(className=f"gl-cell gl-{measure.ramp}-{step}") for step in range(STEPS)]
    return html.Div(
        [
            html.Span(measure.formatted(measure.least, currency)),
            html.Span(ramp, className="gl-ramp", **{"aria-hidden": "true"}),
            html.Span(measure.formatted(top, currency)),
            html.Span([html.Span(className="gl-cell gl-unknown"), words("fleet.unknown")], className="gl-key"),
            html.Span([html.Span(className="gl-cell gl-unavailable"), words("kind.unavailable")], className="gl-key"),
            html.Span([html.Span(className="gl-cell gl-cool-1 gl-shared"), words("fleet.shared")], className="gl-key"),
        ],
        className="gl-scale",
    )


def _step(value: float, top: float) -> int:
    return max(0, min(STEPS - 1, int(value / top * STEPS))) if top else 0
