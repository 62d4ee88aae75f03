"""What a page shows when it has no numbers yet, never will have, or cannot get them: designed, not blank."""

from __future__ import annotations

from collections.abc import Sequence

import dash_mantine_components as dmc
from dash import dcc, html
from dash.development.base_component import Component

from dashboards.data import Overview
from dashboards.periods import month_label

DEMO = "gpuledger up --demo"


def loading() -> Component:
    """The page's outline while its numbers are on the way."""
    return html.Div(
        [
            html.Div(dmc.Skeleton(height=26, width=180), className="gl-titles"),
            dmc.Skeleton(height=118, radius=14),
            html.Div([dmc.Skeleton(height=400, radius=14), dmc.Skeleton(height=400, radius=14)], className="gl-split"),
            dmc.Skeleton(height=280, radius=14),
            html.Div(dmc.VisuallyHidden("Loading the overview"), role="status"),
        ],
        className="gl-page",
        **{"aria-busy": "true"},
    )


def empty(answer: Overview) -> Component:
    """Nothing of what was asked is closed: says why, and the next command."""
    if answer.months:
        return _other_period(answer)
    facts = answer.facts
    if facts.get("devices"):
        return _message(
            "Facts are here, the books are not",
            f"{facts['devices']:,} device records, {facts['events']:,} events and {facts['samples']:,} samples wait "
            "to be closed. This server closes finished hours by itself every hour; an hour waits a little for late "
            "records first.",
            [
                ("Prices, once", "gpuledger rates apply rates.yaml", bool(facts.get("rate_cards"))),
                ("Close now", "gpuledger close", False),
            ],
        )
    return _message(
        "An empty ledger",
        "Nothing has been recorded in this store yet. Give it three kinds of facts and a price list, and every "
        "GPU-hour of the fleet is accounted for here.",
        [
            ("Which GPUs there are", "gpuledger ingest devices devices.parquet", False),
            ("Who was given them", "gpuledger ingest events events.parquet", bool(facts.get("events"))),
            ("How they were used", "gpuledger ingest samples samples.parquet", bool(facts.get("samples"))),
            ("What they cost", "gpuledger rates apply rates.yaml", bool(facts.get("rate_cards"))),
            ("Make the books", "gpuledger close", False),
        ],
        [
            "An embedded store belongs to one process: stop this server while you run these, then start it again.",
            html.Span(["Only looking? ", html.Code(DEMO), " fills a store with a month of a simulated fleet."]),
        ],
    )


def error(message: str) -> Component:
    """The store could not answer; `message` is its own line."""
    return html.Section(
        [
            html.H1("The store did not answer"),
            html.P("Nothing is lost: the numbers are in the store, this page could not read them."),
            html.Pre(message, className="gl-command gl-error"),
            html.P(html.A("Try again", href="", className="gl-button")),
        ],
        className="gl-message gl-card",
        role="alert",
    )


def not_found(path: str) -> Component:
    return html.Section(
        [
            html.H1("No such page"),
            html.P([html.Code(path), " is not a page of this ledger."]),
            html.P(dcc.Link("To the overview", href="/", className="gl-button")),
        ],
        className="gl-message gl-card",
    )


def _other_period(answer: Overview) -> Component:
    newest = answer.months[-1].key
    return html.Section(
        [
            html.H1("Nothing is closed in that period"),
            html.P(
                f"The books of this store go from {month_label(answer.months[0].key)} to {month_label(newest)}. "
                "A period without closed hours is unknown, not zero."
            ),
            html.P(dcc.Link(f"Show {month_label(newest)}", href=f"/?period={newest}", className="gl-button")),
        ],
        className="gl-message gl-card",
    )


def _message(
    title: str, text: str, steps: Sequence[tuple[str, str, bool]], notes: Sequence[str | Component] = ()
) -> Component:
    return html.Section(
        [
            html.H1(title),
            html.P(text),
            html.Ol([_step(*step) for step in steps], className="gl-steps"),
            *[html.P(note, className="gl-note") for note in notes],
        ],
        className="gl-message gl-card",
    )


def _step(what: str, command: str, done: bool) -> Component:
    return html.Li(
        [html.Span(what + (" (done)" if done else "")), html.Code(command, className="gl-command")],
        className="gl-step gl-done" if done else "gl-step",
    )
