"""Checks rows against the contract one at a time and without pyarrow, for agents, before they spool.

A row that passes here also passes `normalise`, which has the last word; both use the same names for reasons. Bad rows
are sent separately, so that they reach the quarantine without delaying good ones.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from warehouse.records import MOST_NARROW, NARROW, USABLE_STATES, WHOLE, Column, ColumnType, RecordType

FUTURE_TOLERANCE = timedelta(hours=1)
"""How far a clock may run ahead of ours before its stamps are refused."""
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
"""No GPU was shared before; an earlier stamp is a clock that was never set."""

Row = Mapping[str, Any]


@dataclass
class Checked:
    """good, bad: rows in order.   reasons: of the bad ones.   example: what is wrong with the first of them."""

    good: list[Row] = field(default_factory=list)
    bad: list[Row] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    example: str = ""


def check_rows(record: RecordType, rows: Iterable[Row], now: datetime) -> Checked:
    """Separates valid rows from invalid ones; a value is None, text, a bool, a number or an aware datetime."""
    checked = Checked()
    rules = _Rules(record)
    for row in rows:
        problem = rules.problem_of(row, now)
        if problem is None:
            checked.good.append(row)
            continue
        reason, detail = problem
        checked.bad.append(row)
        checked.reasons[reason] += 1
        checked.example = checked.example or detail
    return checked


def problem_of(record: RecordType, row: Row, now: datetime) -> tuple[str, str] | None:
    """The first thing wrong with a row: reason and detail; None if the row is valid."""
    return _Rules(record).problem_of(row, now)


class _Rules:
    """A record type's rules, prepared once: they are applied to every row that an agent sends."""

    def __init__(self, record: RecordType) -> None:
        self._required = record.required
        self._columns = {column.name: (column, _CHECKS[column.type]) for column in record.columns}
        self._plain = frozenset(c.name for c in record.columns if c.type == "text" and not c.choices)
        self._bounds = {c.name: _bounds(c) for c in record.columns if c.type == "float"}
        self._is_samples = record.name == "samples"

    def problem_of(self, row: Row, now: datetime) -> tuple[str, str] | None:
        for name in self._required:
            if row.get(name) in (None, ""):
                return f"missing_{name}", f"{name} is empty: a value is needed"
        for name, value in row.items():
            # First what is nearly always so, at little cost.
            if value is None or value == "" or (name in self._plain and type(value) is str and value.isascii()):
                continue
            if type(value) is float and name in self._bounds:
                low, high = self._bounds[name]
                if low <= value <= high:
                    continue
            if name in self._columns:
                column, check = self._columns[name]
                problem = check(column, value, now)
                if problem is not None:
                    return problem
        return _contradiction(row) if self._is_samples else None


def _bounds(column: Column) -> tuple[float, float]:
    """No infinity lies within, and no NaN."""
    low, high = column.minimum, column.maximum
    largest = _most(column)
    return (-largest if low is None else low, largest if high is None else high)


def _time(column: Column, value: Any, now: datetime) -> tuple[str, str] | None:
    if not isinstance(value, datetime) or value.tzinfo is None:
        return "bad_time", f"{column.name} {value!r}: expected an aware time"
    if value > now + FUTURE_TOLERANCE:
        return "future_timestamp", f"{column.name} {value}: expected at most an hour after {now:%FT%TZ}"
    if value < EARLIEST:
        return f"out_of_range_{column.name}", f"{column.name} {value}: expected after {EARLIEST:%F}"
    return None


def _text(column: Column, value: Any, now: datetime) -> tuple[str, str] | None:
    if not isinstance(value, str):
        return "not_text", f"{column.name} {value!r}: expected text"
    try:
        value.encode()
    except UnicodeEncodeError:
        return "bad_json", f"{column.name} {value!r}: it has no UTF-8 form"
    if column.choices and value not in column.choices:
        return f"unknown_{column.name}", f"{column.name} {value!r}: expected one of {', '.join(column.choices)}"
    return None


def _float(column: Column, value: Any, now: datetime) -> tuple[str, str] | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "not_a_number", f"{column.name} {value!r}: expected a number"
    if not _finite(value) or abs(value) > _most(column):
        return "not_a_number", f"{column.name} {str(value)[:200]}: expected a finite number"
    return _range(column, value)


def _most(column: Column) -> float:
    return MOST_NARROW if column.name in NARROW else sys.float_info.max


def _whole(column: Column, value: Any, now: datetime) -> tuple[str, str] | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        return "not_a_number", f"{column.name} {str(value)[:200]}: expected a whole number"
    if value != int(value):
        return "not_a_whole_number", f"{column.name} {value!r}: expected a whole number"
    low, high = WHOLE[column.type]
    if not low <= value <= high:
        return f"out_of_range_{column.name}", f"{column.name} {value}: expected {column.whole_range()}"
    return _range(column, value)


def _finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float holds
        return False


def _bool(column: Column, value: Any, now: datetime) -> tuple[str, str] | None:
    if not isinstance(value, bool):
        return "not_a_boolean", f"{column.name} {value!r}: expected true or false"
    return None


def _range(column: Column, value: float) -> tuple[str, str] | None:
    low, high = column.minimum, column.maximum
    if (low is not None and value < low) or (high is not None and value > high):
        to = "or more" if high is None else f"to {high:g}"
        return f"out_of_range_{column.name}", f"{column.name} {value}: expected {low:g} {to}"
    return None


_CHECKS: Mapping[ColumnType, Callable[[Column, Any, datetime], tuple[str, str] | None]] = {
    "time": _time,
    "text": _text,
    "float": _float,
    "uint": _whole,
    "int": _whole,
    "bool": _bool,
}


def _contradiction(row: Row) -> tuple[str, str] | None:
    state, utilization = row["state"], row.get("utilization")
    if state in USABLE_STATES and utilization is None:
        return "missing_utilization", f"state {state} without utilization: expected 0 to 1"
    if state == "idle" and utilization:
        return "idle_but_active", f"state idle with utilization {utilization}: expected 0"
    return None
