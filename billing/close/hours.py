"""The hours of a close: which there are, from which facts, and their entries in working tables.

Nothing here is published: a close publishes the result (billing.close.run), the check of issued months does not
(billing.close.issued).
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import NamedTuple
from zoneinfo import ZoneInfo

from billing.close.carried import EVERY_HOUR, HORIZON, HOUR_MS, Carried, Looked, look_at
from billing.close.claims import stage_claims
from billing.close.payers import stage_payers
from billing.close.resolve import Refusal
from billing.close.stage import Stage
from billing.energy import attribution
from billing.rates import AppliedCard, cut_instants
from billing.rates.staging import stage_prices, subject_keys, subject_params
from billing.tenants import AppliedMapping
from billing.working_tables import drop_tables
from warehouse.instants import epoch_ms, of_epoch_ms
from warehouse.store import Params, Store, read_sql

PORTION_WEIGHT = 32_000_000
"""Samples, and claims and states six-fold, that a portion of a close takes, up to an hour's more; bounds its memory."""
PORTIONS_AT_ONCE = 2
SMALL_WEIGHT = 500_000
"""A close of less than this is not worth dividing."""
FACT_WEIGHT = 6
SHIFT_HOURS = 8
"""What a stretch lasts at most (stretches.sql)."""
ANEW_WEIGHT = 8_000_000
"""How much of a portion is summed anew from samples at once: that takes the most memory of all."""


class Hour(NamedTuple):
    """An hour (since the epoch), the fingerprint of its inputs, and its amount of work."""

    hour: int
    inputs: int
    weight: int


def stage_claims_and_prices(
    store: Store,
    stage: Stage,
    limit: datetime,
    card: AppliedCard | None,
    mapping: AppliedMapping | None,
    carried: Carried | None = None,
) -> tuple[list[Refusal], Looked]:
    """Fills the working tables with claims, states and prices, from the batches of the table `batches`. Answers what
    was refused, and which hours are to be looked at.

    carried: what the close before left, if only the allocations in `alive` are looked at.
    """
    subjects = subject_params(card.card if card else None)
    refused = stage_claims(store, stage, subjects, epoch_ms(limit - HORIZON))
    if mapping is not None:
        stage_payers(store, stage, mapping, subjects)
    looked = look_at(store, stage, carried, limit, card) if carried else EVERY_HOUR
    if looked.firsts:
        _stage_prices(store, stage, card, limit)
    return refused, looked


def hours_before(
    store: Store, stage: Stage, limit: datetime, card: AppliedCard | None, looked: Looked = EVERY_HOUR
) -> list[Hour]:
    """The hours before an instant that have anything to compute, in order; only those that are examined."""
    if not looked.firsts:
        return []
    zone = f"{card.card.timezone if card else 'UTC'} {attribution.rules_in_force(store)}"
    params = {**stage.names("batches", "settled", "states", "prices"), **looked.params}
    inputs = store.rows(
        read_sql(__file__, "inputs", touching=looked.touching),
        {**params, "until_ms": epoch_ms(limit), "zone_hash": _fingerprint(zone)},
    )
    samples = {
        row["hour"]: row["samples"]
        for row in store.rows(read_sql(__file__, "hour_samples", touching=looked.touching), params)
    }
    cut = _fingerprints_of_cuts(card, [row["hour"] for row in inputs])
    return [
        Hour(
            row["hour"],
            (row["inputs"] + cut.get(row["hour"], 0)) % 2**64,
            samples.get(row["hour"], 0) + FACT_WEIGHT * row["facts"],
        )
        for row in inputs
    ]


