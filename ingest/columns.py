"""Converts columns to the contract's types: whole columns at a time, single values only where a cast fails.

Types after conversion: time = timestamp(ms, UTC), text = dictionary of distinct texts (never null), float = float64,
uint = uint64, int = int64, bool = bool. A value that cannot be converted is null and has a `Problem`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from warehouse.records import WHOLE, Column, ColumnType

TIME = pa.timestamp("ms", tz="UTC")
TEXT = pa.dictionary(pa.int32(), pa.string())
ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    "time": TIME,
    "text": TEXT,
    "float": pa.float64(),
    "uint": pa.uint64(),
    "int": pa.int64(),
    "bool": pa.bool_(),
}
ONE_BY_ONE = 32
"""Rows left in a stretch that no cast takes whole, from which on they are read singly."""
CONVERSION_ERRORS = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError)


@dataclass(frozen=True)
class Problem:
    """What is wrong with the value at `index` of a column."""

    index: int
    reason: str
    detail: str


class _BadValueError(Exception):
    def __init__(self, reason: str, expected: str) -> None:
        self.reason, self.expected = reason, expected


def convert(column: Column, values: pa.ChunkedArray) -> tuple[pa.Array, list[Problem]]:
    """The column in the contract's type, and the values that have no place in it."""
    if column.type == "text":
        return _text(values), []
    array = one_array(values)
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), ARROW_TYPES[column.type]), []
    native = _native(column.type, array)
    if native is not None:
        return native, []
    problems: list[Problem] = []
    texts = _empty_as_null(_as_text(array))
    return _parsed(column, texts, 0, problems), problems


def one_array(values: pa.ChunkedArray) -> pa.Array:
    """The chunks as one array, dictionaries unified."""
    if values.num_chunks == 1:
        return values.chunk(0)
    if pa.types.is_dictionary(values.type):
        values = values.unify_dictionaries()
    combined = values.combine_chunks()
    return pa.concat_arrays(combined.chunks) if isinstance(combined, pa.ChunkedArray) else combined


def matching(texts: pa.DictionaryArray, test: Callable[[pa.Array], pa.Array]) -> npt.NDArray[np.bool_] | None:
    """Which rows have a text that passes the test; None if no row can. The test sees each distinct text once."""
    flags = test(texts.dictionary).to_numpy(zero_copy_only=False)
    if not flags.any():
        return None
    found: npt.NDArray[np.bool_] = flags.astype(bool)[texts.indices.to_numpy(zero_copy_only=False)]
    return found if found.any() else None


def _text(values: pa.ChunkedArray) -> pa.DictionaryArray:
    array = one_array(values)
    if pa.types.is_dictionary(array.type):
        if array.type == TEXT and not array.null_count and not array.dictionary.null_count:
            return array
        array = array.cast(array.type.value_type)
    if pa.types.is_null(array.type):
        return empty_texts(len(array))
    array = _as_text(array)
    if array.null_count:
        array = array.fill_null("")
    return array.dictionary_encode()


def empty_texts(count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), pa.array([""]))


def _as_text(array: pa.Array) -> pa.Array:
    try:
        return array.cast(pa.string())
    except CONVERSION_ERRORS:
        return pa.array([_value_text(value) for value in array.to_pylist()], pa.string())


def _value_text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="backslashreplace")
    return None if value is None else str(value)


def _empty_as_null(texts: pa.Array) -> pa.Array:
    empty = pc.equal(texts, "")
    return pc.if_else(empty, pa.scalar(None, pa.string()), texts) if pc.any(empty).as_py() else texts


def _native(kind: ColumnType, array: pa.Array) -> pa.Array | None:
    """Values that already are of the right nature, cast to the exact type; None if they must be read as text."""
    of, types = array.type, pa.types
    number = types.is_integer(of) or types.is_floating(of) or types.is_decimal(of)
    try:
        if kind == "time" and types.is_timestamp(of):
            return floor_to_ms(array)
        if kind == "time" and types.is_date(of):
            return array.cast(pa.timestamp("ms")).cast(TIME)
        if kind == "float" and number:
            return array.cast(pa.float64(), safe=False)
        if kind in ("uint", "int") and number:
            return array.cast(ARROW_TYPES[kind])
        if kind == "bool" and types.is_boolean(of):
            return array
    except CONVERSION_ERRORS:
        pass
    return None


