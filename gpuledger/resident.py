"""What a server that has started, or rests, gives back of the machine's memory."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

_LARGE = re.compile(r"/(_chdb|libarrow)\.[^/]*$")
"""Libraries that every server has loaded before it serves; one that is just being loaded must not be touched."""
_MAPPED = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (.{4}) \S+ \S+ \S+ +(/.*)?$")
_DONTNEED = 4
_SMAPS = Path("/proc/self/smaps")


def give_back() -> None:
    """Gives back what was freed, and the pages of large libraries. Two hundred MiB of the engine's are touched by a
    start, by a close or by a page, and most of them not again for long; those that are come from the system's cache."""
    if (arrow := sys.modules.get("pyarrow")) is not None:
        arrow.default_memory_pool().release_unused()
    libc = ctypes.CDLL(None)
    if trim := getattr(libc, "malloc_trim", None):  # glibc's own: it keeps what was freed
        trim(0)
    if _SMAPS.exists():
        for begin, end in as_in_their_files(_SMAPS.read_text(encoding="utf-8", errors="replace")):
            libc.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _DONTNEED)  # refused, it does no harm


def as_in_their_files(smaps: str) -> Iterator[tuple[int, int]]:
    """Where parts of those libraries lie as they are in their files: nobody can write there, and nobody has."""
    found = None
    for line in smaps.splitlines():
        if mapped := _MAPPED.match(line):
            found = mapped if "w" not in mapped[3] and _LARGE.search(mapped[4] or "") else None
        elif found and line.split() == ["Anonymous:", "0", "kB"]:
            yield int(found[1], 16), int(found[2], 16)
