"""`gpuledger server` as a process: takes records in, shows the books, keeps its doors shut, ends cleanly."""

from __future__ import annotations

import asyncio
import itertools
import signal
import ssl
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from gpuledger.client import NO_ANSWER
from gpuledger.commands import server
from ingest.senders import Senders
from ingest.spool import Spool
from ingest.targets import Outcome, ReceiverTarget, Sender
from ingest.wire import pack
from tests.certificates import self_signed
from tests.collectors.kubernetes.reviewing import AGENT, Scripted, reviewing
from tests.conftest import REPO
from tests.draws import seldom
from tests.gpuledger.running import refused, run
from tests.ingest.receiving import ANYTHING, TOKEN, receiving, tokens_file
from tests.patience import PATIENCE_SECONDS, until
from tests.stores import fresh_store
from warehouse.store import Store, open_store

RUN = (
    "import typer; from gpuledger.commands import server; from gpuledger import cli; app = typer.Typer();"
    "app.callback()(lambda: None); server.register(app); cli.run(app, None)"
)
COMMAND = [sys.executable, "-c", RUN, "server"]


def fresh(folder: Path) -> str:
    """The address of a store with the schema."""
    fresh_store(folder / "store").close()
    return f"chdb://{folder / 'store'}"


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen([*COMMAND, *arguments, "--port", "0"], cwd=REPO, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "Records" in line:
            return process, line.split()[1].split("api/")[0]
    raise AssertionError(f"it ended with {process.wait()}")


@seldom(6, "over tls without a dashboard")
def test_over_tls_without_a_dashboard(tmp_path: Path) -> None:
    made, key = self_signed(tmp_path, "localhost")
    (tmp_path / "token").write_text(TOKEN)
    tls = ("--tls-cert", str(made), "--tls-key", str(key), "--no-dashboard")
    process, url = start("--store", fresh(tmp_path), "--tokens", str(tokens_file(tmp_path)), *tls)
    try:
        assert url.startswith("https://")
        url, trust = url.replace("127.0.0.1", "localhost"), ssl.create_default_context(cafile=str(made))
        with Spool(tmp_path / "spool") as spool:
            row = {"ts": datetime.now(UTC), "finding": "xid", "severity": "info"}
            spool.append([pack("findings", [row])], datetime.now(UTC))
            group = spool.oldest(10, 1000)
            assert group is not None
            to = ReceiverTarget(url, Sender(), tmp_path / "token", made)
            assert to.send(group).outcome is Outcome.TAKEN
        assert httpx.get(url, verify=trust).status_code == 404
        assert httpx.get(f"{url}healthz", verify=trust).json()["status"] == "ok"
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0


def test_a_push_is_counted_for_its_sender_although_no_other_follows(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ingest.tally.WRITTEN_SECONDS", 1.0)
    monkeypatch.setattr("collectors.receivers.assembler.EVERY_SECONDS", 0.2)
    with server._receiving(store, Senders(tokens_file(tmp_path)), ()) as routes:
        client = TestClient(Starlette(routes=routes))
        assert (
            client.post("/api/v1/records/events", headers={"Authorization": "Bearer of a stranger"}).status_code == 401
        )
        until(lambda: store.rows("SELECT sender, outcome FROM sender_days") == [{"sender": "", "outcome": "denied"}])


def test_doors_stay_shut_unless_they_are_asked_to_be_open(tmp_path: Path) -> None:
    tokens = ("--tokens", str(tokens_file(tmp_path)), "--store", "chdb://memory")
    assert "without signing in" in refused("server", *tokens, "--host", "0.0.0.0")
    assert "tokens would travel in the clear" in refused("server", *tokens, "--host", "0.0.0.0", "--no-dashboard")
    assert "one without the other" in refused("server", *tokens, "--tls-cert", "x.pem")
    both = ("--insecure-no-sign-in", "--insecure-plain-http", "--rules", str(tmp_path / "none"))
    asked = run("server", *tokens, "--host", "0.0.0.0", *both)  # Ends at the folder that is not there.
    assert "warning: no sign-in" in asked.stderr
    assert "warning: no TLS" in asked.stderr


@pytest.mark.parametrize(("text", "said"), [("senders: []", "senders"), ("x", "tokens.yaml")])
def test_a_tokens_file_of_no_use_is_one_line(tmp_path: Path, text: str, said: str) -> None:
    assert said in refused("server", "--store", fresh(tmp_path), "--tokens", str(tokens_file(tmp_path, text)))


def test_a_certificate_of_no_use_is_one_line_and_exit_2(tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("no certificate")
    nonsense = str(tmp_path / "x.pem")
    arguments = ["--store", fresh(tmp_path), "--tokens", str(tokens_file(tmp_path)), "--port", "0", "--no-dashboard"]
    process = subprocess.run(
        [*COMMAND, *arguments, "--tls-cert", nonsense, "--tls-key", nonsense],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert process.returncode == 2
    assert "--tls-cert" in process.stderr.splitlines()[-1]
    assert "Traceback" not in process.stderr


ACCOUNTS = """
senders: [{{name: agents, token: {token}, {anything}}}]
kubernetes:
  audience: gpuledger
  kubeconfig: {folder}/kubeconfig
  accounts:
    - {{account: gpuledger/agent, records: [samples], clusters: [c1], nodes: own}}
"""
KUBECONFIG = """
current-context: a
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
clusters: [{{name: a, cluster: {{server: "{url}"}}}}]
users: [{{name: a, user: {{token: ours}}}}]
"""
REVIEW_SECONDS = 4.0
"""A token's review takes so long: those of the strangers' first tokens, one after the other, nearly three minutes."""
PROBED_SECONDS = 25.0
"""So long may a slow machine take for what has to wait for none of them."""


@seldom(6, "it takes records shows the books and")
def test_it_takes_records_shows_the_books_and_ends_with_all_of_them_in_the_store_whatever_strangers_do(
    tmp_path: Path,
) -> None:
    store = f"chdb://{tmp_path}/store"
    with reviewing() as api:
        api.status, api.of_tokens = {"authenticated": False}, dict.fromkeys(("good.one.1", "good.two.2"), AGENT)
        (tmp_path / "kubeconfig").write_text(KUBECONFIG.format(url=api.url))
        text = ACCOUNTS.format(token=TOKEN, anything=ANYTHING, folder=tmp_path)
        tokens = tokens_file(tmp_path, text)
        process, url = start("--store", store, "--tokens", str(tokens), "--trusted-proxy", "127.0.0.1")
        try:
            _used(url)
            asyncio.run(_flooded(url, api))
        finally:
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0, said
    assert said.count("tokens not reviewed") <= 1, "what a stranger does again and again is logged once a while"
    with open_store(store) as opened:
        assert opened.value("SELECT count() FROM events") == 1


def _used(url: str) -> None:
    event = {"ts": (datetime.now(UTC) - timedelta(hours=3)).isoformat(), "allocation_id": "a", "event": "submitted"}
    records = f"{url}api/v1/records/events"
    assert httpx.post(records, json=event).status_code == 401
    answer = httpx.post(records, json=event, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE_SECONDS)
    assert answer.json()["stored"] == 1
    assert httpx.get(f"{url}healthz", timeout=PATIENCE_SECONDS).json()["status"] == "ok"
    assert "gpuledger" in httpx.get(url, timeout=PATIENCE_SECONDS).text


async def _flooded(url: str, api: Scripted) -> None:
    """Behind a trusted proxy: a stranger's address is what it tells."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, limits=limits) as client:

        async def push(token: str, address: str) -> httpx.Response:
            headers = {"Authorization": f"Bearer {token}", "X-Forwarded-For": address}
            return await client.post(f"{url}api/v1/records/samples", json=[], headers=headers)

        async def strange(number: int) -> None:
            for again in itertools.count():
                answers[(await push(f"a{number}.b{again}.c", "192.0.2.66")).status_code] += 1
                await asyncio.sleep(1)

        async def quickly(asked: Awaitable[httpx.Response]) -> None:
            async with asyncio.timeout(PROBED_SECONDS):
                assert (await asked).status_code == 200

        answers: Counter[int] = Counter()
        assert (await push("good.one.1", "192.0.2.1")).status_code == 200
        api.delay = REVIEW_SECONDS
        strangers = [asyncio.create_task(strange(number)) for number in range(40)]
        try:
            await asyncio.sleep(1)
            for _ in range(3):
                await quickly(client.get(f"{url}healthz"))
                await quickly(push("good.one.1", "192.0.2.1"))
                await quickly(push(TOKEN, "192.0.2.3"))
            # One that is not remembered: from another address than the stranger's it is asked about beside them.
            await quickly(push("good.two.2", "192.0.2.2"))
        finally:
            for one in strangers:
                one.cancel()
            await asyncio.gather(*strangers, return_exceptions=True)
        assert answers.keys() <= {401, 503}
        assert answers[503] > 40


@pytest.mark.parametrize("command", ["backup", "sql"])
def test_a_server_of_pushes_alone_is_told_from_none(store: Store, tmp_path: Path, command: str) -> None:
    with receiving(store, tokens_file(tmp_path)) as served:
        said = refused(command, *(["SELECT 1"] if command == "sql" else []), "--store", served.url)
    assert said == f"{served.url}: answers 404. {NO_ANSWER}"
