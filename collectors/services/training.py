"""Receives the progress of trainings (collectors/progress.py): rows of their rates.

The kernel reports which process sent a datagram, so the sender's claim about its workload need not be trusted: if the
agent sees the host's processes, `workload_of` finds it. A rate is computed between a run's last totals before the
interval (or its first) and the last ones within it; a silent run has no row, because it may be slow or over.
"""

from __future__ import annotations

import json
import socket
import stat
import struct
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path

from collectors.errors import CollectorError
from collectors.readings import Collected, Row

METRICS = {"steps": "training_steps_per_second", "samples": "training_samples_per_second"}
MOST_RUNS = 1024
MOST_BYTES = 2048
MOST = 1e15
_CREDENTIALS = struct.Struct("3i")
FORGET = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Message:
    """What one datagram says. run: of one process; at: seconds on its own clock; steps, samples: totals since its
    start; rates: ours -> per second, measured by the training itself."""

    service: str
    workload_id: str
    run: str
    at: float = 0.0
    totals: tuple[tuple[str, float], ...] = ()
    rates: tuple[tuple[str, float], ...] = ()


def message_of(body: bytes) -> Message:
    """Errors: ValueError if it is no message."""
    try:
        reported = json.loads(body)
    except RecursionError:
        raise ValueError("no JSON") from None
    if not isinstance(reported, dict):
        raise ValueError("no object")
    at = _number(reported, "at")
    totals = {METRICS[name]: _number(reported, name) for name in METRICS}
    rates = {METRICS[name]: _number(reported, f"{name}_per_second") for name in METRICS}
    found = Message(
        service=_text(reported, "service") or "training",
        workload_id=_text(reported, "workload"),
        run=_text(reported, "run"),
        at=at or 0.0,
        totals=tuple((name, value) for name, value in totals.items() if value is not None) if at is not None else (),
        rates=tuple((name, value) for name, value in rates.items() if value is not None),
    )
    if not found.totals and not found.rates:
        raise ValueError("neither totals with `at` nor rates")
    return found


@dataclass(slots=True)
class _Run:
    """Totals before this interval (or the first of the run) and the last ones; rates reported within the interval."""

    heard_at: datetime
    before: Message | None = None
    last: Message | None = None
    rates: dict[str, float] = field(default_factory=dict)