def _fingerprints_of_cuts(card: AppliedCard | None, hours: Sequence[int]) -> Mapping[int, int]:
    """By hour, of the prices' starts and ends within it, whoever pays them: each cuts the segments by which energy is
    shared out."""
    found: dict[int, int] = defaultdict(int)
    cuts, midnights = _cuts(card, hours[0], hours[-1]) if hours else ([], [])
    for at in (at for at in cuts if at % HOUR_MS and at not in midnights):
        found[at // HOUR_MS] += _fingerprint(f"cut {at}")
    return found


def _fingerprint(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _stage_prices(store: Store, stage: Stage, card: AppliedCard | None, limit: datetime) -> None:
    """The card's prices for every combination of what prices depend on that is held in the hours that are looked at,
    from the first device on."""
    first = store.value("SELECT min(start_ms) AS first_ms FROM {states:Identifier}", stage.names("states"))
    kept = subject_params(card.card if card else None)
    asked = {**stage.names("settled", "states"), **kept}
    subjects = store.rows(read_sql(__file__, "subjects", keys=subject_keys("settled")), asked) if card else []
    tables = stage.names("prices", "price_subjects", "price_schedules")
    stage_prices(store, tables, card.card if card else None, subjects, of_epoch_ms(first), limit)


def portions(hours: Sequence[Hour]) -> list[list[Hour]]:
    """The hours in order, in runs of about the same weight: at most PORTION_WEIGHT and one hour's."""
    total = sum(hour.weight for hour in hours)
    rounds = math.ceil(total / (PORTION_WEIGHT * PORTIONS_AT_ONCE))
    share = total / max(1, rounds * PORTIONS_AT_ONCE if total > SMALL_WEIGHT else 1)
    found: list[list[Hour]] = []
    before = 0
    for hour in hours:
        if not found or before + hour.weight > share * len(found):
            found.append([])
        found[-1].append(hour)
        before += hour.weight
    return found


@contextmanager
def attributed(
    store: Store, run: Stage, portion: Sequence[Hour], card: AppliedCard | None
) -> Iterator[tuple[Stage, Mapping[int, int]]]:
    """Attributes and rates some hours: within, the working tables `entries` and `energy` of the stage that it gives are
    filled (the latter where there is any: fingerprints of hours' energy entries)."""
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
        "shift_hours": SHIFT_HOURS,
        "from_ms": first * HOUR_MS,
        "to_ms": (last + 2) * HOUR_MS,
        "uniform_ms": _uniform_interval(store, run, first, last),
    }
    store.command(read_sql(__file__, "dirty"), {**names, "hours": [hour.hour for hour in portion]})
    _hear(store, params, _bounds(portion))
    _run(store, params, "stretches")
    anybody = store.value("SELECT max(is_whole) AS anybody FROM {stretches:Identifier}", params)
    for name in ("said", "whole"):
        store.command(read_sql(__file__, name, made="AS" if anybody else "EMPTY AS"), params)
    _run(store, params, "segments", "holdings", "ways")
    drop_tables(store, map(stage, ("stretches", "said")))
    has_energy = _meter(store, stage, params)
    _run(store, params, "entries")
    energy = attribution.attribute_energy(store, stage, params) if has_energy else {}
    yield stage, energy
    drop_tables(store, map(stage, (*_PORTION_TABLES, *attribution.TABLES)))


_PORTION_TABLES = (
    *("dirty", "reported", "stretches", "said", "whole", "segments", "holdings", "ways", "spilled", "metered"),
    *("sample_hours", "doubted", "several", "entries"),
)


def _run(store: Store, params: Params, *statements: str) -> None:
    placed = read_sql(__file__, "placed")
    for name in statements:
        store.command(read_sql(__file__, name, placed=placed), params)


def _hear(store: Store, params: Params, bounds: Sequence[int]) -> None:
    """Fills `reported`: the streams' hourly sums, reckoned anew where they are not exact."""
    store.command(read_sql(__file__, "reported", sums=_stream_sums(store)), params)
    _report_anew(store, params, bounds)


def _meter(store: Store, stage: Stage, params: Params) -> bool:
    """Fills `metered` and `several`, and the energy's `measured`, if there is any: from the streams' hourly sums, and
    where those are not enough, from samples, which are read once for all. Answers whether there is any energy."""
    _run(store, params, "stage_samples", "stage_doubted", "stage_several", "spilled", "metered")
    has_energy = attribution.measure(store, stage, params)
    has_doubts = store.value("SELECT countIf(levels != 1) AS doubts FROM {metered:Identifier}", params) > 0
    if has_doubts:
        _run(store, params, "doubted")
    is_unclear = has_energy and attribution.doubt(store, stage, params)
    if has_doubts or is_unclear:
        _run(store, params, "sample_hours")
    if has_doubts:
        _run(store, params, "measured")
    if is_unclear:
        attribution.measure_again(store, stage, params)
    if store.value("SELECT countIf(levels > 1) AS disputes FROM {metered:Identifier}", params):
        _run(store, params, "several")
    return has_energy


def _stream_sums(store: Store) -> str:
    """The statement that sums streams' hours: a table merges its own rows, but a view and shards do not."""
    named = "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = 'stream_hours'"
    merges = str(store.value(named)).endswith("AggregatingMergeTree")
    return read_sql(__file__, "stream_sums_merged" if merges else "stream_sums")


def _report_anew(store: Store, params: Params, bounds: Sequence[int]) -> None:
    """Replaces what `reported` has wrong by what the samples say."""
    incomplete = [row["hour"] for row in store.rows(read_sql(__file__, "incomplete_hours"), params)]
    if incomplete or store.value("SELECT countIf(NOT adds_up) AS inexact FROM {reported:Identifier}", params):
        anew = {**params, "incomplete": incomplete}
        for from_ms, to_ms in pairwise(bounds):
            _run(store, {**anew, "from_ms": from_ms, "to_ms": to_ms}, "reported_anew")
        _run(store, anew, "replaced")


def _bounds(portion: Sequence[Hour]) -> list[int]:
    """Instants (ms) that cut a portion, and the hour after it, into spans of about ANEW_WEIGHT at most."""
    first, end = portion[0].hour, portion[-1].hour + 2
    step = math.ceil((end - first) / math.ceil((1 + sum(hour.weight for hour in portion)) / ANEW_WEIGHT))
    return [*(hour * HOUR_MS for hour in range(first, end, step)), end * HOUR_MS]


def _uniform_interval(store: Store, run: Stage, first: int, last: int) -> int:
    """The one length of all samples that can cover the hours, in ms; 0 if they differ."""
    asked = {**run.names("batches"), "first": first, "last": last + 1}
    (row,) = store.rows(read_sql(__file__, "intervals"), asked)
    return int(row["shortest"]) if row["shortest"] is not None and row["shortest"] == row["longest"] else 0


def _cuts(card: AppliedCard | None, first: int, last: int) -> tuple[list[int], list[int]]:
    """Instants (ms) at which stretches are cut besides where facts change, from the first hour's shift on: changes of
    prices, and local midnights that are not whole hours, which are answered alone, too."""
    if card is None:
        return [], []
    zone = ZoneInfo(str(card.card.timezone))
    start = datetime.fromtimestamp(first * 3600, zone).date()
    stop = datetime.fromtimestamp((last + 1) * 3600, zone).date()
    midnights = [
        at
        for at in (epoch_ms(_midnight(start + timedelta(days=n), zone)) for n in range((stop - start).days + 1))
        if at % HOUR_MS
    ]
    shift = first // SHIFT_HOURS * SHIFT_HOURS
    begin, end = (datetime.fromtimestamp(hour * 3600, UTC) for hour in (shift, last + 1))
    prices = [epoch_ms(instant) for instant in cut_instants(card.card, begin, end)]
    return sorted({*midnights, *prices}), midnights


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=zone)


def drop_stage(store: Store, stage: Stage) -> None:
    """Drops this run's working tables, and those left behind by killed runs (no run takes a day)."""
    tables = [row["name"] for row in store.rows(read_sql(__file__, "working_tables"), {"prefix": stage("")})]
    if store.cluster:
        for table in tables:
            store.drop(table)
    else:
        drop_tables(store, tables)
