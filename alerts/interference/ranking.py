"""Ranks victims by what they lost, and names aggressors, but only if it happened repeatedly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any

from alerts.interference.definitions import LEAST_OBSERVATIONS
from alerts.interference.episodes import Episode, episodes
from alerts.interference.settings import DEFAULT, Settings
from warehouse.store import Store, read_sql

REPETITIONS = 3
"""So often a neighbour's coming must have slowed a victim down before it is named."""
AGREEING = 0.75
"""Of its comings, part that must have."""
GRADES = ("measured", "likely", "suspected", "unknown")
"""The best first."""


@dataclass(frozen=True)
class Victim:
    """An identity that was disturbed, and what it cost. mean_slowdown: of its disturbed windows that were measured;
    jitter: see jitter.sql; grade: the best of its episodes. None: not measured."""

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
    jitter = {
        (row["cluster"], row["identity"]): row["jitter"] for row in store.rows(read_sql(__file__, "jitter"), params)
    }
    return victims_of(episodes(store, since, until), jitter)


def victims_of(
    found: Sequence[Episode], jitter: Mapping[tuple[str, str], float | None] = MappingProxyType({})
) -> list[Victim]:
    """The same of these episodes.   jitter: by cluster and identity, where it is asked for."""
    by_identity: dict[tuple[str, str], list[Episode]] = defaultdict(list)
    for one in found:
        by_identity[one.cluster, one.identity].append(one)
    ranked = [_victim(whose, theirs, jitter.get(whose)) for whose, theirs in by_identity.items()]

    def most_lost_first(one: Victim) -> tuple[Any, ...]:
        lost = one.lost_gpu_seconds
        return lost is None, -(lost or 0), -one.disturbed_windows, one.cluster, one.identity

    return sorted(ranked, key=most_lost_first)


def _victim(whose: tuple[str, str], theirs: Sequence[Episode], jitter: float | None) -> Victim:
    measured = [one for one in theirs if one.mean_slowdown is not None]
    lost = [one.lost_gpu_seconds for one in theirs if one.lost_gpu_seconds is not None]
    windows = sum(one.disturbed_windows for one in measured)
    return Victim(
        *whose,
        tenant=theirs[0].tenant,
        episodes=len(theirs),
        open_episodes=sum(one.ended_at is None for one in theirs),
        disturbed_windows=sum(one.disturbed_windows for one in theirs),
        mean_slowdown=sum((one.mean_slowdown or 0) * one.disturbed_windows for one in measured) / windows
        if windows
        else None,
        max_slowdown=max((one.max_slowdown for one in theirs if one.max_slowdown is not None), default=None),
        lost_gpu_seconds=sum(lost) if lost else None,
        jitter=jitter,
        grade=min((one.grade for one in theirs), key=GRADES.index),
        channels=tuple(sorted({name for one in theirs for name in one.channels})),
        neighbours=tuple(sorted({name for one in theirs for name in one.neighbour_identities})),
    )


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
