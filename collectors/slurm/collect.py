"""Asks Slurm again and again, so that nothing is lost: windows that overlap, and a place that is kept.

Accounting can be late: slurmctld keeps records while slurmdbd is away. So each cycle asks from an hour before the
last, and once an hour from two days before. What was handed on already, letter for letter, is not handed on again;
the keys are the records' own in any case, so what comes twice changes nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from collectors.errors import CollectorError
from collectors.readings import Collected, Row
from collectors.slurm import rest, sacct, scontrol
from collectors.slurm.inventory import Inventory
from collectors.slurm.jobs import SOURCE, Job, Site, life, not_ours, placements
from collectors.slurm.nodes import Node, changes, shares_per_gpu
from collectors.slurm.parsed import Parsed, Problem
from collectors.slurm.sources import Source
from warehouse.json_text import parse_json

MOST_PROBLEMS = 100
"""How many bad records a cycle keeps in words; all are counted."""


@dataclass(frozen=True)
class Pace:
    """How far back to ask: at first, in each cycle, and now and then."""

    first: timedelta = timedelta(days=7)
    overlap: timedelta = timedelta(hours=1)
    deep_every: timedelta = timedelta(hours=1)
    deep_overlap: timedelta = timedelta(days=2)


@dataclass(frozen=True)
class Kept:
    """What outlives a restart: until when accounting was read, and deeply; nodes that were unavailable."""

    until: datetime | None = None
    deep_until: datetime | None = None
    nodes_at: datetime | None = None
    unavailable: frozenset[str] = frozenset()


def since(now: datetime, kept: Kept, pace: Pace) -> tuple[datetime, bool]:
    """From when to ask accounting, and whether that is deep. A clock that was set back asks further back, not less."""
    if kept.until is None:
        return now - pace.first, True
    until = min(kept.until, now)
    deep_until = min(kept.deep_until or until, now)
    if kept.deep_until is None or now - deep_until >= pace.deep_every:
        return min(until - pace.deep_overlap, deep_until - pace.overlap), True
    return until - pace.overlap, False


class SlurmCollector:
    """One cluster's Slurm. `collect` reads and hands on; `kept` says that it is safe, and only then is forgotten
    what must not be asked again. Without it the next cycle asks and hands on the same.

    problems: bad records of the last cycle, in words.
    Errors:   CollectorError if the cluster has no name (the controller tells none), or the state file is unreadable.
    """

    def __init__(
        self, source: Source, site: Site, inventory: Inventory, state_file: Path, pace: Pace | None = None
    ) -> None:
        if not site.cluster:
            raise CollectorError("slurm", "the cluster has no name", "Name it as the agents on its nodes do")
        self.problems: list[Problem] = []
        self._source, self._site, self._inventory = source, site, inventory
        self._state_file, self._pace = state_file, pace or Pace()
        self._kept = _read_kept(state_file)
        self._next = self._kept
        self._sent: set[int] = set()
        self._seen: set[int] = set()
        self._deep = False

    def collect(self, now: datetime) -> Collected:
        """Events, devices and findings since the last cycle that was kept; a source that is away is a finding."""
        self.problems, self._seen, self._next = [], set(), self._kept
        collected = Collected()
        self._nodes(now, collected)
        begin, self._deep = since(now, self._kept, self._pace)
        try:
            accounted = self._source.accounted(begin)
        except CollectorError as mistake:
            self._deep = False
            collected.add("findings", _unreachable(mistake, now, self._site))
        else:
            self._note("accounting", accounted, collected)
            collected += self._new(life_rows(accounted.records, self._site))
            deep_until = now if self._deep else self._kept.deep_until
            self._next = replace(self._next, until=now, deep_until=deep_until)
        try:
            controlled = self._source.controlled()
        except CollectorError as mistake:
            collected.add("findings", _unreachable(mistake, now, self._site))
        else:
            self._note("controller", controlled, collected)
            collected += self._new(placement_rows(controlled.records, self._site, self._inventory))
        return collected

    def kept(self) -> None:
        """What the last `collect` handed on is on disk."""
        self._sent = self._seen if self._deep else self._sent | self._seen
        if self._next != self._kept:
            _write_kept(self._state_file, self._next)
            self._kept = self._next

    def close(self) -> None:
        """Nothing stays open between cycles."""

    def _nodes(self, now: datetime, collected: Collected) -> None:
        try:
            nodes = self._source.nodes()
        except CollectorError as mistake:
            collected.add("findings", _unreachable(mistake, now, self._site))
            return
        self._note("nodes", nodes, collected)
        told = {**shares_per_gpu(nodes.records), **self._site.shares_per_gpu}
        self._site = replace(self._site, shares_per_gpu=told)
        before = dict.fromkeys(self._kept.unavailable, False)
        changed, available = changes(nodes.records, before, now, self._kept.nodes_at, self._site, self._inventory)
        self._next = replace(
            self._next,
            nodes_at=now,
            unavailable=frozenset(name for name, is_available in available.items() if not is_available),
        )
        collected += changed

    def _note(self, what: str, parsed: Parsed[Job] | Parsed[Node], collected: Collected) -> None:
        for reason, count in parsed.skipped.items():
            collected.dropped[reason] += count
        for problem in parsed.problems:
            collected.dropped[f"{what}: {problem.reason}"] += 1
        self.problems += parsed.problems[: MOST_PROBLEMS - len(self.problems)]

    def _new(self, found: Collected) -> Collected:
        """Without the events that were handed on in these very words."""
        rows = found.rows.pop("events", [])
        for row in rows:
            print_of_row = hash(tuple(sorted((name, str(value)) for name, value in row.items())))
            if print_of_row not in self._sent and print_of_row not in self._seen:
                found.add("events", row)
            self._seen.add(print_of_row)
        return found


def life_rows(jobs: Iterable[Job], site: Site) -> Collected:
    """Events of accounting's records."""
    collected = Collected()
    for job in jobs:
        if reason := not_ours(job, site):
            collected.dropped[reason] += 1
            continue
        for row in life(job, site):
            collected.add("events", row)
    return collected


