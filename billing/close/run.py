"""The hourly close: from facts to ledger entries, again for exactly the hours whose inputs changed.

Every statement runs in the engine; Python decides only what is small: which claims to believe, what a card's
prices are, which hours are dirty. A close works in tables of its own and makes its hours visible with one small
insert at the end of each portion, so a kill at any moment leaves the books as they were or as they shall be.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import math
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

from billing.close.claims import Stage, prepare_claims, publish_claims, stage_claims
from billing.close.facts import name_facts, present_facts
from billing.close.payers import stage_payers
from billing.close.resolve import Refusal
from billing.energy import attribution
from billing.rates import AppliedCard, current_rate_card, cut_instants
from billing.rates.staging import stage_prices, subject_params
from billing.tenants import AppliedMapping, current_mapping
from warehouse.chain import append_anyway
from warehouse.errors import LedgerError
from warehouse.store import Params, Store, read_sql

GRACE = timedelta(minutes=15)
"""How long after its end an hour waits for late records before a close without `until` takes it."""
PORTION_WEIGHT = 16_000_000
"""Samples, and claims and states six-fold, that one portion of a close takes at most; bounds its memory."""
PORTIONS_AT_ONCE = 2
SMALL_WEIGHT = 500_000
"""A close of less than this is not worth dividing."""
FACT_WEIGHT = 6
HOUR_MS = 3_600_000

Progress = Callable[[str, int, int], None]
"""(what is being done, hours done, hours to do)"""


@dataclass(frozen=True)
class CloseReport:
    """What a close did. Hours are whole hours UTC; `changed` are those whose entries differ from before."""

    run: int
    closed_until: datetime | None
    checked: int
    changed: int
    refused: int
    rate_card: str


class Outcome(NamedTuple):
    """What a close says of itself besides hours: the versions of the rate card and the tenants' mapping ('' = none was
    applied), and the fingerprints of what it published (None: an old close, which did not say)."""

    card: str
    mapping: str
    allocations: int | None
    refused_claims: int | None


class DirtyHour(NamedTuple):
    """An hour (since the epoch) to compute, the fingerprint of its inputs, and how much work it is."""

    hour: int
    inputs: int
    weight: int


def close(
    store: Store,
    until: datetime | None = None,
    now: datetime | None = None,
    grace: timedelta = GRACE,
    on_progress: Progress | None = None,
) -> CloseReport:
    """Computes the ledger of all hours before `until` whose facts or prices changed since they were last closed.

    until:  cut to the hour; by default the earlier of `now` less the grace and the last recorded fact.
    Errors: LedgerError if `until` is naive or lies in the future.
    """
    with store.turn(f"close {store.database}"):
        return _close(store, until, now or datetime.now(UTC), grace, on_progress)


def _close(
    store: Store, until: datetime | None, now: datetime, grace: timedelta, on_progress: Progress | None
) -> CloseReport:
    limit = _limit(store, until, now, grace)
    if limit is None:
        return CloseReport(0, None, 0, 0, 0, "")
    progress = on_progress or (lambda what, done, total: None)
    card, mapping = current_rate_card(store), current_mapping(store)
    stage = Stage(_next_run(store))
    cutoff = datetime.now(UTC)
    try:
        progress("claims", 0, 0)
        name_facts(store, stage)
        refused, dirty = _staged(store, stage, limit, card, mapping)
        changed = done = 0
        progress("attributing", 0, len(dirty))
        for hours, changed_hours in _close_portions(store, stage, _portions(dirty), card):
            done, changed = done + hours, changed + changed_hours
            progress("attributing", done, len(dirty))
        published = prepare_claims(store, stage, refused)
        outcome = Outcome(card.version if card else "", mapping.version if mapping else "", *published)
        if dirty or outcome != _last_outcome(store):
            _record_run(store, stage.run, cutoff, limit, outcome, len(dirty), changed)
        # Last: killed before it, the tables are as the close before recorded them, and the next close replaces them.
        publish_claims(store, stage)
    finally:
        _drop_stage(store, stage)
    return CloseReport(stage.run, limit, len(dirty), changed, len(refused), card.version if card else "")


def stale_hours(store: Store, until: datetime, rate_card: AppliedCard | None) -> list[datetime]:
    """The whole hours before `until` that a close at these prices would compute again: their facts are others than
    those that they were closed with. Nothing is closed."""
    stage = Stage(_next_run(store))
    try:
        present_facts(store, stage)
        _, dirty = _staged(store, stage, until, rate_card, current_mapping(store))
    finally:
        _drop_stage(store, stage)
    return [datetime.fromtimestamp(hour.hour * 3600, UTC) for hour in dirty]


def _staged(
    store: Store, stage: Stage, limit: datetime, card: AppliedCard | None, mapping: AppliedMapping | None
) -> tuple[list[Refusal], list[DirtyHour]]:
    """Fills the working tables with claims, states and prices. Answers what was refused, and the hours to compute."""
    refused = stage_claims(store, stage)
    stage_payers(store, stage, mapping, card)
    _stage_prices(store, stage, card, limit)
    return refused, _dirty_hours(store, stage, limit, card)


def _limit(store: Store, until: datetime | None, now: datetime, grace: timedelta) -> datetime | None:
    if until is not None:
        if until.tzinfo is None:
            raise LedgerError(
                "close", f"until {until} has no time zone", "Write it with an offset, e.g. 2026-10-05T00:00Z"
            )
        if until > now:
            raise LedgerError("close", f"until {until.isoformat()} lies in the future", "Close what has happened")
    facts = store.rows(read_sql(__file__, "last_facts"))
    known = [fact["last"] for fact in facts if fact["facts"]]
    if not known:
        return None
    limit = until or min(now - grace, max(known))
    return limit.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _next_run(store: Store) -> int:
    """A run's number: one later than any before, and its own even if two closes start at once."""
    last = max(
        store.value("SELECT max(checked_by) AS last FROM closed_hours"),
        store.value("SELECT max(run) AS last FROM close_runs"),
        store.value("SELECT max(run) AS last FROM close_batches"),
    )
    return ((int(last) >> 20) + 1 << 20) | secrets.randbits(20)


