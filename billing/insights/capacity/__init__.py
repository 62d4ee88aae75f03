"""Demand and capacity: GPUs requested and allocated hour by hour, and how long jobs waited depending on what was free.

The SQL statements are beside this module; the caller passes the period and the filters as parameters.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

from billing.periods import Period
from warehouse.errors import LedgerError
from warehouse.sql import composed
from warehouse.store import Store

ASKED = __file__
"""Beside it lie the statements."""
BANDS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Where each band of the part that was free begins; it ends where the next one does, the last one at 1."""
FILTERS = ("tenants", "projects", "queues", "pools", "models", "clusters")
HOURS = "hours"
"""The statement of which an answer about an hour and a run holds for good."""
HOUR = 3600
MS = 1 / 3_600_000
"""An hour's share that is too short for a device to be absent."""
AT_ONCE = 8000
"""Hours named by one statement, and"""
MOST_BANDS = 700_000
"""bands: to a server they travel in an address, which has at most a million characters."""
EARLIEST, LATEST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
Row = Mapping[str, Any]
Ask = Callable[..., Sequence[Row]]
"""ask(name, **parameters): the rows of `name`.sql of this folder. Period and filters are parameters that it adds."""


@dataclass(frozen=True)
class Waits:
    """Jobs submitted and started in the closed part of the period: how many, how many of them waited a minute or more,
    and how long in seconds (None: there are none).   unsubmitted: started jobs whose submission is not reported."""

    jobs: int = 0
    waited: int = 0
    median_seconds: float | None = None
    p95_seconds: float | None = None
    waited_gpu_hours: float = 0.0
    unsubmitted: int = 0


@dataclass(frozen=True)
class GroupLine:
    """The devices of one model in one pool of a cluster. gpus, capacity, available, allocated: GPUs, the first at one
    instant, at most, the others on average; gpus, capacity: with those that are down.
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
    capacity: float | None = None


@dataclass(frozen=True)
class Capacity:
    """groups: the most devices first.   by_free: waits by how much of a job's group was free when it was submitted, as
    BANDS says; None: nobody may know, or nothing is closed then."""

    groups: Sequence[GroupLine]
    by_free: Mapping[int, Waits]
    total: Waits


@dataclass
class Question:
    """A period and filters about which to ask. closed: the period's closed hours in order, in Unix seconds, each with
    the run whose entries are in force."""

    start: datetime
    end: datetime
    closed: Sequence[tuple[int, int]]
    ask: Ask

    @cached_property
    def sees_all(self) -> bool:
        """Whether the reader sees all tenants, and so may know what was available."""
        return bool(self.ask("sees_all")[0]["yes"])

    @property
    def booked(self) -> tuple[datetime, datetime]:
        """The period from its first closed hour to the end of its last. Of jobs after that, some are known already."""
        if not self.closed:
            return self.start, self.start
        first, last = (datetime.fromtimestamp(self.closed[place][0], UTC) for place in (0, -1))
        return max(self.start, first), min(self.end, last + timedelta(hours=1))

    @cached_property
    def whole_hours(self) -> Sequence[Row]:
        """The rows of hours.sql, also of what lies before and after the period in its first and last hour."""
        return self._hours(self.closed, EARLIEST, LATEST) if self.closed else []

    @cached_property
    def hours(self) -> Sequence[Row]:
        """The same of the period alone: in zones of half hours it may begin and end within an hour."""
        cut = [one for one in self.closed if self.part(one[0]) < 1]
        if not cut:
            return self.whole_hours
        hours = {hour for hour, _ in cut}
        whole = [row for row in self.whole_hours if _seconds(row["at"]) not in hours]
        return [*whole, *self._hours(cut, self.start, self.end)]

    def present(self, hours: Set[int]) -> Sequence[Row]:
        """The rows of present.sql, of some hours, within the period."""
        closed = [one for one in self.closed if one[0] in hours]
        return self._hours(closed, self.start, self.end, "present")

    def _hours(
        self, closed: Sequence[tuple[int, int]], since: datetime, until: datetime, name: str = HOURS
    ) -> Sequence[Row]:
        rows: list[Row] = []
        for first in range(0, len(closed), AT_ONCE):
            hours, runs = zip(*closed[first : first + AT_ONCE], strict=True)
            rows += self.ask(name, hours=list(hours), runs=list(runs), since=since, until=until)
        return rows

    def part(self, hour: int) -> float:
        """How much of an hour is in the period, 0-1."""
        return (min(int(self.end.timestamp()), hour + HOUR) - max(int(self.start.timestamp()), hour)) / HOUR


def _seconds(at: datetime) -> int:
    return int(at.timestamp())


def asking(store: Store, period: Period, **chosen: Sequence[str]) -> Question:
    """One that asks the store each time."""
    params = {"start": period.start, "end": period.end, **{name: list(chosen.get(name, ())) for name in FILTERS}}

    def ask(name: str, **more: Any) -> Sequence[Row]:
        return store.rows(composed(ASKED, name), {**params, **more})

    closed = [(row["at"], row["run"]) for row in ask("closed")]
    return Question(period.start, period.end, closed, ask)


def demand(asked: Question) -> Sequence[Row]:
    """A row for each closed hour of the clock that overlaps the period, oldest first.

    step: its start.   hours: how much of it is in the period: 1, less at its ends in zones of half hours. All else is
    an average over that, in GPUs.
    allocated: held, shares as fractions.   available: held or free, of all tenants, projects and queues; capacity:
    with what was unavailable; both None: the reader sees some tenants only.
    waiting: requested by waiting jobs.   waiting_unsized: waiting jobs whose number of GPUs is not reported.
    """
    allocated: dict[int, float] = defaultdict(float)
    available: dict[int, float] = defaultdict(float)
    whole: dict[int, float] = defaultdict(float)
    for row in asked.hours:
        hour = _seconds(row["at"])
        whole[hour] += row["capacity"]
        allocated[hour] += row["allocated"]
        available[hour] += row["available"]
    waits = {row["hour"]: row for row in asked.ask("waiting")}
    nothing: Row = {"gpu_hours": None, "unsized_hours": 0.0}
    rows = []
    for hour, _ in asked.closed:
        part, waited = asked.part(hour), waits.get(hour, nothing)
        rows.append(
            {
                "step": datetime.fromtimestamp(hour, UTC),
                "hours": part,
                "allocated": allocated[hour] / part,
                "available": available[hour] / part if asked.sees_all else None,
                "capacity": whole[hour] / part if asked.sees_all else None,
                "waiting": (waited["gpu_hours"] or 0.0) / part,
                "waiting_unsized": waited["unsized_hours"] / part,
            }
        )
    return rows


def capacity(asked: Question) -> Capacity:
    """Waits against what was free."""
    groups = _groups(asked) if asked.sees_all else {}
    waits: dict[str, dict[Any, Waits]] = {"group": {}, "band": {}, "all": {}}
    start, end = asked.booked
    for row in asked.ask("waits", start=start, end=end, **_bands(asked)):
        key = {"group": (row["cluster"], row["pool"], row["model"]), "band": row["band"], "all": None}[row["by"]]
        waits[row["by"]][key] = Waits(**{name: row[name] for name in Waits.__dataclass_fields__})
    lines = [
        GroupLine(key[0], key[1], key[2], waits["group"].get(key, Waits()), **groups.get(key, {}))
        for key in [*groups, *(key for key in waits["group"] if key not in groups)]
    ]
    by_free = {band: found for band, found in waits["band"].items() if band >= 0}
    return Capacity(lines, by_free, waits["all"].get(None, Waits()))


Group = tuple[str, str, str]


def _by_group(rows: Sequence[Row]) -> dict[Group, list[Row]]:
    groups: dict[Group, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["cluster"], row["pool"], row["model"]].append(row)
    return groups


def _groups(asked: Question) -> dict[Group, dict[str, Any]]:
    """What a GroupLine says of each group's devices; the most devices first."""
    groups = _by_group(asked.hours)
    most = _at_once(asked, groups)
    found = {key: {"gpus": most[key], **_measures(asked, rows)} for key, rows in groups.items()}
    return dict(sorted(found.items(), key=lambda one: (-one[1]["gpus"], one[0])))


