"""Translates texts phrase by phrase, and writes the instants in them as a page does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property

Put = str | Callable[[re.Match[str]], str]
"""What stands for a phrase: a template of `re.sub`, or a function."""
Moment = Callable[[datetime], str]


class Phrases:
    """Regular expressions of phrases, and what stands for each, in the order in which they are tried.

    They are compiled when the first text comes: most commands translate nothing.
    """

    def __init__(self, written: Sequence[tuple[str, Put]]) -> None:
        self._written = written

    @cached_property
    def _compiled(self) -> list[tuple[re.Pattern[str], Put]]:
        return [(re.compile(pattern), put) for pattern, put in self._written]

    def translated(self, text: str) -> str:
        """What is in no phrase stays as it is."""
        for pattern, put in self._compiled:
            text = pattern.sub(put, text)
        return text


def with_moments(text: str, instants: re.Pattern[str], moment: Moment | None) -> str:
    """moment: how an instant is written; None: as it is, in UTC."""
    if moment is None:
        return text
    return instants.sub(lambda found: moment(datetime.fromisoformat(found[0])), text)
