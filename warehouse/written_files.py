"""Reads YAML files that people write; errors name the file, the key, the value found there and what would fit."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, BaseModel, ValidationError
from pydantic.fields import FieldInfo

from warehouse.errors import LedgerError
from warehouse.named_files import read_named
from warehouse.yaml_text import DuplicateKeyError, LineOf, YamlError, parse_with_lines

SHOWN = 80
"""Characters of what was found that an error repeats."""


class Written(dict[str, Any]):
    """Keys and values, as somebody wrote them.   line_of: in which line of the text, by the keys that lead there."""

    def __init__(self, content: Mapping[str, Any], line_of: LineOf) -> None:
        super().__init__(content)
        self.line_of = line_of


def read_yaml(path: Path | str, what: str, hint: str, error: type[LedgerError]) -> dict[str, Any]:
    """The keys and values of a file that is `what`, such as "a rate card"; `hint` says which keys it has.

    Errors: `error`, in one line.
    """
    return keys_of(read_written(path, what, hint, error), str(path), what, hint, error)


def read_written(path: Path | str, what: str, hint: str, error: type[LedgerError]) -> str:
    """The text of a file that is `what`. Errors: `error`, in one line."""
    where = str(path)
    try:
        return str(read_named(path), encoding="utf-8")
    except UnicodeDecodeError as mistake:
        raise error(where, "not UTF-8 text", "Save it as UTF-8") from mistake
    except IsADirectoryError as mistake:
        raise error(where, f"a folder, not {what}") from mistake
    except OSError as mistake:
        step = f"Check the path from {Path.cwd()}" if isinstance(mistake, FileNotFoundError) else hint
        raise error(where, f"cannot be read: {mistake.strerror}", step) from mistake


def keys_of(text: str, where: str, what: str, hint: str, error: type[LedgerError]) -> dict[str, Any]:
    """The keys and values of a text of YAML or JSON. Errors: `error`, in one line that names the line."""
    try:
        content, line_of = parse_with_lines(text)
    except YamlError as mistake:
        place = where if mistake.line is None else f"{where}, line {mistake.line}"
        if isinstance(mistake, DuplicateKeyError):
            raise error(place, mistake.what, "Remove or rename one of the two") from mistake
        raise error(place, f"not YAML: {_cut(mistake.what)}", "Check indentation and quotes") from mistake
    if not isinstance(content, dict):
        raise error(where, f"not {what}", hint)
    for key, value in _texts(content, "", set()):
        if found := _CONTROL.search(value):
            what = f"found {_cut(repr(value))}; {found[0]!r} is a control character"
            raise error(place_of(where, _steps(key), Written(content, line_of)), what, "Leave it out")
    return Written(content, line_of)


def place_of(where: str, steps: Sequence[int | str], content: object) -> str:
    """`rates.yaml, line 14: rates[2].sku`; without a line where the content is of no text."""
    key = ""
    for step in steps:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if key else str(step)
    if not key:
        return where
    return f"{in_line(where, steps, content)}: {key}"


def in_line(where: str, steps: Sequence[int | str], content: object) -> str:
    """`rates.yaml, line 14`."""
    return f"{where}, line {content.line_of(steps)}" if isinstance(content, Written) else where


def _steps(key: str) -> list[int | str]:
    """Of a key as `place_of` writes it."""
    return [int(step[1:-1]) if step.startswith("[") else step for step in re.findall(r"\[\d+\]|[^.\[]+", key)]


_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""But for ends of lines and tabs. The last ones turn the direction of text: what is read is not what is there."""


def _texts(content: Any, key: str, seen: set[int]) -> Iterator[tuple[str, str]]:
    """Every text, keys too, and the key where it is; what stands in several places, or in itself, once."""
    if isinstance(content, str):
        yield key, content
    elif isinstance(content, dict | list) and id(content) not in seen:
        seen.add(id(content))
        parts = content.items() if isinstance(content, dict) else enumerate(content)
        for name, value in parts:
            below = f"{key}[{name}]" if isinstance(content, list) else f"{key}.{name}" if key else str(name)
            if isinstance(name, str):
                yield below, name
            yield from _texts(value, below, seen)


def first_error(
    where: str,
    mistake: ValidationError,
    whole: type[BaseModel],
    error: type[LedgerError],
    next_step: str = "",
    secret: bool = False,
    content: object = None,
) -> LedgerError:
    """The first thing that does not fit `whole`, as one line; of keys, all that are missing or unknown there.

    secret: what was found there is not repeated.   content: what was validated, which knows the lines of its text if it
    was read here.
    """
    first = _most_telling(mistake)
    above = list(first["loc"][:-1])
    if text := _wrong_keys(mistake, first, known_keys(above, whole)):
        return error(place_of(where, above, content), text, next_step)
    location = [step for step in first["loc"] if not (isinstance(step, str) and step.startswith(_SHAPES))]
    place = place_of(where, location, content)
    if first["type"] == "extra_forbidden":
        known = known_keys(location[:-1], whole)
        return error(place, unknown_key(str(location[-1]), known), next_step)
    say = _SAY.get(first["type"])
    hidden = secret or isinstance(first["input"], dict | list | tuple | BaseModel)
    found = "" if hidden else f"found {_cut(repr(first['input']))}; "
    return error(place, found + (say or first["msg"].removeprefix("Value error, ")), next_step)


