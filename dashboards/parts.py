"""Building blocks of pages: titles, cards, headline figures, bars, legends, plain tables, charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from dashboards import figures
from dashboards.column_widths import text_width
from dashboards.filters import Filters
from dashboards.format import hours, percent, unbroken
from dashboards.kinds import Kind
from dashboards.languages import Language

Content = Any
"""What stands in a page: a component, text, or None for nothing."""
LARGE, HEADLINE, AROUND = 1.6, 1176, 40
"""A headline's text by the one of a table; px of a headline on a screen of 1440 px, and around each of its figures."""
QUANTITIES = ("GPU", "GiB")
"""What units of quantities begin with; others are words, such as `of capacity`, and may stand below."""
PLAIN, SNUG, UNIT, GAP = 1.72, 1.51, 0.93, 6
"""The drawn width by that of a table's text: of a headline's number, of a smaller one, of a unit; px before a unit."""
FEW = 3
"""Chosen names without hours that are said one by one."""
SAID = 40
"""Characters of what an address asks for, where it is quoted."""
SPINNING = "var(--gl-accent)"
"""The color of what shows that a part is on its way."""


def page(*content: Content) -> Component:
    return html.Div([one for one in content if one is not None], className="gl-page")


def titles(
    filters: Filters,
    words: Language,
    title: str,
    *notes: Content,
    coverage: float | None = None,
    unpriced: float = 0.0,
    trail: Sequence[tuple[str, str]] = (),
) -> Component:
    """The page's heading: what, over which time, and, where the numbers do not know everything, how much they do.

    coverage: metered part of what was held.   unpriced: GPU-hours that no cost here contains.
    trail: (name, link) of what lies above, the topmost first.
    """
    period = filters.period
    chips: list[Content] = []
    if period is not None and period.hours_closed < period.hours:
        closed = {"closed": f"{period.hours_closed:,}", "all": f"{period.hours:,}"}
        if period.hours_closed + period.hours_empty >= period.hours:
            chips.append(chip(words("part.hours_with_devices", **closed), words("part.hours_with_devices_why")))
        else:
            is_short = period.hours_missing(datetime.now(UTC)) > 0
            why = words("part.hours_closed_why" if is_short else "quality.closed_so_far")
            chips.append(chip(words("part.hours_closed", **closed), why, state="gl-warn" if is_short else "gl-info"))
    if coverage is not None and coverage < 0.995:
        chips.append(chip(words("part.coverage", share=percent(coverage)), words("part.coverage_why")))
    if unpriced > 0:
        chips.append(chip(words("quality.unpriced", n=hours(unpriced)), words("quality.unpriced_why")))
    chips += [_without_hours(name, words) for name in filters.without_hours()[:FEW]]
    said = [period.label(words), filters.zone.replace("_", " ")] if period else []
    crumbs = [html.Li(dcc.Link(name, href=href)) for name, href in trail]
    return html.Div(
        [
            html.Div(
                [
                    html.Nav(html.Ol(crumbs), className="gl-trail", **{"aria-label": words("part.trail")})
                    if crumbs
                    else None,
                    html.H1(title),
                    html.P(" · ".join(said), className="gl-scope"),
                ]
            ),
            html.Div([*chips, *[note for note in notes if note is not None]], className="gl-chips"),
        ],
        className="gl-titles",
    )


def _without_hours(name: str, words: Language) -> Component:
    said = words("part.without_hours", name=f"{name[:SAID]}{'…' if len(name) > SAID else ''}")
    return chip(said, words("part.without_hours_why"), state="gl-info")


def chip(text: str, why: str = "", href: str = "", state: str = "gl-warn") -> Component:
    """A small notice beside the title; with a link, one to click."""
    said = [html.Span(className=f"gl-dot {state}"), text]
    return (
        dcc.Link(said, href=href, title=why or None, className="gl-chip")
        if href
        else html.Span(said, title=why or None, className="gl-chip")
    )


