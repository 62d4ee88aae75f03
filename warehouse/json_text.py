"""Strict JSON for files and requests: no duplicate keys, no NaN or infinity, limited depth."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

_TOKENS = re.compile(r'"(?:[^"\\]++|\\.)*+"|[][{}:]', re.DOTALL)
"""Of valid JSON: its strings, and the marks that say which of them are keys of what."""


def parse_json(text: str | bytes, parse_float: Callable[[str], Any] | None = None) -> Any:
    """Parses strict JSON. Errors: ValueError with a readable message, also for a key that appears twice, for NaN and
    Infinity, and for nesting deeper than the interpreter's stack."""
    try:
        return json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_no_number, parse_float=parse_float)
    except RecursionError:
        raise ValueError("nested too deep") from None
    except _DuplicateKeyError:
        raise ValueError(_second_key(text)) from None


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


def _second_key(text: str | bytes) -> str:
    """Which key an object has twice, and where; JSON's reader cannot say where. Text that is no JSON may follow."""
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    opened: list[dict[str, int]] = []  # where the keys of the objects and lists around are
    string, at = "", 0
    for token in _TOKENS.finditer(text):
        mark = token[0]
        if mark in "{[":
            opened.append({})
        elif mark in "}]":
            opened.pop()
        elif mark != ":":
            string, at = mark, token.start()
        elif (key := json.loads(string)) in opened[-1]:
            first, second = (text.count("\n", 0, end) + 1 for end in (opened[-1][key], at))
            return f"line {second}: the key {key!r} appears twice; its first line is {first}"
        else:
            opened[-1][key] = at
    raise AssertionError("no object has a key twice")
