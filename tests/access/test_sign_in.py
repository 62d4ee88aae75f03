"""Sign-in by password, sessions, and the gate: over real HTTP, as browsers and as others' pages would ask."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from access import secrets
from access.authenticator import PASSWORDS_PER_ADDRESS, Authenticator
from access.gate import PUBLIC
from access.people import add_person, change_person
from access.settings import AccessSettings
from access.sign_in import FORM_BYTES, local_path
from billing import audit
from dashboards.app import DashboardSettings, build_app
from gpuledger.documents import PREFIX
from tests.conftest import SCRYPT_N
from tests.dashboards.site import PASSWORD, Site, serving
from tests.patience import PATIENCE_SECONDS
from warehouse.store import Store

BROWSER = {"Accept": "text/html,application/xhtml+xml", "Sec-Fetch-Site": "same-origin"}
ME, TOKENS = f"{PREFIX}/me", f"{PREFIX}/tokens"


@contextlib.contextmanager
def signed_in(site: Site, name: str = "vera", then: str = "/") -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url) as client:
        answer = client.post("/sign-in", data={"name": name, "password": PASSWORD, "next": then}, headers=BROWSER)
        assert (answer.status_code, answer.headers["location"]) == (303, then)
        yield client


def asgi(store: Store, method: str, url: str, access: AccessSettings | None = None, **more: Any) -> httpx.Response:
    app = build_app(store, DashboardSettings(access=access or AccessSettings(sign_in=True)))

    async def run() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://ledger.test") as client:
            return await client.request(method, url, **more)

    return asyncio.run(run())


def test_a_browser_is_sent_to_sign_in_and_comes_back_to_where_it_was_going(served_site: Site) -> None:
    answer = httpx.get(f"{served_site.url}/costs?period=2026-10", headers=BROWSER)
    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in?next=%2Fcosts%3Fperiod%3D2026-10")
    page = httpx.get(served_site.url + answer.headers["location"])
    assert 'name="next" value="/costs?period=2026-10"' in page.text
    with signed_in(served_site, then="/costs?period=2026-10") as client:
        assert client.get(ME).json() == {
            "name": "vera", "issuer": "local", "subject": "vera", "roles": ["tenant"], "tenants": ["vision"],
            "scopes": ["read", "sql", "write"], "may": ["see", "own_tokens"],
        }  # fmt: skip
    assert "登录" in httpx.get(f"{served_site.url}/sign-in", headers={"Accept-Language": "zh-CN,en"}).text


def test_a_session_s_cookie_is_for_this_site_alone(served_site: Site) -> None:
    with signed_in(served_site) as client:
        assert {cookie.name for cookie in client.cookies.jar} == {"gpuledger", "gpuledger-device"}
        for cookie in client.cookies.jar:
            assert (cookie.path, cookie.secure) == ("/", False)
            assert cookie.has_nonstandard_attr("HttpOnly")
            assert cookie.get_nonstandard_attr("SameSite") == "lax"
    answer = asgi(served_site.store, "POST", "/sign-in", data={"name": "ada", "password": PASSWORD})
    session, device = answer.headers.get_list("set-cookie")
    assert session.startswith("__Host-gpuledger=")
    assert device.startswith("__Host-gpuledger-device=")
    assert "; Secure" in session and "; Secure" in device
    assert answer.headers["strict-transport-security"] == "max-age=31536000"


@pytest.mark.parametrize(
    ("headers", "status", "said"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 201, "gpl_"),
        ({"Origin": "{url}"}, 201, "gpl_"),
        ({"Origin": "https://evil.example"}, 403, "another site's page"),
        ({"Origin": "null"}, 403, "another site's page"),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "{url}"}, 403, "another site's page"),
        ({"Sec-Fetch-Site": "same-site", "Origin": "{url}"}, 403, "another site's page"),
        ({}, 403, "comes from our own pages alone"),
    ],
)
def test_what_changes_something_with_a_cookie_comes_from_our_own_pages(
    served_site: Site, headers: dict[str, str], status: int, said: str
) -> None:
    with signed_in(served_site) as client:
        sent = {name: value.format(url=served_site.url) for name, value in headers.items()}
        answer = client.post(TOKENS, json={"name": "mine"}, headers=sent)
        assert (answer.status_code, said in answer.text) == (status, True), answer.text
        assert client.get(ME, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 200  # changes nothing


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "MERGE"])
def test_whatever_is_not_asking_alone_comes_from_our_own_pages(served_site: Site, method: str) -> None:
    with signed_in(served_site) as client:
        answer = client.request(method, f"{TOKENS}/nothing", headers={"Origin": "https://evil.example"})
        assert (answer.status_code, "another site's page" in answer.text) == (403, True)


def test_without_sign_in_other_sites_pages_are_refused_all_the_same(served_site: Site) -> None:
    for headers, status in (({"Origin": "https://evil.example"}, 403), ({}, 201), ({"Sec-Fetch-Site": "none"}, 201)):
        answer = asgi(
            served_site.store, "POST", TOKENS, AccessSettings(), json={"name": "local"}, headers=headers
        )  # fmt: skip
        assert answer.status_code == status, headers


def test_signing_in_again_ends_the_session_that_the_browser_had(served_site: Site) -> None:
    with signed_in(served_site) as client:
        before = client.cookies["gpuledger"]
        client.post("/sign-in", data={"name": "vera", "password": PASSWORD}, headers={"Sec-Fetch-Site": "same-origin"})
        assert client.get(ME).json()["name"] == "vera"
    with httpx.Client(base_url=served_site.url, cookies={"gpuledger": before}) as old:
        assert old.get(ME).status_code == 401


def test_signing_out_ends_the_session_whoever_still_has_the_cookie(served_site: Site) -> None:
    with signed_in(served_site) as client:
        kept = dict(client.cookies)
        assert client.post("/sign-out", headers=BROWSER).headers["location"] == "/sign-in"
        assert "gpuledger" not in client.cookies
    assert httpx.get(served_site.url + ME, cookies=kept).status_code == 401


def test_a_cookie_that_was_touched_is_no_session(served_site: Site) -> None:
    with signed_in(served_site) as client:
        cookie, device = client.cookies["gpuledger"], client.cookies["gpuledger-device"]
    assert len(cookie) == 43
    for forged in (cookie[:-1], f"{cookie}A", cookie[::-1], device, "", "a" * 5000, "'", "\\0"):
        answer = httpx.get(served_site.url + ME, headers={"Cookie": f"gpuledger={forged}"})
        assert answer.status_code == 401, forged[:50]


def test_a_wrong_password_tells_nothing_and_many_are_made_to_wait(served_site: Site) -> None:
    url, said = f"{served_site.url}/sign-in", []
    for name in ("vera", "nobody<b>"):
        answer = httpx.post(url, data={"name": name, "password": "wrong horse battery"})
        assert answer.status_code == 401
        said.append(re.sub(r'value="[^"]*"', "", answer.text))
        assert "<b>" not in answer.text
    assert said[0] == said[1]
    for _ in range(4):
        httpx.post(url, data={"name": "nobody<b>", "password": "guess"})
    answer = httpx.post(url, data={"name": "nobody<b>", "password": "guess"})
    assert (answer.status_code, int(answer.headers["retry-after"]) <= 301) == (429, True)
    with signed_in(served_site, "ada"):
        """Others are let in."""


def test_a_guess_at_a_password_costs_what_owasp_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """https://cheatsheetseries.owasp.org/cheatsheets/Password_Storage_Cheat_Sheet.html#scrypt"""
    monkeypatch.setattr(secrets, "SCRYPT_N", SCRYPT_N)
    stored = secrets.hash_password(PASSWORD)
    _, n, r, p, salt, _ = stored.split("$")
    assert (int(n), int(r), int(p)) in {(1 << 17, 8, 1), (1 << 16, 8, 2), (1 << 15, 8, 3)}
    assert secrets.matches(PASSWORD, stored)
    assert secrets.hash_password(PASSWORD).split("$")[4] != salt


