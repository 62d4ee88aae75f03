"""A Slurm job's record -> events.

What Slurm says              what that is here
PENDING and holds            submitted, with Slurm's reason for waiting where the controller tells it
RUNNING, COMPLETING          started; what is completing has not given its GPUs back, the end follows
SUSPENDED, STOPPED           started: the GPUs stay taken ("those resources do not become available", gres.html)
CONFIGURING                  submitted only: nodes boot, and the start is counted anew when they are up
COMPLETED                    finished
FAILED, TIMEOUT, NODE_FAIL, OUT_OF_MEMORY, BOOT_FAIL, DEADLINE, LAUNCH_FAILED, RECONFIG_FAIL    failed
CANCELLED [by UID], REVOKED  cancelled, by that actor
PREEMPTED                    preempted; a next record follows if it is put back into the queue
REQUEUED                     cancelled: this run ended, a next record follows; a run of no length is not reported
RESIZING                     finished: the record ends where the next one of the same job starts

What ended in the second of its start held what it had for no time: a `resized` to nothing takes the place of its
`started`, so that it claims nothing, and is seen all the same.

`reason` keeps Slurm's word. An allocation is named by the job's raw id, which is also the workload's (cgroups name it
so). Where devices are not known, rows of two nodes would have the same key, so what a job has on its first node is
named by the job's id, on others ID@NODE. Every node of a job gets an end, whatever was known of it when it started.

Accounting knows nodes and totals. Indices come later, from the controller: a `resized` of the same instant, with the
devices, takes the place of a `started` with a node only (docs/ledger.md, Claims); one that names nothing takes the
place of what accounting assumed for a node on which the job has no GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Literal

from collectors.readings import Row
from collectors.slurm.inventory import GresDevice, Inventory
from collectors.slurm.tres import Gpus, Gres, profile
from warehouse.records import MAX_UNITS

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
NOTHING: Row = {"gpus": 0.0}
"""What a `resized` has that takes the place of a `started` in the same instant, which so claims nothing."""

Word = Literal["account", "user", "qos", "partition", "wckey"]


@dataclass(frozen=True)
class Site:
    """A site's Slurm configuration, as far as it matters here."""

    zone: tzinfo = UTC
    cluster: str = ""
    tenant: Word | None = "account"
    project: Word | None = "account"
    queue: Word | None = "partition"
    preemptible_qos: tuple[str, ...] = ()
    preemptible_partitions: tuple[str, ...] = ()
    shares_per_gpu: Mapping[str, int] = field(default_factory=dict)
    gres: Mapping[str, tuple[Gres, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Job:
    """One record of one run of a job.

    job_id: raw.   name: as users know it (`123_4`, `123+1`).   nodes: in Slurm's order, none while it waits.
    requested, held: GPUs over all nodes.   placed: what it has on a node, where indices are reported.   reason: why it
    waits.   run_started_at: when the run began that may have been resized since, where the controller tells.   earlier:
    how many records of it may have begun or ended before, in the instant in which this one starts.
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
    reason: str = ""
    limit_seconds: int | None = None
    suspended_seconds: int = 0
    run_started_at: datetime | None = None
    earlier: int = 0
    time_is_a_guess: bool = False

    @property
    def gpus(self) -> Gpus:
        """What it has, or asks for; a site that does not account for gres/gpu still tells what was asked."""
        return self.held or self.requested

    @property
    def holds(self) -> bool:
        """Whether it has, or had, GPUs of nodes."""
        return bool(self.started_at is not None and self.nodes and (self.state in HOLDING or self.state in ENDINGS))

    @property
    def allocations(self) -> tuple[str, ...]:
        """What it has, or had, on each node, by its name."""
        return tuple(_allocation_id(self, node) for node in self.nodes) if self.holds else ()

    @property
    def is_momentary(self) -> bool:
        """Whether it ended in the second of its start: by the stamps it held what it had for no time."""
        return self.started_at is not None and self.started_at == self.ended_at

    @property
    def held_nothing(self) -> bool:
        """Whether this is what a job is that was put back into the queue, or resized, in the second of its start."""
        return self.state in ("REQUEUED", "RESIZING") and self.is_momentary

    @property
    def end_reported_at(self) -> datetime | None:
        """A millisecond later where it is of the instant of its submission: an end then is the end of before, as of
        what is left of a job that was resized in its last second."""
        if self.ended_at is None or not self.is_momentary or self.submitted_at != self.started_at:
            return self.ended_at
        return self.ended_at + timedelta(milliseconds=1)


def begun(submitted: datetime | None, started: datetime | None, ended: datetime | None) -> datetime | None:
    """When a run began, by accounting: the later record of a resized job may name the first start, before its own."""
    if submitted is None or started is None or (ended is not None and ended < submitted):
        return started
    return max(submitted, started)


def skip_reason(job: Job, site: Site) -> str:
    """Why a job makes no events; '' if it does."""
    if not job.gpus and not any(job.placed.values()):
        return "no GPUs"
    unknown = [kind for kind in job.gpus.shared if not site.shares_per_gpu.get(kind)]
    if unknown and not job.gpus.whole and not job.placed:
        return f"{unknown[0]}: not reported how many are a GPU"
    return ""


def lifecycle(job: Job, site: Site) -> list[Row]:
    """The events that accounting knows: submitted, started with the node, and the end."""
    rows: list[Row] = []
    if job.submitted_at is not None:
        rows.append(waiting(job, site, job.submitted_at))
    if job.held_nothing:
        # It held nothing, and its end would end the next record, which may start in this second.
        return rows
    nodes = job.nodes if job.holds else ()
    if job.started_at is not None:
        for number, node in enumerate(nodes):
            for columns in _on_node(job, node, number, site):
                row = _row(job, site, job.started_at, "started", _allocation_id(job, node)) | columns
                if job.priority is not None:
                    row["priority"] = job.priority
                rows.append(row)
            if job.is_momentary:
                rows.append(_row(job, site, job.started_at, "resized", _allocation_id(job, node)) | NOTHING)
    event = ENDINGS.get(job.state)
    if event is not None and job.end_reported_at is not None:
        reported = {"reason": job.state, "message": _message(job), "actor": job.actor}
        ending = job.allocations or (job.job_id,)
        rows.extend(_row(job, site, job.end_reported_at, event, allocation) | reported for allocation in ending)
    return [_without_empty(row) for row in rows]


def waiting(job: Job, site: Site, at: datetime) -> Row:
    """The `submitted` event: what is requested, and why it waits."""
    asked = {
        "gpus": _gpus(job.requested or job.held, site),
        "reason": job.reason if job.state in WAITING else "",
        "message": job.name if job.name != job.job_id else "",
    }
    return _without_empty(_row(job, site, at, "submitted", job.job_id) | asked)


def placements(job: Job, site: Site, inventory: Inventory) -> list[Row]:
    """What the controller knows of a job that holds GPUs: its devices, in place of the nodes that `lifecycle`
    reports."""
    if not job.holds or job.started_at is None or not job.placed or job.is_momentary:
        return []
    # An end in the same millisecond would end this too, though it is the end of the record before.
    at = job.started_at + timedelta(milliseconds=job.earlier)
    rows: list[Row] = []
    for node in job.nodes:
        row = _row(job, site, at, "resized", _allocation_id(job, node))
        rows += [row | columns for columns in _devices(node, job.placed.get(node, ()), site, inventory)] or [
            row | NOTHING
        ]
    return [_without_empty(row) for row in rows]


def profile_is_a_guess(job: Job, site: Site) -> bool:
    """Whether the MIG profile of its instances is unknown, because its node has several and nothing reports which."""
    return bool(
        job.holds
        and not any(job.placed.values())
        and job.gpus.untyped
        and any(len(_profiles_of(node, site)) > 1 for node in job.nodes)
    )


def _without_empty(row: Row) -> Row:
    return {name: value for name, value in row.items() if value not in ("", None)}


def _on_node(job: Job, node: str, number: int, site: Site) -> list[Row]:
    """The job's allocation on its n-th node, without devices."""
    if any(job.placed.values()):
        return list(_devices(node, job.placed.get(node, ()), site, {}))
    held = job.gpus
    counts = {name: _spread(count, len(job.nodes), number) for name, count in held.profiles.items()}
    if profiles := _profiles_of(node, site):
        smallest = min(profiles, key=lambda name: (slices(name) or MAX_UNITS, name))
        untyped = _spread(held.untyped, len(job.nodes), number)
        counts[""] = counts.get("", 0) - untyped
        counts[smallest] = counts.get(smallest, 0) + untyped
    rows = list(_of_node(node, counts))
    if not held.whole and (share := (_gpus(held, site) or 0.0) / len(job.nodes)):
        rows.append({"node": node, "gpus": share})
    return rows


def _profiles_of(node: str, site: Site) -> set[str]:
    """The MIG profiles of a node's GPUs, '' for whole ones; none if the node is not known."""
    return {profile(entry.type) for entry in site.gres.get(node, ()) if entry.name == "gpu" and entry.count}


def _of_node(node: str, counts: Mapping[str, float]) -> Iterator[Row]:
    """Rows of a node: one for its whole GPUs or shares of them, and one for each instance.

    Instances may lie on one device, so each is a claim of its own, and has a partition's name made up for it.
    """
    for name, count in sorted(counts.items()):
        if not name and count > 0:
            yield {"node": node, "gpus": count}
        for number in range(round(count) if name else 0):
            yield {
                "node": node,
                "gpus": 1,
                "partition_id": f"{node}/{name}/{number}",
                "partition_profile": name,
                "units": slices(name),
            }


def _devices(node: str, entries: Iterable[Gres], site: Site, inventory: Inventory) -> Iterator[Row]:
    """Rows of the devices that the indices name; of the node for those that the inventory does not know."""
    unknown: dict[str, float] = {}
    for entry in entries:
        name, per_gpu = profile(entry.type), _per_gpu(entry, site)
        for index, units, of in _shares(entry, per_gpu):
            place = inventory.get((node, index))
            own = _units_of(place, units, of) if place is not None else None
            if place is None or not _fits(place, name) or (units and own is None):
                unknown[name] = unknown.get(name, 0) + (units / of if units and of else 1)
                continue
            yield {
                "node": node,
                "device_id": place.device_id,
                "partition_id": place.partition_id,
                "partition_profile": name,
                "units": own or place.units or slices(name),
            }
        if entry.indices is None and per_gpu:
            unknown[name] = unknown.get(name, 0) + entry.count / per_gpu
    yield from _of_node(node, unknown)


def _per_gpu(entry: Gres, site: Site) -> int | None:
    """How many of an entry's kind are a GPU; None: not reported."""
    return site.shares_per_gpu.get(entry.name) or _reported_total(entry) if entry.name != "gpu" else 1


def _shares(entry: Gres, per_gpu: int | None) -> Iterator[tuple[int, int | None, int | None]]:
    """An entry's indexes, each with how many shares of how many it has of that GPU; None: it is no share."""
    for number, index in enumerate(entry.indices or ()):
        even = _spread(entry.count, len(entry.indices or ()), number) if entry.name != "gpu" else None
        yield index, *entry.shares.get(index, (even, per_gpu))


def _units_of(place: GresDevice, shares: int | None, of: int | None) -> int | None:
    """Shares of a GPU in the units of its device; None: they are no whole number of them. Where the inventory does not
    say how many units it has, they are the same."""
    if not shares or not of or place.device_units in (1, of):
        return shares
    units, rest = divmod(shares * place.device_units, of)
    return None if rest else units


def contradictions(job: Job, site: Site, inventory: Inventory) -> list[str]:
    """Indexes with another profile in Slurm than in the inventory, or with a share that is no whole number of the units
    there: their device counts as unknown."""
    return [
        f"{node}, index {index}: Slurm says {said}, the inventory {place.units or place.device_units} units"
        for node, entries in job.placed.items()
        for entry in entries
        for index, shares, of in _shares(entry, _per_gpu(entry, site))
        if (place := inventory.get((node, index))) is not None
        if (said := _contradicts(place, profile(entry.type), entry.name, shares, of))
    ]


def _contradicts(place: GresDevice, profile_name: str, kind: str, shares: int | None, of: int | None) -> str:
    if not _fits(place, profile_name):
        return profile_name
    return f"{shares} of {of} {kind}" if shares and _units_of(place, shares, of) is None else ""


def _fits(place: GresDevice, profile_name: str) -> bool:
    return not profile_name or place.units in (None, slices(profile_name))


def slices(profile_name: str) -> int | None:
    """Units of a MIG profile: its compute slices. None: the whole device."""
    return int(profile_name.split("g.")[0]) if profile_name else None


def _allocation_id(job: Job, node: str) -> str:
    return job.job_id if job.nodes[0] == node else f"{job.job_id}@{node}"


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


def _reported_total(entry: Gres) -> int | None:
    """How many shares a GPU of this entry has, from `shard:4(4/10,0/10)`."""
    return next((of for _, of in entry.shares.values()), None)


def _spread(count: int, over: int, number: int) -> int:
    return count // over + (number < count % over)


def _message(job: Job) -> str:
    reported = []
    if job.exit_code not in ("", "0:0"):
        reported.append(f"exit code {job.exit_code}")
    if job.state == "TIMEOUT" and job.limit_seconds:
        reported.append(f"time limit {job.limit_seconds} s")
    if job.suspended_seconds:
        reported.append(f"suspended for {job.suspended_seconds} s, GPUs kept")
    if job.time_is_a_guess:
        reported.append("the clock showed this hour twice: the earlier one was taken")
    return "; ".join(reported)
