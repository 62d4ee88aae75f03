"""Bodies of requests: what is there twice, or is no field of ours, is refused, not passed over."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict

from warehouse.json_text import parse_json


class Body(BaseModel):
    """The base of everything that a route takes as its body."""

    model_config = ConfigDict(extra="forbid")


class StrictRoute(APIRoute):
    """Reads JSON as files are read: no key twice, no number that is none, not too deep."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handler(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handler


class _StrictRequest(Request):
    async def json(self) -> Any:
        body = await self.body()
        try:
            return parse_json(body)
        except json.JSONDecodeError:
            raise  # the framework says where
        except ValueError as error:
            raise json.JSONDecodeError(str(error), body.decode("utf-8", errors="replace"), 0) from error
