"""How long a job has held GPUs, by the scheduler's log, and what that costs at the site's prices. Pure.

Held is from the start of an attempt, when all its pods run, until nothing of it runs any more, preempted and resized
attempts included: what the books charge for. Both are as kubelets say, whenever the operator hears of it. Instants in
the log are whole milliseconds, and so is the sum.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from collectors.kubernetes.objects import written
from scheduler.codec import read_actions
from scheduler.model import Grant, Node, Preempt
from scheduler.records.log import Entry, Log

HOUR = 3_600_000
"""Milliseconds."""
PLACES = Decimal("0.0001")
"""Of an hour: a third of a second."""
OVER, MOST_ENDED = ("end", "cancel"), 1000
"""Entries by which a job ends, or soon will; and how many such jobs are remembered."""
KEYS = ("gpuHours", "gpuHoursAt", "cost")


Device = tuple[int, int]
"""Number of a node, and of a device of it."""


class Holding:
    """What one job has held, by its entries of the log in order."""

    def __init__(self) -> None:
        self._found: Counter[Device] = Counter()
        self._grants: tuple[Grant, ...] = ()
        self._since: int | None = None
        self._before: list[tuple[int, tuple[Grant, ...]]] = []  # what was granted, until when, while nobody said it ran

    def take(self, entry: Entry, job_id: str) -> None:
        """An entry that concerns the job: one of its own, or a plan with actions of it."""
        if entry.kind == "plan":
            own = [document for document in entry.body["actions"] if document["job_id"] == job_id]
            for action in read_actions(own, f"entry {entry.sequence}"):
                self._until(entry.at)
                if not isinstance(action, Preempt):
                    self._grants = action.grants
                elif action.replicas < len(self._grants):
                    self._grants = self._grants[: -action.replicas]
        elif entry.kind in ("shrink", "rescale") and entry.body["replicas"]:
            self._until(entry.at)
            self._grants = self._grants[: -entry.body["replicas"]]
        elif entry.kind == "launched":
            self._began(entry.body.get("began_at", entry.at))
        elif entry.kind in ("freed", "end"):
            if self._since is None and "began_at" in entry.body:
                self._began(entry.body["began_at"])
            self._until(entry.body.get("ended_at", entry.at))
            self._grants, self._since = (), None
            self._before.clear()

    def held(self, nodes: Sequence[Node], now: float) -> Counter[str]:
        """GPU-milliseconds until now by model, of whole devices. Shape: a model that it never held is absent."""
        found = Counter(self._found)
        if self._since is not None:
            _add(found, max(0, _ms(now) - self._since), self._grants)
        models: Counter[str] = Counter()
        for (node, index), many in found.items():
            models[nodes[node].devices[index].model] += many
        return models

    def _until(self, instant: float) -> None:
        if self._since is not None:
            _add(self._found, max(0, _ms(instant) - self._since), self._grants)
            self._since = _ms(instant)
        else:
            self._before.append((_ms(instant), self._grants))

    def _began(self, instant: float) -> None:
        since = _ms(instant)
        for end, of in self._before:
            if end > since:
                _add(self._found, end - since, of)
                since = end
        self._since = since
        self._before.clear()


def _add(found: Counter[Device], many: int, of: tuple[Grant, ...]) -> None:
    for grant in of:
        for index in grant.devices:
            found[grant.node, index] += many


class Holdings:
    """What each job has held, followed through the log: an entry is read once, however many jobs a plan starts."""

    def __init__(self, log: Log) -> None:
        self._log, self._last = log, log.last
        self._of: dict[str, Holding] = {}
        self._ended: deque[str] = deque()

    def of(self, job_id: str) -> Holding:
        """Errors: LedgerError if the log cannot be read."""
        self._follow()
        if job_id not in self._of:  # of before this was made, or forgotten
            holding = self._of[job_id] = Holding()
            for entry in self._log.of_job(job_id):
                holding.take(entry, job_id)
                if entry.kind in OVER:
                    self._forget_later(job_id)
        return self._of[job_id]

    def _follow(self) -> None:
        if self._last == self._log.last:
            return
        for entry in self._log.entries(self._last):
            self._last = entry.sequence
            if entry.kind == "submit":
                self._of.setdefault(entry.job_id, Holding())
            for job_id in concerned(entry):
                if job_id in self._of:
                    self._of[job_id].take(entry, job_id)
            if entry.kind in OVER and entry.job_id in self._of:
                self._forget_later(entry.job_id)

    def _forget_later(self, job_id: str) -> None:
        """The status of an ended job may still be due."""
        self._ended.append(job_id)
        while len(self._ended) > MOST_ENDED:
            self._of.pop(self._ended.popleft(), None)


def concerned(entry: Entry) -> Iterable[str]:
    """The jobs that an entry of the log names."""
    if entry.kind == "plan":
        return dict.fromkeys(document["job_id"] for document in entry.body["actions"])
    return entry.body if entry.kind == "reasons" else filter(None, [entry.job_id])


def _ms(instant: float) -> int:
    return round(instant * 1000)


def usage_of(found: Mapping[str, int], prices: Mapping[str, float], is_over: bool, now: float) -> dict[str, Any]:
    """As a status says it; nothing of a job that has not held any yet. prices: of a GPU-hour by model; a cost is
    known only where each model that it held has one."""
    if not found and not is_over:
        return {}
    hours = {model: Decimal(milliseconds) / HOUR for model, milliseconds in found.items()}
    usage: dict[str, Any] = {
        "gpuHours": str(sum(hours.values(), Decimal(0)).quantize(PLACES)),
        "gpuHoursAt": written(datetime.fromtimestamp(now, UTC)),
    }
    if prices and all(model in prices for model in hours):
        cost = sum((many * Decimal(str(prices[model])) for model, many in hours.items()), Decimal(0))
        usage["cost"] = str(cost.quantize(PLACES))
    return usage
