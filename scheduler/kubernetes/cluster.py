"""The Kubernetes API for the operator: a cache of objects, filled by watches on a thread of their own, and calls.

The response to a call updates the cache at once, before the watch reports it, so that the next round does not repeat
it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from collectors.kubernetes.api import Absent, Api, Conflict, Interrupted
from collectors.kubernetes.connection import Connection, KubernetesError
from collectors.kubernetes.follow import Backoff, Changed, Current, Follow, Item, Listed, Trouble
from collectors.kubernetes.objects import Object, child, items, name, namespace, text, uid
from scheduler.kubernetes import elastic_jobs, pods
from scheduler.kubernetes.calls import Call
from scheduler.kubernetes.declared import PATHS, Kind
from scheduler.kubernetes.executor import Seen
from scheduler.kubernetes.operator import Outcome

log = logging.getLogger(__name__)

AT_ONCE = 8
"""Calls in flight."""
CALL_SECONDS = 15.0
AGAIN_SECONDS = 10.0
"""Seconds before a refused call is repeated."""
DONE: Object = {}
MOST_GONE = 10_000
"""Deletions to remember, against late responses about deleted objects."""


def _pod(of: Object) -> Object | None:
    """What is asked of a pod that we made: of thousands, the rest is most of what this process would hold."""
    if not pods.is_ours(of):
        return None
    metadata, spec, status = (child(of, part) for part in ("metadata", "spec", "status"))
    owners = [_only(one, ("kind", "uid")) for one in items(metadata, "ownerReferences")]
    marks = {kind: _marks(child(metadata, kind)) for kind in ("labels", "annotations")}
    said = [_only(one, CONDITION) for one in items(status, "conditions") if one.get("type") in TOLD]
    states = {
        kind: [_only(one, ("name", "state")) for one in items(status, kind)] for kind in STATUSES if kind in status
    }
    asked = {kind: [_only(one, ASKED) for one in items(spec, kind)] for kind in CONTAINERS if kind in spec}
    kept = {
        "metadata": _only(metadata, IDENTITY) | marks | {"ownerReferences": owners},
        "spec": _only(spec, ("nodeName", "overhead", "resources")) | asked,
        "status": _only(status, ("phase", "reason", "message", "startTime")) | {"conditions": said} | states,
    }
    found: Object = _shared(kept)
    return found


IDENTITY = (
    "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds",
)  # fmt: skip
CONDITION, TOLD = ("type", "status", "reason", "message"), ("PodScheduled", "DisruptionTarget")
CONTAINERS, STATUSES = ("containers", "initContainers"), ("containerStatuses", "initContainerStatuses")
ASKED = ("name", "resources", "restartPolicy")


DEEPEST = 100
"""Levels of an object that are kept: more than any pod has, and fewer than what copies it can take."""


def _shared(found: Any, levels: int = DEEPEST) -> Any:
    """The same with one string for all that are equal, here and in other objects: most are in thousands of them."""
    if isinstance(found, str):
        return sys.intern(found) if len(found) < 64 else found
    if not levels:
        return None
    if isinstance(found, dict):
        return {sys.intern(key): _shared(value, levels - 1) for key, value in found.items()}
    return [_shared(one, levels - 1) for one in found] if isinstance(found, list) else found


def _only(of: Object, keys: Sequence[str]) -> dict[str, Any]:
    return {key: of[key] for key in keys if key in of}


def _marks(found: Object) -> dict[str, Any]:
    """Ours, and those that ask for part of a GPU (collectors.kubernetes.resources)."""
    return {key: one for key, one in found.items() if key.startswith((elastic_jobs.GROUP, "gpu-"))}


def _queued(of: Object) -> Object | None:
    return None if pods.is_ours(of) else _slim(of)


def _slim(of: Object) -> Object:
    """Without who wrote what, and kubectl's copy of the whole."""
    metadata = {key: value for key, value in child(of, "metadata").items() if key != "managedFields"}
    if APPLIED in child(metadata, "annotations"):
        metadata["annotations"] = {key: one for key, one in metadata["annotations"].items() if key != APPLIED}
    found: Object = _shared({**of, "metadata": metadata})
    return found


APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def _node(of: Object) -> Object:
    """What is asked of one; the rest is large."""
    ready = [one for one in items(child(of, "status"), "conditions") if one.get("type") == "Ready"]
    return {
        "metadata": _named(of) | {"labels": dict(child(of, "metadata", "labels"))},
        "spec": {"unschedulable": child(of, "spec").get("unschedulable")},
        "status": {
            "conditions": [{"type": "Ready", "status": one.get("status")} for one in ready],
            "allocatable": {key: many for key, many in child(of, "status", "allocatable").items() if "/" in key},
        },
    }


def _space(of: Object) -> Object:
    return {"metadata": _named(of) | {"annotations": dict(child(of, "metadata", "annotations"))}}


def _named(of: Object) -> dict[str, Any]:
    return {"name": name(of), "resourceVersion": text(child(of, "metadata"), "resourceVersion")}


@dataclass
class _Cache:
    """The objects of one resource.   keep: the part of an object to cache; None: not cached.   listed: whether the
    first list is complete; the last was of the version `listed_at`.   reached: that of the last list or change."""

    path: str
    key: Callable[[Object], Any]
    keep: Callable[[Object], Object | None]
    query: dict[str, str] = field(default_factory=dict)
    objects: dict[Any, Object] = field(default_factory=dict)
    listed: bool = False
    listed_at: int = -1
    reached: int = -1
    _pages: dict[Any, Object] = field(default_factory=dict)
    _gone: OrderedDict[Any, int] = field(default_factory=OrderedDict)

    def take(self, item: Item) -> bool:
        """Takes an item of a watch. Returns whether it changed anything."""
        if isinstance(item, Listed):
            if item.first:
                self._pages = {}
            self._pages |= {self.key(one): cached for one in item.objects if (cached := self.keep(one)) is not None}
            if item.last:
                version = _number(item.version)
                if 0 <= version < self.reached:  # etcd was restored: what came later has never been
                    log.warning(
                        "kubernetes: %s: version %d after %d: all is as listed", self.path, version, self.reached
                    )
                    self.objects, self._gone = {}, OrderedDict()
                later = {key: one for key, one in self.objects.items() if _version(one) > version >= 0}
                self.objects, self._pages, self.listed, self.listed_at = self._pages | later, {}, True, version
                self.reached = version
            return item.last
        if isinstance(item, Changed):
            self.reached = max(self.reached, _number(item.version))
            return self.drop(item.object) if item.deleted else self.put(item.object)
        if isinstance(item, Current):
            self.reached = max(self.reached, _number(item.version))
        return False

    def put(self, found: Object) -> bool:
        """Stores an object unless a later version is known, or it was gone by then. Returns whether it changed
        anything."""
        key, cached = self.key(found), self.keep(found)
        before = self.objects.get(key)
        version = _version(found)
        known = self.listed_at if before is None else _version(before)
        if 0 <= version <= max(known, self._gone.get(key, -1)):
            return False
        if cached is None:  # it may have been one of ours until now
            return self.objects.pop(key, None) is not None
        self.objects[key] = cached
        return before is None or _content(before) != _content(cached)

    def drop(self, found: Object) -> bool:
        key = self.key(found)
        self._gone[key] = _version(found)
        while len(self._gone) > MOST_GONE:
            self._gone.popitem(last=False)
        if key in self.objects and not 0 <= _version(found) < _version(self.objects[key]):
            del self.objects[key]
            return True
        return False


def _version(of: Object) -> int:
    return _number(text(child(of, "metadata"), "resourceVersion"))


def _number(version: str) -> int:
    """A resourceVersion as a number; -1 if it is none."""
    return int(version) if version.isascii() and version.isdigit() else -1


def _content(of: Object) -> Object:
    metadata = {key: value for key, value in child(of, "metadata").items() if key != "resourceVersion"}
    return {**of, "metadata": metadata}


