"""Validates rows and converts them to the contract's types. Pure: the result depends on the row and `now` alone.

Works on whole columns: first an aggregate, and a mask only where the aggregate shows that something is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.check_rows import EARLIEST, FUTURE_TOLERANCE
from ingest.columns import ARROW_TYPES, TIME, Problem, convert, empty_texts, matching
from ingest.pieces import Piece, Reject
from warehouse.records import NARROW, USABLE_STATES, Column, RecordType

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Excess:
    """How many positive values of a bounded column exceed its maximum, out of how many, and an example."""

    above: int
    counted: int
    example: float

    def __add__(self, other: Excess) -> Excess:
        return Excess(self.above + other.above, self.counted + other.counted, self.example or other.example)


@dataclass(frozen=True)
class Clean:
    """rows: of the source, good and bad.   table: the good ones, every column of the contract in its type.
    excess: by bounded column, before rejection.   whole, start: the table that this one is a slice of, and where it
    begins there, if it is one."""

    rows: int
    table: pa.Table
    rejects: list[Reject]
    excess: dict[str, Excess]
    whole: pa.Table | None = None
    start: int = 0

    def part(self, start: int, rows: int) -> Clean:
        """Some of the good rows, as if they had been read alone."""
        return Clean(rows, self.table.slice(start, rows), [], {}, self.table, start)


def normalise(record: RecordType, piece: Piece, now: datetime) -> Clean:
    """The good rows in the contract's types; each bad one as a reject with the first thing wrong with it."""
    problems: dict[int, Problem] = {}
    count = len(piece.table)
    columns: dict[str, pa.Array] = {}
    for column in record.columns:
        columns[column.name], wrong = _converted(column, piece.table)
        _note(problems, wrong)
    if record.name == "samples":
        columns["utilization"] = _without_unusable(columns["state"], columns["utilization"])
    if record.name == "devices":
        columns["units"] = columns["units"].fill_null(1)
    excess = {}
    for column in record.columns:
        values = columns[column.name]
        _note(problems, _missing(column, values))
        if column.type == "time":
            _note(problems, _bad_times(column, values, now))
        elif column.choices:
            _note(problems, _unknown(column, values))
        elif column.type != "text":
            _note(problems, _out_of_range(column, values))
            if column.type == "float" and column.maximum is not None:
                excess[column.name] = _excess(column.maximum, values)
    if record.name == "samples":
        _note(problems, _contradictions(columns["state"], columns["utilization"]))
    table = pa.table(list(columns.values()), names=list(columns))
    if problems:
        keep = np.ones(count, bool)
        keep[list(problems)] = False
        table = table.filter(pa.array(keep))
    rejects = [
        Reject(int(piece.numbers[index]), problem.reason, problem.detail, piece.raw(index))
        for index, problem in problems.items()
    ]
    rejects = sorted([*rejects, *piece.rejects], key=lambda reject: reject.row)
    return Clean(count + len(piece.rejects), table, rejects, excess)


def _converted(column: Column, table: pa.Table) -> tuple[pa.Array, list[Problem]]:
    if column.name in table.column_names:
        return convert(column, table[column.name])
    if column.type == "text":
        return empty_texts(len(table)), []
    return pa.nulls(len(table), ARROW_TYPES[column.type]), []


def _note(problems: dict[int, Problem], found: Iterable[Problem]) -> None:
    for problem in found:
        problems.setdefault(problem.index, problem)


def _at(mask: Mask | None, describe: Callable[[int], tuple[str, str]]) -> list[Problem]:
    return [] if mask is None else [Problem(int(i), *describe(int(i))) for i in np.flatnonzero(mask)]


def _mask(flags: pa.Array) -> Mask:
    """True where true; unknown is not true."""
    found: Mask = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return found


def _missing(column: Column, values: pa.Array) -> list[Problem]:
    if not column.required:
        return []
    if column.type == "text":
        mask = matching(values, lambda texts: pc.equal(texts, ""))
    else:
        mask = _mask(values.is_null()) if values.null_count else None
    return _at(mask, lambda _: (f"missing_{column.name}", f"{column.name} is empty: a value is needed"))


def _unknown(column: Column, values: pa.DictionaryArray) -> list[Problem]:
    allowed = pa.array([*column.choices, ""])
    mask = matching(values, lambda texts: pc.invert(pc.is_in(texts, allowed)))
    choices = ", ".join(column.choices)
    return _at(
        mask,
        lambda i: (f"unknown_{column.name}", f"{column.name} {values[i].as_py()[:200]!r}: expected one of {choices}"),
    )


