"""What is known of this moment: the newest facts up to an instant, however they lie around it."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import pyarrow as pa

from billing.insights.now.held import LATE, Moment, moment
from tests.billing.hand_ledger import at, close
from tests.draws import drawn_seed
from warehouse.store import Store

NOON = at("2026-10-25 12:00:00")
DAY, HOUR, MS = timedelta(days=1), timedelta(hours=1), timedelta(milliseconds=1)


def test_a_moment_is_stopped_or_unmetered_a_quarter_of_an_hour_after_the_last_fact() -> None:
    assert timedelta(minutes=15) == LATE

    def stands(facts: timedelta, samples: timedelta | None) -> tuple[bool, bool]:
        """How long before the clock the newest fact came, and the newest sample before that."""
        found = Moment(NOON, NOON - facts, None if samples is None else NOON - facts - samples, None)
        assert found.after == NOON - facts + MS
        return found.stopped, found.unmetered

    assert stands(LATE, timedelta()) == stands(timedelta(), LATE) == (False, False)
    assert stands(LATE + MS, LATE + MS) == stands(LATE + MS, None) == (True, False)
    assert stands(LATE, LATE + MS) == stands(timedelta(), None) == (False, True)


def test_the_newest_facts_of_a_moment_are_those_within_a_day_before_what_is_known_of_it(books: Store) -> None:
    """Nothing that is later than the clock; and no fact without an hour or an evaluation is too old."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"moment {seed}")
    assert moment(books, NOON) is None
    facts: dict[str, list[datetime]] = {"samples": [], "events": [], "devices": [], "alert_runs": []}
    hours: list[datetime] = []
    for turn in range(3):
        if turn:
            hours.append((NOON - dice.randint(-3, 40) * HOUR).replace(minute=0))
            close(books, hours[-1:])
        about = [NOON, NOON - DAY, NOON - 3 * DAY, *(one + HOUR - DAY for one in hours)]
        about += [one - DAY for one in facts["alert_runs"]]
        for table, known in facts.items():
            new = [dice.choice(about) + dice.choice([-1, 0, 1, 60_000, -3_600_000]) * MS
                   for _ in range(dice.randint(0 if turn < 2 else 1, 2))]  # fmt: skip
            times = pa.array(new, pa.timestamp("ms", "UTC"))
            runs = pa.array(range(10 * turn, 10 * turn + len(new)), pa.uint64())
            if new:
                row = {"evaluated_until": times, "run": runs} if table == "alert_runs" else {"ts": times}
                books.insert(table, pa.table(row))
            known += new
        clocks = [NOON, *(one for of in facts.values() for one in of)]
        for clock in [NOON + HOUR, *dice.sample(clocks, min(4, len(clocks)))]:
            check(books, clock, facts, hours)


def check(books: Store, clock: datetime, facts: dict[str, list[datetime]], hours: list[datetime]) -> None:
    closed = max((one + HOUR for one in hours if one < clock), default=None)
    evaluated = max((one for one in facts["alert_runs"] if one <= clock), default=None)
    known = [one for one in (closed, evaluated) if one]
    since = max(known) - DAY if known else at("1970-01-01 00:00")
    newest = {name: max((one for one in facts[name] if since < one <= clock), default=None)
              for name in ("samples", "events", "devices")}  # fmt: skip
    found, last = moment(books, clock), [one for one in (*newest.values(), evaluated) if one]
    assert found == (Moment(clock, max(last), newest["samples"], closed) if last else None)
