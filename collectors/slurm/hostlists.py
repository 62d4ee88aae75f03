"""Slurm's way of writing many host names: `gpu[01-03,05],login1` is gpu01, gpu02, gpu03, gpu05 and login1.

Source: https://slurm.schedmd.com/scontrol.html (hostnames)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_HOSTS = 65_536
"""Slurm's own limit of nodes; a longer list is a mistake, or meant to fill memory."""
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def hosts(text: str) -> tuple[str, ...]:
    """The names in the order in which they are written, each once.

    Errors: ValueError if it is no such list.
    """
    names: dict[str, None] = {}
    for word in _words(text.strip()):
        for name in _expanded(word):
            names[name] = None
            if len(names) > MOST_HOSTS:
                raise ValueError(f"more than {MOST_HOSTS} hosts")
    return tuple(names)


def _words(text: str) -> Iterator[str]:
    """Split at the commas that are not in brackets."""
    depth, begin = 0, 0
    for position, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            yield text[begin:position]
            begin = position + 1
    if depth:
        raise ValueError(f"{text[:60]!r}: brackets do not match")
    if text:
        yield text[begin:]


def _expanded(word: str) -> list[str]:
    names = [""]
    position = 0
    for match in _PIECE.finditer(word):
        if match.start() != position:
            break
        position = match.end()
        endings = list(_numbers(match[1])) if match[1] is not None else [match[2]]
        if len(names) * len(endings) > MOST_HOSTS:
            raise ValueError(f"more than {MOST_HOSTS} hosts")
        names = [name + ending for name in names for ending in endings]
    if not word or position != len(word) or any(letter.isspace() for letter in word):
        raise ValueError(f"{word[:60]!r} is not a host name")
    return names


def _numbers(text: str) -> Iterator[str]:
    """The numbers of `01-03,05`, zero-padded like the first of a range."""
    for part in text.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{text[:60]!r} are not host numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) - int(first) >= MOST_HOSTS:
            raise ValueError(f"more than {MOST_HOSTS} hosts")
        for number in range(int(first), int(last) + 1):
            yield f"{number:0{len(first)}d}"
