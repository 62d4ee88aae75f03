"""The body of a push: decompressed within bounds, then JSON as rows."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise

from pydantic_core import from_json

from ingest.errors import IngestError

PIECE_BYTES = 4096


class TooLargeError(IngestError):
    """More than is taken at once."""


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """The text of a body; never more than `limit` bytes are made of it, whatever it claims to be.

    encoding: as Content-Encoding says it; gzip members in a row are one text.
    Errors: TooLargeError; IngestError if it is not whole, or compressed in another way.
    """
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise IngestError("body", f"Content-Encoding {encoding[:40]!r}", "Send it plain or as gzip")
    parts, size = [], 0
    member = zlib.decompressobj(wbits=31)
    inside = False
    # In small pieces: what is behind the end of a member is copied, and a body may be nothing but ends.
    for start in range(0, len(body), PIECE_BYTES):
        rest = body[start : start + PIECE_BYTES]
        while rest:
            try:
                parts.append(member.decompress(rest, limit - size + 1))
            except zlib.error as error:
                raise IngestError("body", f"not gzip ({error})", "Send it whole") from error
            size += len(parts[-1])
            if size > limit:
                raise TooLargeError("body", f"more than {limit} bytes when decompressed", "Send fewer rows at once")
            inside = not member.eof
            rest = member.unconsumed_tail if inside else member.unused_data
            if not inside:
                member = zlib.decompressobj(wbits=31)
    if inside:
        raise IngestError("body", "its gzip breaks off", "Send it whole")
    return b"".join(parts)


def body_lines(text: bytes, document: bool) -> list[bytes]:
    """The rows of a text, as lines of JSON. document: it is one JSON document, an object or an array of them.

    Errors: IngestError if it is to be a document, and is none.
    """
    if document:
        return _elements(text)
    lines = text.splitlines()
    if all(lines) and not any(map(bytes.isspace, lines)):
        return lines
    return [line for line in lines if line.strip()]


def portions(lines: Sequence[bytes], rows: int) -> Iterator[tuple[int, Sequence[bytes]]]:
    """About equal parts, none of them below so many rows if there are so many, each with the number of its first row,
    from 1."""
    count = max(1, len(lines) // rows)
    edges = [len(lines) * part // count for part in range(count + 1)]
    for start, end in pairwise(edges):
        yield start + 1, lines[start:end]


def _elements(text: bytes) -> list[bytes]:
    try:
        found = from_json(text)
    except ValueError as error:
        raise IngestError("body", f"not JSON ({error})", "Send JSON lines as application/x-ndjson") from error
    rows = found if isinstance(found, list) else [found]
    return [json.dumps(row, ensure_ascii=False).encode("utf-8", errors="backslashreplace") for row in rows]