def ignored(filters: Filters, words: Language, name: str) -> Component | None:
    """For a page whose address asks, with a parameter of its own, for what is not there; None: it does not ask."""
    value = filters.more.get(name, "")
    if not value:
        return None
    said = words("state.ignored", option=f"{name}={value[:SAID]}{'…' if len(value) > SAID else ''}")
    return html.Span(chip(said, words("state.ignored_why")), role="status")


def card(
    title: str, subtitle: str, *content: Content, tool: Component | None = None, class_name: str = "", id: str = ""
) -> Component:
    """id: to link to it with #id."""
    more = {"id": id} if id else {}
    return html.Section(
        [
            html.Div([html.Div([html.H2(title), html.P(unbroken(subtitle))]), tool], className="gl-card-head"),
            *[one for one in content if one is not None],
        ],
        className=f"gl-card {class_name}",
        **{"aria-label": title},
        **more,
    )


def long_list(items: Sequence[Component], class_name: str, words: Language, in_all: int = 0) -> Component:
    """A list that scrolls in itself if it is long; on a small screen with the page, the first ones until a reader asks
    for all (assets/frame.js).   in_all: how many there are, where these are but the first."""
    is_cut = in_all > len(items)
    unfold = words("part.show_cut", n="{n}", all=f"{in_all:,}") if is_cut else words("part.show_all")
    how_many = words("part.first_of" if is_cut else "part.in_all", n=f"{len(items):,}", all=f"{in_all:,}")
    return html.Ul(list(items), className=f"{class_name} gl-tall", **{"data-all": unfold, "data-rows": how_many})


def note(text: str) -> Component:
    """A sentence below what it explains."""
    return html.P(unbroken(text), className="gl-note")


def tools(*each: Content) -> Component:
    """What stands beside a card's title, where it is more than one thing."""
    return html.Div([one for one in each if one is not None], className="gl-tools")


def split(*cards: Content, class_name: str = "") -> Component:
    return html.Div([one for one in cards if one is not None], className=f"gl-split {class_name}")


@dataclass(frozen=True)
class Figure:
    """One number of the headline. kind: the swatch of a kind of time.   href: where more is to be seen."""

    label: str
    value: Content
    unit: str = ""
    detail: str = ""
    kind: str = ""
    href: str = ""


def headline(figures: Sequence[Figure], class_name: str = "gl-card gl-headline") -> Component:
    """The page's first numbers, side by side; within a card with another class. One that would need two lines,
    itself or with the unit of a quantity, is smaller."""
    room = HEADLINE / max(1, len(figures)) - AROUND
    return html.Dl(
        [
            html.Div(
                [
                    html.Dt([html.Span(className=f"gl-swatch gl-{one.kind}") if one.kind else None, one.label]),
                    html.Dd(
                        [
                            html.Strong(dcc.Link(_value(one), href=one.href) if one.href else _value(one)),
                            html.Span(one.unit) if one.unit else None,
                        ],
                        className=f"gl-value {_size(one, room)}".rstrip(),
                    ),
                    html.Dd(_detail(one.detail), className="gl-detail"),
                ],
                className="gl-figure",
            )
            for one in figures
        ],
        className=class_name,
        style={"--gl-figures": len(figures)},
    )


def _detail(text: str) -> str:
    """No line of it begins with the point between two of its parts."""
    return unbroken(text).replace(" · ", "\N{NO-BREAK SPACE}· ")


def _value(one: Figure) -> Content:
    return unbroken(one.value) if isinstance(one.value, str) else one.value


def _size(one: Figure, room: float) -> str:
    """The class of its size; '': as large as any."""
    width = text_width(one.value) if isinstance(one.value, str) else 0.0
    unit = GAP + UNIT * text_width(one.unit) if one.unit.startswith(QUANTITIES) else 0.0
    if LARGE * width > room or SNUG * width + unit > room:
        return "gl-long"
    return "gl-snug" if unit and PLAIN * width + unit > room else ""


