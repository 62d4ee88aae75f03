"""Demand and capacity: GPUs requested and allocated hour by hour, and how long jobs waited depending on what was free.

The SQL statements are beside this module; the caller passes the period and the filters as parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from billing.periods import Period
from warehouse.store import Store, read_sql

ASKED = __file__
"""Beside it lie the statements."""
BANDS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Where each band of the part that was free begins; it ends where the next one does, the last one at 1."""
FILTERS = ("tenants", "projects", "queues", "pools", "models", "clusters")
Row = Mapping[str, Any]
Ask = Callable[[str], Sequence[Row]]
"""ask(name): the rows of `name`.sql of this folder, for a period and filters."""


@dataclass(frozen=True)
class Waits:
    """Jobs submitted and started in the period: how many, how many of them waited a minute or more, and how long in
    seconds (None: there are none).   unsubmitted: started jobs whose submission is not reported."""

    jobs: int = 0
    waited: int = 0
    median_seconds: float | None = None
    p95_seconds: float | None = None
    waited_gpu_hours: float = 0.0
    unsubmitted: int = 0


@dataclass(frozen=True)
class GroupLine:
    """The devices of one model in one pool of a cluster. gpus, available, allocated: GPUs, the latter on average.
    full_hours: of its hours, those in which less than 5 % was free.   least_free: in the fullest hour, 0-1.   All of
    these are None for who sees some tenants only."""

    cluster: str
    pool: str
    model: str
    waits: Waits
    gpus: int | None = None
    hours: int | None = None
    available: float | None = None
    allocated: float | None = None
    full_hours: int | None = None
    least_free: float | None = None


@dataclass(frozen=True)
class Capacity:
    """groups: the most devices first.   by_free: waits by how much of a job's group was free when it was submitted, as
    BANDS says; None: nobody may know, or nothing is closed then."""

    groups: Sequence[GroupLine]
    by_free: Mapping[int, Waits]
    total: Waits


def asking(store: Store, period: Period, **chosen: Sequence[str]) -> Ask:
    """One that asks the store each time."""
    params = {"start": period.start, "end": period.end, **{name: list(chosen.get(name, ())) for name in FILTERS}}
    return lambda name: store.rows(read_sql(ASKED, name), params)


def demand(ask: Ask) -> Sequence[Row]:
    """The rows of demand.sql: GPUs allocated, available and waited for, by hour."""
    return ask("demand")


def capacity(ask: Ask) -> Capacity:
    """Waits against what was free."""
    groups = {(row["cluster"], row["pool"], row["model"]): row for row in ask("groups")}
    waits: dict[str, dict[Any, Waits]] = {"group": {}, "band": {}, "all": {}}
    for row in ask("waits"):
        key = {"group": (row["cluster"], row["pool"], row["model"]), "band": row["band"], "all": None}[row["by"]]
        waits[row["by"]][key] = Waits(**{name: row[name] for name in Waits.__dataclass_fields__})
    lines = [
        GroupLine(key[0], key[1], key[2], waits["group"].get(key, Waits()), **_measures(groups.get(key)))
        for key in [*groups, *(key for key in waits["group"] if key not in groups)]
    ]
    by_free = {band: found for band, found in waits["band"].items() if band >= 0}
    return Capacity(lines, by_free, waits["all"].get(None, Waits()))


def _measures(row: Row | None) -> dict[str, Any]:
    names = ("gpus", "hours", "available", "allocated", "full_hours", "least_free")
    return {name: row[name] for name in names} if row else {}
