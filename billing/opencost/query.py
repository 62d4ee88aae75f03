"""Parses OpenCost's parameters.

Days, weeks and months are local to the billing zone, as OpenCost's are to its UTC_OFFSET; weeks start on Sunday.
Source: https://opencost.io/docs/integrations/api and core/pkg/opencost/window.go of opencost/opencost.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from billing.opencost.filters import read_filters
from billing.opencost.words import LABELS, NOT_KNOWN, PROPERTIES, QueryError
from billing.periods import EARLIEST, LATEST, Period, PeriodError, parse_period

MOST_STEPS = 10_000
MOST_WINDOW = timedelta(days=3660)
_SPAN = re.compile(r"([0-9]{1,6})(s|m|h|d|w)")
_OFFSET = re.compile(r"([0-9]{1,6}(?:m|h|d|w)) offset ([0-9]{1,6}(?:m|h|d|w))")
_SECONDS = re.compile(r"(?![0-9]{4}-[0-9]{2}$)([0-9]{1,11})[,-]([0-9]{1,11})")  # 2026-10 is a month
_UNITS = {"s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}
_DAYS = {"d": 1, "w": 7}
_WINDOW_NEXT = "Write it like 1d, 12h, today, lastweek, month, 2026-10 or 2026-10-01T00:00:00Z,2026-10-02T00:00:00Z"
_SHARED_SO = {"sharesplit": ("weighted",)}
"""What is shared at all is shared in proportion to cost."""
_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"", "0", "f", "false"})
UNDERSTOOD = frozenset(
    {"window", "step", "aggregate", "accumulate", "accumulateby", "includeidle", "idle", "idlebynode", "shareidle"}
)
WITHOUT_EFFECT = frozenset(
    {
        "resolution", "offset", "includeaggregatedmetadata", "includeproportionalassetresourcecosts", "sharelb",
        "sharetenancycosts",
    }
)  # fmt: skip
"""Accepted for tools that send them: hours are exact here whatever the resolution, and nothing but GPUs is known."""


@dataclass(frozen=True)
class AllocationQuery:
    """What is asked. `edges`: where the sets of the answer start, and the end of the last; aware.

    by:        dimensions in the order of names; None: every workload on every node by itself.
    wanted:    by dimension the values that match; a dimension without an entry matches all.
    ignored:   parameters that changed nothing.
    """

    edges: tuple[datetime, ...]
    by: tuple[str, ...] | None
    include_idle: bool
    idle_by_node: bool
    share_idle: bool
    wanted: Mapping[str, tuple[str, ...]]
    ignored: tuple[str, ...]

    @property
    def window(self) -> Period:
        return Period(self.edges[0], self.edges[-1])


def parse_query(params: Mapping[str, str], timezone: str, now: datetime) -> AllocationQuery:
    """The query that the parameters ask for; names of parameters are compared without regard to case.

    Errors: QueryError naming the parameter that is of no use, or that would change the figures in a way not known here.
    """
    given = {name.lower(): value.strip() for name, value in params.items()}
    zone = ZoneInfo(timezone)
    if not given.get("window"):
        raise QueryError("window", "is missing", _WINDOW_NEXT)
    window = parse_window(given["window"], timezone, now)
    wanted, filtering = read_filters(given)
    others = set(given) - UNDERSTOOD - WITHOUT_EFFECT - filtering
    for name in sorted(others):
        if name.startswith("share") and given[name].lower() not in {*_FALSE, *_SHARED_SO.get(name, ())}:
            raise QueryError(name, "is not supported: it would move cost between tenants", "Leave it out")
    if given.get("format", "json") not in ("", "json"):
        raise QueryError("format", f"{given['format']!r} is not supported", "Leave it out for JSON")
    accumulate = given.get("accumulateby") or given.get("accumulate", "")
    return AllocationQuery(
        edges=_edges(window, given.get("step", ""), accumulate.lower(), zone),
        by=parse_aggregate(given["aggregate"]) if given.get("aggregate") else None,
        include_idle=_flag(given, "includeidle" if given.get("includeidle") else "idle"),
        idle_by_node=_flag(given, "idlebynode"),
        share_idle=_flag(given, "shareidle"),
        wanted=wanted,
        ignored=tuple(sorted(others - {"format"})),
    )


def parse_aggregate(text: str) -> tuple[str, ...]:
    """The dimensions, each once, in order. What OpenCost knows and the ledger does not stays: its name says so."""
    found = []
    for part in text.split(","):
        name = part.strip()
        lowered = name.lower()
        if lowered in PROPERTIES or lowered in NOT_KNOWN:
            found.append(lowered)
        elif lowered.startswith(("label:", "annotation:")):
            label = lowered.partition(":")[2].strip()
            known = lowered.startswith("label:") and label in LABELS
            found.append(f"label:{label}" if known else f"{NOT_KNOWN[0]}:{label}")
        else:
            choices = ", ".join([*PROPERTIES, *(f"label:{label}" for label in LABELS)])
            raise QueryError("aggregate", f"invalid allocation property: {name!r}", f"Choose from {choices}")
    return tuple(dict.fromkeys(found))


def parse_window(text: str, timezone: str, now: datetime) -> Period:
    """The window that the text names. Errors: QueryError, also for one that is empty or ends before it starts."""
    zone = ZoneInfo(timezone)
    try:
        start, end = (at.astimezone(UTC) for at in _window(text.strip(), timezone, zone, now))
    except (ValueError, OverflowError, PeriodError):
        raise QueryError("window", f"illegal window: {text!r}", _WINDOW_NEXT) from None
    if end <= start:
        raise QueryError("window", f"{text!r} ends before it starts", _WINDOW_NEXT)
    if start < EARLIEST or end > LATEST:
        raise QueryError("window", f"{text!r} is out of range", "Use years from 1900 to 2299")
    if end - start > MOST_WINDOW:
        raise QueryError("window", f"{text!r} is longer than {MOST_WINDOW.days:,} days", "Choose a shorter one")
    return Period(start, end)


def _window(text: str, timezone: str, zone: ZoneInfo, now: datetime) -> tuple[datetime, datetime]:
    today = _midnight(now.astimezone(zone))
    sunday = _later(today, -((today.weekday() + 1) % 7))
    first = today.replace(day=1)
    named = {
        "today": (today, _later(today, 1)),
        "yesterday": (_later(today, -1), today),
        "week": (sunday, now),
        "lastweek": (_later(sunday, -7), sunday),
        "month": (first, now),
        "lastmonth": (_later(first, -1).replace(day=1), first),
    }
    if text.lower() in named:
        return named[text.lower()]
    if _SPAN.fullmatch(text):
        return _last(text, now, today)
    if offset := _OFFSET.fullmatch(text):
        end = _add(now.astimezone(zone), offset[2], -1)
        return _add(end, offset[1], -1), end
    if seconds := _SECONDS.fullmatch(text):
        return datetime.fromtimestamp(int(seconds[1]), UTC), datetime.fromtimestamp(int(seconds[2]), UTC)
    if "," in text:
        start, end = (datetime.fromisoformat(part.strip()) for part in text.split(","))
        return tuple(at if at.tzinfo else at.replace(tzinfo=zone) for at in (start, end))  # type: ignore[return-value]
    period = parse_period(text, timezone)
    return period.start, period.end


def _last(text: str, now: datetime, today: datetime) -> tuple[datetime, datetime]:
    """The last so many units, the present one included and whole."""
    unit = text[-1]
    if unit in _DAYS:
        end = _later(today, 1)
    else:
        span = _UNITS[unit]
        end = now.astimezone(UTC).replace(microsecond=0)
        end += span - (end - datetime(1970, 1, 1, tzinfo=UTC)) % span
    return _add(end, text, -1), end


def _edges(window: Period, step: str, accumulate: str, zone: ZoneInfo) -> tuple[datetime, ...]:
    if accumulate in _TRUE or accumulate == "all":
        return window.start, window.end
    if accumulate in ("hour", "day", "week", "month"):
        return _calendar_edges(window, accumulate, zone)
    if accumulate not in _FALSE and accumulate != "none":
        raise QueryError("accumulate", f"{accumulate!r} is not known", "Choose from true, hour, day, week, month")
    if not step:
        return window.start, window.end
    if not _SPAN.fullmatch(step) or int(step[:-1]) == 0:
        raise QueryError("step", f"{step!r} is not a duration", "Write it like 1h, 1d or 1w")
    return _steps(window, window.start.astimezone(zone), step)


def _calendar_edges(window: Period, unit: str, zone: ZoneInfo) -> tuple[datetime, ...]:
    """Cuts at the hours, midnights, Sundays or firsts of months within the window."""
    if unit == "hour":
        return _steps(window, window.start.replace(minute=0, second=0, microsecond=0), "1h")
    at = _midnight(window.start.astimezone(zone))
    if unit == "month":
        edges = [window.start]
        at = _later(at.replace(day=1), 32).replace(day=1)
        while at < window.end:
            edges.append(at.astimezone(UTC))
            at = _later(at, 32).replace(day=1)
        return (*edges, window.end)
    if unit == "week":
        return _steps(window, _later(at, -((at.weekday() + 1) % 7)), "1w")
    return _steps(window, at, "1d")


def _steps(window: Period, at: datetime, step: str) -> tuple[datetime, ...]:
    edges = [window.start]
    number = 1
    while (edge := _add(at, step, number)) < window.end:
        if edge > window.start:
            edges.append(edge.astimezone(UTC))
        number += 1
        if number > MOST_STEPS:
            raise QueryError(
                "step", f"{step} divides the window into more than {MOST_STEPS:,} sets", "Choose a longer step"
            )
    return (*edges, window.end)


def _add(at: datetime, span: str, times: int) -> datetime:
    """The instant so many spans later; days and weeks go by the local clock."""
    count = int(span[:-1]) * times
    if span[-1] in _DAYS:
        return _later(at, count * _DAYS[span[-1]])
    return (at.astimezone(UTC) + _UNITS[span[-1]] * count).astimezone(at.tzinfo)


def _later(at: datetime, days: int) -> datetime:
    return at + timedelta(days=days)  # on the wall clock, as aware datetimes of one zone add


def _midnight(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)


def _flag(given: Mapping[str, str], name: str) -> bool:
    value = given.get(name, "").lower()
    if value in _TRUE or value in _FALSE:
        return value in _TRUE
    raise QueryError(name, f"{value!r} is neither true nor false", "Write true or false")
