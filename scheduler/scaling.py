"""An elastic job's own policy: what size it is given between the fewest and the most replicas that it asks for. Pure.

windows      bounds while they are open
queue        by the jobs that wait in its queue
utilization  by the measured utilization of its devices

The last two set its `size`, the most that it may have. The scheduler grows it up to there as there is room, and takes
what it has beyond. Each says a size, and the smallest counts; between their thresholds a job keeps what it has. What is
not known says that nothing changes. A size stays for `cool_down_seconds`; windows open and close when they say.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from scheduler.windows import Window
from warehouse.durations import format_duration
from warehouse.hours import clock, zone
from warehouse.printable import counted

MEASURED = (300.0, 600.0, 900.0, 1800.0, 3600.0, 7200.0, 10_800.0, 21_600.0)
"""Seconds over which utilization can be measured: few, since each is a question to the server."""
LEAST_COOL_DOWN, MOST_SECONDS = 60.0, 30 * 86_400.0
MOST_WINDOWS = 50
Why = Literal["QueueDepth", "Utilization", "TimeWindow", ""]


@dataclass(frozen=True, slots=True)
class QueueRule:
    """grow_below: it may have all that it asks for while fewer jobs wait.   shrink_at: it has its fewest replicas while
    so many or more do.   after_seconds: for which a job must have waited to count."""

    grow_below: int
    shrink_at: int
    after_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class UseRule:
    """shrink_below, grow_above: utilization (0-1) at which its size changes, towards the middle between them.
    window_seconds: over which it is measured."""

    shrink_below: float
    grow_above: float
    window_seconds: float = 1800.0

    @property
    def target(self) -> float:
        return (self.shrink_below + self.grow_above) / 2


@dataclass(frozen=True, slots=True)
class ScalingPolicy:
    queue: QueueRule | None = None
    utilization: UseRule | None = None
    windows: tuple[Window, ...] = ()
    cool_down_seconds: float = 600.0

    @property
    def measures(self) -> bool:
        return self.queue is not None or self.utilization is not None


@dataclass(frozen=True, slots=True)
class Scaled:
    """What a policy has made of a job. asked: the fewest and the most replicas that it asks for.   size: the most that
    its queue and its utilization allow, within that.   at: when they last changed it; None: never.   reason, text: why
    the job's bounds are what they are, as of their last change."""

    asked: tuple[int, int]
    size: int
    at: float | None = None
    reason: Why = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """Mean utilization (0-1) of all devices of a job, over the rule's window."""

    value: float


@dataclass(frozen=True, slots=True)
class Facts:
    """held: replicas that it has; None: it does not run.   waiting: jobs of its queue that its devices would serve.
    use: of its devices, or why it is unknown; '': it has not had its size for long."""

    held: int | None
    waiting: int
    use: Use | str


@dataclass(frozen=True, slots=True)
class Decision:
    """least, most: the job's bounds from now on."""

    least: int
    most: int
    scaled: Scaled


def problem(policy: ScalingPolicy) -> str:
    """Why a policy is none; '' if it is one."""
    queue, use = policy.queue, policy.utilization
    if not policy.measures and not policy.windows:
        return "scaling has neither queue, utilization nor windows"
    if not LEAST_COOL_DOWN <= policy.cool_down_seconds <= MOST_SECONDS:
        return f"scaling.cool_down_seconds is not from {LEAST_COOL_DOWN:.0f} to {MOST_SECONDS:.0f}"
    if queue is not None:
        if not 1 <= queue.grow_below <= queue.shrink_at < 1 << 53:
            range_ = f"grow_below {queue.grow_below}, shrink_at {queue.shrink_at}"
            return f"scaling.queue: {range_}: the first is at least 1, and at most the second"
        if not 0 <= queue.after_seconds <= MOST_SECONDS:
            return f"scaling.queue.after_seconds is not from 0 to {MOST_SECONDS:.0f}"
    if use is not None:
        if not 0 <= use.shrink_below < use.grow_above <= 1:
            range_ = f"shrink_below {use.shrink_below:g}, grow_above {use.grow_above:g}"
            return f"scaling.utilization: {range_}: both are from 0 to 1, and the first is below the second"
        if use.window_seconds not in MEASURED:
            return f"scaling.utilization.window_seconds is none of {', '.join(f'{one:.0f}' for one in MEASURED)}"
    if len(policy.windows) > MOST_WINDOWS:
        return f"scaling.windows are {len(policy.windows)}, of at most {MOST_WINDOWS}"
    return next(filter(None, map(_window_problem, policy.windows)), "")


