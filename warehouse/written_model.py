"""The base of models of what people and programs write, in files and in requests."""

from __future__ import annotations

import typing
from decimal import Decimal
from fractions import Fraction
from functools import cache
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

NUMBERS = frozenset({int, float, Decimal, Fraction})


def _no_boolean(value: Any) -> Any:
    if _has_boolean(value):
        raise PydanticCustomError("number_type", "expected a number, neither true nor false")
    return value


Number = Annotated[float, BeforeValidator(_no_boolean)]
"""For models of several kinds, which pydantic tells apart by a field that nothing may look at before."""


class Written(BaseModel):
    """Where it has numbers, true and false are none; to Python they are 1 and 0."""

    @field_validator("*", mode="before")
    @classmethod
    def _numbers_are_numbers(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, bool | list | tuple | dict):
            annotation: Any = cls.model_fields[str(info.field_name)].annotation
            kinds = _kinds(annotation)
            if kinds & NUMBERS and bool not in kinds:
                return _no_boolean(value)
        return value


def _has_boolean(value: Any) -> bool:
    if isinstance(value, dict | list | tuple):
        return any(isinstance(one, bool) for one in (value.values() if isinstance(value, dict) else value))
    return isinstance(value, bool)


@cache
def _kinds(annotation: Any) -> frozenset[Any]:
    """The types of which values may be, in lists and mappings too."""
    if typing.get_origin(annotation) is typing.Literal:
        return frozenset(map(type, typing.get_args(annotation)))
    arguments = typing.get_args(annotation)
    return frozenset[Any]().union(*map(_kinds, arguments)) if arguments else frozenset({annotation})
