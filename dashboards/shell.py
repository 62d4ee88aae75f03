"""What stands around every page: the bar with the brand, the pages, the period and the theme."""

from __future__ import annotations

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from dashboards.periods import ALL, ClosedMonth, Period, month_label
from dashboards.states import loading

PAGES = (("Overview", "/"),)
"""Label and path of each page, in the order of the bar."""


def layout() -> Component:
    """The app's skeleton; the page and the period picker fill in when the store has answered."""
    return dmc.MantineProvider(
        [
            dcc.Location(id="url", refresh=False),
            html.A("Skip to the numbers", href="#page", className="gl-skip"),
            html.Header(
                [
                    dcc.Link(
                        [html.Span(className="gl-mark"), html.Span("gpuledger")],
                        href="/",
                        className="gl-brand",
                        title="gpuledger",
                    ),
                    html.Nav(
                        [dcc.Link(label, href=path, className="gl-tab") for label, path in PAGES],
                        className="gl-nav",
                        **{"aria-label": "Pages"},
                    ),
                    html.Div(id="period", className="gl-period"),
                    dmc.ColorSchemeToggle(
                        lightIcon=html.Span(className="gl-icon gl-icon-sun"),
                        darkIcon=html.Span(className="gl-icon gl-icon-moon"),
                        variant="subtle",
                        color="gray",
                        size="lg",
                        id="theme",
                        attributes={"root": {"aria-label": "Light or dark"}},
                    ),
                ],
                className="gl-bar",
            ),
            html.Main(loading(), id="page", tabIndex=-1),
            html.Footer("Times and months are cut in the billing time zone. Costs are at list price."),
        ],
        defaultColorScheme="auto",
        theme={"primaryColor": "indigo", "fontFamily": "var(--gl-font)", "defaultRadius": "md"},
    )


def period_picker(months: Sequence[ClosedMonth], period: Period | None) -> Component | None:
    """Steps to the neighbouring months and a menu of all; plain links, so the URL is the state."""
    if not months:
        return None
    keys = [month.key for month in months]
    here = keys.index(period.key) if period and period.key in keys else None
    choices = [(ALL, "All closed time"), *((key, month_label(key)) for key in reversed(keys))]
    return html.Div(
        [
            _step("Earlier month", "‹", keys[here - 1] if here else None),
            dmc.Menu(
                [
                    dmc.MenuTarget(
                        html.Button(
                            [period.label if period else "Choose a period", html.Span(className="gl-caret")],
                            className="gl-period-button",
                            **{"aria-label": f"Period: {period.label if period else 'none'}"},
                        )
                    ),
                    dmc.MenuDropdown(
                        [
                            dmc.MenuItem(
                                label,
                                href=f"/?period={key}",
                                refresh=False,
                                className="gl-chosen" if period and key == period.key else "",
                            )
                            for key, label in choices
                        ]
                    ),
                ],
                position="bottom-end",
                shadow="md",
            ),
            _step("Later month", "›", keys[here + 1] if here is not None and here + 1 < len(keys) else None),
        ],
        className="gl-stepper",
    )


def _step(label: str, sign: str, key: str | None) -> Component:
    if key is None:
        return html.Span(sign, className="gl-arrow gl-off", **{"aria-hidden": "true"})
    return dcc.Link(
        html.Span([html.Span(sign, **{"aria-hidden": "true"}), dmc.VisuallyHidden(label)]),
        href=f"/?period={key}",
        className="gl-arrow",
        title=label,
    )
