"""The sign-in page and what it posts to, behind the gate and with a store in memory: pages, cookies, limits, audit."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from access import sign_in
from access.authenticator import Authenticator
from access.gate import Gate
from access.oidc import Identity, OidcError
from access.people import add_person, list_people
from access.proxies import Proxies
from access.roles import Role
from access.sessions import Signer
from access.settings import AccessSettings, Oidc
from access.store import AccessStore, connect
from access.words import words
from tests.patience import PATIENCE_SECONDS
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
PASSWORD, HERE, ISSUER = "correct horse battery", "192.0.2.7", "https://login.example.org"
SETTINGS = AccessSettings(sign_in=True, key=b"k" * 32, session=timedelta(hours=3))
OIDC = Oidc(issuer=ISSUER, client_id="x", roles={})
OURS = {"sec-fetch-site": "same-origin"}


@dataclass
class FakeProvider:
    """Sends browsers there and takes everybody back, or fails."""

    failing: Exception | None = None
    finished: list[tuple[Any, ...]] = field(default_factory=list)
    roles: frozenset[Role] = frozenset({Role.analyst})

    def begin(self) -> tuple[str, dict[str, str]]:
        if self.failing:
            raise self.failing
        return f"{ISSUER}/go", {"state": "s", "nonce": "n", "verifier": "v"}

    def finish(self, query: Any, note: Any, now: datetime) -> Identity:
        self.finished.append((query, note, now))
        if self.failing:
            raise self.failing
        return Identity(ISSUER, "1", "eve", self.roles, frozenset())


class House:
    def __init__(self, access: AccessStore) -> None:
        self.access, self.refused = access, list[Any]()
        self.provider = FakeProvider()
        self.authenticator: Authenticator

    def browser(self, settings: AccessSettings = SETTINGS, tls: bool = False, address: str = HERE) -> TestClient:
        self.authenticator = Authenticator(self.access, settings)
        if settings.oidc:
            cast("Any", self.authenticator).provider = self.provider
        gate = Gate(
            Starlette(routes=sign_in.routes()), self.authenticator, lambda: "default-src 'self'", lambda _: None
        )
        return TestClient(
            gate,
            f"http{'s' if tls else ''}://ledger.test",
            client=(address, 4000),
            follow_redirects=False,
            headers=OURS,
        )


@pytest.fixture
def house(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(AccessStore, "note", lambda *_: None)
    with connect("sqlite://", None, cast("Store", None)) as access:
        found = House(access)
        monkeypatch.setattr(sign_in.audit, "record", lambda *given: found.refused.append(given[1:]))
        for name in ("ada", "bob"):
            add_person(access, "root", NOW, name, PASSWORD, ["analyst"])
        yield found


class Read(HTMLParser):
    """What a page says: its title, its alert, its links, its fields."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.language, self.alert = "", ""
        self.fields: dict[str, str] = {}
        self.links: list[str] = []
        self.texts: list[str] = []
        self._alerts = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._alerts = found.get("role") == "alert"
        if tag == "html":
            self.language = found["lang"]
        if tag == "input":
            self.fields[found["name"]] = found.get("value", "")
        if tag == "a":
            self.links.append(found["href"])

    def handle_data(self, data: str) -> None:
        self.alert += data if self._alerts else ""
        self.texts.append(data.strip())

    def handle_endtag(self, tag: str) -> None:
        self._alerts = False


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("", "en"),
        ("zh", "zh"),
        ("ZH-cn,en;q=0.5", "zh"),
        (" zh-TW", "zh"),
        ("en,zh", "en"),
        ("de", "en"),
        ("xzh", "en"),
    ],
)
def test_the_page_speaks_the_language_that_comes_first(house: House, accepted: str, language: str) -> None:
    browser = house.browser(replace(SETTINGS, oidc=OIDC, url="http://x.org"))
    page = Read(browser.get("/sign-in", headers={"accept-language": accepted}).text)
    say = words(accepted)
    assert (page.language, say["language"]) == (language, language)
    for word in ("title", "user", "password", "enter", "single"):
        assert say[word] in page.texts
    assert page.texts.count(say["title"]) >= 1 and f"{say['title']} · gpuledger" in page.texts
    assert "gpuledger" in page.texts, "people see what asks for their password"


