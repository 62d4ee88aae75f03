"""Ranks as processes: started once, found again by the next agent, stopped with everything that they started.

Each rank that ever ran has a folder with its complete state, so nothing depends on which agent started it, or whether
that agent still runs. The folder's name is unique among all ranks and attempts, and it stays claimed: no rank runs
twice.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pwd
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from collectors.errors import CollectorError
from collectors.jobs import keeper
from collectors.jobs.wire import ERROR_CHARACTERS, TAIL_CHARACTERS, Stopped
from warehouse.private_files import private_folder, users_umask

log = logging.getLogger(__name__)

KEPT_SECONDS = 7 * 86400.0
"""How long a rank's output is kept after its scheduler has acknowledged its end."""
LOG_BYTES = 16 << 20
TAIL_BYTES = 4 * TAIL_CHARACTERS
_LONGEST_NAME = 120


@dataclass(frozen=True, slots=True)
class RankId:
    """world: the one in which it was started."""

    job: str
    attempt: int
    world: int
    rank: int


@dataclass(frozen=True, slots=True)
class User:
    """The user that ranks run as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    home: str


@dataclass(frozen=True, slots=True)
class Exit:
    """code: None: unknown.   stopped: by whom, if it did not end by itself."""

    at: float
    code: int | None = None
    stopped: Stopped = ""
    error: str = ""


@dataclass(slots=True)
class Run:
    """A rank that was started, or could not be. world: the last that it was given.   port: where that world meets, if
    this is its rank 0.   end: None while anything of it runs."""

    id: RankId
    folder: Path
    devices: tuple[str, ...]
    world: int
    port: int | None = None
    began_at: float | None = None
    end: Exit | None = None
    stopping: bool = False

    @property
    def alive(self) -> bool:
        return self.end is None


class Processes:
    """folder: of its own; one process at a time.   user: None: who runs this.   lease: a file with the instant of
    CLOCK_BOOTTIME at which ranks stop by themselves; None: never.

    Errors: CollectorError if the folder cannot be used, or is used by another process.
    """

    def __init__(
        self,
        folder: Path,
        grace_seconds: float = 10.0,
        user: User | None = None,
        lease: Path | None = None,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        self.folder, self.user, self.lease = folder.absolute(), user, lease
        self._grace, self._log_bytes = grace_seconds, log_bytes
        self._children: dict[Path, subprocess.Popen[bytes]] = {}
        self._runs: dict[RankId, Run] = {}
        self._unclear: set[Path] = set()
        self._pruned_at = float("-inf")
        try:
            private_folder(folder)
            self._lock = (folder / "lock").open("w")
            _lock_alone(self._lock)
            for spec in self.folder.glob("*/run.json"):
                if not (spec.parent / "forgotten").exists():
                    self._recover(spec.parent)
        except BlockingIOError:
            raise CollectorError(str(folder), "another process keeps its ranks there", "Give each its own") from None
        except OSError as error:
            raise CollectorError(str(folder), f"cannot be used ({error})", "Give a folder of its own") from error

    def close(self) -> None:
        """Ranks go on; another may have the folder."""
        self._lock.close()

    def start(
        self,
        rank: RankId,
        command: Sequence[str],
        env: Mapping[str, str],
        directory: str,
        devices: Sequence[str],
        world: Mapping[str, Any],
    ) -> None:
        """Runs the command, unless this rank ran before, whatever became of it. That it cannot start is its end."""
        if self._prepare(rank, command, env, directory, devices, world):
            self._keep(self._runs[rank])

    def ensure(self, rank: RankId) -> None:
        """Goes on with a start that was begun and not carried out: the agent was killed between the two."""
        run = self._runs[rank]
        if not run.stopping and run.folder not in self._children and not (run.folder / "claimed").exists():
            self._keep(run)

    def _keep(self, run: Run) -> None:
        try:
            with (run.folder / "keeper.log").open("ab") as errors:
                self._children[run.folder] = subprocess.Popen(  # noqa: S603 (our own)
                    [sys.executable, "-I", "-S", keeper.__file__, str(run.folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env={"PATH": os.environ.get("PATH", os.defpath), "GPULEDGER_RUN": str(run.folder)},
                    start_new_session=True,
                )
        except OSError as error:
            self._claim_and_end(run, f"cannot be started: {error}")

    def refuse(self, rank: RankId, devices: Sequence[str], world: Mapping[str, Any], why: str) -> None:
        """It is over without having run."""
        if self._prepare(rank, ("/bin/false",), {}, "", devices, world):
            self._claim_and_end(self._runs[rank], why)

    def stop(self, rank: RankId) -> None:
        """Begins to stop it, or goes on to; `look` tells when it is over. What was never started never will be."""
        run = self._runs[rank]
        run.stopping = True
        self._mark(run, "stop")
        if self._claim_and_end(run, "stopped before it began", "asked"):
            return
        pid = self._keeper(run.folder)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def tell(self, rank: RankId, world: Mapping[str, Any]) -> None:
        """A rank that goes on hears of another world: the file first, then a signal."""
        run = self._runs[rank]
        keeper.write(run.folder / "world.json", json.dumps(world))
        self._note_world(run, world)
        pid = self._keeper(run.folder)
        if pid is not None and run.began_at is not None and run.alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGUSR1)

    def look(self) -> list[Run]:
        """All ranks that are not forgotten, as they are now."""
        for run in self._runs.values():
            try:
                self._refresh(run)
            except (OSError, ValueError, KeyError, TypeError) as error:
                self._complain(run, error)
            else:
                self._unclear.discard(run.folder)
        if time.monotonic() - self._pruned_at >= 3600:
            self._pruned_at = time.monotonic()
            self._prune()
        return list(self._runs.values())

    def known(self, rank: RankId) -> bool:
        """Whether it runs or ran here, as far as anybody remembers."""
        return rank in self._runs or (self._folder_of(rank) / "claimed").exists()

    def recall(self, rank: RankId) -> None:
        """One that was forgotten is asked for again: how it ended is reported again."""
        if rank not in self._runs:
            folder = self._folder_of(rank)
            (folder / "forgotten").unlink(missing_ok=True)
            self._remember(folder)

    def forget(self, rank: RankId) -> None:
        """The scheduler acknowledged its end. Its output, and that it ran, are kept for a while."""
        run = self._runs.pop(rank)
        self._mark(run, "forgotten")
        child = self._children.pop(run.folder, None)
        if child is not None:
            child.wait()

    def tail(self, run: Run) -> str:
        """The end of its output."""
        text = b""
        for name in ("output.old", "output"):
            with contextlib.suppress(FileNotFoundError), (run.folder / name).open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
                text += file.read(TAIL_BYTES)
        return text.decode("utf-8", errors="replace")[-TAIL_CHARACTERS:]

    def _prepare(
        self,
        rank: RankId,
        command: Sequence[str],
        env: Mapping[str, str],
        directory: str,
        devices: Sequence[str],
        world: Mapping[str, Any],
    ) -> bool:
        """Writes down what is to run; whether it may still be started."""
        folder = self._folder_of(rank)
        if (folder / "claimed").exists() or folder in self._children:
            return False
        folder.mkdir(exist_ok=True, mode=0o700)
        keeper.write(folder / "world.json", json.dumps(world))
        spec = {
            "id": asdict(rank),
            "devices": list(devices),
            "command": list(command),
            "env": dict(env),
            "directory": directory,
            "grace_seconds": self._grace,
            "log_bytes": self._log_bytes,
            "lease": "" if self.lease is None else str(self.lease),
            "user": None if self.user is None else asdict(self.user),
            "umask": users_umask(),
            "mark": _new_mark(),
        }
        keeper.write(folder / "run.json", json.dumps(spec))
        self._remember(folder)
        return True

    def _claim_and_end(self, run: Run, why: str, stopped: Stopped = "") -> bool:
        """Ends what has not begun; whether it had not."""
        try:
            (run.folder / "claimed").mkdir()
        except FileExistsError:
            return False
        end = {"code": None, "at": time.time(), "stopped": stopped, "error": why[:ERROR_CHARACTERS]}
        keeper.write(run.folder / "exit", json.dumps(end))
        self._refresh(run)
        return True

    def _recover(self, folder: Path) -> None:
        try:
            self._remember(folder)
        except (ValueError, KeyError, TypeError) as error:
            log.error("jobs: %s is damaged (%s); it is not run again", folder, error)
            (folder / "claimed").mkdir(exist_ok=True)
            (folder / "forgotten").touch()

    def _remember(self, folder: Path) -> None:
        spec = json.loads((folder / "run.json").read_text())
        run = Run(RankId(**spec["id"]), folder, tuple(spec["devices"]), 0)
        run.stopping = (folder / "stop").exists()
        self._note_world(run, json.loads((folder / "world.json").read_text()))
        self._runs[run.id] = run

    def _note_world(self, run: Run, world: Mapping[str, Any]) -> None:
        run.world = world["world"]
        run.port = world["master_port"] if world["rank"] == 0 else None

    def _refresh(self, run: Run) -> None:
        if run.end is not None:
            return
        if run.began_at is None:
            with contextlib.suppress(FileNotFoundError):
                run.began_at = json.loads((run.folder / "started").read_text())["at"]
        if self._keeper(run.folder) is not None:
            return
        if not (run.folder / "claimed").exists():
            if run.folder in self._children:
                self._claim_and_end(run, f"its keeper did not begin: {self._keepers_words(run.folder)}")
            return
        try:
            end = json.loads((run.folder / "exit").read_text())
        except FileNotFoundError:
            end = self._left_behind(run)
        if end is not None:
            with contextlib.suppress(FileNotFoundError):
                run.began_at = json.loads((run.folder / "started").read_text())["at"]
            run.end = Exit(**end)

    def _left_behind(self, run: Run) -> dict[str, Any] | None:
        """A keeper is gone and left no record of the end: what it left running is killed. None while anything is."""
        left = _marked(run.folder, json.loads((run.folder / "run.json").read_text()).get("mark", 0))
        if left and (run.folder / "process").exists():
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        if left:
            return None
        if (run.folder / "exit").exists():  # it has just said so
            return dict(json.loads((run.folder / "exit").read_text()))
        stopped = "asked" if run.stopping else ""
        end = {"code": None, "at": time.time(), "stopped": stopped, "error": "ended without an exit status"}
        keeper.write(run.folder / "exit", json.dumps(end))
        return end

    def _mark(self, run: Run, name: str) -> None:
        """For whoever comes after this process. Where there is no room for it, that one is reported again."""
        try:
            (run.folder / name).touch()
        except OSError as error:
            self._complain(run, error)

    def _complain(self, run: Run, error: Exception) -> None:
        """Once, until it is well again: one folder that is of no use must not take the node's other ranks with it."""
        if run.folder not in self._unclear:
            self._unclear.add(run.folder)
            log.error("jobs: %s: %s", run.folder, error)

    def _keepers_words(self, folder: Path) -> str:
        lines = (folder / "keeper.log").read_text(errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _keeper(self, folder: Path) -> int | None:
        """The rank's keeper, if it is still the same process."""
        child = self._children.get(folder)
        if child is not None:
            return child.pid if child.poll() is None else None
        written = _written_keeper(folder)
        return written[0] if written is not None and keeper.born(written[0]) == written[1] else None

    def _folder_of(self, rank: RankId) -> Path:
        safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else f"%{ord(c):x}" for c in rank.job)
        if len(safe) > _LONGEST_NAME:
            digest = hashlib.sha256(rank.job.encode("utf-8", "surrogatepass")).hexdigest()
            safe = f"{safe[:_LONGEST_NAME]}%{digest[:16]}"
        return self.folder / f"{safe}.{rank.attempt}.{rank.world}.{rank.rank}"

    def _prune(self) -> None:
        for mark in self.folder.glob("*/forgotten"):
            if time.time() - mark.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(mark.parent, ignore_errors=True)


