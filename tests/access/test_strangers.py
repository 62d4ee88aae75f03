"""What those who have no business here are told: no stack, no path, no SQL, no secret, on every door."""

from __future__ import annotations

import re
import socket
from itertools import product
from urllib.parse import urlsplit

import httpx
import pytest

from dashboards.app import build_app
from gpuledger.documents import PREFIX
from tests.conftest import REPO
from tests.dashboards.site import Site
from tests.patience import PATIENCE_SECONDS

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")
ODD_PATHS = (
    "/nowhere", "/assets/nothing.css", "/assets/../app.py", "/assets/%2e%2e/app.py", "/assets//etc/passwd", "/assets/",
    "/_dash-component-suites/dash/../../os.py", "/_dash-component-suites/os/x.js", "/_dash-component-suites/dash/x.py",
    "/_dash-component-suites/dash/deps/nothing.js", "/%00", "/%ff", "/" + "x" * 5000, "//evil.example/x", "/api/v1",
    "/api/v1/", "/api/v1/nowhere", "/api/v1/invoices/%00", "/api/v1/invoices/..%2f..%2f", "/api/v1/records/samples",
    "/metrics?x=%ff", "/allocation?window=%00", "/allocation?window=0001-01-01,9999-12-31", "/allocation?aggregate=%ff",
    "/model/", "/model/%00", "/model/../etc/passwd", "/model/allocation/autocomplete?field=%ff&window=2026-10",
    "/sign-in?next=//evil.example", "/sign-in/oidc", "/sign-in/oidc/callback?code=x&state=y", "/sql?query=%ff",
    "/ping", "/healthz?x=1", "/favicon.ico", "/_reload-hash", "/_dash-layout", "/_dash-dependencies",
)  # fmt: skip
TOLD = re.compile(
    r"Traceback|site-packages|File \"|\.py\b|line \d+, in |/etc/|/usr/|/root|/tmp/|Stack trace|"
    r"sqlalchemy|starlette|uvicorn|correct horse"
)


def leaks(text: str) -> list[str]:
    return [*TOLD.findall(text), *([str(REPO)] if str(REPO) in text else [])]


def paths(served_site: Site) -> list[str]:
    """Every route there is, with something of no use in each of its holes, and some that there are not."""
    app = build_app(served_site.store)
    found = [route.path for route in app.routes if hasattr(route, "path")]
    api = next(route.app for route in app.routes if getattr(route, "path", "") == PREFIX)
    found += [PREFIX + path for path in api.openapi()["paths"]]
    return sorted({re.sub(r"\{[^}]*\}", "%27x", path) for path in found} | set(ODD_PATHS))


@pytest.mark.parametrize("name", [None, "admin"])
def test_no_answer_tells_more_than_what_is_wrong(served_site: Site, name: str | None) -> None:
    failed = []
    with served_site.client(name) as client:
        asked = [*product(ODD_PATHS, METHODS), *product(paths(served_site), ("OPTIONS", "TRACE", "PUT"))]
        for path, method in asked:
            answer = client.request(method, path, content=b"\xff{" if method in ("POST", "PUT", "PATCH") else None)
            text = answer.text + str(answer.headers)
            # Scripts of the libraries are what they are.
            if answer.status_code == 200 and answer.headers.get("content-type", "").startswith("text/javascript"):
                continue
            if answer.status_code == 500 or leaks(text) or "server" in answer.headers:
                failed.append((method, path[:80], answer.status_code, leaks(text), answer.text[:200]))
            if answer.status_code >= 400:
                assert answer.headers.get("x-content-type-options") == "nosniff", (method, path)
            if name is None and path not in ("/ping", "/healthz", "/healthz?x=1", "/sign-in"):
                assert "speech" not in text
    assert not failed, failed[:20]


@pytest.mark.parametrize("host", ["evil.example", "", "a b", "x" * 3000, "[::1", "127.0.0.1:99999", "<script>", "x\ty"])
@pytest.mark.parametrize("path", ["/", "/sign-in", "/nowhere", "/api/v1/ledger", "/sign-in/oidc"])
def test_no_host_header_is_believed_or_repeated(served_site: Site, host: str, path: str) -> None:
    at = urlsplit(served_site.url)
    with socket.create_connection((at.hostname, at.port), 10) as one:
        head = f"GET {path} HTTP/1.1\r\nhost: {host}\r\naccept: text/html\r\nconnection: close\r\n\r\n"
        one.sendall(head.encode())
        found = b""
        while part := one.recv(65536):
            found += part
    text = found.decode(errors="replace")
    assert " 500 " not in text.split("\r\n")[0]
    assert not leaks(text)
    assert len(host) < 4 or host not in text


def test_a_request_without_a_host_or_in_an_old_form_is_no_error_of_our_own(served_site: Site) -> None:
    at = urlsplit(served_site.url)
    for head in (
        "GET / HTTP/1.0",
        "GET http://evil.example/ HTTP/1.1",
        "GET * HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "GET /",
    ):
        with socket.create_connection((at.hostname, at.port), 10) as one:
            one.sendall(f"{head}\r\nconnection: close\r\n\r\n".encode())
            one.settimeout(PATIENCE_SECONDS)
            found = one.recv(65536).decode(errors="replace")
        assert " 500 " not in found.split("\r\n")[0], (head, found[:300])
        assert not leaks(found)


def test_cookies_of_any_shape_are_no_error_of_our_own(served_site: Site) -> None:
    for cookie in (
        "gpuledger=" + "x" * 20_000,
        "gpuledger",
        "=;;==",
        'gpuledger="\\377"',
        "a=b;" * 3000,
        "gpuledger=\xff",
    ):
        answer = httpx.get(f"{served_site.url}/api/v1/ledger", headers={"cookie": cookie.encode("latin-1")})
        assert (answer.status_code, leaks(answer.text)) == (401, []), cookie[:50]
