"""A workload's lifecycle as stored: its allocations, its events, and the part that a page shows."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from dashboards.filters import Filters
from dashboards.languages import Language
from warehouse.store import Store

FINE = timedelta(days=2)
"""Up to this long samples are read; longer spans are shown by the hour, from sums."""
STEPS = (60, 120, 300, 600, 1800)
HOUR_SECONDS = 3600
POINTS = 240
PLACED_OR_OVER = frozenset({"started", "finished", "failed", "cancelled", "rejected"})
"""Events after which a job waits no longer (billing/insights/now/waiting.sql)."""
MOST_EVENTS = 500

Span = tuple[datetime, datetime]


@dataclass(frozen=True)
class Lifecycle:
    """claims: what it held; events: what happened, in order (claims.sql, events.sql).

    until: its last sign of life, or the end of what is closed.   window: the part of it in the page's period.
    in_books: whether a closed hour holds some of it; the last close knows of claims after those, too.
    """

    workload: str
    claims: Sequence[Mapping[str, Any]]
    events: Sequence[Mapping[str, Any]]
    start_at: datetime
    until: datetime
    window: Span | None
    in_books: bool = True

    def bounds(self) -> dict[str, datetime]:
        """The window as parameters of SQL."""
        assert self.window is not None
        return {"start": self.window[0], "end": self.window[1]}

    @property
    def gpus(self) -> float:
        """As many as it held of its devices: of a shared one its share."""
        shares: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for claim in self.claims:
            of_device = shares[claim["cluster"], claim["device_id"]]
            share = claim["units"] / claim["device_units"] if claim["device_units"] else 1.0
            of_device[claim["partition_id"]] = max(share, of_device.get(claim["partition_id"], 0.0))
        return sum(min(1.0, sum(of_device.values())) for of_device in shares.values())

    @property
    def has_plain_shares(self) -> bool:
        """Whether it held a share of a GPU that is not measured by itself, as a hardware partition is."""
        return any(claim["units"] < claim["device_units"] and not claim["partition_profile"] for claim in self.claims)

    @property
    def waited_seconds(self) -> float | None:
        """From submitted to first held; None where either is not reported."""
        asked = [event["ts"] for event in self.events if event["event"] == "submitted"]
        began = [claim["start_at"] for claim in self.claims]
        return (min(began) - min(asked)).total_seconds() if asked and began else None

    @property
    def ran_seconds(self) -> float | None:
        """Of the clock, from first held to last; None where it held nothing, or runs but in no closed hour yet."""
        if not self.claims:
            return None
        began = min(claim["start_at"] for claim in self.claims)
        if self.is_open and self.until <= began:
            return None
        last = max(claim["end_at"] or self.until for claim in self.claims)
        return float((last - began).total_seconds())

    def may_wait(self, at: datetime) -> bool:
        """Whether an allocation of it waits at an instant, as far as its events tell. False is certain."""
        if len(self.events) >= MOST_EVENTS or len({name for event in self.events for name in event["clusters"]}) > 1:
            return True
        known = [event for event in self.events if event["ts"] <= at]
        submitted = {event["allocation_id"] for event in known if event["event"] == "submitted"}
        return not submitted <= {event["allocation_id"] for event in known if event["event"] in PLACED_OR_OVER}

    @property
    def has_begun(self) -> bool:
        return any(event["event"] == "started" for event in self.events)

    @property
    def is_open(self) -> bool:
        """Whether it still held something at the end of what is known."""
        return any(claim["end_at"] is None for claim in self.claims)


def lifecycle_of(store: Store, filters: Filters, workload: str) -> Lifecycle | None:
    """None where neither events nor books know the workload."""
    claims = filters.rows_now(store, __file__, "claims", workload=workload)
    events = filters.rows_now(store, __file__, "events", workload=workload, most=MOST_EVENTS)
    if not claims and not events:
        return None
    closed = filters.months[-1].last + timedelta(hours=1)
    signs = [event["ts"] for event in events] + [claim["start_at"] for claim in claims]
    ends = [claim["end_at"] or closed for claim in claims]
    start, until = min(signs), max([*signs, *ends])
    in_books = any(claim["start_at"] < closed for claim in claims)
    return Lifecycle(workload, claims, events, start, until, _window(filters, start, until), in_books)


def _window(filters: Filters, start: datetime, until: datetime) -> Span | None:
    if filters.period is None:
        raise filters.nothing_closed()
    first, last = max(start, filters.period.start), min(until, filters.period.end)
    return (first, last) if first < last else None


def step_seconds(window: Span) -> int:
    """The step in which a window's measurements are shown."""
    length = window[1] - window[0]
    if length > FINE:
        return HOUR_SECONDS
    return next((step for step in STEPS if length.total_seconds() / step <= POINTS), STEPS[-1])


def plain(message: str, words: Language) -> str:
    """A message that is a JSON object, as a person would write it; its text last, without a name."""
    try:
        fields = json.loads(message)
        return _written(fields, words) if isinstance(fields, dict) else message
    except (ValueError, RecursionError):
        return message


def _written(fields: dict[str, Any], words: Language) -> str:
    parts = []
    for name, value in fields.items():
        between = " – " if name == "expected_interval" else words("quality.comma")
        shown = (
            between.join(map(str, value))
            if isinstance(value, list)
            else words.of(f"told.{name}_is.{value}", str(value))
        )
        if name != "text":
            parts.append(f"{words.of(f'told.{name}', name.replace('_', ' '))}{words('part.colon')}{shown}")
    text = fields.get("text")
    return words("quality.comma").join([*parts, str(text)] if text else parts)
