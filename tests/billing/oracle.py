"""The books by brute force: an independent calculation of what the ledger must say.

Written from the rules of the money alone, without the engine and without a line of `billing`: plain integers of
milliseconds and millionths, one instant-to-instant step at a time, on records as a reader would type them (dicts with
the contract's columns; `ts` in milliseconds since 1970). Slow and short; what it says wins.

    entries = books(facts, rates, until=ms("2025-10-26T00:00:00Z"), zone="Europe/Berlin")
"""

from __future__ import annotations

import csv
import gzip
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

Record = dict[str, Any]

HOUR = 3_600_000
MICRO = 1_000_000
"""Utilizations have at most six decimals here, so that used time is a whole number of unit-millisecond-millionths."""
USABLE = ("ok", "idle")
TERMINAL = ("preempted", "finished", "failed", "cancelled", "rejected")


class Entry(NamedTuple):
    """What the books are kept by: one hour and local day of one holder on one device at one price.

    The platform's own time has an empty allocation.
    """

    cluster: str
    device: str
    hour: int
    day: str
    tenant: str
    project: str
    workload: str
    allocation: str
    partition: str
    device_units: int
    model: str
    pool: str
    sku: str
    price: Fraction | None
    contracted: Fraction | None


@dataclass
class Kinds:
    """Unit-milliseconds of each kind; used ones in millionths of them."""

    used_micro: int = 0
    covered: int = 0
    unmetered: int = 0
    unallocated: int = 0
    unavailable: int = 0

    @property
    def used(self) -> Fraction:
        return Fraction(self.used_micro, MICRO)

    @property
    def idle(self) -> Fraction:
        return self.covered - self.used

    @property
    def allocated(self) -> int:
        return self.covered + self.unmetered

    @property
    def capacity(self) -> int:
        return self.allocated + self.unallocated + self.unavailable


@dataclass
class Facts:
    """The records of one store, or of one fleet of it."""

    devices: list[Record] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    samples: list[Record] = field(default_factory=list)

    def __add__(self, other: Facts) -> Facts:
        return Facts(self.devices + other.devices, self.events + other.events, self.samples + other.samples)


@dataclass(frozen=True)
class Claim:
    """A share of one device, asked for during [start, end)."""

    start: int
    end: int
    cluster: str
    allocation: str
    workload: str
    tenant: str
    project: str
    device: str
    partition: str
    profile: str
    units: int | None


@dataclass(frozen=True)
class Phase:
    """What a device is during [start, end)."""

    start: int
    end: int
    units: int
    model: str
    pool: str
    state: str


@dataclass(frozen=True)
class Cover:
    """A usable measurement of (start, end], in millionths of what its stream names."""

    start: int
    end: int
    utilization: int


def books(facts: Facts, rates: Iterable[Mapping[str, Any]], until: int, zone: str = "UTC") -> dict[Entry, Kinds]:
    """Every unit-millisecond of every device up to `until`, accounted for exactly once."""
    price_list = [Rate.read(rate) for rate in rates]
    phases = _phases(facts.devices, until)
    held = _by_device(_admitted(_claims(facts.events, until), phases))
    covers = _covers(facts.samples)
    entries: dict[Entry, Kinds] = defaultdict(Kinds)
    for device, device_phases in phases.items():
        _book_device(
            entries, device, device_phases, held.get(device, []), covers.get(device, {}), price_list, until, zone
        )
    return {entry: kinds for entry, kinds in entries.items() if kinds.capacity}


# --- devices ---------------------------------------------------------------------------------------------------------


def _phases(devices: list[Record], until: int) -> dict[tuple[str, str], list[Phase]]:
    """A device's row holds until its next."""
    rows: dict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
    for row in devices:
        rows[row["cluster"], row["device_id"]][row["ts"]] = row
    phases = {}
    for device, by_ts in rows.items():
        starts = sorted(by_ts)
        phases[device] = [
            Phase(start, end, by_ts[start]["units"], by_ts[start]["model"], by_ts[start]["pool"], by_ts[start]["state"])
            for start, end in zip(starts, [*starts[1:], max(until, starts[-1])], strict=True)
        ]
    return phases


def _phase_at(phases: list[Phase], instant: int) -> Phase | None:
    """What the device is at this instant; none before its first row and while it is removed."""
    last = None
    for phase in phases:
        if phase.start <= instant:
            last = phase
    return last if last and last.state != "removed" else None


# --- claims ----------------------------------------------------------------------------------------------------------


def _claims(events: list[Record], until: int) -> list[Claim]:
    """The life of every allocation, as the shares it asked for."""
    lives: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for event in events:
        lives[event["cluster"], event["allocation_id"]].append(event)
    return [claim for life in lives.values() for claim in _claims_of(life, until)]


