"""Durations as Prometheus writes them: `90s`, `15m`, `1h30m`, `2d`; in seconds here."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated

from pydantic import BeforeValidator

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_WHOLE = re.compile(r"(?:\d+[wdhms])+")
_PART = re.compile(r"(\d+)([wdhms])")


def parse_duration(value: object) -> object:
    """Seconds of a text like `1h30m`; a number is seconds already. Errors: ValueError saying what fits."""
    if isinstance(value, str):
        if not _WHOLE.fullmatch(value):
            raise ValueError("a duration like 90s, 15m, 1h30m or 2d fits")
        return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(value))
    return value


def is_duration(value: object) -> bool:
    return isinstance(value, str) and _WHOLE.fullmatch(value) is not None


def say_duration(seconds: float) -> str:
    """The two greatest units that it has: `2h30m`, `1d`, `45s`."""
    left, parts = round(seconds), []
    for unit, size in _UNITS.items():
        if left >= size and unit != "w":
            parts.append(f"{left // size}{unit}")
            left %= size
    return "".join(parts[:2]) or "0s"


Seconds = Annotated[int, BeforeValidator(parse_duration)]
"""A duration of a file, as whole seconds."""


def span(seconds: float) -> timedelta:
    return timedelta(seconds=seconds)
