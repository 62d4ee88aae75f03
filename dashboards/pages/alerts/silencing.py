"""Silences: active ones, with author and reason; a form to add one, for those who may."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import dash_mantine_components as dmc
from dash import html
from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from alerts.matchers import fits, literal
from alerts.reading import alerts
from alerts.routing import Silence
from alerts.silences import add_silence, end_silence, silences
from api.caller import WRITERS
from dashboards import parts, states
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.said import who
from warehouse.errors import LedgerError
from warehouse.store import Store

SPANS = {"1h": timedelta(hours=1), "4h": timedelta(hours=4), "1d": timedelta(days=1), "7d": timedelta(days=7),
         "30d": timedelta(days=30)}  # fmt: skip
ABOUT = ("alertname", "cluster", "node", "device_id", "queue", "tenant", "workload_id", "allocation_id")
"""Labels that a silence of one alert names."""


def silences_card(
    found: Sequence[Silence],
    filters: Filters,
    now: datetime,
    alert: Mapping[str, Any] | None,
    may_silence: bool,
    words: Language,
) -> Component:
    """alert: the one that prefills the form."""
    matchers = "" if alert is None else matchers_text(alert["labels"])
    return parts.card(
        words("alerts.silences"),
        words("alerts.silences_of_all" if filters.more.get("rule") else "alerts.silences_is"),
        html.Div(listed(found, filters, now, may_silence, words), id="alerts-silences"),
        _form(matchers, alert is not None, words) if may_silence else None,
        id="silences",
    )


def matchers_text(labels: Mapping[str, str]) -> str:
    """`alertname=long-queue, queue=train`: the labels that say which alert it is; globs' signs stand for themselves."""
    return ", ".join(f"{label}={_plain(labels[label])}" for label in ABOUT if labels.get(label))


def parsed(text: str) -> dict[str, tuple[str, ...]]:
    """Labels with their globs, separated by commas; `|` between globs of one. Errors: LedgerError."""
    found: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        label, equals, globs = part.partition("=")
        if not equals or not label.strip():
            raise LedgerError(part, "not a matcher", "Write LABEL=GLOB, LABEL=GLOB, like tenant=physics, node=n1*")
        if label.strip() in found:
            raise LedgerError(part, "is the second matcher of its label", "Write LABEL=GLOB|GLOB, like node=n1*|n2*")
        found[label.strip()] = tuple(glob.strip() for glob in globs.split("|"))
    return found


def add(store: Store, filters: Filters, words: Language, matchers: str, span: str, reason: str) -> tuple[Any, Any]:
    """The list with the new silence, and what to say of it."""
    now = datetime.now(UTC)
    try:
        current().require(Action.silence)
        with WRITERS:
            new = add_silence(store, parsed(matchers), now + SPANS.get(span, SPANS["1h"]), current().actor, reason, now)
    except LedgerError as error:
        said: Component = html.Span(str(error), className="gl-form-error")
    else:
        matched = sum(fits(new.matchers, one["labels"]) for one in alerts(store, now))
        told = words.count("alerts.silenced", matched) if matched else words("alerts.silenced_none")
        empty = [words("alerts.silenced_empty", label=key) for key, globs in new.matchers.items() if "" in globs]
        said = html.Span(" ".join([told, *empty]))
    return listed(silences(store, now), filters, now, True, words), said


def _matcher(label: str, globs: Sequence[str], words: Language) -> str:
    """`tenant=a|b`; what stands for alerts without the label reads like a field that nobody filled in."""
    said = f"{label}={'|'.join(globs)}"
    return f"{said} ({words('alerts.without', label=label)})" if "" in globs else said


def _matchers(silence: Silence, words: Language) -> list[Component | str]:
    """Each goes on a line of its own before it is broken within a name."""
    *first, last = [_matcher(label, globs, words) for label, globs in silence.matchers.items()]
    whole = [html.Span(one, className="gl-matcher") for one in (*(f"{one}," for one in first), last)]
    return [part for one in whole for part in (one, " ")][:-1]


def end(store: Store, filters: Filters, words: Language, identifier: str) -> Any:
    """The list without the silence that was ended."""
    now = datetime.now(UTC)
    current().require(Action.silence)
    if identifier in {one.id for one in silences(store, now)}:
        with WRITERS:
            end_silence(store, identifier, current().actor, now)
    return listed(silences(store, now), filters, now, True, words)


def listed(found: Sequence[Silence], filters: Filters, now: datetime, may_silence: bool, words: Language) -> Component:
    """Active silences, then scheduled ones."""
    if not found:
        return states.nothing_here(words("alerts.no_silence"))
    return html.Ul(
        [
            html.Li(
                [
                    html.Span(className=f"gl-dot gl-{'info' if one.starts_at <= now else 'event-submitted'}"),
                    html.Span(
                        [
                            html.Strong(_matchers(one, words)),
                            html.Small(_why(one, words)),
                            html.Small(_span(one, filters, now, words)),
                        ]
                    ),
                    html.Button(
                        words("alerts.end"),
                        id={"type": "silence-end", "silence": one.id},
                        className="gl-plain-button",
                        **{"aria-label": words("alerts.end_is", silence=one.id)},
                    )
                    if may_silence
                    else None,
                ]
            )
            for one in sorted(found, key=lambda one: (one.starts_at > now, one.ends_at))
        ],
        className="gl-quality gl-fires",
    )


def _why(one: Silence, words: Language) -> str:
    """Who says why; only an acknowledgement needs no reason."""
    reason = one.reason or words("alerts.acknowledged")
    return words("alerts.silence_by", author=who(one.author, words), reason=reason)


def _span(one: Silence, filters: Filters, now: datetime, words: Language) -> str:
    starts, ends = (words.moment(filters.local(at)) for at in (one.starts_at, one.ends_at))
    return (
        words("alerts.until", at=ends) if one.starts_at <= now else words("alerts.from_until", start=starts, end=ends)
    )


def _form(matchers: str, begun: bool, words: Language) -> Component:
    """The form's content stays when the page is redrawn beneath it."""
    kept: dict[str, Any] = {"persistence": matchers or True, "persistence_type": "memory", "size": "xs"}
    return html.Details(
        [
            html.Summary(words("alerts.add")),
            html.Div(
                [
                    # As high as its text: what is cut off may be the tenant.
                    dmc.Textarea(
                        id="silence-matchers", label=words("alerts.matchers"), value=matchers, autosize=True,
                        minRows=1, maxRows=4, placeholder="alertname=long-queue, queue=train-*", **kept,
                    ),
                    dmc.Select(
                        id="silence-span", label=words("alerts.for"), value="1h", allowDeselect=False,
                        data=[{"value": key, "label": words(f"alerts.for_{key}")} for key in SPANS], **kept,
                    ),
                    dmc.TextInput(id="silence-reason", label=words("alerts.reason"), value="", **kept),
                    html.Button(words("alerts.add"), id="silence-add", className="gl-button"),
                ],
                className="gl-form",
            ),
            html.P(id="silence-said", role="status", className="gl-note"),
        ],
        open=begun,
        className="gl-more",
    )  # fmt: skip


def _plain(text: str) -> str:
    """A label's value as a glob that fits it. A comma or a bar, which part matchers here, becomes `?`."""
    return literal(text).replace(",", "?").replace("|", "?")
