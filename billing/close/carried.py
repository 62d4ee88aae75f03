"""What a close passes on to the next, so that a close costs what changed and not what there is.

Most allocations never change again: they ended long ago, and what they held, or why it was refused, is published in
`allocations` and `refused_claims`. A close carries over the others: those that hold something or did within HORIZON,
and those in a dispute that is not settled (billing.close.unsettled). The next close makes claims only for these and for
allocations with new facts (the working table `alive`), compares what they hold with what is published, and examines the
hours in which that differs, in which samples are new, or that are not closed yet. Everything else stays as published.

    carried ─┐
    new facts┴▶ alive ─▶ claims ─▶ settled ─▶ moved ─▶ hours to examine ─▶ inputs
                                      ▲ held then: what the others held in those hours

Why this is correct:
- A claim follows from the events of its allocation alone, and an event changes it only from the event's time on.
  Two exceptions: a claim that was refused because it ended before it started counts once a later end comes, and one
  whose end was lost when the next holder came held all the time once its end comes. Such events are treated as from
  before the horizon (late.sql).
- Claims conflict on a device, or on a node if only that is known, and only while they overlap. So reports about later
  times cannot conflict with an allocation that ended before the horizon.
- A fact from before the horizon, or a device row, brings back all allocations ever accepted or refused on the device.
- An allocation that is looked at and was refused, or lost its end, in a settled dispute brings back that device, too:
  else its claim would be made again without those that decided about it.
- Samples from before the horizon may tell that an allocation lived longer whose end was lost: they bring back its
  device (late_samples.sql).
If one of the conditions fails (deleted events, another mapping, another release, a killed close), everything is read
again. What a close carries over can be dropped at any time.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from billing.close.claims import SILENCE_MS
from billing.close.facts import read_too, run_before
from billing.close.published import Month, Months, Published, published, stage_months, touched_months
from billing.close.resolve import FOREVER, LOST
from billing.close.stage import Stage
from billing.energy import attribution
from billing.rates.staging import subject_keys, subject_params
from warehouse.instants import epoch_ms, of_epoch_ms
from warehouse.store import Store, read_sql

if TYPE_CHECKING:
    import pyarrow as pa

    from billing.rates import AppliedCard
    from billing.tenants import AppliedMapping

TABLES_OF_FACTS = ("events", "devices", "samples", "touched_hours", "ingest_batches", "recent_batches")
HORIZON = timedelta(days=1)
"""How long after its end an allocation is carried on. Facts that come later bring all that their devices ever had."""
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Carried:
    """run: the close that left it.   rules, prices: the versions that it used (`rules_of`, `prices_of`)."""

    run: int
    closed_until: datetime
    read_at: datetime
    horizon: datetime
    rules: str
    prices: str
    facts: int
    hours: int
    allocations: int
    months: Months


@dataclass(frozen=True)
class Looked:
    """The hours that a close examines, in runs [first, next) since the epoch, in order.

    has_moved: holdings may differ from what is published.
    """

    firsts: tuple[int, ...]
    nexts: tuple[int, ...]
    has_moved: bool = True

    @property
    def params(self) -> dict[str, Any]:
        return {"firsts": list(self.firsts), "nexts": list(self.nexts)}

    @property
    def first_month(self) -> int:
        """Of the first hour, as 202610."""
        first = datetime.fromtimestamp(self.firsts[0] * 3600 if self.firsts else 0, UTC)
        return first.year * 100 + first.month

    @property
    def touching(self) -> str:
        """A condition on touched_hours, with `params`: the hours that are looked at, and those after them, whose
        samples may reach into them."""
        is_every = (self.firsts, self.nexts) == (EVERY_HOUR.firsts, EVERY_HOUR.nexts)
        return "true" if is_every else read_sql(__file__, "touching")


EVERY_HOUR = Looked((0,), (1 << 31,))


def rules_of(mapping: AppliedMapping | None) -> str:
    """The version of the rules by which events become allocations."""
    return f"{importlib.metadata.version('gpuledger')} {mapping.version if mapping else ''}"


def prices_of(store: Store, card: AppliedCard | None) -> str:
    """The version of what hours are computed from besides allocations."""
    return f"{card.version if card else ''} {attribution.rules_in_force(store)}"


def carried_over(store: Store, stage: Stage, mapping: AppliedMapping | None) -> Carried | None:
    """What the close before left, if everything is as it left it and this one works by its rules; None: read
    everything."""
    rows = store.rows(read_sql(__file__, "carried_last"))
    if not rows:
        return None
    (row,) = rows
    of_months = (row.pop("names"), row.pop("parts"), row.pop("fingerprints"))
    carried = Carried(**row, months={name: Month(*both) for name, *both in zip(*of_months, strict=True)})
    if carried.run != run_before(store, stage) or carried.rules != rules_of(mapping):
        return None
    if (carried.facts, carried.hours) != (_facts(store), _hours(store)):
        return None
    (left,) = store.rows(read_sql(__file__, "last_close"))
    now = published(store, known=carried.months)
    is_as_left = now.allocations == carried.allocations and now.refused_claims == left["refused_claims"]
    return replace(carried, months=now.months) if is_as_left else None


def stage_alive(store: Store, stage: Stage, carried: Carried) -> None:
    """Fills the working tables `alive` with the allocations to look at, and `events_of_alive` with their events."""
    horizon_ms = epoch_ms(carried.horizon)
    params = {
        **stage.names("alive", "events_of_alive", "fresh", "late", "reached"),
        "last": carried.run,
        "horizon_ms": horizon_ms,
        "lost": LOST,
    }
    for name in ("stage_alive", "alive", "late", "reached"):
        store.command(read_sql(__file__, name), params)
    if hours := [hour for hour in _sampled_anew(store, stage) if hour * HOUR_MS < horizon_ms]:
        since, until = (of_epoch_ms(hour * HOUR_MS) for hour in (min(hours), max(hours) + 1))
        store.command(read_sql(__file__, "late_samples"), {**params, "since": since, "until": until})
    if store.value("SELECT count() AS late FROM {late:Identifier}", params):
        store.command(read_sql(__file__, "reached_late"), params)
    store.command(read_sql(__file__, "alive_on"), params)
    while True:
        reopened = store.rows(read_sql(__file__, "reopened"), params)
        if not reopened:
            break
        store.insert(stage("reached"), _devices(reopened))
        store.command(read_sql(__file__, "alive_on"), params)
    store.command(read_sql(__file__, "events_of_alive"), params)
    stage_months(store, stage)
    read_too(store, stage, read_sql(__file__, "batches_of_alive"), {**params, "silence_ms": SILENCE_MS})


def _devices(rows: Sequence[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: [row[name] for row in rows] for name in ("cluster", "device_id")})


def look_at(store: Store, stage: Stage, carried: Carried, limit: datetime, card: AppliedCard | None) -> Looked:
    """The hours in which anything may be other than it was closed, from what the allocations in `alive` hold now; fills
    `settled` up with what others held then."""
    names = stage.names("settled", "alive", "fresh")
    looked = EVERY_HOUR
    if carried.prices == prices_of(store, card):
        touched, _ = touched_months(store, stage)
        compared = {**names, "touched": touched, "until_ms": epoch_ms(limit), "forever": FOREVER}
        moved = store.rows(read_sql(__file__, "moved"), compared)
        runs = [(row["first"], row["next"]) for row in moved if row["is_past"]]
        runs += [(hour, hour + 1) for hour in _sampled_anew(store, stage)]
        until = epoch_ms(limit) // HOUR_MS
        told = store.value(read_sql(__file__, "earliest_device_change"), names)
        runs += [
            (min(hour, until), until) for hour in (epoch_ms(carried.closed_until) // HOUR_MS, told) if hour is not None
        ]
        looked = _looked(runs, until, bool(moved))
        if not looked.firsts:
            return looked
    read_too(store, stage, read_sql(__file__, "batches_of_hours", touching=looked.touching), looked.params)
    then = {**subject_params(card.card if card else None), **looked.params, "first_month": looked.first_month}
    held_then = read_sql(__file__, "held_then", keys=subject_keys("allocations", "priced_"))
    store.command(held_then, {**names, **then, "forever": FOREVER})
    return looked


def _sampled_anew(store: Store, stage: Stage) -> list[int]:
    names, statements = stage.names("fresh"), ["sampled_anew"]
    if store.value("SELECT count() AS unsaid FROM {fresh:Identifier} WHERE is_of_samples AND empty(hours)", names):
        statements.append("sampled_anew_unsaid")
    return sorted({row["hour"] for name in statements for row in store.rows(read_sql(__file__, name), names)})


def carry(
    store: Store,
    stage: Stage,
    limit: datetime,
    card: AppliedCard | None,
    mapping: AppliedMapping | None,
    left: Published,
    read_at: datetime,
    before: Carried | None,
    is_dirty: bool,
) -> None:
    """Leaves what this close found to the next one; to be called when all of it is published.

    before: what the close before left, if this one began with it.   is_dirty: hours were closed.
    """
    store.command(
        read_sql(__file__, "carry"),
        {
            **stage.names("claims", "unsettled"),
            "run": stage.run,
            "closed_until": limit,
            "read_at": read_at,
            "horizon_ms": epoch_ms(limit - HORIZON),
            "rules": rules_of(mapping),
            "prices": prices_of(store, card),
            # What somebody changes by hand meanwhile, this close has not read.
            "facts": before.facts if before else _facts(store),
            "hours": before.hours if before and not is_dirty else _hours(store),
            "allocations": left.allocations,
            "names": [*left.months],
            "parts": [month.parts for month in left.months.values()],
            "fingerprints": [month.fingerprint for month in left.months.values()],
        },
    )


def _facts(store: Store) -> int:
    asked = {"database": store.database, "tables": [store.stored_as(table) for table in TABLES_OF_FACTS]}
    sql = read_sql(__file__, "carried_facts", mutations=store.of_shards("system.mutations"))
    return int(store.value(sql, asked))


def _hours(store: Store) -> int:
    return int(store.value(read_sql(__file__, "carried_hours")))


def _looked(runs: Sequence[tuple[int, int]], until: int, has_moved: bool) -> Looked:
    """Runs of hours, joined where they touch or overlap, before an hour."""
    joined: list[list[int]] = []
    for first, end in sorted((max(first, 0), min(end, until)) for first, end in runs):
        if first >= end:
            continue
        if joined and first <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([first, end])
    return Looked(tuple(first for first, _ in joined), tuple(end for _, end in joined), has_moved)
