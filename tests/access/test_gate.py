"""The gate alone, asked as a server asks it: who gets through, who does not, and what each answer carries."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import logging
import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.types import Message, Receive, Scope, Send

from access import gate
from access.authenticator import Authenticator, token_in
from access.current import current, current_access
from access.gate import RECHECK_SECONDS, Gate, cookie_of, problem
from access.principal import ANYBODY, Principal
from access.roles import AccessError, Action, Role
from access.settings import AccessSettings
from warehouse.errors import StoreError

ANALYST = Principal("ann", frozenset({Role.analyst}))
POLICY = "default-src 'self'"
ASGI = {"type": "http.response.start", "status": 200}
ACCESS: Any = object()


class People:
    """An authenticator that knows one cookie and one token. was_asked: with which headers or cookie, and when."""

    def __init__(self, sign_in: bool = True, url: str = "") -> None:
        self.settings = AccessSettings(sign_in=sign_in, url=url)
        self.access = ACCESS
        self.was_asked: list[tuple[str, datetime]] = []
        self.failing: Exception | None = None
        self.gone = False

    def by_token(self, headers: Any, now: datetime) -> Principal | None:
        self.was_asked.append((token_in(headers), now))
        if self.failing:
            raise self.failing
        if token_in(headers) != "gpl_right":
            raise AccessError("token", "unknown", "Make one")
        return ANALYST

    def by_session(self, cookie: str, now: datetime) -> Principal | None:
        self.was_asked.append((cookie, now))
        if self.failing:
            raise self.failing
        return ANALYST if cookie == "right" and not self.gone else None

    def without_sign_in(self) -> Principal | None:
        return None if self.settings.sign_in else ANYBODY


class Asked:
    """One request. seen: who the route saw, if it was reached.   sent: what came back."""

    def __init__(
        self, people: People, door: Action | None = Action.see, answer: str = "text/plain", **more: Any
    ) -> None:
        headers = {"host": "ledger.test", **more.pop("headers", {})}
        self.scope: Scope = {
            "type": "http", "method": "GET", "path": "/costs", "query_string": b"", "scheme": "http", **more,
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in headers.items()],
        }  # fmt: skip
        self.people, self.answer, self.seen, self.sent = people, answer, [], cast("list[Message]", [])
        self.gate = Gate(self.route, cast("Authenticator", people), lambda: POLICY, lambda _: door)

    async def route(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.get("state", {})
        try:
            who = current()
        except PermissionError:
            who = None
        assert not state or (state["principal"], state["authenticator"]) == (who, self.people)
        assert not state or current_access() is ACCESS
        self.seen.append((who, state.get("tls")))
        if self.scope["type"] == "http":
            kind = [(b"content-type", self.answer.encode())] if self.answer else []
            await send({**ASGI, "headers": kind})
            await send({"type": "http.response.body", "body": b"x"})

    async def receive(self) -> Message:
        return {"type": "http.request", "body": b""}

    async def send(self, message: Message) -> None:
        self.sent.append(message)

    def run(self) -> Asked:
        asyncio.run(self.gate(self.scope, self.receive, self.send))
        return self

    @property
    def status(self) -> int:
        status: int = self.sent[0].get("status", self.sent[0].get("code"))
        return status

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode().lower(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def body(self) -> str:
        return b"".join(message.get("body", b"") for message in self.sent).decode()


def reckoned(people: People, scope: dict[str, Any], headers: dict[str, str]) -> tuple[int, str]:
    """docs/access.md, "other sites" and above: what comes back, and a word of it."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    token = "gpl_right" if scheme == "Basic" else token
    cookie = headers.get("cookie", "").partition("=")[2]
    changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD", "OPTIONS")
    if changes and scheme != "Bearer":
        site, origin = headers.get("sec-fetch-site"), headers.get("origin")
        if site is None and origin is None:
            if cookie and people.settings.sign_in and not token:
                return 403, "our own pages alone"
        elif site not in ("same-origin", "none") and (
            site is not None or origin not in ("http://ledger.test", "https://outer.test")
        ):
            return 403, "another site's page"
    if token:
        who = ANALYST if token == "gpl_right" else None
    else:
        who = ANALYST if cookie == "right" else None if people.settings.sign_in else ANYBODY
    if who is None and (scope["path"] != "/ping" or token):
        return 401, "unknown" if token else "sign in, or send"
    return 200, ""


