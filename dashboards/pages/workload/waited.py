"""A workload whose wait is over: each reason for it with the expected start then, and who held the GPUs that it got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dash.development.base_component import Component

from access.current import current
from access.roles import Action
from billing.insights.now import reported
from dashboards import exports, grids, parts
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.pages.queues.waiters import expected
from dashboards.pages.workload.lifecycle import Lifecycle
from dashboards.said import said
from warehouse.store import Store

MOST = 100
"""Allocations that held what it waited for."""
BRIEF_SECONDS = 60
"""A wait of less is a scheduler's turn: nobody held what it waited for, and no reason is reported."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Spell:
    """A part of a wait, in which its source told one reason and one expected start.   event: that told it first."""

    event: Row
    start: datetime
    end: datetime


def spells_of(lifecycle: Lifecycle) -> list[Spell]:
    """From the first `submitted` to the start of the same allocation; none if it waits, or did not for a minute."""
    first = next((event for event in lifecycle.events if event["event"] == "submitted"), None)
    if first is None:
        return []
    own = [event for event in lifecycle.events if event["allocation_id"] == first["allocation_id"]]
    began = min((event["ts"] for event in own if event["event"] == "started"), default=None)
    if began is None or (began - first["ts"]).total_seconds() < BRIEF_SECONDS:
        return []
    told = [event for event in own if event["event"] == "submitted" and event["ts"] < began]
    changed = [event for at, event in enumerate(told) if at == 0 or _content(event) != _content(told[at - 1])]
    ends = [event["ts"] for event in changed[1:]] + [began]
    spells = [Spell(event, event["ts"], end) for event, end in zip(changed, ends, strict=True)]
    return [one for one in spells if _content(one.event)[0] or (one.end - one.start).total_seconds() >= 1]


def _content(event: Row) -> tuple[Any, ...]:
    found = reported(event)
    return event["reason"], found.text, found.earliest, found.latest


def held_before(store: Store, filters: Filters, lifecycle: Lifecycle, spells: Sequence[Spell]) -> Sequence[Row]:
    """The rows of held_before.sql."""
    claims = [claim for claim in lifecycle.claims if claim["allocation_id"] == spells[0].event["allocation_id"]]
    if not claims:
        return []
    asked = {"workload": lifecycle.workload, "cluster": claims[0]["cluster"],
             "allocation_id": claims[0]["allocation_id"], "start": spells[0].start, "end": spells[-1].end,
             "most": MOST}  # fmt: skip
    return filters.rows_now(store, __file__, "held_before", **asked)


def waited_cards(store: Store, filters: Filters, lifecycle: Lifecycle, words: Language) -> Component | None:
    spells = spells_of(lifecycle)
    if not spells:
        return None
    return parts.split(
        _reasons_card(spells, filters, words),
        _holders_card(held_before(store, filters, lifecycle, spells), filters, words),
        class_name="gl-even",
    )


def _reasons_card(spells: Sequence[Spell], filters: Filters, words: Language) -> Component:
    columns = [
        grids.moment("since", words("waited.since"), minimum=126),
        grids.duration(words, "lasted", words("waited.lasted"), words("waited.lasted_is")),
        grids.text("reason", words("queues.reason"), words("queues.reason_is"), minimum=180, flex=1.5),
        grids.text("expected", words("queues.expected"), words("queues.expected_is"), minimum=190),
        grids.sentence("details", words("queues.details"), words("queues.details_is"), minimum=240, flex=300),
    ]
    rows: list[dict[str, Any]] = [
        {
            "since": filters.local(one.start),
            "lasted": (one.end - one.start).total_seconds(),
            "reason": said(one.event["reason"], filters, words) or words("queues.no_reason"),
            "expected": expected(one.event, one.start, filters, words),
            "details": said(reported(one.event).text, filters, words),
        }
        for one in spells
    ]
    knows_start = any(row["expected"] for row in rows)
    shown = grids.filled(columns, rows, ("expected", "details"))
    return parts.card(
        words("waited.why"),
        words("waited.why_is") if knows_start else words("waited.why_only"),
        grids.grid(shown, rows, words, "waited-reasons"),
        tool=exports.of_grid("waited-reasons", "reasons", filters, words),
        class_name="gl-table-card",
    )


def _holders_card(rows: Sequence[Row], filters: Filters, words: Language) -> Component:
    columns = [
        grids.link("name", words("workload.name"), minimum=120, flex=1.4),
        grids.text("tenant", words("filter.tenant"), minimum=88, flex=0.8),
        grids.number("devices", words("waited.devices"), words("waited.devices_is"), ",d", minimum=78),
        grids.moment("since", words("waited.since"), minimum=126),
        grids.moment("until", words("waited.until"), words("waited.until_is"), minimum=126),
    ]
    shown = [
        {
            "name": row["workload_id"] or row["allocation_id"],
            "href": filters.href("/workloads", workload=row["workload_id"]) if row["workload_id"] else "",
            "tenant": row["tenant"],
            "devices": row["devices"],
            "since": filters.local(row["since"]),
            "until": filters.local(row["until"]) if row["until"] else words("slo.still"),
        }
        for row in rows
    ]
    sees_all = current().may(Action.see_fleet)
    return parts.card(
        words("waited.holders"),
        words("waited.holders_is" if sees_all else "waited.holders_yours"),
        grids.grid(columns, shown, words, "waited-holders", spare=("since", "tenant"),
                   empty=words("waited.nobody" if sees_all else "waited.nobody_yours")),
        tool=exports.of_grid("waited-holders", "held-before", filters, words),
        class_name="gl-table-card",
    )  # fmt: skip
