"""Notifies a site when jobs start and end: by a webhook, or a command on the scheduler's machine.

Notifications follow from the log, which also stores up to where each callback has received them: a crash loses nothing,
and a notification in transit is sent again under the same id. Each callback gets them in order; one that cannot be
reached is tried again at growing intervals, and does not delay others.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import string
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from collectors.readings import Row
from ingest.webhook import signed
from scheduler.live.posting import PostError, post
from scheduler.records.log import Entry, Log
from scheduler.settings import CallbackPart, Settings
from warehouse.connection_errors import INTERNAL, reason
from warehouse.errors import LedgerError
from warehouse.instants import rfc3339

log_to = logging.getLogger(__name__)

FIRST_PAUSE, MOST_PAUSE = 1.0, 300.0
"""Seconds before the next attempt: doubled each time."""
GIVEN_UP_AFTER = 3 * 86400.0
"""Seconds after which an undelivered notification is dropped."""
COMMAND_SECONDS = 30.0
VISIBLE = string.punctuation
"""Characters that an id in a header may have, in addition to letters and digits."""
ENVIRONMENT = ("PATH", "HOME", "LANG", "TZ")
"""Environment variables of the scheduler that a command gets."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notification.   number: of its log entry.   at: when it happened, seconds since the epoch."""

    number: int
    at: float
    name: str
    document: Mapping[str, Any]

    def body(self) -> bytes:
        return json.dumps({**self.document, "id": self.name}, ensure_ascii=False, separators=(",", ":")).encode()


@dataclass(eq=False)
class _Line:
    """The queue of one callback.   delivered: the entry up to which all was delivered.   attempts: to send the first
    one. is_busy: whether a delivery is under way."""

    part: CallbackPart
    delivered: int
    waiting: deque[Notice] = field(default_factory=deque)
    attempts: int = 0
    next_at: float = 0.0
    problem: str = ""
    given_up: int = 0
    is_busy: bool = False


class Callbacks:
    """All callbacks. Set `number` to an entry's number before adding its rows, as in the outbox.

    clock: seconds since the epoch.
    """

    def __init__(self, log: Log, cluster: str, clock: Callable[[], float]) -> None:
        self._log, self._cluster, self._clock = log, cluster, clock
        self._lines: dict[str, _Line] = {}
        self._lock = threading.Lock()
        self.number = 0

    def configure(self, settings: Settings, configurations: Sequence[Entry]) -> None:
        """Replaces the callbacks. Each gets what happened since the configuration that first named it."""
        with self._lock:
            lines = {}
            for part in settings.callbacks:
                line = self._lines.get(part.name)
                if line is None:
                    delivered = self._log.delivered(_reader(part.name))
                    line = _Line(part, max(delivered, _known_since(part.name, configurations)))
                line.part = part
                lines[part.name] = line
            self._lines = lines

    def put(self, record: str, rows: Sequence[Row]) -> None:
        """Adds the rows of the entry `number`, which are all of one event."""
        if record in ("events", "warnings") and rows and self._lines:
            row = rows[0]
            devices = [
                {key: held[key] for key in ("node", "device_id", "partition_id", "units")}
                for held in rows
                if "device_id" in held
            ]
            self.add(row["event"], row["ts"].timestamp(), _document(self._cluster, row, devices))

    def wants(self, event: str) -> bool:
        """Whether any callback wants an event."""
        return any(event in line.part.events for line in self._lines.values())

    def add(self, event: str, at: float, document: Mapping[str, Any]) -> None:
        """Adds an event of the entry `number`."""
        name = f"{self._cluster}/{self.number}/{document['allocation_id']}/{event}"
        with self._lock:
            for line in self._lines.values():
                if self.number > line.delivered and line.part.wants(event, document["tenant"], document["queue"]):
                    line.waiting.append(Notice(self.number, at, name, {"version": 1, "event": event, **document}))

    def hand_over(self) -> bool:
        """Sends what is due, and waits for it. Returns whether anything was delivered."""
        begun = self.begin()
        for one in begun:
            one.join()
        return any(one.any_delivered for one in begun)

    def begin(self) -> Sequence[_Sender]:
        """Starts to send what is due, each callback on a thread of its own, so that a slow receiver delays no other."""
        with self._lock:
            due = [line for line in self._lines.values() if self._is_due(line) and not line.is_busy]
            for line in due:
                line.is_busy = True
        begun = [_Sender(self, line) for line in due]
        for one in begun:
            one.start()
        return begun

    def _is_due(self, line: _Line) -> bool:
        # A pause beyond the maximum is from before the clock was set back.
        return bool(line.waiting) and not 0 < line.next_at - self._clock() <= MOST_PAUSE

    def hand_over_line(self, line: _Line) -> bool:
        """Sends one callback's queue until a delivery fails or the callback is removed. Returns whether any was
        delivered."""
        any_delivered = False
        while self._is_due(line) and line in self._lines.values():
            any_delivered |= self._attempt(line)
            if line.attempts:
                break
        return any_delivered

    def state(self) -> dict[str, dict[str, Any]]:
        with self._lock:
            return {
                name: {"waiting": len(line.waiting), "given_up": line.given_up, "problem": line.problem}
                for name, line in self._lines.items()
            }

    def _attempt(self, line: _Line) -> bool:
        first, now = line.waiting[0], self._clock()
        problem = final = ""
        try:
            _send(line.part, first, now)
        except PostError as error:
            problem, final = str(error), "refused" if error.refused else ""
        except (LedgerError, OSError) as error:
            problem = reason(error)
        except Exception:  # an error in one callback must not stop the others
            log_to.exception("callback %s: failed with an internal error", line.part.name)
            problem = INTERNAL
        if problem and not final and now - first.at > GIVEN_UP_AFTER:
            final = "too old"
        if problem and problem != line.problem:
            log_to.error("callback %s: %s", line.part.name, problem)
        line.problem = problem
        if problem and not final:
            line.next_at = now + min(MOST_PAUSE, FIRST_PAUSE * 2.0 ** min(line.attempts, 16))
            line.attempts += 1
            return False
        if final:
            line.given_up += 1
            log_to.error("callback %s: gives %s up (%s)", line.part.name, first.name, final)
        line.attempts, line.next_at = 0, 0.0
        with self._lock:
            line.waiting.popleft()
            if line.waiting and line.waiting[0].number == first.number:
                return not final
            line.delivered = first.number
        try:
            self._log.set_delivered(_reader(line.part.name), first.number)
        except LedgerError as error:
            line.problem = str(error)
            log_to.error("callback %s: %s", line.part.name, error)
        return not final