def placement_rows(jobs: Iterable[Job], site: Site, inventory: Inventory) -> Collected:
    """Events that name the devices of the controller's jobs."""
    collected = Collected()
    for job in jobs:
        for row in placements(job, site, inventory):
            collected.add("events", row)
    return collected


def read_file(path: Path, site: Site, inventory: Inventory, now: datetime) -> tuple[Collected, list[Problem]]:
    """What a file holds: the text of sacct, of scontrol show job or node, or JSON of any of them.

    Errors: CollectorError if it cannot be read or is none of these.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as mistake:
        raise CollectorError(str(path), f"cannot be read: {mistake}", "Give a file of sacct's or scontrol's") from None
    return read_text(text, site, inventory, now, str(path))


def read_text(
    text: str, site: Site, inventory: Inventory, now: datetime, where: str
) -> tuple[Collected, list[Problem]]:
    """The same of a text; `where` names it in errors."""
    first = text.lstrip()[:4096]
    if first.startswith("{"):
        content = rest.document(text, where)
        if "nodes" in content and "jobs" not in content:
            return _nodes_of_file(rest.read_nodes(content), site, inventory, now)
        return _jobs_of_file(rest.read_jobs(content), site, inventory)
    if first.startswith("JobId="):
        return _jobs_of_file(scontrol.read_jobs(text, site), site, inventory)
    if first.startswith("NodeName="):
        return _nodes_of_file(scontrol.read_nodes(text, site), site, inventory, now)
    return _jobs_of_file(sacct.read(text, site, where=where), site, inventory)


def _jobs_of_file(parsed: Parsed[Job], site: Site, inventory: Inventory) -> tuple[Collected, list[Problem]]:
    collected = life_rows(parsed.records, site)
    collected += placement_rows(parsed.records, site, inventory)
    return _counted(parsed, collected)


def _nodes_of_file(
    parsed: Parsed[Node], site: Site, inventory: Inventory, now: datetime
) -> tuple[Collected, list[Problem]]:
    return _counted(parsed, changes(parsed.records, {}, now, None, site, inventory)[0])


def _counted(parsed: Parsed[Job] | Parsed[Node], collected: Collected) -> tuple[Collected, list[Problem]]:
    collected.dropped.update(parsed.skipped)
    for problem in parsed.problems:
        collected.dropped[problem.reason] += 1
    return collected, parsed.problems


def _unreachable(mistake: CollectorError, now: datetime, site: Site) -> Row:
    return {
        "ts": now,
        "cluster": site.cluster,
        "finding": "source_unreachable",
        "severity": "critical",
        "message": str(mistake),
        "source": SOURCE,
    }


def _read_kept(path: Path) -> Kept:
    """Errors: CollectorError if there is a file that cannot be read: guessing would lose or repeat a week."""
    try:
        told = parse_json(path.read_text(encoding="utf-8"))
        return Kept(
            until=_time(told, "until"),
            deep_until=_time(told, "deep_until"),
            nodes_at=_time(told, "nodes_at"),
            unavailable=frozenset(str(name) for name in told.get("unavailable", ())),
        )
    except FileNotFoundError:
        return Kept()
    except (OSError, ValueError, AttributeError, TypeError) as mistake:
        raise CollectorError(str(path), f"cannot be read: {mistake}", "Remove it to ask from a week ago") from mistake


def _time(told: Mapping[str, object], name: str) -> datetime | None:
    value = told.get(name)
    if value is None:
        return None
    at = datetime.fromisoformat(str(value))
    if at.tzinfo is None:
        raise ValueError(f"{name} has no zone")
    return at


def _write_kept(path: Path, kept: Kept) -> None:
    """Errors: CollectorError."""
    content = {
        "until": kept.until and kept.until.isoformat(),
        "deep_until": kept.deep_until and kept.deep_until.isoformat(),
        "nodes_at": kept.nodes_at and kept.nodes_at.isoformat(),
        "unavailable": sorted(kept.unavailable),
    }
    beside = path.with_name(path.name + ".new")
    try:
        with beside.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as mistake:
        raise CollectorError(str(path), f"cannot be written: {mistake}", "Give a folder that can") from mistake