def _claims_of(life: list[Record], until: int) -> Iterator[Claim]:
    Place = tuple[str, str]  # noqa: N806
    ends = [event["ts"] for event in life if event["event"] in TERMINAL]
    starts = [event["ts"] for event in life if event["event"] in ("started", "resized", "resumed")]
    if ends and starts and max(ends) < min(starts):
        return  # It ended before it started: impossible, and refused.
    held: dict[Place, tuple[int, Record]] = {}
    suspended: dict[Place, Record] = {}

    def release(end: int) -> list[Claim]:
        ended = [_claim(row, start, end) for start, row in held.values() if start < end]
        held.clear()
        return ended

    for ts in sorted({event["ts"] for event in life}):
        now = [event for event in life if event["ts"] == ts]
        kinds = {event["event"] for event in now}
        ended, was_open = bool(kinds & set(TERMINAL)), bool(held or suspended)
        if ended:
            yield from release(ts)
            suspended.clear()
        if "suspended" in kinds:
            suspended = {place: row for place, (_, row) in held.items()}
            yield from release(ts)
        if "resumed" in kinds:
            held.update({place: (ts, row) for place, row in suspended.items()})
            suspended = {}
        if "resized" in kinds and held:
            yield from release(ts)
        for event in now:
            placed = event["device_id"], event["partition_id"]
            if ended and not (was_open and event["event"] == "started"):
                continue  # it ended in the instant of its start: it held nothing
            if event["event"] in ("started", "resized") and placed not in held:
                held[placed] = ts, event
    yield from release(until)


def _claim(row: Record, start: int, end: int) -> Claim:
    return Claim(
        start,
        end,
        row["cluster"],
        row["allocation_id"],
        row["workload_id"],
        row["tenant"],
        row["project"],
        row["device_id"],
        row["partition_id"],
        row.get("partition_profile") or "",
        row["units"],
    )


def _admitted(claims: list[Claim], phases: dict[tuple[str, str], list[Phase]]) -> list[Claim]:
    """First come, first served; what does not fit when it starts is refused for its whole time, what no longer fits
    once the device has fewer units from then on. Of stamps of whole seconds that overlap by one, the start counts."""
    admitted: list[Claim] = []

    def fits(claim: Claim, units: int, phase: Phase, others: list[Claim]) -> bool:
        taken = any(claim.partition and other.partition == claim.partition for other in others)
        return not taken and sum(other.units or 0 for other in others) + units <= phase.units

    def shrink(device: tuple[str, str], until: float) -> None:
        for phase in phases.get(device, []):
            if phase.state == "removed" or phase.start > until:
                continue
            free = phase.units
            for number, claim in enumerate(admitted):
                if (claim.cluster, claim.device) != device or not claim.start < phase.start < claim.end:
                    continue
                if (claim.units or 0) <= free:
                    free -= claim.units or 0
                else:
                    admitted[number] = Claim(**{**vars(claim), "end": phase.start})

    for claim in sorted(claims, key=lambda claim: (claim.start, claim.allocation, claim.device, claim.partition)):
        shrink((claim.cluster, claim.device), claim.start)
        life = [phase for phase in phases.get((claim.cluster, claim.device), []) if phase.state != "removed"]
        if not life:
            continue
        # A holder may be told of before its device is: what the device was first seen with counts until then.
        phase = max((phase for phase in life if phase.start <= claim.start), key=lambda at: at.start, default=life[0])
        units = phase.units if claim.units is None else claim.units
        there = [
            other
            for other in admitted
            if (other.cluster, other.device) == (claim.cluster, claim.device) and other.end > claim.start
        ]
        leaving = [
            other
            for other in there
            if (other.start, other.end) < (claim.start, claim.end)
            and claim.start % 1000 <= 1
            and other.end == claim.start // 1000 * 1000 + 1000
        ]
        if not fits(claim, units, phase, [other for other in there if other not in leaving]):
            continue
        for other in sorted(leaving, key=lambda one: (one.start, one.allocation, one.device, one.partition)):
            if not fits(claim, units, phase, there):
                there.remove(other)
                admitted[admitted.index(other)] = Claim(**{**vars(other), "end": claim.start})
        admitted.append(Claim(**{**vars(claim), "units": units}))
    for device in phases:
        shrink(device, float("inf"))
    return admitted


def _by_device(claims: list[Claim]) -> dict[tuple[str, str], list[Claim]]:
    groups: dict[tuple[str, str], list[Claim]] = defaultdict(list)
    for claim in claims:
        groups[claim.cluster, claim.device].append(claim)
    return groups


# --- samples ---------------------------------------------------------------------------------------------------------

