"""Shared by the CSV and JSON readers: opens and decompresses a text file, and checks that it is complete."""

from __future__ import annotations

import codecs
import gzip
import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from warehouse.gzip_data import MAGIC

BLOCK_BYTES = 1 << 20
TAIL_BYTES = 64
BOM = b"\xef\xbb\xbf"
ROW_BYTES = 65_536
"""Of one row as text."""
RAW_BYTES = 1000
"""What quarantine keeps of a row that is too large, or no text."""


def is_gzip(path: Path) -> bool:
    """By its first bytes, not by its name."""
    with path.open("rb") as file:
        return file.read(2) == MAGIC


def open_bytes(path: Path) -> IO[bytes]:
    return gzip.open(path, "rb") if is_gzip(path) else path.open("rb")  # type: ignore[return-value]


def is_text(value: bytes) -> bool:
    """Whether it is UTF-8."""
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_utf8(path: Path) -> bool:
    """Whether all of the text is."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_bytes(path) as file:
            while block := file.read(BLOCK_BYTES):
                decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def whole_lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file; of one that is longer than a row may be, a little more than a row."""
    while line := file.readline(ROW_BYTES + 2):
        rest = line
        while not rest.endswith(b"\n") and (rest := file.readline(BLOCK_BYTES)):
            pass
        yield line


def tail_of_whole(path: Path) -> bytes:
    """The last bytes of the text. A compressed file is read through, so that one that was cut short or damaged is
    refused before its first row is written.

    Errors: EOFError, zlib.error or OSError if it is not whole.
    """
    if path.suffix == ".gz" and path.stat().st_size == 0:
        raise EOFError("the file is empty, which no gzip file is")
    if not is_gzip(path):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES), os.SEEK_SET)
            return file.read()
    tail = b""
    with gzip.open(path, "rb") as file:
        while block := file.read(BLOCK_BYTES):
            tail = (tail + block)[-TAIL_BYTES:]
    return tail
