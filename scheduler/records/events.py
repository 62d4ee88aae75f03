"""A job's lifecycle as rows of the events contract (docs/contracts.md), which billing reads.

Each attempt of a job is an allocation of its own: `job`, then `job/2` after a preemption; the workload is the job.
What the contract has no column for is a JSON object in `message`, always in this order, absent where it does not apply:

sequence           of the log; it never falls, and orders what has the same time. Rows of one event share it
state              of a service's replica: cold from its start, warm once it reports that it is ready
decision           id of the decision behind the event; `gpuledger scheduler explain` shows it
entitlement        guaranteed, borrowed or reserved: by what the tenant held it from then on
quota_released_at  when the tenant's quota was free again: at the decision
resources_freed_at when the devices were: when nothing of the job ran any more. This is the event's own time
time_limit_at      of what an idle policy took back: when the attempt's time limit would have stopped it
expected_interval  of a job that waits: the two instants between which it is expected to start
pool               of a job that waits: the only one that it may run in
models             of a job that waits: the models that it may run on; absent: any
text               for people; of a job that waits its reason, which names no job of others
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from json.encoder import encode_basestring
from typing import Any, Literal

from collectors.readings import Row
from scheduler.model import Device, Ending, EntitlementClass, Grant, Job, Node, NodeState
from warehouse.instants import rfc3339

SOURCE = "gpuledger-scheduler"
READY = "Ready"
"""Why a service's replica is reported again: nothing of what it holds has changed, but it serves now."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Why an event happened. reason: a code (docs/scheduler.md).   actor: who did it: a person, a program, a job."""

    reason: str = ""
    text: str = ""
    actor: str = ""
    decision_id: str = ""


NO_CAUSE = Cause()


class Writer:
    """Makes rows for one cluster. Times are seconds since the epoch, kept to the millisecond."""

    def __init__(self, cluster: str, nodes: Sequence[Node], source: str = SOURCE) -> None:
        self.cluster, self.nodes, self.source = cluster, nodes, source
        self._whole: dict[str, set[int]] = {}
        for node in nodes:
            for device in node.devices:
                self._whole.setdefault(device.model, set()).add(device.units)
        self._wholes = set().union(*self._whole.values())

    def submitted(self, job: Job, now: float, sequence: int, attempt: int = 1, cause: Cause = NO_CAUSE) -> list[Row]:
        """Rows for an attempt that waits from now on."""
        return [self._row("submitted", job, self._asked(job), now, attempt, cause, self._waiting(job, sequence))]

    def waits(
        self,
        job: Job,
        now: float,
        sequence: int,
        attempt: int,
        cause: Cause,
        expected_interval: Sequence[str] = (),
    ) -> list[Row]:
        """Why the attempt still waits: reported as submitted again, as the contract has it."""
        facts = self._waiting(job, sequence)
        if expected_interval:
            facts["expected_interval"] = list(expected_interval)
        return [self._row("submitted", job, self._asked(job), now, attempt, cause, facts)]

    def started(
        self,
        job: Job,
        grants: Sequence[Grant],
        entitlement: EntitlementClass,
        now: float,
        sequence: int,
        attempt: int = 1,
        cause: Cause = NO_CAUSE,
    ) -> list[Row]:
        """A row for each device (or partition of one) that the attempt holds from now on."""
        return self._placed("started", job, grants, entitlement, now, sequence, attempt, cause)

    def resized(
        self,
        job: Job,
        grants: Sequence[Grant],
        entitlement: EntitlementClass,
        now: float,
        sequence: int,
        attempt: int = 1,
        cause: Cause = NO_CAUSE,
        time_limit_at: float | None = None,
    ) -> list[Row]:
        """The full new set, as the contract wants it. A job that has given away replicas is resized, not preempted."""
        return self._placed("resized", job, grants, entitlement, now, sequence, attempt, cause, time_limit_at)

    def ended(
        self,
        ending: Ending,
        job: Job,
        freed_at: float,
        sequence: int,
        attempt: int = 1,
        cause: Cause = NO_CAUSE,
        quota_released_at: float | None = None,
        time_limit_at: float | None = None,
    ) -> list[Row]:
        """The attempt's end, at the time at which its devices were free.

        quota_released_at: when its tenant could use the quota again; None: it held none.
        time_limit_at: of an attempt that an idle policy ends; None: it had no limit.
        """
        facts: dict[str, Any] = {"sequence": sequence}
        if quota_released_at is not None:
            facts["quota_released_at"] = written(quota_released_at)
            facts["resources_freed_at"] = written(freed_at)
        if time_limit_at is not None:
            facts["time_limit_at"] = written(time_limit_at)
        return [self._row(ending, job, self._asked(job), freed_at, attempt, cause, facts)]

    def ends_soon(self, job: Job, now: float, ends_at: float, sequence: int, attempt: int, cause: Cause) -> list[Row]:
        """Not of the contract: for callbacks."""
        cause = replace(cause, text=f"ends at {written(ends_at)}, unless it is renewed or ends before")
        return [self._row("ends_soon", job, self._asked(job), now, attempt, cause, {"sequence": sequence})]

    def idle(self, job: Job, now: float, sequence: int, attempt: int, cause: Cause) -> list[Row]:
        """Not of the contract: for callbacks."""
        return [self._row("idle", job, self._asked(job), now, attempt, cause, {"sequence": sequence})]

    def devices(self, numbers: Iterable[int], state: NodeState | Literal["removed"], now: float) -> list[Row]:
        """Rows of the devices contract: these nodes' devices are in that state from now on."""
        there = (
            "available" if state in ("available", "reserved") else "removed" if state == "removed" else "unavailable"
        )
        return [
            {
                "ts": instant(now),
                "cluster": self.cluster,
                "node": self.nodes[number].name,
                "device_id": device.device_id,
                "model": device.model,
                "memory_bytes": device.memory_bytes or None,
                "units": device.units,
                "pool": self.nodes[number].pool,
                "state": there,
            }
            for number in numbers
            for device in self.nodes[number].devices
        ]

    def _placed(
        self,
        event: str,
        job: Job,
        grants: Sequence[Grant],
        entitlement: EntitlementClass,
        now: float,
        sequence: int,
        attempt: int,
        cause: Cause,
        time_limit_at: float | None = None,
    ) -> list[Row]:
        facts: dict[str, Any] = {"sequence": sequence, "entitlement": entitlement}
        if time_limit_at is not None:
            facts["time_limit_at"] = written(time_limit_at)
        if job.service:
            facts["state"] = "warm" if cause.reason == READY else "cold"
        row = self._row(event, job, gpus_held(self.nodes, grants), now, attempt, cause, facts)
        held = shares(self.nodes, grants)
        if not held:  # a job without GPUs
            return [row]
        return [
            {
                **row,
                "node": share.node,
                "device_id": share.device.device_id,
                "partition_id": share.partition_id,
                "partition_profile": share.profile,
                "units": share.units,
            }
            for share in held
        ]

    def _row(
        self, event: str, job: Job, gpus: float | None, now: float, attempt: int, cause: Cause, facts: dict[str, Any]
    ) -> Row:
        if cause.decision_id:
            facts["decision"] = cause.decision_id
        if cause.text:
            facts["text"] = cause.text
        return {
            "ts": instant(now),
            "cluster": self.cluster,
            "source": self.source,
            "allocation_id": allocation_id(job.job_id, attempt),
            "workload_id": job.job_id,
            "event": event,
            "tenant": job.tenant,
            "project": job.project,
            "queue": job.queue,
            "priority": job.priority,
            "gpus": gpus,
            "preemptible": job.preemptible,
            "reason": cause.reason,
            "message": message(facts),
            "actor": cause.actor,
        }

    def _waiting(self, job: Job, sequence: int) -> dict[str, Any]:
        """With where it may run, so that a page can say who has what it waits for."""
        facts: dict[str, Any] = {"sequence": sequence}
        if job.request.pool:
            facts["pool"] = job.request.pool
        if job.request.models:
            facts["models"] = sorted(job.request.models)
        return facts

    def _asked(self, job: Job) -> float | None:
        """GPUs of the smallest gang; None where the share is in units whose whole differs from device to device."""
        request = job.request
        if request.units == 0 and not request.profile and not request.memory_bytes:
            return float(request.devices * job.min_replicas)
        wholes = self._wholes
        if request.models:
            wholes = set().union(*(self._whole.get(model, ()) for model in request.models))
        if request.units == 0 or len(wholes) != 1:
            return None
        return request.devices * job.min_replicas * request.units / min(wholes)