Streams = dict[tuple[str, str], "list[Cover]"]
"""The usable measurements of one device by (partition, workload), in order of time, without overlaps."""


def _covers(samples: list[Record]) -> dict[tuple[str, str], Streams]:
    rows: dict[tuple[str, str], dict[tuple[str, str], dict[int, list[Record]]]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(list))
    )
    for row in samples:
        rows[row["cluster"], row["device_id"]][row["partition_id"], row["workload_id"]][row["ts"]].append(row)
    return {
        device: {stream: list(_covers_of_stream(by_ts)) for stream, by_ts in streams.items()}
        for device, streams in rows.items()
    }


def _covers_of_stream(by_ts: dict[int, list[Record]]) -> Iterator[Cover]:
    previous = 0
    for ts in sorted(by_ts):
        best = max(
            by_ts[ts], key=lambda row: (row["state"] in USABLE, row["utilization"] or 0, row["interval_seconds"])
        )
        start = max(previous, ts - round(best["interval_seconds"] * 1000))
        if best["state"] in USABLE and start < ts:
            yield Cover(start, ts, micro(best["utilization"] or 0))
        previous = ts


def _measured_by(claim: Claim, holders: list[Claim]) -> Iterator[tuple[str, str]]:
    """The streams that speak for this claim, the most telling first."""
    if claim.partition:
        yield claim.partition, claim.workload
        if {other.workload for other in holders if other.partition == claim.partition} == {claim.workload}:
            yield claim.partition, ""
    yield "", claim.workload
    if {other.workload for other in holders} == {claim.workload}:
        yield "", ""


# --- prices ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    sku: str
    match: Mapping[str, str]
    price: Fraction
    start: int
    end: int

    @classmethod
    def read(cls, rate: Mapping[str, Any]) -> Rate:
        return cls(
            rate["sku"],
            rate.get("match") or {},
            Fraction(rate["price_per_gpu_hour"]),
            ms(rate["effective_from"]),
            ms(rate["effective_to"]) if rate.get("effective_to") else 1 << 62,
        )

    def applies(self, instant: int, about: Mapping[str, str]) -> bool:
        return self.start <= instant < self.end and all(
            fnmatchcase(about[name], glob) for name, glob in self.match.items()
        )


def _price(rates: list[Rate], instant: int, **about: str) -> tuple[str, Fraction | None, Fraction | None]:
    """The sku, the list price (which no tenant negotiated) and the contracted price.

    The first rate that fits wins: the cards here name the particular before the general, so it is also the closest.
    """
    fitting = [rate for rate in rates if rate.applies(instant, about)]
    public = next((rate.price for rate in fitting if "tenant" not in rate.match), None)
    return (fitting[0].sku, public, fitting[0].price) if fitting else ("", None, None)


# --- the books -------------------------------------------------------------------------------------------------------


def _book_device(
    entries: dict[Entry, Kinds],
    device: tuple[str, str],
    phases: list[Phase],
    claims: list[Claim],
    streams: Streams,
    rates: list[Rate],
    until: int,
    zone: str,
) -> None:
    """Steps from change to change of anything at all; in between nothing changes."""
    first = phases[0].start
    changes = {first, until, *_hours(first, until), *_midnights(first, until, zone)}
    changes |= {phase.start for phase in phases}
    changes |= {edge for claim in claims for edge in (claim.start, claim.end)}
    changes |= {edge for covers in streams.values() for cover in covers for edge in (cover.start, cover.end)}
    changes |= {edge for rate in rates for edge in (rate.start, rate.end)}
    steps = sorted(edge for edge in changes if first <= edge <= until)
    for start, end in pairwise(steps):
        phase = _phase_at(phases, start)
        if phase is not None:
            _book_step(
                entries,
                device,
                phase,
                [c for c in claims if c.start <= start < c.end],
                streams,
                rates,
                start,
                end,
                zone,
            )


