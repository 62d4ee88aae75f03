"""From events to the claims that the books believe: who held which units of which device, from when to when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from billing.close.resolve import FOREVER, Claim, DeviceState, Refusal, Resolution, resolve
from warehouse.store import Store, read_sql

if TYPE_CHECKING:
    import pyarrow as pa

SILENCE_MS = 24 * 3_600_000
"""An open claim whose own samples stopped this long before its device's did has lost its end event."""


@dataclass(frozen=True)
class Stage:
    """Names of the working tables of one close; they exist only while it runs."""

    run: int

    def __call__(self, name: str) -> str:
        return f"close_{self.run}_{name}"

    def names(self, *names: str) -> dict[str, str]:
        return {name: self(name) for name in names}


def stage_claims(store: Store, stage: Stage) -> list[Refusal]:
    """Fills the working tables `states` and `settled`. Answers what was refused, with reasons."""
    params = {**stage.names("claims", "states", "settled", "disputed", "decided"), "forever": FOREVER}
    for name in ("stage_claims", "claims", "states"):
        store.command(read_sql(__file__, name), params)
    suspects = {(row["cluster"], row["device_id"]) for row in store.rows(read_sql(__file__, "suspects"), params)}
    backwards = _claims(store, stage, "ends_before_it_starts")
    unknown = _claims(
        store,
        stage,
        "device_id != '' AND NOT ends_before_it_starts "
        "AND (cluster, device_id) NOT IN (SELECT cluster, device_id FROM {states:Identifier})",
    )
    disputed, resolution = _resolve(store, stage, suspects)
    _write(store, stage, disputed, resolution)
    store.command(read_sql(__file__, "settle"), params)
    _end_lost(store, stage)
    return [
        *(Refusal(claim, "ends_before_it_starts", "its end event is older than its start") for claim in backwards),
        *(Refusal(claim, "unknown_device", f"no device row names {claim.device_id}") for claim in unknown),
        *resolution.refused,
    ]


def publish_claims(store: Store, stage: Stage, refused: Sequence[Refusal]) -> None:
    """Replaces the tables `allocations` and `refused_claims` by what this close found."""
    _exchange(store, stage, "allocations", read_sql(__file__, "publish_allocations"))
    _exchange(store, stage, "refused_claims", "")
    if refused:
        store.insert("refused_claims", _refusals(refused))


def _exchange(store: Store, stage: Stage, table: str, fill: str) -> None:
    """Fills an empty copy and puts it in the table's place at once, so that readers see the old or the new."""
    new = stage(f"new_{table}")
    names = {"new": new, "table": table, **stage.names("settled"), "forever": FOREVER}
    store.create_like(new, table)
    if fill:
        store.command(fill, names)
    store.exchange(new, table)
    store.command("DROP TABLE {new:Identifier}", names)


def _claims(store: Store, stage: Stage, condition: str, more: Mapping[str, Any] | None = None) -> list[Claim]:
    """Claims that fulfil one of the conditions written in this module."""
    rows = store.rows(
        "SELECT claim, cluster, allocation_id, workload_id, tenant, node, device_id, partition_id, units, gpus, "
        f"start_ms, end_ms FROM {{claims:Identifier}} WHERE {condition} ORDER BY start_ms, allocation_id, claim",
        {**stage.names("claims", "states"), **(more or {})},
    )
    return [Claim(**row) for row in rows]


def _resolve(store: Store, stage: Stage, suspects: set[tuple[str, str]]) -> tuple[set[tuple[str, str]], Resolution]:
    """Decides about the devices whose claims contradict each other or name a node alone, and their neighbours."""
    on_nodes = _claims(store, stage, "device_id = '' AND NOT ends_before_it_starts")
    nodes = {(claim.cluster, claim.node) for claim in on_nodes}
    if not suspects and not nodes:
        return set(), Resolution()
    states = [
        DeviceState(**row)
        for row in store.rows(
            "SELECT cluster, device_id, node, units, start_ms, end_ms FROM {states:Identifier}", stage.names("states")
        )
    ]
    disputed = suspects | {(state.cluster, state.device_id) for state in states if (state.cluster, state.node) in nodes}
    claims = [
        claim
        for claim in _claims(store, stage, "device_id != '' AND NOT ends_before_it_starts")
        if claim.device in disputed
    ]
    states = [state for state in states if (state.cluster, state.device_id) in disputed]
    resolution = resolve([*claims, *on_nodes], states, _last_seen(store), _named(store, on_nodes))
    return disputed, resolution


