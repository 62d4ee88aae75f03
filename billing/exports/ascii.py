"""Encodes text as ASCII, which FOCUS requires of ids and names: an id can be decoded again, a name stays readable.

Plain text (printable ASCII without a percent sign, and without a space at either end) is unchanged, so an account's id
is usually its tenant. Text that CSV readers take for a missing value is encoded, too: a tenant called NA would have no
id.
"""

from __future__ import annotations

from urllib.parse import quote

PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
NOTHING = (
    "#n/a", "#n/a n/a", "#na", "-1.#ind", "-1.#qnan", "-nan", "1.#ind", "1.#qnan", "<na>", "\\n", "n/a", "na", "nan",
    "nil", "none", "null",
)  # fmt: skip
"""What pandas, the engine and others read as null, in lower case."""


def ascii_id(text: str) -> str:
    """The text with the bytes of every other character as %XX: no two texts share an id, unquoting undoes it."""
    first, middle, last = text[:1], text[1:-1], text[1:][-1:]
    edges = PLAIN.replace(" ", "")
    if text.lower() in NOTHING:
        return f"%{ord(first):02X}{text[1:]}"
    return quote(first, safe=edges) + quote(middle, safe=PLAIN) + quote(last, safe=edges)


def ascii_name(text: str) -> str:
    """The text transliterated (研发 is YanFa), control characters as spaces; as an id, where nothing is left of it, or
    what is read as nothing."""
    from anyascii import anyascii

    printable = " ".join("".join(letter if letter.isprintable() else " " for letter in anyascii(text)).split())
    return ascii_id(printable) if printable.lower() in NOTHING else printable or ascii_id(text)
