"""Durations in Prometheus's notation: `90s`, `15m`, `1h30m`, `2d`, also `1.5h`; in seconds here."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_PART = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([wdhms])")
_WHOLE = re.compile(rf"(?:{_PART.pattern})+")


def seconds_of(text: str) -> int | float:
    """Of a text like `1h30m`. Errors: ValueError saying what fits."""
    if not _WHOLE.fullmatch(text):
        raise ValueError("expected a duration like 90s, 15m, 1h30m or 2d")
    found = sum((Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text)), Decimal(0))
    return int(found) if found == int(found) else float(found)


def parse_duration(value: object) -> object:
    """Seconds of a text; a number means seconds. Errors: as `seconds_of`."""
    if isinstance(value, bool):
        raise ValueError("expected a duration like 90s, 15m, 1h30m or 2d")
    return seconds_of(value) if isinstance(value, str) else value


def is_duration(value: object) -> bool:
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None


def parse_if_duration(value: Any) -> Any:
    """Seconds of a text that is a duration; anything else unchanged."""
    return parse_duration(value) if is_duration(value) else value


_SPELLED = {
    "en": {"d": "d", "h": "h", "m": "min", "s": "s"},
    "zh": {"d": "天", "h": "小时", "m": "分钟", "s": "秒"},
}
_MINUTES = 600
"""From this many seconds on, people are told no seconds."""


def format_duration(seconds: float) -> str:
    """In the notation of files, in the two largest units: `2h30m`, `2h` (and 41 s), `1d`, `45s`."""
    return "".join(f"{count}{unit}" for count, unit in _largest(round(seconds)))


def spelled_duration(seconds: float, language: str = "en") -> str:
    """For people, as pages write units: `2 h 30 min`, `36 min` (and not 35 min 57 s), `45 s`; in Chinese
    `2 小时 30 分钟`. No line ends between a number and its unit."""
    whole = round(seconds if seconds < _MINUTES else 60 * round(seconds / 60))
    return " ".join(f"{count}\u00a0{_SPELLED[language][unit]}" for count, unit in _largest(whole))


def _largest(seconds: int) -> list[tuple[int, str]]:
    """The two largest units, without what is zero."""
    counts = _counts(seconds)
    first = next((number for number, (count, _) in enumerate(counts) if count), len(counts) - 1)
    return [(count, unit) for count, unit in counts[first : first + 2] if count] or [(0, "s")]


def write_duration(seconds: int) -> str:
    """For files, exact to the second: `1h1s`."""
    return "".join(f"{count}{unit}" for count, unit in _counts(seconds) if count) or "0s"


def _counts(seconds: int) -> list[tuple[int, str]]:
    found = []
    for unit, size in _UNITS.items():
        if unit != "w":
            found.append((seconds // size, unit))
            seconds %= size
    return found


Seconds = Annotated[int, BeforeValidator(parse_duration)]
"""A duration of a file, as whole seconds."""


def span(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)
