"""Held pushes: rows that await approval, and the decisions on them.

A *held push* is decided as a whole: the rows of one sender, record type, reason and subject (a device, an allocation, a
service). Its id changes when a row joins it, so that nobody approves rows that they have not seen.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

import pyarrow as pa

from ingest.batches import Batch, assemble
from ingest.errors import IngestError
from ingest.json_files import lines_piece
from ingest.normalise import normalise
from ingest.permissions import Doubt
from ingest.wire import plain
from ingest.write import is_begun, unacknowledge, write
from warehouse.records import NARROW, RECORD_TYPES, RecordType
from warehouse.store import Store, identifier, read_sql
from warehouse.turns import Held, HeldTogether

Decision = Literal["accepted", "refused"]
HELD = "held"
ACCEPTED: Decision = "accepted"
REFUSED: Decision = "refused"
"""What a row is that was held."""
MOST_HELD = 100_000
"""Rows of a sender that wait; what it sends more goes to quarantine."""
TOO_MANY = "too_many_held"
ASKED_AT_ONCE = 5000
"""Rows in one query."""
DECISIONS = "decisions on held pushes"
"""What a decision is made in a turn at (`Store.turn`)."""
PARTS = 8
"""Into how many a batch is divided whose rows do not all have to wait: with each more the close asks once more, with
each fewer it divides once more."""
NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class HeldPush:
    """id: names exactly these rows.   first_at, last_at: stamps of its rows.   decided_*: None while it is held."""

    id: str
    sender: str
    record_type: str
    reason: str
    subject: str
    detail: str
    rows: int
    first_at: datetime
    last_at: datetime
    held_since: datetime
    held_until: datetime
    state: str
    decided_at: datetime | None = None
    decided_by: str = ""
    why: str = ""


def hold(
    store: Store, sender: str, record: RecordType, source: str, rows: Mapping[str, tuple[Mapping[str, Any], Doubt]]
) -> None:
    """Stores rows as held, by their hash, until somebody decides."""
    now = datetime.now(UTC)
    columns: dict[str, list[Any]] = {
        "hash": list(rows),
        "reason": [doubt.reason for _, doubt in rows.values()],
        "subject": [subject_of(record, row) for row, _ in rows.values()],
        "detail": [doubt.detail for _, doubt in rows.values()],
        "ts": [row["ts"] for row, _ in rows.values()],
        "raw": [raw_of(row) for row, _ in rows.values()],
    }
    _write(store, sender, record.name, columns, {"source": source, "state": HELD, "held_at": now})


def known(store: Store, sender: str, record: RecordType, hashes: Sequence[str]) -> dict[str, str]:
    """Which of these rows were held before, and their state."""
    found: dict[str, str] = {}
    for first in range(0, len(hashes), ASKED_AT_ONCE):
        part = list(hashes[first : first + ASKED_AT_ONCE])
        asked = {"sender": sender, "record_type": record.name, "hashes": part}
        found |= {row["hash"]: row["state"] for row in store.rows(read_sql(__file__, "known_held"), asked)}
    return found


def refused_times(store: Store) -> dict[tuple[str, str], list[int]]:
    """By sender and record type: timestamps (ms since the epoch) of rows that somebody refused."""
    return {(row["one_sender"], row["record"]): row["times"] for row in store.rows(read_sql(__file__, "refused_times"))}


def waiting(store: Store, sender: str) -> int:
    """How many rows of the sender are held."""
    return int(store.value(read_sql(__file__, "held_count"), {"sender": sender}))


def held_pushes(store: Store, state: str = HELD) -> list[HeldPush]:
    """Held pushes in a state, the oldest first; '': in any state."""
    return [_push(row) for row in store.rows(read_sql(__file__, "held_pushes"), {"state": state})]


def held_push(store: Store, id: str) -> HeldPush:
    """Errors: IngestError if there is none with that id; it says so if the push has other rows, and a new id, by
    now."""
    found = held_pushes(store, "")
    for push in found:
        if push.id == id:
            return push
    key = id.partition("-")[0]
    for push in found:
        if push.state == HELD and key and push.id.startswith(f"{key}-"):
            raise IngestError(f"held push {id}", f"has other rows now, as {push.id}", f"gpuledger held show {push.id}")
    raise IngestError(f"held push {id!r}", "does not exist", "See: gpuledger held list")


def rows_of(store: Store, push: HeldPush) -> list[dict[str, Any]]:
    """The rows of a held push, as they were sent."""
    asked = {"state": push.state, "sender": push.sender, "record_type": push.record_type}
    asked |= {"reason": push.reason, "subject": push.subject}
    asked["push"] = "" if push.state == HELD else push.id
    rows = store.rows(read_sql(__file__, "held_rows"), asked)
    if push.state == HELD and _content([row["hash"] for row in rows]) != push.id.partition("-")[2]:
        raise IngestError(f"held push {push.id}", "has other rows now", "See: gpuledger held list")
    return rows


def write_rows(store: Store, push: HeldPush, rows: Sequence[Mapping[str, Any]]) -> None:
    """Writes the rows into a store as their sender's; written again they change nothing."""
    record, source, batch = _accepted(push, rows)
    write(store, record, source, batch, push.sender)