class ApiCluster:
    """To be used in a `with`.   declared: whether pools, queues and tenants are looked at too.   may_act: seconds for
    which anything may be changed; calls last no longer.   gated: whether pods at the gate are looked at."""

    def __init__(
        self,
        connection: Connection,
        backoff: Backoff = Backoff(),  # noqa: B008 - it is frozen
        declared: bool = False,
        may_act: Callable[[], float] = lambda: math.inf,
        gated: bool = False,
    ) -> None:
        self._may_act = may_act
        self._connection, self._backoff = connection, backoff
        self._lock = threading.Lock()
        self._number, self._failures, self._not_before = 0, 0, 0.0
        self._pods = _Cache("/api/v1/pods", lambda one: (namespace(one), name(one)), _pod, {"labelSelector": pods.JOB})
        self._jobs = _Cache(elastic_jobs.PATH, uid, _slim)
        self._nodes = _Cache("/api/v1/nodes", name, _node)
        self._spaces = _Cache("/api/v1/namespaces", name, _space)
        kinds: tuple[Kind, ...] = ("ComputePool", "Queue", "Tenant") if declared else ()
        self._declared = {kind: _Cache(PATHS[kind], name, _slim) for kind in kinds}
        self._gated = _Cache("/api/v1/pods", uid, _queued, {"labelSelector": pods.QUEUE}) if gated else None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="kubernetes", daemon=True)

    def __enter__(self) -> ApiCluster:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(10)

    def look(self) -> Seen | None:
        with self._lock:
            caches = self._caches()
            if not all(one.listed for one in caches):
                return None
            found = [dict(one.objects) for one in caches]
            seen = Seen(found[0], found[1], found[2], found[3], self._number)
            pools, queues, tenants = found[4:7] if self._declared else ({}, {}, {})
            gated = {} if self._gated is None else found[-1]
            return replace(seen, pools=pools, queues=queues, tenants=tenants, gated=gated)

    def carry_out(self, calls: Sequence[Call]) -> list[Outcome]:
        if not calls:
            return []
        return asyncio.run_coroutine_threadsafe(self._all(calls), self._loop).result()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._api = Api(self._connection)
        self._tasks = [self._loop.create_task(self._follow(one)) for one in self._caches()]
        self._loop.run_forever()
        self._loop.run_until_complete(self._closed())
        self._loop.close()

    def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._loop.stop()

    async def _closed(self) -> None:
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._api.close()

    def _caches(self) -> Sequence[_Cache]:
        gated = () if self._gated is None else (self._gated,)
        return self._pods, self._jobs, self._nodes, self._spaces, *self._declared.values(), *gated

    async def _follow(self, cache: _Cache) -> None:
        while True:
            follow = Follow(self._api, (cache.path,), query=cache.query, required=True, backoff=self._backoff)
            try:
                async for item in follow.items():
                    if isinstance(item, Trouble) and item.failures in (1, 5, 20):
                        log.warning("kubernetes: %s; trying again", item.what)
                    with self._lock:
                        self._number += cache.take(item)
            except KubernetesError as error:
                log.error("%s", error)
                await asyncio.sleep(AGAIN_SECONDS)
            except Exception:
                # Else nobody would follow them any more, and nobody would say so.
                log.exception("kubernetes: %s is listed again", cache.path)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _all(self, calls: Sequence[Call]) -> list[Outcome]:
        turns = asyncio.Semaphore(AT_ONCE)
        return list(await asyncio.gather(*(self._one(call, turns) for call in calls)))

    async def _one(self, call: Call, turns: asyncio.Semaphore) -> Outcome:
        async with turns:
            left = self._not_before - time.monotonic()
            if left > 0:
                return Interrupted(f"the server is left alone for another {left:.0f} s", left)
            seconds = min(CALL_SECONDS, self._may_act())
            if seconds <= 0:
                return Interrupted("another operator may act by now")
            try:
                async with asyncio.timeout(seconds):
                    found = await self._api.send(call.method, call.path, call.body, call.content)
            except TimeoutError:
                return self._failed(Interrupted(f"{call.path}: had not answered after {seconds:.0f} s"))
            except Interrupted as error:
                # An eviction that a budget does not allow now (429) says nothing of other calls.
                return error if call.path.endswith("/eviction") else self._failed(error)
            except (Absent, Conflict, KubernetesError) as error:
                self._failures = 0
                return error
            self._failures = 0
            with self._lock:
                self._number += self._learn(call, found)
            return DONE  # what was answered is in the cache, as far as it is asked for

    def _failed(self, error: Interrupted) -> Interrupted:
        """Delays all calls after an error: as long as the server asks, else longer each time."""
        self._failures += 1
        self._not_before = time.monotonic() + max(error.retry_after, self._backoff.after(self._failures))
        return error

    def _learn(self, call: Call, found: Object) -> bool:
        """What an answer says of what there is. A deletion is over only when the watch says so."""
        by_kind: dict[str, _Cache] = {"Pod": self._pods, elastic_jobs.KIND: self._jobs}
        by_kind |= dict(self._declared.items())
        kept = by_kind.get(text(found, "kind"))
        is_new = self._gated is not None and kept is self._pods and self._gated.put(found)
        return (kept is not None and kept.put(found)) or is_new