def stack(
    parts: Sequence[tuple[Kind, float]], whole: float, words: Language, class_name: str = "", label: str = ""
) -> Component:
    """A stacked bar; what is there but small keeps a visible sliver."""
    shares = (f"{words(f'kind.{kind.key}')} {percent(part, whole)}" for kind, part in parts)
    said = label or words("part.break").join(shares)
    return html.Div(
        [
            html.Span(
                className=f"gl-{kind.key}",
                style={"width": f"{100 * part / whole:.3f}%"},
                title=words(f"kind.{kind.key}"),
            )
            for kind, part in parts
            if part > 0 and whole > 0
        ],
        className=f"gl-stack {class_name}",
        role="img",
        title=label or None,
        **{"aria-label": said},
    )


def legend(kinds: Sequence[Kind], words: Language) -> Component:
    return html.Ul(
        [html.Li([html.Span(className=f"gl-swatch gl-{kind.key}"), words(f"kind.{kind.key}")]) for kind in kinds],
        className="gl-legend",
    )


def graph(
    chart: figures.Chart, label: str, id: str = "", height: int = 330, legend_above: bool = False, keys: str = ""
) -> Component:
    """A chart; `label` says in words what it shows.   legend_above: its legend stands above it at any width, not
    within it, where it would meet the axis.   keys: of a chart whose points lead somewhere, what the keyboard does in
    it (assets/chart_keys.js); to it the chart is a slider over its points."""
    more = {"id": id} if id else {}
    named = figures.legend(chart)
    if legend_above:
        chart = {**chart, "layout": {**chart["layout"], "showlegend": False}}
    drawn = html.Div(
        dcc.Graph(
            figure=figures.without_markup(chart),
            config={"displayModeBar": False, "responsive": True},
            responsive=True,
            style={"height": "100%"},
            **more,
        ),
        className="gl-graph",
        style={"height": height, "minHeight": height},
        **{"aria-label": label},
        **(_slider(f"{id}-keys", keys) if keys else {"role": "img"}),
    )
    if not named:
        return drawn
    items = [html.Li([_swatch(colour, mark), name]) for name, colour, mark in named]
    # A phone leaves Plotly's own legend no room beside the chart.
    style = "gl-legend gl-legend-above" if legend_above else "gl-legend gl-legend-phone"
    above = html.Ul(items, className=style, **{"aria-hidden": "true"})
    return html.Div([above, drawn], className="gl-charted")


def _slider(id: str, keys: str) -> dict[str, Any]:
    """Its values are the browser's to say, which draws the points."""
    values = {f"aria-value{of}": "1" for of in ("now", "min", "max")}
    return {"id": id, "role": "slider", "tabIndex": "0", "data-keys": keys, "aria-description": keys, **values}


def _swatch(colour: str, mark: str) -> Component:
    """What a legend has of a series: its line or its mark, else a square."""
    if mark in ("line", "dashed", "dotted"):
        return html.Span(className=f"gl-mark-{mark}", style={"borderColor": colour})
    of = "borderColor" if mark == "ring" else "background"
    return html.Span(className=f"gl-swatch gl-mark-{mark}" if mark else "gl-swatch", style={of: colour})


def table(
    columns: Sequence[str], rows: Sequence[Sequence[Content]], class_name: str = "", cards: bool = False
) -> Component:
    """A plain table; the first column is of names, the others stand right.   cards: on a phone a row is a card."""
    columns = [unbroken(name) for name in columns]
    heads = html.Tr([html.Th(name, scope="col") for name in columns])
    named = [{"data-head": name} if cards else {} for name in columns[1:]]
    body = [html.Tr([html.Th(row[0], scope="row"), *map(_cell, row[1:], named)]) for row in rows]
    class_name += " gl-row-cards" if cards else ""
    return scrolled(html.Table([html.Thead(heads), html.Tbody(body)], className=f"gl-plain {class_name}"))


def _cell(content: Content, named: Mapping[str, str]) -> Component:
    return html.Td(content, **named)


def scrolled(wide: Component) -> Component:
    """What scrolls sideways by itself where it is wider than its place, also by keyboard."""
    return html.Div(wide, className="gl-scroll", tabIndex="0")
