"""Pods as event rows: pure functions of what was reported of a pod so far, and of its current object.

    submitted   at the pod's creation; reported again whenever the scheduler finds no place for it, with the
                scheduler's reason (Unschedulable, SchedulingGated) and message
    started     at its binding, by the timestamp of PodScheduled: from then on the scheduler gives its devices to nobody
                else. One row for each device that the API names (ResourceClaims, HAMi and Volcano), else one row with
                the node only
    the end     see `endings`; reported when the phase is final, or the object is gone

Almost all timestamps are the object's own, so every observer of any version reports the same rows. If nothing in the
object gives the end, it is the second in which we notice it; or, if it happened while nobody watched, the last time at
which the pod was known to exist, marked estimated.

A pod has one allocation, named by its UID; one that requests several partitions, replicas or kinds of resource has
UID/2, UID/3 and so on for the others. The workload is the pod: its UID.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any

from collectors.kubernetes.claims import Claimed, SliceDevice
from collectors.kubernetes.endings import Before, ending, rejected, takes_time, terminal
from collectors.kubernetes.kueue import Eviction
from collectors.kubernetes.objects import (
    Object,
    at,
    child,
    condition,
    created,
    deletion_requested,
    items,
    mark,
    name,
    namespace,
    text,
    uid,
    written,
)
from collectors.kubernetes.reclaims import REASONS, place
from collectors.kubernetes.resources import NodeFacts, Part, Request, ShareBy, parts, quantity, requests, share_of
from collectors.kubernetes.settings import LOCAL_QUEUE_MARKS, Settings
from collectors.kubernetes.sharing import Held, Shares, gpus, shares
from collectors.kubernetes.waits import QueueOf, links_of_pod
from collectors.readings import Row

ESTIMATED = "end estimated"
"""In the reason of an end that was not observed."""
ALLOCATED_MARKS = ("hami.io/vgpu-devices-allocated", "volcano.sh/vgpu-ids-new")
"""Annotations in which a sharing scheduler names the devices: UUID,type,MiB,cores: for each, ; between containers."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What the device rows say of a device; None if they do not."""

    units: int
    memory_bytes: int | None = None


def no_claims(_: Object) -> Claimed | None:
    return None


def no_eviction(_: Object) -> Eviction | None:
    return None


def same_queue(_: str, local_queue: str) -> str:
    return local_queue


@dataclass(frozen=True, slots=True)
class Around:
    """What a pod's rows depend on besides the pod itself, as functions that are called only if needed."""

    node: Callable[[str], NodeFacts] = field(default=lambda _: NodeFacts())
    claims: Callable[[Object], Claimed | None] = no_claims
    eviction: Callable[[Object], Eviction | None] = no_eviction
    device: Callable[[str], DeviceFacts | None] = field(default=lambda _: None)
    queue: QueueOf = same_queue


@dataclass(frozen=True, slots=True)
class Known:
    """What was reported of a pod so far, and what to report if it vanished."""

    node: str = ""
    base: dict[str, Any] = field(default_factory=dict)
    allocations: tuple[str, ...] = ()
    reported: tuple[str, ...] = ()
    waiting: bool = False
    earliest: str = ""
    admitted: bool = False
    lingers: bool = False
    held: tuple[Held, ...] = ()
    shares: tuple[tuple[Any, ...], ...] = ()
    links: tuple[str, ...] = ()
    end_event: str = "cancelled"
    end_at: str = ""
    end_reason: str = ""
    end_message: str = ""
    end_actor: str = ""

    @property
    def ended(self) -> bool:
        return "ended" in self.reported

    @property
    def queued(self) -> bool:
        """It waits, and is reported to."""
        return "submitted" in self.reported and "started" not in self.reported and not self.ended

    @property
    def holds(self) -> bool:
        """It holds devices of its node."""
        return "started" in self.reported and not self.ended

    def plain(self) -> dict[str, Any]:
        """As JSON; `Known.of` reads it again."""
        return asdict(self)

    @staticmethod
    def of(plain: Mapping[str, Any]) -> Known:
        known = {each.name: plain[each.name] for each in fields(Known) if each.name in plain}
        known["held"] = tuple(Held(**each) for each in known.get("held", ()))
        reported = plain["reported"] if "reported" in plain else plain["told"]  # as states of November 2026 have it
        known["shares"] = tuple((tuple(place), units) for place, units in known.get("shares", ()))
        known["links"] = tuple(known.get("links", ()))
        return Known(**{**known, "allocations": tuple(plain["allocations"]), "reported": tuple(reported)})


