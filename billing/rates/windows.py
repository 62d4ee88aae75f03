"""Time-of-use windows: the hours of a week in which a rule holds, as the clock on the wall shows them.

    windows: [{days: [mon, tue, wed, thu, fri], from: "22:00", to: "06:00"}, {days: [sat, sun]}]

A window that ends no later than it starts passes midnight and belongs to the day on which it starts. The wall clock
of the billing zone decides, also on the days on which it is changed: what it shows twice counts twice, what it skips
does not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Annotated, Any, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field, field_validator, model_validator

from billing.rates.policies import Part

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
Span = tuple[datetime, datetime]
"""[start, end)"""


class Window(Part):
    """On each of `days`, from `from` until before `to` (local, to the minute); `to` may be 24:00."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, populate_by_name=True)

    days: Annotated[tuple[Day, ...], Field(strict=False, min_length=1)] = DAYS
    start: Annotated[str, Field(alias="from")] = "00:00"
    end: Annotated[str, Field(alias="to")] = "24:00"

    @field_validator("start", "end", mode="before")
    @classmethod
    def _a_time(cls, value: object) -> str:
        if isinstance(value, int):  # YAML reads 20:00 without quotes as 1200
            raise ValueError(f'write it in quotes, such as "{value // 60:02}:{value % 60:02}"')
        if not isinstance(value, str) or not re.fullmatch(r"([01][0-9]|2[0-3]):[0-5][0-9]|24:00", value):
            raise ValueError('expected a local time such as "08:00"')
        return value

    @field_validator("days")
    @classmethod
    def _in_order(cls, value: tuple[Day, ...]) -> tuple[Day, ...]:
        return tuple(day for day in DAYS if day in value)

    @model_validator(mode="after")
    def _lasts(self) -> Self:
        if self.start == self.end or self.start == "24:00":
            raise ValueError(f'from {self.start} to {self.end} is empty; for whole days leave "from" and "to" out')
        return self

    @property
    def minutes(self) -> tuple[int, int]:
        """[start, end) in minutes since the day's midnight; the end may lie in the next day."""
        start, end = (int(text[:2]) * 60 + int(text[3:]) for text in (self.start, self.end))
        return start, end if end > start else end + DAY_MINUTES


def share_a_time(left: Sequence[Window], right: Sequence[Window]) -> bool:
    """Whether some minute of the week lies in a window of each."""
    return any(a < d and c < b for a, b in _weekly(left) for c, d in _weekly(right))


def _weekly(windows: Sequence[Window]) -> list[tuple[int, int]]:
    """In minutes since Monday's midnight; what passes Sunday's end starts again at zero."""
    week, spans = 7 * DAY_MINUTES, []
    for window in windows:
        start, end = window.minutes
        for day in window.days:
            first = DAYS.index(day) * DAY_MINUTES + start
            last = first + end - start
            spans += [(first, min(last, week)), *([(0, last - week)] if last > week else [])]
    return spans


def window_spans(windows: Sequence[Window], zone: ZoneInfo, start: datetime, end: datetime) -> list[Span]:
    """When the windows hold within [start, end): in order, without overlap, neighbours apart. In UTC."""
    spans: list[Span] = []
    for since, until, offset in _offsets(zone, start, end):
        day = (since + offset).date() - timedelta(days=1)  # one that passes midnight may have begun the day before
        while day <= (until + offset).date():
            midnight = datetime.combine(day, time(), UTC) - offset
            for window in windows:
                if DAYS[day.weekday()] in window.days:
                    first, last = (midnight + timedelta(minutes=minute) for minute in window.minutes)
                    if max(first, since) < min(last, until):
                        spans.append((max(first, since), min(last, until)))
            day += timedelta(days=1)
    return _united(spans)


def _offsets(zone: ZoneInfo, start: datetime, end: datetime) -> list[tuple[datetime, datetime, timedelta]]:
    """The stretches of [start, end) in which the zone is one offset ahead of UTC."""
    stretches: list[tuple[datetime, datetime, timedelta]] = []
    since, at = start, start
    while at < end:
        after = min(at + timedelta(days=1), end)
        if _offset(zone, at) != _offset(zone, after):
            before = at
            while after - before > timedelta(milliseconds=1):
                middle = before + timedelta(milliseconds=(after - before) // timedelta(milliseconds=2))
                before, after = (middle, after) if _offset(zone, middle) == _offset(zone, at) else (before, middle)
            stretches.append((since, after, _offset(zone, at)))
            since = after
        at = after
    return [*stretches, (since, end, _offset(zone, since))] if since < end else stretches


def _offset(zone: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(zone).utcoffset() or timedelta()


def _united(spans: Sequence[Span]) -> list[Span]:
    united: list[Span] = []
    for start, end in sorted(spans):
        if united and start <= united[-1][1]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((start, end))
    return united


def in_words(windows: Sequence[Window]) -> str:
    """Like `mon-fri 08:00-20:00, sat-sun`."""
    return ", ".join(
        " ".join(filter(None, (_days(w.days), "" if w.minutes == (0, DAY_MINUTES) else f"{w.start}-{w.end}")))
        or "always"
        for w in windows
    )


def _days(days: Sequence[Day]) -> str:
    if tuple(days) == DAYS:
        return ""
    first, last = DAYS.index(days[0]), DAYS.index(days[-1])
    return f"{days[0]}-{days[-1]}" if len(days) > 2 and last - first + 1 == len(days) else "+".join(days)


def window_json(windows: Sequence[Window]) -> list[dict[str, Any]]:
    """As the card writes them, for programs."""
    return [window.model_dump(mode="json", by_alias=True) for window in windows]
