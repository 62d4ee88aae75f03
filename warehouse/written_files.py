"""Reading what people write in YAML, with errors that name the key, what was found there and what fits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from warehouse.errors import LedgerError
from warehouse.yaml_text import parse_yaml


def read_yaml(path: Path | str, what: str, hint: str, error: type[LedgerError]) -> dict[str, Any]:
    """The keys and values of a file that is `what`, such as "a rate card"; `hint` says which keys it has.

    Errors: `error`, in one line.
    """
    where = str(path)
    try:
        content = parse_yaml(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as mistake:
        raise error(where, "not YAML: " + " ".join(str(mistake).split()), "Check indentation and quotes") from mistake
    except IsADirectoryError as mistake:
        raise error(where, f"a folder, not {what}") from mistake
    except OSError as mistake:
        raise error(where, f"cannot be read: {mistake.strerror}", hint) from mistake
    if not isinstance(content, dict):
        raise error(where, f"not {what}", hint)
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
        if isinstance(step, str) and step.startswith(_SHAPES):
            continue
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
    found = "" if isinstance(first["input"], dict | list | tuple) else f"found {first['input']!r}; "
    if first["type"] == "extra_forbidden":
        known = ", ".join(_known_keys(first["loc"], whole, parts))
        return error(f"{where}: {key}", f"unknown key, or one that is not implemented yet; known here: {known}")
    say = _SAY.get(first["type"])
    what = say(first) if say else found + first["msg"].removeprefix("Value error, ")
    return error(f"{where}: {key}" if key else where, what)


_SHAPES = ("constrained-int", "tuple[", "literal[")
"""What a location says of the shape that was tried, where several fit."""
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