class TrainingProgress:
    """What runs have sent since the last `rows`. Not thread-safe by itself."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self._runs: dict[tuple[str, str, str], _Run] = {}

    def hear(self, message: Message, at: datetime) -> None:
        """at: when it came, by our clock."""
        if not message.workload_id:
            self.dropped["progress of an unknown workload"] += 1
            return
        key = message.service, message.workload_id, message.run
        run = self._runs.get(key)
        if run is None:
            if len(self._runs) >= MOST_RUNS:
                self.dropped["progress of too many runs"] += 1
                return
            run = self._runs[key] = _Run(at)
        run.heard_at = at
        run.rates |= dict(message.rates)
        if not message.totals:
            return
        if run.last is not None and message.at < run.last.at:
            self.dropped["progress came late"] += 1
            return
        run.before = run.before or message
        run.last = message

    def rows(self, now: datetime, interval_seconds: float, cluster: str = "") -> list[Row]:
        """A row for each workload and metric that was reported. Several runs of a workload add up."""
        rates: dict[tuple[str, str, str], list[tuple[float, float | None]]] = {}
        for key, run in list(self._runs.items()):
            service, workload_id, _ = key
            for metric, rate, amount in _rates(run):
                rates.setdefault((service, workload_id, metric), []).append((rate, amount))
            run.before, run.rates = run.last, {}
            if now - run.heard_at > FORGET:
                del self._runs[key]
        found = []
        for (service, workload_id, metric), reported in rates.items():
            amounts = [amount for _, amount in reported if amount is not None]
            row: Row = {
                "ts": now,
                "interval_seconds": interval_seconds,
                "service": service,
                "workload_id": workload_id,
                "metric": metric,
                "value": sum(rate for rate, _ in reported),
            }
            if len(amounts) == len(reported):
                row["observations"] = int(sum(amounts))
            found.append(row | ({"cluster": cluster} if cluster else {}))
        return found


class ProgressReceiver:
    """Listens on a unix datagram socket; anybody on the node may send.

    workload_of: the workload of a process by its number on the host, '' if unknown; what it says counts more than
    what the message says.   Errors: CollectorError if the socket cannot be made.
    """

    def __init__(
        self,
        path: Path,
        clock: Callable[[], datetime],
        *,
        cluster: str = "",
        period_seconds: float = 15.0,
        workload_of: Callable[[int], str] | None = None,
    ) -> None:
        self._path, self._clock, self._cluster, self._period = path, clock, cluster, period_seconds
        self._workload_of = workload_of
        self._progress = TrainingProgress()
        self._lock = threading.Lock()
        self._last: datetime | None = None
        self._stopping = threading.Event()
        self._socket = _bound(path)
        self._thread = threading.Thread(target=self._listen, name="training progress", daemon=True)
        self._thread.start()

    def collect(self, now: datetime) -> Collected:
        """Rows of what came since the last cycle."""
        collected = Collected()
        since = (now - self._last).total_seconds() if self._last is not None else self._period
        interval = since if 0.001 <= since <= 86_400 else self._period
        with self._lock:
            for row in self._progress.rows(now, interval, self._cluster):
                collected.add("service_levels", row)
            collected.dropped += self._progress.dropped
            self._progress.dropped.clear()
        self._last = now
        return collected

    def acknowledge(self) -> None:
        """Nothing is asked again: the next interval begins where this one ended."""

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._socket.close()
        self._path.unlink(missing_ok=True)

    def _listen(self) -> None:
        while not self._stopping.is_set():
            try:
                body, ancillary, _, _ = self._socket.recvmsg(MOST_BYTES + 1, socket.CMSG_SPACE(_CREDENTIALS.size))
            except TimeoutError:
                continue
            self._take(body, _sender(ancillary))

    def _take(self, body: bytes, pid: int) -> None:
        try:
            if len(body) > MOST_BYTES:
                raise ValueError("too long")
            message = message_of(body)
        except ValueError:
            with self._lock:
                self._progress.dropped["progress that is no message"] += 1
            return
        known = self._workload_of(pid) if self._workload_of is not None and pid else ""
        message = replace(message, workload_id=known or message.workload_id, run=message.run or str(pid))
        with self._lock:
            self._progress.hear(message, self._clock())


def _rates(run: _Run) -> list[tuple[str, float, float | None]]:
    """(metric, per second, how much) of a run; rates that the training measured itself count more than ours."""
    found: dict[str, tuple[float, float | None]] = {}
    if run.before is not None and run.last is not None and run.last.at > run.before.at:
        before, seconds = dict(run.before.totals), run.last.at - run.before.at
        for metric, total in run.last.totals:
            amount = total - before.get(metric, 0.0)
            # A training that never reported a sample has no rate of them.
            if amount >= 0 and (total or metric == METRICS["steps"]):
                found[metric] = amount / seconds, amount
    found |= {metric: (rate, None) for metric, rate in run.rates.items()}
    return [(metric, rate, amount) for metric, (rate, amount) in found.items()]


def _number(reported: dict[str, object], name: str) -> float | None:
    value = reported.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST:
        raise ValueError(f"{name} is no number")
    return float(value)


def _text(reported: dict[str, object], name: str) -> str:
    value = reported.get(name, "")
    if not isinstance(value, str) or len(value) > 256 or not value.isprintable():
        raise ValueError(f"{name} is no text")
    return value


def _bound(path: Path) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        if path.exists() and stat.S_ISSOCK(path.stat().st_mode):
            path.unlink()  # left by an agent that was killed
        found.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        found.bind(str(path))
        path.chmod(0o666)
        found.settimeout(0.2)
    except OSError as mistake:
        found.close()
        raise CollectorError(str(path), f"no socket: {mistake}", "Give a folder that can be written") from mistake
    return found


def _sender(ancillary: list[tuple[int, int, bytes]]) -> int:
    """The sender's process by its number here; 0 if the kernel does not say."""
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_CREDENTIALS and len(data) >= _CREDENTIALS.size:
            pid: int = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
            return max(pid, 0)
    return 0
