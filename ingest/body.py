"""The body of a push: decompressed within bounds, then JSON as rows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from pydantic_core import from_json

from ingest.errors import IngestError
from warehouse.gzip_data import MAGIC
from warehouse.json_text import duplicate_key, keys_surely_unique

PIECE_BYTES = 4096
BODY_ROWS = 200_000
"""As many as an agent sends at once."""
BODY_REJECTS = 10_000
"""Bad rows of a body that is taken; one with more is refused as a whole."""
EXAMPLES = 10
"""Bad rows of a refused body that go to quarantine."""
VALUES_A_ROW, VALUES_MORE = 64, 10_000
"""Values of a body, as its commas and brackets tell: each becomes an object of twenty times its size."""
DOCUMENT_BYTES = 8 << 20
"""Of a JSON document when decompressed: all of it is in memory at once, ten times as large."""
_AS_LINES = "Send JSON lines as application/x-ndjson"


class TooLargeError(IngestError):
    """The body, or what it decompresses to, is larger than a request may be."""


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """The decompressed body; decompression stops at `limit` bytes, whatever size the body declares.

    encoding: the Content-Encoding; consecutive gzip members are one text.
    Errors: TooLargeError; IngestError if it is truncated, goes on with something else, or is compressed in another way.
    """
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise IngestError("body", f"Content-Encoding {encoding[:40]!r}", "Send it plain or as gzip")
    parts, size = [], 0
    member = zlib.decompressobj(wbits=31)
    inside, begun = False, 0  # where the member begins
    # In small pieces: what is behind the end of a member is copied, and a body may be nothing but ends.
    for start in range(0, len(body), PIECE_BYTES):
        rest = body[start : start + PIECE_BYTES]
        while rest:
            try:
                parts.append(member.decompress(rest, limit - size + 1))
            except zlib.error as error:
                _refuse_more(body, begun)
                raise IngestError("body", f"not gzip ({error})", "Send it whole") from error
            size += len(parts[-1])
            if size > limit:
                raise TooLargeError("body", f"more than {limit} bytes when decompressed", "Send fewer rows at once")
            inside = not member.eof
            rest = member.unconsumed_tail if inside else member.unused_data
            if not inside:
                member, begun = zlib.decompressobj(wbits=31), min(start + PIECE_BYTES, len(body)) - len(rest)
    if inside:
        _refuse_more(body, begun)
        raise IngestError("body", "its gzip data is truncated", "Send it whole")
    return b"".join(parts)


def _refuse_more(body: bytes, begun: int) -> None:
    """Errors: IngestError if what begins there, behind a member, is no other one."""
    if begun and not MAGIC.startswith(body[begun : begun + len(MAGIC)]):
        what = f"{len(body) - begun:,} bytes after the end of its gzip data"
        raise IngestError("body", what, "Send gzip data alone")


def body_lines(text: bytes, document: bool) -> list[bytes]:
    """The rows of a body, as lines of JSON. document: the body is one JSON object or an array of them, not lines.

    Errors: TooLargeError; IngestError if `document` is set and the body is not valid JSON.
    """
    # Counted before anything is made of them: a row of one byte becomes a hundred.
    if document:
        if len(text) > DOCUMENT_BYTES:
            raise TooLargeError("body", f"a document of {len(text)} bytes: at most {DOCUMENT_BYTES}", _AS_LINES)
        _check_values(text, text.count(b"}"))
        lines = _elements(text)
    elif text.count(b"\n") + text.count(b"\r") > 2 * BODY_ROWS:
        raise TooLargeError("body", f"more than {BODY_ROWS:,} rows", "Send fewer rows at once")
    else:
        lines = text.splitlines()
        if not all(lines) or any(map(bytes.isspace, lines)):
            lines = [line for line in lines if line.strip()]
    if not document:
        _check_rows(len(lines))
        _check_values(text, len(lines))
    return lines


def joined_lines(text: bytes) -> tuple[bytes, int]:
    """The lines of a body with a newline between two of them, and how many there are, if none of them is blank.

    Errors: IngestError, as `body_lines`.
    """
    text = text.strip(b"\n")
    rows = text.count(b"\n") + 1
    _check_values(text, rows)
    return text, rows


def _check_rows(rows: int) -> None:
    if rows > BODY_ROWS:
        raise TooLargeError("body", f"{rows:,} rows: at most {BODY_ROWS:,}", "Send fewer rows at once")


def _check_values(text: bytes, rows: int) -> None:
    characters = np.frombuffer(text, np.uint8)  # text.count takes four times as long
    marks = sum(int(np.count_nonzero(characters == ord(mark))) for mark in ",[{")
    if marks > VALUES_A_ROW * rows + VALUES_MORE:
        what = f"{marks:,} values in {rows:,} rows: at most {VALUES_A_ROW} in a row, on average"
        raise IngestError("body", what, "Send the columns of the contract alone")


def portions(lines: Sequence[bytes], rows: int) -> Iterator[tuple[int, Sequence[bytes]]]:
    """Splits rows into about equal parts of at least the minimum size (if there are that many rows), each with the
    number of its first row, counted from 1."""
    count = max(1, len(lines) // rows)
    edges = [len(lines) * part // count for part in range(count + 1)]
    for start, end in pairwise(edges):
        yield start + 1, lines[start:end]


def _elements(text: bytes) -> list[bytes]:
    try:
        found = from_json(text)
    except ValueError as error:
        raise IngestError("body", f"not JSON ({error})", _AS_LINES) from error
    rows = found if isinstance(found, list) else [found]
    _check_rows(len(rows))
    keys = sum(len(row) for row in rows if isinstance(row, dict))
    if not keys_surely_unique(text, keys) and (twice := duplicate_key(text)):
        raise IngestError("body", twice, _AS_LINES)
    return [json.dumps(row, ensure_ascii=False).encode("utf-8", errors="backslashreplace") for row in rows]