def test_a_password_that_a_version_before_stored_fits() -> None:
    """Of RFC 7914's second vector the first 32 bytes."""
    key = "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
    salt, kept = (base64.b64encode(part).decode() for part in (b"NaCl", bytes.fromhex(key)))
    assert secrets.matches("password", f"scrypt$1024$8$16${salt}${kept}")
    assert not secrets.matches("passwort", f"scrypt$1024$8$16${salt}${kept}")
    *_, made = secrets.hash_password(PASSWORD).split("$")
    assert len(base64.b64decode(made)) == 32


def test_many_sign_ins_at_once_hold_up_themselves_alone(served_site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    hashing, go_on = threading.Semaphore(0), threading.Event()
    scrypt = secrets._scrypt

    def slow(*given: Any) -> bytes:
        hashing.release()
        assert go_on.wait(2 * PATIENCE_SECONDS)
        return scrypt(*given)

    def tried(number: int) -> int:
        with httpx.Client(
            transport=httpx.HTTPTransport(local_address="127.0.0.9", verify=False), timeout=2 * PATIENCE_SECONDS
        ) as client:
            form = {"name": f"nobody {number}", "password": "guess"}
            return client.post(f"{served_site.url}/sign-in", data=form).status_code

    monkeypatch.setattr(secrets, "_scrypt", slow)
    at_once = PASSWORDS_PER_ADDRESS + 16
    with ThreadPoolExecutor(at_once) as pool:
        tries = [pool.submit(tried, number) for number in range(at_once)]
        try:
            assert hashing.acquire(timeout=PATIENCE_SECONDS)
            refused = list(
                itertools.islice(as_completed(tries, timeout=PATIENCE_SECONDS), at_once - PASSWORDS_PER_ADDRESS)
            )
            assert {one.result() for one in refused} == {503}
            assert httpx.get(f"{served_site.url}/healthz", timeout=PATIENCE_SECONDS).status_code == 200
        finally:
            go_on.set()
        assert Counter(one.result() for one in tries) == {503: len(refused), 401: PASSWORDS_PER_ADDRESS}
        # Those that were not looked at do not count as tried: the address would have to wait by now.
        assert {tried(number) for number in range(at_once, at_once + 8)} == {401}


def test_sign_ins_stand_in_the_audit(served_site: Site) -> None:
    with signed_in(served_site, "ada"):
        """That is all."""
    httpx.post(f"{served_site.url}/sign-in", data={"name": "ada", "password": "x"})
    found = [(row["action"], row["inputs"]) for row in audit.history(served_site.store, "access", "ada")]
    for action in ("access.sign_in", "access.refused"):
        assert (action, '{"address": "127.0.0.1", "how": "password"}') in found


@pytest.mark.parametrize(
    ("asked", "path"),
    [("/costs?a=1", "/costs?a=1"), ("//evil.example", "/"), ("/\\evil.example", "/"), ("https://evil.example", "/"),
     ("evil", "/"), ("/a\nb", "/"), ("/a\\b", "/"), ("", "/")],
)  # fmt: skip
def test_sign_in_goes_on_to_this_site_alone(asked: str, path: str) -> None:
    assert local_path(asked) == path


def test_the_page_to_sign_in_has_the_site_s_face_and_does_not_scroll(served_site: Site) -> None:
    """As found: the system's face, and a page a sixth higher than the window."""
    text = httpx.get(f"{served_site.url}/sign-in").text
    assert "var(--gl-font)" in text and "system-ui" not in text
    assert "min-height: 0" in text, "the style sheet makes main as high as a page with a bar"


def test_every_answer_has_the_headers_that_keep_browsers_safe(served_site: Site) -> None:
    with signed_in(served_site) as client:
        page, me, asset = client.get("/", headers=BROWSER), client.get(ME), client.get("/assets/gpuledger.css")
        refused = httpx.get(served_site.url + ME)
    for answer in (page, me, asset, refused):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "strict-transport-security" not in answer.headers  # this is no TLS
    scripts = re.findall(r"script-src ([^;]*)", page.headers["content-security-policy"])[0]
    assert "unsafe" not in scripts
    assert "http" not in scripts
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert me.headers["content-security-policy"].startswith("default-src 'none'")
    assert (page.headers["cache-control"], me.headers["cache-control"]) == ("no-store", "no-store")


def test_nobody_gets_a_websocket(served_site: Site) -> None:
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
               "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}  # fmt: skip
    assert httpx.get(f"{served_site.url}/_dash-ws-callback", headers=upgrade).status_code == 401
    with signed_in(served_site) as client:
        ours = {**upgrade, "Origin": served_site.url}
        assert client.get("/_dash-ws-callback", headers=ours).status_code == 200  # the page, as at any address


def test_where_websockets_are_served_one_wants_a_session_and_our_own_page(served_site: Site) -> None:
    """By another server than ours."""
    app = TestClient(build_app(served_site.store, DashboardSettings(access=AccessSettings(sign_in=True))))
    with signed_in(served_site) as client:
        cookie = {"cookie": "; ".join(f"{name}={value}" for name, value in client.cookies.items())}
    own, foreign = {"origin": "http://testserver"}, {"origin": "https://evil.example"}
    for headers in (own, foreign, {**cookie, **foreign}, cookie):
        with (
            pytest.raises(WebSocketDisconnect) as refused,
            app.websocket_connect("/_dash-ws-callback", headers=headers),
        ):
            pass
        assert refused.value.code == 1008


def test_a_disabled_user_and_a_new_password_end_sessions_and_other_roles_hold_at_once(served_site: Site) -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    access, authenticator = served_site.access, Authenticator(served_site.access, AccessSettings(sign_in=True))

    def signed_in(name: str) -> str:
        found = authenticator.sessions.by_password(name, PASSWORD, start, "192.0.2.1")
        assert found is not None
        return found[1]

    for name in ("user0", "user1"):
        add_person(access, "test", start, name, PASSWORD, ["finance"])
    cookies = {name: signed_in(name) for name in ("user0", "user1")}
    change_person(access, "test", start, "user0", roles=["analyst"])
    who = authenticator.by_session(cookies["user0"], start)
    assert who is not None and who.roles == {"analyst"}
    change_person(access, "test", start, "user0", password="another horse battery")
    assert authenticator.by_session(cookies["user0"], start) is None
    assert authenticator.sessions.by_password("user0", PASSWORD, start, "192.0.2.1") is None
    change_person(access, "test", start, "user1", disabled=True)
    assert authenticator.by_session(cookies["user1"], start) is None
    assert authenticator.sessions.by_password("user1", PASSWORD, start, "192.0.2.1") is None
    change_person(access, "test", start, "user1", disabled=False)
    assert authenticator.by_session(cookies["user1"], start) is None, "enabled again, it takes another sign-in"
    cookie = signed_in("user1")
    assert authenticator.by_session(cookie, start + timedelta(hours=7)) is not None
    assert authenticator.by_session(cookie, start + timedelta(hours=9)) is None, "it is over"


def test_what_begins_like_a_public_path_is_not_public(served_site: Site) -> None:
    with httpx.Client(base_url=served_site.url) as stranger:
        for path in PUBLIC:
            for more in ("x", "/x"):
                assert stranger.get(path + more).status_code == 401, path + more


def test_where_no_local_user_may_sign_in_none_does(served_site: Site) -> None:
    with serving(served_site.store, AccessSettings(sign_in=True, local_users=False)) as url:
        answer = httpx.post(f"{url}/sign-in", data={"name": "ada", "password": PASSWORD})
    assert (answer.status_code, answer.headers.get("set-cookie")) == (403, None)


@pytest.mark.parametrize(("bytes_more", "status"), [(FORM_BYTES // 2, 303), (FORM_BYTES, 401)])
def test_a_form_that_is_too_long_is_not_read_on(served_site: Site, bytes_more: int, status: int) -> None:
    form = {"pad": "x" * bytes_more, "name": "ada", "password": PASSWORD}
    assert httpx.post(f"{served_site.url}/sign-in", data=form).status_code == status
