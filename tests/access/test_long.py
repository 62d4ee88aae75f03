"""Requests that go on: a stream ends within 5 s of what ends its session or token, whichever of two servers on one
PostgreSQL that was done at."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from access.authenticator import Authenticator
from access.gate import Gate
from access.people import Kind, add_person, change_person
from access.principal import Principal
from access.roles import Action, Role
from access.settings import AccessSettings, Oidc
from access.store import AccessStore, connect
from access.tokens import create_token, revoke_token
from tests.access.postgres import Cluster
from tests.dashboards.site import PASSWORD, running
from tests.patience import PATIENCE_SECONDS
from tests.stores import fresh_store
from warehouse.store import Store

ROOT = Principal("root", frozenset({Role.admin}))
ISSUER = "https://login.example.org"
OIDC = Oidc(issuer=ISSUER, client_id="x", roles={})
SETTINGS = AccessSettings(sign_in=True, url="http://x.org", key=b"k" * 32, oidc=OIDC)
ENDS_SECONDS = 40.0
"""It is asked again every two seconds who a stream is for; on a slow machine that takes a while itself."""
SILENT = "/silent"
ON = {"going on": True}
"""Until the test is over."""


async def going_on(scope: Scope, receive: Receive, send: Send) -> None:
    """A page that is never done; one never begins."""
    if scope["type"] == "lifespan":
        while True:
            message: Message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    while scope["path"] == SILENT and ON["going on"]:
        await asyncio.sleep(0.1)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    while ON["going on"]:
        await send({"type": "http.response.body", "body": b".", "more_body": True})
        await asyncio.sleep(0.1)


@contextlib.contextmanager
def server(access: AccessStore) -> Iterator[tuple[str, Authenticator]]:
    authenticator = Authenticator(access, SETTINGS)
    with running(Gate(going_on, authenticator, lambda: "default-src 'self'", lambda _: Action.see)) as url:
        yield url.rstrip("/"), authenticator


class Watched(threading.Thread):
    """Reads for as long as there is something to read. ended_at: when that was over."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        super().__init__(daemon=True)
        self._url, self._headers = url, headers
        self.begun, self.ended_at, self.broke_off = threading.Event(), 0.0, False

    def run(self) -> None:
        try:
            with httpx.stream("GET", self._url, headers=self._headers) as answer:
                for _ in answer.iter_bytes():
                    self.begun.set()
        except httpx.RemoteProtocolError:
            self.broke_off = True
        self.ended_at = time.monotonic()


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("warehouse") / "store") as store:
        yield store


def test_what_ends_a_session_or_a_token_ends_its_streams_on_every_server(warehouse: Store, postgres: Cluster) -> None:
    now, address = datetime.now(UTC), postgres.database()
    ON["going on"] = True
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(connect(address, postgres.password_file, warehouse)) for _ in range(2)]
        (url, authenticator), (_, elsewhere) = (stack.enter_context(server(access)) for access in stores)
        there = elsewhere.access

        stack.callback(ON.update, {"going on": False})

        def session(name: str) -> dict[str, str]:
            add_person(there, "test", now, name, PASSWORD, ["finance"])
            found = elsewhere.sessions.by_password(name, PASSWORD, now, "192.0.2.1")
            assert found is not None
            return {"Cookie": f"gpuledger={found[1]}", "Sec-Fetch-Site": "same-origin"}

        def from_provider(roles: set[Role]) -> dict[str, str]:
            sub = (ISSUER, "1", "eve", frozenset(roles), frozenset[str](), now, "192.0.2.1")
            return {
                "Cookie": f"gpuledger={authenticator.sessions.by_provider(*sub)[1]}",
                "Sec-Fetch-Site": "same-origin",
            }

        def token(owner: str) -> tuple[str, dict[str, str]]:
            add_person(there, "test", now, owner, "", ["finance"], kind=Kind.service)
            made, text = create_token(there, ROOT, now, owner, timedelta(days=1), owner, ["finance"])
            return made.id, {"Authorization": f"Bearer {text}"}

        kept = [session("kept"), token("kept too")[1]]
        public, revoked = token("revoked")
        signed_out = session("signed out")
        ends: dict[str, tuple[dict[str, str], Callable[[], object]]] = {
            "signed out": (signed_out, lambda: elsewhere.sessions.end(signed_out["Cookie"].partition("=")[2], now)),
            "disabled": (session("off"), lambda: change_person(there, "test", now, "off", disabled=True)),
            "demoted": (session("less"), lambda: change_person(there, "test", now, "less", roles=["analyst"])),
            "a new password": (session("new"), lambda: change_person(there, "test", now, "new", "another horse 1")),
            "other roles at the provider": (from_provider({Role.admin}), lambda: from_provider({Role.analyst})),
            "revoked": (revoked, lambda: revoke_token(there, ROOT, now, public)),
            "its owner disabled": (token("bot")[1], lambda: change_person(there, "test", now, "bot", disabled=True)),
            "its owner demoted": (token("b2")[1], lambda: change_person(there, "test", now, "b2", roles=["operator"])),
        }
        going = {
            what: Watched(url, headers)
            for what, headers in [*((what, headers) for what, (headers, _) in ends.items()), *enumerate(kept)]
        }
        waits = stack.enter_context(ThreadPoolExecutor(1)).submit(
            httpx.get, f"{url}{SILENT}", headers=session("waits"), timeout=PATIENCE_SECONDS
        )
        ends["waits for a beginning"] = {}, lambda: change_person(there, "test", now, "waits", disabled=True)
        for one in going.values():
            one.start()
        for what, one in going.items():
            assert one.begun.wait(PATIENCE_SECONDS), what
        began = time.monotonic()
        for _, end in ends.values():
            end()
        ended = time.monotonic()
        answer = waits.result()
        assert answer.status_code == 401 and "you are signed out" in answer.text
        for what, one in going.items():
            if what in ends:
                one.join(PATIENCE_SECONDS)
                assert 0 < one.ended_at <= ended + ENDS_SECONDS, (what, one.ended_at - began)
                assert one.broke_off, what
        assert all(one.is_alive() for what, one in going.items() if what not in ends)
        for what in ("signed out", "disabled", "a new password", "revoked", "its owner disabled"):
            assert httpx.get(url, headers=ends[what][0]).status_code == 401, what
