"""Globs as rate cards use them: the shell's `*`, `?` and `[...]`, case-sensitive, over the whole text."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase

_TOKEN = re.compile(r"\*+|\?|\[!?+\]?+[^\]]*\]|.", re.S)


def is_glob(pattern: str) -> bool:
    """Whether the pattern can match anything but itself."""
    return any(character in pattern for character in "*?[")


def literal_start(pattern: str) -> str:
    """What every text that matches begins with, as far as the pattern spells it out."""
    return re.split(r"[*?\[]", pattern, maxsplit=1)[0]


def literal_end(pattern: str) -> str:
    """What every text that matches ends with, as far as the pattern spells it out."""
    return re.split(r"[*?\[\]]", pattern)[-1]


def can_overlap(left: str, right: str) -> bool:
    """Whether some text could match both patterns.

    Never says no where such a text exists; may say yes where two character classes share no character.
    """
    if not is_glob(left):
        return fnmatchcase(left, right)
    if not is_glob(right):
        return fnmatchcase(right, left)
    ours, theirs = _tokens(left), _tokens(right)

    @functools.cache
    def meet(i: int, j: int) -> bool:
        if i == len(ours) and j == len(theirs):
            return True
        if i < len(ours) and ours[i] == "*":
            return meet(i + 1, j) or (j < len(theirs) and meet(i, j + 1))
        if j < len(theirs) and theirs[j] == "*":
            return meet(i, j + 1) or (i < len(ours) and meet(i + 1, j))
        if i == len(ours) or j == len(theirs):
            return False
        return _share_a_character(ours[i], theirs[j]) and meet(i + 1, j + 1)

    return meet(0, 0)


def _tokens(pattern: str) -> list[str]:
    return ["*" if token.startswith("*") else token for token in _TOKEN.findall(pattern)]


def _share_a_character(left: str, right: str) -> bool:
    if len(left) == 1 and left not in "?":
        return fnmatchcase(left, right) or left == right
    if len(right) == 1 and right not in "?":
        return fnmatchcase(right, left)
    return True


def expression(pattern: str) -> str:
    """The glob as a regular expression of the engine (RE2), over the whole text."""
    return r"(?s)\A" + "".join(_expression(token) for token in _tokens(pattern)) + r"\z"


def _expression(token: str) -> str:
    if token == "*":  # noqa: S105 (no password)
        return ".*"
    if token == "?":  # noqa: S105
        return "."
    if len(token) > 1:
        return _class(token[1:-1])
    return _literal(token)


def _class(body: str) -> str:
    """[abc], [a-z], [!a-z]; a range that ends before it starts holds nothing."""
    negated = body.startswith("!")
    body = body.removeprefix("!")
    held, place = "", 0
    while place < len(body):
        first, last, place = body[place], body[place], place + 1
        if body[place : place + 1] == "-" and place + 1 < len(body):
            last, place = body[place + 1], place + 2
        if first <= last:
            held += _literal(first) + ("" if first == last else "-" + _literal(last))
    if not held:
        return "." if negated else r"[^\x{0}-\x{10FFFF}]"
    return f"[{'^' if negated else ''}{held}]"


def _literal(character: str) -> str:
    return character if character.isalnum() or ord(character) > 127 else rf"\x{{{ord(character):x}}}"
