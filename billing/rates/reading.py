"""Reading what people write in YAML: instants, and errors that name the key, what was found there and what fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import yaml
from pydantic import BaseModel, BeforeValidator, ValidationError

from warehouse.errors import LedgerError


def _instant(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("a date or time such as 2026-10-01 or 2026-10-01T00:00:00Z fits") from None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime | None):
        raise ValueError("a date or time such as 2026-10-01 or 2026-10-01T00:00:00Z fits")
    if value is not None and value.microsecond % 1000:
        raise ValueError("the books count whole milliseconds")
    return value


Instant = Annotated[datetime | None, BeforeValidator(_instant)]
"""A date or time in the file's own zone, or with an offset; in UTC once the file is read."""


def utc(at: datetime, zone: ZoneInfo) -> datetime:
    return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)


def before(start: datetime | None, end: datetime | None) -> bool:
    """Whether there is time in [start, end); None = open."""
    return start is None or end is None or start < end


def zone_that_exists(value: str) -> str:
    """Errors: ValueError, saying what fits."""
    try:
        ZoneInfo(value)
    except (OSError, ValueError, KeyError):
        raise ValueError("an IANA time zone such as UTC or Europe/Berlin fits") from None
    return value


def read_yaml(path: Path | str, what: str, keys: str, error: type[LedgerError]) -> dict[str, Any]:
    """The keys and values of a file that is `what`, such as "a rate card"; `keys` are those that it starts with."""
    where = str(path)
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as mistake:
        raise error(where, "not YAML: " + " ".join(str(mistake).split()), "Check indentation and quotes") from mistake
    except IsADirectoryError as mistake:
        raise error(where, f"a folder, not {what}") from mistake
    if not isinstance(content, dict):
        raise error(where, f"not {what}", f"It starts with the keys {keys}")
    return content


def first_error(
    where: str,
    mistake: ValidationError,
    whole: type[BaseModel],
    parts: Mapping[str, Mapping[str, type[BaseModel]]],
    error: type[LedgerError],
) -> LedgerError:
    """The first thing that does not fit, as one line. `parts`: what is written where, by the first and last key."""
    first = mistake.errors()[0]
    key = ""
    for step in first["loc"]:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
    found = "" if isinstance(first["input"], dict | list | tuple) else f"found {first['input']!r}; "
    if first["type"] == "extra_forbidden":
        known = ", ".join(_known_keys(first["loc"], whole, parts))
        return error(f"{where}: {key}", f"unknown key, or one that is not implemented yet; known here: {known}")
    say = _SAY.get(first["type"])
    what = say(first) if say else found + first["msg"].removeprefix("Value error, ")
    return error(f"{where}: {key}" if key else where, what)


_SAY: Mapping[str, Callable[[Any], str]] = {
    "tuple_type": lambda error: f"found {error['input']!r}; a list fits",
    "model_type": lambda error: f"found {error['input']!r}; keys fit",
    "string_type": lambda error: f"found {error['input']!r}; text fits, in quotes if it looks like something else",
    "missing": lambda _: "missing",
}


def _known_keys(
    location: Sequence[int | str], whole: type[BaseModel], parts: Mapping[str, Mapping[str, type[BaseModel]]]
) -> list[str]:
    parents = [step for step in location[:-1] if isinstance(step, str)]
    here = parts.get(parents[0], {}) if parents else {}
    model = here.get(parents[-1], here.get("*", whole)) if parents else whole
    return [field.alias or name for name, field in model.model_fields.items()]
