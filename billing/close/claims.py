"""From events to accepted claims: which allocation held which units of which device, from when to when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from billing.close.facts import read_too
from billing.close.resolve import FOREVER, SILENT, Claim, DeviceState, LastSeen, Piece, Refusal, Resolution, resolve
from billing.close.stage import Stage
from billing.close.unsettled import AllocationKey, HeldElsewhere, unsettled_claims
from billing.rates.staging import subject_keys
from warehouse.store import Params, Store, read_sql

if TYPE_CHECKING:
    import pyarrow as pa

SILENCE_MS = 24 * 3_600_000
"""An open claim whose own samples stopped this long before its device's did has lost its end event."""


def stage_claims(store: Store, stage: Stage, subjects: Params, horizon_ms: int) -> list[Refusal]:
    """Fills the working tables `states` and `settled`, as if the reported tenants pay, and `unsettled`. Returns the
    refused claims, with reasons.

    horizon_ms: disputes that ended before it need not be decided again.
    subjects: parameters of what prices depend on (billing.rates.staging.subject_params).
    """
    names = stage.names("batches", "claims", "states", "settled", "disputed", "decided", "alive", "unsettled")
    params = {
        **names,
        **subjects,
        "events": stage("events_of_alive") if stage.of_alive else "events",
        "forever": FOREVER,
    }
    for name in ("stage_claims", "claims", "states", "disputed", "stage_unsettled"):
        store.command(read_sql(__file__, name), params)
    doubts: dict[str, list[Claim]] = defaultdict(list)
    for row in store.rows(read_sql(__file__, "doubtful"), params):
        doubts[row.pop("doubt")].append(Claim(**row))
    disputed, resolution = doubts["disputed"], Resolution()
    if disputed:
        workloads = sorted({claim.workload_id for claim in disputed if not claim.device_id or claim.end_ms >= FOREVER})
        if workloads:
            wanted = "SELECT batch FROM samples WHERE workload_id IN {workloads:Array(String)}"
            read_too(store, stage, wanted, {"workloads": workloads})
        states = [DeviceState(**row) for row in store.rows(read_sql(__file__, "disputed_states"), params)]
        resolution, lost = _decide(store, stage, disputed, states, params)
        unsettled = unsettled_claims(
            disputed, states, resolution, horizon_ms, _held_elsewhere(store, stage, horizon_ms)
        )
        for numbers, again in ((unsettled.again, True), (unsettled.given_up, False)):
            store.insert(stage("unsettled"), _numbers(numbers, again))
    else:
        lost = _settle(store, stage, resolution, params)
    _end_lost(store, stage, lost)
    backwards, unknown = doubts["ends_before_it_starts"], doubts["unknown_device"]
    return [
        *(Refusal(claim, "ends_before_it_starts", "its end event is older than its start") for claim in backwards),
        *(Refusal(claim, "unknown_device", f"no device row names {claim.device_id}") for claim in unknown),
        *resolution.refused,
    ]


def _last_seen(store: Store, stage: Stage) -> LastSeen:
    def last_seen(claim: Claim, before_ms: int) -> int | None:
        subject = {
            **stage.names("batches"),
            "cluster": claim.cluster,
            "device": claim.device_id,
            "workload": claim.workload_id,
        }
        seen = store.value(read_sql(__file__, "last_seen"), {**subject, "before": before_ms})
        return None if seen is None else int(seen)

    return last_seen


def _named(store: Store, stage: Stage, claims: Sequence[Claim]) -> dict[tuple[str, str], list[str]]:
    """Devices on which the workloads of claims with a node only were sampled."""
    workloads = sorted({claim.workload_id for claim in claims if not claim.device_id})
    named: dict[tuple[str, str], list[str]] = defaultdict(list)
    if workloads:
        for row in store.rows(read_sql(__file__, "named"), {**stage.names("batches"), "workloads": workloads}):
            named[row["cluster"], row["workload_id"]].append(row["device_id"])
    return named


