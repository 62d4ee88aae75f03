"""What is set, what would be removed, and the removal."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from billing import audit
from billing.invoicing.issued import issued
from billing.invoicing.rederive import needed, seen_run
from billing.removed import DAY, REACH, Removed, removed_days
from warehouse.errors import LedgerError
from warehouse.sql import identifier
from warehouse.store import Store, read_sql
from warehouse.turns import HeldTogether

BY_ENGINE = {"metrics": "metrics", "findings": "findings", "sums": "stream_hours"}
"""What the engine removes by itself: no entry of the ledger and no document depends on it."""
BY_COMMAND = {"samples": ("samples",), "superseded": ("ledger_entries", "energy_entries")}
NAMES = ("samples", "sums", "metrics", "findings", "superseded")
LEAST_DAYS, MOST_DAYS = 2, 36_500
"""Within two days late samples are normal, and lost ends are not decided."""
AT_ONCE = 10_000


class RetentionError(LedgerError):
    """A retention that cannot be set or applied."""


@dataclass(frozen=True)
class Kept:
    """A kind of rows.   days: how long they are kept, from arrival; None: for good.   rows, bytes: what is there.

    goes_rows, goes_bytes: what a removal would take now; of what the engine removes None: it does so by itself.
    """

    name: str
    days: int | None
    rows: int
    bytes: int
    goes_rows: int | None
    goes_bytes: int | None


@dataclass(frozen=True)
class Retention:
    """tables: by kind.   days: of samples that would go, or went.   invoices: documents that cannot be computed again
    after it.   held_back: days that stay although they are old, because issued documents rest on them.   unread: since
    when there are facts that no close has read, whose days stay, too.   removed: days whose samples are gone."""

    tables: tuple[Kept, ...]
    days: tuple[datetime, ...]
    invoices: tuple[str, ...]
    held_back: int
    unread: datetime | None
    removed: tuple[Removed, ...]


@dataclass(frozen=True)
class _Day:
    day: datetime
    rows: int
    bytes: int


def set_days(store: Store, days: Mapping[str, int | None], author: str, reason: str, now: datetime) -> None:
    """Sets how long kinds of rows are kept; None: for good. Nothing is removed here but by the engine, of what is its.

    Errors: RetentionError naming what does not fit.
    """
    for name, kept in days.items():
        if name not in NAMES:
            raise RetentionError(f"--keep {name[:60]}", "is no kind of rows", f"Choose from {', '.join(NAMES)}")
        if kept is None and name in BY_ENGINE:
            raise RetentionError(f"--keep {name}", "the engine needs a number of days", f"Such as {name}={MOST_DAYS}")
        if kept is not None and not LEAST_DAYS <= kept <= MOST_DAYS:
            raise RetentionError(f"--keep {name}={kept}", f"is not {LEAST_DAYS} to {MOST_DAYS} days", "Give whole days")
    audit.record(store, now, author, "retention.set", "retention", reason, {"days": {**_set(store), **days}})
    for name, table in BY_ENGINE.items():
        if name in days:
            store.script_everywhere(read_sql(__file__, "keep", table=identifier(table), days=str(days[name])))


def retention(store: Store, now: datetime, even_invoiced: bool = False) -> Retention:
    """What is kept, and what a removal would take now.   even_invoiced: also what issued documents rest on."""
    kept = _set(store)
    removed = removed_days(store)
    days, held_back, invoices, unread = _due(store, kept.get("samples"), removed, now, even_invoiced)
    superseded = _superseded(store, kept.get("superseded"), now)
    by_engine = {store.stored_as(table): table for table in BY_ENGINE.values()}
    kept_by_engine = store.rows(read_sql(__file__, "ttl"), {"tables": list(by_engine)})
    ttl = {by_engine[row["name"]]: row["days"] for row in kept_by_engine}
    tables = [table for kind in BY_COMMAND.values() for table in kind] + list(BY_ENGINE.values())
    sizes = _sizes(store, tables)
    found = []
    for name in NAMES:
        there = BY_COMMAND.get(name) or (BY_ENGINE[name],)
        rows, size = (sum(sizes[one][column] for one in there if one in sizes) for column in ("rows", "bytes"))
        goes: tuple[int | None, int | None] = (None, None)
        if name == "samples":
            goes = (sum(day.rows for day in days), sum(day.bytes for day in days))
        elif name == "superseded":
            gone = sum(superseded.values())
            goes = (gone, size * gone // rows if rows else 0)
        of = kept.get(name) if name in BY_COMMAND else ttl.get(BY_ENGINE[name])
        found.append(Kept(name, of, rows, size, *goes))
    return Retention(tuple(found), tuple(day.day for day in days), invoices, held_back, unread, tuple(removed))


def remove(store: Store, author: str, now: datetime, even_invoiced: bool = False, reason: str = "") -> Retention:
    """Removes what is due. Each day is noted in the audit before it goes: killed in between, the next removal goes on,
    and until then the day counts as removed. Answers what was found before.
    """
    with store.turn(f"close {store.database}") as held:
        found = retention(store, now, even_invoiced)
        sizes = {day.day: day for day in _days(store)}
        documents = -1
        needs: dict[str, list[tuple[datetime, datetime]]] = {}
        for day in found.days:
            held.check()
            # Meanwhile nothing is pushed, which would be lost if it came between the copy and the replacement, and
            # nothing is issued.
            with store.turn() as writing, _kept(store, day) as (table, kept):
                if (now_issued := int(store.value("SELECT count() AS n FROM invoices"))) != documents:
                    documents, needs = now_issued, _needs(store)
                if not even_invoiced and any(_is_needed(day, spans) for spans in needs.values()):
                    continue  # issued since
                inputs = {
                    "day": f"{day:%Y-%m-%d}",
                    "rows": sizes[day].rows,
                    "kept": kept,
                    "bytes": sizes[day].bytes,
                    "invoices": sorted(number for number, spans in needs.items() if _is_needed(day, spans)),
                }
                audit.record(store, now, author, "retention.remove", f"samples {day:%Y-%m-%d}", reason, inputs)
                HeldTogether(held, writing).check()
                store.command(_removal(store, day, table if kept else ""))
        held.check()
        written = _superseded(store, _set(store).get("superseded"), now)
        pairs = list(written)
        if pairs:
            inputs = {"rows": sum(written.values()), "hours": len(pairs)}
            audit.record(store, now, author, "retention.superseded", "ledger_entries", reason, inputs)
        for first in range(0, len(pairs), AT_ONCE):
            for name in BY_COMMAND["superseded"]:
                asked = {"table": name, "written": pairs[first : first + AT_ONCE]}
                store.command(read_sql(__file__, "remove_superseded"), asked)
        return found


def _set(store: Store) -> dict[str, int | None]:
    """What was set last, by kind; what is missing is kept for good, or as long as the schema says."""
    rows = store.rows(read_sql(__file__, "set"))
    days: dict[str, int | None] = json.loads(rows[0]["inputs"])["days"] if rows else {}
    return days


def _due(
    store: Store, kept: int | None, removed: Sequence[Removed], now: datetime, even_invoiced: bool
) -> tuple[list[_Day], int, tuple[str, ...], datetime | None]:
    """The days of samples to remove, how many more are old but needed, the documents that need the days, and since when
    facts are unread."""
    (unread,) = (row["first"] for row in store.rows(read_sql(__file__, "unread")))
    closed = store.value("SELECT maxOrNull(closed_until) AS last FROM close_runs")
    if kept is None or closed is None:
        return [], 0, (), unread
    gone = {one.day: one.kept for one in removed}
    asked = {"until": f"{(now - timedelta(days=kept)).astimezone(UTC):%Y-%m-%d}"}
    old = {row["day"] for row in store.rows(read_sql(__file__, "arrived"), asked)}
    until = min(closed, unread - DAY if unread else closed) - REACH
    due = [day for day in _days(store) if day.day in old and day.day + DAY <= until and day.rows > gone.get(day.day, 0)]
    needs = _needs(store)
    free = [day for day in due if not any(_is_needed(day.day, spans) for spans in needs.values())]
    chosen = due if even_invoiced else free
    lost = sorted(number for number, spans in needs.items() if any(_is_needed(day.day, spans) for day in chosen))
    return chosen, len(due) - len(chosen), tuple(lost), unread


def _needs(store: Store) -> dict[str, list[tuple[datetime, datetime]]]:
    """By issued document, the time whose samples it is computed again from. While no hour is closed, only what is
    issued changes it."""
    return {
        str(one.number): [(period.start, period.end) for period in needed(store, one)]
        for one in issued(store)
        if not one.is_credit_note
    }


def _is_needed(day: datetime, spans: Sequence[tuple[datetime, datetime]]) -> bool:
    return any(Removed(day, day, "", 0).reaches(start, end) for start, end in spans)


def _superseded(store: Store, kept: int | None, now: datetime) -> dict[str, int]:
    """Hours' entries that go, by hour and close, and how many they are."""
    if kept is None:
        return {}
    at = {"at": now - timedelta(days=kept)}
    seen = sorted({seen_run(store, one) for one in issued(store)})
    asked = {"last": int(store.value(read_sql(__file__, "finished_before"), at)), "seen": seen}
    return {row["written_by"]: row["rows"] for row in store.rows(read_sql(__file__, "superseded"), asked)}


