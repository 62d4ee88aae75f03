"""The log of pushed points, in the store: it survives a kill, and any server of the store can continue it.

Concurrent pushes are written together. A push is in the log, and acknowledged, once its points are there and then its
instants: after a kill between the two, the sender sends it again.
"""

from __future__ import annotations

import json
import logging
import math
import secrets
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pyarrow as pa

from collectors.receivers.points import Point
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql

log = logging.getLogger(__name__)

MOST_WAITING = 400_000
"""Points that wait to be written; more pushes are sent away."""
AT_ONCE = 200_000
"""Points in one insert, about."""
MOST_PENDING = 50_000
"""Instants that are looked at in one pass."""
MOST_REMEMBERED = 20_000
"""Targets of a sender that are remembered for longer than their log."""
ASKED_AT_ONCE = 5000
"""Devices in one query."""

Kind = Literal["units", "devices"]
"""What is remembered: the units of a target, the devices of a cluster."""


class Series(NamedTuple):
    """A point as the log stores it. labels: the same object for equal text."""

    ts: datetime
    name: str
    labels: Mapping[str, str]
    value: float
    stale: bool


@dataclass(frozen=True)
class Pending:
    """An instant of a target that is not assembled. pushes: which have points of it.   age_seconds: since the last of
    them came; waits_seconds: since the first."""

    sender: str
    target: str
    ts: datetime
    pushes: Sequence[int]
    age_seconds: float
    waits_seconds: float


@dataclass
class _Waiting:
    sender: str
    points: Sequence[Point]
    done: Future[None]