def _held_elsewhere(store: Store, stage: Stage, horizon_ms: int) -> HeldElsewhere:
    def held_elsewhere(decided: Collection[AllocationKey], given_up: Collection[int]) -> set[AllocationKey]:
        params = {
            **stage.names("claims"),
            "horizon_ms": horizon_ms,
            "allocations": sorted({one for _, one in decided}),
            "given_up": sorted(given_up),
        }
        rows = store.rows(read_sql(__file__, "held_elsewhere"), params)
        return {(row["cluster"], row["allocation_id"]) for row in rows}

    return held_elsewhere


def _numbers(claims: Collection[int], again: bool) -> pa.Table:
    import pyarrow as pa

    return pa.table({"claim": pa.array(sorted(claims), pa.uint64()), "again": pa.array([again] * len(claims))})


def _decided(kept: Sequence[Claim]) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "source_claim": pa.array([claim.source_claim for claim in kept], pa.uint64()),
            "claim": pa.array([claim.claim for claim in kept], pa.uint64()),
            "device_id": [claim.device_id for claim in kept],
            "units": pa.array([claim.units for claim in kept], pa.uint32()),
            "start_ms": pa.array([claim.start_ms for claim in kept], pa.int64()),
            "end_ms": pa.array([claim.end_ms for claim in kept], pa.int64()),
            "estimated": [claim.estimated for claim in kept],
        }
    )


def _decide(
    store: Store, stage: Stage, disputed: Sequence[Claim], states: Sequence[DeviceState], params: Params
) -> tuple[Resolution, dict[int, int]]:
    """Decides the disputed claims, and fills `settled`. Returns also when its claims fell silent, as `_settle` does.

    A claim that fell silent leaves its device to claims on the node, of which others may have fallen silent then.
    """
    sources = _last_seen(store, stage), _named(store, stage, disputed)
    silent_ends: dict[Piece, int] = {}
    while True:
        resolution = resolve(disputed, states, *sources, silent_ends)
        lost = _settle(store, stage, resolution, params)
        found = {(one.claim, one.device_id): lost[one.claim] for one in resolution.kept if one.claim in lost}
        if not found or all(claim.device_id for claim in disputed):
            return resolution, lost
        silent_ends |= found
        for name in ("decided", "settled", "silent"):
            store.command("DROP TABLE {name:Identifier}", {"name": stage(name)})


def _settle(store: Store, stage: Stage, resolution: Resolution, params: Params) -> dict[int, int]:
    """Fills `settled`. Returns its claims whose ends are lost: when they fell silent, in ms."""
    store.command(read_sql(__file__, "stage_decided"), params)
    if resolution.kept:
        store.insert(stage("decided"), _decided(resolution.kept))
    store.command(read_sql(__file__, "settle", keys=subject_keys("claims", "priced_")), params)
    names = {**stage.names("batches", "settled", "silent"), "forever": FOREVER, "silence_ms": SILENCE_MS, "why": SILENT}
    store.command(read_sql(__file__, "silent"), names)
    if not store.value("SELECT count() AS claims FROM {silent:Identifier}", names):
        return {}
    read_too(store, stage, read_sql(__file__, "batches_of_silent"), names)
    return {row["claim"]: row["last_ms"] for row in store.rows(read_sql(__file__, "lost_ends"), names)}


def _end_lost(store: Store, stage: Stage, lost: Mapping[int, int]) -> None:
    """Ends open claims whose workload fell silent at their last sign of life."""
    if not lost:
        return
    import pyarrow as pa

    store.command("CREATE TABLE {lost:Identifier} (claim UInt64, last_ms Int64) ENGINE = Memory", stage.names("lost"))
    of_claims = {"claim": pa.array([*lost], pa.uint64()), "last_ms": pa.array([*lost.values()], pa.int64())}
    store.insert(stage("lost"), pa.table(of_claims))
    names = {**stage.names("settled", "lost", "ended"), "why": SILENT}
    store.command(read_sql(__file__, "end_lost"), names)
    store.exchange(stage("ended"), stage("settled"))
