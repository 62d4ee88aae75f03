"""A live scheduler on the test's clock that hears which of its jobs are idle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scheduler.live.executors import Executor
from scheduler.live.idle import Feed, Reading
from scheduler.settings import parse_settings
from tests.scheduler.live.living import SETTINGS, Living, Slow

BEGIN, MINUTE = 100_000.0, 60.0


class Idling(Living):
    """A scheduler that hears who is idle."""

    def __init__(self, folder: Path, *policies: dict[str, Any], executor: Executor | None = None) -> None:
        super().__init__(folder, SETTINGS | {"idle": list(policies)}, executor or Slow(), BEGIN)

    def hear(self, **minutes: float | None) -> None:
        """For how many minutes allocations were idle, as of now; None: unknown."""
        readings = {
            name.replace("_", "/"): Reading.of(None if one is None else one * MINUTE, self.now)
            for name, one in minutes.items()
        }
        self.service.hear_idle(Feed(self.now, readings))
        self.settle()

    def at(self, minutes: float, **idle: float | None) -> None:
        """So many minutes after the beginning, these are idle."""
        self.now = BEGIN + minutes * MINUTE
        self.hear(**idle)

    def steps(self, job_id: str = "a") -> list[str]:
        """What the log has of a job that is idle; acts by the kind of their entry."""
        found = []
        for entry in self.log.of_job(job_id):
            if entry.kind == "idle":
                found.append(entry.body["step"])
            elif entry.kind in ("suspend", "stop", "shrink") and entry.body["cause"]["reason"] == "IdleReclaimed":
                found.append(entry.kind)
        return found

    def run(self, job_id: str = "a", **more: Any) -> None:
        self.submit(job_id, **more)
        self.settle()
        assert self.status(job_id) == "running"

    def over(self, job_id: str, attempt: int = 1) -> None:
        assert isinstance(self.executor, Slow)
        self.executor.over(job_id, attempt)
        self.settle()

    def set_policies(self, *policies: dict[str, Any]) -> None:
        self.configure(parse_settings(SETTINGS | {"idle": list(policies)}))

    def size(self, job_id: str = "a") -> int:
        return len(self.service.book.jobs[job_id].grants)
