"""Agents' tokens in Kubernetes: TokenReview over real HTTP, what its answers mean, and that none of them opens a door
by failing. With a real API server where there is one beside this checkout."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from collectors.kubernetes.connection import Connection, from_kubeconfig
from collectors.kubernetes.token_review import TokenReviews
from ingest import reviews
from ingest.errors import IngestError
from ingest.reviews import Account, ReviewError, Reviews
from ingest.senders import Kubernetes, Senders
from ingest.wire import plain
from tests.collectors.kubernetes.reviewing import AGENT, AUDIENCE, Scripted, reviewing, user
from tests.conftest import SHARED
from tests.draws import seldom
from tests.ingest.issued_fleet import LIVE, NOW, device, sample
from tests.ingest.receiving import receiving
from tests.patience import PATIENCE_SECONDS, until
from tests.ports import free_ports
from warehouse.store import Store

JWT = "aaaa.bbbb.cccc"
SENDERS = """
kubernetes:
  audience: gpuledger
  accounts:
    - {account: gpuledger/agent, records: [samples, metrics, findings, devices], clusters: [c1], nodes: own}
    - {account: gpuledger/watch, records: [events, devices], clusters: [c1], nodes: all, inventory: true}
"""


@pytest.fixture
def api() -> Iterator[Scripted]:
    with reviewing() as scripted:
        yield scripted


def reviewer(api: Scripted) -> TokenReviews:
    return TokenReviews(Connection(api.url, token="ours"), AUDIENCE)


def test_a_token_is_asked_about_with_our_audience_and_names_its_account_and_node(api: Scripted) -> None:
    assert reviewer(api).review(JWT) == Account("gpuledger/agent", "n1")
    ((what, body, bearer),) = api.asked
    assert (what, bearer) == ("POST /apis/authentication.k8s.io/v1/tokenreviews", "Bearer ours")
    assert body["spec"] == {"token": JWT, "audiences": [AUDIENCE]}


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"authenticated": False, "error": "expired"},
        {**AGENT, "authenticated": "true"},
        {**AGENT, "audiences": ["another"]},
        {**AGENT, "audiences": None},
        {**AGENT, "user": {"username": "admin"}},
        {**AGENT, "user": {"username": "system:serviceaccount:gpuledger"}},
        {**AGENT, "user": {"username": "system:serviceaccount:a:b:c"}},
        {**AGENT, "user": None},
    ],
)
def test_what_the_api_server_does_not_vouch_for_is_nobodys(api: Scripted, status: dict[str, Any]) -> None:
    api.status = status
    assert reviewer(api).review(JWT) is None


@pytest.mark.parametrize(("code", "text"), [(500, None), (403, None), (429, None), (201, b"no json"), (201, b"[]")])
def test_an_unreachable_api_server_authenticates_nobody(api: Scripted, code: int, text: bytes | None) -> None:
    api.code, api.text = code, text
    with pytest.raises(ReviewError) as raised:
        reviewer(api).review(JWT)
    assert raised.value.passes


def test_an_older_api_server_names_the_pod_whose_node_is_read(api: Scripted) -> None:
    pod = "/api/v1/namespaces/gpuledger/pods/p"
    api.status = user("gpuledger:agent", **{"pod-name": ["p"], "pod-uid": ["u"]})
    here = {"metadata": {"uid": "u"}, "spec": {"nodeName": "n7"}}
    for answer, expected in (
        ((200, here), Account("gpuledger/agent", "n7")),
        ((404, {}), Account("gpuledger/agent", "", "its pod is gone")),
        ((200, {**here, "metadata": {"uid": "another"}}), Account("gpuledger/agent", "", "its pod is gone")),
        ((200, {**here, "spec": {}}), Account("gpuledger/agent", "", "its pod is on no node yet")),
    ):
        api.pods = {pod: answer}
        assert reviewer(api).review(JWT) == expected
    api.pods = {pod: (403, {})}
    forbidden = reviewer(api).review(JWT)
    assert forbidden is not None
    assert "cannot be read" in forbidden.why_no_node
    api.pods = {pod: (500, {})}
    with pytest.raises(ReviewError):
        reviewer(api).review(JWT)
    api.status = user("gpuledger:agent")
    assert reviewer(api).review(JWT) == Account("gpuledger/agent", "", "it is bound to no pod")


@dataclass
class ReportedNode:
    """Vouches for all tokens but bad and slow ones; the good are an account's of ours. What has slow in it takes until
    it may go on."""

    asked: list[str] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    def review(self, token: str) -> Account | None:
        self.asked.append(token)
        if "slow" in token:
            assert self.go_on.wait(2 * PATIENCE_SECONDS)
        if token.startswith("bad") or token.startswith("slow"):
            return None
        return Account("a/b" if token.startswith("good") else "not/ours", "n")


def test_an_answer_counts_for_a_while_and_a_no_for_a_shorter_one() -> None:
    clock, reported = [0.0], ReportedNode()

    async def checks() -> None:
        known = Reviews(reported, {"a/b"}, lambda: clock[0])
        for _ in range(3):
            assert await known.of("good", "") == Account("a/b", "n")
            assert await known.of("bad", "") is None
            assert await known.of("other", "") is None, "an account of no sender is nobody"
        assert reported.asked == ["good", "bad", "other"]
        clock[0] = reviews.BAD_SECONDS
        await known.of("bad", ""), await known.of("good", "")
        assert reported.asked[3:] == ["bad"]
        clock[0] = reviews.GOOD_SECONDS
        await known.of("good", "")
        assert reported.asked[4:] == ["good"]

    asyncio.run(checks())


def test_no_number_of_wrong_tokens_evicts_a_good_one_and_the_cache_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reviews, "GOOD_REMEMBERED", 3)
    monkeypatch.setattr(reviews, "BAD_REMEMBERED", 2)
    reported = ReportedNode()

    async def checks() -> None:
        known = Reviews(reported, {"a/b"}, lambda: 1.0)
        await known.of("good", "")
        for number in range(20):
            await known.of(f"bad {number}", ""), await known.of(f"other {number}", "")
        before = len(reported.asked)
        await known.of("good", ""), await known.of("other 19", "")
        assert len(reported.asked) == before
        await known.of("bad 0", "")
        assert len(reported.asked) == before + 1
        for number in range(3):
            await known.of("good", "")
            await known.of(f"good {number}", "")
        before = len(reported.asked)
        await known.of("good", "")
        assert len(reported.asked) == before, "what is used is kept"
        await known.of("good 0", "")
        assert len(reported.asked) == before + 1, "what was used longest ago goes"

    asyncio.run(checks())


def test_while_too_many_are_asked_about_the_others_come_later() -> None:
    clock, reported = [0.0], ReportedNode()

    async def checks() -> None:
        known = Reviews(reported, {"a/b"}, lambda: clock[0])

        async def too_many(token: str, address: str) -> None:
            with pytest.raises(ReviewError, match="too many") as raised:
                await asyncio.wait_for(known.of(token, address), PATIENCE_SECONDS)
            assert raised.value.passes

        waiting = []

        async def begun(token: str, address: str) -> None:
            waiting.append(asyncio.create_task(known.of(token, address)))
            await asyncio.sleep(0)

        reported.go_on.set()
        assert await known.of("good, and slow later", "n1") is not None
        reported.go_on.clear()
        clock[0] = reviews.GOOD_SECONDS
        # A stranger takes its share; what asks about the same token again takes no more.
        for number in range(reviews.NEW_PER_ADDRESS):
            await begun(f"slow {number}", "2001:db8::1")
        await begun("slow 0", "elsewhere")
        await too_many("slow, one more", "2001:db8::2")
        # Others still get in, until all places are taken; then those still do whose tokens were good before.
        for number in range(reviews.NEW_PER_ADDRESS, reviews.NEW_AT_ONCE):
            await begun(f"slow {number}", f"n{number}")
        await too_many("slow, one more", "n0")
        await begun("good, and slow later", "n1")
        # One that hangs up takes its question not back, and its place is free when the answer is there.
        waiting[0].cancel()
        await asyncio.sleep(0)
        await too_many("slow, one more", "n0")
        reported.go_on.set()
        assert await asyncio.gather(*waiting[1:]) == [None] * (len(waiting) - 2) + [Account("a/b", "n")]
        asked = len(reported.asked)
        assert await known.of("slow 0", "n0") is None
        assert len(reported.asked) == asked
        assert await known.of("slow, one more", "2001:db8::2") is None

    asyncio.run(checks())


def connected(api: Scripted) -> Any:
    return lambda settings: TokenReviews(Connection(api.url), settings.audience)


def push(url: str, record: str, rows: list[dict[str, Any]], token: str = JWT) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.post(f"{url}/api/v1/records/{record}", json=[plain(row) for row in rows], headers=headers)


def test_an_agent_tells_of_the_node_that_its_token_is_bound_to_and_the_watch_of_all(
    api: Scripted, store: Store, tmp_path: Path
) -> None:
    (tmp_path / "senders.yaml").write_text(SENDERS)
    with receiving(store, tmp_path / "senders.yaml", now=lambda: NOW, connect=connected(api)) as served:
        own, foreign = sample("g1", "n1", LIVE), sample("g2", "n2", LIVE)
        report = push(served.url, "samples", [own, foreign]).json()
        assert (report["stored"], report["quarantined"]) == (1, {"out_of_place": 1})
        assert push(served.url, "events", []).status_code == 403
        assert push(served.url, "samples", [own], "no web token").status_code == 401
        assert len(api.asked) == 1, "an answer counts for a while, and what has another form is not asked about"
        # Another token of the same account, without a node: told to stay away for a while, not for ever.
        api.status = user("gpuledger:agent")
        assert push(served.url, "samples", [own], "an.other.token").status_code == 403
        api.status = user("gpuledger:watch")
        assert push(served.url, "devices", [device("g9", "n9", LIVE)], "the.watch.token").json()["stored"] == 1
        assert push(served.url, "samples", [own], "the.watch.token").status_code == 403
        api.status = user("elsewhere:agent", **{"node-name": ["n1"]})
        assert push(served.url, "samples", [own], "a.namesake.token").status_code == 401
        api.code = 500
        away = push(served.url, "samples", [own], "yet.another.token")
        assert (away.status_code, int(away.headers["Retry-After"]) > 0) == (503, True)
        assert push(served.url, "samples", [sample("g1", "n1", LIVE, use=0.1)]).status_code == 200, "remembered"
    assert store.rows("SELECT DISTINCT sender FROM ingest_batches ORDER BY sender") == [
        {"sender": "gpuledger/agent@n1"},
        {"sender": "gpuledger/watch"},
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kubernetes: {audience: a, accounts: []}", "accounts"),
        ("kubernetes: {accounts: [{account: a/b, records: all, clusters: all, nodes: own}]}", "audience"),
        ("kubernetes: {audience: a, accounts: [{account: b, records: all, clusters: all, nodes: own}]}", "account"),
        ("kubernetes: {audience: a, accounts: [{account: a/b, records: all, clusters: all}]}", "nodes is missing"),
    ],
)
def test_a_section_of_no_use_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "senders.yaml"
    path.write_text(text)
    with pytest.raises(IngestError, match=said):
        Senders(path, lambda settings: pytest.fail("not to be asked"))


def no_api_server() -> str:
    """Why there is no real API server to ask; empty: there is."""
    if not (SHARED / "kubernetes" / "start").exists():
        return "no ../shared/kubernetes with a real kube-apiserver"
    missing = [name for name in ("etcd", "xz", "openssl", "curl", "kubectl") if shutil.which(name) is None]
    return f"a real kube-apiserver needs {', '.join(missing)}" if missing else ""


@contextlib.contextmanager
def real_api_server(folder: Path) -> Iterator[Path]:
    """Its admin's kubeconfig."""
    # It takes its port and the two after it.
    port = next(number for number in range(max(free_ports(3)), 65_000, 7) if _free(number, number + 1, number + 2))
    script = SHARED / "kubernetes"
    done = subprocess.run(
        [script / "start", folder, str(port)], capture_output=True, text=True, timeout=180, check=False
    )
    try:
        assert done.returncode == 0, done.stderr
        yield folder / "admin.kubeconfig"
    finally:
        subprocess.run([script / "stop", folder], capture_output=True, timeout=60, check=False)


