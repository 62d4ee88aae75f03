"""What became of the alert of a link (`?alert=`) that is not among the active ones shown, as of an old mail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from alerts.reading import CURRENT, history
from dashboards.filters import Filters
from dashboards.languages import Language
from warehouse.store import Store

Alert = Mapping[str, Any]


def linked_note(store: Store, found: Sequence[Alert], filters: Filters, words: Language) -> Component | None:
    """found: the active alerts that the page shows. None: the link's is among them, or it has none."""
    of = filters.more.get("alert", "")
    if not of or any(one["fingerprint"] == of for one in found):
        return None
    last = next(iter(history(store, fingerprint=of, most=1)), None)
    said = [words("alerts.linked_unknown")] if last is None else _said(last, filters, words)
    return html.P(said, className="gl-note", role="status")


def _said(last: Alert, filters: Filters, words: Language) -> list[Any]:
    """last: its newest change of state."""
    own = {"rule": last["rule"], "alert": last["fingerprint"], "tenant": None, "cluster": None}
    if last["state"] in CURRENT:
        shown = _link(words("alerts.linked_show"), filters.href("/alerts", **own))
        return [words("alerts.linked_filtered", rule=last["rule"]), " ", shown]
    ended = last["resolved_at"]
    if ended is None or last["fired_at"] is None:
        return [words("alerts.linked_over", rule=last["rule"])]
    text = words("alerts.linked_resolved", rule=last["rule"], at=words.dated(filters.local(ended)))
    month = f"{filters.local(last['fired_at']):%Y-%m}"
    if all(one.key != month for one in filters.months):
        return [text]
    return [text, " ", _link(words("alerts.linked_history"), filters.href("/alerts", period=month, **own))]


def _link(text: str, href: str) -> Component:
    return dcc.Link(text, href=href, className="gl-go")
