"""Writes a batch into the store: rows, rejects and, last, the acknowledgement.

If killed, the batch stays unacknowledged; sent again, it is the same batch under the same token, and the engine adds
what is missing, in the table and in the targets of its views.

Rows that complete batches brought already, equal in every column, are not written again: of equal rows the table keeps
the last, so the fact would seem to have arrived when it was resent (rederiving an issued invoice depends on when facts
arrived). For the same reason, a row that somebody else reported differently under the same key is marked as reported
otherwise: the table keeps both. So it does with rows of one batch, whose order must not matter.

The token alone is not enough: the engine notes it on disk just before it moves a part into place. A kill between the
two loses the part, and a second try is taken for a duplicate. So a batch is looked up before it is acknowledged; if
part of it is missing, it is removed and written under a new token.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.batches import Batch
from ingest.report import IngestReport
from ingest.stored_already import stored_already
from warehouse.records import RecordType
from warehouse.store import ONE_BLOCK, Store, identifier, read_sql

TOLD_OTHERWISE = frozenset({"samples", "events", "devices"})
"""Tables that keep what is reported in other words: those that the books are computed from."""

AS_THEY_ARE: Mapping[str, Any] = {"optimize_on_insert": 0}
"""A batch without two rows of one key needs no merging before it is written, nor have its sums by hour two of one: a
third of what the insert of many streams' next samples costs."""


def write(
    store: Store, record: RecordType, source: str, batch: Batch, sender: str = "", anew: bool = False
) -> IngestReport:
    """Writes a batch unless it is stored completely already; returns what happened to its rows.

    sender: who pushed it, or who read the file.   anew: also writes rows that the store has from a batch about to be
    removed.
    """
    reasons = dict(Counter(reject.reason for reject in batch.rejects))
    about = {"record_type": record.name, "batch": batch.id}
    if store.rows(read_sql(__file__, "batch_done"), about):
        return IngestReport(batch.rows, 0, len(batch.table), reasons)
    written, differing, table = 0, 0, batch.table
    if len(batch.table):
        with store.staged(batch.table) as staged:
            keys, known = _counted(store, record, batch, staged)
            known = 0 if anew else known
            written = keys - known
            if anew:
                _insert_anew(store, record, batch, staged, any(_arrived(store, record, batch).values()), otherwise=True)
            elif not known:
                _write(store, record, batch, staged, keys)
        doubted_from = None if record.name == "samples" and source.startswith("push:") else sender
        if known and (fresh := _fresh(store, record, batch, doubted_from)):
            table = fresh.table
            with store.staged(fresh.table) as staged:
                keys, differing = _counted(store, record, fresh, staged)
                if doubted_from is not None:
                    differing = _differing(store, record, _fresh(store, record, fresh, None))
                _write(store, record, fresh, staged, keys, otherwise=True)
    if batch.rejects:
        _quarantine(store, record, source, batch)
    duplicate = len(batch.table) - written
    store.command(
        read_sql(__file__, "acknowledge_batch"),
        {
            **about,
            "source": source,
            "sender": sender,
            "first_row": batch.first_row,
            "rows_read": batch.rows,
            "rows_written": written,
            "duplicates": duplicate,
            "quarantined": len(batch.rejects),
            "hours": _hours(table) if record.name == "samples" else [],
        },
    )
    return IngestReport(batch.rows, written, duplicate, reasons, differing=differing)


def _hours(samples: pa.Table) -> list[int]:
    """The hours since the epoch in which samples end, as touched_hours has them: one at 10:00:00.000 ends in 09."""
    ends_ms = samples["ts"].cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    hours: list[int] = pc.unique(pc.divide(pc.subtract(ends_ms, 1), 3_600_000)).to_pylist()
    return hours


def _counted(store: Store, record: RecordType, batch: Batch, staged: str) -> tuple[int, int]:
    """How many natural keys the batch has, and how many of them other batches have brought."""
    (row,) = store.rows(read_sql(__file__, "count_batch", **_names(record, staged)), _where(batch))
    if not row["nearby"]:
        return int(row["keys"]), 0
    nearby = {**_where(batch), "first_at": row["earliest"], "last_at": row["latest"], "own": False}
    return int(row["keys"]), int(store.value(read_sql(__file__, "known_keys", **_names(record, staged)), nearby))


def _differing(store: Store, record: RecordType, told: Batch | None) -> int:
    """How many natural keys other batches have brought, of rows that they have not."""
    if told is None:
        return 0
    with store.staged(told.table) as staged:
        return _counted(store, record, told, staged)[1]


def _fresh(store: Store, record: RecordType, batch: Batch, doubted_from: str | None) -> Batch | None:
    """The batch without rows that complete batches brought already; None if nothing is left.

    doubted_from: a sender. What somebody else pushed may still be held by the next close, and refused; then this batch
    must have the row, too. Pushed samples are an exception (None): those of many senders are written together, under
    all their names.
    """
    known = stored_already(store, record, batch.table, acknowledged=True, doubted_from=doubted_from)
    places = [place for place in range(len(batch.table)) if place not in known]
    return replace(batch, table=batch.table.take(pa.array(places, pa.uint64()))) if places else None