def _last_seen(store: Store) -> Any:
    def last_seen(claim: Claim, before_ms: int) -> int | None:
        (row,) = store.rows(
            "SELECT toUnixTimestamp64Milli(maxOrNull(ts)) AS seen FROM samples WHERE cluster = {cluster:String} "
            "AND device_id = {device:String} AND workload_id = {workload:String} "
            "AND toUnixTimestamp64Milli(ts) <= {before:Int64}",
            {
                "cluster": claim.cluster,
                "device": claim.device_id,
                "workload": claim.workload_id,
                "before": before_ms,
            },
        )
        return None if row["seen"] is None else int(row["seen"])

    return last_seen


def _named(store: Store, claims: Sequence[Claim]) -> dict[tuple[str, str], list[str]]:
    """Devices on which the workloads of claims on a node were sampled."""
    if not claims:
        return {}
    rows = store.rows(
        "SELECT DISTINCT cluster, workload_id, device_id FROM samples WHERE workload_id IN {workloads:Array(String)} "
        "ORDER BY cluster, workload_id, device_id",
        {"workloads": sorted({claim.workload_id for claim in claims})},
    )
    named: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        named.setdefault((row["cluster"], row["workload_id"]), []).append(row["device_id"])
    return named


def _write(store: Store, stage: Stage, disputed: set[tuple[str, str]], resolution: Resolution) -> None:
    store.command(
        "CREATE TABLE {disputed:Identifier} (cluster String, device_id String) ENGINE = Memory",
        stage.names("disputed"),
    )
    store.command(
        "CREATE TABLE {decided:Identifier} (told_as UInt64, claim UInt64, device_id String, units UInt32, "
        "end_ms Int64, estimated String) ENGINE = Memory",
        stage.names("decided"),
    )
    if disputed:
        store.insert(
            stage("disputed"), _table({"cluster": [c for c, _ in disputed], "device_id": [d for _, d in disputed]})
        )
    if resolution.kept:
        store.insert(stage("decided"), _decided(resolution.kept))


def _decided(kept: Sequence[Claim]) -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "told_as": pa.array([claim.told_as for claim in kept], pa.uint64()),
            "claim": pa.array([claim.claim for claim in kept], pa.uint64()),
            "device_id": [claim.device_id for claim in kept],
            "units": pa.array([claim.units for claim in kept], pa.uint32()),
            "end_ms": pa.array([claim.end_ms for claim in kept], pa.int64()),
            "estimated": [claim.estimated for claim in kept],
        }
    )


def _end_lost(store: Store, stage: Stage) -> None:
    """Ends open claims whose workload fell silent at their last sign of life."""
    params = {**stage.names("settled", "lost"), "forever": FOREVER, "silence_ms": SILENCE_MS}
    lost = store.rows(read_sql(__file__, "lost_ends"), params)
    if not lost:
        return
    import pyarrow as pa

    store.command("CREATE TABLE {lost:Identifier} (claim UInt64, last_ms Int64) ENGINE = Memory", stage.names("lost"))
    store.insert(
        stage("lost"),
        pa.table(
            {
                "claim": pa.array([row["claim"] for row in lost], pa.uint64()),
                "last_ms": pa.array([row["last_ms"] for row in lost], pa.int64()),
            }
        ),
    )
    names = stage.names("settled", "lost", "ended")
    store.command(read_sql(__file__, "end_lost"), names)
    store.exchange(stage("ended"), stage("settled"))


def _refusals(refused: Sequence[Refusal]) -> pa.Table:
    import pyarrow as pa

    claims = [refusal.claim for refusal in refused]
    instant = pa.timestamp("ms", "UTC")
    return pa.table(
        {
            "reason": [refusal.reason for refusal in refused],
            "detail": [refusal.detail for refusal in refused],
            "cluster": [claim.cluster for claim in claims],
            "allocation_id": [claim.allocation_id for claim in claims],
            "tenant": [claim.tenant for claim in claims],
            "device_id": [claim.device_id for claim in claims],
            "partition_id": [claim.partition_id for claim in claims],
            "units": pa.array([claim.units for claim in claims], pa.uint32()),
            "start_at": pa.array([claim.start_ms for claim in claims], instant),
            "end_at": pa.array([None if claim.end_ms >= FOREVER else claim.end_ms for claim in claims], instant),
        }
    )


def _table(columns: Mapping[str, Sequence[Any]]) -> pa.Table:
    import pyarrow as pa

    return pa.table({name: list(values) for name, values in columns.items()})
