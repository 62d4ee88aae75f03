"""A live scheduler with the test's clock and a real log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collectors.readings import Row
from scheduler.live.executors import JUST_NOW, Executor, Launch, Over, Recorder, Result
from scheduler.live.service import Service
from scheduler.records.log import Log
from scheduler.settings import Settings, parse_settings

SETTINGS: dict[str, Any] = {
    "pools": [{"name": "p", "nodes": 2, "devices": 4, "model": "A100"}],
    "tenants": [{"name": "vision", "guaranteed": 4}, {"name": "speech", "guaranteed": 4}],
    "queues": [{"name": "batch", "policy": "fair_share", "wait_bound": 600}],
}


class Slow(Recorder):
    """What is stopped is over only when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[tuple[str, int]] = []
        self.stopping: list[tuple[str, int]] = []

    def start(self, launch: Launch) -> float | None:
        self.started.append((launch.job.job_id, launch.attempt))
        return JUST_NOW

    def stop(self, launch: Launch) -> None:
        self.stopping.append((launch.job.job_id, launch.attempt))

    def over(self, job_id: str, attempt: int, result: Result = "stopped") -> None:
        self._over[job_id, attempt] = Over(job_id, attempt, result)


class Living:
    def __init__(
        self,
        folder: Path,
        settings: dict[str, Any] = SETTINGS,
        executor: Executor | None = None,
        now: float = 1000.0,
    ) -> None:
        self.folder, self.now = folder, now
        self.rows: list[tuple[str, Row]] = []
        self.configured_by_restart = False
        self.executor: Executor = executor or Recorder()
        self.settings: Settings = parse_settings(settings)
        self.open()

    def open(self) -> None:
        self.log = Log(self.folder / "log")
        self.service = Service(self.log, self.settings, "c", self.executor, lambda: self.now, self.deliver)

    def deliver(self, record: str, rows: Sequence[Row]) -> None:
        self.rows += [(record, row) for row in rows]

    def configure(self, settings: Settings) -> None:
        """As when its file has changed, while it runs or while it is down."""
        if self.configured_by_restart:
            self.settings = settings
            self.restart()
        else:
            self.service.configure(settings)
            self.settings = settings

    def restart(self, executor: Executor | None = None) -> None:
        """As after a kill: nothing is told to the old service."""
        self.log.close()
        self.executor = executor or self.executor
        self.open()

    def submit(self, job_id: str, gpus: int = 4, tenant: str = "vision", **more: Any) -> dict[str, Any]:
        job = {"job_id": job_id, "tenant": tenant, "queue": "batch", "request": {"devices": gpus}}
        return self.service.submit(job | more, "tester")

    def settle(self) -> None:
        """Rounds until nothing is left to do."""
        for _ in range(20):
            if not self.service.step():
                return
        raise AssertionError("the loop does not come to rest")

    def status(self, job_id: str) -> str:
        return str(self.service.show(job_id)["status"])

    def events(self) -> list[tuple[str, str]]:
        """(allocation, event), devices together."""
        found = [(row["allocation_id"], row["event"]) for record, row in self.rows if record == "events"]
        return list(dict.fromkeys(found))