def _at_once(asked: Question, groups: Mapping[Group, Sequence[Row]]) -> dict[Group, int]:
    """Each group's devices at one instant, at most. An hour counts those that were there for a part of it, too; only
    where that could be the most, their spans are read."""
    most: dict[Group, int] = {}
    doubtful: dict[Group, set[int]] = {}
    for key, rows in groups.items():
        whole = [row["capacity"] > asked.part(_seconds(row["at"])) * row["devices"] - MS for row in rows]
        most[key] = max((row["devices"] for row, is_whole in zip(rows, whole, strict=True) if is_whole), default=0)
        doubtful[key] = {
            _seconds(row["at"])
            for row, is_whole in zip(rows, whole, strict=True)
            if not is_whole and row["devices"] > most[key]
        }
    for row in asked.present(set().union(*doubtful.values())):
        key = row["cluster"], row["pool"], row["model"]
        if _seconds(row["at"]) in doubtful.get(key, ()):
            most[key] = max(most[key], row["devices"])
    return most


def _measures(asked: Question, rows: Sequence[Row]) -> dict[str, Any]:
    parts = [asked.part(_seconds(row["at"])) for row in rows]
    held = [row["held"] / part for row, part in zip(rows, parts, strict=True)]
    free = [row["free"] / part for row, part in zip(rows, parts, strict=True)]
    available = [one + other for one, other in zip(held, free, strict=True)]
    shares = [one / whole for one, whole in zip(free, available, strict=True) if whole > 0]
    return {
        "hours": len(rows),
        "available": sum(available) / len(rows),
        "allocated": sum(held) / len(rows),
        "capacity": sum(row["capacity"] / part for row, part in zip(rows, parts, strict=True)) / len(rows),
        "full_hours": sum(whole > 0 and one < 0.05 * whole for one, whole in zip(free, available, strict=True)),
        "least_free": min(shares, default=None),
    }


def _bands(asked: Question) -> dict[str, list[str]]:
    """Parameters of waits.sql: the band of each group in each booked hour. None for who may not know."""
    first, last = (int(at.timestamp()) // HOUR for at in asked.booked)
    groups = _by_group(asked.whole_hours) if asked.sees_all else {}
    if len(groups) * (last - first + 1) > MOST_BANDS:
        what = f"has too many hours, for {len(groups):,} pools and models, to compare waits with what was free"
        raise LedgerError("period", what, "Choose a shorter one")
    texts = []
    for rows in groups.values():
        bands = ["-"] * (last - first + 1)
        for row in rows:
            if row["available_ms"] > 0 or row["free_ms"] > 0:
                part = row["free_ms"] / row["available_ms"] if row["available_ms"] > 0 else 0.0
                bands[_seconds(row["at"]) // HOUR - first] = str(sum(part >= least for least in BANDS[1:]))
        texts.append("".join(bands))
    clusters, pools, models = ([key[place] for key in groups] for place in range(3))
    return {"group_clusters": clusters, "group_pools": pools, "group_models": models, "group_bands": texts}
