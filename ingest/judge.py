"""Decides what happens to each pushed row: store it, quarantine it (its sender may not write it), hold it for approval,
or skip it as a duplicate.

Nearly every push is stored whole after a few comparisons of distinct values; only doubtful rows are examined one by one
and looked up in the store.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

import numpy as np
import pyarrow as pa

from ingest.columns import one_array
from ingest.held import (
    ACCEPTED,
    HELD,
    MOST_HELD,
    REFUSED,
    TOO_MANY,
    hash_of,
    hold,
    known,
    raw_of,
    refused_times,
    waiting,
)
from ingest.inventory import Inventory
from ingest.issued_months import BooksVersion, IssuedGuard
from ingest.normalise import Clean
from ingest.permissions import (
    ALL,
    ALLOCATION_ELSEWHERE,
    Doubt,
    Permissions,
    beyond_window,
    distinct,
    fits,
    out_of_place,
    placed_elsewhere,
)
from ingest.pieces import Reject
from ingest.senders import Sender
from ingest.stored_already import stored_already
from warehouse.records import RecordType
from warehouse.store import Store, read_sql

ASKED_AT_ONCE = 5000
"""Names in one query."""
REFUSALS_SECONDS = 1.0
"""How old the answer may be to when the rows were that somebody refused."""
Doubts = dict[int, Doubt]
"""By the row's index in the table."""


@dataclass(frozen=True)
class Judged:
    """clean: what to write, with the rows for the quarantine.   held: number of rows by reason.   refused: rows that a
    person refused before.   known: rows that are stored already.   version: of the books that it was judged by; if
    they change before it is written, it must be judged again. None: it does not depend on the books."""

    clean: Clean
    held: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    known: int = 0
    version: BooksVersion | None = None


