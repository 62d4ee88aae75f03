"""The Chinese, Japanese and Korean characters in the shipped font (fonts/README.md)."""

from __future__ import annotations

from collections.abc import Iterator

_SETS = (
    ("gb2312", range(0xA1, 0xF8), range(0xA1, 0xFF)),
    ("big5", range(0xA1, 0xC7), range(0x40, 0xFF)),
    ("euc_jp", range(0xA1, 0xD0), range(0xA1, 0xFF)),
    ("euc_kr", range(0xB0, 0xC9), range(0xA1, 0xFF)),
)
"""Codec, first and second bytes: GB 2312, Big5 level 1, JIS X 0208 level 1, hangul of KS X 1001."""


def _characters() -> Iterator[str]:
    for codec, firsts, seconds in _SETS:
        for pair in (bytes([first, second]) for first in firsts for second in seconds):
            try:
                yield pair.decode(codec)
            except UnicodeDecodeError:  # a place of the table that nothing stands in
                continue
    yield from (chr(code) for code in (*range(0xFF01, 0xFFBF), *range(0xFFE0, 0xFFE7)))


_NOT_IN_NOTO = frozenset("‾∼≒")
CHARACTERS = frozenset(letter for letter in _characters() if len(letter) == 1 and letter >= "\u2000") - _NOT_IN_NOTO
