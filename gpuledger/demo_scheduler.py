"""The demo's live scheduler: the reference scheduler over those holders of the simulated fleet that are idle, so that
people can reclaim them from the pages.

It takes over the notebooks that idle alerts name, each where it is: in a pool that is its part of its device. What it
does to them happens in the demo: the books hear of the end, and the fleet's later records of it are left out; one that
is resumed gets its place back. The fleet was placed ahead, so it leaves the place free until the notebook would have
ended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from alerts.reading import alerts
from collectors.readings import Row
from collectors.simulated.jobs import KINDS, SERVICE, TENANTS
from collectors.tables import schema
from gpuledger import documents
from gpuledger.idle_feed import reading_of
from ingest.pipeline import ingest_tables
from scheduler.live.executors import Launch, Recorder
from scheduler.live.idle import FRESH_SECONDS, RULE, Feed, Holders, Reading
from scheduler.live.service import RefusedError, Service
from scheduler.records.events import SOURCE, written
from scheduler.records.log import Log
from scheduler.settings import Settings, parse_settings
from warehouse.records import EVENTS
from warehouse.store import Store, read_sql

POLICY: Mapping[str, Any] = {"warn": "30m", "after": "2h", "then": "suspend", "approval": True}
"""Nothing is stopped unless somebody says so."""
ENDINGS = ("finished", "failed", "cancelled", "preempted")
BY_FLEET = "demo"
"""Actor of what the fleet did by itself, which the books have from the fleet."""
RESUMED = "/resumed-"
PLACE = ("node", "device_id", "partition_id", "partition_profile", "units")


class Notebooks(Recorder):
    """The fleet runs them. The books know them by the names that the fleet gave them, and later attempts by ours."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[str, str] = {}

    def start(self, launch: Launch) -> float | None:
        self.names[launch.job.job_id] = launch.payload["allocation"]
        return super().start(launch)

    def holders(self, job_id: str, attempt: int, world: int) -> Holders | None:
        return Holders((books_name(self.names[job_id], attempt),), since=0.0) if job_id in self.names else None


def books_name(allocation: str, attempt: int) -> str:
    """What the books call an attempt at an allocation that the fleet has started."""
    return allocation if attempt == 1 else f"{allocation}{RESUMED}{attempt - 1}"


@dataclass
class Stopped:
    """A workload of the fleet that was stopped: when, and until when; the last of these may have no end yet.
    is_shared: several workloads are on its device, each with samples of its own."""

    is_shared: bool
    spans: list[tuple[datetime, datetime | None]] = field(default_factory=list)

    def hear(self, event: str, at: datetime) -> None:
        if event == "started" and self.spans and self.spans[-1][1] is None:
            self.spans[-1] = (self.spans[-1][0], at)
        elif event in ("suspended", "cancelled") and (not self.spans or self.spans[-1][1] is not None):
            self.spans.append((at, None))