WORDS: dict[str, tuple[str | None, ...]] = {
    "authorization": (None, None, "Bearer gpl_right", "Bearer gpl_wrong", "Basic eDpncGxfcmlnaHQ="),
    "cookie": (None, "gpuledger=right", "gpuledger=wrong"),
    "sec-fetch-site": (None, None, "same-origin", "none", "cross-site", "same-site"),
    "origin": (None, "http://ledger.test", "https://outer.test", "https://evil.test", "null"),
}


def test_who_asks_and_from_which_page_decides_whether_a_request_gets_through() -> None:
    dice = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    for _ in range(500):
        people = People(sign_in=dice.random() < 0.7, url=dice.choice(["", "http://outer.test"]))
        scope = {
            "type": dice.choice(["http", "http", "http", "websocket"]),
            "path": dice.choice(["/costs", "/costs", "/ping"]),
            "method": dice.choice(["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE"]),
        }  # fmt: skip
        headers = {name: value for name, values in WORDS.items() if (value := dice.choice(values)) is not None}
        if not people.settings.url and headers.get("origin") == "https://outer.test":
            del headers["origin"]
        asked = Asked(people, **scope, headers=headers).run()
        status, says = reckoned(people, scope, headers)
        case = (people.settings.sign_in, people.settings.url, scope, headers)
        assert bool(asked.seen) == (status == 200), case
        assert status != 403 or not people.was_asked, "it matters to nobody who they are"
        if scope["type"] == "websocket":
            assert asked.sent == ([] if status == 200 else [{"type": "websocket.close", "code": 1008}]), case
        else:
            assert (asked.status, says in asked.body) == (status, True), case


def test_what_is_neither_a_request_nor_a_websocket_is_none_of_its_business() -> None:
    asked = Asked(People(), type="lifespan").run()
    assert asked.seen == [(None, None)]
    assert not asked.people.was_asked


def test_nobody_without_a_cookie_is_looked_up_and_a_token_counts_before_one() -> None:
    for headers, what in (
        ({}, []),
        ({"cookie": "gpuledger=right"}, ["right"]),
        ({"cookie": "gpuledger=right", "authorization": "Bearer gpl_right"}, ["gpl_right"]),
    ):
        people = People()
        Asked(people, headers=headers).run()
        assert [text for text, _ in people.was_asked] == what
        assert all(datetime.now(UTC) - at < timedelta(minutes=5) for _, at in people.was_asked)


@pytest.mark.parametrize("path", ["/costs", "/ping"])
@pytest.mark.parametrize("door", [Action.sql, Action.issue, None])
def test_a_door_is_for_those_who_may_and_public_ones_for_all(door: Action | None, path: str) -> None:
    asked = Asked(People(), door, path=path, headers={"cookie": "gpuledger=right"}).run()
    is_let_in = door is not Action.issue or path == "/ping"
    assert asked.status == (200 if is_let_in else 403)
    assert asked.seen == ([(ANALYST, False)] if is_let_in else [])
    assert is_let_in or "requires the role admin, finance. Ask an admin" in asked.body


def test_a_store_that_cannot_be_asked_is_said_and_logged_and_nobody_is_let_in(caplog: pytest.LogCaptureFixture) -> None:
    people = People()
    people.failing = StoreError("chdb://x", "is away", "Wait")
    for path in ("/costs", "/ping"):
        asked = Asked(people, path=path, headers={"cookie": "gpuledger=right"}).run()
        assert (asked.status, asked.seen, "try again" in asked.body) == (503, [], True)
        assert "is away" not in asked.body
    assert [(one.levelno, "is away" in one.getMessage()) for one in caplog.records] == [(logging.ERROR, True)] * 2


@pytest.mark.parametrize(
    ("path", "query", "accept", "method", "to"),
    [
        ("/costs", b"", "text/html", "GET", "/sign-in?next=%2Fcosts"),
        ("/costs", b"a=1&b=\xff", "*/*, text/html", "GET", "/sign-in?next=%2Fcosts%3Fa%3D1%26b%3D%C3%BF"),
        ("/costs", b"a=1", "text/html", "HEAD", ""),
        ("/costs", b"a=1", "application/json", "GET", ""),
    ],
)
def test_a_browser_that_goes_to_a_page_is_sent_to_sign_in(
    path: str, query: bytes, accept: str, method: str, to: str
) -> None:
    asked = Asked(People(), path=path, query_string=query, method=method, headers={"accept": accept}).run()
    assert (asked.status, asked.headers.get("location", "")) == (303 if to else 401, to)
    assert ("www-authenticate" in asked.headers) == (not to)