def keepers(folder: Path) -> dict[tuple[int, int], str]:
    """Of the ranks in the folder that have not ended: (the keeper's pid, its start in ticks since boot) -> job."""
    found: dict[tuple[int, int], str] = {}
    for path in folder.glob("*/process"):
        written = None if (path.parent / "exit").exists() else _written_keeper(path.parent)
        if written is not None:
            with contextlib.suppress(FileNotFoundError):  # it is being removed
                job = json.loads((path.parent / "run.json").read_text())["id"]["job"]
                found[written[0], int(written[1])] = job
    return found


def _written_keeper(folder: Path) -> tuple[int, str] | None:
    """The keeper's pid and when it was born, as it wrote them down since the machine started."""
    try:
        pid, born, boot = (folder / "process").read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return (int(pid), born) if boot == keeper.boot_id() else None


def _lock_alone(file: Any) -> None:
    import fcntl

    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _new_mark() -> int:
    """A number for one rank, which it may have below this process. Of 60 bits, so no other has it."""
    most = resource.getrlimit(keeper.RLIMIT_LOCKS)[1]
    return secrets.randbelow(1 << 60 if most in (resource.RLIM_INFINITY, 0) else most) + 1


def _marked(folder: Path, number: int) -> list[int]:
    """Processes of the rank of this folder, by their environment, as far as we may look, or by their mark (0: none)."""
    mark = b"GPULEDGER_RUN=" + os.fsencode(folder)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and keeper.born(int(entry.name)):
            if number and keeper.mark_of(int(entry.name)) == number:
                found.append(int(entry.name))
                continue
            # Of one whose first thread has ended, only its others tell.
            is_headless = keeper.status_of(int(entry.name))[:1] == ["Z"]
            for path in entry.glob("task/*/environ") if is_headless else (entry / "environ",):
                with contextlib.suppress(OSError):
                    if mark in path.read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                        break
    return found


def user_named(name: str | None, where: str) -> User | None:
    """The user to run ranks as; None: the user of this process."""
    if name is None:
        if os.geteuid() == 0:
            raise CollectorError(where, "commands of others would run as root", "Name a user for them, or root")
        return None
    try:
        known = pwd.getpwnam(name)
    except KeyError:
        raise CollectorError(where, f"there is no {name!r} here", "Name a user of this machine") from None
    if known.pw_uid == os.geteuid():
        return None
    if os.geteuid() != 0:
        raise CollectorError(where, f"only root can run ranks as {name}", "Leave it out, or run the agent as root")
    groups = tuple(os.getgrouplist(name, known.pw_gid))
    return User(known.pw_uid, known.pw_gid, groups, name, known.pw_dir)
