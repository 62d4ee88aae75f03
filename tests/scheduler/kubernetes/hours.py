"""GPU-hours in jobs' statuses beside those of the events that the books get."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

from collectors.readings import Row
from scheduler.records.restore import restore
from tests.scheduler.kubernetes.site import Site
from tests.scheduler.kubernetes.standin import Thing

TERMINAL = {"finished", "failed", "cancelled", "preempted", "suspended", "rejected"}


def by_the_books(site: Site) -> dict[str, float]:
    """GPU-seconds by job, from the events that the books get: an oracle of its own."""
    events: list[Row] = []

    def deliver(record: str, rows: Any) -> None:
        events.extend(rows if record == "events" else ())

    restore(site.log.entries(), site.log.of_kind("configured"), "c", deliver)
    held: dict[str, tuple[datetime, int]] = {}
    found: dict[str, float] = defaultdict(float)
    sets: dict[tuple[datetime, str, str], list[Row]] = {}
    for row in events:
        sets.setdefault((row["ts"], row["allocation_id"], row["event"]), []).append(row)
    for (ts, _, event), rows in sets.items():
        job = rows[0]["workload_id"]
        if event not in TERMINAL and event not in ("started", "resized"):
            continue
        if job in held:
            since, many = held.pop(job)
            found[job] += (ts - since).total_seconds() * many
        if event in ("started", "resized"):
            held[job] = ts, sum(row.get("units") or 0 for row in rows)
    return found


def check_hours(site: Site) -> None:
    """The GPU-hours in the status of each job that is over are those of its events."""
    expected = by_the_books(site)
    for job in site.cluster.jobs():
        status = job["status"]
        if "completionTime" in status:
            assert gpu_seconds(job) == pytest.approx(expected.get(status["jobId"], 0.0), abs=0.5), status


def gpu_seconds(job: Thing) -> float:
    return float(Decimal(job["status"]["gpuHours"]) * 3600)