class _Sender(threading.Thread):
    """Sends one callback what is due."""

    def __init__(self, callbacks: Callbacks, line: _Line) -> None:
        super().__init__(name=f"callback {line.part.name}", daemon=True)
        self._callbacks, self._line, self.any_delivered = callbacks, line, False

    def run(self) -> None:
        try:
            self.any_delivered = self._callbacks.hand_over_line(self._line)
        finally:
            self._line.is_busy = False


def _send(part: CallbackPart, notice: Notice, now: float) -> None:
    """Errors: PostError; LedgerError if the secret cannot be read, OSError if the command cannot be run."""
    body = notice.body()
    if part.command:
        _run(part.command, body)
        return
    # Headers allow only these characters; the document has the unchanged id.
    headers = {"Content-Type": "application/json", "X-Gpuledger-Delivery": quote(notice.name, safe=VISIBLE)}
    if part.secret is not None:
        headers |= signed(_secret(part.secret.file), int(now), body)
    post(part.url, body, headers)


def _run(command: Sequence[str], body: bytes) -> None:
    """Runs a command with the document on its standard input; its output is discarded."""
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
    process = subprocess.Popen(  # noqa: S603 - entirely from the settings; contains no text of a job
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        start_new_session=True,
    )
    try:
        process.communicate(body, timeout=COMMAND_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise PostError(f"{command[0]} took longer than {COMMAND_SECONDS:.0f} s") from None
    if process.returncode:
        raise PostError(f"{command[0]} ended with {process.returncode}")


def _secret(path: str) -> str:
    try:
        found = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise LedgerError(path, "a secret cannot be read from it", "Check the path and who may read it") from error
    if not found:
        raise LedgerError(path, "holds no secret", "Write it there, in one line")
    return found


def _known_since(name: str, configurations: Sequence[Entry]) -> int:
    """The entry since which all configurations have had this callback."""
    since = 0
    for entry in reversed(configurations):
        if all(part["name"] != name for part in entry.body["settings"].get("callbacks", ())):
            break
        since = entry.sequence
    return since


def _reader(name: str) -> str:
    return f"callback/{name}"


def _document(cluster: str, row: Row, devices: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    message = json.loads(row["message"])
    return {
        "at": rfc3339(row["ts"]),
        "cluster": cluster,
        "job_id": row["workload_id"],
        "allocation_id": row["allocation_id"],
        "tenant": row["tenant"],
        "project": row["project"],
        "queue": row["queue"],
        "reason": row["reason"],
        "actor": row["actor"],
        "text": message.get("text", ""),
        "devices": list(devices),
    }
