"""The loop: API streams into one queue, changes into rows, rows into a sink, and the position into a file.

Rows are handed on before the state is saved, so that a crash repeats rows (with the same keys) and loses none.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from collectors.kubernetes.api import Api
from collectors.kubernetes.claims import SLICE_PATHS
from collectors.kubernetes.cluster import Cluster, Inventory, Stream, relevant
from collectors.kubernetes.follow import Backoff, Changed, Current, Follow, Item, Listed, Trouble, Unserved, utc_now
from collectors.kubernetes.queues import QueueStream, streams_of
from collectors.kubernetes.settings import Settings
from collectors.kubernetes.state import State
from collectors.readings import Collected

PATHS: dict[Stream, tuple[str, ...]] = {
    "nodes": ("/api/v1/nodes",),
    "slices": SLICE_PATHS,
    "claims": tuple(f"/apis/resource.k8s.io/{version}/resourceclaims" for version in ("v1", "v1beta2", "v1beta1")),
    "workloads": tuple(f"/apis/kueue.x-k8s.io/{version}/workloads" for version in ("v1beta2", "v1beta1")),
    "pods": ("/api/v1/pods",),
}
"""The pods come last: what their rows depend on is to be known before."""
QUEUE_PATHS: dict[QueueStream, tuple[str, ...]] = {
    "local_queues": tuple(f"/apis/kueue.x-k8s.io/{version}/localqueues" for version in ("v1beta2", "v1beta1")),
    "cluster_queues": tuple(f"/apis/kueue.x-k8s.io/{version}/clusterqueues" for version in ("v1beta2", "v1beta1")),
    "volcano_queues": ("/apis/scheduling.volcano.sh/v1beta1/queues",),
    "pod_groups": ("/apis/scheduling.volcano.sh/v1beta1/podgroups",),
}
"""Followed where their scheduler is among `Settings.queues_of`."""
REQUIRED: tuple[Stream, ...] = ("pods", "nodes")
QUEUED = 8
"""Items read ahead; a page of a list is one."""
ROWS_AT_ONCE = 2000
SAVE_EVERY = timedelta(seconds=5)
INVENTORY_EVERY = timedelta(seconds=60)
CURRENT_SECONDS = 1.0
"""Pods without accelerators update the watch's position at most this often."""
READY_SECONDS = 60.0
"""How long the pods wait for the other streams before they start without."""


def paths_of(settings: Settings) -> dict[Stream, tuple[str, ...]]:
    """The streams to follow, the pods last."""
    return {**{each: QUEUE_PATHS[each] for each in streams_of(settings) if each in QUEUE_PATHS}, **PATHS}


Sink = Callable[[Collected], None]
Say = Callable[[str], None]
Queue = asyncio.Queue[tuple[Stream, Item, datetime]]
"""What came of which stream, and when: it may wait here."""


def no_inventory() -> Inventory:
    return {}