def _bad_times(column: Column, values: pa.Array, now: datetime) -> list[Problem]:
    latest = pa.scalar(now + FUTURE_TOLERANCE, TIME)
    earliest = pa.scalar(EARLIEST, TIME)
    bounds = pc.min_max(values)
    found = []
    if bounds["max"].is_valid and bounds["max"].as_py() > latest.as_py():
        found += _at(
            _mask(pc.greater(values, latest)),
            lambda i: ("future_timestamp", f"{column.name} {values[i]}: expected at most an hour after {now:%FT%TZ}"),
        )
    if bounds["min"].is_valid and bounds["min"].as_py() < EARLIEST:
        found += _at(
            _mask(pc.less(values, earliest)),
            lambda i: (f"out_of_range_{column.name}", f"{column.name} {values[i]}: expected after {EARLIEST:%F}"),
        )
    return found


def _out_of_range(column: Column, values: pa.Array) -> list[Problem]:
    found = []
    if column.type == "float":
        kept = values.cast(pa.float32(), safe=False) if column.name in NARROW else values
        total = pc.sum(pc.multiply(kept, 0.0)).as_py()
        if total is not None and total != 0.0:
            odd = _mask(pc.invert(pc.is_finite(kept)))
            found += _at(odd, lambda i: ("not_a_number", f"{column.name} {values[i]}: expected a finite number"))
    if column.minimum is None and column.maximum is None:
        return found
    low, high = column.minimum, column.maximum
    bounds = pc.min_max(values)
    lowest, highest = bounds["min"].as_py(), bounds["max"].as_py()
    if (low is not None and lowest is not None and lowest < low) or (
        high is not None and highest is not None and highest > high
    ):
        outside = np.zeros(len(values), bool)
        numbers = values.cast(pa.float64(), safe=False)  # whole ones above 2^53, too
        if low is not None:
            outside |= _mask(pc.less(numbers, pa.scalar(low, pa.float64())))
        if high is not None:
            outside |= _mask(pc.greater(numbers, pa.scalar(high, pa.float64())))
        found += _at(
            outside,
            lambda i: (f"out_of_range_{column.name}", f"{column.name} {values[i]}: expected {expected(column)}"),
        )
    return found


def expected(column: Column) -> str:
    """The range of a column in words."""
    if column.maximum is None:
        return f"{column.minimum:g} or more"
    return f"{column.minimum:g} to {column.maximum:g}"


def _excess(maximum: float, values: pa.Array) -> Excess:
    highest = pc.max(values).as_py()
    if highest is None:
        return Excess(0, 0, 0.0)
    counted = pc.sum(pc.greater(values, 0.0)).as_py() or 0
    if not highest > maximum:
        return Excess(0, counted, 0.0)
    above = pc.greater(values, maximum)
    return Excess(pc.sum(above).as_py(), counted, values.filter(above)[0].as_py())


def _usable(states: pa.DictionaryArray) -> Mask | None:
    return matching(states, lambda texts: pc.is_in(texts, pa.array(USABLE_STATES)))


def _without_unusable(states: pa.DictionaryArray, utilization: pa.Array) -> pa.Array:
    """Clears values in rows whose state carries no value."""
    blank = matching(states, lambda texts: pc.invert(pc.is_in(texts, pa.array([*USABLE_STATES, ""]))))
    if blank is None or not _mask(utilization.is_valid())[blank].any():
        return utilization
    return pc.if_else(pa.array(blank), pa.scalar(None, pa.float64()), utilization)


def _contradictions(states: pa.DictionaryArray, utilization: pa.Array) -> list[Problem]:
    found = []
    if utilization.null_count and (usable := _usable(states)) is not None:
        found += _at(
            usable & _mask(utilization.is_null()),
            lambda i: ("missing_utilization", f"state {states[i].as_py()} without utilization: expected 0 to 1"),
        )
    idle = matching(states, lambda texts: pc.equal(texts, "idle"))
    if idle is not None:
        active = idle & _mask(pc.greater(utilization, 0.0))
        found += _at(active, lambda i: ("idle_but_active", f"state idle with utilization {utilization[i]}: expected 0"))
    return found
