"""How long a job has held GPUs, by the scheduler's log, and what that costs at the site's prices. Pure.

Held is from the start of an attempt, when all its pods run, until nothing of it runs any more, preempted and resized
attempts included: what the books charge for. Both are as kubelets say, whenever the operator hears of it. Instants in
the log are whole milliseconds, and so is the sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from collectors.kubernetes.objects import written
from scheduler.codec import read_actions
from scheduler.model import Grant, Node, Preempt
from scheduler.records.log import Entry

HOUR = 3_600_000
"""Milliseconds."""
PLACES = Decimal("0.0001")
"""Of an hour: a third of a second."""
KEYS = ("gpuHours", "gpuHoursAt", "cost")


def held(history: Sequence[Entry], job_id: str, nodes: Sequence[Node], now: float) -> Counter[str]:
    """GPU-milliseconds until now by model, of whole devices.   history: the job's entries.   Shape: a model that it
    never held is absent."""
    found: Counter[str] = Counter()
    grants: tuple[Grant, ...] = ()
    since: int | None = None
    before: list[tuple[int, tuple[Grant, ...]]] = []  # what it was given, until when, while nobody said that it ran

    def add(many: int, of: tuple[Grant, ...]) -> None:
        for grant in of:
            for index in grant.devices:
                found[nodes[grant.node].devices[index].model] += many

    def until(instant: float) -> None:
        nonlocal since
        if since is not None:
            add(max(0, _ms(instant) - since), grants)
            since = _ms(instant)
        else:
            before.append((_ms(instant), grants))

    def began(instant: float) -> None:
        nonlocal since
        since = _ms(instant)
        for end, of in before:
            if end > since:
                add(end - since, of)
                since = end
        before.clear()

    for entry in history:
        if entry.kind == "plan":
            for action in read_actions(entry.body["actions"], f"entry {entry.sequence}"):
                if action.job_id != job_id:
                    continue
                until(entry.at)
                if not isinstance(action, Preempt):
                    grants = action.grants
                elif action.replicas < len(grants):
                    grants = grants[: -action.replicas]
        elif entry.kind in ("shrink", "rescale") and entry.body["replicas"]:
            until(entry.at)
            grants = grants[: -entry.body["replicas"]]
        elif entry.kind == "launched":
            began(entry.body.get("began_at", entry.at))
        elif entry.kind in ("freed", "end"):
            if since is None and "began_at" in entry.body:
                began(entry.body["began_at"])
            until(entry.body.get("ended_at", entry.at))
            grants, since = (), None
            before.clear()
    until(now)
    return found


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