@dataclass
class Watcher:
    """Follows a cluster and hands its rows to `sink`, until cancelled; with `once`, what the lists say.

    inventory: asked now and then for the device rows that others reported.   say: a line for people.
    """

    api: Api
    settings: Settings
    state: State
    sink: Sink
    inventory: Callable[[], Inventory] = no_inventory
    say: Say = field(default=lambda _: None)
    now: Callable[[], datetime] = utc_now
    backoff: Backoff = field(default_factory=Backoff)
    dropped: Counter[str] = field(default_factory=Counter)
    _reported_current: float = field(default=0.0, init=False)
    _paths: dict[Stream, tuple[str, ...]] = field(default_factory=dict, init=False)
    _unserved: set[Stream] = field(default_factory=set, init=False)

    async def run(self, once: bool = False) -> None:
        cluster = Cluster(self.settings)
        cluster.restore(
            self.state.version,
            self.state.seen_at,
            self.state.objects("pod"),
            self.state.objects("waiting"),
            self.state.objects("node"),
            self.state.objects("wait"),
        )
        self._paths = paths_of(self.settings)
        queue: Queue = asyncio.Queue(QUEUED)
        ready = {stream: asyncio.Event() for stream in self._paths}
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._follow(stream, "" if once else cluster.version, queue, ready, once))
                    for stream in self._paths
                ]
                await self._consume(cluster, queue, tasks)
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    async def _follow(
        self,
        stream: Stream,
        version: str,
        queue: Queue,
        ready: dict[Stream, asyncio.Event],
        once: bool,
    ) -> None:
        if stream == "pods":
            others = [asyncio.ensure_future(ready[each].wait()) for each in self._paths if each != "pods"]
            _, late = await asyncio.wait(others, timeout=READY_SECONDS)
            for each in late:
                each.cancel()
        follow = Follow(
            self.api,
            self._paths[stream],
            version=version if stream == "pods" else "",
            required=stream in REQUIRED,
            backoff=self.backoff,
            once=once,
            now=self.now,
        )
        async for item in follow.items():
            if stream == "pods":
                kept = self._relevant(item)
                if kept is None:
                    continue
                item = kept
            await queue.put((stream, item, self.now()))
            if isinstance(item, Unserved) or (isinstance(item, Listed) and item.last):
                ready[stream].set()
        ready[stream].set()

    def _relevant(self, item: Item) -> Item | None:
        """The item without pods that ask for no accelerator, which are most; None if nothing is left to say."""
        if isinstance(item, Listed):
            kept = [pod for pod in item.objects if relevant(pod, self.settings)]
            return Listed(kept, item.version, item.first, item.last)
        if isinstance(item, Changed) and not relevant(item.object, self.settings):
            if time.monotonic() - self._reported_current < CURRENT_SECONDS:
                return None
            self._reported_current = time.monotonic()
            return item if item.late else Current(item.version)  # one of the past says nothing of now
        return item

    async def _consume(
        self,
        cluster: Cluster,
        queue: Queue,
        tasks: list[asyncio.Task[None]],
    ) -> None:
        saved_at = asked_at = self.now() - INVENTORY_EVERY
        unsaved = False
        try:
            while not (queue.empty() and all(task.done() for task in tasks)):
                first = await _next(queue, tasks, SAVE_EVERY.total_seconds() if unsaved else None)
                now = self.now()
                if now - asked_at >= INVENTORY_EVERY:
                    cluster.take_stock(await asyncio.to_thread(self.inventory))
                    asked_at = now
                collected = Collected()
                if first is not None:
                    unsaved, version = True, cluster.version
                    collected = self._apply(cluster, *first)
                    while not queue.empty() and sum(map(len, collected.rows.values())) < ROWS_AT_ONCE:
                        collected += self._apply(cluster, *queue.get_nowait())
                    self.dropped += collected.dropped
                    saved_at = saved_at if version else now - SAVE_EVERY  # where a first watch begins is kept at once
                if collected.rows:
                    self.sink(collected)
                if unsaved and (collected.rows or now - saved_at >= SAVE_EVERY):
                    self._save(cluster)
                    saved_at, unsaved = now, False
        except asyncio.CancelledError:
            self._save(cluster)  # cancelled while it waited: all that was applied has been handed on
            raise
        self._save(cluster)

    def _save(self, cluster: Cluster) -> None:
        self.state.save(cluster.version, cluster.seen_at, cluster.changes())

    def _apply(self, cluster: Cluster, stream: Stream, item: Item, heard_at: datetime) -> Collected:
        if isinstance(item, Trouble) and (item.failures in (1, 5) or item.failures % 20 == 0):
            self.say(f"{stream}: {item.what}; trying again")
        if isinstance(item, Unserved) and stream in streams_of(self.settings) and stream not in self._unserved:
            self._unserved.add(stream)
            why = "may not be read" if item.forbidden else "is not served"
            self.say(f"{stream}: {self._paths[stream][-1]} {why} ({item.what}); going on without")
        elif isinstance(item, Listed):
            self._unserved.discard(stream)
        return cluster.apply(stream, item, heard_at)


async def _next(
    queue: Queue, tasks: list[asyncio.Task[None]], within: float | None
) -> tuple[Stream, Item, datetime] | None:
    """The next item; None if a stream ended, or nothing came within those seconds."""
    getting = asyncio.ensure_future(queue.get())
    running = [task for task in tasks if not task.done()]
    try:
        await asyncio.wait({getting, *running}, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        return getting.result() if getting.done() else None
    finally:
        if not getting.done():
            getting.cancel()
