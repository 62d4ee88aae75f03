"""Parses the outer layer of a protobuf message field by field, so that its contents can be read one piece at a time.

A message of many empty parts takes forty times its size when protobuf parses it as a whole. Here its parts are counted
before anything is made of them, and protobuf parses each when its turn comes.
Source: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from collectors.receivers.points import MalformedError
from ingest.body import TooLargeError

M = TypeVar("M", bound=Message)
PART_BYTES = 1 << 16
"""Of a part that is read at once."""
MOST_PARTS = 200_000
"""Of one message, more than of anything that is taken in at once."""


def parts(text: memoryview) -> Iterator[tuple[int, memoryview | None]]:
    """Each field: its number, and its bytes; None of those that have a number and no length.

    Errors: MalformedError where it is no message; TooLargeError if it has too many.
    """
    at, end, count = 0, len(text), 0
    while at < end:
        count += 1
        if count > MOST_PARTS:
            raise TooLargeError("body", f"more than {MOST_PARTS:,} parts", "Send fewer at once")
        tag, at = _varint(text, at)
        number, kind = tag >> 3, tag & 7
        if number == 0:
            raise MalformedError("body", "not a protobuf message (a field without a number)")
        if kind == 2:
            size, at = _varint(text, at)
            if size > end - at:
                raise MalformedError("body", "not a protobuf message, or a part of one")
            yield number, text[at : at + size]
            at += size
            continue
        if kind == 0:
            _, at = _varint(text, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        else:
            raise MalformedError("body", "not a protobuf message (a field of no known kind)")
        if at > end:
            raise MalformedError("body", "not a protobuf message, or a part of one")
        yield number, None


def made(kind: type[M], text: memoryview, limit: int = PART_BYTES) -> M | None:
    """A part as a message; None if it is none, or of more bytes. A new one each time: one that is filled again keeps
    the memory of all that it ever was."""
    if len(text) > limit:
        return None
    message = kind()
    try:
        message.ParseFromString(bytes(text))
    except DecodeError:
        return None
    return message


def _varint(text: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        if at >= len(text):
            raise MalformedError("body", "not a protobuf message, or a part of one")
        byte = text[at]
        at += 1
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at
    raise MalformedError("body", "not a protobuf message (a number without an end)")