def _write(store: Store, record: RecordType, batch: Batch, staged: str, keys: int, otherwise: bool = False) -> None:
    """keys: number of natural keys in the batch.   otherwise: whether others may have reported the same keys
    differently."""
    token = f"{record.name}-{batch.id:016x}"
    if keys == len(batch.table):
        _insert(store, record.name, batch, staged, token, otherwise, AS_THEY_ARE)
    else:
        _insert_repeated(store, record, batch, staged, token, otherwise)
    _complete(store, record, batch, staged, keys, otherwise)


def _complete(store: Store, record: RecordType, batch: Batch, staged: str, keys: int, otherwise: bool) -> None:
    """If any of the batch is missing, writes it again under a new token."""
    names = _names(record, staged)
    row = _arrived(store, record, batch)
    noted = row["touched"] > 0 or record.name != "samples"
    if noted and row["rows"] == len(batch.table) == keys:
        return
    # Fewer rows also if the engine collapsed equal ones, within the batch or with another's: then the keys are there.
    if noted and store.value(read_sql(__file__, "known_keys", **names), {**_where(batch), "own": True}) == keys:
        return
    _insert_anew(store, record, batch, staged, otherwise=otherwise)


def _arrived(store: Store, record: RecordType, batch: Batch) -> dict[str, int]:
    """How much of the batch is there."""
    (row,) = store.rows(read_sql(__file__, "arrived", table=identifier(record.name)), _where(batch))
    return row


def is_begun(store: Store, record: RecordType, batch: Batch) -> bool:
    """Whether the batch, or some of it, is in the store."""
    about = {"record_type": record.name, "batch": batch.id}
    if store.rows(read_sql(__file__, "batch_done"), about):
        return True
    return bool(len(batch.table)) and any(_arrived(store, record, batch).values())


def _insert_anew(
    store: Store, record: RecordType, batch: Batch, staged: str, is_there: bool = True, otherwise: bool = False
) -> None:
    """Removes what is there of the batch, and writes it under a token that the engine has not seen."""
    if is_there:
        forget(store, record, batch.id)
    _insert_repeated(store, record, batch, staged, f"{record.name}-{batch.id:016x}-{uuid.uuid4().hex}", otherwise)


def forget(store: Store, record: RecordType, batch: int) -> None:
    """Removes a batch from its table and from the tables derived from it."""
    for table in (record.name, *(["touched_hours"] if record.name == "samples" else [])):
        store.command(read_sql(__file__, "forget_batch", table=store.altered(table)), {"batch": batch})


def unacknowledge(store: Store, record: RecordType, batch: int) -> None:
    """Removes a batch's rows and acknowledgement: no close reads it, and it is written if it is sent again."""
    for table in ("ingest_batches", "recent_batches"):
        store.command(read_sql(__file__, "forget_batch", table=table), {"batch": batch})
    forget(store, record, batch)


def _names(record: RecordType, staged: str) -> dict[str, str]:
    return {
        "table": identifier(record.name),
        "key": ", ".join(identifier(name) for name in record.key),
        "subject": identifier(record.key[1]),
        "staged": staged,
    }


def _where(batch: Batch) -> dict[str, Any]:
    span = pc.min_max(batch.table["ts"])
    return {"batch": batch.id, "first_at": span["min"].as_py(), "last_at": span["max"].as_py()}


def _insert(
    store: Store,
    table: str,
    batch: Batch,
    staged: str,
    token: str,
    otherwise: bool = False,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Without a token, nothing is dropped as a duplicate."""
    columns = _columns(batch)
    name = "insert_batch_told_otherwise" if otherwise and table in TOLD_OTHERWISE else "insert_batch"
    sql = read_sql(__file__, name, table=identifier(table), columns=columns, staged=staged)
    dedup = {"insert_deduplication_token": token} if token else {"insert_deduplicate": 0}
    store.command(sql, {"batch": batch.id}, {**ONE_BLOCK, **dedup, **(settings or {})})


def _insert_repeated(store: Store, record: RecordType, batch: Batch, staged: str, token: str, otherwise: bool) -> None:
    """The same of a batch in which a key may occur more than once."""
    if record.name not in TOLD_OTHERWISE:
        _insert(store, record.name, batch, staged, token, otherwise)
        return
    sql = read_sql(__file__, "insert_batch_repeated", **_names(record, staged), columns=_columns(batch))
    told = {"batch": batch.id, "otherwise": batch.id if otherwise else 0}
    store.command(sql, told, {**ONE_BLOCK, "insert_deduplication_token": token})


def _columns(batch: Batch) -> str:
    return ", ".join(identifier(name) for name in batch.table.column_names)


def _quarantine(store: Store, record: RecordType, source: str, batch: Batch) -> None:
    rejects = batch.rejects
    table = pa.table(
        {
            "record_type": [record.name] * len(rejects),
            "source": [source] * len(rejects),
            "row": pa.array([reject.row for reject in rejects], pa.uint64()),
            "reason": [reject.reason for reject in rejects],
            "detail": [_storable(reject.detail) for reject in rejects],
            "raw": [_storable(reject.raw) for reject in rejects],
        }
    )
    quarantined = Batch(batch.id, batch.first_row, len(rejects), table, ())
    with store.staged(table) as staged:
        # No token: it could lose them (see above), and rejects that are written twice collapse.
        _insert(store, "quarantine", quarantined, staged, "")


def _storable(text: str) -> str:
    """Text that can be encoded as UTF-8, whatever a reader let through."""
    return text.encode("utf-8", errors="backslashreplace").decode()
