"""Converts jobs, grants, plans and nodes to and from JSON values, for the log, snapshots and HTTP.

Values that equal their default are left out, so that old logs can be read after a field was added.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, Union

from scheduler.model import Plan, Preempt, Resize, Start
from warehouse.errors import LedgerError

T = TypeVar("T")
Action = Start | Preempt | Resize
ACTIONS: Mapping[str, type[Start] | type[Preempt] | type[Resize]] = {
    "start": Start,
    "preempt": Preempt,
    "resize": Resize,
}


def plain(value: Any) -> Any:
    """A dataclass of the model as JSON values; sets become sorted lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(held)
            for field in dataclasses.fields(value)
            if (held := getattr(value, field.name)) != _default(field)
        }
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, frozenset | set):
        return sorted(plain(item) for item in value)
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def read(kind: type[T], document: Any, where: str) -> T:
    """The dataclass that the document describes.

    Errors: LedgerError naming the field: unknown, missing, or of another type.
    """
    if not isinstance(document, Mapping):
        raise LedgerError(where, f"is {_shown(document)}, not an object with the fields of a {kind.__name__}")
    model: Any = kind
    hints, fields = _hints(model), {field.name: field for field in dataclasses.fields(model)}
    unknown = sorted(set(document) - set(fields))
    if unknown:
        raise LedgerError(f"{where}.{unknown[0]}", "no such field", f"Known fields: {', '.join(fields)}")
    values = {name: _value(hints[name], item, f"{where}.{name}") for name, item in document.items()}
    missing = [name for name, field in fields.items() if name not in values and _default(field) is dataclasses.MISSING]
    if missing:
        raise LedgerError(where, f"has no {', '.join(missing)}")
    return kind(**values)


def plan_actions(plan: Plan) -> list[dict[str, Any]]:
    """A plan's actions in order; `do` names the kind of each."""
    names = {kind: name for name, kind in ACTIONS.items()}
    return [{"do": names[type(action)], **plain(action)} for action in plan.actions]


def read_actions(documents: Any, where: str) -> tuple[Action, ...]:
    return tuple(_action(document, f"{where}[{number}]") for number, document in enumerate(documents))


def _action(document: Mapping[str, Any], where: str) -> Action:
    kind = ACTIONS.get(str(document.get("do")))
    if kind is None:
        raise LedgerError(where, f"does {document.get('do')!r}", f"Expected one of {', '.join(ACTIONS)}")
    return read(kind, {key: value for key, value in document.items() if key != "do"}, where)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _value(hint: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in inner:
            return None
        return _value(next(part for part in inner if part is not type(None)), value, where)
    if origin is tuple:
        return tuple(_value(inner[0], item, f"{where}[{n}]") for n, item in enumerate(_of(list, value, where)))
    if origin is frozenset:
        return frozenset(_value(inner[0], item, where) for item in _of(list, value, where))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: _value(inner[1], item, f"{where}.{key}") for key, item in _of(dict, value, where).items()}
    if origin is typing.Literal:
        if value not in inner:
            raise LedgerError(where, f"is {_shown(value)}", f"Expected one of {', '.join(map(str, inner))}")
        return value
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return read(hint, value, where)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise LedgerError(where, "is more than can be counted") from None
    return _of(hint, value, where)


def _of(kind: Any, value: Any, where: str) -> Any:
    """The value, if it is of exactly that type: a bool is not an int here.   Errors: LedgerError."""
    if type(value) is not kind and not (kind is list and isinstance(value, tuple)):
        names = {str: "text", int: "a whole number", float: "a number", bool: "true or false", list: "a list"}
        raise LedgerError(where, f"is {_shown(value)}, not {names.get(kind, 'an object')}")
    return value


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
