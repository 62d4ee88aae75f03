"""Behind a proxy: what is believed of whom, over real HTTP through a proxy that forwards."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from access.opening import open_access
from access.people import add_person
from access.roles import AccessError
from access.settings import AccessSettings, load_access, with_trusted_proxies
from billing.audit import history
from tests.dashboards.site import NOW, PASSWORD, Site, serving
from tests.stores import fresh_store

PROXY, STRANGER = "127.0.0.1", "127.0.0.9"
FORGED = {"X-Forwarded-For": "6.6.6.6", "X-Forwarded-Proto": "https"}
BEHIND = AccessSettings(sign_in=True, trusted_proxies=(PROXY,))


@contextlib.contextmanager
def proxy(url: str) -> Iterator[str]:
    """Forwards POSTs as a proxy that ends TLS does: it adds whom it has them from."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            before = self.headers.get("X-Forwarded-For")
            came = ", ".join([*([before] if before else []), self.client_address[0]])
            own = {"X-Forwarded-For": came, "X-Forwarded-Proto": "https",
                   "Content-Type": self.headers["Content-Type"]}  # fmt: skip
            answer = httpx.post(f"{url}{self.path}", content=body, headers=own)
            self.send_response(answer.status_code)
            for name, value in answer.headers.multi_items():
                if name in ("set-cookie", "strict-transport-security", "location"):
                    self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Quiet."""

    with ThreadingHTTPServer((PROXY, 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://{PROXY}:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def signs_in(url: str, address: str, headers: dict[str, str] | None = None, password: str = PASSWORD) -> httpx.Response:
    """From an address of this machine, as a browser without cookies."""
    with httpx.Client(transport=httpx.HTTPTransport(local_address=address)) as client:
        form = {"name": "ada", "password": password}
        return client.post(f"{url}/sign-in", data=form, headers=headers or {})


def is_secure(answer: httpx.Response) -> bool:
    """Whether all of what keeps a session on TLS is there; none of it is False, and less than all an error."""
    cookies = answer.headers.get_list("set-cookie")
    assert cookies
    found = {one.startswith("__Host-gpuledger") and "; Secure" in one for one in cookies}
    (all_or_none,) = found | {"strict-transport-security" in answer.headers}
    return all_or_none


def addresses(site: Site) -> list[str]:
    rows = [row["inputs"] for row in history(site.store, "access.sign_in", "ada")]
    return [row.split('"address": "')[1].split('"')[0] for row in rows]


@pytest.fixture(scope="module")
def served_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two users and nothing to see: what is asked here is how they are let in."""
    with fresh_store(tmp_path_factory.mktemp("site") / "store") as store, open_access(store) as access:
        for name in ("ada", "vera"):
            add_person(access, "test", NOW, name, PASSWORD, ["analyst"])
        yield Site("", {}, store, access)


@pytest.fixture(scope="module")
def behind(served_site: Site) -> Iterator[str]:
    with serving(served_site.store, BEHIND) as url:
        yield url


def test_the_outer_scheme_and_address_count_behind_a_proxy_that_is_trusted(served_site: Site, behind: str) -> None:
    with proxy(behind) as url:
        answer = signs_in(url, STRANGER)
        assert (answer.status_code, is_secure(answer)) == (303, True)
        assert addresses(served_site)[-1] == STRANGER
        # What a client says of itself stands before what the proxy adds, and is not believed.
        assert is_secure(signs_in(url, STRANGER, FORGED))
        assert addresses(served_site)[-1] == STRANGER


def test_what_somebody_says_who_is_not_trusted_is_ignored(served_site: Site, behind: str) -> None:
    assert not is_secure(signs_in(behind, STRANGER, FORGED))
    assert addresses(served_site)[-1] == STRANGER
    for proxies in ((), ("10.0.0.0/8",)):
        with serving(served_site.store, replace(BEHIND, trusted_proxies=proxies)) as url:
            assert not is_secure(signs_in(url, PROXY, FORGED))
            assert addresses(served_site)[-1] == PROXY


@pytest.mark.parametrize("forwarded_for", ["garbage", "a" * 3000, '"9.9.9.9"', "unknown", "9.9.9.9, x"])
def test_what_a_proxy_tells_that_is_no_address_is_not_believed(
    served_site: Site, behind: str, forwarded_for: str
) -> None:
    assert signs_in(behind, PROXY, {"X-Forwarded-For": forwarded_for, "X-Forwarded-Proto": "https"}).status_code == 303
    assert addresses(served_site)[-1] == PROXY


def test_a_network_is_trusted_as_a_whole(served_site: Site) -> None:
    with serving(served_site.store, replace(BEHIND, trusted_proxies=("127.0.0.8/30",))) as url:
        assert is_secure(signs_in(url, STRANGER, FORGED))
        assert addresses(served_site)[-1] == "6.6.6.6"
        assert not is_secure(signs_in(url, "127.0.0.12", FORGED))


def test_a_site_whose_url_says_tls_has_secure_cookies_whatever_the_inner_scheme(served_site: Site) -> None:
    for outer, secure in (("https://ledger.test", True), ("http://ledger.test", False)):
        with serving(served_site.store, AccessSettings(sign_in=True, url=outer)) as url:
            assert is_secure(signs_in(url, PROXY)) is secure


def test_who_guesses_at_one_address_locks_out_nobody_at_another(served_site: Site, behind: str) -> None:
    with proxy(behind) as url:
        statuses = [signs_in(url, "127.0.0.20", password="guess").status_code for _ in range(6)]
        assert statuses == [401] * 5 + [429]
        assert signs_in(url, "127.0.0.20").status_code == 429, "nor is the right one looked at then"
        assert signs_in(url, "127.0.0.21").status_code == 303


def test_a_browser_that_its_owner_used_before_is_let_in_from_an_address_of_guessers(
    served_site: Site, behind: str
) -> None:
    transport, ours = httpx.HTTPTransport(local_address="127.0.0.30"), {"Sec-Fetch-Site": "same-origin"}
    with httpx.Client(transport=transport, timeout=60, headers=ours) as owner:
        form = {"name": "ada", "password": PASSWORD}
        assert owner.post(f"{behind}/sign-in", data=form).status_code == 303
        for _ in range(6):
            last = signs_in(behind, "127.0.0.30", password="guess")
        assert last.status_code == 429
        assert owner.post(f"{behind}/sign-in", data=form).status_code == 303
        as_another = owner.post(f"{behind}/sign-in", data={"name": "vera", "password": PASSWORD})
        assert as_another.status_code == 303, "vera has had no guesses"
        note = owner.cookies["gpuledger-device"]
        owner.cookies.clear()
        owner.cookies.set("gpuledger-device", note[:-3] + "AAA")
        assert owner.post(f"{behind}/sign-in", data=form).status_code == 429


def test_settings_name_addresses_and_networks_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "sign-in.yaml"
    path.write_text("trusted_proxies: [10.0.0.0/8, '::1']\n")
    assert with_trusted_proxies(load_access(path), ["192.0.2.1"]).trusted_proxies == ("10.0.0.0/8", "::1", "192.0.2.1")
    for wrong in ("*", "proxy.example.org", "10.0.0.1/8", ""):
        path.write_text(f"trusted_proxies: ['{wrong}']\n")
        with pytest.raises(AccessError, match="neither an address nor a network"):
            load_access(path)
        with pytest.raises(AccessError, match="neither an address nor a network"):
            with_trusted_proxies(AccessSettings(), [wrong])
