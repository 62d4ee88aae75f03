"""The door, over a real socket: who may come in, what is asked for, and answers to what is wrong."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import uvicorn

from gpuledger.serve import listen, url_of
from ingest.prompt_client import PromptClient
from scheduler.live.client import Client, read_token
from scheduler.live.http import MOST_BYTES, build_app
from scheduler.live.idle import Feed, Reading
from scheduler.settings import parse_settings
from tests.patience import until
from tests.prometheus import check_metrics
from tests.scheduler.live.living import SETTINGS, Living
from warehouse.errors import LedgerError, UnansweredError

TOKEN = "a-token-of-the-tests"


@pytest.fixture
def living(tmp_path: Path) -> Living:
    return Living(tmp_path)


@pytest.fixture
def url(living: Living) -> Iterator[str]:
    """Of a server that asks for the token."""
    listener = listen("127.0.0.1", 0)
    app = build_app(living.service, TOKEN, ("127.0.0.1",))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    until(lambda: server.started)
    yield url_of(listener).rstrip("/")
    server.should_exit = True
    thread.join(20)
    listener.close()


JOB = {"job_id": "team/a", "tenant": "vision", "queue": "batch", "request": {"devices": 4}}


def test_a_job_goes_through_its_life_over_http(url: str, living: Living) -> None:
    client = Client(url, TOKEN, "ada")
    assert client.submit(JOB)["status"] == "pending"
    client.act("team/a", "hold")
    assert client.jobs("held")[0]["job_id"] == "team/a"
    client.act("team/a", "release")
    living.settle()
    assert client.jobs()[0]["nodes"] == ["p-0"]
    (pool,) = client.pools()
    assert (pool["total"], pool["allocated"], pool["available"]) == (8, 4, 4)
    assert httpx.get(f"{url}/api/v1/pools").status_code == 401
    assert client.explain("team/a")["history"][0]["actor"] == "ada"
    assert client.act("team/a", "finish", {"succeeded": False}) == {"job_id": "team/a", "status": "failed"}
    assert client.explain("team/a")["status"] == "failed"
    assert client.set_node("p-1", "maintenance") == {"node": "p-1", "state": "maintenance"}


@pytest.mark.parametrize(
    ("path", "body", "match"),
    [
        ("/api/v1/jobs", {"tenant": "vision"}, "422"),
        ("/api/v1/jobs/nobody/cancel", {}, "404"),
        ("/api/v1/jobs/nobody/finish", {"succeeded": "yes"}, "422"),
        ("/api/v1/nodes/p-0", {"state": "tired"}, "422"),
        ("/api/v1/jobs", {**JOB, "queue": "nowhere"}, "422"),
        ("/api/v1/jobs", {**JOB, "payload": [1]}, "422"),
    ],
)
def test_a_mistake_is_reported_in_one_line(url: str, path: str, body: object, match: str) -> None:
    answer = httpx.post(url + path, json=body, headers={"authorization": f"Bearer {TOKEN}"})
    assert str(answer.status_code) == match
    assert "\n" not in answer.json()["detail"]


@pytest.mark.parametrize("path", ["jobs", "services/chat", "nodes/p-0", "jobs/x/finish"])
@pytest.mark.parametrize("body", ["NaN", "Infinity", "1e999", '"\\ud800"', "[]", "nothing", "", "{"])
def test_a_body_that_is_no_object_is_refused_in_one_line(url: str, path: str, body: str) -> None:
    kind = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    answer = httpx.post(f"{url}/api/v1/{path}", content=body, headers=kind)
    assert answer.status_code == 422
    assert "\n" not in answer.json()["detail"]
    asked = httpx.get(f"{url}/api/v1/jobs?limit=abc", headers=kind)
    assert (asked.status_code, asked.json()["detail"][:11]) == (422, "query.limit")


def test_idle_jobs_are_shown_kept_and_reclaimed_and_impossible_requests_are_refused(url: str, living: Living) -> None:
    client, headers = Client(url, TOKEN, "ada"), {"authorization": f"Bearer {TOKEN}"}
    living.configure(parse_settings(SETTINGS | {"idle": [{"warn": "30m", "after": "1h", "then": "suspend"}]}))
    client.submit(JOB)
    living.settle()
    for path in ("idle", "jobs/team/a/reclaim"):
        ask = httpx.get if path == "idle" else functools.partial(httpx.post, json={})
        answer = ask(f"{url}/api/v1/{path}", headers=headers)
        assert answer.status_code == 409
        assert answer.json()["detail"].endswith("does not know who is idle. Start it with --idle-from URL")
        assert ask(f"{url}/api/v1/{path}").status_code == 401
    assert "idle" not in httpx.get(url + "/healthz").json()
    living.service.hear_idle(Feed(living.now, problem="the books do not answer"))
    assert httpx.get(url + "/healthz").json()["idle"] == "the books do not answer"
    assert client.idle() == {"cluster": "c", "problem": "the books do not answer", "heard_at": None, "jobs": []}
    with pytest.raises(LedgerError, match="whether it is idle is unknown: the books do not answer"):
        client.act("team/a", "reclaim")
    living.now += 2400
    living.service.hear_idle(Feed(living.now, {"team/a": Reading(1800.0, living.now)}))
    living.settle()
    (job,) = client.idle()["jobs"]
    assert (job["job_id"], job["step"], job["next"], job["idle_seconds"]) == ("team/a", "warned", "suspend", 1800.0)
    assert (job["gpus"], job["problem"], job["allocations"]) == (4.0, "", ["team/a"])
    assert client.explain("team/a")["idle"]["next_at"] == job["next_at"] == "1970-01-01T01:26:40Z"
    client.act("team/a", "keep")
    with pytest.raises(LedgerError, match="is kept by ada already"):
        client.act("team/a", "keep")
    with pytest.raises(LedgerError, match="is kept by ada, as long as this attempt runs"):
        client.act("team/a", "reclaim")
    with pytest.raises(LedgerError, match="is neither pending nor running"):
        client.act("nobody", "keep")


def test_a_job_is_rescaled_by_whoever_has_the_token_and_nonsense_is_refused(url: str, living: Living) -> None:
    client = Client(url, TOKEN, "ada")
    client.submit(JOB | {"request": {"devices": 1}, "max_replicas": 4})
    living.settle()
    assert len(living.service.book.jobs["team/a"].grants) == 4
    assert len(client.act("team/a", "rescale", {"max_replicas": 2})["ranks"]) == 2
    client.act("team/a", "rescale", {"min_replicas": 2, "max_replicas": 3})
    living.now += 120
    living.settle()
    assert len(client.explain("team/a")["ranks"]) == 3
    told = [one for one in client.explain("team/a")["history"] if one["what"] == "rescale"]
    assert [(one["cause"]["actor"], one["cause"]["text"]) for one in told] == [
        ("ada", "at least 1 and at most 2 replicas are wanted"),
        ("ada", "at least 2 and at most 3 replicas are wanted"),
    ]
    for body, match in (
        ({}, "are both absent"),
        ({"min_replicas": 9}, "replicas from 9 to 3 are not a range"),
        ({"max_replicas": 0}, "replicas from 2 to 0 are not a range"),
        ({"max_replicas": True}, "max_replicas: is 'True'. Expected a whole number"),
        ({"max_replicas": 10**40}, "asks for more than any cluster has"),
        ({"max": 4}, "max: no such field"),
    ):
        with pytest.raises(LedgerError, match=match):
            client.act("team/a", "rescale", body)
    with pytest.raises(LedgerError, match="is neither pending nor running"):
        client.act("nobody", "rescale", {"max_replicas": 2})
    assert httpx.post(f"{url}/api/v1/jobs/team/a/rescale", json={"max_replicas": 1}).status_code == 401


def test_without_the_token_only_health_is_served(url: str) -> None:
    assert httpx.get(url + "/healthz").json() == {"status": "ok", "problem": "", "events_waiting": 8}
    for path in ("/metrics", "/api/v1/jobs"):
        assert httpx.get(url + path).status_code == 401
        assert httpx.get(url + path, headers={"authorization": f"Bearer {TOKEN}x"}).status_code == 401
        assert httpx.get(url + path, headers={"authorization": f"Basic {TOKEN}"}).status_code == 401
    with pytest.raises(LedgerError, match="give the scheduler's token"):
        Client(url, "wrong").jobs()


def test_a_page_from_elsewhere_cannot_speak_through_a_browser(url: str) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert httpx.get(url + "/api/v1/jobs", headers=headers | {"host": "evil.example"}).status_code == 400
    form = httpx.post(url + "/api/v1/jobs", content=b"{}", headers=headers | {"content-type": "text/plain"})
    assert form.status_code == 415


def test_a_body_that_is_too_large_is_not_read(url: str) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    assert httpx.post(url + "/api/v1/jobs", content=b"1" * (MOST_BYTES + 1), headers=headers).status_code == 413
    assert httpx.post(url + "/api/v1/jobs", content=iter([b"{}"]), headers=headers).status_code == 411
    assert httpx.post(url + "/api/v1/jobs", content=b"{", headers=headers).status_code == 422


def test_metrics_are_scraped(url: str, living: Living) -> None:
    Client(url, TOKEN).submit(JOB)
    living.settle()
    answer = httpx.get(url + "/metrics", headers={"authorization": f"Bearer {TOKEN}"})
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "gpuledger_scheduler_held_gpus 4.0" in answer.text
    check_metrics(answer.text)


def test_who_does_not_answer_as_a_scheduler_is_named_with_the_next_step() -> None:
    with pytest.raises(LedgerError, match=r"127.0.0.1:9: does not answer as a scheduler .*Start `gpuledger scheduler`"):
        Client("http://127.0.0.1:9").jobs()


@pytest.mark.parametrize("answer", ["null", "[]", "[{}]", "{}", '"x"', '{"jobs": 5}'])
def test_a_server_of_another_kind_is_named_too_and_what_it_was_asked_may_be_done(
    monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(PromptClient, "request", lambda *_, **__: httpx.Response(200, text=answer))
    client = Client("http://other")
    for asked in (client.idle, lambda: client.explain("a"), lambda: client.room("a")):
        with pytest.raises(LedgerError, match="does not answer as a scheduler"):
            asked()
    with pytest.raises(UnansweredError, match="may be done all the same"):
        client.act("a", "keep")
    if answer != "[]":
        with pytest.raises(LedgerError, match="does not answer as a scheduler"):
            client.jobs()


def test_a_token_that_is_no_secret_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("short\n")
    with pytest.raises(LedgerError, match="is not a token"):
        read_token(tmp_path / "token")
    assert read_token(None) == ""


def test_whatever_a_user_or_a_job_is_called_it_is_that_job_and_that_user(url: str, living: Living) -> None:
    client = Client(url, TOKEN, "jörg\n")
    for name in ("b", "a//b", "a?b#c", "a%2Fb", " jöb", "x/cancel", ".b", "/b"):
        client.submit(JOB | {"job_id": name, "request": {"devices": 0}})
        assert client.explain(name)["history"][0]["actor"] == "jörg"
        if name != "b":
            assert client.act(name, "cancel")["job_id"] == name
    for strange in ("a/../b", "../jobs/b", "./b"):
        with pytest.raises(LedgerError, match="never submitted"):
            client.explain(strange)
        with pytest.raises(LedgerError, match="is neither pending nor running"):
            client.act(strange, "cancel")
    assert [one["job_id"] for one in client.jobs()] == ["b"]


@pytest.mark.parametrize("content", [b"\xff\xfe-a-token-of-the-tests", "töken-of-the-tests-0".encode(), b"short"])
def test_a_file_that_holds_no_token_is_one_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    with pytest.raises(LedgerError, match=r"is not a token.* Expected one line of at least 16 ASCII characters"):
        read_token(tmp_path / "token")
