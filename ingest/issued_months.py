"""Finds pushed rows that could change an issued month, so that they are held for approval.

Usually a row's own time decides: a sample's interval, or all that an event or a device row begins or ends. But some
rows of today reach back, because the books estimate what nobody reported (docs/ledger.md): a sign of life moves an end
that counted as lost; a workload's sample names the device of an allocation that was reported with a node only; a later
event fills in the tenant that the first one left out. For these cases the store is queried, as of the last close, and
only about what a push names and was not checked before.

If it is expensive to know whether a row changes anything, the row is held: the person who decides sees its effect.
billing/close/issued.py is the second check, at the close.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.columns import one_array
from ingest.permissions import ISSUED_MONTH, Doubt, distinct
from warehouse.instants import epoch_ms, of_epoch_ms
from warehouse.records import PLACING_EVENTS, RecordType
from warehouse.store import Store, read_sql

MONEY = ("samples", "events", "devices", "service_levels")
"""Record types that affect money: the books, or credits for missed service levels, are computed from them."""
LOOKED_SECONDS = 1.0
"""For rows of the current month: how old the cached list of issued months may be."""
HOUR_MS = 3_600_000
"""The longest interval of a sample."""
SILENCE_MS = 24 * HOUR_MS
"""As in billing/close: an open claim whose own samples stopped so long before its device's has lost its end."""
REMEMBERED = 500_000
ASKED_AT_ONCE = 5000
"""Names in one query."""

Span = tuple[int, int]
"""[start, end) in ms since the epoch."""
Stream = tuple[str, str, str]
"""Cluster, device, workload."""
Mask = npt.NDArray[np.bool_]


class BooksVersion(NamedTuple):
    """Changes whenever an invoice is issued or voided, and with each close."""

    invoices: int
    voided: int
    run: int
    closed_until: datetime
    cutoff: datetime


def books_version(store: Store) -> BooksVersion:
    (row,) = store.rows(read_sql(__file__, "books_version"))
    return BooksVersion(**row)


def issued_months(store: Store) -> tuple[Span, ...]:
    """The months with an invoice that is not void, in order."""
    rows = store.rows(read_sql(__file__, "issued_months"))
    return tuple((epoch_ms(row["period_start"]), epoch_ms(row["period_end"])) for row in rows)


@dataclass
class Issued:
    """The issued months, and what could still change them; cached for one version of the books.

    months: that are issued.   until: end of the last of them, ms.
    undecided: by cluster, node and device (one of the two ''): reports about times before this instant (ms) may change
        how a claim in an issued month is decided.
    silent: by device, the workloads that hold it but were last sampled before `until`, with their last sample.
    beside: the same for workloads that began later on a node where a claim of an issued month is undecided.
    innocent: streams that were checked: their samples from `until` on change nothing before it.
    minimum_ms: shorter sessions are charged as this long.   by_length: a discount depends on a session's length.
    """

    version: BooksVersion | None = None
    months: tuple[Span, ...] = ()
    undecided: dict[Stream, int] = field(default_factory=dict)
    silent: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    beside: dict[tuple[str, str], dict[str, int]] = field(default_factory=dict)
    innocent: set[Stream] = field(default_factory=set)
    minimum_ms: int = 0
    by_length: bool = False

    @property
    def until(self) -> int:
        return max((end for _, end in self.months), default=0)

    def matters(self, ts: int, cluster: str, places: Iterable[tuple[str, str]]) -> bool:
        """Whether a report about this instant on these nodes and devices may change an issued month."""
        return any(
            ts < max(self.undecided.get((cluster, node, ""), 0), self.undecided.get((cluster, "", device), 0))
            for node, device in places
        )

    @property
    def until_at(self) -> datetime:
        return of_epoch_ms(self.until)


@dataclass(frozen=True)
class GuardResult:
    """doubts: rows that could change an issued month, and how.   version: of the books that were checked; None: the
    result does not depend on them."""

    doubts: dict[int, Doubt]
    version: BooksVersion | None = None