class _Undecided:
    """The rows that no check has singled out so far."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table
        self._places = np.arange(len(table))

    def without(self, found: Mapping[int, Doubt]) -> Doubts:
        """Removes rows, given by their index here; returns them by their index in the whole table."""
        if not found:
            return {}
        taken = {int(self._places[index]): doubt for index, doubt in found.items()}
        keep = np.ones(len(self._places), bool)
        keep[list(found)] = False
        self._places = self._places[keep]
        self.table = self.table.filter(pa.array(keep))
        return taken


class Judge:
    """store: a connection that nobody else waits for long."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = IssuedGuard(store)
        self._refusals: tuple[float, dict[tuple[str, str], list[int]]] = -REFUSALS_SECONDS, {}
        self.inventory = Inventory(store)

    def judge(
        self,
        sender: Sender,
        record: RecordType,
        source: str,
        clean: Clean,
        now: datetime,
        first: int = 1,
        fresh: bool = False,
    ) -> Judged:
        """Judges a table of rows; held rows are in the store when it returns.

        first: number of the first row, good or bad.   fresh: judge by the books of this instant, not by cached ones.
        """
        left, permissions = _Undecided(clean.table), sender.permissions
        refused = left.without(self._refused(sender, record, left.table, fresh))
        out = left.without(out_of_place(permissions, record, left.table))
        doubts = left.without(beyond_window(permissions, record, left.table, now))
        if placed_elsewhere(permissions, record, left.table, self.inventory.known):
            # The cache may be stale, so check again before doubting anybody.
            doubts |= left.without(placed_elsewhere(permissions, record, left.table, self.inventory.asked))
        if record.name == "events" and permissions.nodes != ALL and len(left.table):
            doubts |= left.without(self._allocated_elsewhere(permissions, left.table))
        guarded = self._guard.find_doubtful(record, left.table, now, fresh)
        doubts |= left.without(guarded.doubts)
        if not out and not doubts and not refused:
            return Judged(clean, version=guarded.version)
        judged = self._hold_doubtful(sender, record, source, clean.table, doubts, out) if doubts else Judged(clean)
        judged = replace(judged, refused=judged.refused + len(refused))
        rejects = _rejects(clean, out, first)
        table = left.table.unify_dictionaries().combine_chunks()
        written = Clean(clean.rows - _unwritten(judged), table, rejects, clean.excess)
        return replace(judged, clean=written, version=guarded.version)

    def _refused(self, sender: Sender, record: RecordType, table: pa.Table, fresh: bool) -> Doubts:
        """Rows that somebody refused before, whether or not they would be held today."""
        read_at, refusals = self._refusals
        if fresh or time.monotonic() >= read_at + REFUSALS_SECONDS:
            read_at = time.monotonic()
            refusals = refused_times(self._store)
            self._refusals = read_at, refusals
        times = refusals.get((sender.name, record.name), [])
        if not times or not len(table):
            return {}
        stamps = one_array(table["ts"]).cast(pa.int64()).to_numpy()
        places = np.flatnonzero(np.isin(stamps, np.array(times, np.int64)))
        rows = table.take(pa.array(places)).to_pylist()
        hashes = {int(place): hash_of(row) for place, row in zip(places, rows, strict=True)}
        states = known(self._store, sender.name, record, sorted(set(hashes.values())))
        return {
            place: Doubt(REFUSED, "a person refused it before")
            for place, hash in hashes.items()
            if states.get(hash) == REFUSED
        }

    def _allocated_elsewhere(self, permissions: Permissions, table: pa.Table) -> Doubts:
        """Rows of allocations that were reported before on a node that is not the sender's."""
        codes, named = distinct(table, ("cluster", "allocation_id"))
        names = sorted({name for _, name in named})
        doubts: Doubts = {}
        for at in range(0, len(names), ASKED_AT_ONCE):
            asked = {"allocations": names[at : at + ASKED_AT_ONCE]}
            for row in self._store.rows(read_sql(__file__, "nodes_of_allocations"), asked):
                nodes = {*row["nodes"], *(where[1] for where in self.inventory.known(row["devices"]).values())}
                others = sorted(node for node in nodes if not fits(node, permissions.nodes))
                about = row["cluster"], row["allocation_id"]
                if others and about in named:
                    doubt = Doubt(ALLOCATION_ELSEWHERE, f"{about[1][:100]} is on {others[0][:100]}")
                    doubts |= {int(index): doubt for index in np.flatnonzero(codes == named.index(about))}
        return doubts

    def _hold_doubtful(
        self, sender: Sender, record: RecordType, source: str, table: pa.Table, doubts: Doubts, out: Doubts
    ) -> Judged:
        """Holds doubtful rows; those that cannot be held are added to `out`, for the quarantine."""
        rows = dict(zip(doubts, table.take(pa.array(list(doubts))).to_pylist(), strict=True))
        hashes = {place: hash_of(row) for place, row in rows.items()}
        before = known(self._store, sender.name, record, sorted(set(hashes.values())))
        new = [place for place in doubts if hashes[place] not in before]
        stored = {new[index] for index in stored_already(self._store, record, table.take(pa.array(new, pa.int64())))}
        fresh = [place for place in new if place not in stored]
        room = MOST_HELD - waiting(self._store, sender.name) if fresh else 0
        if sender.permissions.past == "refused":
            out |= {place: doubts[place] for place in fresh}
            fresh = []
        out |= {
            place: Doubt(TOO_MANY, f"{MOST_HELD} rows of the sender wait already") for place in fresh[max(0, room) :]
        }
        fresh = fresh[: max(0, room)]
        if fresh:
            hold(self._store, sender.name, record, source, {hashes[n]: (rows[n], doubts[n]) for n in fresh})
        states = Counter(before[hashes[place]] for place in doubts if hashes[place] in before)
        again = [place for place in doubts if before.get(hashes[place]) == HELD]
        held = Counter(doubts[place].reason for place in [*fresh, *again])
        return Judged(Clean(0, table, [], {}), held, states[REFUSED], states[ACCEPTED] + len(stored))


def _unwritten(judged: Judged) -> int:
    return sum(judged.held.values()) + judged.refused + judged.known


def _rejects(clean: Clean, out: Doubts, first: int) -> list[Reject]:
    """The rejects, together with the rows that the sender may not write."""
    if not out:
        return clean.rejects
    bad = {reject.row for reject in clean.rejects}
    numbers = [number for number in range(first, first + clean.rows) if number not in bad]
    rows = clean.table.take(pa.array(list(out))).to_pylist()
    more = [
        Reject(numbers[place], doubt.reason, doubt.detail, raw_of(row))
        for (place, doubt), row in zip(out.items(), rows, strict=True)
    ]
    return sorted([*clean.rejects, *more], key=lambda reject: reject.row)