@pytest.mark.parametrize(
    ("query", "language"),
    [
        ("lang=zh", "zh"),
        ("next=%2Fnow%3Fidle%3D1%26lang%3Dzh", "zh"),
        ("lang=en&next=%2Fnow%3Flang%3Dzh", "en"),
        ("next=%2Fnow%3Flang%3D", "en"),
        ("next=%2F%2Fevil.org%3Flang%3Dzh", "en"),
        ("lang=%22%3E%3Cscript%3E", "en"),
    ],
)
def test_the_page_speaks_the_language_of_the_link_that_led_to_it(house: House, query: str, language: str) -> None:
    browser = house.browser(replace(SETTINGS, oidc=OIDC, url="http://x.org"))
    page = Read(browser.get(f"/sign-in?{query}", headers={"accept-language": "en"}).text)
    assert page.language == language
    assert words(language)["enter"] in page.texts


def test_both_languages_say_the_same_things() -> None:
    english, chinese = words("en"), words("zh")
    assert english.keys() == chinese.keys()
    assert all(english[word] != chinese[word] for word in english)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("single", [True, False])
def test_the_page_shows_the_ways_in_that_there_are(house: House, local: bool, single: bool) -> None:
    settings = replace(SETTINGS, local_users=local, oidc=OIDC if single else None)
    answer = house.browser(settings).get("/sign-in?next=/costs%3Fa=%22%3E%3Cb%3E")
    page = Read(answer.text)
    assert (answer.status_code, page.alert, "<b>" in answer.text) == (200, "", False)
    assert page.fields == ({"next": '/costs?a="><b>', "name": "", "password": ""} if local else {})
    assert page.links == (["/sign-in/oidc?next=/costs%3Fa%3D%22%3E%3Cb%3E"] if single else [])


def test_single_sign_on_comes_back_to_the_whole_address(house: House) -> None:
    """As found: it was cut at the first `&`, so that a page came back without its other filters."""
    then = "/workloads?period=2026-10&tenant=a%26b&workload=c%20d"
    browser = single(house)
    (link,) = Read(browser.get("/sign-in", params={"next": then}).text).links
    browser.get(link)
    assert browser.get("/sign-in/oidc/callback?code=c").headers["location"] == then


def cookie(answer: Any) -> dict[str, dict[str, str]]:
    """Of each cookie that is set: its value and what goes with it, lower case."""
    found = {}
    for text in answer.headers.get_list("set-cookie"):
        (name, value), *more = (part.strip().partition("=")[::2] for part in text.split(";"))
        found[name] = {"": value, **{key.lower(): said.lower() for key, said in more}}
    return found


