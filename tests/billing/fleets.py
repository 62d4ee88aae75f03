"""Random small fleets: everything that happens to shared GPUs, jittered off every minute, hour and interval.

A fleet is the facts of one cluster, so that many of them share one store. `fleet(seed, world)` is deterministic.
Left out on purpose, because the facts alone do not say what is right; they have tests of their own: allocations that
never end although somebody else needs their units.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

from tests.billing.oracle import HOUR, Facts, Record, ms

MINUTE = 60_000
TENANTS = (
    "physics",
    "physics-lab",
    "chem",
    "vip-imaging",
    "",
    "O'Brien",
    'the "A" team',
    "back\\slash\\",
    "two\nlines",
    "tab\tand {braces:String} %s",
    " leading and trailing ",
    "研发一部 🚀",
    "NULL",
    "-- ; DROP TABLE samples",
)
MODELS = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L4", "Gaudi 3 (unpriced)")
POOLS = ("train", "infer", "")
UNUSABLE = ("unsupported", "no_permission", "blank", "stale")
PROFILES = {1: "1g.10gb", 2: "2g.20gb", 3: "3g.40gb", 4: "4g.40gb", 7: "7g.80gb"}


@dataclass(frozen=True)
class World:
    """What the fleets of a store share: the billing time zone, and the days that the books are kept for."""

    zone: str
    start: int
    until: int

    @property
    def rate_card(self) -> dict[str, Any]:
        """Changes of price in the middle of hours, a tenant's own price, a partition's own price, a pool's own price,
        and a model without any."""
        first, second = self.start + 30 * HOUR + 1_234_567, self.start + 55 * HOUR + 987_001

        def rate(sku: str, price: str, start: int, end: int | None = None, **match: str) -> dict[str, Any]:
            dated = {"effective_from": iso(start)} | ({"effective_to": iso(end)} if end else {})
            return {"sku": sku, "match": match, "price_per_gpu_hour": price, **dated}

        h100, a100, l4, _ = MODELS
        long_ago = self.start - 1000 * HOUR
        return {
            "currency": "EUR",
            "timezone": self.zone,
            "rates": [
                rate("h100-vip", "1.99", first, second, model=h100, tenant="vip-*"),
                rate("a100-slice", "3.333333333", long_ago, model=a100, partition_profile="1g.*"),
                rate("l4-infer", "0.007", second, model=l4, pool="infer"),
                rate("h100-old", "4.17", long_ago, first, model=h100),
                rate("h100-new", "5.283", first, model=h100),
                rate("a100-old", "2.36", long_ago, second, model="NVIDIA A100*"),
                rate("a100-new", "4.43", second, model="NVIDIA A100*"),
                rate("l4", "0.82", long_ago, model=l4),
            ],
        }


WORLDS = {
    "UTC": World("UTC", ms("2025-10-24T00:00:00Z"), ms("2025-10-28T00:00:00Z")),
    "Asia/Kolkata": World("Asia/Kolkata", ms("2025-09-29T00:00:00Z"), ms("2025-10-03T00:00:00Z")),
    "Europe/Berlin": World("Europe/Berlin", ms("2025-10-24T00:00:00Z"), ms("2025-10-28T00:00:00Z")),
    "America/St_Johns": World("America/St_Johns", ms("2025-10-31T00:00:00Z"), ms("2025-11-04T00:00:00Z")),
}
"""Zones with and without half hours; the clocks go back on a Sunday in the last two."""


def fleet(seed: int, world: World) -> Facts:
    """One cluster's facts over its last 6 to 72 hours before the books close."""
    return _Fleet(Random(f"{world.zone} {seed}"), f"cluster-{seed}", world).build()


@dataclass
class _Share:
    start: int
    end: int
    device: str
    partition: str
    units: int
    workload: str


@dataclass
class _Device:
    """A device with what is already given away of it, so that the generator knows what fits."""

    id: str
    units: int
    changes: list[Record]
    eras: list[tuple[int, int, int]]
    """(start, end, units): within one of them its number of units stays, and it exists."""
    back: int = 0
    """When it comes back, if it is removed in between."""
    partitions: dict[str, int] = field(default_factory=dict)
    shares: list[_Share] = field(default_factory=list)

    def free(self, start: int, end: int, units: int) -> int:
        """Units that nobody holds at any moment of [start, end)."""
        edges = [start, *(share.start for share in self.shares if start < share.start < end)]
        return units - max(sum(share.units for share in self.shares if share.start <= t < share.end) for t in edges)

    def partition_is_free(self, partition: str, start: int, end: int) -> bool:
        return not any(s.partition == partition and s.start < end and start < s.end for s in self.shares)