@dataclass(frozen=True, slots=True)
class Share:
    """What a job holds of one device: units, and the partition where it holds one."""

    node: str
    device: Device
    units: int
    profile: str = ""
    partition_id: str = ""


def shares(nodes: Sequence[Node], grants: Sequence[Grant]) -> list[Share]:
    """One for each device or partition; replicas that share a device without partitions are one share of it."""
    found: dict[tuple[int, int, int], Share] = {}
    for grant in grants:
        node = nodes[grant.node]
        for place, (index, units) in enumerate(zip(grant.devices, grant.units, strict=True)):
            start = grant.starts[place] if grant.profile else -1
            key = (grant.node, index, start)
            device = node.devices[index]
            held = found[key].units if key in found else 0
            partition = partition_id(device, grant.profile, start) if grant.profile else ""
            found[key] = Share(node.name, device, held + units, grant.profile, partition)
    return list(found.values())


def partition_id(device: Device, profile: str, start: int) -> str:
    """The id of a MIG instance: the driver's, if the settings have it, else one derived from its place."""
    place = f"{profile}@{start}"
    return dict(device.instances).get(place, f"{device.device_id}/{place}")


def gpus_held(nodes: Sequence[Node], grants: Sequence[Grant]) -> float:
    """GPUs, shares of one as fractions."""
    return sum(
        units / nodes[grant.node].devices[index].units
        for grant in grants
        for index, units in zip(grant.devices, grant.units, strict=True)
    )


def allocation_id(job_id: str, attempt: int) -> str:
    return job_id if attempt == 1 else f"{job_id}/{attempt}"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
ORDER = (
    "sequence", "state", "decision", "entitlement", "quota_released_at", "resources_freed_at", "time_limit_at",
    "expected_interval", "pool", "models", "text",
)  # fmt: skip


def message(facts: Mapping[str, Any]) -> str:
    """The documented form: compact JSON, keys in order."""
    return "{" + ",".join([f'"{key}":{_json(facts[key])}' for key in ORDER if key in facts]) + "}"


def _json(value: Any) -> str:
    """Compact JSON. Most facts are numbers and words, which are written in a fraction of an encoder's time."""
    if type(value) is int:
        return str(value)
    return encode_basestring(value) if type(value) is str else _encode(value)


def instant(seconds: float) -> datetime:
    """Seconds since the epoch as an aware instant, to the nearest millisecond."""
    return datetime.fromtimestamp(round(seconds * 1000) / 1000, UTC)


def written(seconds: float) -> str:
    return rfc3339(instant(seconds))
