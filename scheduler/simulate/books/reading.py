"""Reads workloads from a store's books."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from scheduler.simulate.books.workload import ASSUMED, WAITED_SECONDS, BookJob, Group, Slot, Workload, order
from warehouse.store import Store, read_sql

WARM = timedelta(days=7)
"""Jobs from this long before a period are included, so that it does not begin with an empty cluster."""
KNOWN_PART = 0.9
"""Minimum coverage with which a job's use counts as known."""
THERE_PART = 0.99
"""Share of the period's closed hours; a device with less existed for only a part of it."""
STATEMENTS = tuple(read_sql(__file__, name) for name in ("jobs", "devices", "waiting"))
"""The statements of `read_workloads`."""
HOUR_MS = 3_600_000
SHORTEST = 0.001
"""Minimum seconds of a job's run."""
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Span:
    start: datetime
    end: datetime


def read_workloads(store: Store, start: datetime, end: datetime, until: datetime) -> list[Workload]:
    """A workload of each group of devices in [start, end), the most devices first. The store shows everything.

    until: to which the books are closed, not before the end; a job that still holds something runs until then.
    """
    jobs, devices, waiting = STATEMENTS
    span = {"start": start - WARM, "end": end, "until": max(until, end)}
    found, there = defaultdict(list), defaultdict(list)
    for row in store.rows(jobs, span):
        found[_group(row)].append(row)
    for row in store.rows(devices, {"start": start, "end": end, "since": start - WARM}):
        there[_group(row)].append(row)
    unstarted = {row["cluster"]: row for row in store.rows(waiting, {"start": start, "end": end})}
    hours = max((row["hours"] for rows in there.values() for row in rows), default=0.0)
    workloads = [
        _workload(group, rows, found[group], Span(start, end), unstarted.get(group.cluster, {}), hours)
        for group, rows in there.items()
    ]
    return sorted(workloads, key=lambda one: (-len(one.devices), one.group))


def _group(row: Row) -> Group:
    return Group(row["cluster"], row["pool"], row["model"])


def _workload(
    group: Group, devices: Sequence[Row], rows: Sequence[Row], span: Span, unstarted: Row, hours: float
) -> Workload:
    """hours: of the period that are closed."""
    start, end = span.start.timestamp(), span.end.timestamp()
    left_out, assumed, reasons = Counter[str](), Counter[str](), Counter[str]()
    hours_left_out, jobs = 0.0, []
    for row in rows:
        reason = _left_out(row)
        if reason:
            if row["ended_at"] > span.start:
                left_out[reason] += 1
                hours_left_out += row["seen_unit_ms"] / row["whole"] / HOUR_MS
            continue
        job = _job(row, span)
        jobs.append(job)
        if job.measured and job.started_at - job.submitted_at >= WAITED_SECONDS:
            reasons.update(row["reasons"])
        if job.submitted_at >= start:
            assumed.update(name for name in ASSUMED if _assumed(name, row))
    ours = [row for row in devices if not row["is_mig"]]
    return Workload(
        group, start, end,
        devices=tuple(Slot(row["node"], row["units"]) for row in ours),
        jobs=sorted(jobs, key=order),
        left_out=+left_out,
        assumed=+assumed,
        reasons=+reasons,
        left_out_hours=hours_left_out,
        mig_devices=len(devices) - len(ours),
        waiting=unstarted.get("waiting", 0),
        gone=unstarted.get("gone", 0),
        partly=sum(row["hours"] < hours * THERE_PART for row in ours),
        down_hours=math.fsum(row["down_hours"] for row in ours),
    )  # fmt: skip


def _left_out(row: Row) -> str:
    if row["several"]:
        return "several"
    if row["is_mig"]:
        return "mig"
    return "" if row["even"] else "uneven"


def _job(row: Row, span: Span) -> BookJob:
    per_node = [devices for _, devices, _ in row["places"]]
    each, units = math.gcd(*per_node), min(row["places"][0][2], row["whole"])
    is_known = not _assumed("unsubmitted", row)
    submitted = row["submitted_at"] if is_known else row["started_at"]
    return BookJob(
        f"{row['cluster']}/{row['allocation_id']}",
        submitted.timestamp(),
        row["started_at"].timestamp(),
        max(SHORTEST, round(row["held_unit_ms"] / row["first_units"]) / 1000),
        replicas=sum(per_node) // each,
        devices=each,
        units=units,
        whole=row["whole"],
        priority=row["priority"] or 0,
        measured=is_known and span.start <= submitted < span.end,
        use=_use(row),
    )


def _use(row: Row) -> float | None:
    if not row["seen_unit_ms"] or row["metered_unit_ms"] < KNOWN_PART * row["seen_unit_ms"]:
        return None
    return float(row["used_unit_ms"] / row["metered_unit_ms"])


def _assumed(name: str, row: Row) -> bool:
    found: dict[str, bool] = {
        "unsubmitted": row["submitted_at"] is None or row["submitted_at"] > row["started_at"],
        "open": bool(row["is_open"]),
        "resized": bool(row["is_resized"]),
        "restarted": row["attempts"] > 1,
        "preempted": bool(row["is_preempted"]),
        "priority": row["priority"] is None,
    }
    return found[name]
