"""The words of the pages: one dictionary file a language, `en.toml` and `zh.toml`, with the same keys.

words = language("zh")
words("overview.title")                      the text of a key
words("part.hours_closed", closed=48, all=744)  with its values
words.count("overview.not_counted", 3) of a number; `<key>_one` where one is said otherwise
"""

from __future__ import annotations

import functools
import string
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from warehouse.phrases import joined, with_units

HERE = Path(__file__).parent
NAMES = {"en": "English", "zh": "中文"}
"""Code and own name of each language; the first is what nobody chose."""


@dataclass(frozen=True)
class Language:
    """code: as in `?lang=` and in the page's lang attribute."""

    code: str
    words: Mapping[str, str] = field(repr=False)

    def __call__(self, key: str, **values: Any) -> str:
        """Errors: KeyError for a key that the dictionary does not have."""
        return self._filled(self.words[key], values) if values else self.words[key]

    def of(self, key: str, otherwise: str) -> str:
        """The text of a key that is made from data, such as a reason; `otherwise` where the dictionary has none."""
        return self.words.get(key, otherwise)

    def count(self, key: str, number: int) -> str:
        one = self.words.get(f"{key}_one")
        return self._filled(one if number == 1 and one else self.words[key], {"n": f"{number:,}"})

    def rows(self, shown: int, in_all: int) -> str:
        """How long a list is, and how much of it is there; of one that is there as a whole a page may fold the rest."""
        if shown == in_all:
            return self.count("grid.all", in_all)
        return self("grid.some", shown=f"{shown:,}", all=f"{in_all:,}")

    def _filled(self, text: str, values: Mapping[str, Any]) -> str:
        if self.code != "zh":
            return text.format(**values)
        said = ""
        for literal, name, shape, _ in string.Formatter().parse(text):
            pieces = [literal] if name is None else [literal, format(values[name], shape or "")]
            for piece in pieces:
                said = joined(said, piece)
        return said

    def month(self, first: date) -> str:
        """`October 2026`."""
        return self("time.month", name=self(f"month.{first.month}"), year=first.year, month=first.month)

    def day(self, at: date) -> str:
        """`5 October 2026`."""
        return self("time.day", day=at.day, name=self(f"month.{at.month}"), year=at.year, month=at.month)

    def dated(self, at: datetime) -> str:
        """`5 October 2026, 14:00`."""
        return self("time.dated", day=self.day(at), clock=f"{at:%H:%M}")

    def moment(self, at: datetime) -> str:
        """`5 Oct, 14:00`; the hour as the time's own zone has it."""
        name = self(f"month.{at.month}")[:3]
        return self("time.moment", day=at.day, name=name, month=at.month, clock=f"{at:%H:%M}")


@functools.cache
def language(code: str) -> Language:
    """The language of a code, the first one where there is none of that code."""
    known = code if code in NAMES else next(iter(NAMES))
    words = _flat(tomllib.loads((HERE / f"{known}.toml").read_text(encoding="utf-8")))
    return Language(known, {key: with_units(text) for key, text in words.items()} if known == "zh" else words)


def _flat(tables: Mapping[str, Any], above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in tables.items():
        name = f"{above}{key}"
        found |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return found
