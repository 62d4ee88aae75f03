"""Names that users gave, shown to people: nothing in them acts."""

from __future__ import annotations

import re

_ACTING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""What a terminal or a reader's eye obeys: escape sequences, ends of lines, turns of the writing direction."""


def printable(text: str) -> str:
    """A text with nothing in it that acts: users name jobs and tenants, and what a name draws is not our answer."""
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