@pytest.mark.parametrize("tls", [True, False])
def test_who_signs_in_has_a_session_and_a_browser_that_is_known(house: House, tls: bool) -> None:
    answer = house.browser(tls=tls).post("/sign-in", data={"name": "ada", "password": PASSWORD, "next": "/costs?a=1"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/costs?a=1")
    prefix = "__Host-" if tls else ""
    found = cookie(answer)
    assert found.keys() == {f"{prefix}gpuledger", f"{prefix}gpuledger-device"}
    for name, seconds in (("gpuledger", 3 * 3600), ("gpuledger-device", 400 * 86_400)):
        one = found[prefix + name]
        assert (one["max-age"], one["path"], one["samesite"]) == (str(seconds), "/", "lax")
        assert "httponly" in one and ("secure" in one) is tls
    who = house.authenticator.by_session(found[f"{prefix}gpuledger"][""], datetime.now(UTC))
    assert who is not None and who.name == "ada"
    note = Signer(b"k" * 32).open("device of ada", found[f"{prefix}gpuledger-device"][""], datetime.now(UTC))
    assert note is not None
    left = datetime.fromtimestamp(note["until"], UTC) - datetime.now(UTC)
    assert timedelta(days=399, hours=23) < left <= timedelta(days=400)
    assert house.refused == []


def test_a_browser_that_is_known_stays_the_same_one(house: House) -> None:
    browser, form = house.browser(), {"name": "ada", "password": PASSWORD}

    def device(answer: Any) -> str:
        note = house.authenticator.signer.open(
            "device of ada", cookie(answer)["gpuledger-device"][""], datetime.now(UTC)
        )
        assert note is not None
        return str(note["id"])

    first = device(browser.post("/sign-in", data=form))
    assert device(browser.post("/sign-in", data=form)) == first
    assert len(first) == 16
    other = house.browser()
    assert device(other.post("/sign-in", data=form)) != first


def tried(browser: TestClient, name: str = "ada", password: str = "wrong horse battery", **more: Any) -> Any:
    return browser.post("/sign-in", data={"name": name, "password": password, "next": "/x"}, **more)


def test_a_wrong_password_is_refused_noted_and_after_five_it_is_waited_for(house: House) -> None:
    browser = house.browser()
    for _ in range(5):
        answer = tried(browser, "ada<b>")
        page = Read(answer.text)
        assert (answer.status_code, page.alert, cookie(answer)) == (401, words("")["refused"], {})
        assert page.fields == {"next": "/x", "name": "ada<b>", "password": ""}
    entry = ("nobody", "access.refused", "ada<b>", "", {"address": HERE, "how": "password"})
    assert [given[1:] for given in house.refused] == [entry] * 5
    answer = tried(browser, "ada<b>")
    page = Read(answer.text)
    assert (answer.status_code, page.alert) == (429, words("")["wait"])
    assert page.fields == {"next": "/x", "name": "ada<b>", "password": ""}
    assert 200 <= int(answer.headers["retry-after"]) <= 301
    assert len(house.refused) == 5, "it was not looked at"
    assert tried(browser, "bob", PASSWORD).status_code == 303


def test_success_takes_its_own_attempt_back(house: House) -> None:
    browser = house.browser()
    for _ in range(40):
        browser.cookies.clear()
        assert tried(browser, "ada", PASSWORD).status_code == 303


def test_a_known_browser_has_guesses_of_its_own(house: House) -> None:
    browser = house.browser()
    tried(browser, "ada", PASSWORD)
    known = {name: value for name, value in browser.cookies.items() if "device" in name}
    for _ in range(9):
        browser.cookies.clear()
        last = tried(browser)
    assert last.status_code == 429
    browser.cookies.update(known)
    assert tried(browser, "ada", PASSWORD).status_code == 303
    assert tried(browser, "bob", PASSWORD).status_code == 303
    browser.cookies.clear()
    assert tried(browser, "ada", PASSWORD).status_code == 429


def test_names_are_looked_at_up_to_one_character_too_long(house: House) -> None:
    browser = house.browser()
    for length in (200, 201, 5000):
        answer = tried(browser, "n" * length)
        assert Read(answer.text).fields["name"] == "n" * min(length, 201)
        assert house.refused[-1][-3] == "n" * min(length, 201)


@pytest.mark.parametrize(("size", "is_read"), [(16_384, True), (16_385, False)])
def test_a_form_has_up_to_16_kib(house: House, size: int, is_read: bool) -> None:
    body = f"name=ada&password={PASSWORD.replace(' ', '+')}&x=".encode()
    answer = house.browser().post("/sign-in", content=body + b"x" * (size - len(body)))
    assert answer.status_code == (303 if is_read else 401)


def test_what_a_form_leaves_out_is_empty_and_what_is_no_text_is_no_error(house: House) -> None:
    browser = house.browser()
    for body in (b"", b"name=%ff&password=\xff", b"next=//evil.example&name=ada"):
        answer = browser.post("/sign-in", content=body)
        assert answer.status_code == 401
        assert Read(answer.text).fields["next"] == "/"


def test_where_there_are_no_local_users_none_is_looked_at(house: House) -> None:
    answer = tried(house.browser(replace(SETTINGS, local_users=False, oidc=OIDC)), "ada", PASSWORD)
    assert (answer.status_code, Read(answer.text).alert, cookie(answer)) == (403, words("")["refused"], {})
    assert Read(answer.text).links == ["/sign-in/oidc?next=/"]


def test_signing_out_ends_the_session_and_takes_its_cookie(house: House) -> None:
    for tls in (False, True):
        browser, name = house.browser(tls=tls), f"{'__Host-' if tls else ''}gpuledger"
        tried(browser, "ada", PASSWORD)
        session = browser.cookies[name]
        answer = browser.post("/sign-out")
        assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")
        gone = cookie(answer)[name]
        assert (gone["max-age"], gone["path"], gone["samesite"], "httponly" in gone) == ("0", "/", "lax", True)
        assert ("secure" in gone) is tls
        assert house.authenticator.by_session(session, datetime.now(UTC)) is None
        assert browser.post("/sign-out").status_code == 401, "nobody is signed in"


def test_signing_in_again_ends_the_session_of_before_and_a_wrong_password_does_not(house: House) -> None:
    browser = house.browser()
    tried(browser, "ada", PASSWORD)
    before = browser.cookies["gpuledger"]
    tried(browser, "ada")
    assert house.authenticator.by_session(before, datetime.now(UTC)) is not None
    tried(browser, "bob", PASSWORD)
    assert house.authenticator.by_session(before, datetime.now(UTC)) is None


def single(house: House, **more: Any) -> TestClient:
    return house.browser(replace(SETTINGS, oidc=OIDC, url="http://ledger.test"), **more)


def test_the_way_to_the_provider_and_back(house: House) -> None:
    for tls in (False, True):
        browser, prefix = single(house, tls=tls), "__Host-" if tls else ""
        gone = browser.get("/sign-in/oidc?next=/costs")
        assert (gone.status_code, gone.headers["location"]) == (303, f"{ISSUER}/go")
        flow = cookie(gone)["gpuledger-sign-in"]
        assert (flow["max-age"], flow["path"], flow["samesite"]) == ("600", "/sign-in", "lax")
        assert "httponly" in flow and ("secure" in flow) is tls
        before = datetime.now(UTC)
        back = browser.get("/sign-in/oidc/callback?code=c&state=s")
        assert (back.status_code, back.headers["location"]) == (303, "/costs")
        (query, note, now) = house.provider.finished[-1]
        assert query == {"code": "c", "state": "s"}
        assert {name: note[name] for name in ("state", "nonce", "verifier", "next")} == {
            "state": "s", "nonce": "n", "verifier": "v", "next": "/costs",
        }  # fmt: skip
        assert before <= now <= datetime.now(UTC)
        left = datetime.fromtimestamp(note["until"], UTC) - before
        assert timedelta(minutes=9) < left <= timedelta(minutes=10, seconds=1)
        found = cookie(back)
        assert found.keys() == {f"{prefix}gpuledger", "gpuledger-sign-in"}
        assert (found["gpuledger-sign-in"]["max-age"], found["gpuledger-sign-in"]["path"]) == ("0", "/sign-in")
        session = found[f"{prefix}gpuledger"]
        assert session["max-age"] == str(3 * 3600)
        who = house.authenticator.by_session(session[""], datetime.now(UTC))
        assert who is not None and who.name == "eve"
        assert house.refused == []
        again = browser.get("/sign-in/oidc")
        assert again.status_code == 303
        browser.get("/sign-in/oidc/callback?code=c&state=s")
        assert house.authenticator.by_session(session[""], datetime.now(UTC)) is None, "the old one is over"
    (eve,) = [one for one in list_people(house.access) if one.name == "eve"]
    assert eve.id == (ISSUER, "1")


def test_a_way_on_that_is_very_long_is_cut_and_one_to_others_forgotten(house: House) -> None:
    for then, to in ((f"/{'x' * 1200}", f"/{'x' * 999}"), ("//evil.example", "/")):
        browser = single(house)
        browser.get("/sign-in/oidc", params={"next": then})
        assert browser.get("/sign-in/oidc/callback?code=c").headers["location"] == to


def test_who_comes_back_without_having_gone_starts_again(house: House) -> None:
    browser = single(house)
    now = datetime.now(UTC)
    over = Signer(b"k" * 32).seal("oidc", {"next": "/"}, now)
    of_another_kind = Signer(b"k" * 32).seal("device of ada", {"next": "/"}, now + timedelta(hours=1))
    for sealed in ("", "x", over, of_another_kind):
        answer = browser.get("/sign-in/oidc/callback?code=c", headers={"cookie": f"gpuledger-sign-in={sealed}"})
        assert (answer.status_code, Read(answer.text).alert) == (400, words("")["again"])
    assert house.provider.finished == []
    without = house.browser()
    sealed = Signer(b"k" * 32).seal("oidc", {"next": "/"}, datetime.now(UTC) + timedelta(hours=1))
    answer = without.get("/sign-in/oidc/callback?code=c", headers={"cookie": f"gpuledger-sign-in={sealed}"})
    assert (answer.status_code, Read(answer.text).alert) == (400, words("")["again"])
    answer = without.get("/sign-in/oidc")
    assert (answer.status_code, Read(answer.text).alert) == (404, words("")["refused"])


@pytest.mark.parametrize("failing", [OidcError("provider x", "is away", "Wait"), None])
def test_a_provider_that_fails_is_a_page_a_line_in_the_log_and_an_entry(
    house: House, caplog: pytest.LogCaptureFixture, failing: Exception | None
) -> None:
    browser = single(house)
    browser.get("/sign-in/oidc")
    house.provider.failing = failing
    house.provider.roles = frozenset()
    back = browser.get("/sign-in/oidc/callback?code=c&state=s")
    assert (back.status_code, Read(back.text).alert) == (403, words("")["provider"])
    assert cookie(back).keys() == {"gpuledger-sign-in"}
    assert cookie(back)["gpuledger-sign-in"]["max-age"] == "0"
    where, says = ("provider x", "is away") if failing else ("eve", "has no role here")
    ((*_, actor, action, who, reason, inputs),) = house.refused
    assert (actor, action, who, reason, inputs) == (
        "nobody", "access.refused", where, "", {"address": HERE, "how": "oidc"},
    )  # fmt: skip
    assert [one.levelname for one in caplog.records if says in one.getMessage()] == ["ERROR"]
    if failing:
        caplog.clear()
        gone = browser.get("/sign-in/oidc")
        assert (gone.status_code, Read(gone.text).alert, cookie(gone)) == (502, words("")["provider"], {})
        assert [one.levelname for one in caplog.records if "is away" in one.getMessage()] == ["ERROR"]


class Full:
    """A lane without a place."""

    def is_full(self, _: str) -> bool:
        return True

    def run(self, *_: Any) -> Any:
        raise sign_in.LaneFullError


def test_where_too_many_sign_in_at_once_one_is_told_to_come_back_and_nothing_counts(house: House) -> None:
    browser = single(house)
    browser.get("/sign-in/oidc?next=/costs")
    real = house.authenticator.passwords
    house.authenticator.passwords = house.authenticator.asking = cast("Any", Full())
    for _ in range(9):
        answer = tried(browser, "ada", PASSWORD)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert (Read(answer.text).alert, Read(answer.text).fields["name"]) == (words("")["busy"], "ada")
        assert Read(answer.text).fields["next"] == "/x"
    for path in ("/sign-in/oidc", "/sign-in/oidc/callback?code=c"):
        answer = browser.get(path)
        assert (answer.status_code, answer.headers["retry-after"], Read(answer.text).alert) == (
            503,
            "5",
            words("")["busy"],
        )
        assert cookie(answer) == {}
    assert house.refused == []
    house.authenticator.passwords = real
    assert tried(browser, "ada", PASSWORD).status_code == 303


def test_what_strangers_can_start_has_threads_of_its_own(house: House) -> None:
    """Two passwords at once, thirty that wait, eight of an address; eight questions, twenty-four and four."""
    found = Authenticator(house.access, SETTINGS)

    async def filled(lane: Any, at_once: int) -> list[int]:
        """How many places one address has, and all others together."""
        go_on, began, counts = threading.Event(), threading.Semaphore(0), [0, 0]

        def work() -> None:
            began.release()
            go_on.wait(PATIENCE_SECONDS)

        try:
            for address in ["a"] * 100 + [f"b{number}" for number in range(100)]:
                with contextlib.suppress(sign_in.LaneFullError):
                    lane.run(address, work)
                    counts[address != "a"] += 1
            for _ in range(at_once):
                assert began.acquire(timeout=PATIENCE_SECONDS)
            assert not began.acquire(timeout=0.05)
        finally:
            go_on.set()
        return counts

    assert asyncio.run(filled(found.passwords, 2)) == [8, 2 + 30 - 8]
    assert asyncio.run(filled(found.asking, 8)) == [4, 8 + 24 - 4]


@pytest.mark.parametrize("path", ["/sign-in", "/sign-in/oidc", "/sign-in/oidc/callback", "/sign-out"])
def test_each_page_is_asked_in_its_own_way(house: House, path: str) -> None:
    browser, ways = single(house), set[str]()
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH"):
        tried(browser, "ada", PASSWORD)
        if browser.request(method, path).status_code != 405:
            ways.add(method)
    assert ways == {"/sign-in": {"GET", "POST"}, "/sign-out": {"POST"}}.get(path, {"GET"})


def test_a_request_without_a_client_has_no_address() -> None:
    nobody: Any = SimpleNamespace(client=None)
    assert sign_in._address(nobody) == ""


@pytest.mark.parametrize(
    ("said", "believed"),
    [("9.9.9.9", "9.9.9.9"), ("2001:db8::1", "2001:db8::1"), ("unknown", "10.0.0.1"), ("", "10.0.0.1")],
)
@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_behind_a_proxy_the_address_is_what_it_tells_if_that_is_one(said: str, believed: str, kind: str) -> None:
    seen = []

    async def app(scope: Any, _: Any, __: Any) -> None:
        seen.append((scope.get("client"), "gpuledger.peer" in scope, scope["scheme"]))

    async def nothing(*_: Any) -> Any:
        return None

    headers = [(b"x-forwarded-for", said.encode()), (b"x-forwarded-proto", b"https")] if said else []
    for trusted, peer in ((["10.0.0.0/8"], ("10.0.0.1", 7)), ([], ("10.0.0.1", 7)), (["10.0.0.0/8"], None)):
        scope = {"type": kind, "client": peer, "headers": headers, "scheme": "http" if kind == "http" else "ws"}
        asyncio.run(Proxies(app, trusted)(scope, nothing, nothing))
        client, is_left, scheme = seen.pop()
        is_trusted = bool(trusted and peer)
        assert (client[0] if client else None) == (believed if is_trusted else peer and peer[0])
        assert not is_left
        assert (scheme in ("https", "wss")) == (is_trusted and bool(said))
