"""Validates requests of the pages' callbacks before Dash sees them. Each is rebuilt from the callback's registration;
only the values come from the request, each with the type and size that its property allows. Dash itself trusts a
request's word about a callback's outputs, inputs and states.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from dash import Dash
from dash.dependencies import MATCH
from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from access.gate import problem
from api.applied_files import FILE_CHARACTERS
from warehouse.errors import LedgerError

PATH = "/_dash-update-component"
BODY_BYTES = 131_072
"""Of a callback, but for the one that carries a file."""
URL_CHARACTERS = 32_768
SEVERAL = 10_000
"""Of a pattern that stands for all elements of its kind."""

_Text = Annotated[str, Field(max_length=URL_CHARACTERS)]
_Count = Annotated[int, Field(ge=0, le=1 << 53, strict=True)]
_Meta = dict[Annotated[str, Field(max_length=100)], bool | Annotated[str, Field(max_length=1000)]]
_VALUES: Mapping[str, TypeAdapter[Any]] = {
    "pathname": TypeAdapter(Annotated[str, Field(max_length=2000)] | None),
    "search": TypeAdapter(_Text | None),
    "n_clicks": TypeAdapter(_Count | None),
    "n_intervals": TypeAdapter(_Count | None),
    "value": TypeAdapter(Annotated[str, Field(max_length=10_000)] | None),
    "data": TypeAdapter(_Text | Annotated[list[_Text], Field(max_length=10)] | None),
    "meta.data": TypeAdapter(Annotated[_Meta, Field(max_length=10)] | None),
    "applied-yaml.value": TypeAdapter(Annotated[str, Field(max_length=FILE_CHARACTERS)] | None),
}
"""By property, or by element and property."""
LARGE = "applied-yaml"


class CallbackError(LedgerError):
    """A request that none of our pages makes."""


class CallbackValidation:
    """ASGI middleware. The caller is authenticated already."""

    def __init__(self, app: ASGIApp, pages: Dash) -> None:
        self._app, self._pages = app, pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != PATH or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        try:
            asked = json.dumps(checked(await _read(Request(scope, receive)), self._pages.callback_map)).encode()
        except CallbackError as error:
            await problem(400, str(error))(scope, receive, send)
            return
        except ClientDisconnect:
            return
        waiting = [asked]

        async def again() -> Message:
            if waiting:
                return {"type": "http.request", "body": waiting.pop(), "more_body": False}
            return await receive()

        headers = [(name, value) for name, value in scope["headers"] if name not in _OF_THE_BODY]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(asked)).encode())]
        await self._app({**scope, "headers": headers}, again, send)


_OF_THE_BODY = (b"content-type", b"content-length", b"transfer-encoding", b"content-encoding")


async def _read(request: Request) -> Any:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES + 4 * FILE_CHARACTERS:
            raise CallbackError("callback", "is too large")
    if len(body) > BODY_BYTES and LARGE.encode() not in body:
        raise CallbackError("callback", f"has {len(body)} bytes: at most {BODY_BYTES}")
    try:
        return from_json(body)
    except ValueError as error:
        raise CallbackError("callback", "is not JSON") from error


def checked(asked: Any, registered: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The rebuilt request. Errors: CallbackError if it is not one of ours."""
    if not isinstance(asked, dict):
        raise CallbackError("callback", "is not an object")
    name = asked.get("output")
    callback = registered.get(name) if isinstance(name, str) else None
    if callback is None or "callback" not in callback:
        raise CallbackError("callback", "is not a registered one")
    inputs, states = (
        [_argument(one, given) for one, given in zip(callback[kind], _list(asked, kind, callback[kind]), strict=True)]
        for kind in ("inputs", "state")
    )
    matched = _matched(inputs)
    outputs = callback["output"]
    several = isinstance(outputs, list | tuple)
    written = [_output(one, matched) for one in (outputs if several else [outputs])]
    known = {_prop_id(one) for value in inputs for one in (value if isinstance(value, list) else [value])}
    changed = asked.get("changedPropIds", [])
    if not isinstance(changed, list) or len(changed) > SEVERAL:
        raise CallbackError("callback", "changedPropIds is not a list")
    return {
        "output": name,
        "outputs": written if several else written[0],
        "inputs": inputs,
        "state": states,
        "changedPropIds": [one for one in changed if isinstance(one, str) and one in known],
    }


def _list(asked: Mapping[str, Any], kind: str, expected: Sequence[Any]) -> Sequence[Any]:
    found = asked.get(kind, [])
    if not isinstance(found, list) or len(found) != len(expected):
        raise CallbackError("callback", f"wants {len(expected)} {kind}")
    return found


def _argument(registered: Mapping[str, str], given: Any) -> Any:
    """One element's value; a list of them for a pattern that stands for all."""
    pattern = _pattern(registered["id"])
    if isinstance(pattern, dict) and any(value == ["ALL"] for value in pattern.values()):
        if not isinstance(given, list) or len(given) > SEVERAL:
            raise CallbackError("callback", "wants a list of elements")
        return [_element(pattern, registered["property"], one) for one in given]
    return _element(pattern, registered["property"], given)


def _element(pattern: str | dict[str, Any], prop: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise CallbackError("callback", f"wants an element with {prop}")
    identity: str | dict[str, Any] = pattern
    if isinstance(pattern, dict):
        identity = _identity(pattern, given.get("id"))
    value = given.get("value")
    kind = _VALUES.get(f"{pattern}.{prop}") or _VALUES[prop]
    try:
        kind.validate_python(value)
    except ValidationError as error:
        raise CallbackError(f"callback, {prop}", "is of another type or size than the page's") from error
    return {"id": identity, "property": prop, "value": value}


def _identity(pattern: Mapping[str, Any], given: Any) -> dict[str, Any]:
    """The id of one element of a pattern."""
    if not isinstance(given, dict) or given.keys() != pattern.keys():
        raise CallbackError("callback", "names an element of another kind")
    for key, value in pattern.items():
        found = given[key]
        if isinstance(value, list):
            if not isinstance(found, str) or len(found) > 300:
                raise CallbackError("callback", "names an element of another kind")
        elif found != value:
            raise CallbackError("callback", "names an element of another kind")
    return {key: given[key] for key in pattern}


def _pattern(identity: str) -> str | dict[str, Any]:
    return dict(json.loads(identity)) if identity.startswith("{") else identity


def _matched(inputs: Sequence[Any]) -> Mapping[str, Any]:
    """The elements that the wildcards of one element match."""
    return next((one["id"] for one in inputs if isinstance(one, dict) and isinstance(one["id"], dict)), {})


def _output(output: Any, matched: Mapping[str, Any]) -> dict[str, Any]:
    identity = output.component_id
    if isinstance(identity, dict):
        identity = {key: matched[key] if value == MATCH else value for key, value in identity.items()}
    return {"id": identity, "property": output.component_property}


def _prop_id(one: Mapping[str, Any]) -> str:
    """As Dash writes it."""
    identity = one["id"]
    if isinstance(identity, dict):
        identity = json.dumps({key: identity[key] for key in sorted(identity)}, separators=(",", ":"))
    return f"{identity}.{one['property']}"