@dataclass(frozen=True, slots=True)
class Heard:
    """How we learned about a version of an object."""

    at: datetime
    since: datetime | None = None
    gone: bool = False
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """rows: to be reported now.   known: to be remembered; None for a pod without accelerators, or that is gone.
    dropped: why something could not be reported."""

    rows: tuple[Row, ...] = ()
    known: Known | None = None
    dropped: str = ""


def observe(known: Known | None, pod: Object, around: Around, settings: Settings, heard: Heard) -> Observed:
    """The rows that this version of the pod's object adds to what was reported."""
    identity, made = uid(pod), created(pod)
    over = heard.gone or terminal(pod)
    asked = requests(pod, settings.resources, settings.share_by)
    claimed = around.claims(pod) if items(child(pod, "spec"), "resourceClaims") else Claimed(0, True)
    if claimed is None and (known is None or not known.allocations):
        if not over:
            return Observed(known=Known(waiting=True))
        if not asked:
            return Observed(dropped="claims_never_seen")
        claimed = Claimed(0, True)
    if not asked and claimed is not None and not claimed.asked:
        return Observed()
    if not identity or made is None:
        return Observed(dropped="pod_without_uid_or_creation")
    known = known or Known()
    placed = _parts(pod, asked, claimed, around, known)
    known = replace(
        known,
        node=text(child(pod, "spec"), "nodeName"),
        base=_base(pod, identity, settings, around.queue),
        links=links_of_pod(pod) if settings.queues_of else (),
        allocations=tuple(identity if index == 0 else f"{identity}/{index + 1}" for index in range(len(placed))),
        waiting=False,
    )
    rows, added = _submitted(known, pod, made, placed, settings)
    lingers = known.lingers or takes_time(pod) or (heard.listed and deletion_requested(pod) is not None)
    before = Before(known.admitted, lingers, heard.since or heard.at)
    started = None if rejected(pod, before) else bound_at(pod)
    if started is not None and "started" not in known.reported:
        if over or (claimed is not None and claimed.allocated):
            rows += _started(known, started, placed)
            added.append("started")
            known = known_shares(replace(known, held=_held(claimed, around)), shares(_held(claimed, around), "", {}))
        else:
            known = replace(known, waiting=True)  # it is bound, so its claims are allocated: that has not been seen yet
    earliest = max(started or made, made)
    if known.earliest:
        earliest = max(earliest, datetime.fromisoformat(known.earliest))
    known = replace(
        known,
        reported=(*known.reported, *added),
        earliest=earliest.isoformat(),
        admitted=known.admitted or (_admitted(pod) and not rejected(pod, before)),
        lingers=lingers,
    )
    if known.ended:
        return Observed(tuple(rows), None if heard.gone else known)
    end = ending(pod, before, around.eviction(pod), gone=True)
    if end is not None:
        when, estimated = _when(end.at, end.earliest, heard)
        known = replace(
            known,
            end_event=end.event,
            end_at="" if end.at is None and not over else when.isoformat(),
            end_reason=f"{end.reason}, {ESTIMATED}".removeprefix(", ") if estimated and over else end.reason,
            end_message=end.message,
            end_actor=end.actor,
        )
    if over:
        rows += _end_rows(known, heard.at, known.end_reason, known.end_message)
        known = replace(known, reported=(*known.reported, "ended"))
    return Observed(tuple(rows), None if heard.gone else known)


def known_shares(known: Known, reported: Shares) -> Known:
    return replace(known, shares=tuple(reported.items()))


def share_rows(known: Known, reported: Shares, ts: datetime) -> list[Row]:
    """Everything that it holds by its claims from now on, because a resized allocation replaces what was there."""
    rows = []
    for (device_id, partition_id, profile), units in sorted(reported.items()):
        row = _row(known, known.allocations[-1], "resized" if known.shares else "started", ts, node=known.node)
        _put(row, gpus=gpus(known.held, reported), device_id=device_id, partition_id=partition_id)
        _put(row, partition_profile=profile, units=units)
        rows.append(row)
    return rows


def _held(claimed: Claimed | None, around: Around) -> tuple[Held, ...]:
    if claimed is None or len(claimed.devices) != claimed.asked:
        return ()
    return tuple(
        Held(claim, device.device_id, device.partition_id, device.partition_profile, *_units(device, around))
        for claim, device in zip(claimed.of, claimed.devices, strict=True)
    )