def _withdraw(store: Store, push: HeldPush, rows: Sequence[Mapping[str, Any]]) -> None:
    """Removes what was written of the rows when somebody accepted them and was killed before that was recorded."""
    record, _, batch = _accepted(push, rows)
    if is_begun(store, record, batch):
        unacknowledge(store, record, batch.id)


def _accepted(push: HeldPush, rows: Sequence[Mapping[str, Any]]) -> tuple[RecordType, str, Batch]:
    """The batch as which the rows are written if they are accepted, with its type and source."""
    record, source = RECORD_TYPES[push.record_type], f"held push {push.id}: {rows[0]['source']}"
    return record, source, _batch(record, source, [row["raw"] for row in rows])


def _write_rows(
    store: Store, record: RecordType, source: str, sender: str, rows: Iterable[Mapping[str, Any]], of: int
) -> None:
    """Writes rows from a batch that is about to be removed, as a new batch: one with the same rows may exist already,
    written by somebody else."""
    batch = _batch(record, source, map(raw_of, rows))
    digest = hashlib.blake2b(f"{batch.id} of {of}: {source}".encode(), digest_size=8).digest()
    write(store, record, source, replace(batch, id=int.from_bytes(digest, "little")), sender, anew=True)


def _batch(record: RecordType, source: str, raw: Iterable[str]) -> Batch:
    clean = normalise(record, lines_piece(record, [line.encode() for line in raw])[0], datetime.now(UTC))
    return assemble(record, source, 1, [clean])


def decide(
    store: Store,
    push: HeldPush,
    decision: Decision,
    now: datetime,
    author: str,
    why: str,
    note: Callable[[], None] = lambda: None,
    turn: Held | None = None,
) -> HeldPush:
    """Accepts or refuses a held push; accepting writes exactly its rows. Repeating a decision changes nothing.

    note: is called before anything is written, once it is certain that the decision may be taken.   turn: in which
        others do not decide.

    Errors: IngestError if it was decided the other way, or has other rows by now. TurnLostError.
    """
    turn = turn or Held()
    if push.state != HELD:
        if push.state == decision:
            return push
        raise IngestError(
            f"held push {push.id}", f"was {push.state} by {push.decided_by}", "See: gpuledger held list --all"
        )
    rows = rows_of(store, push)
    turn.check()
    note()
    turn.check()
    if decision == ACCEPTED:
        write_rows(store, push, rows)
    if decision == REFUSED or held_push(store, push.id).state == REFUSED:  # the latter by others, while we stood still
        _withdraw(store, push, rows)
    names = ("hash", "source", "reason", "subject", "detail", "ts", "raw", "held_at")
    columns = {name: [row[name] for row in rows] for name in names}
    decided = {"state": decision, "push": push.id, "decided_at": now, "decided_by": author, "why": why}
    turn.check()
    _write(store, push.sender, push.record_type, columns, decided)
    return held_push(store, push.id)


def take_back(store: Store, batches: Mapping[int, str], reason: str, closing: Held | None = None) -> int:
    """Turns rows of already written batches into held rows, and removes them from the store. A batch about several
    subjects is only rewritten as a few smaller batches; the caller then finds out which of those to hold. Earlier
    decisions stand: accepted rows are written again as such, refused rows are left out. If killed, it resumes when
    called again; no row is lost. Returns how many rows are held now.

    batches: by id, the effect that they would have, in words for the person who decides.   closing: the turn of the
        close that found them.   Errors: TurnLostError: another close may have read them by now, for an invoice.
    """
    with store.turn(DECISIONS) as deciding:
        turn = HeldTogether(closing or Held(), deciding)
        return sum(
            _taken_back(store, turn, about, Doubt(reason, batches[about["batch"]]))
            for about in store.rows(read_sql(__file__, "pushed_batches"), {"batches": sorted(batches)})
        )


