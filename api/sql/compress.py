"""Compression. A response is one frame, however many pieces it is made of.

A frame for each piece would be legal, but some readers silently stop after the first.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

from api.sql.errors import BAD_ARGUMENTS, SqlError

CODECS = {"zstd": "zstd", "lz4": "lz4", "gzip": "gzip", "br": "brotli"}
"""Names of Content-Encoding, the best first, and those of pyarrow."""
TOO_LONG = "the body is longer than a statement may be"
GZIP_LEVEL = 3
"""Made while somebody waits; pyarrow's own would be 9."""


def negotiated(accepted: str) -> str:
    """The encoding to send: the first of ours that the client accepts; empty: none."""
    wanted = {}
    for part in accepted.split(","):
        name, _, weight = part.strip().partition(";")
        wanted[name.strip().lower()] = weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return next((name for name in CODECS if wanted.get(name)), "")


def compressed(pieces: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """The pieces as one frame; empty encoding: as they are."""
    if not encoding:
        return pieces
    return _frame(pieces, CODECS[encoding])


def _frame(pieces: Iterator[bytes], codec: str) -> Iterator[bytes]:
    if codec == "gzip":
        yield from _gzip(pieces)
        return
    import pyarrow as pa

    from api.sql.formats import Sink

    sink: Any = Sink()
    with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), codec) as stream:
        for piece in pieces:
            stream.write(piece)
            if sink.size:
                yield sink.taken()
    yield sink.taken()


def _gzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    frame = zlib.compressobj(GZIP_LEVEL, wbits=31)
    for piece in pieces:
        if made := frame.compress(piece):
            yield made
    yield frame.flush()


def decompressed(body: bytes, encoding: str, limit: int) -> str:
    """A statement that came compressed, all frames of it.

    Errors: SqlError if it breaks off, goes on with something else, is longer than `limit`, or is compressed in another
    way."""
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return _text(body)
    if name == "deflate":
        return _text(_inflated(body, limit))
    if name not in CODECS:
        raise SqlError(BAD_ARGUMENTS, f"Content-Encoding {name[:40]!r} is not supported", "Send it plain")
    import pyarrow as pa

    try:
        with pa.CompressedInputStream(pa.BufferReader(body), CODECS[name]) as stream:
            text = stream.read(limit + 1)
    except (OSError, pa.ArrowException) as error:
        raise _not_whole(name, error) from error
    if len(text) > limit:
        raise SqlError(BAD_ARGUMENTS, TOO_LONG)
    return _text(text)


def _inflated(body: bytes, limit: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        text = stream.decompress(body, limit + 1)
    except zlib.error as error:
        raise _not_whole("deflate", error) from error
    if len(text) > limit:
        raise SqlError(BAD_ARGUMENTS, TOO_LONG)
    if not stream.eof or stream.unused_data:
        raise _not_whole("deflate", "more follows" if stream.eof else "its end is missing")
    return text


def _not_whole(name: str, problem: Exception | str) -> SqlError:
    """Readers call what goes on after the end of a frame truncated, too: it could be the beginning of another one."""
    return SqlError(BAD_ARGUMENTS, f"the body is truncated or damaged {name}, or goes on after its end ({problem})")


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise SqlError(BAD_ARGUMENTS, "the body is not UTF-8 text; this endpoint accepts only statements") from error
