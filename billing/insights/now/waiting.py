"""Waiting jobs, each with its reason, rank in its queue, waiting time, and the start that its scheduler expects."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from billing.insights.now.asking import Ask, Row


@dataclass(frozen=True)
class Reported:
    """The content of a message about a wait. text: for people.   earliest, latest: of the expected start; None: not
    reported."""

    text: str
    earliest: datetime | None = None
    latest: datetime | None = None


def waiting(ask: Ask, workload: str, most: int, at: datetime | None = None) -> Sequence[Row]:
    """The rows of waiting.sql at the end of what is asked about, or at an instant."""
    instant = {} if at is None else {"start": at, "end": at}
    return ask("waiting", workload=workload, most=most, **instant)


def reported(row: Row) -> Reported:
    """A message is a text, or the JSON object of a scheduler that keeps docs/scheduler-live.md."""
    message = row["message"]
    try:
        facts = json.loads(message)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        return Reported(message)
    return Reported(str(facts.get("text", "")), *_interval(facts.get("expected_interval")))


def _interval(given: Any) -> tuple[datetime | None, datetime | None]:
    """Of two instants with an offset; anything else is no interval."""
    try:
        first, last = (datetime.fromisoformat(one) for one in given)
    except (TypeError, ValueError):
        return None, None
    return (first, last) if first.tzinfo and last.tzinfo and first <= last else (None, None)
