"""Measures objectives: writes new points, and again those affected by newer facts.

It works on whole hours, so that a run replaces an hour's points at once; a kill leaves at most invisible rows.
Repeating it changes nothing. Batches and closed hours, not a clock, show which facts are new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from warehouse.store import Store, read_sql

STATEMENTS: Mapping[str, str] = {
    "queue_wait": "deadlines",
    "completion_time": "deadlines",
    "job_success": "endings",
    "latency": "latencies",
    "error_rate": "errors",
    "quota_redemption": "quota",
    "metering_coverage": "metered",
}
"""By kind of objective: the statement that adds its points."""
HOUR = timedelta(hours=1)
PIECE = timedelta(days=14)
"""The longest span that one statement measures, which bounds its memory."""
LEAST_HISTORY = timedelta(days=62)
"""How far back a new objective is measured: as far as last month's credits and the slow burn rate need."""


@dataclass(frozen=True)
class Due:
    """A span [since, until) of an objective that has to be measured. since is on the hour."""

    definition: str
    kind: str
    since: datetime
    until: datetime


def measure(store: Store, at: datetime, now: datetime | None = None, since: datetime | None = None) -> int:
    """Measures all objectives in force up to `at` (data time); returns how many hours were measured, over all
    objectives."""
    (available,) = store.rows(read_sql(__file__, "available_facts"))
    states = store.rows(read_sql(__file__, "last_measured"))
    newest: dict[tuple[Any, Any], Mapping[str, Any]] = {}
    todo: dict[tuple[datetime, datetime], list[Due]] = defaultdict(list)
    for state in states:
        seen = (state["facts_until"], state["books_run"])
        if state["asked_until"] is not None and seen not in newest:
            (newest[seen],) = store.rows(
                read_sql(__file__, "oldest_change"), {"facts_until": seen[0], "books_run": seen[1]}
            )
        one = due(state, newest.get(seen, {}), available, at, since)
        if one is not None:
            todo[one.since, one.until].append(one)
    run = max([int((now or at).timestamp() * 1e6), *(row["run"] + 1 for row in store.rows(_NEWEST_RUN))])
    measured = 0
    for (start, end), dues in sorted(todo.items()):
        definitions = sorted({one.definition for one in dues})
        for first, last in _pieces(start, end):
            span = {"run": run, "since": first, "until": last}
            for statement in dict.fromkeys(STATEMENTS[one.kind] for one in dues):
                fitting = sorted({one.definition for one in dues if STATEMENTS[one.kind] == statement})
                store.command(_sql(statement), {**span, "definitions": fitting})
            store.command(read_sql(__file__, "hours"), {**span, "definitions": definitions})
        _record(store, definitions, run, start, end, at, available)
        measured += len(definitions) * -int((start - end) // HOUR)
    return measured


def _sql(statement: str) -> str:
    return read_sql(__file__, statement, services=read_sql(__file__, "services"))


_NEWEST_RUN = "SELECT max(run) AS run FROM slo_measured"


def due(
    state: Mapping[str, Any],
    newest: Mapping[str, Any],
    available: Mapping[str, Any],
    at: datetime,
    again_since: datetime | None = None,
) -> Due | None:
    """The span of an objective that has to be measured; None: none.

    state, newest, available: a row of last_measured.sql, of oldest_change.sql, of available_facts.sql.
    """
    until = at
    if state["books"]:
        if available["closed_until"] is None:
            return None
        until = min(at, available["closed_until"])
    earliest = max(available["since"], at - max(timedelta(seconds=state["window_seconds"]), LEAST_HISTORY))
    if state["asked_until"] is None:
        since = earliest
    else:
        changed_since = [newest["facts_since"]] + (
            [newest["books_since"]] if state["books"] or state["kind"] == "job_success" else []
        )
        since = max(earliest, min(state["asked_until"], *changed_since))
    if again_since is not None:
        since = min(since, again_since)
    since = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    if state["books"]:
        until = until.replace(minute=0, second=0, microsecond=0)
    return None if since >= until else Due(state["definition"], state["kind"], since, until)


def _pieces(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    while start < end:
        piece = min(start + PIECE, end)
        yield start, piece
        start = piece


def _record(
    store: Store,
    definitions: list[str],
    run: int,
    since: datetime,
    until: datetime,
    asked: datetime,
    available: Mapping[str, Any],
) -> None:
    import pyarrow as pa

    count = len(definitions)
    instant = pa.timestamp("ms", "UTC")
    store.insert(
        "slo_measured",
        pa.table(
            {
                "definition": pa.array(definitions, pa.string()),
                "run": pa.array([run] * count, pa.uint64()),
                "since": pa.array([since] * count, instant),
                "until": pa.array([until] * count, instant),
                "asked_until": pa.array([asked] * count, instant),
                "facts_until": pa.array([available["facts_until"]] * count, instant),
                "books_run": pa.array([available["books_run"]] * count, pa.uint64()),
            }
        ),
    )