def floor_to_ms(times: pa.Array) -> pa.Array:
    """Timestamps of any unit and zone as UTC milliseconds; naive ones are UTC."""
    if times.type == TIME:
        return times
    # safe=False drops the digits below a millisecond, which is the floor for every time after 1970.
    return times.cast(TIME, safe=False) if times.type.unit in ("us", "ns") else times.cast(TIME)


def _whole(floats: pa.Array, kind: pa.DataType) -> pa.Array:
    """Floats such as 1.0 as whole numbers, where a float tells one from the next."""
    if (pc.max(pc.abs(floats)).as_py() or 0) > 2**53:
        raise pa.ArrowInvalid("beyond what a float holds exactly")
    return floats.cast(kind)


_CASTS: dict[ColumnType, tuple[Callable[[pa.Array], pa.Array], ...]] = {
    "time": (
        lambda texts: floor_to_ms(texts.cast(pa.timestamp("ns", tz="UTC"))),
        lambda texts: floor_to_ms(texts.cast(pa.timestamp("ns"))),
    ),
    "float": (lambda texts: texts.cast(pa.float64()),),
    "uint": (lambda texts: texts.cast(pa.uint64()), lambda texts: _whole(texts.cast(pa.float64()), pa.uint64())),
    "int": (lambda texts: texts.cast(pa.int64()), lambda texts: _whole(texts.cast(pa.float64()), pa.int64())),
    "bool": (lambda texts: texts.cast(pa.bool_()),),
}


def _parsed(column: Column, texts: pa.Array, offset: int, problems: list[Problem]) -> pa.Array:
    """Texts as values: whole if a cast takes them all, else by halves, so that only the odd ones are read singly."""
    for cast in _CASTS[column.type]:
        try:
            return cast(texts)
        except CONVERSION_ERRORS:
            pass
    if len(texts) > ONE_BY_ONE:
        half = len(texts) // 2
        parts = (
            _parsed(column, texts.slice(0, half), offset, problems),
            _parsed(column, texts.slice(half), offset + half, problems),
        )
        return pa.concat_arrays(parts)
    values = []
    for index, text in enumerate(texts.to_pylist(), offset):
        try:
            values.append(None if text is None or not text.strip() else _SINGLE[column.type](text.strip(), column))
        except _BadValueError as bad:
            problems.append(Problem(index, bad.reason, f"{column.name} {text[:200]!r}: expected {bad.expected}"))
            values.append(None)
    return pa.array(values, ARROW_TYPES[column.type])


_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(?:[.,](\d+))?)? ?(Z|UTC|GMT|[+-]\d\d(?::?\d\d)?)?", re.I
)


def _single_time(text: str, _: Column) -> datetime:
    match = _ISO.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        zone = "+00:00" if zone is None or zone.upper() in ("Z", "UTC", "GMT") else zone
        milliseconds = ((fraction or "") + "000")[:3]
        return (
            datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone}")
            .astimezone(UTC)
            .replace(microsecond=int(milliseconds) * 1000)
        )
    except (ValueError, OverflowError):
        raise _BadValueError("bad_time", "an ISO 8601 time such as 2026-10-01T00:00:00Z") from None


def _single_float(text: str, _: Column) -> float:
    try:
        if "_" in text or not text.isascii():
            raise ValueError
        return float(text)
    except ValueError:
        raise _BadValueError("not_a_number", "a number") from None


def _single_whole(text: str, column: Column) -> int:
    try:
        if "_" in text or not text.isascii():
            raise InvalidOperation
        value = Decimal(text)
    except InvalidOperation:
        raise _BadValueError("not_a_number", "a whole number") from None
    if not value.is_finite():
        raise _BadValueError("not_a_number", "a whole number")
    low, high = WHOLE[column.type]
    if not low <= value <= high:
        raise _BadValueError(f"out_of_range_{column.name}", column.whole_range())
    if value != int(value):
        raise _BadValueError("not_a_whole_number", "a whole number")
    return int(value)


def _single_bool(text: str, _: Column) -> bool:
    raise _BadValueError("not_a_boolean", "true, false, 1 or 0")


_SINGLE: dict[ColumnType, Callable[[str, Column], Any]] = {
    "time": _single_time,
    "float": _single_float,
    "uint": _single_whole,
    "int": _single_whole,
    "bool": _single_bool,
}