def _days(store: Store) -> list[_Day]:
    """The days of samples that are there."""
    asked = {"database": store.database, "samples": store.stored_as("samples")}
    return [_Day(**row) for row in store.rows(read_sql(__file__, "days", parts=store.of_shards("system.parts")), asked)]


def _sizes(store: Store, tables: Sequence[str]) -> dict[str, dict[str, Any]]:
    """By name, those of them that hold rows."""
    found = {}
    for shards in (False, True):
        names = {store.stored_as(table): table for table in tables if (store.stored_as(table) != table) is shards}
        parts = store.of_shards("system.parts") if shards else "system.parts"
        asked = {"database": store.database, "tables": list(names)}
        for row in store.rows(read_sql(__file__, "sizes", parts=parts), asked) if names else ():
            found[names[row["name"]]] = row
    return found


def _removal(store: Store, day: datetime, kept: str) -> str:
    """The statement that puts what is kept of a day, if anything is, in the place of its samples."""
    parts = {"samples": store.altered("samples"), "partition": f"{day:%Y%m%d}"}
    if kept:
        setting = "allow_replace_partition_from_empty_source"
        known = "SELECT count() AS n FROM system.settings WHERE name = {name:String}"
        besides = f", {setting} = 1" if store.in_shards and store.value(known, {"name": setting}) else ""
        return read_sql(__file__, "replace_day", **parts, kept=store.stored_like(kept, "samples"), besides=besides)
    return read_sql(__file__, "empty_day", **parts)


@contextlib.contextmanager
def _kept(store: Store, day: datetime) -> Iterator[tuple[str, int]]:
    """A working table with what stays of a day, and how many rows that is."""
    table = f"close_{secrets.randbits(62)}_kept"  # the next close drops what a kill leaves
    store.create_like(table, "samples")
    try:
        store.command(read_sql(__file__, "kept"), {"kept": table, "day": day})
        yield table, int(store.value(f"SELECT count() AS n FROM {identifier(table)}"))
    finally:
        store.drop(table)