def _stage_prices(store: Store, stage: Stage, card: AppliedCard | None, limit: datetime) -> None:
    """The card's prices for every combination of what prices depend on that occurs, from the first device on."""
    first = store.value("SELECT min(start_ms) AS first_ms FROM {states:Identifier}", stage.names("states"))
    kept = subject_params(card.card if card else None)
    subjects = store.rows(read_sql(__file__, "subjects"), {**stage.names("settled", "states"), **kept})
    tables = stage.names("prices", "price_subjects", "price_schedules")
    stage_prices(store, tables, card.card if card else None, subjects, datetime.fromtimestamp(first / 1000, UTC), limit)


def _dirty_hours(store: Store, stage: Stage, limit: datetime, card: AppliedCard | None) -> list[DirtyHour]:
    """Hours to compute, in order."""
    zone = f"{card.card.timezone if card else 'UTC'} {attribution.rules_in_force(store)}"
    inputs = store.rows(
        read_sql(__file__, "inputs"),
        {
            **stage.names("batches", "settled", "states", "prices"),
            "until_ms": _ms(limit),
            "zone_hash": int.from_bytes(hashlib.blake2b(zone.encode(), digest_size=8).digest(), "little"),
        },
    )
    known = {
        row["hour"]: row["inputs"]
        for row in store.rows(
            "SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, argMax(inputs, checked_by) AS inputs "
            "FROM closed_hours GROUP BY hour"
        )
    }
    samples = {
        row["hour"]: row["samples"]
        for row in store.rows(
            "SELECT toUInt32(intDiv(toUnixTimestamp(touched_hours.hour), 3600)) AS hour, sum(rows) AS samples "
            "FROM touched_hours WHERE batch IN {batches:Identifier} GROUP BY hour",
            stage.names("batches"),
        )
    }
    dirty = [
        DirtyHour(row["hour"], row["inputs"], samples.get(row["hour"], 0) + FACT_WEIGHT * row["facts"])
        for row in inputs
        if known.get(row["hour"]) != row["inputs"]
    ]
    # An hour that has lost everything it was computed from (a device row corrected away) must be emptied.
    gone = set(known) - {row["hour"] for row in inputs}
    dirty += [DirtyHour(hour, 0, 0) for hour in gone if hour * HOUR_MS < _ms(limit) and known[hour] != 0]
    return sorted(dirty)


def _portions(dirty: Sequence[DirtyHour]) -> list[list[DirtyHour]]:
    """The dirty hours in order, in runs of about the same weight, which is at most PORTION_WEIGHT (or one hour's)."""
    total = sum(hour.weight for hour in dirty)
    rounds = math.ceil(total / (PORTION_WEIGHT * PORTIONS_AT_ONCE))
    share = total / max(1, rounds * PORTIONS_AT_ONCE if total > SMALL_WEIGHT else 1)
    portions: list[list[DirtyHour]] = []
    before = 0
    for hour in dirty:
        if not portions or before + hour.weight > share * len(portions):
            portions.append([])
        portions[-1].append(hour)
        before += hour.weight
    return portions


