"""Formats, by how an answer in them can be sent piece by piece.

The engine writes each piece of a streamed answer as a document of its own. Pieces of some formats may simply stand one
after the other; some begin with the same heading each time, which is taken off; Arrow and Parquet are written anew as
one document. What is left (JSON, XML, tables for people, ...) is made whole, in memory.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

JOINED = frozenset(
    {"native", "rowbinary", "tabseparated", "tsv", "tabseparatedraw", "tsvraw", "csv", "jsoneachrow", "jsonlines",
     "ndjson", "jsoncompacteachrow", "jsonstringseachrow", "jsoncompactstringseachrow", "tskv", "lineasstring"}
)  # fmt: skip
HEADED = frozenset(
    {"tabseparatedwithnames", "tsvwithnames", "tabseparatedwithnamesandtypes", "tsvwithnamesandtypes", "csvwithnames",
     "csvwithnamesandtypes", "rowbinarywithnames", "rowbinarywithnamesandtypes", "jsoncompacteachrowwithnames",
     "jsoncompacteachrowwithnamesandtypes", "tabseparatedrawwithnames", "tsvrawwithnames"}
)  # fmt: skip
ARROW = frozenset({"arrowstream", "arrow", "parquet"})
WHOLE = frozenset(
    {"json", "jsoncompact", "jsonstrings", "jsoncompactstrings", "jsoncolumns", "jsoncompactcolumns",
     "jsoncolumnswithmetadata", "jsonobjecteachrow", "xml", "vertical", "values", "markdown", "pretty", "prettycompact",
     "prettycompactmonoblock", "prettyspace", "prettynoescapes", "prettycompactnoescapes", "prettyjsoneachrow", "null",
     "sqlinsert", "avro", "orc", "bsoneachrow", "msgpack"}
)  # fmt: skip
TYPES = (
    ("json", "application/json"), ("ndjson", "application/x-ndjson"), ("csv", "text/csv; charset=UTF-8"),
    ("tsv", "text/tab-separated-values; charset=UTF-8"), ("tabseparated", "text/tab-separated-values; charset=UTF-8"),
    ("xml", "application/xml"), ("parquet", "application/vnd.apache.parquet"),
    ("arrowstream", "application/vnd.apache.arrow.stream"), ("arrow", "application/vnd.apache.arrow.file"),
    ("native", "application/octet-stream"), ("rowbinary", "application/octet-stream"),
)  # fmt: skip


def known(name: str) -> bool:
    return name.lower() in JOINED | HEADED | ARROW | WHOLE


def streams(name: str) -> bool:
    return name.lower() in JOINED | HEADED | ARROW


def media_type(name: str) -> str:
    lowered = name.lower()
    if lowered in ("jsoneachrow", "jsonlines", "ndjson"):
        return "application/x-ndjson"
    return next((media for start, media in TYPES if lowered.startswith(start)), "text/plain; charset=UTF-8")


def engine_format(name: str) -> str:
    """What the engine is asked to write the pieces in."""
    return "ArrowStream" if name.lower() in ARROW else name


def heading_format(name: str) -> str:
    """In which format an answer without rows has to be asked for first; empty: it has not."""
    lowered = name.lower()
    return "ArrowStream" if lowered in ARROW else name if lowered in HEADED else ""


def one_document(name: str, pieces: Iterator[bytes], heading: bytes) -> Iterator[bytes]:
    """The answer from its pieces. heading: the same without rows, in `heading_format`."""
    lowered = name.lower()
    if lowered in ARROW:
        return _arrow(lowered, pieces, heading)
    if lowered in HEADED:
        return _headed(pieces, heading)
    return pieces


def _headed(pieces: Iterator[bytes], head: bytes) -> Iterator[bytes]:
    yield head
    for piece in pieces:
        if not piece.startswith(head):
            raise ValueError("a piece of the answer has another heading than the first")
        yield piece[len(head) :]


def _arrow(lowered: str, pieces: Iterator[bytes], heading: bytes) -> Iterator[bytes]:
    import pyarrow as pa

    sink = Sink()
    with pa.ipc.open_stream(heading) as reader:
        schema = reader.schema
    writer = _writer(lowered, sink, schema)
    for piece in pieces:
        with pa.ipc.open_stream(piece) as reader:
            for batch in reader:
                writer(batch.cast(schema) if batch.schema != schema else batch)
        if sink.size:
            yield sink.taken()
    writer(None)
    yield sink.taken()


def _writer(lowered: str, sink: Sink, schema: pa.Schema) -> Callable[[Any], None]:
    """Writes a batch; None: that was the last."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if lowered == "parquet":
        parquet = pq.ParquetWriter(sink, schema, compression="zstd")
        return lambda batch: parquet.close() if batch is None else parquet.write_batch(batch)
    # The engine's dictionaries may change from piece to piece; files take one that only grows.
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False, unify_dictionaries=False)
    opened = (pa.ipc.new_stream if lowered == "arrowstream" else pa.ipc.new_file)(sink, schema, options=options)
    return lambda batch: opened.close() if batch is None else opened.write_batch(batch)


class Sink(io.RawIOBase):
    """A file that hands over what was written since it last did."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0
        self.size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._written += len(part)
        self.size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._written

    def taken(self) -> bytes:
        parts, self._parts, self.size = self._parts, [], 0
        return b"".join(parts)