def _free(*ports: int) -> bool:
    for port in ports:
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            return False
    return True


@seldom(6, "a real api server names the pod")
@pytest.mark.slow
@pytest.mark.skipif(bool(no_api_server()), reason=no_api_server())
def test_a_real_api_server_names_the_pod_of_a_bound_token(store: Store, tmp_path: Path) -> None:
    with real_api_server(tmp_path / "k8s") as config:
        admin = from_kubeconfig(config)
        api = httpx.Client(base_url=admin.server, verify=admin.verify, headers={"Authorization": "Bearer admintoken"})

        def made(path: str, kind: str, name: str, **more: Any) -> dict[str, Any]:
            answer = api.post(path, json={"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, **more})
            assert answer.status_code in (200, 201), answer.text
            found: dict[str, Any] = answer.json()
            return found

        def token(account: str, audience: str, pod: dict[str, Any] | None = None) -> str:
            bound = {"kind": "Pod", "apiVersion": "v1", "name": "a", "uid": pod["metadata"]["uid"]} if pod else None
            asked = {"audiences": [audience], "expirationSeconds": 600, "boundObjectRef": bound}
            answer = api.post(
                f"/api/v1/namespaces/gpuledger/serviceaccounts/{account}/token",
                json={"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": asked},
            )
            assert answer.status_code == 201, answer.text
            return str(answer.json()["status"]["token"])

        made("/api/v1/namespaces", "Namespace", "gpuledger")
        for account in ("agent", "watch"):
            made("/api/v1/namespaces/gpuledger/serviceaccounts", "ServiceAccount", account)
        spec = {"nodeName": "n1", "serviceAccountName": "agent", "containers": [{"name": "c", "image": "i"}]}
        pod = made("/api/v1/namespaces/gpuledger/pods", "Pod", "a", spec=spec)
        agent, watch = token("agent", AUDIENCE, pod), token("watch", AUDIENCE)
        reviewed = TokenReviews(admin, AUDIENCE)
        assert reviewed.review(agent) == Account("gpuledger/agent", "n1")
        assert reviewed.review(watch) == Account("gpuledger/watch", "", "it is bound to no pod")
        assert reviewed.review(token("agent", "somebody else", pod)) is None
        assert reviewed.review(agent[:-8] + "AAAAAAAA") is None
        assert reviewed.review(JWT) is None

        (tmp_path / "senders.yaml").write_text(SENDERS.replace("  accounts:", f"  kubeconfig: {config}\n  accounts:"))

        def connect(settings: Kubernetes) -> TokenReviews:
            assert settings.kubeconfig is not None
            return TokenReviews(from_kubeconfig(settings.kubeconfig), settings.audience)

        with receiving(store, tmp_path / "senders.yaml", now=lambda: NOW, connect=connect) as served:
            rows = [sample("g1", "n1", LIVE), sample("g2", "n2", LIVE)]
            report = push(served.url, "samples", rows, agent).json()
            assert (report["stored"], report["quarantined"]) == (1, {"out_of_place": 1})
            assert push(served.url, "devices", [device("g2", "n2", LIVE)], watch).json()["stored"] == 1
            # A token lives as long as its pod.
            api.delete("/api/v1/namespaces/gpuledger/pods/a?gracePeriodSeconds=0")
            until(lambda: (again := reviewed.review(agent)) is None or not again.node, every=0.2)
            stop = [SHARED / "kubernetes" / "stop", tmp_path / "k8s"]
            subprocess.run(stop, capture_output=True, check=True, timeout=60)
            # Told to stop, it answers a little longer, and each answer counts for a while.
            tokens = (f"{agent[:-4]}{number:04}" for number in itertools.count())
            until(lambda: push(served.url, "samples", rows[:1], next(tokens)).status_code == 503, every=0.2)
        api.close()
