"""Requests: what is there twice, or is no field or parameter of ours, is refused, not passed over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any, get_origin

from fastapi import Request, Response
from fastapi.dependencies.utils import get_flat_params
from fastapi.exceptions import RequestValidationError
from fastapi.params import Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from warehouse.json_text import parse_json


class Body(BaseModel):
    """The base of everything that a route takes as its body."""

    model_config = ConfigDict(extra="forbid")


class StrictRoute(APIRoute):
    """Reads JSON as files are read: no key twice, no number that is none, not too deep. Takes the parameters that it
    describes, and those that are no list once: of a mistyped one the answer would be to another question."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        fields = [field for field in get_flat_params(self.dependant) if isinstance(field.field_info, Query)]
        known = {field.alias for field in fields}
        lists = {field.alias for field in fields if get_origin(field.field_info.annotation) in (list, set, tuple)}

        async def handler(request: Request) -> Response:
            given = Counter(name for name, _ in request.query_params.multi_items())
            for name, times in given.items():
                if name not in known:
                    fit = ", ".join(sorted(known)) or "none"
                    raise _refused(name, f"no parameter here; these are: {fit}")
                if times > 1 and name not in lists:
                    raise _refused(name, "given twice")
            return await handle(_StrictRequest(request.scope, request.receive))

        return handler


def _refused(name: str, what: str) -> RequestValidationError:
    return RequestValidationError([{"type": "parameter", "loc": ("query", name[:60]), "msg": what}])


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            return parse_json(body)
        except json.JSONDecodeError:
            raise  # the framework says where
        except ValueError as error:
            raise json.JSONDecodeError(str(error), body.decode("utf-8", errors="replace"), 0) from error