def _units(device: SliceDevice, around: Around) -> tuple[int | None, int]:
    """(those that are taken, None = all; those of the device)."""
    known = around.device(device.device_id)
    of = known.units if known else device.units
    return None if device.part is None or device.part >= 1 else max(1, int(device.part * of)), of


def _when(stamp: datetime | None, earliest: datetime | None, heard: Heard) -> tuple[datetime, bool]:
    """When it ended, and whether that is an estimate. Stamps are of whole seconds; so is what we hear."""
    if stamp is not None:
        return stamp, False
    when = heard.at.replace(microsecond=0) if heard.since is None else heard.since
    return max(when, earliest or when), heard.since is not None


def vanished(known: Known, last_seen_at: datetime, missed_at: datetime) -> Observed:
    """The rows of a pod that existed at `last_seen_at` and is missing from the list of `missed_at`: nobody saw its
    end."""
    if known.ended or not known.reported:
        return Observed(dropped="" if known.ended else "claims_never_seen")
    if known.end_at:
        return Observed(tuple(_end_rows(known, last_seen_at, known.end_reason, known.end_message)))
    reason = f"{known.end_reason or 'Deleted'}, {ESTIMATED}"
    message = f"not in the list of {written(missed_at)}, last known at {written(last_seen_at)}"
    if known.end_reason in REASONS:
        message = known.end_message
    return Observed(tuple(_end_rows(known, last_seen_at, reason, message)))


def bound_at(pod: Object) -> datetime | None:
    """Since when the scheduler reserves its devices for it; None if it is on no node, or nothing shows it."""
    scheduled = condition(pod, "PodScheduled")
    if not text(child(pod, "spec"), "nodeName"):
        return None
    if scheduled.get("status") == "True" and (since := at(scheduled.get("lastTransitionTime"))) is not None:
        return since
    status = child(pod, "status")
    return at(status.get("startTime")) or (None if terminal(pod) else created(pod))


def _admitted(pod: Object) -> bool:
    """Whether the kubelet has accepted it: then it reports on its containers."""
    status = child(pod, "status")
    return bool(items(status, "containerStatuses") or items(status, "initContainerStatuses"))


def _base(pod: Object, identity: str, settings: Settings, queue_of: QueueOf) -> dict[str, Any]:
    """Columns common to all its rows."""
    where = namespace(pod)
    mirrored = mark(pod, ("kubernetes.io/config.mirror",)) and mark(pod, ("kubernetes.io/config.hash",))
    base: dict[str, Any] = {
        "cluster": settings.cluster,
        "source": settings.source,
        # A static pod's cgroup has the UID that the kubelet gave it, not its mirror's.
        "workload_id": mirrored or identity,
        "tenant": mark(pod, settings.tenant_marks) or where,
        "project": mark(pod, settings.project_marks) or where,
        "queue": _queue(pod, settings, queue_of),
    }
    priority = child(pod, "spec").get("priority")
    if isinstance(priority, int):
        base["priority"] = priority
    preemptible = _preemptible(pod)
    if preemptible is not None:
        base["preemptible"] = preemptible
    return base


def _queue(pod: Object, settings: Settings, queue_of: QueueOf) -> str:
    for key in settings.queue_marks:
        if found := mark(pod, (key,)):
            return queue_of(namespace(pod), found) if key in LOCAL_QUEUE_MARKS else found
    return ""


