"""The hourly close: from facts to ledger entries, recomputed for exactly the hours whose inputs changed.

Every statement runs in the engine; Python makes only the small decisions: which claims to accept, the prices of the
rate card, which hours are dirty. A close works in tables of its own and makes its hours visible with one small insert
at the end of each portion, so a kill at any moment leaves the books in the old or the new state.
"""

from __future__ import annotations

import importlib.metadata
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from billing.close.carried import EVERY_HOUR, HOUR_MS, Carried, Looked, carried_over, carry, stage_alive
from billing.close.facts import name_facts, present_facts, stage_facts, stage_fresh_facts, with_before
from billing.close.hours import (
    PORTIONS_AT_ONCE,
    Hour,
    attributed,
    drop_stage,
    hours_before,
    portions,
    stage_claims_and_prices,
)
from billing.close.issued import Fence
from billing.close.published import prepare_claims, publish_claims
from billing.close.resolve import Refusal
from billing.close.stage import Stage
from billing.energy import attribution
from billing.rates import AppliedCard, current_rate_card
from billing.removed import frozen_hours
from billing.tenants import AppliedMapping, current_mapping
from warehouse.chain import append_anyway
from warehouse.errors import LedgerError
from warehouse.instants import epoch_ms
from warehouse.store import Store, read_sql
from warehouse.turns import Held

GRACE = timedelta(minutes=15)
"""How long after its end an hour waits for late records before a close without `until` takes it."""
Progress = Callable[[str, int, int], None]
"""(what is being done, hours done, hours to do)"""


@dataclass(frozen=True)
class CloseReport:
    """The result of a close. Hours are whole hours UTC; `changed` are those whose entries differ from before."""

    run: int
    closed_until: datetime | None
    checked: int
    changed: int
    refused: int
    rate_card: str
    held: int = 0


class Outcome(NamedTuple):
    """What a close records besides hours: the versions of the rate card and the tenant mapping ('' = none was applied),
    and the fingerprints of what it published (None: an old close, which did not record it)."""

    card: str
    mapping: str
    allocations: int | None
    refused_claims: int | None


def close(
    store: Store,
    until: datetime | None = None,
    now: datetime | None = None,
    grace: timedelta = GRACE,
    on_progress: Progress | None = None,
    takes_back: bool = True,
    whole: bool = False,
) -> CloseReport:
    """Computes the ledger of all hours before `until` whose facts or prices changed since they were last closed.

    until:  cut to the hour; by default the earlier of `now` less the grace and the last recorded fact. Never before
            what is closed already: what comes late may change that, too.
    takes_back: what was pushed and would change an issued month waits for a person. Not in a copy that shows what it
            would do.
    whole:  reads all facts again, also those of which nothing new was told. It finds the same.
    Errors: LedgerError if `until` is naive or is in the future.
    """
    with store.turn(f"close {store.database}") as held:
        return _close(store, held, until, now or datetime.now(UTC), grace, on_progress, takes_back, whole)


def _close(
    store: Store,
    held: Held,
    until: datetime | None,
    now: datetime,
    grace: timedelta,
    on_progress: Progress | None,
    takes_back: bool,
    whole: bool,
) -> CloseReport:
    limit = _limit(store, until, now, grace)
    if limit is None:
        return CloseReport(0, None, 0, 0, 0, "")
    progress = on_progress or (lambda what, done, total: None)
    card, mapping = current_rate_card(store), current_mapping(store)
    stage = with_before(store, Stage(_next_run(store)))
    fence, taken_back = Fence(store, card, mapping, held), 0
    try:
        progress("claims", 0, 0)
        carried = None if whole else carried_over(store, stage, mapping)
        if carried is not None:
            stage = replace(stage, of_alive=True)
            refused, dirty, cutoff, has_moved = _staged(store, stage, limit, card, mapping, carried)
            if takes_back and not fence.is_open(stage, {hour.hour for hour in dirty}, limit):
                drop_stage(store, stage)
                stage = replace(stage, of_alive=False, fresh_ms=0)
        if not stage.of_alive:
            refused, dirty, cutoff, has_moved = _staged(store, stage, limit, card, mapping)
        while takes_back and not stage.of_alive:
            taken = fence.take_back(stage, {hour.hour for hour in dirty}, limit)
            if taken is None:
                break
            taken_back += taken
            drop_stage(store, stage)
            refused, dirty, cutoff, has_moved = _staged(store, stage, limit, card, mapping)
        held.check()
        name_facts(store, stage)
        changed = done = 0
        progress("attributing", 0, len(dirty))
        for hours, changed_hours in _close_portions(store, held, stage, portions(dirty), card):
            done, changed = done + hours, changed + changed_hours
            progress("attributing", done, len(dirty))
        unmoved = carried.allocations if carried and stage.of_alive and not has_moved else None
        published = prepare_claims(store, stage, refused, carried.months if carried else None, unmoved)
        versions = (card.version if card else "", mapping.version if mapping else "")
        outcome = Outcome(*versions, published.allocations, published.refused_claims)
        if dirty or _goes_on(store, limit) or outcome != _last_outcome(store):
            held.check()
            _record_run(store, stage.run, cutoff, limit, outcome, len(dirty), changed)
        # Last: killed before it, the tables are as the close before recorded them, and the next close replaces them.
        held.check()
        publish_claims(store, stage, published)
        held.check()
        before = carried if stage.of_alive else None
        carry(store, stage, limit, card, mapping, published, cutoff, before, bool(dirty))
    finally:
        drop_stage(store, stage)
    version = card.version if card else ""
    of_refused = int(store.value("SELECT count() AS claims FROM refused_claims")) if stage.of_alive else len(refused)
    return CloseReport(stage.run, limit, len(dirty), changed, of_refused, version, taken_back)


