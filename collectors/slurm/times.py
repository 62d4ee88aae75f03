"""Slurm's times and durations.

Slurm prints times as the wall clock shows them where the command runs, without a zone; the zone is the reader's to
say. A wall clock shows an hour twice in autumn, and skips one in spring.

Source: https://slurm.schedmd.com/sacct.html (Start, End, Elapsed, Timelimit), SLURM_TIME_FORMAT
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import product

UNKNOWN = frozenset({"", "unknown", "none", "n/a", "(null)", "null", "invalid"})
NO_LIMIT = frozenset({"unlimited", "partition_limit", "not_set", "infinite"})
_EPOCH = re.compile(r"[0-9]{1,11}")
_CLOCK = re.compile(r"(?:(?P<days>[0-9]{1,6})-)?(?P<clock>[0-9]{1,6}(?::[0-9]{1,2}){0,2})(?:\.[0-9]+)?")


def instants(text: str, zone: tzinfo) -> tuple[datetime, ...]:
    """The instants in UTC that a time can mean: none where Slurm does not know, two in the hour shown twice.

    Seconds since 1970 (SLURM_TIME_FORMAT=%s) and times with an offset are unambiguous.
    Errors: ValueError if it is no time, or one that the zone skips (so the zone is not the site's).
    """
    text = text.strip()
    if text.lower() in UNKNOWN:
        return ()
    if _EPOCH.fullmatch(text):
        return (datetime.fromtimestamp(int(text), UTC),) if int(text) else ()
    try:
        reported = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text[:40]!r} is no time") from None
    try:
        if reported.tzinfo is not None:
            return (reported.astimezone(UTC),)
        first, second = (reported.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    except OverflowError:
        raise ValueError(f"{text[:40]!r} is no time") from None
    if first == second:
        return (first,)
    if first > second:
        raise ValueError(f"{text} does not exist in {zone}: is that the zone in which it was printed?")
    return first, second


def seconds(text: str) -> int | None:
    """Of a duration such as 1-02:03:04, 02:03:04 or 03:04 (minutes first, as sacct prints it); None: unknown or none.

    Errors: ValueError if it is no duration.
    """
    text = text.strip()
    if text.lower() in UNKNOWN or text.lower() in NO_LIMIT:
        return None
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is no duration")
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:  # 1-02, 1-02:03: hours first
        parts += [0] * (3 - len(parts))
    total = 0
    for part in parts:
        total = total * 60 + part
    return total + 86_400 * int(match["days"] or 0)


def most_likely(
    submitted: Iterable[datetime], started: Iterable[datetime], ended: Iterable[datetime], took: timedelta | None
) -> tuple[datetime | None, datetime | None, datetime | None, bool]:
    """Submission, start and end of a job, of the instants that each can mean, and whether they remain a guess.

    took: from start to end, where Slurm counted it. Of those that fit the order and the count, the earliest.
    """
    choices = list(product(*(tuple(reported) or (None,) for reported in (submitted, started, ended))))
    fitting = [choice for choice in choices if _in_order(choice)]
    counted = [
        choice for choice in fitting if took is not None and choice[1] and choice[2] and choice[2] - choice[1] == took
    ]
    best = counted or fitting or choices
    submit, start, end = best[0]
    return submit, start, end, len(best) > 1


def _in_order(choice: tuple[datetime | None, ...]) -> bool:
    known = [at for at in choice if at is not None]
    return known == sorted(known)
