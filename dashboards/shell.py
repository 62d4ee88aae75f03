"""The frame around every page: the navigation, the bar with period and filters, language and theme.

It is redrawn with each URL, so that all of its links keep the page's state.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any
from urllib.parse import quote

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from access.principal import Principal
from dashboards import forms, parts, tour
from dashboards.filters import Filters
from dashboards.languages import NAMES, Language, language
from dashboards.periods import ALL, HOUR, latest, neighbour
from dashboards.registry import Page
from dashboards.states import loading

REFRESH_SECONDS = 30
"""Between two looks whether something has changed."""
SPANS = (("period.last_day", timedelta(days=1)), ("period.last_week", timedelta(days=7)),
         ("period.last_month", timedelta(days=30)))  # fmt: skip


def layout() -> Component:
    """The app's skeleton; navigation, bar and page fill in when the store has answered."""
    return dmc.MantineProvider(
        [
            dcc.Location(id="url", refresh="callback-nav"),
            dcc.Store(id="meta"),
            dcc.Interval(id="tick", interval=REFRESH_SECONDS * 1000),
            html.Div(id="skip"),
            html.Div(
                [
                    html.Div(id="nav", className="gl-side"),
                    html.Div(
                        [
                            html.Header(html.Div(className="gl-filters"), id="bar", className="gl-bar"),
                            html.Div(id="failed", role="alert"),
                            html.Div(
                                id="lost", role="alert", hidden=True, className="gl-failed", **_said("frame.lost")
                            ),
                            html.Div(
                                id="unfit", role="alert", hidden=True, className="gl-failed", **_said("frame.unfit")
                            ),
                            html.Div(id="tour"),
                            html.Main(loading(), id="page", tabIndex=-1),
                            html.Footer(id="foot"),
                        ],
                        className="gl-beside",
                    ),
                ],
                className="gl-frame",
            ),
            forms.refusals(),
            html.Div(id="live", role="status", className="gl-unseen", **{"aria-live": "polite"}),
        ],
        defaultColorScheme="auto",
        theme={"primaryColor": "indigo", "fontFamily": "var(--gl-font)", "defaultRadius": "md"},
    )


def _said(key: str) -> dict[str, str]:
    """A message of the browser's, in each language, because it cannot load it where the server does not answer."""
    return {f"data-{code}": language(code)(key) for code in NAMES}


def skip_link(words: Language) -> Component:
    return html.A(words("frame.skip"), href="#page", className="gl-skip")


def footer(words: Language, filters: Filters | None) -> list[Component]:
    if filters is None:
        return [html.Span("")]
    said = [
        html.Span(words("frame.foot", zone=filters.zone.replace("_", " "))),
        " ",
        tour.start(filters.href("/"), words),
    ]
    return [*said, " ", html.Strong(words("frame.example", of=filters.example))] if filters.example else said


def navigation(pages: Sequence[Page], here: str, href: Any, words: Language, principal: Principal) -> list[Component]:
    """Brand, pages, and who is signed in. href: path -> a link with the state of this page."""
    entries = []
    for page in pages:
        is_here = page.path == here
        entries.append(
            html.Li(
                dcc.Link(
                    [_icon(page.icon), html.Span(words(page.title))],
                    href=href(page.path),
                    className="gl-tab gl-here" if is_here else "gl-tab",
                ),
                **({"aria-current": "page"} if is_here else {}),
            )
        )
    brand = dcc.Link(
        [html.Span(className="gl-mark"), html.Span("gpuledger")],
        href=href("/"),
        className="gl-brand",
        title="gpuledger",
    )
    return [
        html.Nav([brand, html.Ul(entries)], className="gl-nav", **{"aria-label": words("frame.pages")}),
        *([_signed_in(principal, words)] if principal.how == "session" else []),
    ]


def _signed_in(principal: Principal, words: Language) -> Component:
    return html.Form(
        [
            html.Span(principal.name, title=", ".join(sorted(principal.roles)), className="gl-who"),
            html.Button(words("frame.sign_out"), type="submit", className="gl-sign-out"),
        ],
        action="/sign-out",
        method="post",
        className="gl-signed-in",
    )


def bar(page: Page | None, filters: Filters, path: str, words: Language) -> list[Component]:
    """Period and filters of a page, then language and theme."""
    shown: list[Component | None] = []
    if page is not None and page.has_period:
        shown.append(_period_picker(filters, path, words))
    if page is not None:
        shown += [_filter(name, filters, words) for name in page.filters]
        if any(name in filters.address.chosen for name in page.filters):
            cleared = filters.href(path, **dict.fromkeys(page.filters), **filters.more)
            shown.append(dcc.Link(words("bar.clear"), href=cleared, className="gl-clear"))
    if filters.example:
        shown.append(parts.chip(words("bar.example"), words("frame.example", of=filters.example)))
    return [
        html.Div([one for one in shown if one is not None], className="gl-filters", role="search",
                 **{"aria-label": words("bar.filters")}),
        *tools(filters, path, words),
    ]  # fmt: skip


