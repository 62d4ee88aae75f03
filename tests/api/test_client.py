"""The client has a method for every route, and asks it as the route wants to be asked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from gpuledger.client import NO_ANSWER, ApiError, Client
from gpuledger.documents import PREFIX
from ingest.prompt_client import PromptClient
from tests.api.test_api import ROUTES
from tests.ports import free_port
from tests.slow_answers import answering

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


def answer(head: str, body: str = "", more: str = "") -> list[bytes]:
    return [f"HTTP/1.1 {head}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{more}\r\n{body}".encode()]


PROBLEM = "Content-Type: application/problem+json\r\n"
HTML = "Content-Type: text/html\r\n"
ANSWERS = {
    "nothing at all": (
        [],
        "hung up without an answer. Did the server stop? Then ask again. If it speaks TLS, its address begins with "
        "https://",
    ),
    "half an answer": (
        [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"],
        r"broke off: peer closed .*\. Did the server stop\? Ask again",
    ),
    "a proxy's page": (answer("502 No", "<html>", HTML), "answers 502. Its log says why, or that of a proxy before it"),
    "our own error": (
        answer("500 No", '{"detail": "an internal error"}', PROBLEM), "an internal error"
    ),
    "another server": (answer("404 No", '{"detail": "Not Found"}'), "answers 404. " + NO_ANSWER),
    "a redirect": (
        answer("307 No", "", "Location: https://there/\r\n"),
        "answers 307. It leads to https://there/: give that server's address",
    ),
    "no token": (
        answer("401 No", '{"detail": "sign in."}', PROBLEM),
        r"sign in\. Give the token of somebody who may: gpuledger tokens create \(docs/access.md\)",
    ),
    "no JSON": (answer("200 OK", "<html>", HTML), "answers no JSON. " + NO_ANSWER),
    "another version": (
        answer("200 OK", "{}"), r"says what this client does not know \(.*\)\. Use the same version on both sides"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_no_answer_is_one_line_that_says_where_what_and_the_next_step(name: str, tmp_path: Path) -> None:
    pieces, said = ANSWERS[name]
    pattern = said if "\\" in said else re.escape(said)
    with answering(partial(iter, pieces)) as url:
        where = url.rstrip("/")
        for http in (httpx.Client, PromptClient):
            with Client(url, "x", http=http) as client, pytest.raises(ApiError) as refused:
                client.me()
            assert re.fullmatch(rf"{re.escape(where)}: {pattern}", str(refused.value)), str(refused.value)
        if pieces and "200 OK" not in str(pieces):
            with Client(url, "x") as client, pytest.raises(ApiError) as refused:
                client.export_focus("2026-10", tmp_path / "x.csv")
            assert re.fullmatch(rf"{re.escape(where)}: {pattern}", str(refused.value)), str(refused.value)


def test_who_is_not_there_is_named_with_the_systems_reason_and_no_number() -> None:
    with answering(lambda: iter([b"not TLS"])) as plain:
        for url, said in (
            (f"http://127.0.0.1:{free_port()}", "cannot be reached: Connection refused. Is the server running"),
            ("http://nowhere.invalid:80", "cannot be reached: "),
            (plain.replace("http:", "https:").rstrip("/"), "cannot be reached: TLS failed: .*begins with http://"),
            ("ledger:8443", "is no address of a server. Write it like https://ledger:8443"),
            ("http://[::1", "is no address of a server"),
        ):
            with pytest.raises(ApiError, match=f"^{re.escape(url)}: {said}") as refused:
                Client(url).me()
            assert "[Errno" not in str(refused.value) and "\n" not in str(refused.value)


def test_a_server_that_is_slow_is_told_from_one_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuledger.client.TIMEOUT_SECONDS", 0.2)
    with answering(lambda: iter([b"HTTP/1.1 200 OK\r\n"]), 30.0) as url:
        for http in (httpx.Client, PromptClient):
            with pytest.raises(ApiError, match=r"has not answered in time\. Ask for less"):
                Client(url, http=http).me()


def test_a_token_is_never_repeated_and_may_end_with_a_line(tmp_path: Path) -> None:
    """httpx repeats the header that it cannot send."""
    seen: list[str] = []

    def told(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["authorization"])
        return httpx.Response(418, json={})

    def http(**more: Any) -> httpx.Client:
        return httpx.Client(**{**more, "transport": httpx.MockTransport(told)})

    with pytest.raises(ApiError):
        Client("http://ledger/api/v1/", " gpl_secret\n", http=http).me()
    assert seen == ["Bearer gpl_secret"]
    for token in ("gpl_sec\nret", "gpl_sécret"):
        with answering(lambda: iter([])) as url, pytest.raises(ApiError, match="with this token") as refused:
            Client(url, token).me()
        assert "gpl_" not in str(refused.value)
    (tmp_path / "ca.pem").write_text("no certificate")
    for file in ("ca.pem", "none.pem"):
        with pytest.raises(ApiError, match=rf"{file}: cannot be used: .*It holds certificates in PEM"):
            Client("https://ledger", ca_file=tmp_path / file)
