"""The queues of Kueue and Volcano as a watch knows them: who waits in them, and their quotas. Does no I/O.

What was reported of a wait is remembered, so that each row is reported once and every wait ends, also if its object was
deleted while nobody watched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from collectors.kubernetes.objects import Object, child, name, namespace, text, uid
from collectors.kubernetes.pods import ESTIMATED
from collectors.kubernetes.quotas import INTERVAL_SECONDS, of_cluster_queue, of_volcano_queue
from collectors.kubernetes.settings import Scheduler, Settings
from collectors.kubernetes.waits import PODS_WAIT, End, Read, Wait, of_pod_group, of_workload
from collectors.readings import Collected, Row

QueueStream = Literal["workloads", "local_queues", "cluster_queues", "pod_groups", "volcano_queues"]
STREAMS: Mapping[Scheduler, tuple[QueueStream, ...]] = {
    "kueue": ("local_queues", "cluster_queues", "workloads"),
    "volcano": ("volcano_queues", "pod_groups"),
}
"""In the order in which they are needed."""
MESSAGE_EVERY = timedelta(minutes=5)
"""A reason's message counts something and changes all the time: alone, it is reported at most this often."""
TICK = timedelta(milliseconds=1)

PendingPods = Mapping[str, Mapping[str, datetime]]
"""Link -> the pods that wait and bear it, with the time of their creation."""


@dataclass(frozen=True, slots=True)
class Known:
    """What was reported of a workload's latest wait.

    at: of the newest row.   over: it ended; nothing but its allocation is remembered then.
    """

    stream: str
    allocation: str
    since: str = ""
    at: str = ""
    base: dict[str, Any] = field(default_factory=dict)
    gpus: float | None = None
    reason: str = ""
    message: str = ""
    over: bool = False

    def plain(self) -> dict[str, Any]:
        """As JSON; `Known.of` reads it again."""
        return asdict(self)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Known:
        return Known(**{each.name: plain[each.name] for each in fields(Known) if each.name in plain})


def streams_of(settings: Settings) -> tuple[QueueStream, ...]:
    """Those of the schedulers whose queues are read."""
    return tuple(stream for of in settings.queues_of for stream in STREAMS[of])


