"""Strict JSON for files and requests: no duplicate keys, no NaN or infinity, limited depth."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from warehouse.yaml_text import DuplicateKeyError, YamlError, parse_yaml


def parse_json(text: str | bytes, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Parses strict JSON. Errors: ValueError with a readable message, also for a key that appears twice, for NaN and
    Infinity, and for nesting deeper than the interpreter's stack."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_number, parse_float=parse_float)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except _DuplicateKeyError as duplicate:
        raise ValueError(_with_line(text, str(duplicate))) from None


def keys_surely_unique(text: bytes, keys: int) -> bool:
    """Whether no object in the text can have a key twice, given that `keys` keys were left after parsing. This is a
    quick check: False only means that `duplicate_key` has to look, since space may part a key from its colon."""
    is_apart = b'" ' in text or b"\t" in text or b"\n" in text or b"\r" in text
    return not is_apart and text.count(b'":') == keys


def duplicate_key(text: bytes) -> str | None:
    """A message about a key that an object has twice; None: there is none, or the text is not JSON."""
    try:
        json.loads(text, object_pairs_hook=_unique_keys)
    except _DuplicateKeyError as duplicate:
        return str(duplicate)
    except (ValueError, RecursionError):
        pass
    return None


class _DuplicateKeyError(ValueError):
    pass


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _DuplicateKeyError(f"the key {name!r} appears twice")
            seen.add(name)
    return found


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _with_line(text: str | bytes, what: str) -> str:
    """JSON's reader cannot say where; YAML's can, and JSON is YAML but for corners."""
    try:
        parse_yaml(text if isinstance(text, str) else text.decode("utf-8"))
    except DuplicateKeyError as mistake:
        return str(mistake)
    except (YamlError, UnicodeDecodeError):
        pass
    return what
