"""The format Native for clients that name the version of ClickHouse's protocol they speak (`client_protocol_version=`),
as clickhouse-go and so Grafana's data source do.

The engine writes blocks for those that name none. The others find a block's info before it and, from 54454 on, a byte
behind each column's type that says whether its values are packed in an unusual way: they are not. To get from a column
to the next, its values are passed over, by its type.

Source: src/Formats/NativeWriter.cpp and src/DataTypes/Serializations of ClickHouse.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from api.sql.errors import NOT_IMPLEMENTED, SqlError

Skip = Callable[[bytes, int, int], int]
"""(block, where the values begin, how many) -> where they end."""

INFO = b"\x01\x00\x02\xff\xff\xff\xff\x00"
"""No overflow row, no bucket."""
WITH_PACKING = 54454
USUAL = b"\x00"
KEYS_FOLLOW = 1 << 9
SIZES = {
    "Bool": 1, "Nothing": 1, "Int8": 1, "UInt8": 1, "Enum8": 1, "Int16": 2, "UInt16": 2, "Enum16": 2, "Date": 2,
    "BFloat16": 2, "Int32": 4, "UInt32": 4, "Float32": 4, "Date32": 4, "DateTime": 4, "Time": 4, "IPv4": 4, "Int64": 8,
    "UInt64": 8, "Float64": 8, "DateTime64": 8, "Time64": 8, "Int128": 16, "UInt128": 16, "UUID": 16, "IPv6": 16,
    "Int256": 32, "UInt256": 32,
}  # fmt: skip
_TYPE = re.compile(r"(\w+)(?:\((.*)\))?", re.S)
_PART = re.compile(r"'(?:[^'\\]|\\.)*'|`(?:[^`\\]|\\.)*`|[(),]", re.S)
_NAMED = re.compile(r"(?:\w+|`(?:[^`\\]|\\.)*`) (?=[A-Z])", re.S)


def for_protocol(pieces: Iterator[bytes], version: int) -> Iterator[bytes]:
    """The pieces of an answer (each some whole blocks), for a client of that version; 0: as they are. Errors: SqlError
    if a column's type cannot be passed over."""
    return pieces if version == 0 else (_blocks(piece, version) for piece in pieces)


def _blocks(piece: bytes, version: int) -> bytes:
    made: list[bytes] = []
    at = 0
    while at < len(piece):
        made.append(INFO)
        begun = at
        columns, at = _number(piece, at)
        rows, at = _number(piece, at)
        for _ in range(columns):
            _, at = _text(piece, at)
            name, at = _text(piece, at)
            made.append(piece[begun:at])
            begun = at
            if version >= WITH_PACKING:
                made.append(USUAL)
            if rows:
                kind = _kind(name)
                at = kind.skip(piece, at + 8 * kind.dictionaries, rows)
        made.append(piece[begun:at])
    return b"".join(made)


@dataclass(frozen=True)
class Kind:
    """Of values. dictionaries: LowCardinality types in it, each of which has its version before all values."""

    skip: Skip
    dictionaries: int = 0


@functools.lru_cache(maxsize=1000)
def _kind(name: str) -> Kind:
    match = _TYPE.fullmatch(name)
    base, inside = (match[1], match[2] or "") if match else ("", "")
    if base in SIZES:
        return _fixed(SIZES[base])
    if base.startswith("Interval"):
        return _fixed(8)
    if base == "Decimal":
        return _fixed(_decimal(int(inside.split(",")[0])))
    if base == "FixedString":
        return _fixed(int(inside))
    if base == "String":
        return Kind(_skip_texts)
    if base == "Nullable":
        return _nullable(_kind(inside))
    if base == "LowCardinality":
        of = re.fullmatch(r"Nullable\((.*)\)", inside, re.S)
        return _dictionary(_kind(of[1] if of else inside))
    if base == "SimpleAggregateFunction":
        return _kind(_parts(inside)[-1])
    if base == "Array":
        return _array(_kind(inside))
    if base in ("Tuple", "Nested", "Map"):
        both = _tuple(tuple(_kind(_NAMED.sub("", one, count=1)) for one in _parts(inside)))
        return both if base == "Tuple" else _array(both)
    raise SqlError(NOT_IMPLEMENTED, f"a column of the type {name[:100]} in this format", "Make it text: toString(...)")


def _fixed(size: int) -> Kind:
    return Kind(lambda _, at, rows: at + size * rows)


def _decimal(digits: int) -> int:
    return 4 if digits <= 9 else 8 if digits <= 18 else 16 if digits <= 38 else 32


def _nullable(of: Kind) -> Kind:
    return Kind(lambda block, at, rows: of.skip(block, at + rows, rows), of.dictionaries)


def _tuple(of: tuple[Kind, ...]) -> Kind:
    def skip(block: bytes, at: int, rows: int) -> int:
        for one in of:
            at = one.skip(block, at, rows)
        return at

    return Kind(skip, sum(one.dictionaries for one in of))


def _array(of: Kind) -> Kind:
    def skip(block: bytes, at: int, rows: int) -> int:
        at += 8 * rows
        return of.skip(block, at, _long(block, at - 8) if rows else 0)

    return Kind(skip, of.dictionaries)


def _dictionary(keys: Kind) -> Kind:
    def skip(block: bytes, at: int, rows: int) -> int:
        if not rows:
            return at
        how, at = _long(block, at), at + 8
        if how & KEYS_FOLLOW:
            at = keys.skip(block, at + 8, _long(block, at))
        return at + 8 + (1 << (how & 0xFF)) * rows

    return Kind(skip, 1)


def _skip_texts(block: bytes, at: int, rows: int) -> int:
    for _ in range(rows):
        size = block[at]
        at += 1
        if size > 127:
            size, at = _number(block, at - 1)
        at += size
    return at


def _number(block: bytes, at: int) -> tuple[int, int]:
    """One of 7 bits a byte, and where it ends."""
    found = shift = 0
    while block[at] > 127:
        found |= (block[at] & 127) << shift
        shift += 7
        at += 1
    return found | block[at] << shift, at + 1


def _text(block: bytes, at: int) -> tuple[str, int]:
    size, at = _number(block, at)
    return block[at : at + size].decode(errors="replace"), at + size


def _long(block: bytes, at: int) -> int:
    return int.from_bytes(block[at : at + 8], "little")


def _parts(inside: str) -> list[str]:
    """What commas part on the first level, such as the types in a Tuple."""
    found, depth, begun = [], 0, 0
    for match in _PART.finditer(inside):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if match[0] == "," and depth == 0:
            found.append(inside[begun : match.start()].strip())
            begun = match.end()
    return [*found, inside[begun:].strip()]
