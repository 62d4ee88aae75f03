"""Runs of loads: executed here, or recorded in a folder (one file each) and read from it."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from alerts.acceptance.plan import Load, Plan
from alerts.errors import AlertError
from warehouse.json_text import parse_json
from warehouse.private_files import naming, users_file, users_folder, users_umask


@dataclass(frozen=True)
class Case:
    """Loads that run at the same time. victim, companions: (role, load).   kills: the companions are killed (-9)
    halfway."""

    name: str
    victim: tuple[str, Load]
    companions: tuple[tuple[str, Load], ...] = ()
    kills: bool = False


@dataclass(frozen=True)
class Run:
    """What one load printed in a case."""

    case: str
    role: str
    seconds: tuple[float, ...]
    ends: tuple[float, ...]
    status: int | None = None
    error: str = ""
    timed_out: bool = False
    about: Mapping[str, str] = field(default_factory=dict)


class Runner(Protocol):
    """source: where its runs come from, as the report says."""

    source: str

    def perform(self, case: Case) -> dict[str, Run]:
        """The runs of a case, by role."""


class _Process:
    """A running load, and a thread that reads its output."""

    def __init__(self, load: Load, steps: int, began: float) -> None:
        environment = {**os.environ, **load.environment, "GPULEDGER_STEPS": str(steps)}
        self.seconds: list[float] = []
        self.ends: list[float] = []
        self.about: dict[str, str] = {}
        self.error = ""
        self.began = began
        try:
            self.process = subprocess.Popen(  # noqa: S603 (the plan's own command)
                load.arguments,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment,
                text=True,
                umask=users_umask(),
            )
        except OSError as error:
            raise AlertError(f"command {load.command[0]!r}", f"cannot be started ({error.strerror})") from error
        self._last_words = ""
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._read, self._listen)]
        for thread in self._threads:
            thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for text in self.process.stdout:
            try:
                line = json.loads(text)
                if "seconds" in line:
                    self.seconds.append(float(line["seconds"]))
                    self.ends.append(time.monotonic() - self.began)
                self.about.update({name: str(value) for name, value in line.get("about", {}).items()})
                self.error = str(line.get("error", self.error))
            except (AttributeError, TypeError, ValueError):
                continue  # what a framework prints between the lines

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for text in self.process.stderr:
            self._last_words = text.strip()[:300] or self._last_words

    def over(self) -> bool:
        return self.process.poll() is not None

    def end(self, kill: bool = False) -> None:
        """Ends it; -9 if it must not tidy up, or does not."""
        if not self.over():
            self.process.kill() if kill else self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def run(self, case: str, role: str, ended: bool, timed_out: bool) -> Run:
        for thread in self._threads:
            thread.join(20)
        status = None if ended or timed_out else self.process.returncode
        error = self.error or (self._last_words if status else "")
        return Run(case, role, tuple(self.seconds), tuple(self.ends), status, error, timed_out, self.about)


@dataclass
class Commands:
    """Runs the plan's commands on this machine."""

    plan: Plan
    source: str = "measured here"

    def perform(self, case: Case) -> dict[str, Run]:
        """Companions first, the victim when each of them has reported a step; they are ended when it is done."""
        began = time.monotonic()
        deadline = began + self.plan.timeout_seconds
        companions = {role: _Process(load, 0, began) for role, load in case.companions}
        role, load = case.victim
        try:
            while not all(one.seconds or one.over() for one in companions.values()) and time.monotonic() < deadline:
                time.sleep(0.02)
            victim = _Process(load, self.plan.warmup + self.plan.steps, began)
            try:
                killed: set[str] = set()
                while not victim.over() and time.monotonic() < deadline:
                    time.sleep(0.01)
                    if case.kills and not killed and len(victim.seconds) >= self.plan.warmup + self.plan.steps / 2:
                        killed = set(companions)
                        for one in companions.values():
                            one.end(kill=True)
                timed_out = not victim.over()
            finally:
                victim.end()
            alone = {name for name, one in companions.items() if not one.over()} | killed
        finally:
            for one in companions.values():
                one.end()
        found = {role: victim.run(case.name, role, False, timed_out)}
        for name, one in companions.items():
            found[name] = one.run(case.name, name, name in alone, False)
        return found


@dataclass
class Recorded:
    """Recorded runs: FOLDER/CASE.ROLE.json."""

    folder: Path
    source: str = ""

    def __post_init__(self) -> None:
        self.source = self.source or f"recorded in {self.folder.name}, not measured here"

    def perform(self, case: Case) -> dict[str, Run]:
        roles = [case.victim[0], *(role for role, _ in case.companions)]
        return {role: self._read(case.name, role) for role in roles}

    def _read(self, case: str, role: str) -> Run:
        path = self.folder / f"{case}.{role}.json"
        try:
            content: dict[str, Any] = parse_json(path.read_text(encoding="utf-8"))
            return Run(**{**content, "seconds": tuple(content["seconds"]), "ends": tuple(content["ends"])})
        except FileNotFoundError as error:
            raise AlertError(str(path), "no such run in the recording", "Record it again: --record") from error
        except (KeyError, TypeError, ValueError) as error:
            raise AlertError(str(path), f"not a run ({error})", "Record it again: --record") from error


def keep(folder: Path, runs: Sequence[Run]) -> None:
    """Records runs for `Recorded`."""
    users_folder(folder)
    for run in runs:
        path = folder / f"{run.case}.{run.role}.json"
        with naming(path), open(path, "w", encoding="utf-8", opener=users_file) as file:
            file.write(json.dumps(asdict(run), ensure_ascii=False))
