"""Scaling policies of jobs, drawn, against a reckoning by hand: bounds hold, nothing flaps, unknown changes nothing."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from scheduler.scaling import (
    Facts,
    QueueRule,
    Scaled,
    ScalingPolicy,
    Use,
    UseRule,
    asks,
    decided,
    first,
    problem,
)
from scheduler.windows import Window
from tests.draws import keep_seed
from warehouse.hours import DAYS

BEGIN = datetime(2026, 10, 24, tzinfo=UTC)  # a day before clocks change in Berlin; a week later in New York
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "UTC")
ROUNDS = 300


def policy(dice: random.Random) -> ScalingPolicy:
    grow = dice.randint(1, 4)
    low = dice.choice([0.0, 0.1, 0.3, 0.5])
    windows = tuple(
        Window(
            least := dice.choice([0, 0, 2, 5]),
            dice.choice([None, least + 1, least + 4]) if least else dice.randint(1, 6),
            dice.choice(ZONES),
            tuple(dice.sample(DAYS, dice.randint(1, 7))),
            f"{dice.randint(0, 23):02}:30",
            f"{dice.randint(0, 24):02}:00",
        )
        for _ in range(dice.choice([0, 0, 1, 3]))
    )
    queue = QueueRule(grow, grow + dice.randint(0, 3)) if dice.random() < 0.5 else None
    use = UseRule(low, dice.choice([low + 0.05, 0.7, 1.0])) if dice.random() < 0.6 or not (queue or windows) else None
    return ScalingPolicy(queue, use, windows, dice.choice([60.0, 600.0, 7200.0]))


def bounds_by_hand(of: ScalingPolicy, asked: tuple[int, int], now: datetime) -> tuple[int, int]:
    """Each replica count is judged alone: by what the job asks for, and by the windows within which `now` is."""
    opened = []
    for window in of.windows:
        for back in (0, 1):
            local = now.astimezone(ZoneInfo(window.timezone))
            day = (local - timedelta(days=back)).date() if back else local.date()
            if DAYS[day.weekday()] not in window.days:
                continue
            start, end = (int(text[:2]) * 60 + int(text[3:]) for text in (window.start, window.end))
            minute = local.hour * 60 + local.minute + back * 1440
            if start <= minute < (end if end > start else end + 1440):
                opened.append(window)
    counts = range(asked[0], asked[1] + 1)
    below = [one for one in counts if all(one <= (window.max_replicas or 10_000) for window in opened)]
    most = max(below, default=asked[0])
    least = next((one for one in counts if all(one >= window.min_replicas for window in opened)), asked[1])
    return min(least, most), most


def size_by_hand(of: ScalingPolicy, facts: Facts, size: int, least: int, most: int) -> int:
    """The size that all rules allow."""
    allowed = [most]
    if of.queue is not None:
        if facts.waiting >= of.queue.shrink_at:
            allowed.append(least)
        elif facts.waiting >= of.queue.grow_below:
            allowed.append(min(size, size if facts.held is None else facts.held))
    if of.utilization is not None:
        if facts.held is None or not isinstance(facts.use, Use):
            allowed.append(size)
        else:
            enough = next(n for n in range(10_000) if n * of.utilization.target >= facts.held * facts.use.value - 1e-6)
            if facts.use.value > of.utilization.grow_above:
                allowed.append(enough)
            else:
                falls = facts.use.value < of.utilization.shrink_below
                allowed.append(min(facts.held, enough) if falls else min(facts.held, size))
    return max(least, min(allowed))


def test_sizes_are_what_a_reckoning_says_and_never_change_within_the_cool_down() -> None:
    dice = random.Random(keep_seed())
    seen: dict[str, int] = {}
    for _ in range(ROUNDS):
        of = policy(dice)
        assert problem(of) == ""
        least = dice.randint(1, 3)
        asked = (least, least + dice.randint(0, 6))
        scaled, now, held = first(of, asked), BEGIN + timedelta(minutes=dice.randint(0, 14 * 1440)), None
        changed_at: datetime | None = None
        for _ in range(40):
            now += timedelta(seconds=dice.choice([1, 30, 300, 1800, 7200]))
            if dice.random() < 0.03:
                least = dice.randint(1, 3)
                asked = (least, least + dice.randint(0, 6))
                scaled = asks(scaled, of, asked)
            use = Use(dice.choice([0.0, 0.05, 0.2, 0.4, 0.8, 1.0])) if dice.random() < 0.6 else "unknown"
            facts = Facts(held, dice.choice([0, 0, 1, 2, 5]), use)
            before = min(max(scaled.size, (hand := bounds_by_hand(of, asked, now))[0]), hand[1])
            found = decided(of, scaled, facts, now.timestamp())
            assert asked[0] <= found.least <= found.most <= asked[1]
            assert (found.least, max(found.most, hand[1])) == (hand[0], hand[1])
            wanted = size_by_hand(of, facts, before, *hand)
            cools = changed_at is not None and (now - changed_at).total_seconds() < of.cool_down_seconds
            assert found.most == (before if cools else wanted), (of, scaled, facts)
            if found.scaled.at != scaled.at:
                assert not cools
                assert of.measures
                assert found.scaled.reason in ("QueueDepth", "Utilization")
                changed_at = now
                seen[found.scaled.reason] = seen.get(found.scaled.reason, 0) + 1
            elif of.measures:
                assert found.scaled.size == scaled.size
            only_use = of.queue is None and of.utilization is not None
            if only_use and not isinstance(use, Use):
                assert found.scaled.at == scaled.at, "unknown changes nothing"
            scaled = found.scaled
            held = dice.choice([None, dice.randint(found.least, found.most), found.most])
    assert min(seen.get(rule, 0) for rule in ("QueueDepth", "Utilization")) > 20, seen


def test_a_steady_load_comes_to_rest() -> None:
    """Work that is shared equally by all replicas, whatever their number, changes a size once, and never back."""
    dice = random.Random(keep_seed())
    for _ in range(200):
        low = dice.uniform(0, 0.6)
        of = ScalingPolicy(utilization=UseRule(low, dice.uniform(low + 0.01, 1.0)), cool_down_seconds=60.0)
        scaled, held, load, sizes, now = Scaled((1, 20), 20), dice.randint(1, 20), dice.uniform(0, 20), [], 0.0
        for _ in range(12):
            now += 3600
            scaled = decided(of, scaled, Facts(held, 0, Use(min(1.0, load / held))), now).scaled
            held = scaled.size
            sizes.append(held)
        climbs = [after > before for before, after in pairwise(sizes) if after != before]
        assert len(set(climbs)) <= 1, sizes
        assert sizes[-1] == sizes[-2], sizes
