"""Whoever gpuledger asks cannot hold it up by answering a letter at a time, each within the limit of a read."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import httpx
import pytest

from access import oidc
from access.settings import Oidc
from alerts import transports
from alerts.transports import SendError, email
from api.sql import server_engine
from api.sql.errors import SqlError
from collectors.attribution.kubelet import KubeletPods
from collectors.exporters.fetching import Access, Fetcher
from collectors.kubernetes import api, direct, token_review
from collectors.kubernetes.connection import Connection
from collectors.slurm.sources import Rest
from gpuledger import books, client, destinations, idle_feed
from gpuledger.commands import sql
from ingest.http_post import Poster
from ingest.reviews import ReviewError
from scheduler.live import client as scheduler_client
from tests.conftest import FLOORS, REPO
from tests.patience import PATIENCE_SECONDS
from tests.slow_answers import answering
from warehouse.errors import LedgerError

SECONDS = 0.3
ASKS = re.compile(
    r"aiohttp\.ClientSession\(|httpx\.(?:Async)?Client\b\(?|httpx\.(?:get|post|request|stream)\(|HTTPS?Connection\(|smtplib\.SMTP(?:_SSL)?\(|urlopen\("
)
NOT_ALONE = {
    "ingest/prompt_client.py": "asked through by those here",
}


def everybody(url: str, folder: Path) -> dict[str, Callable[[], object]]:
    """How each module that asks somebody does it, by its path."""
    connection = Connection(url.rstrip("/"))
    host, port = httpx.URL(url).host, httpx.URL(url).port

    def listed() -> object:
        return asyncio.run(_first_page(connection))

    def watched() -> object:
        return asyncio.run(_first_change(connection))

    async def statement() -> bytes:
        async with httpx.AsyncClient(timeout=SECONDS) as asked:
            return await server_engine._answer(asked, url, "SELECT 1", {})

    mail = email.Email.model_validate({"host": host, "port": port, "security": "none", "from": "a@b", "to": ["c@d"]})
    provider = oidc.Provider(Oidc.model_validate({"issuer": url, "client_id": "x", "roles": {}}), "", "http://here/")
    return {
        "alerts/transports/__init__.py": lambda: transports.post(url),
        "alerts/transports/email.py": lambda: mail.post(email.EmailMessage(), ["c@d"]),
        "collectors/attribution/kubelet.py": KubeletPods(url, timeout_seconds=SECONDS).pods,
        "collectors/exporters/fetching.py": lambda: Fetcher(Access(timeout_seconds=SECONDS), tls=False).get(url),
        "collectors/kubernetes/api.py": listed,
        "collectors/kubernetes/api.py, watch": watched,
        "collectors/kubernetes/direct.py": lambda: direct.Cluster(_kubeconfig(folder, url), "").get("/api/v1/nodes"),
        "collectors/kubernetes/token_review.py": lambda: token_review.TokenReviews(connection, "x").review("t"),
        "collectors/slurm/sources.py": Rest(url, timeout_seconds=SECONDS).nodes,
        "access/oidc.py": provider.begin,
        "api/sql/server_engine.py": lambda: asyncio.run(statement()),
        "gpuledger/client.py": lambda: _me(url.rstrip("/")),
        "gpuledger/commands/sql.py": lambda: b"".join(sql._from_server(url, None, "SELECT 1", "CSV")),
        "gpuledger/destinations.py": lambda: _devices(url),
        "gpuledger/idle_feed.py": lambda: _idle(url.rstrip("/")),
        "ingest/http_post.py": lambda: Poster(url, timeout_seconds=SECONDS).post("/", b"", {}),
        "scheduler/live/client.py": scheduler_client.Client(url, seconds=SECONDS).services,
    }


def _kubeconfig(folder: Path, url: str) -> Path:
    path = folder / "kubeconfig"
    named = {"clusters": {"server": url.rstrip("/")}, "users": {}, "contexts": {"cluster": "x", "user": "x"}}
    parts = {kind: [{"name": "x", kind.removesuffix("s"): content}] for kind, content in named.items()}
    path.write_text(json.dumps({"current-context": "x", **parts}), encoding="utf-8")
    return path


class _Asked(api.Api):
    aclose = api.Api.close


async def _first_page(connection: Connection) -> object:
    async with contextlib.aclosing(_Asked(connection)) as asked:
        return await anext(asked.pages("/api/v1/pods"))


async def _first_change(connection: Connection) -> object:
    async with contextlib.aclosing(_Asked(connection, SECONDS)) as asked:
        return [change async for change in asked.watch("/api/v1/pods", "1")]


def _me(url: str) -> object:
    with books.client(url) as asked:
        return asked.me()


def _devices(url: str) -> object:
    found = destinations._ServedDevices("c", url, None, None)()
    raise LedgerError("devices", f"{len(found)} rows: what was known stands")


def _idle(url: str) -> object:
    found = idle_feed.IdleFeed(url, None, "c", time.time).ask()
    raise LedgerError("idle jobs", found.problem or "there was an answer")


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in (
        (transports, "TIMEOUT_SECONDS"), (email, "MAIL_SECONDS"), (token_review, "TIMEOUT_SECONDS"),
        (direct, "TIMEOUT_SECONDS"), (oidc, "TIMEOUT_SECONDS"),
        (client, "TIMEOUT_SECONDS"),
        (destinations, "DEVICES_SECONDS"), (sql, "SECONDS"), (server_engine, "OWN_SECONDS"),
        (api, "LIST_SECONDS"), (api, "LATE_SECONDS"),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, SECONDS)


HEADS = {
    "headers without an end": b"HTTP/1.1 200 OK\r\nX-",
    "a body without an end": b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n",
    "a refusal without an end": b"HTTP/1.1 500 No\r\nContent-Length: 9999999\r\n\r\n",
}


@pytest.mark.usefixtures("limits")
def test_whoever_answers_letter_by_letter_holds_nobody_up(tmp_path: Path) -> None:
    with contextlib.ExitStack() as servers:
        asked = {}
        for head in HEADS.values():
            url = servers.enter_context(
                answering(lambda head=head: itertools.chain([head], itertools.repeat(b"y")), 0.05)  # type: ignore[misc]
            )
            (folder := tmp_path / str(len(asked))).mkdir()
            asked |= {(name, head): _alone(ask) for name, ask in everybody(url, folder).items()}
        for (name, head), result in asked.items():
            error = result.exception(PATIENCE_SECONDS)  # raises TimeoutError where it hangs
            if name == "alerts/transports/__init__.py" and head == HEADS["a body without an end"]:
                assert error is None  # it was taken: nobody reads what else is said
                continue
            known = (LedgerError, SendError, ReviewError, SqlError, api.Interrupted, OSError)
            assert isinstance(error, known), (name, head, error)


def _alone(ask: Callable[[], object]) -> Future[object]:
    result: Future[object] = Future()

    def run() -> None:
        try:
            result.set_result(ask())
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result


def test_everybody_who_asks_is_tried(tmp_path: Path) -> None:
    tried = {name.partition(",")[0] for name in everybody("http://127.0.0.1:1/", tmp_path)}
    assert set(_asking()) == tried | NOT_ALONE.keys()


def _asking() -> Iterator[str]:
    for package in FLOORS:
        for path in sorted((REPO / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if ASKS.search(text) or re.search(r"\b(?:PromptClient|ask)\((?!self)", _imports(text)):
                yield str(path.relative_to(REPO))


def _imports(text: str) -> str:
    """The text of a module that imports the prompt client, else nothing."""
    return text if "ingest.prompt_client import" in text else ""


def test_a_kubectl_that_does_not_come_back_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool, settings = tmp_path / "kubectl", tmp_path / "config"
    tool.write_text("#!/bin/sh\nexec sleep 60\n")
    tool.chmod(0o755)
    # Its user logs in by a plugin, which kubectl alone runs.
    user = {"name": "u", "user": {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}}}
    context = {"name": "c", "context": {"cluster": "k", "user": "u"}}
    cluster = {"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}
    settings.write_text(
        json.dumps({"users": [user], "contexts": [context], "clusters": [cluster], "current-context": "c"})
    )
    monkeypatch.setattr(direct, "KUBECTL_SECONDS", SECONDS)
    asked = direct.Cluster(settings, "", {"PATH": f"{tmp_path}:/usr/bin:/bin"})
    with pytest.raises(LedgerError, match=r"kubectl: does not answer /version within 0\.3 s"):
        asked.get("/version")