class DemoScheduler:
    """file: the log, which is made. Jobs that an earlier run took over are still there.   clock: seconds since the
    epoch."""

    def __init__(self, file: Path, cluster: str, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._log = Log(file, alone=True)
        self._executor = Notebooks()
        self._store: Store | None = None
        configured = self._log.of_kind("configured")
        settings = parse_settings(configured[-1].body["settings"]) if configured else _settings([])
        self.service = Service(self._log, settings, cluster, self._executor, clock, self._deliver)
        self.service.watches_idleness = True
        self._stopped: dict[str, Stopped] | None = None
        self._ended: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._log.close()

    def look(self, store: Store) -> None:
        """Hears who is idle, takes over whom it does not know, and takes the steps that are due.

        Errors: LedgerError if the store does not answer."""
        self._store = store
        if self._stopped is None:
            self._stopped = {}
            for row in store.rows(read_sql(__file__, "demo_stopped"), {"resumed": RESUMED}):
                self._hear(row["workload_id"], row["event"], row["ts"])
        found = alerts(store, datetime.now(UTC), states=["firing"], rule=RULE)
        idle = [documents.Alert.model_validate(row) for row in found]
        readings = {one.labels["allocation_id"]: reading_of(one) for one in idle if "allocation_id" in one.labels}
        self._end()
        self._take_over(store, [name for name in readings if "/" not in name])
        self.service.hear_idle(self._feed(readings))
        while self.service.step():
            pass

    def _feed(self, readings: Mapping[str, Reading]) -> Feed:
        """One reason for all where the demo was away, in place of one for each job."""
        now, newest = self._clock(), max((one.at for one in readings.values()), default=None)
        if newest is not None and newest < now - FRESH_SECONDS:
            return Feed(now, problem=f"the demo catches up: nothing was measured since {written(newest)}")
        return Feed(now, readings)

    def without_stopped(self, record: str, table: pa.Table) -> pa.Table:
        """The fleet's records without what it has of workloads after they were stopped here, and while they were."""
        if record == "events":
            over = pc.is_in(table["event"], pa.array(ENDINGS))
            self._ended += table.filter(over)["allocation_id"].to_pylist()
        for workload, stopped in (self._stopped or {}).items():
            if record not in ("events", "samples") or not stopped.spans:
                continue
            its = pc.equal(table["workload_id"], workload)
            if record == "events":
                later = pc.greater(table["ts"], _instant(stopped.spans[0][0]))
                table = table.filter(pc.invert(pc.and_(its, later)))
                continue
            for since, until in stopped.spans:
                during = pc.and_(its, pc.greater(table["ts"], _instant(since)))
                if until is not None:
                    during = pc.and_(during, pc.less_equal(table["ts"], _instant(until)))
                if stopped.is_shared:
                    table = table.filter(pc.invert(during))
                    its = pc.equal(table["workload_id"], workload)
                else:
                    nobody = pc.if_else(during, pa.scalar("", table["workload_id"].type), table["workload_id"])
                    table = table.set_column(table.schema.get_field_index("workload_id"), "workload_id", nobody)
                    its = pc.equal(table["workload_id"], workload)
        return table

    def _take_over(self, store: Store, allocations: Sequence[str]) -> None:
        pools = [pool.model_dump(mode="json") for pool in self.service.restored.settings.pools]
        known = {pool["name"] for pool in pools}
        new = sorted(set(allocations) - known)
        if not new:
            return
        rows = store.rows(read_sql(__file__, "demo_idle_holders"), {"allocations": new, "source": SOURCE})
        if not rows:
            return
        self.service.configure(_settings([*pools, *(_pool(row) for row in rows)]))
        for row in rows:
            self.service.submit(_job(row), BY_FLEET)

    def _end(self) -> None:
        """Ends jobs whose allocation the fleet has ended: it gives their place to others."""
        ended, self._ended = set(self._ended), []
        for job_id, live in list(self.service.book.jobs.items()):
            if live.payload["allocation"] in ended:
                try:
                    if live.status == "running":
                        self.service.finish(job_id, True, BY_FLEET)
                    else:
                        self.service.cancel(job_id, BY_FLEET)
                except RefusedError:  # it is ending already
                    continue

    def _deliver(self, record: str, rows: Sequence[Row]) -> None:
        """Reports what the books do not have from the fleet: what was stopped, and later attempts at it."""
        if record != "events":
            return
        found = [said for row in rows if (said := self._as_books_have_it(row)) is not None]
        if not found:
            return
        assert self._store is not None
        table = pa.Table.from_pylist(found, schema(EVENTS))
        ingest_tables(self._store, EVENTS, "the demo's live scheduler", [table])
        for row, at in zip(found, table["ts"].to_pylist(), strict=True):
            self._hear(row["workload_id"], row["event"], at)

    def _as_books_have_it(self, row: Row) -> Row | None:
        job_id, _, later = row["allocation_id"].partition("/")
        attempt = int(later or 1)
        if attempt == 1 and (row["event"] in ("submitted", "started") or row["actor"] == BY_FLEET):
            return None
        payload = self._payload(job_id)
        place = payload["place"] if row.get("device_id") else {}
        return {
            **row,
            **{name: place[name] for name in PLACE if name in place},
            "allocation_id": books_name(payload["allocation"], attempt),
            "workload_id": payload["workload"],
        }

    def _payload(self, job_id: str) -> Mapping[str, Any]:
        """Of a job, also if it is over."""
        (submitted,) = [entry for entry in self._log.of_job(job_id) if entry.kind == "submit"]
        payload: Mapping[str, Any] = submitted.body["payload"]
        return payload

    def _hear(self, workload: str, event: str, at: datetime) -> None:
        assert self._stopped is not None
        place = self._payload(workload)["place"]
        is_shared = not place["partition_id"] and place["whole"] > 1
        self._stopped.setdefault(workload, Stopped(is_shared)).hear(event, at)


def _settings(pools: Sequence[Mapping[str, Any]]) -> Settings:
    """A scheduler needs a pool; the first has nothing."""
    return parse_settings(
        {
            "pools": pools or [{"name": "none", "nodes": 1, "devices": 0}],
            "tenants": [{"name": name} for name in TENANTS],
            "queues": [{"name": name} for name in sorted({kind.queue for kind in (*KINDS, SERVICE)})],
            "idle": [POLICY],
        },
        "the demo's scheduler",
    )


def _pool(row: Row) -> dict[str, Any]:
    return {"name": row["allocation_id"], "nodes": 1, "devices": 1, "units": row["whole"], "model": row["model"]}


def _job(row: Row) -> dict[str, Any]:
    place = {name: row[name] for name in (*PLACE, "whole")}
    return {
        "job_id": row["workload_id"],
        **{name: row[name] for name in ("tenant", "project", "queue", "priority")},
        "request": {"devices": 1, "units": row["units"], "pool": row["allocation_id"]},
        "payload": {"allocation": row["allocation_id"], "workload": row["workload_id"], "place": place},
    }


def _instant(at: datetime) -> pa.Scalar:
    return pa.scalar(at, pa.timestamp("ms", "UTC"))
