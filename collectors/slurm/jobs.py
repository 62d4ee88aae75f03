"""A Slurm job's record -> events.

What Slurm says              what that is here
PENDING and holds            submitted
RUNNING, COMPLETING          started; what is completing has not given its GPUs back, the end follows
SUSPENDED, STOPPED           started: the GPUs stay taken ("those resources do not become available", gres.html)
CONFIGURING                  submitted only: nodes boot, and the start is counted anew when they are up
COMPLETED                    finished
FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, BOOT_FAIL, DEADLINE, LAUNCH_FAILED, RECONFIG_FAIL    failed
CANCELLED [by UID], REVOKED  cancelled, by that actor
PREEMPTED                    preempted; a next record follows if it is put back into the queue
REQUEUED                     cancelled: this run ended, a next record follows
RESIZING                     finished: the record ends where the next one of the same job starts

`reason` keeps Slurm's word. An allocation is named by the job's raw id, which is also the workload's (cgroups name it
so). Events have no node in their key, so a job on several nodes is several allocations of one workload: the first
node's has the job's id, the others ID@NODE; likewise several MIG profiles on one node, ID@NODE/PROFILE.

Accounting knows nodes and totals. Indices come later, from the controller: a `resized` of the same instant, with the
devices, takes the place of a `started` with a node only (docs/ledger.md, Claims).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Literal

from collectors.readings import Row
from collectors.slurm.inventory import Inventory
from collectors.slurm.tres import Gpus, Gres, profile

SOURCE = "slurm"
WAITING = frozenset({"PENDING", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT", "CONFIGURING"})
HOLDING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "SIGNALING", "STAGE_OUT"})
ENDINGS: Mapping[str, str] = {
    "COMPLETED": "finished",
    "FAILED": "failed",
    "TIMEOUT": "failed",
    "NODE_FAIL": "failed",
    "OUT_OF_MEMORY": "failed",
    "BOOT_FAIL": "failed",
    "DEADLINE": "failed",
    "LAUNCH_FAILED": "failed",
    "RECONFIG_FAIL": "failed",
    "CANCELLED": "cancelled",
    "REVOKED": "cancelled",
    "REQUEUED": "cancelled",
    "PREEMPTED": "preempted",
    "RESIZING": "finished",
}
STATES = WAITING | HOLDING | ENDINGS.keys()

Word = Literal["account", "user", "qos", "partition", "wckey"]


@dataclass(frozen=True)
class Site:
    """What a site says about its Slurm.

    zone: in which its commands print times.   cluster: named so in every row, instead of Slurm's name.
    tenant, project, queue: which word of Slurm's tells them; None: none does.   preemptible_qos,
    preemptible_partitions: globs.   shares_per_gpu: how many shards (or MPS percents) are a GPU, by kind of GRES.
    """

    zone: tzinfo = UTC
    cluster: str = ""
    tenant: Word | None = "account"
    project: Word | None = "account"
    queue: Word | None = "partition"
    preemptible_qos: tuple[str, ...] = ()
    preemptible_partitions: tuple[str, ...] = ()
    shares_per_gpu: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One record of one run of a job.

    job_id: raw.   name: as users know it (`123_4`, `123+1`).   nodes: in Slurm's order, none while it waits.
    requested, held: GPUs over all nodes.   placed: what it has on a node, where indices are told.   restarted:
    an earlier record of it may end in the instant in which this one starts.
    """

    job_id: str
    name: str = ""
    cluster: str = ""
    words: Mapping[Word, str] = field(default_factory=dict)
    state: str = "PENDING"
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    nodes: tuple[str, ...] = ()
    requested: Gpus = field(default_factory=Gpus)
    held: Gpus = field(default_factory=Gpus)
    placed: Mapping[str, tuple[Gres, ...]] = field(default_factory=dict)
    priority: int | None = None
    exit_code: str = ""
    actor: str = ""
    limit_seconds: int | None = None
    suspended_seconds: int = 0
    restarted: bool = False
    time_is_a_guess: bool = False

    @property
    def gpus(self) -> Gpus:
        """What it has, or asks for; a site that does not account for gres/gpu still tells what was asked."""
        return self.held or self.requested

    @property
    def holds(self) -> bool:
        """Whether it has, or had, GPUs of nodes."""
        return bool(self.started_at is not None and self.nodes and (self.state in HOLDING or self.state in ENDINGS))