def _taken_back(store: Store, turn: Held, about: Mapping[str, Any], doubt: Doubt) -> int:
    batch, record, sender, source = about["batch"], RECORD_TYPES[about["record_type"]], about["sender"], about["source"]
    table = {"table": identifier(record.name), "columns": ", ".join(identifier(c.name) for c in record.columns)}
    statement = read_sql(__file__, "rows_of_batch", **table)
    rows = {hash_of(row): row for row in store.rows(statement, {"batch": batch})}
    states = known(store, sender, record, list(rows))
    accepted = [row for hash, row in rows.items() if states.get(hash) == ACCEPTED]
    undecided = {hash: row for hash, row in rows.items() if states.get(hash) not in (ACCEPTED, REFUSED)}
    parts: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in undecided.values():
        parts.setdefault(_reported_apart_by(record, row), []).append(row)
    waits = 0
    turn.check()
    if accepted:
        _write_rows(store, record, f"held push: {source}", sender, accepted, batch)
    if len(parts) == 1 and len(undecided) == len(rows):
        hold(
            store, sender, record, source, {hash: (row, doubt) for hash, row in undecided.items() if hash not in states}
        )
        waits = len(undecided)
    else:
        several = list(parts.values())
        for first in range(min(PARTS, len(several))):
            _write_rows(store, record, source, sender, [row for part in several[first::PARTS] for row in part], batch)
    turn.check()
    unacknowledge(store, record, batch)
    return waits


def _reported_apart_by(record: RecordType, row: Mapping[str, Any]) -> tuple[str, ...]:
    """Rows with the same key are held together: those of an allocation, a device or a stream of samples."""
    names = record.key[: record.key.index("ts")] if record.name == "samples" else record.key[:2]
    return tuple(row[name] or "" for name in names)


def hash_of(row: Mapping[str, Any]) -> str:
    """A hash of the row's content: the same however the row was written, and as read back from the store."""
    kept = {name: ctypes.c_float(row[name]).value for name in NARROW if row.get(name) is not None}
    return hashlib.blake2b(raw_of({**row, **kept}).encode(), digest_size=16).hexdigest()


def raw_of(row: Mapping[str, Any]) -> str:
    """The row as JSON, without empty values."""
    said = {name: value for name, value in plain(row).items() if value != ""}
    return json.dumps(said, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def subject_of(record: RecordType, row: Mapping[str, Any]) -> str:
    """What a row is about: its device, allocation or service."""
    return f"{row.get('cluster') or ''}/{row.get(record.key[1] if record.name != 'findings' else 'device_id') or ''}"[
        :300
    ]


def _content(hashes: Sequence[str]) -> str:
    """As in held_pushes.sql."""
    return hashlib.sha256("".join(sorted(hashes)).encode()).hexdigest()[:16]


def _push(row: Mapping[str, Any]) -> HeldPush:
    group = "\0".join(row[name] for name in ("sender", "record_type", "reason", "subject"))
    key = hashlib.blake2b(group.encode(), digest_size=4).hexdigest()
    decided = row["state"] != HELD
    return HeldPush(
        id=row["push"] or f"{key}-{row['content']}",
        decided_at=row["decided_at"] if decided else None,
        **{
            name: row[name]
            for name in (
                *("sender", "record_type", "reason", "subject", "detail", "rows", "first_at", "last_at"),
                *("held_since", "held_until", "state", "decided_by", "why"),
            )
        },
    )


def _write(
    store: Store, sender: str, record_type: str, columns: Mapping[str, list[Any]], same: Mapping[str, Any]
) -> None:
    count = len(columns["hash"])
    given = {"push": "", "decided_at": NEVER, "decided_by": "", "why": "", **same}
    given |= {"sender": sender, "record_type": record_type, "revision": time.time_ns() // 1000}
    moments = ("ts", "held_at", "decided_at")
    values = {**{name: [value] * count for name, value in given.items()}, **columns}
    types = {**dict.fromkeys(moments, pa.timestamp("ms", "UTC")), "revision": pa.uint64()}
    table = pa.table({name: pa.array(value, types.get(name, pa.string())) for name, value in values.items()})
    store.insert("held_rows", table)
