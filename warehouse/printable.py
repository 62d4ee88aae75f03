"""Makes names that users chose safe to print (no control characters, no terminal escapes), and counts in words."""

from __future__ import annotations

import re

_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What changes how a terminal displays text: escape sequences, line ends, marks of the writing direction."""


def printable(text: str) -> str:
    """The text without characters that a terminal would act on: users choose names, so names can be hostile."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def counted(number: int, what: str) -> str:
    """ "1 device", "2 devices"."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def grouped(number: int, what: str) -> str:
    """The same for people, with digits in groups of three: "1 row", "1,728 rows"."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
