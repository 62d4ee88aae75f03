"""Translates texts phrase by phrase, joins Chinese without gaps, says where its lines must not end, and writes instants
as a page does."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cached_property

Put = str | Callable[[re.Match[str]], str]
"""What stands for a phrase: a template of `re.sub`, or a function."""
Moment = Callable[[datetime], str]
CHINESE = "[\u3000-\u9fff\uff01-\uff60]"
_GAP = re.compile(rf"(?<={CHINESE})[ \u00a0](?={CHINESE})")
_UNIT = "°C|GPU|GiB|小时|分钟|毫秒|[个条项天次张行台种倍位站秒分]"
_NO_BREAK = re.compile(
    rf"(?<=[\d}}]) (?={_UNIT})|(?<=[\d}}] (?:GPU|GiB)) (?=小时)|(?<=[\d}}][ \u00a0]个) (?=GPU)"
    r"|(?<=[自至]) (?=[\d{])|(?<=日) (?=\d\d:)|(?<=\d[ \u00a0]小时) (?=\d+[ \u00a0]分钟)"
)
_DATE = re.compile(r"(?:\d+年)?\d+月(?:\d+日)?")
_COUNTED = re.compile(r"\d\u00a0(?:(?:GPU|GiB)\u00a0)?(?:小时|分钟|毫秒)")
_UNTIL = re.compile(r"截至\u00a0")
_WITHIN = re.compile(r"(?<=\d)(?=[年月日])|(?<=[年月])(?=\d)|(?<=[小分毫])(?=[时钟秒])|(?<=截)(?=至)")
_ENGLISH_UNIT = re.compile(
    r"(?<=\d) (?=(?:GPU-hours?|GiB|kWh|kg|ms|min|[hdsW]|°C)(?![\w-]))"
    r"|(?<=\d[ \u00a0][dh]) (?=\d+[ \u00a0](?:h|min)\b)"
)
_HYPHEN_IN_UNIT = re.compile(r"(?<=\b(?:GPU|GiB)-)(?=(?:hour|second)s?\b)")
_ENGLISH_DATE = re.compile(r"\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*(?:, \d\d:\d\d)?\b")
_ENGLISH_CLOCK = re.compile(r"(?<=\d\d:\d\d) (?=[A-Z]{3,4}\b)")
_REFERENCE = re.compile(r"\\(\d)")


def joined(before: str, after: str) -> str:
    """One after the other. Chinese has a space beside a number or a Latin word, none between two of its own characters:
    which of these a value begins and ends with, the text around it does not know."""
    seam = _GAP.sub("", before[-2:] + after[:2]) if before and after else before[-2:] + after[:2]
    return before[:-2] + seam + after[2:]


def with_units(text: str) -> str:
    """A Chinese text, or a template of one, whose lines end neither between a number and its unit nor between a date
    and its clock or what leads to it (自, 至)."""
    return _NO_BREAK.sub("\u00a0", text)


def kept_whole(text: str) -> str:
    """A Chinese text with units whose lines do not end within a date or a unit either, where they may end between any
    two characters."""
    for whole in (_DATE, _COUNTED, _UNTIL):
        text = whole.sub(lambda found: _WITHIN.sub("\u2060", found[0]), text)
    return text


def with_english_units(text: str) -> str:
    """An English text whose lines end neither between a number and its unit nor within `GPU-hours`, `5 Oct, 14:00`,
    `14:00 CET` or `1 h 41 min`; before the year of a date they may, in a narrow column."""
    dated = _ENGLISH_DATE.sub(lambda found: found[0].replace(" ", "\u00a0"), text)
    counted = _ENGLISH_UNIT.sub("\u00a0", _ENGLISH_CLOCK.sub("\u00a0", dated))
    return _HYPHEN_IN_UNIT.sub("\u2060", counted)


class Phrases:
    """Regular expressions of phrases, and what stands for each, in the order in which they are tried.

    They are compiled when the first text comes: most commands translate nothing.
    """

    def __init__(self, written: Sequence[tuple[str, Put]]) -> None:
        self._written = written

    @cached_property
    def _compiled(self) -> list[tuple[re.Pattern[str], Put]]:
        return [
            (re.compile(pattern), _seamless(put) if isinstance(put, str) else put) for pattern, put in self._written
        ]

    def translated(self, text: str) -> str:
        """What is in no phrase stays as it is."""
        for pattern, put in self._compiled:
            text = pattern.sub(put, text)
        return text


def _seamless(template: str) -> Put:
    """As `re.sub` fills the template in, its values joined to the text around them."""
    pieces = _REFERENCE.split(template)
    if len(pieces) == 1:
        return template

    def put(found: re.Match[str]) -> str:
        values = [piece if number % 2 == 0 else found[int(piece)] or "" for number, piece in enumerate(pieces)]
        return functools.reduce(joined, values)

    return put


def with_moments(text: str, instants: re.Pattern[str], moment: Moment | None) -> str:
    """moment: how an instant is written; None: as it is, in UTC."""
    if moment is None:
        return text
    return instants.sub(lambda found: moment(datetime.fromisoformat(found[0])), text)
