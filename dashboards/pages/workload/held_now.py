"""A workload that runs but in no closed hour yet: what it holds at this moment, as Now has it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from billing.insights.now import Moment, moment
from billing.insights.now.asking import Row
from dashboards import parts
from dashboards.filters import Filters
from dashboards.format import gpu_count, money, percent
from dashboards.languages import Language
from dashboards.pages.now.allocated import held
from dashboards.parts import Figure
from warehouse.store import Store

MOST = 500
"""Allocations among which it is looked for."""


@dataclass(frozen=True)
class HeldNow:
    """rows: of held.sql, one for each of its allocations."""

    now: Moment
    rows: Sequence[Row]
    currency: str

    def total(self, name: str) -> Any:
        """None where it is unknown of one of them."""
        amounts = [row[name] for row in self.rows]
        return None if None in amounts else sum(amounts)

    @property
    def used(self) -> float | None:
        """Of the GPUs that are metered, as Now has it of each allocation."""
        metered = [row for row in self.rows if row["used_5"] is not None]
        gpus = sum(row["gpus"] for row in metered)
        return sum(row["used_5"] * row["gpus"] for row in metered) / gpus if gpus else None


def held_now(store: Store, filters: Filters, workload: str, clock: datetime) -> HeldNow | None:
    """None if it holds nothing, or if nobody knows what is held now."""
    now = moment(store, clock)
    if now is None or now.stopped:
        return None
    whole = replace(filters, address=replace(filters.address, chosen={}))
    rows, currency = held(store, whole, now.at, MOST)
    own = [row for row in rows if row["workload_id"] == workload]
    return HeldNow(now, own, currency) if own else None


def now_cards(found: HeldNow, filters: Filters, words: Language) -> list[Component]:
    since = min(row["since"] for row in found.rows)
    nodes = sorted({node for row in found.rows for node in row["nodes"] if node})
    used, billed = found.used, money(found.total("billed_hour"), found.currency)
    tenants, projects = ([found.rows[0][name]] if found.rows[0][name] else None for name in ("tenant", "project"))
    to_now = dcc.Link(words("wait.to_now"), href=filters.href("/now", tenant=tenants, project=projects))
    return [
        parts.headline(
            [
                Figure(words("now.held"), gpu_count(found.total("gpus")), words("unit.gpus"), ", ".join(nodes[:3])),
                Figure(words("now.since"), words.moment(filters.local(since)), "",
                       words("wait.as_of", at=words.moment(filters.local(found.now.at)))),
                Figure(words("now.used_5"), words("kind.unmetered") if used is None else percent(used), "", ""),
                Figure(words("now.hourly"), money(found.total("list_hour"), found.currency), "",
                       words("overview.billed", amount=billed)),
            ]
        ),
        html.P([words("workload.not_closed_now"), " ", to_now], className="gl-note"),
    ]  # fmt: skip
