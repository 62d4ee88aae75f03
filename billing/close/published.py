"""Publishes allocations and refused claims (tables `allocations`, `refused_claims`), and computes fingerprints of both.

`allocations` is partitioned by the month of the end. A close takes over unchanged partitions without reading them, and
a partition with the same parts has the same fingerprint. So the past costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


def published(
    store: Store, allocations: str = "allocations", refused_claims: str = "refused_claims", known: Months | None = None
) -> Published:
    """Fingerprints of two tables.   known: as they were found before, of months of the same or another such table."""
    named = {"allocations": allocations, "refused_claims": refused_claims}
    before = {month.parts: month.fingerprint for month in (known or {}).values()}
    parts = {
        row["month"]: row["parts"] for row in store.rows(read_sql(__file__, "parts_of_months"), {"table": allocations})
    }
    found = {month: before[of_parts] for month, of_parts in parts.items() if of_parts in before}
    read = store.rows(read_sql(__file__, "fingerprint_months"), {**named, "known": [*found]})
    found |= {row["month"]: row["fingerprint"] for row in read}
    return Published(
        sum(found.values()) % 2**64,
        int(store.value(read_sql(__file__, "fingerprint_refused"), named)),
        {month: Month(parts[month], found[month]) for month in found if month in parts},
    )


def prepare_claims(store: Store, stage: Stage, refused: Sequence[Refusal], known: Months | None = None) -> Published:
    """Fills what `publish_claims` puts in place. Answers the fingerprints of it."""
    new = _new(stage)
    for table in TABLES:
        store.create_like(new[table], table)
    names: dict[str, Any] = {"new": new["allocations"], **stage.names("settled", "alive"), "forever": FOREVER}
    which = WHICH if stage.of_alive else "true"
    store.command(read_sql(__file__, "publish_allocations", which=which), names, ANY_NUMBER)
    if stage.of_alive:
        _keep(store, stage, names)
    if refused:
        store.insert(new["refused_claims"], _refusals(refused))
    return published(store, new["allocations"], new["refused_claims"], known)


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


def publish_claims(store: Store, stage: Stage) -> None:
    """Replaces `allocations` and `refused_claims` by what this close found; readers see the old or the new."""
    for table, new in _new(stage).items():
        store.exchange(new, table)


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