def tools(filters: Filters | None, path: str, words: Language) -> list[Component]:
    """The languages and the theme."""
    links = []
    for code, name in NAMES.items():
        own = filters.href(path, lang=code, **filters.more) if filters else f"{path}?lang={code}"
        current: dict[str, Any] = {"aria-current": "true"} if code == words.code else {}
        short = {"en": "EN"}.get(code, name[0])
        links.append(
            html.Li(
                dcc.Link(short, href=own, title=language(code)("frame.language"), className="gl-language"), **current
            )
        )
    return [
        html.Ul(links, className="gl-languages", **{"aria-label": words("frame.languages")}),
        dmc.ColorSchemeToggle(
            lightIcon=html.Span(className="gl-icon gl-icon-sun"),
            darkIcon=html.Span(className="gl-icon gl-icon-moon"),
            variant="subtle",
            color="gray",
            size="lg",
            id="theme",
            attributes={"root": {"title": words("frame.theme")}},
            **{"aria-label": words("frame.theme")},  # of `attributes` it would be replaced by an English one
        ),
    ]


def _filter(name: str, filters: Filters, words: Language) -> Component | None:
    """A filter's choices; none where there is nothing to choose and nothing chosen."""
    known = filters.choices.values.get(name, ())
    chosen = filters.address.chosen.get(name, ())
    values = list(dict.fromkeys([*known, *chosen]))
    if len(values) < 2 and not chosen:
        return None
    return dmc.MultiSelect(
        id={"type": "filter", "name": name},
        data=[{"value": value, "label": value or words("no_name")} for value in values],
        value=list(chosen),
        placeholder="" if chosen else words(f"filter.{name}"),
        searchable=True,
        hidePickedOptions=True,
        limit=200,
        size="xs",
        nothingFoundMessage=words("filter.nothing"),
        className="gl-filter gl-filtering" if chosen else "gl-filter",
        comboboxProps={"shadow": "md", "width": 240, "position": "bottom-start"},
        **{"aria-label": words(f"filter.{name}")},
    )


def _period_picker(filters: Filters, path: str, words: Language) -> Component | None:
    """Steps to the neighbouring spans, and a menu of months, spans and free dates; links, so the URL is the state."""
    if not filters.months:
        return None
    period = filters.period
    choices = [
        *((month.key, words.month(_first(month.key))) for month in reversed(filters.months[-12:])),
        *((latest(filters.months, filters.zone, length), words(key)) for key, length in SPANS),
        (ALL, words("period.all")),
    ]
    label = period.label(words) if period else words("period.choose")

    def href(key: str) -> str:
        return filters.href(path, period=key, **filters.more)

    return html.Div(
        [
            _step(words("period.earlier"), "‹", neighbour(period, filters.months, -1) if period else None, href),
            dmc.Popover(
                [
                    dmc.PopoverTarget(
                        html.Button(
                            [label, html.Span(className="gl-caret")],
                            className="gl-period-button",
                            **{"aria-label": words("period.is", period=label), "aria-haspopup": "dialog"},
                        )
                    ),
                    dmc.PopoverDropdown(
                        html.Div(
                            [
                                html.Ul(
                                    [
                                        html.Li(
                                            dcc.Link(
                                                name,
                                                href=href(key),
                                                className="gl-chosen" if period and key == period.key else "",
                                            )
                                        )
                                        for key, name in choices
                                    ]
                                ),
                                _calendar(filters, words),
                            ],
                            className="gl-period-menu",
                            role="dialog",
                            **{"aria-label": words("period.choose")},
                        )
                    ),
                ],
                position="bottom-start",
                shadow="md",
                trapFocus=True,
                returnFocus=True,
                withRoles=False,
            ),
            _step(words("period.later"), "›", neighbour(period, filters.months, 1) if period else None, href),
        ],
        className="gl-stepper",
    )


def _calendar(filters: Filters, words: Language) -> Component:
    """Any days: the second click makes it the page's period."""
    picker = dmc.DatePicker(
        id="days",
        type="range",
        allowSingleDateInRange=True,
        minDate=f"{filters.months[0].first:%Y-%m-%d}",
        maxDate=f"{filters.months[-1].last:%Y-%m-%d}",
        defaultDate=f"{(filters.period.end - HOUR if filters.period else filters.months[-1].last):%Y-%m-%d}",
        monthLabelFormat=words("time.picker"),
        yearLabelFormat=words("time.picker_year"),
        yearsListFormat=words("time.picker_year"),
        monthsListFormat=words("time.picker_month"),
        getDayProps={"function": "namedDay", "options": {"language": words.code}},
        ariaLabels={
            "previousMonth": words("time.month_before"),
            "nextMonth": words("time.month_after"),
            "monthLevelControl": words("time.choose_month"),
            "yearLevelControl": words("time.choose_year"),
        },
        size="xs",
        **{"aria-label": words("period.days")},
    )
    # The picker knows weekdays in English alone: the style sheet puts these in their place.
    weekdays = enumerate(words("time.weekdays").split(), 1)
    return html.Div(picker, className="gl-days", style={f"--gl-day-{number}": f'"{name}"' for number, name in weekdays})


def _step(label: str, sign: str, key: str | None, href: Any) -> Component:
    if key is None:
        return html.Span(sign, className="gl-arrow gl-off", **{"aria-hidden": "true"})
    return dcc.Link(
        html.Span([html.Span(sign, **{"aria-hidden": "true"}), dmc.VisuallyHidden(label)]),
        href=href(key),
        className="gl-arrow",
        title=label,
    )


def _first(month: str) -> date:
    return date.fromisoformat(f"{month}-01")


def _icon(path: str) -> Component:
    """A picture of the navigation, as a mask, so that it takes the colour of its text."""
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke="black" stroke-width="1.8" '
        f'stroke-linecap="round" stroke-linejoin="round"><path d="{path}"/></svg>'
    )
    return html.Span(
        className="gl-icon",
        style={"--gl-shape": f"url('data:image/svg+xml,{quote(drawn)}')"},
        **{"aria-hidden": "true"},
    )
