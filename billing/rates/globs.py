"""Globs as rate cards use them: the shell's `*`, `?` and `[...]`, case-sensitive, over the whole text."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

_TOKEN = re.compile(r"\*+|\?|\[!?+\]?+[^\]]*\]|.", re.S)


def is_glob(pattern: str) -> bool:
    """Whether the pattern can match anything but itself."""
    return any(character in pattern for character in "*?[")


@functools.lru_cache(4096)
def ends(pattern: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What stands before the first `*`, and after the last one in reverse, a token for each character of a text: at
    so many characters from its start, or its end, it must match that token. Without a `*` both are the whole."""
    tokens = _tokens(pattern)
    return tuple(itertools.takewhile(_is_one, tokens)), tuple(itertools.takewhile(_is_one, reversed(tokens)))


def spelled_out(tokens: Sequence[str], skipped: int) -> str:
    """After so many characters, those that tokens of `ends` spell out, up to the first that can match several."""
    return "".join(itertools.takewhile(_is_literal, tokens[skipped:]))


def after_wildcards(tokens: Sequence[str]) -> list[int]:
    """After how many characters such tokens spell some out: at the start, or behind one that can match several."""
    literal = [_is_literal(token) for token in tokens]
    return [n for n, is_literal in enumerate(literal) if is_literal and not (n and literal[n - 1])]


def can_overlap(left: str, right: str) -> bool:
    """Whether some text could match both patterns.

    Never says no where such a text exists; may say yes where two character classes share no character.
    """
    if not is_glob(left):
        return fnmatchcase(left, right)
    if not is_glob(right):
        return fnmatchcase(right, left)
    ours, theirs = _tokens(left), _tokens(right)
    if "*" not in ours:
        return _could_be(ours, theirs)
    if "*" not in theirs:
        return _could_be(theirs, ours)
    # Between its ends, each has a `*` that matches all that the other asks for there.
    return all(all(map(_share_a_character, one, other)) for one, other in zip(ends(left), ends(right), strict=True))


def _could_be(each: Sequence[str], tokens: Sequence[str]) -> bool:
    """Whether a text, of which each token matches one character, could match these tokens."""
    places = _past_stars({0}, tokens)
    for one in each:
        on = {place for place in places if tokens[place : place + 1] == ["*"]}
        on |= {n + 1 for n in places - on if n < len(tokens) and _share_a_character(one, tokens[n])}
        places = _past_stars(on, tokens)
    return len(tokens) in places


def _past_stars(places: set[int], tokens: Sequence[str]) -> set[int]:
    """Stars stand alone: two in a row are one token."""
    return places | {place + 1 for place in places if tokens[place : place + 1] == ["*"]}


def _is_one(piece: str) -> bool:
    return piece != "*"


def _is_literal(piece: str) -> bool:
    return len(piece) == 1 and piece != "?"


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


def _expression(piece: str) -> str:
    if piece == "*":
        return ".*"
    if piece == "?":
        return "."
    if len(piece) > 1:
        return _class(piece[1:-1])
    return _literal(piece)


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