def _close_portions(
    store: Store, stage: Stage, portions: Sequence[Sequence[DirtyHour]], card: AppliedCard | None
) -> Iterator[tuple[int, int]]:
    """Closes portions, PORTIONS_AT_ONCE at a time, each over a connection of its own: many statements of a close keep
    one core busy only. Answers for each how many hours it has and how many of them changed, in any order."""

    def work(portion: Sequence[DirtyHour]) -> tuple[int, int]:
        with store.another() as own:
            return len(portion), _close_portion(own, stage, portion, card)

    if len(portions) == 1:
        yield len(portions[0]), _close_portion(store, stage, portions[0], card)
        return
    with ThreadPoolExecutor(PORTIONS_AT_ONCE) as pool:
        tasks = [pool.submit(work, portion) for portion in portions]
        try:
            for task in as_completed(tasks):
                yield task.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _close_portion(store: Store, run: Stage, portion: Sequence[DirtyHour], card: AppliedCard | None) -> int:
    """Attributes, rates and publishes some hours. Answers how many of them changed."""
    import pyarrow as pa

    first, last = portion[0].hour, portion[-1].hour
    stage = run.of_portion(first)
    cuts, midnights = _cuts(card, first, last)
    names = {**stage.names(*_PORTION_TABLES), **run.names("batches", "settled", "states", "prices")}
    params = {
        **names,
        "cuts": cuts,
        "midnights": midnights,
        "first": first,
        "last": last + 1,
        "from_ms": first * HOUR_MS,
        "to_ms": (last + 2) * HOUR_MS,
        "uniform_ms": _uniform_interval(store, run, first, last),
    }
    store.command("CREATE TABLE {dirty:Identifier} (hour UInt32) ENGINE = Memory", names)
    store.insert(stage("dirty"), pa.table({"hour": pa.array([hour.hour for hour in portion], pa.uint32())}))
    _run(store, params, "segments", "holdings")
    _meter(store, params)
    _run(store, params, "entries")
    energy = attribution.attribute_energy(store, stage, params)
    changed = _publish(store, stage, portion, energy)
    for table in (*_PORTION_TABLES, *attribution.TABLES):
        store.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": stage(table)})
    return changed


_PORTION_TABLES = (
    *("dirty", "segments", "holdings", "told", "spilled", "metered"),
    *("sample_hours", "doubted", "several", "entries"),
)


def _run(store: Store, params: Params, *statements: str) -> None:
    """`{placed}` in a statement stands for placed.sql."""
    for name in statements:
        store.command(read_sql(__file__, name).replace("{placed}", read_sql(__file__, "placed")), params)


def _meter(store: Store, params: Params) -> None:
    """Fills `metered` and `several`: from the sums of streams' hours, and from samples where those cannot tell."""
    _run(store, params, "stage_samples", "stage_doubted", "stage_several", "told")
    incomplete = [row["hour"] for row in store.rows(read_sql(__file__, "incomplete_hours"), params)]
    params = {**params, "incomplete": incomplete}
    if incomplete:
        store.command("ALTER TABLE {told:Identifier} DELETE WHERE hour IN {incomplete:Array(UInt32)}", params)
        _run(store, {**params, "whole_hours": incomplete}, "sample_hours", "tell_again")
    _run(store, params, "spilled", "metered")
    if store.value("SELECT countIf(levels != 1) AS doubts FROM {metered:Identifier}", params):
        _run(store, {**params, "whole_hours": []}, "doubted", "sample_hours", "measured")
    if store.value("SELECT countIf(levels > 1) AS disputes FROM {metered:Identifier}", params):
        _run(store, params, "several")


def _uniform_interval(store: Store, run: Stage, first: int, last: int) -> int:
    """The one length of all samples that can cover the hours, in ms; 0 if they differ."""
    (row,) = store.rows(
        "SELECT minOrNull(shortest_ms) AS shortest, maxOrNull(longest_ms) AS longest FROM touched_hours "
        "WHERE hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND hour <= toDateTime({last:UInt32} * 3600, 'UTC') "
        "AND batch IN {batches:Identifier}",
        {**run.names("batches"), "first": first, "last": last + 1},
    )
    return int(row["shortest"]) if row["shortest"] is not None and row["shortest"] == row["longest"] else 0