def test_a_browser_that_may_not_is_told_so_and_not_sent_to_sign_in() -> None:
    headers = {"accept": "text/html", "cookie": "gpuledger=right"}
    assert Asked(People(), Action.issue, headers=headers).run().status == 403


SAFE = {
    "x-content-type-options": "nosniff", "x-frame-options": "DENY", "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin", "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}  # fmt: skip


@pytest.mark.parametrize("scheme", ["http", "https", "ws", "wss"])
@pytest.mark.parametrize("url", ["", "http://outer.test", "https://outer.test"])
def test_each_answer_says_what_a_browser_may_do_with_it(scheme: str, url: str) -> None:
    tls = scheme in ("https", "wss") or url.startswith("https")
    cookie = {"cookie": f"{'__Host-' if tls else ''}gpuledger=right"}
    for path, kind in itertools.product(
        ("/costs", "/assets/x.css", "/_dash-component-suites/x.js", "/_favicon.ico", "/assetsx", "/x/assets/"),
        ("text/plain", "text/html", "text/html; charset=utf-8", "application/json; a=text/html", ""),
    ):
        asked = Asked(People(url=url), path=path, scheme=scheme, headers=cookie, answer=kind).run()
        is_page, is_static = kind.startswith("text/html"), not path.startswith(("/costs", "/assetsx", "/x/"))
        assert asked.seen == [(ANALYST, tls)], (path, kind)
        assert asked.headers == {
            **SAFE, **({"strict-transport-security": "max-age=31536000"} if tls else {}),
            **({"content-type": kind} if kind else {}), **({} if is_static else {"cache-control": "no-store"}),
            "content-security-policy": POLICY if is_page else "default-src 'none'; frame-ancestors 'none'",
        }  # fmt: skip


def test_a_route_that_says_it_itself_has_the_last_word() -> None:
    asked = Asked(People(), headers={"cookie": "gpuledger=right"})

    async def says(_: Scope, __: Receive, send: Send) -> None:
        own = [
            (b"content-security-policy", b"sandbox"),
            (b"cache-control", b"max-age=5"),
            (b"x-frame-options", b"SAMEORIGIN"),
        ]
        await send({**ASGI, "headers": own})

    asked.gate = Gate(says, cast("Authenticator", asked.people), lambda: POLICY, lambda _: None)
    found = asked.run().headers
    assert (found["content-security-policy"], found["cache-control"]) == ("sandbox", "max-age=5")
    assert found["x-frame-options"] == "SAMEORIGIN"


@pytest.mark.parametrize(
    ("status", "title"),
    [(400, "Bad request"), (401, "Not signed in"), (403, "Forbidden"), (404, "Not found"), (405, "Method not allowed"),
     (409, "Conflict"), (413, "Too large"), (422, "Not understood"), (429, "Too many requests"),
     (503, "Not available"), (418, "Error")],
)  # fmt: skip
def test_an_error_is_a_problem_of_rfc_9457(status: int, title: str) -> None:
    answer = problem(status, "why", errors=[1])
    expected = {"type": "about:blank", "title": title, "status": status, "detail": "why", "errors": [1]}
    assert (answer.status_code, answer.media_type) == (status, "application/problem+json")
    assert json.loads(bytes(answer.body)) == expected
    assert answer.headers.get("www-authenticate") == ('Bearer realm="gpuledger"' if status == 401 else None)


@pytest.mark.parametrize(
    ("header", "found"),
    [("gpuledger=x", "x"), ("a=b; gpuledger=x; c=d", "x"), ("gpuledgers=x", ""), ("", ""), ("gpu[ledger=x", "")],
)
def test_a_cookie_is_the_one_of_that_name(header: str, found: str) -> None:
    assert cookie_of({"cookie": header}, "gpuledger") == found
    assert cookie_of({}, "gpuledger") == ""


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("headers", "token"),
    [
        ({"authorization": "Bearer gpl_x"}, "gpl_x"),
        ({"authorization": "bEARER   gpl_x "}, "gpl_x"),
        ({"authorization": "Bearer"}, ""),
        ({"authorization": basic("any:gpl_x")}, "gpl_x"),
        ({"authorization": basic("default:gpl_x:y")}, "gpl_x:y"),
        ({"authorization": basic("gpl_x:")}, "gpl_x"),
        ({"authorization": basic("gpl_x")}, "gpl_x"),
        ({"authorization": basic("default:")}, ""),
        ({"authorization": "basic  " + basic("a:b")[6:] + " "}, "b"),
        ({"authorization": "Basic =="}, "?"),
        ({"authorization": "Basic a*b"}, "?"),
        ({"authorization": "Basic " + base64.b64encode(b"\xff:\xff").decode()}, "?"),
        ({"x-clickhouse-key": "gpl_x"}, "gpl_x"),
        ({"authorization": "Digest gpl_y", "x-clickhouse-key": "gpl_x"}, "gpl_x"),
        ({"authorization": "Bearer gpl_y", "x-clickhouse-key": "gpl_x"}, "gpl_y"),
        ({"authorization": "Basic", "x-clickhouse-key": "gpl_x"}, ""),
        ({}, ""),
    ],
)
def test_a_token_is_brought_in_one_of_three_ways(headers: dict[str, str], token: str) -> None:
    assert token_in(headers) == token


