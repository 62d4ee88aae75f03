"""Ranks victims by what they lost, and names aggressors, but only if it happened repeatedly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from alerts.interference.definitions import LEAST_OBSERVATIONS
from alerts.interference.settings import DEFAULT, Settings
from warehouse.store import Store, read_sql

REPETITIONS = 3
"""So often a neighbour's coming must have slowed a victim down before it is named."""
AGREEING = 0.75
"""Of its comings, part that must have."""


@dataclass(frozen=True)
class Victim:
    """See victims.sql. None: not measured."""

    cluster: str
    identity: str
    tenant: str
    episodes: int
    open_episodes: int
    disturbed_windows: int
    mean_slowdown: float | None
    max_slowdown: float | None
    lost_gpu_seconds: float | None
    jitter: float | None
    grade: str
    channels: tuple[str, ...]
    neighbours: tuple[str, ...]


@dataclass(frozen=True)
class Aggressor:
    """See aggressors.sql. verdict: `aggressor` (named), `candidate` (disturbed beside it, but not shown often enough
    that it is its doing), `none`."""

    cluster: str
    victim: str
    aggressor: str
    arrivals: int
    rose: int
    effect: float | None
    windows: int
    disturbed: int
    disturbed_without: float | None
    verdict: str


def verdict(arrivals: int, rose: int, disturbed: int) -> str:
    """Whether a neighbour is named: only if its coming slowed the victim down at least three times, and mostly."""
    if rose >= REPETITIONS and rose >= AGREEING * arrivals:
        return "aggressor"
    return "candidate" if disturbed else "none"


def victims(store: Store, since: datetime, until: datetime) -> list[Victim]:
    """Identities with an episode that lies in (since, until], the most GPU time lost first."""
    params = {"since": since, "until": until, "least_observations": LEAST_OBSERVATIONS}
    return [
        Victim(**{**row, "channels": tuple(row["channels"]), "neighbours": tuple(row["neighbours"])})
        for row in store.rows(read_sql(__file__, "victims"), params)
    ]


def aggressors(
    store: Store, since: datetime, until: datetime, settings: Settings = DEFAULT, of: Sequence[Victim] = ()
) -> list[Aggressor]:
    """Pairs of a victim and a neighbour in (since, until], those named first.   of: whose; none: everybody's."""
    params = {"since": since, "until": until, "rise": settings.slow_at - 1,
              "clusters": [one.cluster for one in of], "victims": [one.identity for one in of]}  # fmt: skip
    found = [_aggressor(row) for row in store.rows(read_sql(__file__, "aggressors"), params)]
    return sorted(found, key=lambda one: ("aggressor", "candidate", "none").index(one.verdict))


def _aggressor(row: Mapping[str, Any]) -> Aggressor:
    return Aggressor(**row, verdict=verdict(row["arrivals"], row["rose"], row["disturbed"]))
