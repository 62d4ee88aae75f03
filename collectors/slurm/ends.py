"""Infers the end of a run that was reported to have begun but has no end in accounting. Pure.

A requeued job is submitted again, so its next submission ends the run before; a resized job's next record is submitted
when it was resized. A job that is requeued within the second of its submission has its record overwritten: it held its
GPUs for no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from collectors.readings import Row
from collectors.slurm.jobs import ENDINGS, HOLDING, WAITING, Job

REQUEUED_AT_ONCE = timedelta(seconds=10)
"""How long a start may wait for the controller's lock behind a requeue that was asked for before it. From then on it is
the next run: Slurm lets a requeued job wait so long."""


SEEN_AT = "seen_at"
"""When a run was last seen to go on, beside what the event has that said that it began."""
REPLACES, REPLACED = "replaces", "replaced"
"""When its devices were said before, in the same second: it was resized then, and held those for no time. They are
REPLACED once the later ones were delivered."""


@dataclass(frozen=True)
class Began:
    """The start of a run on one node."""

    row: Row
    now: Job | None
    records: Sequence[Job]

    @property
    def at(self) -> datetime:
        began: datetime = self.row["ts"]
        return began.replace(microsecond=0)

    @property
    def last_seen_at(self) -> datetime:
        """When the controller was last asked and said that it goes on; at its start, if never."""
        began: datetime = self.row["ts"]
        seen = self.row.get(SEEN_AT)
        return max(began, datetime.fromisoformat(seen)) if seen else began

    @property
    def replaced_at(self) -> list[datetime]:
        """Instants in which its devices were said before, in the second of its start."""
        return [datetime.fromisoformat(at) for at in self.row.get(REPLACED, ())]

    @property
    def recorded_end(self) -> datetime | None:
        """As accounting's own record of it says."""
        return next((job.ended_at for job in self._own if job.ended_at is not None), None)

    @property
    def is_seen(self) -> bool:
        """Whether the controller says that it holds what it had."""
        return self.now is not None and self.now.state in HOLDING and self._over_by is None

    @property
    def is_seen_itself(self) -> bool:
        """Whether it is this very run that the controller says so of, not another of its job."""
        return self.is_seen and self.now is not None and self.at in (self.now.started_at, self.now.run_started_at)

    @property
    def goes_on(self) -> bool:
        """Whether the controller says so, or accounting without contradiction."""
        return self.is_seen or (bool(self._own) and self._over_by is None and not any(self._resubmitted))

    @property
    def is_reported_over(self) -> bool:
        """Whether accounting's record of no length has ended all that was reported, in its own words."""
        return any(
            job.started_at == self.at and self.row["allocation_id"] in job.allocations
            and job.end_reported_at is not None and job.end_reported_at >= self.row["ts"]
            for job in self.records
            if job.is_momentary and not job.held_nothing
        )  # fmt: skip

    @property
    def may_be_recorded(self) -> bool:
        """Whether somebody still has the job for not over."""
        return any(job.ended_at is None for job in (*self.records, *([self.now] if self.now else [])))

    @property
    def was_momentary(self) -> bool:
        """Whether accounting shows that it ended in the second of its start, though not as its end."""
        return any(at == self.at for at, _ in self._resubmitted) or bool(self._at_once)

    def end(self) -> tuple[datetime, str] | None:
        """When it was over, and in which state of Slurm's; None: unknown."""
        if self._at_once:
            return self.row["ts"], self._at_once[0]
        known = list(self._resubmitted)
        if self._over_by is not None:
            known.append((self._over_by, "REQUEUED" if self._has_another_run else "RESIZING"))
        elif self.now is not None and self.now.ended_at is not None and not self.may_be_recorded and self.records:
            known.append((self.now.ended_at, "REQUEUED"))
        if not known:
            return None
        ended, state = min(known)
        return max(ended, self.row["ts"]), state

    @property
    def _own(self) -> list[Job]:
        return [
            job for job in self.records
            if job.started_at == self.at != job.ended_at and self.row["allocation_id"] in job.allocations
        ]  # fmt: skip

    @property
    def _at_once(self) -> list[str]:
        """States of the records of no length that are all that accounting has of it."""
        if self._own:
            return []
        states = [job.state for job in self.records if self._ended_at_once(job) and job.state in ENDINGS]
        requeued = any(job.state == "REQUEUED" and self._is_ended_by(job) for job in self.records)
        given_back = any(map(self._has_lost_it, self.records))
        return states or ["REQUEUED"] * requeued or ["RESIZING"] * given_back

    @property
    def _resubmitted(self) -> Iterator[tuple[datetime, str]]:
        """Submissions of records since; one of the second in which it began is another run's if that began later, or
        never did."""
        for job in self.records:
            submitted, began = job.submitted_at, job.run_started_at or job.started_at
            if submitted is None or submitted < self.at or began == self.at:
                continue
            if submitted > self.at or began is not None or job.ended_at is not None:
                yield submitted, "RESIZING" if began == submitted else "REQUEUED"

    @property
    def _has_another_run(self) -> bool:
        """Whether by the controller the job waits again, or has begun again since."""
        if self.now is None or self.now.ended_at is not None:
            return False
        began = self.now.run_started_at
        return self.now.state in WAITING or (began is not None and began > self.at)

    @property
    def _over_by(self) -> datetime | None:
        """When it was over, or a node given back, as the controller says of a job that is not over: by the submission
        of its next run, or when it was resized. None: it does not say so."""
        now = self.now
        if now is None or now.ended_at is not None:
            return None
        if self._has_another_run:
            return now.submitted_at if now.submitted_at is not None and now.submitted_at >= self.at else None
        return None if now.started_at is None or self.row["allocation_id"] in now.allocations else now.started_at

    def _ended_at_once(self, job: Job) -> bool:
        """Whether a record of no length is all that there is; of a job that was resized the next one is more, which is
        submitted in that second."""
        if not job.started_at == self.at == job.ended_at:
            return False
        return job.state != "RESIZING" or any(
            later is not job and later.submitted_at == self.at for later in self.records
        )

    def _has_lost_it(self, job: Job) -> bool:
        """Whether a record of its run names its node no more: given back in the second of the start, for a later resize
        leaves a record that names it."""
        is_first = job.started_at == self.at and job.submitted_at is not None and job.submitted_at <= self.at
        return is_first and job.holds and self.row["allocation_id"] not in job.allocations

    def _is_ended_by(self, job: Job) -> bool:
        """Whether a record that ends at its start, or has no length and lies just before it, is its own."""
        return job.ended_at is not None and (
            job.ended_at == self.at or (job.is_momentary and self.at - REQUEUED_AT_ONCE < job.ended_at <= self.at)
        )