def _window_problem(window: Window) -> str:
    try:
        zone(window.timezone)
        clock(window.start)
        clock(window.end)
    except ValueError as error:
        return f"scaling.windows: {window.start}-{window.end} {window.timezone}: {error}"[:200]
    if not window.days:
        return "scaling.windows: one is on no day"
    if window.start == "24:00":
        return "scaling.windows: one starts at 24:00: that is 00:00 of the next day"
    if not window.min_replicas and window.max_replicas is None:
        return f"scaling.windows: {window.hours} has neither min_replicas nor max_replicas"
    if not 0 <= window.min_replicas <= (math.inf if window.max_replicas is None else window.max_replicas):
        return f"scaling.windows: {window.hours}: {window.min_replicas} to {window.max_replicas} is not a range"
    if window.max_replicas == 0:
        return f"scaling.windows: {window.hours}: a job that runs has a replica"
    return ""


def first(policy: ScalingPolicy, asked: tuple[int, int]) -> Scaled:
    """Before anything is known: only what is measured lets it grow."""
    return Scaled(asked, asked[0] if policy.measures else asked[1])


def asks(before: Scaled, policy: ScalingPolicy, asked: tuple[int, int]) -> Scaled:
    """The same for a job that asks for something else."""
    size = min(max(before.size, asked[0]), asked[1]) if policy.measures else asked[1]
    return replace(before, asked=asked, size=size)


def decided(policy: ScalingPolicy, before: Scaled, facts: Facts, now: float) -> Decision:
    """The bounds of a job now, with their reason."""
    least, most, opened = in_windows(policy, before.asked, now)
    size = min(max(before.size, least), most)
    wanted, reason, text = _wanted(policy, facts, size, least, most)
    cools = before.at is not None and now - before.at < policy.cool_down_seconds
    if wanted != size and not cools:
        text = f"{text}: at most {wanted}"
        return Decision(least, wanted, replace(before, size=wanted, at=now, reason=reason, text=text))
    if policy.windows:
        reason, text = "TimeWindow", f"open: {opened}" if opened else "no window is open"
    text = f"{text}: {f'at least {least}, ' if least > before.asked[0] else ''}at most {size}"
    return Decision(least, size, replace(before, reason=reason, text=text))


def in_windows(policy: ScalingPolicy, asked: tuple[int, int], now: float) -> tuple[int, int, str]:
    """(fewest, most, the open windows in words). Of several that are open, each counts; where they leave no range, the
    smallest maximum does. A job never has fewer or more than it asks for."""
    least, most = asked
    opened = [window for window in policy.windows if window.is_open(now)]
    for window in opened:
        least = max(least, window.min_replicas)
        most = most if window.max_replicas is None else min(most, window.max_replicas)
    most = max(most, asked[0])
    return min(least, most), most, "; ".join(window.hours for window in opened)


def _wanted(policy: ScalingPolicy, facts: Facts, size: int, least: int, most: int) -> tuple[int, Why, str]:
    """The size that queue and utilization say together."""
    found = [*_by_queue(policy.queue, facts, size, least, most), *_by_use(policy.utilization, facts, size)]
    if not found:
        return most, "", ""
    wanted, reason, text = min(found, key=lambda one: one[0])
    return min(max(wanted, least), most), reason, text


def _by_queue(rule: QueueRule | None, facts: Facts, size: int, least: int, most: int) -> Iterator[tuple[int, Why, str]]:
    if rule is None:
        return
    text = f"{counted(facts.waiting, 'job')} of its queue waited {format_duration(rule.after_seconds)} or longer"
    if facts.waiting >= rule.shrink_at:
        yield least, "QueueDepth", f"{text}, and {rule.shrink_at} or more make it small"
    elif facts.waiting < rule.grow_below:
        yield most, "QueueDepth", f"{text}, and fewer than {rule.grow_below} let it grow"
    else:
        yield size if facts.held is None else min(facts.held, size), "QueueDepth", f"{text}: it keeps its size"


def _by_use(rule: UseRule | None, facts: Facts, size: int) -> Iterator[tuple[int, Why, str]]:
    """A share of the devices that would bring what was used to the middle of what is fine."""
    if rule is None:
        return
    if isinstance(facts.use, str) or facts.held is None:
        yield size, "Utilization", "its utilization is not known"
        return
    used, held = facts.use.value, facts.held
    text = f"utilization {used:.0%} over {format_duration(rule.window_seconds)} with {counted(held, 'replica')}"
    needed = math.ceil(round(held * used / rule.target, 6))
    if used < rule.shrink_below:
        yield min(held, needed), "Utilization", f"{text} is below {rule.shrink_below:.0%}"
    elif used > rule.grow_above:
        yield needed, "Utilization", f"{text} is above {rule.grow_above:.0%}"
    else:
        yield min(held, size), "Utilization", f"{text} is fine"


def unknown(policy: ScalingPolicy, facts: Facts) -> str:
    """What a policy waits for to be known; '' if nothing."""
    if policy.utilization is not None and facts.held is not None and isinstance(facts.use, str) and facts.use:
        return f"its utilization is not known, and changes nothing: {facts.use}"
    return ""
