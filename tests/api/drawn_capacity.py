"""Small clusters, drawn: GPUs, whole or in shares or under MIG, and jobs that wait, hold, lose their place and give up.

Each job keeps the spans in which it waited and held, so that a test can reckon by hand what the books must say.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from warehouse.store import Store

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
BOOKS = datetime(2026, 10, 4, tzinfo=UTC)
PERIOD = (BOOKS + 24 * HOUR, BOOKS + 48 * HOUR)
UNTIL = BOOKS + 60 * HOUR
"""Until when the books are closed."""
Span = tuple[datetime, datetime]


@dataclass
class Device:
    node: str
    name: str
    model: str
    pool: str
    units: int
    mig: bool = False
    down: Span | None = None


@dataclass
class Drawn:
    """waits, holds: spans, the last one until UNTIL where it goes on.   places: (device, units).   events: name, time.
    gpus: requested; None: not reported.   reason: of its waiting."""

    name: str
    tenant: str
    queue: str
    gpus: int | None
    priority: int | None
    places: list[tuple[Device, int]] = field(default_factory=list)
    submitted: datetime | None = None
    waits: list[Span] = field(default_factory=list)
    holds: list[Span] = field(default_factory=list)
    is_open: bool = False
    over: bool = False
    rejected: bool = False
    events: list[tuple[str, datetime]] = field(default_factory=list)
    reason: str = ""

    @property
    def share(self) -> float:
        return sum(units / device.units for device, units in self.places)


@dataclass
class Cluster:
    name: str
    devices: list[Device] = field(default_factory=list)
    jobs: list[Drawn] = field(default_factory=list)


def clusters(seed: str, count: int = 5) -> list[Cluster]:
    return [_cluster(f"c{number}", random.Random(f"{seed}-{number}")) for number in range(count)]


def _cluster(name: str, draw: random.Random) -> Cluster:
    cluster = Cluster(name)
    for number in range(draw.randint(3, 5)):
        model, pool = draw.choice((("H100", "train"), ("H100", "dev"), ("L4", "dev")))
        units = draw.choice((1, 1, 1, 4)) if model == "L4" else draw.choice((1, 1, 1, 7))
        for place in range(draw.randint(1, 4)):
            down = None
            if draw.random() < 0.2:
                since = BOOKS + draw.randint(0, 50 * 60) * MINUTE
                down = (since, since + draw.randint(10, 500) * MINUTE)
            cluster.devices.append(
                Device(f"n{number}", f"{name}-{number}-{place}", model, pool, units, mig=units == 7, down=down)
            )
    free_from = {device.name: BOOKS for device in cluster.devices}
    for number in range(draw.randint(40, 60)):
        cluster.jobs.append(_job(f"{name}-a{number}", cluster, free_from, draw))
    for number in range(draw.randint(1, 4)):
        cluster.jobs.append(_never(f"{name}-never{number}", draw))
    return cluster


def _asked(name: str, draw: random.Random) -> Drawn:
    return Drawn(
        name,
        draw.choice(("vision", "speech")),
        draw.choice(("main", "night")),
        draw.choice((None, 1, 2, 8)),
        draw.choice((None, 0, 5, 10)),
        reason=draw.choice(("", "Resources", "WaitingForQuota")),
    )


def _job(name: str, cluster: Cluster, free_from: dict[str, datetime], draw: random.Random) -> Drawn:
    """One that holds something; alone on its devices, so that no claim is refused."""
    job = _asked(name, draw)
    kinds = draw.choice(cluster.devices)
    fits = [
        one for one in cluster.devices if (one.model, one.pool, one.units) == (kinds.model, kinds.pool, kinds.units)
    ]
    if draw.random() < 0.06:
        fits = cluster.devices  # of several groups
    chosen = draw.sample(fits, min(len(fits), draw.choice((1, 1, 1, 2, 3))))
    even = draw.randint(1, kinds.units)
    job.places = [(one, min(one.units, even) if draw.random() < 0.7 else draw.randint(1, one.units)) for one in chosen]
    start = max(free_from[one.name] for one in chosen) + draw.randint(0, 180) * MINUTE + timedelta(milliseconds=7)
    downs = [one.down for one in chosen if one.down]
    while meets := [down for down in downs if down[0] - 13 * HOUR < start < down[1]]:
        start = meets[0][1] + MINUTE  # it is over before, or begins after
    if start >= UNTIL - 2 * HOUR:
        start = UNTIL - draw.randint(1, 100) * MINUTE
        if any(free_from[one.name] >= start or (one.down and one.down[1] >= start) for one in chosen):
            job.places = []
            return _fill_never(job, draw)
    if draw.random() < 0.85:
        job.submitted = start - draw.choice((0, 0, 1, 30, 200, 2000)) * MINUTE * draw.random()
        job.submitted = job.submitted.replace(microsecond=0)
        job.events.append(("submitted", job.submitted))
        if draw.random() < 0.3 and start - job.submitted > 2 * MINUTE:
            job.events.append(("submitted", job.submitted + MINUTE))  # it says again why it waits
        job.waits.append((job.submitted, start))
    end = min(start + draw.randint(1, 360) * MINUTE, UNTIL - MINUTE)
    job.events.append(("started", start))
    job.holds.append((start, end))
    if draw.random() < 0.15 and end + 300 * MINUTE < UNTIL:
        again = end + draw.randint(1, 100) * MINUTE
        job.events += [("preempted", end), ("submitted", end + timedelta(seconds=1)), ("started", again)]
        job.waits.append((end + timedelta(seconds=1), again))
        end = again + draw.randint(1, 120) * MINUTE
        job.holds.append((again, end))
    if end > UNTIL - 3 * HOUR and draw.random() < 0.6:
        job.holds[-1] = (job.holds[-1][0], UNTIL)
        job.is_open, end = True, UNTIL
    else:
        job.events.append((draw.choice(("finished", "failed", "cancelled")), end))
    for one in chosen:
        free_from[one.name] = end
    return job


def _never(name: str, draw: random.Random) -> Drawn:
    return _fill_never(_asked(name, draw), draw)


def _fill_never(job: Drawn, draw: random.Random) -> Drawn:
    """It waits and goes, or waits on, or was never let in."""
    job.submitted = BOOKS + draw.randint(0, 50 * 60) * MINUTE
    job.events = [("submitted", job.submitted)]
    kind = draw.choice(("waits", "gone", "rejected"))
    end = {"waits": UNTIL, "gone": job.submitted + draw.randint(5, 900) * MINUTE, "rejected": job.submitted}[kind]
    if kind != "waits":
        job.events.append(("cancelled" if kind == "gone" else "rejected", end))
    job.over, job.rejected = kind == "gone", kind == "rejected"
    job.waits = [(job.submitted, end)]
    return job


def write(store: Store, drawn: Sequence[Cluster]) -> None:
    """Their facts, as collectors would deliver them."""
    devices = []
    for cluster in drawn:
        for one in cluster.devices:
            states = [(BOOKS, "available")]
            states += [(one.down[0], "unavailable"), (one.down[1], "available")] if one.down else []
            devices += [
                f"('{_at(at)}', '{cluster.name}', '{one.node}', '{one.name}', 'NVIDIA', '{one.model}', {one.units}, "
                f"'{one.pool}', '{state}')"
                for at, state in states
            ]
    store.command(
        "INSERT INTO devices (ts, cluster, node, device_id, vendor, model, units, pool, state) VALUES "
        + ", ".join(devices)
    )
    rows = [row for cluster in drawn for job in cluster.jobs for row in _rows(cluster.name, job)]
    store.command(
        "INSERT INTO events (ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, priority, "
        f"gpus, node, device_id, partition_id, partition_profile, units, reason) VALUES {', '.join(rows)}"
    )


def _rows(cluster: str, job: Drawn) -> list[str]:
    found = []
    for event, at in job.events:
        places = job.places if event == "started" else [(None, 0)]
        for device, units in places:
            place = "'', '', '', '', NULL"
            if device is not None:
                part = f"'MIG-{device.name}', '{units}g.10gb'" if device.mig else "'', ''"
                place = f"'{device.node}', '{device.name}', {part}, {units}"
            gpus = "NULL" if job.gpus is None else job.gpus
            why = job.reason if event == "submitted" else ""
            priority = "NULL" if job.priority is None else job.priority
            found.append(
                f"('{_at(at)}', '{cluster}', 's', '{job.name}', 'w-{job.name}', '{event}', '{job.tenant}', "
                f"'p-{job.tenant}', '{job.queue}', {priority}, {gpus}, {place}, '{why}')"
            )
    return found


def _at(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}.{at.microsecond // 1000:03d}"
