"""Reads files that a user names, whole, but refuses huge ones and pipes that nobody writes to."""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path

MOST_BYTES = 16 << 20
SECONDS_FOR_A_WRITER = 3.0


def read_named(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """The file's bytes. Errors: OSError, also for a file of more than `most` bytes and a pipe that nobody writes to."""
    with open(path, "rb", buffering=0, opener=_not_waiting) as file:
        descriptor = file.fileno()
        first = _first(descriptor) if stat.S_ISFIFO(os.fstat(descriptor).st_mode) else b""
        os.set_blocking(descriptor, True)
        parts, size = [first], len(first)
        while size <= most and (part := file.read(min(1 << 20, most + 1 - size))):
            parts.append(part)
            size += len(part)
    if size > most:
        raise OSError(errno.EFBIG, f"it has more than {most >> 20} MiB")
    return b"".join(parts)


def _not_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _first(descriptor: int) -> bytes:
    """The bytes that a pipe has so far; none if its writer has written nothing yet, and the next read blocks for it."""
    until = time.monotonic() + SECONDS_FOR_A_WRITER
    while True:
        try:
            if found := os.read(descriptor, 1 << 16):
                return found
        except BlockingIOError:
            return b""
        if time.monotonic() > until:
            raise OSError(errno.ENXIO, "nobody writes into this pipe")
        time.sleep(0.05)