def not_ours(job: Job, site: Site) -> str:
    """Why a job makes no events; '' if it does."""
    if not job.gpus and not any(job.placed.values()):
        return "no GPUs"
    unknown = [kind for kind in job.gpus.shared if not site.shares_per_gpu.get(kind)]
    if unknown and not job.gpus.whole and not job.placed:
        return f"{unknown[0]}: not told how many are a GPU"
    return ""


def life(job: Job, site: Site) -> list[Row]:
    """What accounting knows: submitted, started with the node, and the end."""
    rows: list[Row] = []
    if job.submitted_at is not None:
        asked = {"gpus": _gpus(job.requested or job.held, site), "message": job.name if job.name != job.job_id else ""}
        rows.append(_row(job, site, job.submitted_at, "submitted", job.job_id) | asked)
    parts = list(_parts(job, site)) if job.holds else []
    if job.started_at is not None:
        for part in parts:
            row = _row(job, site, job.started_at, "started", part.allocation_id) | part.columns
            if job.priority is not None:
                row["priority"] = job.priority
            rows.append(row)
    event = ENDINGS.get(job.state)
    if event is not None and job.ended_at is not None:
        told = {"reason": job.state, "message": _message(job), "actor": job.actor}
        ending = [part.allocation_id for part in parts] or [job.job_id]
        rows.extend(_row(job, site, job.ended_at, event, allocation_id) | told for allocation_id in ending)
    return [_without_empty(row) for row in rows]


def placements(job: Job, site: Site, inventory: Inventory) -> list[Row]:
    """What the controller knows of a job that holds GPUs: the devices, instead of the nodes that `life` told."""
    if not job.holds or job.started_at is None or not job.placed:
        return []
    # An end in the same millisecond would end this too, though it is the end of the record before.
    at = job.started_at + timedelta(milliseconds=1) if job.restarted else job.started_at
    rows: list[Row] = []
    for node, entries in job.placed.items():
        by_profile: dict[str, list[Gres]] = {}
        for entry in entries:
            by_profile.setdefault(profile(entry.type), []).append(entry)
        for order, (name, of_profile) in enumerate(sorted(by_profile.items())):
            allocation_id = _allocation_id(job, node, name, order)
            devices = _devices(node, name, of_profile, site, inventory)
            rows.extend(_row(job, site, at, "resized", allocation_id) | columns for columns in devices)
    return [_without_empty(row) for row in rows]


def _without_empty(row: Row) -> Row:
    return {name: value for name, value in row.items() if value not in ("", None)}


@dataclass(frozen=True, slots=True)
class _Part:
    allocation_id: str
    columns: Row


def _parts(job: Job, site: Site) -> Iterator[_Part]:
    """What a job holds by node and profile; totals are spread evenly, the first nodes take what is left over."""
    if any(job.placed.values()):
        yield from _told_parts(job, site)
        return
    held = job.gpus
    for number, node in enumerate(job.nodes):
        order = 0
        for name, count in held.profiles.items():
            here = _spread(count, len(job.nodes), number)
            if here:
                columns: Row = {"node": node, "gpus": here, "partition_profile": name, "units": slices(name)}
                yield _Part(_allocation_id(job, node, name, order), columns)
                order += 1
        share = 0.0 if held.whole else (_gpus(held, site) or 0.0) / len(job.nodes)
        if share:
            yield _Part(_allocation_id(job, node, "", order), {"node": node, "gpus": share})