def _publish(store: Store, stage: Stage, portion: Sequence[DirtyHour], energy: Mapping[int, int]) -> int:
    """Writes the entries of the hours that changed, then makes them visible.

    energy: fingerprints of the hours' energy entries, which are published with the ledger's.
    """
    import pyarrow as pa

    content = {row["hour"]: row["content"] for row in store.rows(read_sql(__file__, "content"), stage.names("entries"))}
    for hour, fingerprint in energy.items():
        content[hour] = (content.get(hour, 0) + fingerprint) % 2**64
    in_force = {
        row["hour"]: (row["run"], row["content"])
        for row in store.rows(read_sql(__file__, "in_force"), {"first": portion[0].hour, "last": portion[-1].hour})
    }
    hours = [hour.hour for hour in portion]
    runs = [
        in_force[hour][0] if hour in in_force and in_force[hour][1] == content.get(hour, 0) else stage.run
        for hour in hours
    ]
    changed = [hour for hour, run in zip(hours, runs, strict=True) if run == stage.run]
    if changed:
        store.command(
            read_sql(__file__, "publish_entries"),
            {"run": stage.run, "hours": changed, **stage.names("entries")},
            {"max_partitions_per_insert_block": 0},
        )
        if energy:
            attribution.publish_energy(store, stage, stage.run, changed)
    store.insert(
        "closed_hours",
        pa.table(
            {
                "hour": pa.array([hour * HOUR_MS for hour in hours], pa.timestamp("ms", "UTC")),
                "run": pa.array(runs, pa.uint64()),
                "checked_by": pa.array([stage.run] * len(portion), pa.uint64()),
                "inputs": pa.array([hour.inputs for hour in portion], pa.uint64()),
                "content": pa.array([content.get(hour, 0) for hour in hours], pa.uint64()),
            }
        ),
    )
    return len(changed)


def _cuts(card: AppliedCard | None, first: int, last: int) -> tuple[list[int], list[int]]:
    """Instants (ms) at which entries are cut besides whole hours: all of them, and the local midnights alone."""
    if card is None:
        return [], []
    zone = ZoneInfo(str(card.card.timezone))
    start = datetime.fromtimestamp(first * 3600, zone).date()
    stop = datetime.fromtimestamp((last + 1) * 3600, zone).date()
    midnights = [
        at
        for at in (_ms(_midnight(start + timedelta(days=n), zone)) for n in range((stop - start).days + 1))
        if at % HOUR_MS
    ]
    begin, end = (datetime.fromtimestamp(hour * 3600, UTC) for hour in (first, last + 1))
    prices = [_ms(instant) for instant in cut_instants(card.card, begin, end)]
    return sorted({*midnights, *(at for at in prices if at % HOUR_MS)}), midnights


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def _record_run(
    store: Store, run: int, cutoff: datetime, limit: datetime, outcome: Outcome, checked: int, changed: int
) -> None:
    """Notes a finished close: with its period, rate card, tenants' mapping and ingest cut-off it can be computed
    again."""
    import pyarrow as pa

    hours = store.value("SELECT uniqExact(hour) AS hours FROM closed_hours")
    numbers = {"run": run, "hours_checked": checked, "hours_changed": changed, "hours_closed": hours}
    numbers |= {"allocations": outcome.allocations, "refused_claims": outcome.refused_claims}
    times = {"started_at": cutoff, "finished_at": datetime.now(UTC), "closed_until": limit, "ingest_cutoff": cutoff}
    software = f"gpuledger {importlib.metadata.version('gpuledger')}"
    texts = {"rate_card": outcome.card, "tenant_mapping": outcome.mapping, "software": software}
    columns = {name: pa.array([number], pa.uint64()) for name, number in numbers.items()}
    columns |= {name: pa.array([at], pa.timestamp("ms", "UTC")) for name, at in times.items()}
    columns |= {name: pa.array([text], pa.string()) for name, text in texts.items()}
    append_anyway(store, "close_runs", pa.table(columns))


def _last_outcome(store: Store) -> Outcome:
    return Outcome(**store.rows(read_sql(__file__, "last_close"))[0])


def _drop_stage(store: Store, stage: Stage) -> None:
    """Drops this run's working tables, and those that a killed run left behind (none works for a day)."""
    for row in store.rows(read_sql(__file__, "working_tables"), {"prefix": stage("")}):
        store.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": row["name"]})


def _ms(instant: datetime) -> int:
    return (instant.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