def _preemptible(pod: Object) -> bool | None:
    """From Volcano's and KAI's labels; Kubernetes itself has no such field."""
    value = mark(pod, ("volcano.sh/preemptable", "kai.scheduler/preemptibility")).lower()
    return {"true": True, "preemptible": True, "false": False, "non-preemptible": False}.get(value)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A part of the pod and its devices, as far as the API names them: (device, partition, profile, units)."""

    part: Part
    asked: float | None
    devices: tuple[tuple[str, str, str, int | None], ...] = ()


def _parts(
    pod: Object, asked: tuple[Request, ...], claimed: Claimed | None, around: Around, known: Known
) -> tuple[_Placed, ...]:
    node = text(child(pod, "spec"), "nodeName")
    facts = around.node(node) if node else NodeFacts()
    divided = _shared_devices(pod, facts, around, asked[0].share_by) if asked else ()
    placed = [
        _Placed(part, before.gpus, divided if index == 0 else ())
        for index, (part, before) in enumerate(zip(parts(asked, facts), parts(asked, NodeFacts()), strict=True))
    ]
    if claimed is None:  # its claims were known, and are gone
        placed += [_Placed(Part(None), None)] * (len(known.allocations) - len(placed))
    elif claimed.asked:
        # Devices without a UUID cannot be named: then the node is reported, and how many.
        held = _held(claimed, around)
        devices = tuple((*place, units) for place, units in sorted(shares(held, "", {}).items()))
        count = float(sum(device.part or 1 for device in claimed.devices)) if held else float(claimed.asked)
        placed.append(_Placed(Part(count), count, devices))
    return tuple(placed)


def _shared_devices(
    pod: Object, facts: NodeFacts, around: Around, share_by: ShareBy
) -> tuple[tuple[str, str, str, int | None], ...]:
    """Devices assigned by a sharing scheduler, with the units that its shares of memory or cores amount to."""
    shares: dict[str, float] = {}
    for entry in mark(pod, ALLOCATED_MARKS).replace(";", ":").split(":"):
        device_id, _, memory, cores, *_ = [*entry.strip().split(","), "", "", "", ""]
        if not device_id.startswith(("GPU-", "MIG-")):
            continue
        known = around.device(device_id)
        total = (known.memory_bytes or 0) / 2**20 if known else 0.0
        total = total or facts.memory_mib or 0.0
        part = quantity(memory) / total if total else 0.0
        shares[device_id] = shares.get(device_id, 0.0) + share_of(part, quantity(cores) / 100, share_by)
    found = []
    for device_id, share in sorted(shares.items()):
        known = around.device(device_id)
        units = max(1, min(known.units, round(share * known.units))) if known and known.units > 1 and share else None
        found.append((device_id, "", "", units))
    return tuple(found)


def _submitted(
    known: Known, pod: Object, made: datetime, placed: tuple[_Placed, ...], settings: Settings
) -> tuple[list[Row], list[str]]:
    """Its creation, and since when the scheduler finds no place for it."""
    rows: list[Row] = []
    added: list[str] = []
    if "submitted" not in known.reported:
        owner = next(iter(items(child(pod, "metadata"), "ownerReferences")), {})
        of = f" of {text(owner, 'kind')}/{text(owner, 'name')}" if owner else ""
        columns = {
            "message": f"pod {namespace(pod)}/{name(pod)}{of}{place(pod)}",
            "actor": mark(pod, settings.user_marks),
        }
        rows += _per_part(known, "submitted", made, placed, columns)
        added.append("submitted")
    unplaced = condition(pod, "PodScheduled")
    since = at(unplaced.get("lastTransitionTime"))
    reason = text(unplaced, "reason")
    if unplaced.get("status") == "False" and since is not None and since > made and reason:
        label = f"unplaced {since.isoformat()}"
        if label not in known.reported:
            columns = {"reason": reason, "message": text(unplaced, "message")}
            rows += _per_part(known, "submitted", since, placed, columns)
            added.append(label)
    return rows, added


def _per_part(
    known: Known, event: str, ts: datetime, placed: tuple[_Placed, ...], columns: Mapping[str, str]
) -> list[Row]:
    rows = []
    for allocation, each in zip(known.allocations, placed, strict=True):
        row = _row(known, allocation, event, ts, **columns)
        _put(row, gpus=each.asked, partition_profile=each.part.profile)
        rows.append(row)
    return rows


def _started(known: Known, ts: datetime, placed: tuple[_Placed, ...]) -> list[Row]:
    rows = []
    for allocation, each in zip(known.allocations, placed, strict=True):
        for device_id, partition_id, profile, units in each.devices or (("", "", each.part.profile, each.part.units),):
            row = _row(known, allocation, "started", ts, node=known.node)
            _put(row, gpus=each.part.gpus, device_id=device_id, partition_id=partition_id)
            _put(row, partition_profile=profile, units=units)
            rows.append(row)
    return rows


def _end_rows(known: Known, otherwise: datetime, reason: str, message: str) -> list[Row]:
    """Its end, of each allocation; never before it began."""
    when = datetime.fromisoformat(known.end_at) if known.end_at else otherwise.astimezone(UTC)
    when = max(when, datetime.fromisoformat(known.earliest))
    return [
        _row(known, allocation, known.end_event, when, reason=reason, message=message, actor=known.end_actor)
        for allocation in known.allocations
    ]


def _row(known: Known, allocation: str, event: str, ts: datetime, **columns: str) -> Row:
    row: Row = {"ts": ts, **known.base, "allocation_id": allocation, "event": event}
    _put(row, **columns)
    return row


def _put(row: Row, **values: Any) -> None:
    """Sets the columns that are not empty."""
    row.update({column: value for column, value in values.items() if value is not None and value != ""})