class PointLog:
    """Writes points on its own thread; its store connection is used by no other."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._changed = threading.Condition()
        self._waiting: deque[_Waiting] = deque()
        self._points = 0
        self._ending = False
        self.held_up = False
        self._thread = threading.Thread(target=self._run, name="pushed-points", daemon=True)
        self._thread.start()

    @property
    def full(self) -> bool:
        return self._ending or self.held_up or self._points >= MOST_WAITING

    def put(self, sender: str, points: Sequence[Point]) -> Future[None]:
        """Done once they are in the log; or with the error that kept them out."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()
        if not points:
            done.set_result(None)
            return done
        with self._changed:
            if self._ending:
                done.set_exception(LedgerError("receiver", "the server ends", "Send it again"))
                return done
            self._waiting.append(_Waiting(sender, points, done))
            self._points += len(points)
            self._changed.notify()
        return done

    def close(self) -> None:
        """Writes what waits, then ends."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while some := self._next():
            trouble: Exception | None = None
            try:
                self._write(some)
            except Exception as error:  # whatever it is, those who wait must hear of it
                log.error("receive: pushed points cannot be written: %s", error)
                if not isinstance(error, LedgerError):
                    log.exception("receive: an internal error")
                trouble = error
            for one in some:
                if trouble is None:
                    one.done.set_result(None)
                else:
                    one.done.set_exception(trouble)
            with self._changed:
                self._points -= sum(len(one.points) for one in some)

    def _next(self) -> list[_Waiting]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._ending)
            taken: list[_Waiting] = []
            points = 0
            while self._waiting and points < AT_ONCE:
                taken.append(self._waiting.popleft())
                points += len(taken[-1].points)
            return taken

    def _write(self, some: Sequence[_Waiting]) -> None:
        push = secrets.randbits(63)
        texts: dict[int, str] = {}
        columns: dict[str, list[object]] = {
            name: [] for name in ("sender", "target", "ts", "name", "labels", "value", "stale")
        }
        instants: dict[tuple[str, str, int], None] = {}
        for one in some:
            targets: dict[object, str] = {}
            for point in one.points:
                if point.target not in targets:
                    targets[point.target] = point.target.text
                target = targets[point.target]
                if id(point.labels) not in texts:
                    texts[id(point.labels)] = json.dumps(
                        point.labels, ensure_ascii=False, sort_keys=True, separators=(",", ":")
                    )
                row = (one.sender, target, point.ts, point.name, texts[id(point.labels)], point.value, point.stale)
                for column, value in zip(columns.values(), row, strict=True):
                    column.append(value)
                instants[one.sender, target, point.ts] = None
        self._store.insert("pushed_points", _table(columns, push))
        self._store.insert("pushed_instants", _table(_instants(instants), push))


class Reading:
    """Reads pushed points, for the assembler. store: a connection of its own.   mine: identifies this assembler."""

    def __init__(self, store: Store, mine: UUID) -> None:
        self._store, self._mine = store, mine
        self._labels: dict[str, dict[str, str]] = {}

    def pending(self) -> list[Pending]:
        """In the order of their times, by target."""
        rows = self._store.rows(read_sql(__file__, "pending_instants"), {"most": MOST_PENDING})
        return [Pending(**row) for row in rows]

    def points(self, sender: str, target: str, first: datetime, last: datetime) -> list[Series]:
        asked = {"sender": sender, "target": target, "first_at": first, "last_at": last}
        rows = self._store.rows(read_sql(__file__, "points_of_target"), asked)
        if len(self._labels) > MOST_PENDING:
            self._labels.clear()
        return [Series(row["ts"], row["name"], self._read(row["labels"]), row["value"], row["stale"]) for row in rows]

    def new(self, some: Sequence[Pending]) -> set[datetime]:
        """Which of these instants of one target have a point that no assembled push has."""
        asked = {
            "sender": some[0].sender,
            "target": some[0].target,
            "first_at": min(one.ts for one in some),
            "last_at": max(one.ts for one in some),
            "pushes": sorted({push for one in some for push in one.pushes}),
        }
        return {row["ts"] for row in self._store.rows(read_sql(__file__, "new_instants"), asked)}

    def seconds_since_others(self) -> float:
        """How long ago another process assembled anything; infinity: none did."""
        found = self._store.value(read_sql(__file__, "assembled_by_others"), {"mine": str(self._mine)})
        return math.inf if found is None else float(found)

    def heard(self) -> list[tuple[str, str, datetime]]:
        """Sender, target and last assembled instant of what came recently."""
        rows = self._store.rows(read_sql(__file__, "heard_targets"))
        return [(row["sender"], row["target"], row["last"]) for row in rows]

    def heard_at(self, sender: str, target: str) -> datetime | None:
        """When something of it came last, by the store's clock."""
        found: datetime | None = self._store.value(read_sql(__file__, "heard_at"), {"sender": sender, "target": target})
        return found

    def reported_by_others(self, devices: Iterable[str], since: datetime) -> set[tuple[str, str]]:
        """Cluster and id of those of these devices that another source than pushed metrics tells of.

        since: an agent that has measured nothing since is gone."""
        names = sorted(set(devices))
        found: set[tuple[str, str]] = set()
        for first in range(0, len(names), ASKED_AT_ONCE):
            part = {"devices": names[first : first + ASKED_AT_ONCE], "since": since}
            rows = self._store.rows(read_sql(__file__, "reported_by_others"), part)
            found |= {(row["cluster"], row["device_id"]) for row in rows}
        return found

    def remembered(self, sender: str, kind: Kind, about: str) -> dict[str, Any]:
        """What `remember` wrote last; empty, where it wrote nothing for a month or it cannot be read."""
        rows = self._store.rows(read_sql(__file__, "remembered"), {"sender": sender, "kind": kind, "about": about})
        try:
            found = json.loads(rows[0]["memory"]) if rows else {}
        except ValueError as mistake:
            log.warning("receive: what was known of %s of %s must be learned again: %s", about, sender, mistake)
            return {}
        return found if isinstance(found, dict) else {}

    def remember(self, some: Sequence[tuple[str, Kind, str, Mapping[str, Any]]]) -> None:
        """(sender, kind, about, what). Of each sender about so many as fit: MOST_REMEMBERED."""
        senders = {sender for sender, *_ in some}
        counts = {
            row["sender"]: row["many"]
            for row in self._store.rows(read_sql(__file__, "targets_remembered"), {"senders": sorted(senders)})
        }
        full = {sender for sender in senders if counts.get(sender, 0) >= MOST_REMEMBERED}
        for sender in full:
            log.warning("receive: %s has more targets than are remembered: %d", sender, MOST_REMEMBERED)
        columns = list(zip(*(one for one in some if one[0] not in full), strict=True))
        if columns:
            names = ("sender", "kind", "about")
            arrays = {name: pa.array(values, pa.string()) for name, values in zip(names, columns, strict=False)}
            texts = [json.dumps(what, ensure_ascii=False, separators=(",", ":")) for what in columns[3]]
            self._store.insert("pushed_memory", pa.table(arrays | {"memory": pa.array(texts, pa.string())}))

    def assembled(self, some: Iterable[Pending]) -> None:
        """To be called once their rows are in the store."""
        keys = [(one.sender, one.target, one.ts, push) for one in some for push in one.pushes]
        if keys:
            table = pa.table(
                {
                    "sender": pa.array([key[0] for key in keys], pa.string()),
                    "target": pa.array([key[1] for key in keys], pa.string()),
                    "ts": pa.array([key[2] for key in keys], pa.timestamp("ms", "UTC")),
                    "push": pa.array([key[3] for key in keys], pa.uint64()),
                    "assembled": pa.array([True] * len(keys)),
                    "by": pa.array([str(self._mine)] * len(keys), pa.string()),
                }
            )
            self._store.insert("pushed_instants", table)

    def _read(self, text: str) -> dict[str, str]:
        if text not in self._labels:
            self._labels[text] = json.loads(text)
        return self._labels[text]


_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("sender", "target", "name", "labels"), pa.string()),
    "ts": pa.timestamp("ms", "UTC"),
    "value": pa.float64(),
    "stale": pa.bool_(),
}


def _instants(keys: Iterable[tuple[str, str, int]]) -> dict[str, list[object]]:
    some = list(keys)
    return {name: [key[place] for key in some] for place, name in enumerate(("sender", "target", "ts"))}


def _table(columns: Mapping[str, Sequence[object]], push: int) -> pa.Table:
    arrays = {name: pa.array(values, _TYPES[name]) for name, values in columns.items()}
    rows = len(columns["ts"])
    return pa.table(arrays | {"push": pa.array([push] * rows, pa.uint64())})