class IssuedGuard:
    """Caches what it needs to know about issued months. clock: monotonic seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock = store, clock
        self._lock = threading.Lock()
        self._issued = Issued()
        self._looked_at = -LOOKED_SECONDS

    def find_doubtful(self, record: RecordType, table: pa.Table, now: datetime, fresh: bool = False) -> GuardResult:
        """Finds the rows that could change an issued month.

        fresh: check against the books of this instant; else rows of the current month against those of a second ago.
        """
        if record.name not in MONEY or not len(table):
            return GuardResult({})
        measured = record.name in ("samples", "service_levels")
        # Of a month that is not over nothing can be issued, wherever its midnight is.
        over = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0) - timedelta(hours=14)
        longest = timedelta(seconds=record.column("interval_seconds").maximum or 0) if measured else timedelta()
        issued = self.issued(fresh or pc.min(table["ts"]).as_py() - longest < over)
        if not issued.months:
            return GuardResult({}, issued.version)
        ends = one_array(table["ts"]).cast(pa.int64()).to_numpy()
        starts = ends
        if measured:
            starts = ends - np.ceil(one_array(table["interval_seconds"]).to_numpy() * 1000).astype(np.int64)
        within = _within(record, starts, ends, issued)
        doubts = {
            int(index): Doubt(ISSUED_MONTH, f"reaches into {_month(issued, int(starts[index]))}, which is issued")
            for index in np.flatnonzero(within)
        }
        later = np.flatnonzero(~within)
        if len(later):
            looks = {"samples": self._of_samples, "events": self._of_events, "devices": self._of_devices}
            if find_doubtful := looks.get(record.name):
                rest = table if len(later) == len(table) else table.take(pa.array(later))
                doubts |= {int(later[index]): doubt for index, doubt in find_doubtful(rest, issued).items()}
            if record.name == "samples":
                doubts |= self._of_cut_samples(table, ends, later, issued)
        return GuardResult(doubts, issued.version)

    def issued(self, fresh: bool) -> Issued:
        with self._lock:
            if not fresh and self._clock() < self._looked_at + LOOKED_SECONDS:
                return self._issued
            self._looked_at = self._clock()
            version = books_version(self._store)
            if version != self._issued.version:
                self._issued = self._read(version)
            elif len(self._issued.innocent) > REMEMBERED:
                self._issued.innocent = set()
            return self._issued

    def _read(self, version: BooksVersion) -> Issued:
        issued = Issued(version, issued_months(self._store))
        if issued.months:
            for row in self._asked("undecided", issued):
                issued.undecided[row["cluster"], row["node"], row["device_id"]] = row["decided_ms"]
            for row in self._asked("silent_claims", issued):
                issued.silent.setdefault((row["cluster"], row["device_id"]), {})[row["workload_id"]] = row["last_ms"]
            issued.beside = self._beside(issued)
            (card,) = self._asked("sessions_matter", issued)
            issued.minimum_ms, issued.by_length = card["minimum_ms"], bool(card["by_length"])
            if issued.until == self._issued.until:
                issued.innocent = self._issued.innocent
        return issued

    def _asked(self, name: str, issued: Issued, **params: Any) -> list[dict[str, Any]]:
        """The rows of a query beside this module; long parameter lists are split over several queries."""
        for key, value in params.items():
            if isinstance(value, set) and len(value) > ASKED_AT_ONCE:
                names = sorted(value)
                parts = (set(names[: len(names) // 2]), set(names[len(names) // 2 :]))
                return [row for part in parts for row in self._asked(name, issued, **{**params, key: part})]
        lists = {key: sorted(value) if isinstance(value, set) else value for key, value in params.items()}
        return self._store.rows(read_sql(__file__, name), {"until": issued.until_at, **lists})

    def _of_samples(self, table: pa.Table, issued: Issued) -> dict[int, Doubt]:
        codes, streams = distinct(table, ("cluster", "device_id", "workload_id"))
        doubts: dict[int, Doubt] = {}
        new = {(c, d, w) for c, d, w in streams if w} - issued.innocent
        changing = self._changing_the_past(new, issued) if new else {}
        issued.innocent |= new - changing.keys()
        for code, stream in enumerate(streams):
            if doubt := changing.get(_stream(stream)):
                doubts |= {int(index): doubt for index in np.flatnonzero(codes == code)}
        if issued.silent and (named := {stream[:2] for stream in streams} & issued.silent.keys()):
            doubts |= self._silenced(table, codes, streams, set(streams) - changing.keys(), named, issued)
        if issued.beside and (named := {stream[:2] for stream in streams} & issued.beside.keys()):
            doubts |= self._left_behind(table, codes, streams, named, issued)
        return doubts

    def _left_behind(
        self,
        table: pa.Table,
        codes: npt.NDArray[np.int64],
        streams: list[tuple[str, ...]],
        named: Collection[tuple[str, ...]],
        issued: Issued,
    ) -> dict[int, Doubt]:
        """Rows that would make a later, silent holder count as gone; its device could then be given to an allocation of
        an issued month that was reported with a node only."""
        doubts: dict[int, Doubt] = {}
        times = one_array(table["ts"]).cast(pa.int64()).to_numpy()
        for cluster, device in named:
            others = [number for number, stream in enumerate(streams) if stream[:2] == (cluster, device)]
            of_device = np.isin(codes, others)
            holders = issued.beside[cluster, device]
            if times[of_device].max() - min(holders.values()) < SILENCE_MS:
                continue
            holders.update(self._beside(issued, [device]).get((cluster, device), {}))
            for workload, last in holders.items():
                own = np.isin(codes, [number for number in others if streams[number][2] == workload])
                last = max(last, int(times[own].max(initial=0)))
                for index in np.flatnonzero(of_device & (times - last >= SILENCE_MS)):
                    doubts[int(index)] = _doubt(f"{workload} on {device} would count as gone")
        return doubts

    def _beside(self, issued: Issued, devices: Sequence[str] = ()) -> dict[tuple[str, str], dict[str, int]]:
        """By device, its holders since after the issued months on a node where a claim of those months is undecided,
        with their last samples (ms)."""
        places = sorted({(cluster, node) for cluster, node, _ in issued.undecided if node})
        found: dict[tuple[str, str], dict[str, int]] = {}
        if places:
            clusters, nodes = ([place[at] for place in places] for at in (0, 1))
            for row in self._asked("open_beside", issued, clusters=clusters, nodes=nodes, devices=list(devices)):
                if issued.matters(row["last_ms"], row["cluster"], {(row["node"], row["device_id"])}):
                    found.setdefault((row["cluster"], row["device_id"]), {})[row["workload_id"]] = row["last_ms"]
        return found

    def _of_cut_samples(
        self, table: pa.Table, ends: npt.NDArray[np.int64], later: npt.NDArray[np.int64], issued: Issued
    ) -> dict[int, Doubt]:
        """Samples after an issued month that shorten the interval of a stored sample that covers the month's end."""
        doubts: dict[int, Doubt] = {}
        for _, over in issued.months:
            near = later[(ends[later] > over) & (ends[later] <= over + HOUR_MS)]
            if not len(near):
                continue
            rows = (
                table.select(["cluster", "device_id", "partition_id", "workload_id"]).take(pa.array(near)).to_pylist()
            )
            instant = of_epoch_ms(over)
            asked = self._asked("reaching_samples", issued, devices={row["device_id"] for row in rows}, instant=instant)
            last = {tuple(row.values())[:4]: row["last_ms"] for row in asked}
            for index, row in zip(near, rows, strict=True):
                if ends[index] <= last.get(tuple(row.values()), 0):
                    what = f"takes from what a sample of {row['device_id']} covers of a month issued"
                    doubts[int(index)] = _doubt(what)
        return doubts

    def _changing_the_past(self, streams: Collection[Stream], issued: Issued) -> dict[Stream, Doubt]:
        """Streams whose current samples would change an allocation's past, and how."""
        devices, workloads = {device for _, device, _ in streams}, {workload for _, _, workload in streams}
        lost = _streams(self._asked("lost_workloads", issued, devices=devices))
        old = {(r["cluster"], r["workload_id"]) for r in self._asked("old_workloads", issued, workloads=workloads)}
        changing: dict[Stream, Doubt] = {}
        unnamed = {stream for stream in streams if (stream[0], stream[2]) in old}
        if unnamed:
            asked = {"devices": {s[1] for s in unnamed}, "workloads": {s[2] for s in unnamed}, "since": issued.until_at}
            unnamed -= set(_streams(self._asked("sampled_pairs", issued, **asked)))
        for stream in streams:
            if stream in lost:
                changing[stream] = _doubt(f"a sign of life of {stream[2]}, whose end counts as lost in a month issued")
            elif stream in unnamed:
                changing[stream] = _doubt(f"names a device of {stream[2]}, which held one in a month issued")
        return changing

    def _silenced(
        self,
        table: pa.Table,
        codes: npt.NDArray[np.int64],
        streams: list[tuple[str, ...]],
        present: Collection[tuple[str, ...]],
        named: Collection[tuple[str, ...]],
        issued: Issued,
    ) -> dict[int, Doubt]:
        """Rows that would make a silent holder of the device count as gone since long ago."""
        doubts: dict[int, Doubt] = {}
        times = one_array(table["ts"]).cast(pa.int64()).to_numpy()
        for place in named:
            cluster, device = place
            holders = issued.silent[cluster, device]
            asked = {"devices": {device}, "workloads": set(holders), "since": issued.until_at}
            found = self._asked("sampled_pairs", issued, **asked)
            alive = {
                row["workload_id"] for row in found if row["first_since"] is not None and row["cluster"] == cluster
            }
            for workload, last in list(holders.items()):
                if workload in alive:
                    del holders[workload]
                if workload in alive or (cluster, device, workload) in present:
                    continue
                of_device = np.isin(codes, [n for n, stream in enumerate(streams) if stream[:2] == place])
                for index in np.flatnonzero(of_device & (times - last >= SILENCE_MS)):
                    doubts[int(index)] = _doubt(f"{workload} on {device} would count as gone in a month issued")
        return doubts

    def _of_events(self, table: pa.Table, issued: Issued) -> dict[int, Doubt]:
        names = ("cluster", "allocation_id", "event", "node", "device_id", "partition_id", "units", "ts")
        fillers = ("tenant", "project", "queue", "workload_id", "gpus", "priority", "preemptible")
        rows = table.select([*names, *fillers]).to_pylist()
        pasts = {
            (row["cluster"], row["allocation_id"]): row
            for row in self._asked("past_of_allocations", issued, allocations={row["allocation_id"] for row in rows})
        }
        going_on = {
            key: past for key, past in pasts.items() if past["placed"] and past["last_ended"] <= past["last_placed"]
        }
        known = {
            (row["cluster"], row["allocation_id"]): bool(row["doubtful"])
            for row in self._asked("doubtful_claims", issued, allocations={key[1] for key in going_on})
        }
        doubts: dict[int, Doubt] = {}
        for index, row in enumerate(rows):
            key = row["cluster"], row["allocation_id"]
            past = pasts.get(key)
            if past is None or not past["placed"]:
                continue
            if filled := _fills_in(row, past):
                doubts[index] = _doubt(f"fills in {filled} of {key[1]}, which held devices in a month issued")
            elif key in going_on and row["event"] != "submitted" and known.get(key, True):
                doubts[index] = _doubt(f"{key[1]} began in a month issued, and its end there is estimated")
            elif key in going_on and past["on_node"] and row["event"] in PLACING_EVENTS:
                doubts[index] = _doubt(f"{key[1]} began in a month issued, on a device that was assumed")
            elif key not in going_on and row["event"] in PLACING_EVENTS and _depends_on_length(past, issued):
                doubts[index] = _doubt(f"{key[1]} ended in a month issued, which is charged by how long it lasted")
        doubts |= self._late([(index, row) for index, row in enumerate(rows) if index not in doubts], issued)
        placing = [
            (index, row)
            for index, row in enumerate(rows)
            if row["event"] in PLACING_EVENTS and row["device_id"] and index not in doubts
        ]
        return doubts | self._in_the_way(placing, issued)

    def _late(self, rows: list[tuple[int, dict[str, Any]]], issued: Issued) -> dict[int, Doubt]:
        """Rows that arrive after later claims on the same device or node, where a claim of an issued month is
        undecided: they change the room that is left, so all those claims would be decided again."""
        rows = [(index, row) for index, row in rows if row["event"] != "submitted"] if issued.undecided else []
        if not rows:
            return {}
        places: dict[tuple[str, str], set[tuple[str, str]]] = {}
        reported = self._asked("places_of_allocations", issued, allocations={row["allocation_id"] for _, row in rows})
        backwards = {
            (place["cluster"], place["allocation_id"]): place["backwards_ms"]
            for place in reported
            if place["backwards_ms"] is not None
        }
        placings = [*reported, *(row for _, row in rows if row["device_id"] or row["node"])]
        for place in placings:
            places.setdefault((place["cluster"], place["allocation_id"]), set()).add(
                (place["node"], place["device_id"])
            )
        devices = {device for about in places.values() for _, device in about if device}
        stood: dict[tuple[str, str], set[str]] = {}
        for place in self._asked("places_of_devices", issued, devices=devices) if devices else []:
            stood.setdefault((place["cluster"], place["device_id"]), set()).update(place["nodes"])
        for (cluster, _), about in places.items():
            about |= {(node, device) for _, device in about for node in stood.get((cluster, device), ())}
        doubts: dict[int, Doubt] = {}
        for index, row in rows:
            key = row["cluster"], row["allocation_id"]
            if key in backwards and issued.matters(backwards[key], key[0], places[key]):
                what = f"{key[1]} would hold from its start on, where a claim of a month issued is undecided"
                doubts[index] = _doubt(what)
        late = [
            (index, row, about)
            for index, row in rows
            if index not in doubts
            and (about := places.get((row["cluster"], row["allocation_id"]), set()))
            and issued.matters(epoch_ms(row["ts"]), row["cluster"], about)
        ]
        if not late:
            return doubts
        asked = {
            "devices": {device for _, _, about in late for _, device in about},
            "nodes": {node for _, _, about in late for node, _ in about if node},
            "since": min(row["ts"] for _, row, _ in late),
        }
        after = self._asked("placed_since", issued, **asked)
        for index, row, about in late:
            nodes, held = {node for node, _ in about if node}, {device for _, device in about if device}
            for other in after:
                same = other["allocation_id"] == row["allocation_id"]
                if (
                    other["cluster"] == row["cluster"]
                    and (other["node"] in nodes or other["device_id"] in held)
                    and other["last_ms"] >= epoch_ms(row["ts"]) + same
                ):
                    what = (
                        f"comes after {other['allocation_id']} on {other['device_id']}, where a claim of a month issued"
                    )
                    doubts[index] = _doubt(f"{what} is undecided")
                    break
        return doubts

    def _in_the_way(self, placing: list[tuple[int, dict[str, Any]]], issued: Issued) -> dict[int, Doubt]:
        """Rows that claim more of a device than an allocation of an issued month leaves, so that one must give way."""
        if not placing:
            return {}
        devices = {row["device_id"] for _, row in placing}
        since = min(row["ts"] for _, row in placing)
        holders: dict[tuple[str, str], list[dict[str, Any]]] = {}
        for holder in self._asked("holders", issued, devices=devices, since=since):
            holders.setdefault((holder["cluster"], holder["device_id"]), []).append(holder)
        if not any(holder["old"] or holder["open"] for held in holders.values() for holder in held):
            return {}
        on_node = {
            (row["cluster"], row["allocation_id"])
            for row in self._asked(
                "past_of_allocations",
                issued,
                allocations={h["allocation_id"] for held in holders.values() for h in held},
            )
            if row["on_node"]
        }
        asked = self._asked("places_of_devices", issued, devices=devices)
        stood = {(row["cluster"], row["device_id"]): row for row in asked}
        doubts: dict[int, Doubt] = {}
        for index, row in placing:
            held = holders.get((row["cluster"], row["device_id"]), [])
            for rival in held:
                if rival["allocation_id"] == row["allocation_id"]:
                    continue
                if rival["old"]:
                    what = f"{rival['allocation_id']} holds {row['device_id']} since a month issued, and would give way"
                    yields = (rival["cluster"], rival["allocation_id"]) in on_node or self._unseen(rival, row, issued)
                else:
                    # It would have held less of the device, which could go to what began before it on the node.
                    place = rival["cluster"], rival["device_id"]
                    around = {(node, place[1]) for node in stood[place]["nodes"]} if place in stood else set()
                    yields = rival["open"] and issued.matters(rival["start_ms"], rival["cluster"], around)
                    what = f"{rival['allocation_id']} would give way, and with it what began on the node before"
                if yields and not self._fits(row, held, [r for _, r in placing], issued):
                    doubts[index] = _doubt(what)
                    break
        return doubts

    def _unseen(self, rival: Mapping[str, Any], row: Mapping[str, Any], issued: Issued) -> bool:
        """Whether an open allocation would, for lack of a later sign of life, be ended within an issued month."""
        if not rival["open"]:
            return False
        asked = {"devices": {rival["device_id"]}, "workloads": {rival["workload_id"]}, "since": issued.until_at}
        for found in self._asked("sampled_pairs", issued, **asked):
            if found["cluster"] == rival["cluster"] and found["first_since"] is not None:
                return bool(found["first_since"] > row["ts"])
        return True

    def _fits(
        self,
        row: Mapping[str, Any],
        held: Iterable[Mapping[str, Any]],
        beside: Iterable[Mapping[str, Any]],
        issued: Issued,
    ) -> bool:
        """Whether the device has room for it besides all others that hold or claim some of it."""
        place = row["cluster"], row["device_id"]
        version = issued.version
        assert version is not None
        asked = {"devices": {row["device_id"]}, "since": version.closed_until, "cutoff": version.cutoff}
        claims = [*held, *beside, *self._asked("claimed_since", issued, **asked)]
        others: dict[tuple[str, str], int | None] = {}
        for one in claims:
            if (one["cluster"], one["device_id"]) == place and one["allocation_id"] != row["allocation_id"]:
                if row["partition_id"] and one["partition_id"] == row["partition_id"]:
                    return False
                others[one["allocation_id"], one["partition_id"]] = one["units"]
        about = {"cluster": row["cluster"], "device": row["device_id"]}
        room = self._store.value(read_sql(__file__, "least_units"), about) or 0
        wanted = [row["units"], *others.values()]
        return all(wanted) and sum(units or 0 for units in wanted) <= room

    def _of_devices(self, table: pa.Table, issued: Issued) -> dict[int, Doubt]:
        """A device that is added to a node could be given to an allocation that was reported with a node only."""
        codes, places = distinct(table, ("cluster", "node", "device_id"))
        if not issued.undecided:
            return {}
        asked = self._asked("places_of_devices", issued, devices={device for _, _, device in places})
        before = {(row["cluster"], row["device_id"]): row for row in asked}
        doubts: dict[int, Doubt] = {}
        columns = (table[name].to_pylist() for name in ("ts", "units", "state"))
        for index, (code, ts, has, state) in enumerate(zip(codes, *columns, strict=True)):
            cluster, node, device = places[code]
            past = before.get((cluster, device))
            stood = past["nodes"] if past else []
            is_there = past is not None and set(past["units"]) == {has}
            if is_there and past is not None:
                # A device that comes back is there from then on, as a new one is.
                is_there = node in stood if state == "removed" else _place_at(past["reported"], epoch_ms(ts)) == node
            if not is_there and issued.matters(epoch_ms(ts), cluster, {(one, device) for one in {node, *stood}}):
                doubts[index] = _doubt(f"{device} could be given to what began on {node} in a month issued")
        return doubts