def _book_step(
    entries: dict[Entry, Kinds],
    device: tuple[str, str],
    phase: Phase,
    holders: list[Claim],
    streams: Streams,
    rates: list[Rate],
    start: int,
    end: int,
    zone: str,
) -> None:
    length = end - start
    day = datetime.fromtimestamp(start / 1000, ZoneInfo(zone)).date().isoformat()

    def kinds(holder: Claim | None) -> Kinds:
        prices = _price(
            rates,
            start,
            model=phase.model,
            pool=phase.pool,
            partition_profile=holder.profile if holder else "",
            tenant=holder.tenant if holder else "",
        )
        who = (
            (holder.tenant, holder.project, holder.workload, holder.allocation, holder.partition)
            if holder
            else ("", "", "", "", "")
        )
        return entries[Entry(*device, start // HOUR * HOUR, day, *who, phase.units, phase.model, phase.pool, *prices)]

    if phase.state == "unavailable":
        kinds(None).unavailable += phase.units * length
        return
    free = phase.units
    for claim in holders:
        units = claim.units or 0
        free -= units
        spoken = next(
            ((stream, c) for stream in _measured_by(claim, holders) for c in [_cover_at(streams, stream, start)] if c),
            None,
        )
        if spoken is None:
            kinds(claim).unmetered += units * length
            continue
        (partition, _), cover = spoken
        rate = cover.utilization * units if partition else min(cover.utilization * phase.units, units * MICRO)
        kinds(claim).covered += units * length
        kinds(claim).used_micro += rate * length
    if free:
        kinds(None).unallocated += free * length


def _cover_at(streams: Streams, stream: tuple[str, str], instant: int) -> Cover | None:
    """The measurement that covers the time just after this instant."""
    covers = streams.get(stream, [])
    place = bisect_left(covers, instant + 1, key=lambda cover: cover.end)
    return covers[place] if place < len(covers) and covers[place].start <= instant else None


# --- time and numbers ------------------------------------------------------------------------------------------------


def ms(value: str | datetime) -> int:
    """An instant as milliseconds since 1970, without a float on the way."""
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def micro(value: float | str) -> int:
    """A utilization in millionths; more decimals than that have no place here."""
    millionths = round(float(value) * MICRO)
    assert abs(float(value) - millionths / MICRO) < 1e-12, f"{value} has more than six decimals"
    return millionths


def _hours(start: int, end: int) -> Iterator[int]:
    yield from range(-(-start // HOUR) * HOUR, end, HOUR)


def _midnights(start: int, end: int, zone: str) -> Iterator[int]:
    day = datetime.fromtimestamp(start / 1000, ZoneInfo(zone)).date()
    while True:
        day += timedelta(days=1)
        midnight = ms(datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone)))
        if midnight >= end:
            return
        yield midnight


# --- what a report says ----------------------------------------------------------------------------------------------


@dataclass
class Line:
    """GPU-hours and money of a report's row, exact."""

    allocated: Fraction = Fraction()
    used: Fraction = Fraction()
    idle: Fraction = Fraction()
    unmetered: Fraction = Fraction()
    unallocated: Fraction = Fraction()
    unavailable: Fraction = Fraction()
    capacity: Fraction = Fraction()
    allocated_cost: Fraction = Fraction()
    billed_cost: Fraction = Fraction()
    unallocated_cost: Fraction = Fraction()
    unavailable_cost: Fraction = Fraction()

    @property
    def cost(self) -> Fraction:
        return self.allocated_cost + self.unallocated_cost + self.unavailable_cost


def report(
    entries: Mapping[Entry, Kinds], within: Callable[[Entry], bool] = lambda _: True
) -> tuple[dict[str, Line], Line]:
    """The tenants' lines and the fleet's, from the entries that are `within`."""
    tenants: dict[str, Line] = defaultdict(Line)
    fleet = Line()
    for entry, kinds in entries.items():
        if within(entry):
            _add(fleet, entry, kinds)
            if entry.allocation:
                _add(tenants[entry.tenant], entry, kinds)
    return dict(tenants), fleet


def _add(line: Line, entry: Entry, kinds: Kinds) -> None:
    unit = Fraction(1, entry.device_units * HOUR)
    price = entry.price or Fraction()
    for name in ("allocated", "used", "idle", "unmetered", "unallocated", "unavailable", "capacity"):
        setattr(line, name, getattr(line, name) + getattr(kinds, name) * unit)
    line.billed_cost += kinds.allocated * unit * (entry.contracted or 0)
    for name in ("allocated", "unallocated", "unavailable"):
        setattr(line, f"{name}_cost", getattr(line, f"{name}_cost") + getattr(kinds, name) * unit * price)


# --- files -----------------------------------------------------------------------------------------------------------


def read_facts(folder: Path) -> Facts:
    """The records of a worked example: devices*.csv.gz, events*.csv.gz, samples*.csv.gz."""
    return Facts(*(list(_read(folder, kind)) for kind in ("devices", "events", "samples")))


def _read(folder: Path, kind: str) -> Iterator[Record]:
    for path in sorted(folder.glob(f"{kind}*.csv.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                record: Record = dict(row)
                record["ts"] = ms(row["ts"])
                if kind == "samples":
                    record["interval_seconds"] = float(row["interval_seconds"])
                    record["utilization"] = float(row["utilization"]) if row["utilization"] else None
                else:
                    record["units"] = int(row["units"]) if row["units"] else None
                yield record
