"""Closed bit by bit, in any order, equals closed at once.

Facts nobody would report like this: events of any kind at any time, most of them at, or a millisecond beside, instants
that matter (an hour's edge, a day before a close, a day after a workload was last seen), and reported at any close from
then on. After each close the books are those of a close that reads everything; at the end, those of a store that got
the same rows in another order and was closed once. test_carried.py has realistic jobs, kills and other mappings.

Each cluster is a history of its own: a store has several, because a close costs more than they do.

    GPULEDGER_ALL=1 GPULEDGER_BITS=0-99 make check PYTEST="-k any_order"  # these seeds
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing.close import close
from tests.billing.facts import put
from tests.billing.whole_close import check_as_whole, closed_books, reads_everything
from tests.draws import dice_of, seeds, seldom
from tests.stores import emptied
from warehouse.store import Store

START = datetime(2026, 3, 27, tzinfo=UTC)
"""Clocks go forward on the 29th, and the month ends in the middle."""
HOUR = 3_600_000
LAST = 5 * 24 * HOUR
AFTER = START + timedelta(days=60)
CLUSTERS = 8
SEEDS = seeds("GPULEDGER_BITS")
BESIDE = (0, 0, 0, 1, -1, 500, 1000, -1000, 1001, HOUR // 2)
NODES = ("n0", "n1")
LATE = ((0,), (0, 0, 0, 1, 2, 9), (0, 1, 2, 3, 9))
"""How many closes later than the first one possible a row may be reported."""
Row = tuple[int, str, dict[str, Any]]
"""The close before which it is reported, its kind, the row."""


def instant(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


class Cluster:
    """A few devices, and allocations that claim them."""

    def __init__(self, dice: random.Random, name: str, closings: Sequence[int]) -> None:
        self.dice, self.name, self.closings, self.rows = dice, name, closings, list[Row]()
        horizons = [at + day for at in closings for day in (0, -24 * HOUR) if at + day >= 0 and dice.random() < 0.5]
        self.instants = [dice.randrange(5 * 24) * HOUR for _ in range(dice.choice((3, 6, 12)))] + horizons
        self.devices = [f"{name}-{n}" for n in range(dice.choice((1, 1, 2, 3)))]
        self.units = {device: dice.choice((1, 1, 2, 4, 7)) for device in self.devices}
        for device in self.devices:
            self.report_device(device)
        names = [f"a{n}" for n in range(dice.choice((2, 3, 4, 6)))]
        for allocation in names:
            self.report_allocation(allocation)
        if dice.random() < 0.4:
            self.report_silence(dice.choice(names))
        if dice.random() < 0.5:
            self.report_rivals()

    def at(self, since: int = 0, until: int = LAST) -> int:
        at = self.dice.choice(self.instants) + self.dice.choice(BESIDE)
        return at if since <= at <= until and self.dice.random() < 0.8 else self.dice.randint(since, max(since, until))

    def report(self, at: int, kind: str, row: dict[str, Any], late: Sequence[int] = LATE[1]) -> None:
        soonest = next(n for n, until in enumerate(self.closings) if at <= until)
        number = min(soonest + self.dice.choice(late), len(self.closings) - 1)
        self.rows.append((number, kind, {"ts": instant(at), "cluster": self.name, **row}))

    def report_device(self, device: str) -> None:
        dice = self.dice
        since = dice.choice((0, 0, 0, self.at()))
        for at in {since, *(self.at(since) for _ in range(dice.choice((0, 0, 0, 1, 2))))}:
            state = "available" if at == since else dice.choice(("available", "unavailable", "removed"))
            units = self.units[device] if dice.random() < 0.6 else dice.choice((1, 2, 4))
            row = {"device_id": device, "node": dice.choice(NODES), "units": units, "state": state}
            self.report(at, "devices", {**row, "model": dice.choice(("H100", "H100", "A30"))}, (0, 0, 0, 1, 9))

    def place(self) -> dict[str, Any]:
        dice = self.dice
        if dice.random() < 0.12:
            return {"node": dice.choice(NODES), "device_id": "", "units": dice.choice((None, None, 1))}
        device = dice.choice(self.devices) if dice.random() < 0.97 else "nobody"
        part = dice.choice(("", "", "", "p1", "p2"))
        return {"device_id": device, "partition_id": part, "units": dice.choice((None, None, 1, 1, 2))}

    def about(self) -> dict[str, Any]:
        dice = self.dice
        gpus, priority = dice.choice((None, None, None, 1.0, 2.0, 0.5)), dice.choice((None, None, 1, 5))
        return {"tenant": dice.choice(("", "phys", "chem")), "gpus": gpus, "priority": priority}

    def report_allocation(self, allocation: str) -> None:
        dice, late = self.dice, self.dice.choice(LATE)
        workload = dice.choice((allocation, allocation, "shared", ""))

        def event(at: int, kind: str, *more: dict[str, Any]) -> None:
            row = {"allocation_id": allocation, "workload_id": workload, "event": kind}
            for one in more:
                row |= one
            self.report(at, "events", row, late)

        if dice.random() < 0.6:
            start = self.at()
            end = self.at(start)
            for _ in range(dice.choice((1, 1, 1, 2))):
                event(start, "started", self.about(), self.place())
            if dice.random() < 0.85:
                event(end, dice.choice(("finished", "failed")), self.about() if dice.random() < 0.3 else {})
            if dice.random() < 0.15:
                event(self.at(0, start), "finished")
            if dice.random() < 0.1:
                event(self.at(end), dice.choice(("finished", "started")), self.place())
        kinds = ("started", "started", "finished", "resized", "suspended", "resumed", "submitted")
        for _ in range(dice.choice((0, 0, 1, 3, 5))):
            kind = dice.choice(kinds)
            is_placed = kind in ("started", "resized") or (kind == "resumed" and dice.random() < 0.3)
            event(self.at(), kind, {**self.about(), **self.place()} if is_placed else {})
        for _ in range(dice.choice((0, 0, 1, 3, 8))):
            row = {"device_id": dice.choice(self.devices), "partition_id": dice.choice(("", "", "p1"))}
            row["workload_id"] = dice.choice((workload, allocation, ""))
            power = dice.choice((None, None, 300.0))
            self.report(self.at(1), "samples", {**row, **self.measured(), "power_watts": power}, late)

    def report_rivals(self) -> None:
        """A gang that holds its devices for long, and on some of them others, one after the other, as if it did not; of
        many the end is never reported, or late."""
        dice = self.dice

        def event(allocation: str, at: int, kind: str, late: Sequence[int], **more: Any) -> None:
            self.report(
                at, "events", {"allocation_id": allocation, "workload_id": allocation, "event": kind, **more}, late
            )

        since = dice.choice((0, self.at(0, LAST // 2)))
        units = dice.choice((None, None, None, 1, 2))
        for device in self.devices:
            event("gang", since, "started", LATE[0], device_id=device, node="n0", tenant="gang", units=units)
        if dice.random() < 0.5:
            event("gang", self.at(LAST // 2), "finished", dice.choice(LATE))
        for device in dice.sample(self.devices, dice.randint(1, len(self.devices))):
            at = since + dice.choice((-HOUR, 0, 1000, HOUR, 20 * HOUR))
            for number in range(dice.choice((1, 2, 4))):
                name, late = f"{device}-{number}", dice.choice(LATE)
                at = max(0, at + dice.choice((0, 1000, HOUR, 30 * HOUR)) // 1000 * 1000)
                end = at + dice.choice((1000, HOUR, 5 * HOUR, 40 * HOUR))
                if end > LAST:
                    break
                event(name, at, "started", late, device_id=device, node="n0", units=dice.choice((units, units, 1)))
                if dice.random() < 0.6:
                    event(name, dice.choice((end, end, end, self.at(end))), "finished", late)
                for _ in range(dice.choice((0, 0, 2))):
                    row = {"device_id": device, "workload_id": dice.choice((name, "gang"))}
                    self.report(self.at(at + 1), "samples", {**row, **self.measured()}, dice.choice(LATE))
                at = end - dice.choice((0, 0, 1000))

    def measured(self) -> dict[str, Any]:
        seconds = self.dice.choice((60.0, 60.0, 1800.0, 3600.0, 0.5))
        state = self.dice.choice(("ok", "ok", "idle", "stale"))
        return {"interval_seconds": seconds, "state": state, "utilization": self.dice.choice((0.5, 1.0, 0.125))}

    def report_silence(self, workload: str) -> None:
        device, at = self.dice.choice(self.devices), self.at(1)
        later = at + 24 * HOUR + self.dice.choice((-1, 0, 1, -1000, 1000))
        for when, of in ((at, workload), (later, "")):
            if when <= LAST:
                self.report(when, "samples", {"device_id": device, "workload_id": of, **self.measured()})


def put_mixed(store: Store, dice: random.Random, rows: Sequence[tuple[str, dict[str, Any]]]) -> None:
    """In any order; sometimes in two batches that have a row in common."""
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for kind, row in dice.sample(rows, len(rows)):
        by_kind[kind].append(row)
    for kind, some in by_kind.items():
        half = len(some) // 2 if len(some) > 2 and dice.random() < 0.3 else len(some)
        put(store, kind, some[:half])
        put(store, kind, some[half - 1 :] if half < len(some) else [])


@seldom(3, "facts in any order")
@pytest.mark.parametrize("seed", SEEDS)
def test_facts_in_any_order_closed_bit_by_bit_are_the_books_of_a_close_at_once(empty: Store, seed: int | None) -> None:
    dice = dice_of(seed)
    store = emptied(empty)
    closings = sorted(dice.choice((dice.randrange(6, 120), 24 * dice.randrange(1, 5))) * HOUR for _ in range(3))
    closings += [LAST] * 2
    rows = [row for n in range(CLUSTERS) for row in Cluster(dice, f"c{n}", closings).rows]
    quick = 0
    for number, until in enumerate(closings):
        put_mixed(store, dice, [(kind, row) for when, kind, row in rows if when == number])
        quick += not reads_everything(store)
        close(store, instant(until), AFTER)
        check_as_whole(store)
        assert store.value("SELECT count() - uniqExact(claim) AS twice FROM allocations") == 0
    assert quick
    bit_by_bit = closed_books(store)
    put_mixed(emptied(store), dice, [(kind, row) for _, kind, row in rows])
    close(store, instant(LAST), AFTER)
    assert closed_books(store) == bit_by_bit
