"""Waiting jobs: each with its reason, rank in its queue, waiting time, and the start that its scheduler expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from dash.development.base_component import Component

from billing.insights.now import ASKED, moment, reported
from billing.insights.now import waiting as waiting_at
from dashboards import exports, grids, parts
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.pages.queues.longest import of_queues
from dashboards.said import said
from warehouse.store import Store

MOST = 500
Row = Mapping[str, Any]


def waiting(store: Store, filters: Filters, workload: str = "", at: datetime | None = None) -> Sequence[Row]:
    """The rows of waiting.sql at the period's end, as far as that is known, or at an instant."""
    return waiting_at(partial(filters.rows, store, ASKED), workload, MOST, at or known_until(store, filters))


def known_until(store: Store, filters: Filters) -> datetime:
    """The period's end; in a period that goes on, the newest instant for which facts came: nobody has waited longer."""
    if filters.period is None:
        raise filters.nothing_closed()
    end = filters.period.end

    def newest() -> datetime | None:
        at = moment(store, datetime.now(UTC))
        return at.after if at is not None else None

    return min(end, filters.data_version.reached("facts", end, newest) or end)


def said_at(end: datetime, filters: Filters, words: Language) -> str:
    """As of when jobs wait: a period that goes on has no end yet.   end: as of `known_until`."""
    at = words.moment(filters.local(end))
    return words("queues.at_the_end") if _is_over(end, filters) else words("queues.as_of", at=at)


def _is_over(end: datetime, filters: Filters) -> bool:
    return filters.period is None or end >= filters.period.end


def expected(row: Row, at: datetime, filters: Filters, words: Language) -> str:
    """The expected start of a job that waits at an instant, as people read it: of an interval that has begun its end,
    after it that it is overdue; '' where nobody tells one."""
    found = reported(row)
    if found.latest is None:
        return ""
    due = found.due(at)
    if due != "ahead":
        return words(f"queues.{due}", last=words.moment(filters.local(found.latest)))
    return announced(row, filters, words)


def announced(row: Row, filters: Filters, words: Language) -> str:
    """The interval as its scheduler announced it; '' where nobody tells one."""
    found = reported(row)
    if found.earliest is None or found.latest is None:
        return ""
    first, last = (filters.local(at) for at in (found.earliest, found.latest))
    if first.date() == last.date():
        return words("queues.between", first=words.moment(first), last=f"{last:%H:%M}")
    return words("queues.between", first=words.moment(first), last=words.moment(last))


def _interval(row: Row) -> str | None:
    """The same for programs: two instants as ISO 8601 joins them."""
    found = reported(row)
    if found.earliest is None or found.latest is None:
        return None
    return f"{grids.instant(found.earliest)}/{grids.instant(found.latest)}"


def waiters_card(rows: Sequence[Row], at: datetime, filters: Filters, words: Language) -> Component:
    """at: the instant at which they wait."""
    in_all = rows[0]["in_all"] if rows else 0
    known = "queues.waited_is" if _is_over(at, filters) else "queues.waited_until"
    until = words(known, at=words.moment(filters.local(at)))
    columns = [
        grids.link("name", words("workload.name"), minimum=140, flex=1.4),
        grids.text("queue", words("waits.queue"), minimum=84, flex=0.8),
        grids.text("rank", words("queues.rank"), words("queues.rank_is"), minimum=88, flex=0.6),
        grids.text("reason", words("queues.reason"), words("queues.reason_is"), minimum=140, flex=1.2),
        grids.sentence("details", words("queues.details"), words("queues.details_is"), minimum=240, flex=460),
        grids.duration(words, "waited", words("queues.waited"), until),
        grids.moment("expected", words("queues.expected"), words("queues.expected_is"), minimum=256),
        grids.number("gpus", words("waits.gpus"), "", ",.2~f", minimum=70),
        grids.text("tenant", words("filter.tenant"), minimum=84, flex=0.8),
        grids.text("project", words("filter.project"), minimum=84, flex=0.8),
        grids.moment("since", words("queues.since"), words("queues.since_is")),
        grids.number("priority", words("queues.priority"), "", ",d", minimum=74),
    ]
    shown = [_row(row, at, filters, words) for row in rows]
    cut = words("queues.waiters_cut", most=MOST, all=f"{in_all:,}")
    return parts.card(
        words("queues.waiters"),
        cut if in_all > MOST else words("queues.waiters_is", at=said_at(at, filters, words)),
        grids.grid(
            grids.filled(of_queues(columns, filters), shown, ("details", "expected")),
            shown,
            words,
            "queues-waiters",
            empty=words("queues.nobody_waits", at=said_at(at, filters, words)),
            spare=("priority", "since", "project", "tenant", "rank", "details", "gpus", "queue"),
        ),
        tool=exports.of_grid("queues-waiters", "waiting", filters, words),
        class_name="gl-table-card",
        id="waiters",
    )


def _row(row: Row, at: datetime, filters: Filters, words: Language) -> dict[str, Any]:
    return {
        "name": row["workload_id"] or row["allocation_id"],
        "href": filters.href("/workloads", workload=row["workload_id"]) if row["workload_id"] else "",
        "queue": row["queue"] or words("no_name"),
        "rank": words("queues.rank_of", n=row["rank"], all=f"{row['queued']:,}"),
        "reason": said(row["reason"], filters, words) or words("queues.no_reason"),
        "details": said(reported(row).text, filters, words),
        "waited": row["waited_seconds"],
        "expected": _interval(row),
        "expected_text": expected(row, at, filters, words),
        **{name: row[name] for name in ("gpus", "tenant", "project", "priority")},
        "since": filters.local(row["since"]),
    }