class Lasting(Asked):
    """A request that goes on until it is broken off, or `rounds` times as long as it takes to be asked again."""

    def __init__(self, people: People, rounds: float, begins: bool = True, **more: Any) -> None:
        super().__init__(people, **more)
        self.rounds, self.begins, self.was_cancelled = rounds, begins, False

    async def route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.begins:
            await send({**ASGI, "headers": []})
        self.people.gone = True
        try:
            await asyncio.sleep(self.rounds * gate.RECHECK_SECONDS)
        except asyncio.CancelledError:
            self.was_cancelled = True
            raise
        await send({"type": "http.response.body", "body": b"done"})


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "RECHECK_SECONDS", 0.05)


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize("failing", [None, StoreError("chdb://x", "is away", "Wait")])
@pytest.mark.parametrize("begins", [True, False])
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_a_request_ends_with_its_session_and_says_why_where_it_still_can(
    caplog: pytest.LogCaptureFixture, kind: str, begins: bool, failing: Exception | None
) -> None:
    people = People()
    headers = {"cookie": "gpuledger=right", "sec-fetch-site": "same-origin"}
    asked = Lasting(people, 100, begins, type=kind, headers=headers)

    async def runs() -> None:
        going = asyncio.ensure_future(asked.gate(asked.scope, asked.receive, asked.send))
        while not people.gone:
            await asyncio.sleep(0)
        people.failing = failing
        await going
        assert asked.was_cancelled

    with caplog.at_level(logging.INFO):
        asyncio.run(runs())
    assert "done" not in asked.body
    if kind == "websocket":
        assert asked.sent[-1] == {"type": "websocket.close", "code": 1008}
    elif begins:
        assert len(asked.sent) == 1, "half of an answer stays half"
    else:
        assert (asked.status, "you are signed out" in asked.body) == (401, True)
    # What broke it off is for whoever looks after the server.
    broke = [one.getMessage() for one in caplog.records if "broken off" in one.getMessage()]
    assert [("is away" in one) for one in broke] == ([True] if failing else [])


@pytest.mark.usefixtures("often")
@pytest.mark.parametrize(
    ("sign_in", "path"), [(True, "/ping"), (True, "/sign-out"), (True, "/assets/x"), (False, "/costs")]
)
def test_what_needs_nobody_and_what_ends_a_session_itself_is_not_broken_off(sign_in: bool, path: str) -> None:
    people = People(sign_in)
    headers = {"cookie": "gpuledger=right"} if path == "/sign-out" else {}
    asked = Lasting(people, 3, path=path, headers=headers).run()
    assert (asked.status, asked.body) == (200, "done")
    assert len(people.was_asked) == (1 if headers else 0), "nor is it asked again"


def test_it_is_asked_again_as_often_as_the_documents_say() -> None:
    assert RECHECK_SECONDS == 2


@pytest.mark.usefixtures("often")
def test_what_a_route_raises_goes_on_to_the_server() -> None:
    async def fails(*_: Any) -> None:
        raise ZeroDivisionError

    asked = Asked(People(), headers={"cookie": "gpuledger=right"})
    asked.gate = Gate(fails, cast("Authenticator", asked.people), lambda: POLICY, lambda _: None)
    with pytest.raises(ZeroDivisionError):
        asked.run()


def test_nobody_is_at_hand_where_no_request_is_answered() -> None:
    nobody: Any = SimpleNamespace(settings=AccessSettings(sign_in=True))
    assert Authenticator.without_sign_in(nobody) is None
    assert Authenticator.without_sign_in(SimpleNamespace(settings=AccessSettings())) is ANYBODY  # type: ignore[arg-type]
