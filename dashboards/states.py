"""What a page shows if it has no numbers yet, never will have, or cannot read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from dashboards.filters import Filters
from dashboards.format import unbroken
from dashboards.languages import Language

DEMO = "gpuledger up --demo"


def loading() -> Component:
    """The page's outline while its numbers are on the way."""
    return html.Div(
        [
            html.Div(dmc.Skeleton(height=26, width=180), className="gl-titles"),
            dmc.Skeleton(height=118, radius=14),
            html.Div([dmc.Skeleton(height=400, radius=14), dmc.Skeleton(height=400, radius=14)], className="gl-split"),
            dmc.Skeleton(height=280, radius=14),
        ],
        className="gl-page",
        **{"aria-busy": "true"},
    )


def no_books(filters: Filters, facts: Mapping[str, int], words: Language) -> Component:
    """Nothing in the period is closed: explains why, and names the next command."""
    if filters.months:
        return _other_period(filters, words)
    priced = bool(facts.get("rate_cards"))
    if facts.get("devices"):
        counted = {name: f"{facts[name]:,}" for name in ("devices", "events", "samples")}
        return _message(
            words("state.not_closed"),
            words("state.not_closed_why", **counted),
            [
                (words("step.rates_once"), "gpuledger rates apply rates.yaml", priced),
                (words("step.close_now"), "gpuledger close", False),
            ],
            words,
        )
    return _message(
        words("state.empty"),
        words("state.empty_why"),
        [
            (words("step.devices"), "gpuledger ingest devices devices.parquet", False),
            (words("step.events"), "gpuledger ingest events events.parquet", bool(facts.get("events"))),
            (words("step.samples"), "gpuledger ingest samples samples.parquet", bool(facts.get("samples"))),
            (words("step.rates"), "gpuledger rates apply rates.yaml", priced),
            (words("step.close"), "gpuledger close", False),
        ],
        words,
        [words("state.one_process"), html.Span([words("state.looking"), " ", html.Code(DEMO), words("state.fills")])],
    )


def nothing(title: str, why: str, link: Component | None = None) -> Component:
    """For a page with nothing to show in the period: what to do about it."""
    return html.Section([html.H1(title), html.P(why), html.P(link) if link else None], className="gl-message gl-card")


def nothing_here(text: str) -> Component:
    """For a card with nothing to show: a line in its middle."""
    return html.P(text, className="gl-nothing")


def error(message: str, words: Language, title: str = "state.error") -> Component:
    """The store could not answer, or the page went wrong; `message` is a line that says why."""
    return html.Section(
        [
            html.H1(words(title)),
            html.P(words("state.error_why")),
            html.Pre(message, className="gl-command gl-error"),
            html.P(html.A(words("state.again"), href="", className="gl-button")),
        ],
        className="gl-message gl-card",
        role="alert",
    )


def unanswered(message: str, words: Language, without: str) -> Component:
    """What the address asks for has no answer; `without`: a link to the page without what is wrong with it."""
    return html.Section(
        [
            html.H1(words("state.unanswered")),
            html.Pre(message, className="gl-command gl-error"),
            html.P(dcc.Link(words("state.without"), href=without, className="gl-button")),
        ],
        className="gl-message gl-card",
        role="alert",
    )


def failed(message: str, words: Language) -> Component:
    """A note above a page, a part of which could not be shown."""
    return html.Div([html.Strong(words("state.part_failed")), html.Span(message)], className="gl-failed gl-error")


def not_found(path: str, words: Language, home: str) -> Component:
    return nothing(
        words("state.no_page"),
        words("state.no_page_why", path=path),
        dcc.Link(words("state.home"), href=home, className="gl-button"),
    )


def not_yours(words: Language, home: str) -> Component:
    return nothing(
        words("state.not_yours"),
        words("state.not_yours_why"),
        dcc.Link(words("state.home"), href=home, className="gl-button"),
    )


def _other_period(filters: Filters, words: Language) -> Component:
    first, last = (words.month(filters.local(filters.months[at].first)) for at in (0, -1))
    return nothing(
        words("state.other_period"),
        words("state.other_period_why", first=first, last=last),
        dcc.Link(words("state.show", period=last), href=filters.href("/", period=None), className="gl-button"),
    )


def _message(
    title: str,
    text: str,
    steps: Sequence[tuple[str, str, bool]],
    words: Language,
    notes: Sequence[str | Component] = (),
) -> Component:
    return html.Section(
        [
            html.H1(title),
            html.P(unbroken(text)),
            html.Ol([_step(*step, words) for step in steps], className="gl-steps"),
            *[html.P(note, className="gl-note") for note in notes],
        ],
        className="gl-message gl-card",
    )


def _step(what: str, command: str, done: bool, words: Language) -> Component:
    return html.Li(
        [html.Span(what + (words("step.done") if done else "")), html.Code(command, className="gl-command")],
        className="gl-step gl-done" if done else "gl-step",
    )