def unknown_key(key: str, known: Sequence[str]) -> str:
    """The message about a key that nothing reads."""
    near = get_close_matches(key, known, 1)
    meant = f"; did you mean {near[0]}?" if near else ";"
    return f"unknown key{meant} known here: {', '.join(known)}"


def _wrong_keys(mistake: ValidationError, first: Any, known: Sequence[str]) -> str:
    """`missing: currency; unknown: local_users; known here: currency, budgets`: the keys beside the first error's.

    A file of another kind has nothing right, and is told so at once. A missing key that is only misspelt is told once.
    Empty where a single key is wrong, where several shapes could fit, or where the first error is no key's.
    """
    if first["type"] not in _KEYS or any(isinstance(step, str) and step.startswith(_SHAPES) for step in first["loc"]):
        return ""
    beside = [one for one in mistake.errors() if one["type"] in _KEYS and one["loc"][:-1] == first["loc"][:-1]]
    unknown = [str(one["loc"][-1]) for one in beside if one["type"] == "extra_forbidden"]
    meant = {key: near[0] for key in unknown if (near := get_close_matches(key, known, 1))}
    absent = (str(one["loc"][-1]) for one in beside if one["type"] == "missing")
    missing = [key for key in absent if key not in meant.values()]
    if len(missing) + len(unknown) < 2:
        return ""
    guessed = [f"{key} (did you mean {meant[key]}?)" if key in meant else key for key in unknown]
    parts = [f"{what}: {_few(keys)}" for what, keys in (("missing", missing), ("unknown", guessed)) if keys]
    return "; ".join(parts + ([f"known here: {', '.join(known)}"] if unknown else []))


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES:,} more" if len(names) > _NAMES else ""
    return ", ".join(map(_cut, names[:_NAMES])) + more


def _most_telling(mistake: ValidationError) -> Any:
    """The first error; where several shapes could fit, that of the shape that matched furthest. Of a missing key the
    unknown one beside it that is the same, misspelt."""
    errors = mistake.errors()
    first = errors[0]
    if first["type"] == "missing":
        beside = (one for one in errors if one["type"] == "extra_forbidden" and one["loc"][:-1] == first["loc"][:-1])
        return next((one for one in beside if get_close_matches(str(one["loc"][-1]), [str(first["loc"][-1])])), first)
    if not any(isinstance(step, str) and step.startswith(_SHAPES) for step in first["loc"]):
        return first
    rivals = [one for one in errors if one["loc"][0] == first["loc"][0]]
    return max(rivals, key=lambda one: (len(one["loc"]), one["type"] == "too_short"))


_NAMES = 20
"""Keys that a line lists."""
_KEYS = ("missing", "extra_forbidden")
_SHAPES = ("constrained-int", "tuple[", "literal[")
"""Steps of a location that only name the shape that was tried."""
_SAY: Mapping[str, str] = {
    "tuple_type": "expected a list",
    "model_type": "expected keys and values",
    "string_type": "expected text; quote it if it looks like something else",
    "missing": "missing",
    "too_short": "an empty list; expected at least one entry",
}


def known_keys(location: Sequence[int | str], whole: type[BaseModel]) -> list[str]:
    """The keys that fit at a place."""
    here: list[type[BaseModel]] = [whole]
    for step in location:
        if isinstance(step, int):
            continue
        fields = [
            field.annotation
            for model in here
            for name, field in model.model_fields.items()
            if step in (name, field.alias)
        ]
        if fields:
            here = [model for annotation in fields for model in _models(annotation)] or here
        else:  # a key that people choose, or which kind of several it is
            here = [model for model in here if step in _kinds(model)] or here
    fields_here = ((name, field) for model in here for name, field in model.model_fields.items())
    return list(dict.fromkeys(key for name, field in fields_here for key in _keys(name, field)))


def _keys(name: str, field: FieldInfo) -> Iterable[str]:
    """The names that a field may have in a file."""
    if isinstance(field.validation_alias, AliasChoices):
        return [str(choice) for choice in field.validation_alias.choices]
    return [field.alias or name]


def _kinds(model: type[BaseModel]) -> set[Any]:
    """The values of the model's literals, which tell several kinds apart."""
    found = (field.annotation for field in model.model_fields.values())
    return {word for one in found if typing.get_origin(one) is typing.Literal for word in typing.get_args(one)}


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    arguments = typing.get_args(annotation)
    if not arguments and isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in arguments:
        yield from _models(argument)


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
