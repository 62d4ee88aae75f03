"""Waiting jobs, each with its reason, rank in its queue, waiting time, and the start that its scheduler expects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from billing.insights.now.asking import Ask, Row

Due = Literal["ahead", "due", "overdue"]
"""An expected start whose interval is still to come, has begun, or is over though the job waits."""


@dataclass(frozen=True)
class Reported:
    """The content of a message about a wait. text: for people.   earliest, latest: of the expected start; None: not
    reported. A scheduler may report the interval that it announced first, hours ago: it is then past (`due`).
    pool, models: the only ones that fit what it asks for; empty: any does, or its scheduler does not tell."""

    text: str
    earliest: datetime | None = None
    latest: datetime | None = None
    pool: str = ""
    models: tuple[str, ...] = ()

    def due(self, at: datetime) -> Due | None:
        """How the expected start lies to an instant at which the job waits; None: none is reported."""
        return None if self.earliest is None or self.latest is None else due(self.earliest, self.latest, at)


def due(earliest: datetime, latest: datetime, at: datetime) -> Due:
    return "ahead" if at < earliest else "due" if at < latest else "overdue"


def waiting(ask: Ask, workload: str, most: int, at: datetime | None = None, allocation: str = "") -> Sequence[Row]:
    """The rows of waiting.sql at the end of what is asked about, or at an instant."""
    instant = {} if at is None else {"start": at, "end": at}
    return ask("waiting", workload=workload, allocation=allocation, most=most, **instant)


def reported(row: Row) -> Reported:
    """A message is a text, or the JSON object of a scheduler that keeps docs/scheduler-live.md."""
    message = row["message"]
    try:
        facts = json.loads(message)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        return Reported(message)
    pool, models = facts.get("pool"), facts.get("models")
    return Reported(
        str(facts.get("text", "")),
        *_interval(facts.get("expected_interval")),
        pool if isinstance(pool, str) else "",
        tuple(one for one in models if isinstance(one, str)) if isinstance(models, list) else (),
    )


def _interval(given: Any) -> tuple[datetime | None, datetime | None]:
    """Of two instants with an offset; anything else is no interval."""
    try:
        first, last = (datetime.fromisoformat(one) for one in given)
    except (TypeError, ValueError):
        return None, None
    return (first, last) if first.tzinfo and last.tzinfo and first <= last else (None, None)