def _place_at(reported: Sequence[tuple[int, str]], at: int) -> str:
    """The node of a device just before an instant; '' if none."""
    return next((node for since, node in reversed(reported) if since < at), "")


def _within(record: RecordType, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64], issued: Issued) -> Mask:
    """Rows whose own time reaches into an issued month. An event or a device row stays in effect after its time."""
    if record.name in ("events", "devices"):
        return ends < issued.until
    mask = np.zeros(len(ends), bool)
    for start, end in issued.months:
        mask |= (ends > start) & (starts < end)
    return mask


def _fills_in(row: Mapping[str, Any], past: Mapping[str, Any]) -> str:
    """What this row would fill in where earlier reports left a column empty: the least text, the greatest number."""
    for name in ("tenant", "project", "queue", "workload_id"):
        if row[name] and past[f"no_{name}"] and (not past[name] or row[name] < past[name]):
            return name
    for name in ("gpus", "priority"):
        if row[name] is not None and past[f"no_{name}"] and (past[name] is None or row[name] > past[name]):
            return name
    return "preemptible" if row["preemptible"] and not past["preemptible"] else ""


def _depends_on_length(past: Mapping[str, Any], issued: Issued) -> bool:
    """Whether a charge or a discount depends on the length of a session that ended in an issued month."""
    return issued.by_length or past["last_ended"] - past["first_placed"] < issued.minimum_ms


def _doubt(what: str) -> Doubt:
    return Doubt(ISSUED_MONTH, what)


def _stream(values: tuple[str, ...]) -> Stream:
    cluster, device, workload = values
    return cluster, device, workload


def _streams(rows: Iterable[Mapping[str, Any]]) -> set[Stream]:
    return {(row["cluster"], row["device_id"], row["workload_id"]) for row in rows}


def _month(issued: Issued, at: int) -> str:
    """The issued month that an instant lies in, or the next one."""
    start, end = min((span for span in issued.months if span[1] > at), default=issued.months[-1])
    return f"{datetime.fromtimestamp((start + end) / 2000, UTC):%Y-%m}"
