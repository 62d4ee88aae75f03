"""The known state of a cluster, and the rows that each change adds. Does no I/O; `now` is passed in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeGuard, get_args

from collectors.kubernetes import nodes
from collectors.kubernetes.claims import Claims, SliceDevice
from collectors.kubernetes.follow import BLINK, Changed, Current, Item, Listed, Trouble, Unserved
from collectors.kubernetes.kueue import Evictions
from collectors.kubernetes.objects import Object, child, items, name, namespace, text, uid, written
from collectors.kubernetes.pods import (
    Around,
    DeviceFacts,
    Heard,
    Known,
    Observed,
    known_shares,
    observe,
    share_rows,
    vanished,
)
from collectors.kubernetes.queues import Queues, QueueStream
from collectors.kubernetes.resources import NodeFacts, node_facts, requests
from collectors.kubernetes.settings import Settings
from collectors.kubernetes.sharing import shares
from collectors.kubernetes.state import Kind
from collectors.readings import Collected, Row

Stream = Literal["pods", "nodes", "claims", "slices"] | QueueStream
Inventory = Mapping[str, Sequence[Row]]
"""Node -> the latest row of each device that others (its agent) reported."""

TROUBLE_TO_TELL = 5
"""Failures in a row after which the API counts as unreachable."""
MOST_GONE = 1000
"""Deleted nodes that are remembered, in case they come back."""
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def relevant(pod: Object, settings: Settings) -> bool:
    """Whether a pod may hold accelerators. Its spec decides, which never changes in this respect."""
    return bool(requests(pod, settings.resources) or items(child(pod, "spec"), "resourceClaims"))


class Cluster:
    """The pods with accelerators, the nodes, claims, slices, Kueue's evictions, and schedulers' queues.

    apply: what one item of a stream adds. changes: what to save since it was last asked.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._inventory: Inventory = {}
        self._facts_of_devices: dict[str, DeviceFacts] = {}
        self._registered: dict[str, list[SliceDevice]] = {}
        self.version = ""
        self.seen_at: datetime | None = None
        self._pods: dict[str, Known] = {}
        self._waiting: dict[str, Object] = {}
        self._nodes: dict[str, Object] = {}
        self._facts: dict[str, NodeFacts] = {}
        self._reported: dict[str, nodes.ReportedNode] = {}
        self._last_ends: dict[str, datetime] = {}
        self._holding: dict[str, set[str]] = {}
        self._where: dict[str, str] = {}
        self._holders: dict[str, list[str]] = {}
        self._claims_of: dict[str, set[str]] = {}
        self._claims = Claims(settings.share_by)
        self._evictions = Evictions()
        self._pending: dict[str, dict[str, datetime]] = {}
        self._queues = Queues(settings, self._pending)
        self._listed: dict[Stream, set[Any]] = {}
        self._complained: set[tuple[Stream, str]] = set()
        self._dirty: set[tuple[Kind, str]] = set()
        self._around = Around(
            node=lambda node: self._facts.get(node, NodeFacts()),
            claims=self._claims.of,
            eviction=self._evictions.of,
            device=self._device,
            queue=self._queues.queue_of,
        )

    def __len__(self) -> int:
        """Pods that are followed."""
        return len(self._pods)

    def take_stock(self, inventory: Inventory) -> None:
        """The device rows that others reported."""
        self._inventory = inventory
        self._facts_of_devices = {
            str(row["device_id"]): DeviceFacts(int(row.get("units") or 1), row.get("memory_bytes"))
            for rows in inventory.values()
            for row in rows
        }

    def restore(
        self,
        version: str,
        seen_at: datetime | None,
        pods: Mapping[str, Any],
        waiting: Mapping[str, Any],
        reported: Mapping[str, Any],
        waits: Mapping[str, Any] | None = None,
    ) -> None:
        """Goes on from what was saved."""
        self.version, self.seen_at = version, seen_at
        self._pods = {key: Known.of(plain) for key, plain in pods.items()}
        self._waiting = dict(waiting)
        self._reported = {key: nodes.ReportedNode.of(plain) for key, plain in reported.items()}
        for key, known in sorted(self._pods.items(), key=lambda each: (each[1].earliest, each[0])):
            self._occupy(key, known)
            self._queue(key, None, known)
        self._queues.restore(waits or {})

    def changes(self) -> Iterator[tuple[Kind, str, Mapping[str, Any] | None]]:
        """What changed since the last time: kind, key and what to remember, None for nothing."""
        self._dirty.update(("wait", key) for key in self._queues.dirty)
        self._queues.dirty.clear()
        dirty, self._dirty = self._dirty, set()
        for kind, key in sorted(dirty):
            if kind == "pod":
                yield kind, key, known.plain() if (known := self._pods.get(key)) else None
            elif kind == "node":
                yield kind, key, reported.plain() if (reported := self._reported.get(key)) else None
            elif kind == "wait":
                yield kind, key, self._queues.remembered(key)
            else:
                yield kind, key, self._waiting.get(key)

    def apply(self, stream: Stream, item: Item, now: datetime) -> Collected:
        """The rows that this adds."""
        if isinstance(item, Unserved):
            return self._unserved(stream, item, now)
        if isinstance(item, Trouble):
            return self._trouble(stream, item, now)
        self._complained -= {(stream, "no_permission"), (stream, "source_unreachable")}
        if stream == "pods":
            return self._apply_pods(item, now)
        if stream == "nodes":
            return self._apply_nodes(item, now)
        collected = Collected()
        if stream in ("claims", "slices", "workloads"):
            collected += self._apply_others(stream, item, now)
        if _of_queues(stream):
            collected += self._apply_queues(stream, item, now)
        return collected

    # pods

    def _apply_pods(self, item: Listed | Changed | Current, now: datetime) -> Collected:
        collected = Collected()
        since = self.seen_at or now
        if isinstance(item, Changed):
            # What a watch catches up with came to pass at some time since it was last connected.
            late = item.late and now - since > BLINK
            self._pod(item.object, Heard(now, since if late else None, item.deleted), collected, now)
        elif isinstance(item, Listed):
            seen = self._seen("pods", item, (uid(pod) for pod in item.objects))
            for pod in item.objects:
                self._pod(pod, Heard(now, self.seen_at or LONG_AGO, listed=True), collected, now)
            if not item.last:
                return collected
            self._missed(seen, now, collected)
        if not self._queues.ready:
            collected += self._queues.start(now)
        if item.version:
            self.version = item.version
        if not (isinstance(item, Changed) and item.late):
            self.seen_at = now
        return collected

    def _pod(self, pod: Object, heard: Heard, collected: Collected, now: datetime) -> None:
        key = uid(pod)
        before = self._pods.get(key)
        if before is None and not relevant(pod, self.settings):
            return
        observed = observe(before, pod, self._around, self.settings, heard)
        waits = observed.known is not None and observed.known.waiting
        if waits or key in self._waiting:
            self._dirty.add(("waiting", key))
            self._waiting.pop(key, None)
            if waits:
                self._waiting[key] = _slim(pod)
        self._remember(key, observed, collected, now)

    def _missed(self, seen: set[Any], now: datetime, collected: Collected) -> None:
        """What ended, or came and went, between two watches."""
        missing = sorted(self._pods.keys() - seen)
        since = self.seen_at or now
        lost = 0
        for key in missing:
            observed = vanished(self._pods[key], since, now)
            lost += bool(observed.rows)
            if key in self._waiting:
                del self._waiting[key]
                self._dirty.add(("waiting", key))
            self._remember(key, observed, collected, now)
        if lost or (self.version and now - since > BLINK):
            message = (
                f"the watch was interrupted from {written(since)} to {written(now)}: {lost} pods ended unseen; "
                "what was both bound and gone in between is not known"
            )
            collected.add("findings", self._finding(now, "source_unreachable", "warning", message))

    def _remember(self, key: str, observed: Observed, collected: Collected, now: datetime) -> None:
        before, known = self._pods.get(key), observed.known
        held, holds = before is not None and before.holds, known is not None and known.holds
        rows = list(observed.rows)
        if known != before:
            self._dirty.add(("pod", key))
            if known is None:
                self._pods.pop(key, None)
            else:
                self._pods[key] = known
            self._occupy(key, known)
            collected += self._queues.pods_changed(self._queue(key, before, known), now)
        if known is not None and holds and not held and self._shares_claims(known):
            mine = [row for row in rows if row["event"] == "started" and row["allocation_id"] == known.allocations[-1]]
            rows = [row for row in rows if row not in mine]
            self._pods[key] = known_shares(known, {})
            rows += self._split(known, mine[0]["ts"])
        if observed.dropped:
            collected.dropped[observed.dropped] += 1
        if before is not None and held and not holds:
            ends = [row["ts"] for row in rows if row["event"] != "started"]
            if ends:
                self._last_ends[before.node] = max(ends)
                rows += self._split(before, max(ends))
        for row in rows:
            collected.add("events", row)
        if before is not None and held and not holds and not self._holding.get(before.node):
            self._node(before.node, collected, now)

    def _shares_claims(self, known: Known) -> bool:
        """Another pod holds one of its claims, too."""
        return any(len(self._holders[each.claim]) > 1 for each in known.held)

    def _split(self, known: Known, ts: datetime) -> list[Row]:
        """What the holders of a pod's claims hold from then on, of those for whom that changes."""
        rows: list[Row] = []
        for key in sorted({key for each in known.held for key in self._holders.get(each.claim, ())}):
            holder = self._pods[key]
            now = shares(holder.held, key, self._holders)
            if tuple(now.items()) != holder.shares:
                rows += share_rows(holder, now, ts)
                self._pods[key] = known_shares(holder, now)
                self._dirty.add(("pod", key))
        return rows

    def _occupy(self, key: str, known: Known | None) -> None:
        """Keeps which pods hold devices of which node, and by which claims."""
        claims = {each.claim for each in known.held} if known is not None and known.holds else set()
        for claim in self._claims_of.pop(key, set()) - claims:
            self._holders[claim].remove(key)
            if not self._holders[claim]:
                del self._holders[claim]
        if claims:
            self._claims_of[key] = claims
        for claim in claims:
            if key not in (uids := self._holders.setdefault(claim, [])):
                uids.append(key)
        node = known.node if known is not None and known.holds else ""
        before = self._where.get(key, "")
        if node == before:
            return
        if before:
            self._holding[before].discard(key)
            if not self._holding[before]:
                del self._holding[before]
            del self._where[key]
        if node:
            self._holding.setdefault(node, set()).add(key)
            self._where[key] = node

    def _queue(self, key: str, before: Known | None, known: Known | None) -> tuple[str, ...]:
        """Keeps which pods wait, by their links; answers those of one that began to."""
        was = before.links if before is not None and before.queued else ()
        links = known.links if known is not None and known.queued else ()
        if was == links:
            return ()
        for link in was:
            if (pods := self._pending.get(link)) is not None:
                pods.pop(key, None)
                if not pods:
                    del self._pending[link]
        for link in links:
            assert known is not None
            self._pending.setdefault(link, {})[key] = datetime.fromisoformat(known.earliest)
        return links

    # nodes

    def _apply_nodes(self, item: Listed | Changed | Current, now: datetime) -> Collected:
        collected = Collected()
        if isinstance(item, Current):
            for known in sorted(self._nodes):
                self._node(known, collected, now)
        elif isinstance(item, Changed):
            self._put_node(item.object, item.deleted)
            self._node(name(item.object), collected, now)
        else:
            seen = self._seen("nodes", item, (name(node) for node in item.objects))
            for node in item.objects:
                self._put_node(node, deleted=False)
                self._node(name(node), collected, now)
            if item.last:
                reported = {node for node, reported in self._reported.items() if not reported.removed}
                for missing in sorted((self._nodes.keys() | reported) - seen):
                    self._put_node({"metadata": {"name": missing}}, deleted=True)
                    self._node(missing, collected, now)
        return collected

    def _put_node(self, node: Object, deleted: bool) -> None:
        key = name(node)
        for forgotten in (self._nodes, self._facts, self._registered):
            forgotten.pop(key, None)
        if not deleted:
            self._nodes[key] = _slim_node(node)
            self._facts[key] = node_facts(node)
            if devices := nodes.registered(node):
                self._registered[key] = devices

    def _node(self, node: str, collected: Collected, now: datetime) -> None:
        """The device rows of a node as it now stands."""
        object_, reported = self._nodes.get(node), self._reported.get(node, nodes.ReportedNode())
        published = self._claims.inventory_of(node) + self._registered.get(node, [])
        known = self._inventory.get(node, ())
        if reported.removed and object_ is not None:
            reported = replace(reported, removed=self._nowhere_else(reported.removed, node))
        if not (known or published or reported.devices or (object_ is not None and nodes.accelerators(object_))):
            return
        added = nodes.node_rows(
            object_,
            known,
            published,
            reported,
            self._last_ends.get(node),
            bool(self._holding.get(node)),
            now,
            self.settings,
        )
        for row in added.devices:
            collected.add("devices", row)
        for row in added.findings:
            collected.add("findings", row)
        if added.reported != reported:
            self._dirty.add(("node", node))
            self._reported[node] = added.reported
        if object_ is None:
            self._dirty.add(("node", node))
            self._last_ends.pop(node, None)
            if not added.reported.removed:
                self._reported.pop(node, None)
            self._forget_gone()

    def _nowhere_else(self, rows: Iterable[Row], node: str) -> tuple[Row, ...]:
        """Those of devices that were not reported on another node since."""
        elsewhere = {row["device_id"] for other, some in self._inventory.items() if other != node for row in some}
        return tuple(row for row in rows if row["device_id"] not in elsewhere)

    def _forget_gone(self) -> None:
        """Nodes that are gone for good have names of their own where machines are hired by the hour."""
        gone = [node for node, reported in self._reported.items() if reported.removed and node not in self._nodes]
        for node in gone[: max(0, len(gone) - MOST_GONE)]:
            self._dirty.add(("node", node))
            del self._reported[node]

    def _device(self, device_id: str) -> DeviceFacts | None:
        """What the agent's rows, or else the API, say of a device."""
        if (known := self._facts_of_devices.get(device_id)) is not None:
            return known
        for devices in self._registered.values():
            for device in devices:
                if device.device_id == device_id:
                    return DeviceFacts(device.units, device.memory_bytes)
        return None

    # claims, slices and workloads

    def _apply_others(self, stream: Stream, item: Listed | Changed | Current, now: datetime) -> Collected:
        collected = Collected()
        if isinstance(item, Current):
            return collected
        if isinstance(item, Changed):
            self._put(stream, item.object) if not item.deleted else self._drop(stream, _key(stream, item.object))
        else:
            seen = self._seen(stream, item, (_key(stream, each) for each in item.objects))
            for each in item.objects:
                self._put(stream, each)
            if item.last:
                for key in self._keys(stream) - seen:
                    self._drop(stream, key)
        if stream != "workloads":
            for pod in list(self._waiting.values()):
                self._pod(pod, Heard(now), collected, now)
        if stream == "slices":
            affected = {text(child(each, "spec"), "nodeName") for each in _objects(item)} - {""}
            for node in sorted(affected & self._nodes.keys()):
                self._node(node, collected, now)
        return collected

    def _put(self, stream: Stream, object_: Object) -> None:
        if stream == "claims":
            self._claims.put_claim(object_)
        elif stream == "slices":
            self._claims.put_slice(object_)
        else:
            self._evictions.put(object_)

    def _drop(self, stream: Stream, key: Any) -> None:
        if stream == "claims":
            self._claims.drop_claim(key)
        elif stream == "slices":
            self._claims.drop_slice(key)
        else:
            self._evictions.drop(key)

    def _keys(self, stream: Stream) -> set[Any]:
        if stream == "claims":
            return set(self._claims.claims)
        return set(self._claims.slices) if stream == "slices" else set()

    # queues of other schedulers

    def _apply_queues(self, stream: QueueStream, item: Listed | Changed | Current, now: datetime) -> Collected:
        if stream not in self._queues.streams:
            return Collected()
        if isinstance(item, Current):
            return self._queues.current(stream, now)
        if isinstance(item, Changed):
            return (self._queues.drop if item.deleted else self._queues.put)(stream, item.object, now)
        collected = Collected()
        seen = self._seen(stream, item, (self._queues.key(stream, each) for each in item.objects))
        for each in item.objects:
            collected += self._queues.put(stream, each, now)
        if item.last:
            collected += self._queues.listed(stream, seen, self.seen_at or now)
        return collected

    # all

    def _seen(self, stream: Stream, item: Listed, keys: Iterable[Any]) -> set[Any]:
        """The keys of the list so far, of which this page is the next; the set is complete with the last."""
        if item.first:
            self._listed[stream] = set()
        seen = self._listed.setdefault(stream, set())
        seen.update(keys)
        return self._listed.pop(stream) if item.last else seen

    def _unserved(self, stream: Stream, item: Unserved, now: datetime) -> Collected:
        """A cluster without Kueue or dynamic allocation needs no finding; a missing permission does."""
        collected = Collected()
        if item.forbidden:
            self._complain(collected, stream, "no_permission", f"{stream}: {item.what}", now)
        elif _of_queues(stream):
            collected += self._queues.listed(stream, set(), self.seen_at or now)
        return collected

    def _trouble(self, stream: Stream, item: Trouble, now: datetime) -> Collected:
        collected = Collected()
        if item.failures >= TROUBLE_TO_TELL:
            self._complain(collected, stream, "source_unreachable", item.what, now)
        return collected

    def _complain(self, collected: Collected, stream: Stream, finding: str, message: str, now: datetime) -> None:
        """Once, until the stream goes on."""
        if (stream, finding) not in self._complained:
            self._complained.add((stream, finding))
            collected.add("findings", self._finding(now, finding, "warning", message))

    def _finding(self, now: datetime, finding: str, severity: str, message: str) -> Row:
        return {
            "ts": now,
            "cluster": self.settings.cluster,
            "finding": finding,
            "severity": severity,
            "message": message,
            "source": self.settings.source,
        }


def _of_queues(stream: Stream) -> TypeGuard[QueueStream]:
    return stream in get_args(QueueStream)


def _key(stream: Stream, object_: Object) -> Any:
    return name(object_) if stream == "slices" else (namespace(object_), name(object_))


def _objects(item: Listed | Changed) -> Sequence[Object]:
    return item.objects if isinstance(item, Listed) else [item.object]


def _slim(pod: Object) -> Object:
    """The object without managedFields bookkeeping that is not used, which is often half of it."""
    metadata = {key: value for key, value in child(pod, "metadata").items() if key != "managedFields"}
    return {**pod, "metadata": metadata}


def _slim_node(node: Object) -> Object:
    """The fields of a node that are used: no images, addresses or volumes."""
    metadata, status = child(node, "metadata"), child(node, "status")
    return {
        "metadata": {
            key: metadata[key] for key in ("name", "labels", "annotations", "creationTimestamp") if key in metadata
        },
        "spec": {key: value for key, value in child(node, "spec").items() if key in ("taints", "unschedulable")},
        "status": {key: status[key] for key in ("capacity", "allocatable", "conditions") if key in status}
        | {"nodeInfo": {"systemUUID": nodes.machine(node)}},
    }
