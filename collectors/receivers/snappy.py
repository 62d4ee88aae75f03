"""Snappy's block format, as remote write uses it: Arrow decompresses it, after a check of the declared size.

Source: https://github.com/google/snappy/blob/main/format_description.txt
"""

from __future__ import annotations

import pyarrow as pa

from collectors.receivers.points import MalformedError
from ingest.body import TooLargeError

MOST_RATIO = 32
"""Its densest element makes 64 bytes of three."""
_FRAMED = b"\xff\x06\x00\x00sNaPpY"


def decompressed(body: bytes, limit: int) -> bytes:
    """Decompresses at most `limit` bytes.   Errors: MalformedError; TooLargeError."""
    if body.startswith(_FRAMED):
        raise MalformedError("body", "snappy's framed format", "Send the block format, as Prometheus does")
    size, start = _claimed(body)
    if size > limit:
        raise TooLargeError("body", f"{size} bytes when decompressed: at most {limit}", "Send fewer series at once")
    if size > MOST_RATIO * len(body):
        raise MalformedError("body", f"not snappy: {len(body)} bytes say that they are {size}")
    if size == 0:
        if len(body) > start:
            raise MalformedError("body", "not snappy: something follows an empty text")
        return b""
    try:
        text: bytes = pa.Codec("snappy").decompress(body, size, asbytes=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MalformedError("body", f"not snappy ({str(error)[:200]})", "Send the block format") from error
    return text


def _claimed(body: bytes) -> tuple[int, int]:
    """The length that the body declares, and the offset of the rest."""
    size = 0
    for place, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << (7 * place)
        if not byte & 0x80:
            return size, place + 1
    raise MalformedError("body", "not snappy: it has no length", "Send the block format")