def stale_hours(store: Store, until: datetime, rate_card: AppliedCard | None) -> list[datetime]:
    """The whole hours before `until` that a close at these prices would compute again: their facts are others than
    those that they were closed with. Nothing is closed."""
    stage = Stage(_next_run(store))
    try:
        present_facts(store, stage)
        stage_claims_and_prices(store, stage, until, rate_card, current_mapping(store))
        dirty = _dirty(store, hours_before(store, stage, until, rate_card), until)
    finally:
        drop_stage(store, stage)
    return [datetime.fromtimestamp(hour.hour * 3600, UTC) for hour in dirty]


def _staged(
    store: Store,
    stage: Stage,
    limit: datetime,
    card: AppliedCard | None,
    mapping: AppliedMapping | None,
    carried: Carried | None = None,
) -> tuple[list[Refusal], list[Hour], datetime, bool]:
    """Fills the working tables with what this close reads. Answers what was refused, the hours to compute, until when
    facts are among it, and whether holdings may differ from what is published.

    carried: what the close before left, if no more is to be read than what is new since.
    """
    cutoff = datetime.now(UTC)
    if carried is None:
        stage_facts(store, stage)
    else:
        stage = stage_fresh_facts(store, stage, carried.read_at)
    # On a cluster, an acknowledgement may arrive from another node before the rows that it is of.
    store.catch_up()
    if carried is not None:
        stage_alive(store, stage, carried)
    refused, looked = stage_claims_and_prices(store, stage, limit, card, mapping, carried)
    dirty = _dirty(store, hours_before(store, stage, limit, card, looked), limit, looked)
    return refused, dirty, cutoff, looked.has_moved


def _limit(store: Store, until: datetime | None, now: datetime, grace: timedelta) -> datetime | None:
    if until is not None:
        if until.tzinfo is None:
            raise LedgerError(
                "close", f"until {until} has no time zone", "Write it with an offset, e.g. 2026-10-05T00:00Z"
            )
        if until > now:
            raise LedgerError("close", f"until {until.isoformat()} is in the future", "Choose an earlier time")
    facts = store.rows(read_sql(__file__, "last_facts"))
    known = [fact["last"] for fact in facts if fact["facts"]]
    if not known:
        return None
    limit = (until or min(now - grace, max(known))).astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    closed = _closed_until(store)
    return max(limit, closed) if closed else limit


def _closed_until(store: Store) -> datetime | None:
    closed: datetime | None = store.value("SELECT maxOrNull(closed_until) AS last FROM close_runs")
    return closed


def _goes_on(store: Store, limit: datetime) -> bool:
    """Whether it closes time that no close covered before, even if it is empty: a month without a device ends, too."""
    closed = _closed_until(store)
    return closed is None or limit > closed


def _next_run(store: Store) -> int:
    """The number of a run: higher than all before, and unique even if two closes start at the same time."""
    last = max(
        store.value("SELECT max(checked_by) AS last FROM closed_hours"),
        store.value("SELECT max(run) AS last FROM close_runs"),
        store.value("SELECT max(run) AS last FROM close_batches"),
    )
    return ((int(last) >> 20) + 1 << 20) | secrets.randbits(20)


def _dirty(store: Store, hours: Sequence[Hour], limit: datetime, looked: Looked = EVERY_HOUR) -> list[Hour]:
    """The examined hours whose inputs differ from those they were closed with, in order. Hours whose samples were
    removed keep their entries."""
    if not looked.firsts:
        return []
    closed = store.rows(read_sql(__file__, "inputs_of_closed"), looked.params)
    known = {row["hour"]: row["inputs"] for row in closed}
    dirty = [hour for hour in hours if known.get(hour.hour) != hour.inputs]
    # An hour that has lost everything it was computed from (a device row corrected away) must be emptied.
    gone = set(known) - {hour.hour for hour in hours}
    dirty += [Hour(hour, 0, 0) for hour in gone if hour * HOUR_MS < epoch_ms(limit) and known[hour] != 0]
    frozen = frozen_hours(store)
    return sorted(hour for hour in dirty if hour.hour not in frozen)


def _close_portions(
    store: Store, held: Held, stage: Stage, portions: Sequence[Sequence[Hour]], card: AppliedCard | None
) -> Iterator[tuple[int, int]]:
    """Closes portions, PORTIONS_AT_ONCE at a time, each over a connection of its own: many statements of a close keep
    one core busy only. Answers for each how many hours it has and how many of them changed, in any order."""

    def work(portion: Sequence[Hour], own: Store) -> tuple[int, int]:
        with attributed(own, stage, portion, card) as (of_portion, energy):
            return len(portion), _publish(own, held, of_portion, portion, energy)

    def work_apart(portion: Sequence[Hour]) -> tuple[int, int]:
        with store.another() as own:
            return work(portion, own)

    if len(portions) == 1:
        yield work(portions[0], store)
        return
    with ThreadPoolExecutor(PORTIONS_AT_ONCE) as pool:
        tasks = [pool.submit(work_apart, portion) for portion in portions]
        try:
            for task in as_completed(tasks):
                yield task.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _publish(store: Store, held: Held, stage: Stage, portion: Sequence[Hour], energy: Mapping[int, int]) -> int:
    """Writes the entries of the hours that changed, then makes them visible."""
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
    held.check()
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