class Queues:
    """Waits and quotas.   put, drop, listed: what an object, its end or a complete list adds.   ready: the pods are
    known, so that none of their workloads is reported beside them."""

    def __init__(self, settings: Settings, pending: PendingPods) -> None:
        self.settings = settings
        self.ready = False
        self.dirty: set[str] = set()
        self._pending = pending
        self._known: dict[str, Known] = {}
        self._waits: dict[str, tuple[QueueStream, Wait]] = {}
        self._places: dict[str, tuple[QueueStream, str, str]] = {}
        self._linked: dict[str, set[str]] = {}
        self._uids: dict[tuple[QueueStream, str, str], str] = {}
        self._cluster_queues: dict[tuple[str, str], str] = {}
        self._objects: dict[tuple[QueueStream, str], Object] = {}
        self._reported_at: dict[tuple[QueueStream, str], datetime] = {}
        self._problems: dict[tuple[QueueStream, str, str], tuple[str, ...]] = {}

    @property
    def streams(self) -> tuple[QueueStream, ...]:
        return streams_of(self.settings)

    def restore(self, waits: Mapping[str, Any]) -> None:
        self._known = {key: Known.of(plain) for key, plain in waits.items()}

    def remembered(self, key: str) -> Mapping[str, Any] | None:
        return known.plain() if (known := self._known.get(key)) is not None else None

    def queue_of(self, where: str, local_queue: str) -> str:
        """The ClusterQueue that a namespace's LocalQueue stands for; its own name where that is not known."""
        return self._cluster_queues.get((where, local_queue)) or local_queue

    # objects

    def put(self, stream: QueueStream, found: Object, now: datetime) -> Collected:
        collected = Collected()
        if stream == "local_queues":
            key, stands_for = (namespace(found), name(found)), text(child(found, "spec"), "clusterQueue")
            if self._cluster_queues.get(key) != stands_for:
                self._cluster_queues[key] = stands_for
                for waiting in sorted(self._waits) if self.ready else ():
                    self._observe(waiting, collected, now)
        elif stream in ("cluster_queues", "volcano_queues"):
            self._objects[stream, name(found)] = found
            self._quota(stream, found, collected, now)
        else:
            self._workload(stream, found, collected, now)
        return collected

    def drop(self, stream: QueueStream, found: Object, now: datetime) -> Collected:
        """It was deleted; this was its last version."""
        collected = Collected()
        if stream in ("cluster_queues", "volcano_queues"):
            self._objects.pop((stream, name(found)), None)
            self._reported_at.pop((stream, name(found)), None)
        elif stream != "local_queues":  # pods of a LocalQueue that is gone were its ClusterQueue's
            self._workload(stream, found, collected, now)
            self._end(uid(found), End("cancelled", None, "Deleted"), now, collected)
            self._forget(uid(found))
        self._problems.pop((stream, namespace(found), name(found)), None)
        return collected

    def listed(self, stream: QueueStream, seen: set[Any], last_seen_at: datetime) -> Collected:
        """There are no others than those with these keys: the rest went between two watches."""
        collected = Collected()
        gone = [key for key, known in self._known.items() if known.stream == stream and key not in seen]
        for key in sorted(gone):
            self._end(key, End("cancelled", None, f"Deleted, {ESTIMATED}"), last_seen_at, collected)
            self._forget(key)
        for each in [each for each in self._objects if each[0] == stream and each[1] not in seen]:
            del self._objects[each]
        return collected

    @staticmethod
    def key(stream: QueueStream, found: Object) -> Any:
        """As `listed` wants it."""
        return uid(found) if stream in ("workloads", "pod_groups") else name(found)

    def current(self, stream: QueueStream, now: datetime) -> Collected:
        """Unchanged quotas, once in a while."""
        collected = Collected()
        for (of, queue), found in sorted(self._objects.items()):
            due = self._reported_at.get((of, queue))
            if of == stream and (due is None or (now - due).total_seconds() >= INTERVAL_SECONDS):
                self._quota(of, found, collected, now)
        return collected

    def _quota(self, stream: QueueStream, found: Object, collected: Collected, now: datetime) -> None:
        read = (of_cluster_queue if stream == "cluster_queues" else of_volcano_queue)(found, self.settings)
        self._complain(stream, found, read.problems, collected, now)
        self._reported_at[stream, name(found)] = now
        for row in read.rows(self.settings, now):
            collected.add("service_levels", row)

    def _complain(
        self, stream: QueueStream, found: Object, problems: tuple[str, ...], collected: Collected, now: datetime
    ) -> None:
        """One finding for an object, until it has another problem."""
        key = stream, namespace(found), name(found)
        if problems and self._problems.get(key) != problems:
            where = f"{namespace(found)}/{name(found)}".strip("/") or "(without a name)"
            more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
            row = {
                "ts": now,
                "cluster": self.settings.cluster,
                "finding": "object_invalid",
                "severity": "warning",
                "message": f"{KIND[stream]} {where}: {problems[0]}{more}",
                "source": self.settings.source,
            }
            collected.add("findings", row)
        if problems:
            self._problems[key] = problems
        else:
            self._problems.pop(key, None)

    # waits

    def start(self, now: datetime) -> Collected:
        """The pods are known from now on."""
        self.ready = True
        collected = Collected()
        for key, known in sorted(self._known.items()):
            if known.stream not in self.streams:
                self._end(key, End("cancelled", None, "no longer read"), now, collected)
                self._forget(key)
        for key in sorted(self._waits):
            self._observe(key, collected, now)
            self._settle(key)
        return collected

    def pods_changed(self, links: Iterable[str], now: datetime) -> Collected:
        """Pods with these links began to wait."""
        collected = Collected()
        if self.ready:
            for key in sorted({key for link in links for key in self._linked.get(link, ())}):
                self._observe(key, collected, now)
                self._settle(key)
        return collected

    def _workload(self, stream: QueueStream, found: Object, collected: Collected, now: datetime) -> None:
        read: Read = of_workload(found, self.settings) if stream == "workloads" else of_pod_group(found, self.settings)
        self._complain(stream, found, read.problems, collected, now)
        key, place = uid(found), (stream, namespace(found), name(found))
        if (other := self._uids.get(place, key)) != key:  # another of that name: the first one's end was missed
            self._end(other, End("cancelled", None, f"Deleted, {ESTIMATED}"), now, collected)
            self._forget(other)
        if read.wait is None:
            return
        self._uids[place], self._places[key] = key, place
        self._unlink(key)
        self._waits[key] = stream, read.wait
        for link in read.wait.links:
            self._linked.setdefault(link, set()).add(key)
        if self.ready:
            self._observe(key, collected, now)
            self._settle(key)

    def _settle(self, key: str) -> None:
        """Most workloads are over, and stay for long: of those no more than their allocation is kept."""
        if (known := self._known.get(key)) is None or known.over:
            self._unlink(key)

    def _observe(self, key: str, collected: Collected, now: datetime) -> None:
        """The rows that the workload's present state adds."""
        stream, wait = self._waits[key]
        if wait.local_queue:  # which may be heard of later than who waits in it
            _, where, _ = self._places[key]
            wait = replace(wait, base={**wait.base, "queue": self.queue_of(where, wait.base["queue"])})
        known = self._known.get(key)
        if wait.allocation and (known is None or known.allocation != wait.allocation):
            if known is not None and not known.over:
                # It was admitted and evicted unseen.
                self._end(key, End("cancelled", None, f"Admitted, {ESTIMATED}"), wait.since, collected)
            known = Known(stream, wait.allocation, wait.since.isoformat(), base=dict(wait.base))
            started_unseen = wait.end is not None and wait.end.event == "started" and wait.end.at is None
            # Those that are done may be kept for years: they would be told of months that are closed and issued.
            if wait.done or started_unseen or (wait.end is None and self._pods_since(wait) is not None):
                self._put(key, replace(known, over=True, base={}))
                return
        if known is None or known.over:
            return
        known = self._submitted(key, known, wait, collected, now)
        if wait.end is not None:
            self._end(key, wait.end, now, collected)
        elif (pods_since := self._pods_since(wait, datetime.fromisoformat(known.since))) is not None:
            self._end(key, End("cancelled", pods_since, PODS_WAIT, "its pods wait in its place"), now, collected)

    def _submitted(self, key: str, known: Known, wait: Wait, collected: Collected, now: datetime) -> Known:
        """Its beginning, and why it waits, if that is news."""
        began = datetime.fromisoformat(known.since)
        if not known.at:
            row = self._row(known, "submitted", began, message=wait.title)
            collected.add("events", row | ({} if wait.gpus is None else {"gpus": wait.gpus}))
            known = replace(known, at=began.isoformat(), gpus=wait.gpus)
        newest = datetime.fromisoformat(known.at)
        changed = (wait.reason, wait.gpus, dict(wait.base)) != (known.reason, known.gpus, known.base)
        old = wait.message != known.message and now - newest >= MESSAGE_EVERY
        if wait.end is None and (changed or old):
            stamp = wait.reason_at if wait.reason != known.reason else None
            ts = stamp if stamp is not None and stamp > newest else newest + TICK if stamp is not None else now
            if ts > newest:
                known = replace(known, at=ts.isoformat(), base=dict(wait.base), gpus=wait.gpus)
                known = replace(known, reason=wait.reason, message=wait.message)
                row = self._row(known, "submitted", ts, reason=wait.reason, message=wait.message)
                collected.add("events", row | ({} if wait.gpus is None else {"gpus": wait.gpus}))
        self._put(key, known)
        return known

    def _pods_since(self, wait: Wait, since: datetime | None = None) -> datetime | None:
        """Since when pods of it wait themselves. Those of an earlier try do not count."""
        after = None if wait.first else since or wait.since
        made = [at for link in wait.links for at in self._pending.get(link, {}).values() if not after or at >= after]
        return min(made, default=None)

    def _end(self, key: str, end: End, otherwise: datetime, collected: Collected) -> None:
        """Ends what waits still.   otherwise: when, if the object does not say."""
        known = self._known.get(key)
        if known is None or known.over:
            return
        ts = max(end.at or otherwise.replace(microsecond=0), datetime.fromisoformat(known.at))
        if end.event == "started":
            collected.add("events", self._row(known, "started", ts))
        message = "its pods hold the devices" if end.event == "started" else end.message
        collected.add("events", self._row(known, "cancelled", ts, reason=end.reason, message=message))
        self._put(key, Known(known.stream, known.allocation, over=True))

    def _put(self, key: str, known: Known) -> None:
        if self._known.get(key) != known:
            self._known[key] = known
            self.dirty.add(key)

    def _forget(self, key: str) -> None:
        if self._known.pop(key, None) is not None:
            self.dirty.add(key)
        self._unlink(key)
        if (place := self._places.pop(key, None)) is not None:
            del self._uids[place]

    def _unlink(self, key: str) -> None:
        """Forgets what the object says."""
        found = self._waits.pop(key, None)
        for link in found[1].links if found is not None else ():
            if (keys := self._linked.get(link)) is not None:
                keys.discard(key)
                if not keys:
                    del self._linked[link]

    def _row(self, known: Known, event: str, ts: datetime, **columns: str) -> Row:
        filled = {column: value for column, value in columns.items() if value}
        return {"ts": ts, **known.base, "allocation_id": known.allocation, "event": event, **filled}


KIND: Mapping[QueueStream, str] = {
    "workloads": "Workload",
    "local_queues": "LocalQueue",
    "cluster_queues": "ClusterQueue",
    "pod_groups": "PodGroup",
    "volcano_queues": "Queue",
}
