"""Samples that come late, twice or before their neighbours: the books are those of all, whatever was closed before."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

from billing.close import close
from tests.billing.test_close import HOUR, at, device, event, put
from tests.draws import keep_seed, seldom
from warehouse.store import Store

HOURS = 5
PUSHES = 5
Said = tuple[int, int, float]
"""When a sample ends, its interval, both in ms of the day, and its utilization."""


def hand_hours(samples: Iterable[Said]) -> list[tuple[float, float]]:
    """Used and unmetered ms of each hour of a device held all the time. A sample covers from the later of its
    interval's begin and the sample before; of several that end together the highest counts, of these the longest."""
    best: dict[int, tuple[float, int]] = {}
    for end, interval, rate in samples:
        best[end] = max(best.get(end, (0.0, 0)), (rate, interval))
    ends = [0, *sorted(best)]
    covers = [(max(before, end - best[end][1]), end, best[end][0]) for before, end in pairwise(ends)]
    found = []
    for hour in range(HOURS):
        inside = [(max(0, min(end, (hour + 1) * HOUR) - max(begin, hour * HOUR)), rate) for begin, end, rate in covers]
        found.append((sum(length * rate for length, rate in inside), HOUR - sum(length for length, _ in inside)))
    return found


def a_history(chance: random.Random) -> list[list[Said]]:
    """Pushes of one or two samples, near the hours' ends more often than not, some at an instant that is known."""
    known: list[int] = []
    pushes = []
    for _ in range(PUSHES):
        push = []
        for _ in range(chance.choice([1, 1, 2])):
            near = chance.randrange(1, HOURS) * HOUR + chance.choice([-1, 0, 1, 600_000, 1_800_000, -1_200_000])
            end = chance.choice([near, near, chance.randrange(1000, HOURS * HOUR, 1000), *known[-2:]])
            known.append(end)
            push.append((end, chance.choice([1000, 60_000, 1_800_000, HOUR]), chance.choice([0.25, 0.5, 1.0])))
        pushes.append(push)
    return pushes


CUT = [[(HOUR + 1_800_000, HOUR, 1.0)], [(HOUR + 600_000, 60_000, 0.5)]]
REPLACED = [[(HOUR + 1_800_000, HOUR, 0.5)], [(HOUR + 1_800_000, 1_800_000, 1.0)]]


@seldom(6, "the books are those of all samples")
def test_the_books_are_those_of_all_samples_whatever_was_closed_before(store: Store) -> None:
    """Each history is of a device and of hours of its own, so that none reopens what another one should."""
    chance = random.Random(keep_seed())
    histories = [CUT, REPLACED, a_history(chance), a_history(chance)]
    begins = [n * (HOURS + 1) for n in range(len(histories))]
    put(store, "devices", [device(f"d{n}", hour=begin) for n, begin in enumerate(begins)])
    put(store, "events", [event(begin, f"a{n}", "started", device_id=f"d{n}") for n, begin in enumerate(begins)])
    said: list[list[Said]] = [[] for _ in histories]
    for batch in range(PUSHES):
        rows = []
        for n, (history, begin) in enumerate(zip(histories, begins, strict=True)):
            push = history[batch] if batch < len(history) else []
            said[n] += push
            rows += [
                {
                    "ts": begin + end / HOUR,
                    "interval_seconds": interval / 1000,
                    "device_id": f"d{n}",
                    "state": "ok",
                    "utilization": rate,
                }
                for end, interval, rate in push
            ]
        put(store, "samples", rows, batch + 2)
        close(store, at(begins[-1] + HOURS))
        for n, begin in enumerate(begins):
            booked = store.rows(
                "SELECT toFloat64(sum(used_unit_ms)) AS used, toFloat64(sum(unmetered_unit_ms)) AS unmetered "
                "FROM ledger WHERE device_id = {device:String} AND hour >= {start:DateTime64(3, 'UTC')} "
                "AND hour < {end:DateTime64(3, 'UTC')} GROUP BY hour ORDER BY hour",
                {"device": f"d{n}", "start": at(begin), "end": at(begin + HOURS)},
            )
            assert [(row["used"], row["unmetered"]) for row in booked] == hand_hours(said[n]), said[n]
