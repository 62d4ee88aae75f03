"""Samples that come late, twice or before their neighbours: the books are those of all, whatever was closed before."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest

from billing.close import close
from tests.billing.test_close import HOUR, at, device, event, put
from warehouse.store import Store

HOURS = 5
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


def a_history(seed: int) -> list[list[Said]]:
    """Pushes of one or two samples, near the hours' ends more often than not, some at an instant that is known."""
    chance = random.Random(seed)
    known: list[int] = []
    pushes = []
    for _ in range(8):
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


@pytest.mark.parametrize("pushes", [CUT, REPLACED, None], ids=["cut", "replaced", "random"])
def test_the_books_are_those_of_all_samples_whatever_was_closed_before(
    store: Store, pushes: list[list[Said]] | None
) -> None:
    if pushes is None:
        seed = random.SystemRandom().randrange(1_000_000)
        print(f"seed {seed}")
        pushes = a_history(seed)
    put(store, "devices", [device("d")])
    put(store, "events", [event(0, "a", "started", device_id="d")])
    said: list[Said] = []
    for batch, push in enumerate(pushes, start=2):
        rows = [
            {
                "ts": end / HOUR,
                "interval_seconds": interval / 1000,
                "device_id": "d",
                "state": "ok",
                "utilization": rate,
            }
            for end, interval, rate in push
        ]
        put(store, "samples", rows, batch)
        said += push
        close(store, at(HOURS))
        booked = store.rows(
            "SELECT hour, toFloat64(sum(used_unit_ms)) AS used, toFloat64(sum(unmetered_unit_ms)) AS unmetered "
            "FROM ledger WHERE tenant = 't' GROUP BY hour ORDER BY hour"
        )
        assert [(row["used"], row["unmetered"]) for row in booked] == hand_hours(said), said
