"""Texts in ASCII, which FOCUS's rules on strings want of ids and names: an id can be read back, a name can be read.

Plain texts (printable ASCII without a percent sign) are left as they are, so an account's id is mostly its tenant.
"""

from __future__ import annotations

from urllib.parse import quote

PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def ascii_id(text: str) -> str:
    """The text with the bytes of every other character as %XX: no two texts share an id, unquoting undoes it."""
    return quote(text, safe=PLAIN, encoding="utf-8")


def ascii_name(text: str) -> str:
    """The text transliterated (研发 is YanFa), control characters as spaces; its id if nothing would be left of it."""
    from anyascii import anyascii

    printable = "".join(letter if letter.isprintable() else " " for letter in anyascii(text))
    return " ".join(printable.split()) or ascii_id(text)