class _Fleet:
    def __init__(self, random: Random, cluster: str, world: World) -> None:
        self.random = random
        self.cluster = cluster
        self.until = world.until
        self.start = max(world.start, world.until - random.randint(6 * HOUR, 72 * HOUR))
        self.facts = Facts()
        self.names = 0

    def build(self) -> Facts:
        if self.random.random() < 0.15:
            device = self._device(0, plain=True)
            self._scramble_for(device)
            devices = [device]
        else:
            devices = [self._device(number) for number in range(self.random.randint(1, 4))]
            for _ in range(self.random.randint(1, 8 * len(devices))):
                self._allocation(devices)
            self._impossible(devices)
        self._momentary(devices)
        for device in devices:
            self.facts.devices.extend(device.changes)
            self._measure(device)
        for records in (self.facts.devices, self.facts.events, self.facts.samples):
            records.extend(dict(self.random.choice(records)) for _ in range(len(records) // 10) if records)
            self.random.shuffle(records)
        return self.facts

    # --- devices

    def _device(self, number: int, plain: bool = False) -> _Device:
        random = self.random
        units = random.choice((1, 2, 4, 7, 10))
        first = self.start + random.choice((0, 0, random.randint(0, 2 * HOUR)))
        row = {
            "cluster": self.cluster,
            "node": f"node-{number // 2}",
            "device_id": f"GPU-{number}" if random.random() < 0.8 else f"GPU-{number} 'ü\\",
            "vendor": "nvidia",
            "model": random.choice(MODELS[:3]) if random.random() < 0.95 else MODELS[3],
            "memory_bytes": 85_899_345_920,
            "units": units,
            "pool": random.choice(POOLS),
        }
        changes: dict[int, dict[str, Any]] = {first: {"state": "available"}}
        eras, back = [(first, self.until, units)], 0
        if random.random() < 0.4:
            for _ in range(random.randint(1, 3)):
                down = self._moment(first)
                changes[down] = {"state": "unavailable"}
                changes[down + random.randint(1, 5 * HOUR)] = {"state": "available"}
        if random.random() < 0.1:
            changes[self._moment(first)] = {"model": random.choice(MODELS)}
        if random.random() < 0.1:
            changes[self._moment(first)] = {"pool": random.choice(POOLS)}
        if not plain and random.random() < 0.1:
            moment, other = self._moment(first), random.choice((1, 2, 4, 7, 10))
            changes[moment] = {"units": other}
            eras = [(first, moment, units), (moment, self.until, other)]
        elif not plain and random.random() < 0.1:
            gone, back = sorted((self._moment(first), self._moment(first)))
            changes = {ts: change for ts, change in changes.items() if not gone <= ts <= back}
            changes[gone] = {"state": "removed"}
            eras = [(first, gone, units)]
            if back > gone:
                changes[back] = {"state": "available"}
                eras.append((back, self.until, units))
        rows = []
        for ts in sorted(changes):
            row = {**row, **changes[ts], "ts": ts}
            rows.append(row)
        device = _Device(rows[0]["device_id"], units, rows, [era for era in eras if era[0] < era[1]], back)
        if units > 1 and len(eras) == 1 and random.random() < 0.35 and not plain:
            left = units
            while left and random.random() < 0.95:
                size = random.choice([size for size in PROFILES if size <= left])
                device.partitions[f"MIG-{number}-{len(device.partitions)}"] = size
                left -= size
        return device

    def _moment(self, after: int) -> int:
        return self.random.randint(after + 1, max(after + 2, self.until - 1))

    def _span(self, start: int, end: int) -> tuple[int, int]:
        """From a blink to a day, somewhere within, now and then exactly on the hour."""
        random = self.random
        length = min(end - start, round(10 ** max(random.uniform(0, 7.94) for _ in range(3))))
        begin = random.randint(start, end - length)
        if end == self.until and random.random() < 0.1:
            return end - min(length, 19 * HOUR), end
        if random.random() < 0.1:
            begin = max(start, begin // HOUR * HOUR)
        return begin, min(end, begin + length)

    # --- allocations

    def _name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}-{self.names}" + self.random.choice(("", "", "", " 'ä\"\\"))

    def _allocation(self, devices: list[_Device]) -> None:
        """A job, a gang, a pod with a slice, a service: from one plan of what it holds when."""
        random = self.random
        first = random.choice(devices)
        era_start, era_end, _ = random.choice(first.eras)
        start, end = self._span(era_start, era_end)
        if era_end < first.back and random.random() < 0.3:
            end = era_end
        if end <= start:
            return
        places = self._places(random.sample(devices, random.randint(1, len(devices))), first, start, end)
        if not places:
            return
        workload = self._workload(places, start, end)
        plan = [(start, end, places)]
        closing, story = True, random.random()
        if story < 0.25 and end - start > 1000:
            middle, later = sorted(random.sample(range(start + 1, end), 2))
            if story < 0.08 and (smaller := self._resized(places)):
                plan = [(start, middle, places), (middle, end, smaller)]
                kinds = ["started", "resized"]
            elif story < 0.17:
                plan, kinds = [(start, middle, places), (later, end, places)], ["started", "resumed"]
            else:
                plan, kinds = [(start, middle, places), (later, end, places)], ["started", "started"]
        else:
            kinds = ["started"]
            closing = not (end == self.until and end - start < 20 * HOUR)
        closed = end
        if end == era_end < first.back and len(places) == 1:
            closed = random.randint(end, first.back)  # nobody could tell the scheduler that the device was gone
        event = self._writer(workload)
        event("submitted", start - random.randint(1, HOUR))
        for number, ((begin, finish, held), kind) in enumerate(zip(plan, kinds, strict=True)):
            self._hold(event, kind, begin, finish, held, workload)
            if number + 1 < len(plan) and kinds[number + 1] != "resized":
                event("suspended" if kinds[number + 1] == "resumed" else "preempted", finish)
        if closing:
            event(random.choice(("finished", "failed", "cancelled", "preempted")), closed)
            if random.random() < 0.1:
                event("failed", closed + random.randint(1, HOUR))

    def _places(
        self, candidates: list[_Device], first: _Device, start: int, end: int
    ) -> list[tuple[_Device, str, int]]:
        """What is free on the first device, and with some luck on others too (a gang)."""
        random = self.random
        gang = [first, *(device for device in candidates if device is not first)] if random.random() < 0.25 else [first]
        places = []
        for device in gang:
            era = next((era for era in device.eras if era[0] <= start and end <= era[1]), None)
            if era is None:
                continue
            if device.partitions:
                free = [p for p in device.partitions if device.partition_is_free(p, start, end)]
                wanted = random.sample(free, min(len(free), random.choice((1, 1, 1, 2))))
                places += [(device, partition, device.partitions[partition]) for partition in wanted]
            elif (free_units := device.free(start, end, era[2])) > 0:
                units = free_units if random.random() < 0.4 else random.randint(1, free_units)
                places.append((device, "", units))
        return places

    def _workload(self, places: list[tuple[_Device, str, int]], start: int, end: int) -> str:
        """Mostly a new one; sometimes that of an earlier or later allocation there (a service)."""
        known = [share.workload for device, _, _ in places for share in device.shares]
        if known and self.random.random() < 0.15:
            workload = self.random.choice(known)
            if not any(
                s.workload == workload
                for device, _, _ in places
                for s in device.shares
                if s.start < end and start < s.end
            ):
                return workload
        return self._name("uid")

    def _resized(self, places: list[tuple[_Device, str, int]]) -> list[tuple[_Device, str, int]]:
        """Fewer devices, or less of them."""
        if len(places) > 1:
            return places[1:]
        ((device, partition, units),) = places
        return [] if partition or units == 1 else [(device, "", self.random.randint(1, units - 1))]

    def _writer(self, workload: str) -> Callable[..., None]:
        random = self.random
        common = {
            "cluster": self.cluster,
            "source": "test",
            "allocation_id": self._name("a"),
            "workload_id": workload,
            "tenant": random.choice(TENANTS),
            "project": random.choice(("", "p", "p'2")),
            "queue": random.choice(("", "q")),
            "preemptible": random.random() < 0.5,
        }

        def event(
            kind: str, ts: int, device: str = "", partition: str = "", profile: str = "", units: Any = None
        ) -> None:
            place = {"device_id": device, "partition_id": partition, "partition_profile": profile, "units": units}
            self.facts.events.append({"ts": ts, **common, "event": kind, **place})

        return event

    def _hold(
        self,
        event: Callable[..., None],
        kind: str,
        start: int,
        end: int,
        places: list[tuple[_Device, str, int]],
        workload: str,
    ) -> None:
        for device, partition, units in places:
            whole = next(era[2] for era in device.eras if era[0] <= start < era[1])
            said = None if units == whole and not partition and self.random.random() < 0.5 else units
            device.shares.append(_Share(start, end, device.id, partition, units, workload))
            if kind != "resumed":
                event(kind, start, device.id, partition, PROFILES.get(units, "") if partition else "", said)
        if kind == "resumed":
            event(kind, start)

    # --- what must be refused

    def _impossible(self, devices: list[_Device]) -> None:
        """Claims on units that others hold, on devices that are not there (yet), and jobs that never ran."""
        random = self.random
        for _ in range(random.choice((0, 0, 1, 2))):
            device = random.choice(devices)
            ended = [s for s in device.shares if s.end < self.until and s.end - s.start > 1]
            if not ended:
                continue
            share = random.choice(ended)
            start = random.randint(share.start + 1, share.end - 1)
            there = [s for s in device.shares if s.start <= start < s.end]
            if any(s.end == self.until for s in there):
                continue  # it may be one without an end, which would give way
            free = next(era[2] for era in device.eras if era[0] <= start < era[1]) - sum(s.units for s in there)
            event = self._writer(self._name("uid"))
            if share.partition and random.random() < 0.7:
                event("started", start, device.id, share.partition, units=share.units)
            else:
                event("started", start, device.id, units=random.randint(free + 1, free + 3))
            event("finished", start + random.randint(1, 30 * HOUR))
        if random.random() < 0.1:
            event = self._writer(self._name("uid"))
            start = self._moment(self.start)
            event("started", start, "GPU-nobody-knows", units=1)
            event("finished", start + random.randint(1, HOUR))
        if random.random() < 0.1:
            event = self._writer(self._name("uid"))
            first = devices[0]
            early = first.changes[0]["ts"] - random.randint(1, HOUR)
            end = early + random.randint(1, 30 * HOUR)
            _, era_end, units = first.eras[0]
            if end <= era_end and first.free(early, end, units) >= 1:  # it holds, from the device's first row on
                event("started", early, first.id, units=1)
                event("finished", end)
                first.shares.append(_Share(early, end, first.id, "", 1, "uid-early"))
        if random.random() < 0.2:
            event = self._writer(self._name("uid"))
            start = self._moment(self.start)
            event("submitted", start)
            event(random.choice(("rejected", "cancelled")), start + random.randint(1, HOUR))

    def _momentary(self, devices: list[_Device]) -> None:
        """Jobs that end in the instant in which they start, mostly that of somebody else's start or end there: they
        held nothing, so nobody is refused for them."""
        random = self.random
        for _ in range(random.choice((0, 1, 3))):
            device = random.choice(devices)
            instants = [at for share in device.shares for at in (share.start, share.end)] or [self._moment(self.start)]
            at = min(random.choice(instants), self.until - 1)
            event = self._writer(self._name("uid"))
            event("submitted", at - random.choice((0, 1000)))
            event("started", at, device.id, units=device.units)
            event(random.choice(("finished", "failed", "cancelled", "preempted")), at)

    def _scramble_for(self, device: _Device) -> None:
        """Everybody claims what they like; who comes first (by time, then by name) gets it."""
        random = self.random
        for _ in range(random.randint(3, 15)):
            start, end = self._span(device.eras[0][0], device.eras[0][1])
            if end <= start:
                continue
            if device.shares and random.random() < 0.2:
                start = random.choice(device.shares).start
                end = max(end, start + 1)
            workload, units = self._name("uid"), random.randint(1, device.units)
            event = self._writer(workload)
            event("started", start, device.id, units=units)
            event("finished", end)
            device.shares.append(_Share(start, end, device.id, "", units, workload))

    # --- samples

    def _measure(self, device: _Device) -> None:
        """Streams of every sort: the job's own, the partition's, the device's; several at once, or none."""
        random = self.random
        several = {
            share.workload
            for share in device.shares
            for other in device.shares
            if share is not other and share.workload == other.workload and share.partition != other.partition
        }
        for share in random.sample(device.shares, len(device.shares)):
            streams = [("", share.workload), ("", "")]
            if share.partition:
                streams += [(share.partition, share.workload), (share.partition, "")]
                if several:
                    # One measurement for a job's two partitions of a device cannot be divided.
                    streams = [stream for stream in streams if stream[0]]
            for partition, workload in streams:
                if random.random() < 0.45:
                    lead, lag = random.randint(-HOUR, HOUR), random.randint(-HOUR, HOUR)
                    self._stream(device, partition, workload, share.start + lead, share.end + lag)
        if random.random() < 0.1 and not several:
            self._stream(device, "", self._name("uid-without-allocation"), self.start, self.until)

    def _stream(self, device: _Device, partition: str, workload: str, start: int, end: int) -> None:
        random = self.random
        count = random.randint(1, 60)
        interval = min(HOUR, max(500, (end - start) // count)) if random.random() < 0.6 else random.randint(500, HOUR)
        exact, unusable = random.random() < 0.2, random.choice((0, 0.05, 0.3))
        ts = start
        for _ in range(count):
            step = interval if exact else round(interval * random.uniform(0.7, 1.3))
            ts += step + (random.randint(0, 2 * HOUR) if random.random() < 0.05 else 0)
            if ts > end:
                break
            row = self._sample(device, partition, workload, ts, interval, unusable)
            self.facts.samples.append(row)
            if random.random() < 0.04:
                other = self._sample(
                    device, partition, workload, ts, random.choice((interval, random.randint(500, HOUR))), 0.3
                )
                self.facts.samples.append(other)

    def _sample(
        self, device: _Device, partition: str, workload: str, ts: int, interval: int, unusable: float
    ) -> Record:
        random = self.random
        if random.random() < unusable:
            state, utilization = random.choice(UNUSABLE), random.choice((None, None, 0.5))
        elif random.random() < 0.15:
            state, utilization = "idle", 0.0
        else:
            state, utilization = "ok", random.choice((0.0, 1.0, *(random.randint(0, 10**6) / 10**6 for _ in range(8))))
        return {
            "ts": ts,
            "interval_seconds": interval / 1000,
            "cluster": self.cluster,
            "node": device.changes[0]["node"],
            "device_id": device.id,
            "partition_id": partition,
            "workload_id": workload,
            "state": state,
            "utilization": utilization,
            "utilization_source": "test",
        }


# --- as the store takes them, and made smaller -----------------------------------------------------------------------

_TYPES = {
    "gpus": pa.float64(),
    "ts": pa.timestamp("ms", "UTC"),
    "interval_seconds": pa.float64(),
    "utilization": pa.float64(),
    "units": pa.int64(),
    "memory_bytes": pa.int64(),
    "preemptible": pa.bool_(),
}


def table(records: list[Record]) -> pa.Table:
    """Records as an Arrow table with the contract's columns."""
    columns = {name: pa.array([r[name] for r in records], _TYPES.get(name, pa.string())) for name in records[0]}
    return pa.table(columns)


def smaller(facts: Facts) -> Iterator[Facts]:
    """The same facts without one device, one allocation, one stream, or a half or a few of the samples."""
    for device in {row["device_id"] for row in facts.devices}:
        yield _without(facts, lambda row, device=device: row["device_id"] == device)
    for allocation in {row["allocation_id"] for row in facts.events}:
        kept = [row for row in facts.events if row["allocation_id"] != allocation]
        yield replace(facts, events=kept)
    streams = {(row["device_id"], row["partition_id"], row["workload_id"]) for row in facts.samples}
    for stream in streams:
        kept = [r for r in facts.samples if (r["device_id"], r["partition_id"], r["workload_id"]) != stream]
        yield replace(facts, samples=kept)
    ordered = sorted(facts.samples, key=lambda row: row["ts"])
    for parts in (2, 4, 8, 16):
        size = -(-len(ordered) // parts) or 1
        for start in range(0, len(ordered), size):
            yield replace(facts, samples=ordered[:start] + ordered[start + size :])
    for kind in ("devices", "events", "samples"):
        unique = [dict(pairs) for pairs in {tuple(row.items()): None for row in getattr(facts, kind)}]
        if len(unique) < len(getattr(facts, kind)):
            yield replace(facts, **{kind: unique})


def _without(facts: Facts, gone: Callable[[Record], bool]) -> Facts:
    return Facts(*([row for row in rows if not gone(row)] for rows in (facts.devices, facts.events, facts.samples)))


def rename(facts: Facts, cluster: str) -> Facts:
    """The same facts in another cluster."""
    return Facts(
        *([{**row, "cluster": cluster} for row in rows] for rows in (facts.devices, facts.events, facts.samples))
    )


def iso(instant: int) -> str:
    """2025-10-24T00:00:00.000Z"""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=instant)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
