"""What is wrong with gzip data, in words."""

from __future__ import annotations

MAGIC = b"\x1f\x8b"
"""How each member begins."""


def gzip_problem(error: Exception, head: bytes) -> str:
    """What Python's reader says, which calls data no gzip also if only what comes after its end is none.

    head: how the data begins.
    """
    said = str(error)
    if head.startswith(MAGIC) and said.startswith("Not a gzipped file"):
        return "it goes on after the end of its gzip data"
    return said
