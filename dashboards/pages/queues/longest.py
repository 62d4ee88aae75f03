"""The longest waits that ended in the period: each leads to its workload's page, which says why it waited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from dash.development.base_component import Component

from dashboards import exports, grids, parts
from dashboards.filters import Filters
from dashboards.languages import Language
from dashboards.said import said
from warehouse.store import Store

MOST = 300
"""Waits in all; of a hundred queues all are there."""
Row = Mapping[str, Any]


def longest(store: Store, filters: Filters, queues: Sequence[Row], end: datetime) -> Sequence[Row]:
    """The rows of longest.sql.   queues: of by_queue.sql, which say which jobs; end: as they were asked for."""
    found = sorted(one for row in queues for one in row["longest"])[:MOST]
    if not found:
        return []
    return filters.rows(store, __file__, "longest", end=end, hashes=[allocation for _, allocation in found])


def longest_card(rows: Sequence[Row], filters: Filters, words: Language) -> Component:
    columns = [
        grids.link("name", words("workload.name"), minimum=140, flex=1.4),
        grids.duration(words, "waited", words("queues.longest_waited"), words("queues.longest_waited_is")),
        grids.text("reason", words("queues.reason"), words("queues.last_reason_is"), minimum=150, flex=1.3),
        grids.number("gpus", words("waits.gpus"), "", ",.2~f", minimum=120),
        grids.text("queue", words("waits.queue"), minimum=84, flex=0.8),
        grids.moment("since", words("queues.since"), words("queues.since_is")),
        grids.moment("started", words("queues.longest_started")),
    ]
    return parts.card(
        words("queues.longest"),
        words("queues.longest_is"),
        grids.grid(of_queues(columns, filters), [_row(row, filters, words) for row in rows], words, "queues-longest",
                   empty=words("queues.none_waited"), spare=("since", "started", "gpus")),
        tool=exports.of_grid("queues-longest", "longest-waits", filters, words),
        class_name="gl-table-card",
        id="longest",
    )  # fmt: skip


def of_queues(columns: Sequence[grids.Column], filters: Filters) -> list[grids.Column]:
    """Without the queue where one is chosen."""
    return [column for column in columns if column["field"] != "queue" or filters.only("queue") is None]


def _row(row: Row, filters: Filters, words: Language) -> dict[str, Any]:
    return {
        "name": row["workload_id"] or row["allocation_id"],
        "href": filters.href("/workloads", workload=row["workload_id"]) if row["workload_id"] else "",
        "waited": row["wait_seconds"],
        "reason": said(row["reason"], filters, words) or words("queues.no_reason"),
        "gpus": row["gpus"],
        "queue": row["queue"] or words("no_name"),
        "since": filters.local(row["submitted_at"]),
        "started": filters.local(row["started_at"]),
    }
