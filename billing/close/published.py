"""Publishes allocations and refused claims (tables `allocations`, `refused_claims`), and computes fingerprints of both.

`allocations` is partitioned by the month of the end. A close takes over unchanged partitions without reading them, and
a partition with the same parts has the same fingerprint. So the past costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from billing.close.resolve import FOREVER, Refusal
from billing.close.stage import WHICH, Stage
from warehouse.store import Params, Store, identifier, read_sql

if TYPE_CHECKING:
    import pyarrow as pa

TABLES = ("allocations", "refused_claims")
ANY_NUMBER = {"max_partitions_per_insert_block": 0}


class Month(NamedTuple):
    """Fingerprints of the parts and of the rows of a month of allocations."""

    parts: int
    fingerprint: int


Months = Mapping[str, Month]
"""By partition: the month of the allocations' end, `0` of those that are held still."""


@dataclass(frozen=True)
class Published:
    """Fingerprints of both tables, the same for the same rows in any order or parts."""

    allocations: int
    refused_claims: int
    months: Months = field(default_factory=dict, compare=False)
    replaced: tuple[str, ...] = field(default=(), compare=False)
    """Of `prepare_claims`: the tables that are others now."""


def published(
    store: Store, allocations: str = "allocations", refused_claims: str = "refused_claims", known: Months | None = None
) -> Published:
    """Fingerprints of two tables.   known: as they were found before, of months of the same or another such table."""
    before = {month.parts: month.fingerprint for month in (known or {}).values()}
    parts = {
        row["month"]: row["parts"] for row in store.rows(read_sql(__file__, "parts_of_months"), {"table": allocations})
    }
    found = {month: before[of_parts] for month, of_parts in parts.items() if of_parts in before}
    read = store.rows(read_sql(__file__, "fingerprint_months"), {"allocations": allocations, "known": [*found]})
    found |= {row["month"]: row["fingerprint"] for row in read}
    return Published(
        sum(found.values()) % 2**64,
        _of_refused(store, refused_claims),
        {month: Month(parts[month], found[month]) for month in found if month in parts},
    )


def _of_refused(store: Store, table: str) -> int:
    return int(store.value(read_sql(__file__, "fingerprint_refused"), {"refused_claims": table}))


def prepare_claims(
    store: Store,
    stage: Stage,
    refused: Sequence[Refusal],
    known: Months | None = None,
    unmoved: int | None = None,
) -> Published:
    """Fills what `publish_claims` puts in place. Answers the fingerprints of it.

    unmoved: the fingerprint of what is published, if the allocations are the same; `known` are its months then.
    """
    new = _new(stage)
    replaced = ["allocations"] if unmoved is None else []
    if refused or store.value("SELECT count() AS claims FROM refused_claims"):
        replaced.append("refused_claims")
    for table in replaced:
        store.create_like(new[table], table)
    if refused:
        store.insert(new["refused_claims"], _refusals(refused))
    if stage.of_alive and "refused_claims" in replaced:
        kept = {"new": new["refused_claims"], **stage.names("alive")}
        store.command(read_sql(__file__, "keep_refused"), kept)
    if unmoved is not None:
        of_refused = _of_refused(store, new["refused_claims"]) if "refused_claims" in replaced else 0
        return Published(unmoved, of_refused, known or {}, tuple(replaced))
    names: dict[str, Any] = {"new": new["allocations"], **stage.names("settled", "alive"), "forever": FOREVER}
    which = WHICH if stage.of_alive else "true"
    store.command(read_sql(__file__, "publish_allocations", which=which), names, ANY_NUMBER)
    if stage.of_alive:
        _keep(store, stage, names)
    refused_claims = new["refused_claims"] if "refused_claims" in replaced else "refused_claims"
    return replace(published(store, new["allocations"], refused_claims, known), replaced=tuple(replaced))


def stage_months(store: Store, stage: Stage) -> None:
    """Fills the working table `months`, from `alive`."""
    store.command(read_sql(__file__, "months_alive"), stage.names("months", "alive"))


def touched_months(store: Store, stage: Stage) -> tuple[list[str], list[str]]:
    """The months of what is published: those with an allocation that is looked at, and the others."""
    rows = store.rows("SELECT month, is_touched FROM {months:Identifier}", stage.names("months"))
    touched, others = ([row["month"] for row in rows if row["is_touched"] == is_touched] for is_touched in (1, 0))
    return touched, others


def _keep(store: Store, stage: Stage, names: Params) -> None:
    """Copies the published rows of allocations that are not examined."""
    touched, others = touched_months(store, stage)
    # The engine's own names of partitions: digits.
    parts = [f"ATTACH PARTITION ID '{int(month)}' FROM allocations" for month in others]
    if parts:
        store.command(f"ALTER TABLE {identifier(names['new'])} {', '.join(parts)}")
    store.command(read_sql(__file__, "keep_allocations"), {**names, "touched": touched}, ANY_NUMBER)


def publish_claims(store: Store, stage: Stage, prepared: Published) -> None:
    """Replaces `allocations` and `refused_claims` by what this close found, where that is something else; readers see
    the old or the new."""
    new = _new(stage)
    for table in prepared.replaced:
        store.exchange(new[table], table)


def _new(stage: Stage) -> dict[str, str]:
    return {table: stage(f"new_{table}") for table in TABLES}


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
