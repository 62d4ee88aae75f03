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
"""Share of the period's closed hours; a place with less had a device for only a part of it."""
STATEMENTS = tuple(read_sql(__file__, name) for name in ("jobs", "devices", "waiting", "presence"))
"""The statements of `read_workloads`."""
HOUR_MS = 3_600_000
SHORTEST = 0.001
"""Minimum seconds of a job's run."""
Row = Mapping[str, Any]


Stretches = Mapping[tuple[str, str], Sequence[tuple[int, int]]]
"""By cluster and device, of those that were there for a part of the period only: when, in milliseconds."""


@dataclass(frozen=True)
class Span:
    """A period.   hours: of it that are closed."""

    start: datetime
    end: datetime
    hours: float
    stretches: Stretches


@dataclass
class Place:
    """For one device at a time: one, and those that replaced it.   until: the last one is gone, in milliseconds."""

    slot: Slot
    hours: float
    until: float


def read_workloads(store: Store, start: datetime, end: datetime, until: datetime) -> list[Workload]:
    """A workload of each group of devices in [start, end), the most devices first. The store shows everything.

    until: to which the books are closed, not before the end; a job that still holds something runs until then.
    """
    jobs, devices, waiting, presence = STATEMENTS
    span = {"start": start - WARM, "end": end, "until": max(until, end)}
    found, there = defaultdict(list), defaultdict(list)
    for row in store.rows(jobs, span):
        found[_group(row)].append(row)
    for row in store.rows(devices, {"start": start, "end": end, "since": start - WARM}):
        there[_group(row)].append(row)
    unstarted = {row["cluster"]: row for row in store.rows(waiting, {"start": start, "end": end})}
    partly = store.rows(presence, {"start": start, "end": end})
    stretches = {(row["cluster"], row["device_id"]): row["stretches"] for row in partly}
    hours = max((row["hours"] for rows in there.values() for row in rows), default=0.0)
    read = Span(start, end, hours, stretches)
    workloads = [
        _workload(group, rows, found[group], read, unstarted.get(group.cluster, {})) for group, rows in there.items()
    ]
    return sorted(workloads, key=lambda one: (-len(one.devices), one.group))


def _group(row: Row) -> Group:
    return Group(row["cluster"], row["pool"], row["model"])


def _workload(group: Group, devices: Sequence[Row], rows: Sequence[Row], span: Span, unstarted: Row) -> Workload:
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
    places = _places(ours, span.stretches)
    return Workload(
        group, start, end,
        devices=tuple(one.slot for one in places),
        jobs=sorted(jobs, key=order),
        left_out=+left_out,
        assumed=+assumed,
        reasons=+reasons,
        left_out_hours=hours_left_out,
        mig_devices=len(_places([row for row in devices if row["is_mig"]], span.stretches)),
        waiting=unstarted.get("waiting", 0),
        gone=unstarted.get("gone", 0),
        partly=sum(one.hours < span.hours * THERE_PART for one in places),
        down_hours=math.fsum(row["down_hours"] for row in ours),
    )  # fmt: skip


def _places(devices: Sequence[Row], stretches: Stretches) -> list[Place]:
    """As few as have room for the devices: one of the same node and number of units replaces one that is gone."""
    slots: dict[Slot, list[Row]] = defaultdict(list)
    for row in devices:
        slots[Slot(row["node"], row["units"])].append(row)
    found: list[Place] = []
    for slot, rows in slots.items():
        keys = [(row["cluster"], row["device_id"]) for row in rows]
        found += [
            Place(slot, row["hours"], math.inf) for row, key in zip(rows, keys, strict=True) if key not in stretches
        ]
        found += _successions(slot, sorted(one for key in keys for one in stretches.get(key, ())))
    return found


def _successions(slot: Slot, stretches: Sequence[tuple[int, int]]) -> list[Place]:
    """Places of stretches in the order of their starts; each goes to the place that is empty for the shortest time."""
    found: list[Place] = []
    for start, end in stretches:
        place = max((one for one in found if one.until <= start), key=lambda one: one.until, default=None)
        if place is None:
            place = Place(slot, 0.0, 0.0)
            found.append(place)
        place.hours += (end - start) / HOUR_MS
        place.until = end
    return found


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