def _told_parts(job: Job, site: Site) -> Iterator[_Part]:
    for node, entries in job.placed.items():
        counts: dict[str, float] = {}
        for entry in entries:
            per_gpu = 1 if entry.name == "gpu" else site.shares_per_gpu.get(entry.name) or _told_total(entry)
            if per_gpu:
                name = profile(entry.type)
                counts[name] = counts.get(name, 0) + entry.count / per_gpu
        for order, (name, count) in enumerate(sorted(counts.items())):
            columns: Row = {"node": node, "gpus": count, "partition_profile": name, "units": slices(name)}
            yield _Part(_allocation_id(job, node, name, order), columns)


def _devices(node: str, name: str, entries: list[Gres], site: Site, inventory: Inventory) -> Iterator[Row]:
    """Rows of the devices that the indices name; one with the node for those that the inventory does not know."""
    unknown = 0.0
    for entry in entries:
        shared = entry.name != "gpu"
        per_gpu = site.shares_per_gpu.get(entry.name) or _told_total(entry) if shared else 1
        for number, index in enumerate(entry.indices or ()):
            even = _spread(entry.count, len(entry.indices or ()), number) if shared else None
            units, of = entry.shares.get(index, (even, per_gpu))
            place = inventory.get((node, index))
            if place is None:
                unknown += units / of if units and of else 1
                continue
            yield {
                "node": node,
                "device_id": place.device_id,
                "partition_id": place.partition_id,
                "partition_profile": name,
                "units": units or place.units or slices(name),
            }
        if entry.indices is None and per_gpu:
            unknown += entry.count / per_gpu
    if unknown:
        yield {"node": node, "gpus": unknown, "partition_profile": name, "units": slices(name)}


def slices(profile_name: str) -> int | None:
    """Units of a MIG profile: its compute slices. None: the whole device."""
    return int(profile_name.split("g.")[0]) if profile_name else None


def _allocation_id(job: Job, node: str, profile_name: str, order: int) -> str:
    if job.nodes[:1] == (node,) and order == 0:
        return job.job_id
    return f"{job.job_id}@{node}" + (f"/{profile_name or 'shared'}" if order else "")


def _row(job: Job, site: Site, at: datetime, event: str, allocation_id: str) -> Row:
    qos, partition = job.words.get("qos", ""), job.words.get("partition", "")
    preemptible = any(fnmatchcase(qos, glob) for glob in site.preemptible_qos) or any(
        fnmatchcase(partition, glob) for glob in site.preemptible_partitions
    )
    return {
        "ts": at,
        "cluster": site.cluster or job.cluster,
        "source": SOURCE,
        "allocation_id": allocation_id,
        "workload_id": job.job_id,
        "event": event,
        "tenant": job.words.get(site.tenant, "") if site.tenant else "",
        "project": job.words.get(site.project, "") if site.project else "",
        "queue": job.words.get(site.queue, "") if site.queue else "",
        "preemptible": preemptible if site.preemptible_qos or site.preemptible_partitions else None,
    }


def _gpus(gpus: Gpus, site: Site) -> float | None:
    """GPUs over all nodes; shares of them where they are shards."""
    if gpus.whole:
        return gpus.whole
    for kind, count in gpus.shared.items():
        if per_gpu := site.shares_per_gpu.get(kind):
            return count / per_gpu
    return None


def _told_total(entry: Gres) -> int | None:
    """How many shares a GPU of this entry has, as `shard:4(4/10,0/10)` says."""
    return next((of for _, of in entry.shares.values()), None)


def _spread(count: int, over: int, number: int) -> int:
    return count // over + (number < count % over)


def _message(job: Job) -> str:
    told = []
    if job.exit_code not in ("", "0:0"):
        told.append(f"exit code {job.exit_code}")
    if job.state == "TIMEOUT" and job.limit_seconds:
        told.append(f"time limit {job.limit_seconds} s")
    if job.suspended_seconds:
        told.append(f"suspended for {job.suspended_seconds} s, GPUs kept")
    if job.time_is_a_guess:
        told.append("the clock showed this hour twice: the earlier one was taken")
    return "; ".join(told)
