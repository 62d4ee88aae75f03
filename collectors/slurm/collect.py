"""Polls Slurm without gaps: overlapping time windows, and a stored position.

Accounting can be late, because slurmctld buffers records while slurmdbd is down. So each cycle asks from an hour before
the last cycle on, and once an hour from two days before. A row that was delivered already, with the same content, is
not delivered again; keys come from the records, so a duplicate would change nothing in any case.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from collectors.errors import CollectorError
from collectors.readings import Collected, Row
from collectors.slurm.ends import REPLACED, REPLACES, SEEN_AT, Began
from collectors.slurm.inventory import Inventory
from collectors.slurm.jobs import (
    ENDINGS,
    HOLDING,
    NOTHING,
    WAITING,
    Job,
    Site,
    skip_reason,
    waiting,
)
from collectors.slurm.nodes import Node, NodeInputs, Returned, changes, held_by, shares_per_gpu
from collectors.slurm.parsed import Parsed, Problem
from collectors.slurm.position import Pace, read_state, since, write_state
from collectors.slurm.rows import (
    LATE,
    finding,
    lifecycle_rows,
    missing_rows,
    placement_rows,
    problem_rows,
    unfinished_rows,
)
from collectors.slurm.runs import Run, Runs, Start
from collectors.slurm.sources import Source

Reported = TypeVar("Reported", Job, Node)
END_CHANGED = "Slurm reported its end as {}, and reports {} now: the earlier one is billed"
END_UNKNOWN = (
    "accounting has no end of its run that began at {}: billed until {}, as the controller reported or was last asked"
)
ONLY_AT_START = {
    "node",
    "gpus",
    "units",
    "priority",
    "device_id",
    "partition_id",
    "partition_profile",
    SEEN_AT,
    REPLACES,
    REPLACED,
}
BEGUN_LATELY = timedelta(hours=2)
SEEN_EVERY = timedelta(minutes=1)
"""How often it is written down that a run still goes on."""
END_PATIENCE = timedelta(minutes=10)
"""How long after a run was last seen its end may still be reported."""


class SlurmCollector:
    """One cluster's Slurm. `collect` reads and hands on; `acknowledge` says that it is safe, and only then is
    forgotten what must not be asked again. Without it the next cycle asks and hands on the same.

    away:     sources that could not be read in the last cycle, in words.
    problems: bad records of the last cycle.
    Errors:   CollectorError if the cluster has no name (the controller tells none), or the state file is unreadable.
    """

    def __init__(
        self, source: Source, site: Site, inventory: Inventory, state_file: Path, pace: Pace | None = None
    ) -> None:
        if not site.cluster:
            raise CollectorError("slurm", "the cluster has no name", "Name it as the agents on its nodes do")
        self.problems: list[Problem] = []
        self.away: list[str] = []
        self._source, self._site, self._inventory = source, site, inventory
        self._state_file, self._pace = state_file, pace or Pace()
        self._kept = read_state(state_file)
        self._next = self._kept
        self._sent: set[int] = set()
        self._seen: set[int] = set()
        self._reasons: dict[str, str] = {}
        self._next_reasons: dict[str, str] = {}
        self._deep = False
        self._runs = Runs(state_file.with_name(state_file.name + ".runs"))
        self._next_ends: dict[Run, datetime] = {}
        self._handed_on: set[Start] = set()
        self._returned = Returned()

    def collect(self, now: datetime) -> Collected:
        """Events, devices and findings since the last cycle that was kept; a source that is away is a finding.

        While accounting is away the controller tells of starts and ends too, of the jobs that it still knows.
        """
        self.problems, self.away, self._seen, self._next = [], [], set(), self._kept
        collected = Collected()
        begin, self._deep = since(now, self._kept, self._pace)
        nodes = self._ask("nodes", self._source.nodes, now, collected)
        accounted = self._ask("accounting", lambda: self._source.accounted(begin, now), now, collected)
        controlled = self._ask("controller", self._source.controlled, now, collected)
        if nodes is not None:
            self._know(nodes)
        jobs = [] if controlled is None else controlled.records
        if accounted is None:
            self._deep = False
            lives = jobs
        else:
            missing = list(_not_accounted(accounted.records, jobs, begin, now))
            lives = [*_joined(accounted.records, jobs), *missing]
            collected += self._new(missing_rows(missing, self._site, now))
            if controlled is not None:
                collected += self._new(unfinished_rows(accounted.records, jobs, self._site, now))
            self._next = replace(self._next, until=now, deep_until=now if self._deep else self._kept.deep_until)
        collected += self._new(self._changed_ends(lives, now))
        reported = lifecycle_rows(lives, self._site, now)
        self._move(reported.rows.get("events", []), lives, jobs)
        reported += placement_rows(jobs, self._site, self._inventory, now)
        self._remember(reported.rows.get("events", []), now)
        self._runs.save()  # starts, before they are handed on: who is killed then must still end them
        if controlled is not None:
            reported += self._ends(lives, jobs, now)
        reported += self._reason_rows(jobs, now)
        collected += self._new(reported)
        if nodes is not None:
            collected += self._node_rows(nodes, now, [*jobs, *(job for job in lives if job.ended_at)])
        return collected

    def acknowledge(self) -> None:
        """What the last `collect` handed on is on disk."""
        self._sent = self._seen if self._deep else self._sent | self._seen
        self._reasons = self._next_reasons
        for start in self._handed_on:
            if (row := self._runs.starts[start]).get(REPLACES):
                self._runs.starts[start] = row | {REPLACED: row[REPLACES]}
        self._handed_on = set()
        self._runs.ends = self._next_ends if self._deep else self._runs.ends | self._next_ends
        if self._deep and self._next.until is not None:
            self._forget(self._next.until)
        self._runs.save()
        if self._next != self._kept:
            write_state(self._state_file, self._next)
            self._kept = self._next

    def close(self) -> None:
        """Nothing stays open between cycles."""

    def _ask(
        self, what: str, ask: Callable[[], Parsed[Reported]], now: datetime, collected: Collected
    ) -> Parsed[Reported] | None:
        try:
            parsed = ask()
        except CollectorError as mistake:
            self.away.append(str(mistake))
            collected.add("findings", finding(self._site, now, "source_unreachable", str(mistake)))
            return None
        self.problems += parsed.problems
        for reason, count in parsed.skipped.items():
            collected.dropped[reason] += count
        for problem in parsed.problems:
            collected.dropped[f"{what}: {problem.reason}"] += 1
        collected += self._new(problem_rows(what, parsed.problems, self._site, now))
        return parsed

    def _know(self, nodes: Parsed[Node]) -> None:
        """What the nodes tell about the site: how many shares a GPU has, and which MIG profiles are where."""
        shares = {**shares_per_gpu(nodes.records), **self._site.shares_per_gpu}
        has = {node.name: node.gres for node in nodes.records if node.has_gpus}
        self._site = replace(self._site, shares_per_gpu=shares, gres=has)

    def _reason_rows(self, jobs: Iterable[Job], now: datetime) -> Collected:
        """Jobs whose reason for waiting has changed are reported again; the first comes with the submission."""
        collected = Collected()
        self._next_reasons = {}
        for job in jobs:
            if job.state in WAITING and job.reason and not skip_reason(job, self._site):
                before = self._reasons.get(job.job_id, job.reason)
                if before != job.reason:
                    collected.add("events", waiting(job, self._site, now))
                self._next_reasons[job.job_id] = job.reason
        return collected

    def _remember(self, events: Sequence[Row], now: datetime) -> None:
        """Which runs were reported to have begun, perhaps by the controller alone: lately, or without an end yet."""
        self._handed_on = set()
        starts, over = self._runs.starts, dict[str, datetime]()
        for row in events:
            if row["event"] in ENDINGS.values():
                over[row["allocation_id"]] = max(row["ts"], over.get(row["allocation_id"], row["ts"]))
        for row in events:
            if row["event"] not in ("started", "resized"):
                continue
            if now - row["ts"] >= BEGUN_LATELY and over.get(row["allocation_id"], row["ts"]) > row["ts"]:
                continue
            start = row["workload_id"], row["allocation_id"], row["ts"].replace(microsecond=0)
            before = starts.get(start)
            if before is None:
                starts[start] = row
            elif before["ts"] < row["ts"]:
                was_placed = [before["ts"].isoformat()] if before["event"] == "resized" else []
                starts[start] = row | {REPLACES: [*before.get(REPLACES, ()), *was_placed]}
            if starts[start]["ts"] == row["ts"]:
                self._handed_on.add(start)

    def _move(self, events: Sequence[Row], accounted: Iterable[Job], controlled: Iterable[Job]) -> None:
        """Where a job was resized in the second of its start, the controller may have placed it on a node before that
        it has no more: what accounting says of that start then comes after, unless the controller says more."""
        resized = {(job.job_id, job.ended_at) for job in accounted if job.state == "RESIZING" and job.is_momentary}
        resized -= {(job.job_id, job.started_at) for job in controlled if job.placed}
        for row in events:
            if row["event"] != "started" or (row["workload_id"], row["ts"]) not in resized:
                continue
            before = self._runs.starts.get((row["workload_id"], row["allocation_id"], row["ts"]))
            if before is not None and before["event"] == "resized" and before.get("node") != row.get("node"):
                row.update(event="resized", ts=before["ts"] + timedelta(milliseconds=1))

    def _forget(self, now: datetime) -> None:
        """Runs that were over long ago, once their ends were delivered with all that two days of accounting say."""
        starts, ends = self._runs.starts, self._next_ends
        recent = {job_id for job_id, _, at in starts if now - at <= BEGUN_LATELY}
        self._runs.starts = {
            (job_id, allocation, at): row
            for (job_id, allocation, at), row in starts.items()
            if job_id in recent or now - ends.get((allocation, None, at), now) < BEGUN_LATELY
        }

    def _changed_ends(self, jobs: Iterable[Job], now: datetime) -> Collected:
        """Accounting's record of a run that was over is overwritten when its job is requeued, as of a cancelled
        component of a heterogeneous job: its end is the requeue's then. What it was, accounting had said, or the
        controller before accounting had a record, or we had concluded."""
        collected = Collected()
        self._next_ends = {}
        without_start: dict[tuple[str, datetime | None], list[datetime]] = defaultdict(list)
        for (job_id, submitted, began), ended in self._runs.ends.items():
            if began == ended:
                without_start[job_id, submitted].append(ended)
        for job in jobs:
            if job.ended_at is None or job.held_nothing or skip_reason(job, self._site):
                continue
            began = job.started_at or job.ended_at
            run = job.job_id, job.submitted_at, began
            first = self._next_ends[run] = self._runs.ends.get(run, job.ended_at)
            concluded = [self._runs.ends.get((job.job_id, None, began), first)]
            known = [first, *concluded, *without_start[job.job_id, job.submitted_at]]
            first = min((at for at in known if at >= began), default=first)
            if job.holds and first != job.ended_at:
                message = END_CHANGED.format(*(f"{at:%Y-%m-%d %H:%M:%SZ}" for at in (first, job.ended_at)))
                collected.add("findings", finding(self._site, now, "end_changed", message, job.job_id, "warning"))
        return collected

    def _ends(self, accounted: Iterable[Job], controlled: Iterable[Job], now: datetime) -> Collected:
        """Ends of runs that accounting makes none of, once the controller says that the job holds them no more.

        What is requeued or resized in the second of its start has a record without a length, perhaps from before the
        start that was reported, or one that its next run has overwritten; a requeue was seen reported as a start in
        the instant in which the run ends; of some array's tasks there is no record at all, but they wait again since
        their requeue, which is their submission then; where a task ended before its second run was written, the record
        of the first one is the last; and a slurmctld that was killed forgets jobs, which accounting takes for running,
        and gives their ids to others. Where nobody knows, it ends where it was last seen, and is a finding.

        What is concluded again is reported if it is earlier: of several ends the books take the first.
        """
        of_job = {job.job_id: job for job in controlled}
        records: dict[str, list[Job]] = defaultdict(list)
        for job in accounted:
            records[job.job_id].append(job)
        collected = Collected()
        for start, row in self._runs.starts.items():
            job_id, allocation, began = start
            run = Began(row, of_job.get(job_id), records.get(job_id, []))
            columns = {name: row[name] for name in row if name not in ONLY_AT_START}
            for at in run.replaced_at:
                collected.add("events", columns | {"ts": at, "event": "finished", "reason": "RESIZING"})
            before = self._runs.ends.get((allocation, None, began))
            if run.is_seen_itself and now - run.last_seen_at >= SEEN_EVERY:
                self._runs.starts[start] = row | {SEEN_AT: now.isoformat()}
            if run.goes_on or run.recorded_end is not None:
                if known := [at for at in (run.recorded_end, before) if at is not None]:
                    self._next_ends[allocation, None, began] = min(known)
                continue
            end = run.end()
            last = run.last_seen_at
            is_settled = self._deep and now - max(before or last, last) >= END_PATIENCE
            if end is None and before is None and is_settled and not run.may_be_recorded:
                end = last, "REQUEUED"
            ends = [at for at in (before, end and end[0]) if at is not None]
            if not ends:
                continue
            ended = max(min(ends), row["ts"])
            self._next_ends[allocation, None, began] = ended.replace(microsecond=0)
            if is_settled and not run.was_momentary:
                message = END_UNKNOWN.format(*(f"{at:%Y-%m-%d %H:%M:%SZ}" for at in (began, ended)))
                collected.add("findings", finding(self._site, now, "end_unknown", message, job_id, "warning"))
            if ended == before or (ended == row["ts"] and run.is_reported_over):
                continue
            state = end[1] if end is not None else "REQUEUED"
            if ended == row["ts"]:
                collected.add("events", columns | {"ts": began, "event": "resized"} | NOTHING)
            collected.add("events", columns | {"ts": ended, "event": ENDINGS[state], "reason": state})
        return collected

    def _node_rows(self, nodes: Parsed[Node], now: datetime, jobs: Iterable[Job]) -> Collected:
        inputs = NodeInputs(now, self._kept.nodes_at, self._kept.unavailable, held_by(jobs))
        changed, unavailable = changes(nodes.records, inputs, self._site, self._inventory)
        for row in self._returned.earlier(inputs.held):
            changed.add("devices", row)
        self._returned.note(changed.rows.get("devices", ()), inputs.unavailable)
        self._next = replace(self._next, nodes_at=now, unavailable=unavailable)
        return changed

    def _new(self, found: Collected) -> Collected:
        """Without the rows that were handed on in these very words."""
        new = Collected(dropped=found.dropped)
        for record, rows in found.rows.items():
            for row in rows:
                print_of_row = hash((record, *sorted(_words_that_count(record, row))))
                if print_of_row not in self._sent and print_of_row not in self._seen:
                    new.add(record, row)
                self._seen.add(print_of_row)
        return new


def _words_that_count(record: str, row: Row) -> Iterator[tuple[str, str]]:
    """A submission is one whatever its job waits for now, and a problem is one whenever it is met."""
    changing = "ts" if record == "findings" else "reason" if row["event"] == "submitted" else ""
    return ((name, str(value)) for name, value in row.items() if name != changing)


def _joined(accounted: Iterable[Job], controlled: Iterable[Job]) -> Iterator[Job]:
    """Accounting's records with what only the controller tells of them: types and devices of GPUs, why they wait, and
    that those are over which still wait or run for accounting, as it was seen to lose their start and end.

    A job that was put back into the queue asks for the same types in each run.
    """
    of_job = {job.job_id: job for job in controlled}
    for job in accounted:
        same = of_job.get(job.job_id)
        if same is not None and job.state in WAITING:
            if same.ended_at is not None and same.submitted_at == job.submitted_at:
                job = same
            elif same.state in WAITING:
                job = replace(job, reason=same.reason or job.reason)
        elif same is not None:
            if job.state in HOLDING and same.ended_at is not None and same.started_at == job.started_at:
                job = replace(job, state=same.state, ended_at=same.ended_at)
            placed = same.placed if (job.started_at, job.held.whole) == (same.started_at, same.held.whole) else {}
            job = replace(job, held=job.held.typed(same.requested.types), placed=placed)
        yield job


def _not_accounted(
    accounted: Iterable[Job], controlled: Iterable[Job], begin: datetime, now: datetime
) -> Iterator[Job]:
    """The controller's jobs since `begin` of which accounting has no record, or none of the run that began a minute
    ago. It may be about to; but slurmctld was seen to lose records when it restarts, and what only the controller tells
    of would never end."""
    known = {(job.job_id, at) for job in accounted for at in (None, job.started_at)}
    for job in controlled:
        if job.ended_at is not None and job.ended_at < begin:
            continue
        is_late = job.holds and job.started_at is not None and now - job.started_at >= LATE
        if (job.job_id, None) not in known or (is_late and (job.job_id, job.started_at) not in known):
            yield job
