"""The client has a method for every route, and asks it as the route wants to be asked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx

from gpuledger.client import ApiError, Client
from gpuledger.documents import PREFIX
from tests.api.test_api import ROUTES

WITHOUT: set[tuple[str, str]] = set()
"""Routes that are meant to have no method: none so far."""
VALUES = {
    "str": "x",
    "int": 1,
    "bool": True,
    "datetime": datetime(2026, 10, 1, tzinfo=UTC),
    "Sequence[str]": ["x"],
    "Mapping[str, Sequence[str]]": {"tenant": ["x"]},
    "Mapping[str, int | None]": {"samples": 1},
}


def asked_by_the_client(folder: Path) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each public method, and what it asks: (HTTP method, path)."""
    seen: list[tuple[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append((request.method, request.url.path.removeprefix(PREFIX)))
        return httpx.Response(418, json={"detail": "only looking"})

    client = Client("http://ledger")
    client._http = httpx.Client(base_url="http://ledger" + PREFIX, transport=httpx.MockTransport(answer))
    for name, method in inspect.getmembers(client, inspect.ismethod):
        if name.startswith("_") or name == "close":
            continue
        seen.clear()
        try:
            list(method(**arguments(method, folder)))
        except ApiError as refused:
            assert refused.status == 418, name
        assert len(seen) == 1, name
        yield name, seen[0]


def arguments(method: Any, folder: Path) -> dict[str, Any]:
    values = {**VALUES, "Path": folder / "x.csv"}
    wanted = inspect.signature(method).parameters.values()
    return {
        one.name: values[str(one.annotation)]
        for one in wanted
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    }


def test_every_route_has_a_method_and_every_method_a_route(tmp_path: Path) -> None:
    asked = dict(asked_by_the_client(tmp_path))
    routes = {(method, path) for method, path, _ in ROUTES}
    patterns = {route: re.compile(re.sub(r"\{\w+\}", "[^/]+", route[1])) for route in routes}
    met = {
        name: {route for route, pattern in patterns.items() if route[0] == verb and pattern.fullmatch(path)}
        for name, (verb, path) in asked.items()
    }
    assert [name for name, found in met.items() if not found] == []
    # `/alerts/{fingerprint}` fits `/alerts/silences`, too: a route is met by the method that meets it alone, or best.
    best = {min(found, key=lambda route: route[1].count("{")) for found in met.values()}
    assert routes - best == WITHOUT
