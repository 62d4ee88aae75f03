"""Requests: repeated or unknown fields and parameters are refused, not ignored."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, get_origin

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query
from fastapi.routing import APIRoute
from pydantic import ConfigDict, StringConstraints

from warehouse.json_text import parse_json
from warehouse.written_model import Written


class Body(Written):
    """The base of everything that a route takes as its body."""

    model_config = ConfigDict(extra="forbid")


ReasonText = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=1000)]
"""A reason that somebody gives, for the audit: blanks are none."""


class StrictRoute(APIRoute):
    """Reads JSON as files are read: no key twice, no number that is none, not too deep."""

    @functools.cached_property
    def parameters(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of its query parameters, and of those of them that are lists."""
        fields = [field for field in get_flat_params(self.dependant) if isinstance(field.field_info, Query)]
        lists = [field for field in fields if get_origin(field.field_info.annotation) in (list, set, tuple)]
        return frozenset(field.alias for field in fields), frozenset(field.alias for field in lists)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handler


def refuse_unknown(request: Request) -> None:
    """A parameter that the route does not describe, or one that is no list and appears twice: the answer would be to
    another question. To be asked once it is known that they may ask at all."""
    route = request.scope["route"]
    assert isinstance(route, StrictRoute)
    known, lists = route.parameters
    for name, times in Counter(name for name, _ in request.query_params.multi_items()).items():
        what = ""
        if name not in known:
            what = f"no parameter here; these are: {', '.join(sorted(known)) or 'none'}"
        elif times > 1 and name not in lists:
            what = "given twice"
        if what:
            raise RequestValidationError([{"type": "parameter", "loc": ("query", name[:60]), "msg": what}])


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            return parse_json(body)
        except json.JSONDecodeError:
            raise  # the framework says where
        except ValueError as error:
            raise json.JSONDecodeError(str(error), body.decode("utf-8", errors="replace"), 0) from error
