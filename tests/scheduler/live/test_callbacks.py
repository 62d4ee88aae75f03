"""Callbacks: signed, in order, at least once over kills, ever more seldom while nobody answers, nowhere forbidden."""

from __future__ import annotations

import copy
import itertools
import json
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from ingest.webhook import SIGNATURE, TIMESTAMP, signature
from scheduler.live import callbacks, posting
from scheduler.live.callbacks import GIVEN_UP_AFTER
from scheduler.live.posting import PostError, post
from scheduler.settings import SettingsError, parse_settings
from tests.draws import keep_seed
from tests.patience import until
from tests.scheduler.live.living import SETTINGS, Living
from warehouse.errors import LedgerError

SECRET = "a-secret-of-the-tests"


class Receiver(HTTPServer):
    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.answers: list[int] = []
        self.url = f"http://127.0.0.1:{self.server_port}/gpu"

    def names(self) -> list[str]:
        return [json.loads(body)["id"] for _, body in self.heard]

    def received(self) -> list[tuple[str, str]]:
        return [(document["allocation_id"], document["event"]) for document in map(json.loads, dict(
            zip(self.names(), (body for _, body in self.heard), strict=True)).values())]  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.server.answers.pop(0) if self.server.answers else 204
        if status < 400:
            self.server.heard.append((dict(self.headers.items()), body))
        self.send_response(status)
        self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def receiving() -> Iterator[Receiver]:
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def receiver(receiving: Receiver) -> Receiver:
    receiving.heard.clear()
    receiving.answers.clear()
    return receiving


def living(folder: Path, **callback: Any) -> Living:
    (folder / "secret").write_text(SECRET + "\n")
    settings = copy.deepcopy(SETTINGS)
    secret = {"secret": {"file": str(folder / "secret")}} if "url" in callback else {}
    settings["callbacks"] = [{"name": "ci", **secret, **callback}]
    return Living(folder, settings)


def test_a_start_and_an_end_are_delivered_signed_once_and_in_order(tmp_path: Path, receiver: Receiver) -> None:
    one = living(tmp_path, url=receiver.url, queues=["batch"], tenants=["vision"])
    one.submit("a", 2)
    one.submit("other", 1, tenant="speech")
    one.settle()
    one.now = 1010.0
    one.service.finish("a", True, "ada")
    assert one.service.callbacks.hand_over()
    assert not one.service.callbacks.hand_over()
    assert receiver.received() == [("a", "started"), ("a", "finished")]
    headers, body = receiver.heard[0]
    assert headers[SIGNATURE] == signature(SECRET, headers[TIMESTAMP], body) and headers[TIMESTAMP] == "1010"
    document = json.loads(body)
    assert headers["X-Gpuledger-Delivery"] == document["id"] and document["job_id"] == "a"
    assert [held["device_id"] for held in document["devices"]] == ["p-0/0", "p-0/1"]
    assert json.loads(receiver.heard[1][1])["actor"] == "ada"
    assert SECRET not in json.dumps([entry.body for entry in one.log.entries()])


def test_a_callback_gets_only_what_happens_after_it_was_configured(tmp_path: Path, receiver: Receiver) -> None:
    one = Living(tmp_path)
    one.submit("before", 1)
    one.settle()
    one.settings = _with(one, tmp_path, receiver)
    one.service.configure(one.settings)
    one.submit("after", 1)
    one.settle()
    one.restart()
    one.service.callbacks.hand_over()
    assert receiver.received() == [("after", "started")]


def test_a_job_that_waits_is_submitted_once_however_often_its_reason_changes(
    tmp_path: Path, receiver: Receiver
) -> None:
    one = living(tmp_path, url=receiver.url, events=["submitted", "started"])
    for name, tenant in (("a", "vision"), ("b", "speech"), ("c", "vision")):
        one.submit(name, 4, tenant=tenant)
    one.settle()
    assert [row["reason"] for _, row in one.rows if row.get("allocation_id") == "c"] == ["", "InsufficientCapacity"]
    while one.service.callbacks.hand_over():
        pass
    assert receiver.received() == [
        ("a", "submitted"),
        ("b", "submitted"),
        ("c", "submitted"),
        ("a", "started"),
        ("b", "started"),
    ]


def _with(one: Living, folder: Path, receiver: Receiver) -> Any:
    (folder / "secret").write_text(SECRET)
    callback = {"name": "ci", "url": receiver.url, "secret": {"file": str(folder / "secret")}}
    return parse_settings(one.settings.model_dump(mode="json") | {"callbacks": [callback]})


def test_who_cannot_be_reached_is_tried_ever_more_seldom_and_hears_all_of_it(
    tmp_path: Path, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    one = living(tmp_path, url=receiver.url)
    one.submit("a", 1)
    one.settle()
    receiver.answers += [500, 302, 503]
    tried = []
    for _ in range(30):
        before = len(receiver.answers)
        one.service.callbacks.hand_over()
        if len(receiver.answers) != before:
            tried.append(one.now)
        one.now += 0.5
    assert [later - first for first, later in itertools.pairwise(tried)] == [1, 2]
    assert receiver.received() == [("a", "started")]
    assert len(caplog.records) == 3 and SECRET not in caplog.text
    (tmp_path / "secret").unlink()
    one.service.finish("a", True, "ada")
    one.service.callbacks.hand_over()
    assert "a secret cannot be read" in one.service.callbacks.state()["ci"]["problem"]
    (tmp_path / "secret").write_text(SECRET)
    one.now += 2
    one.service.callbacks.hand_over()
    assert receiver.received()[1:] == [("a", "finished")]


def test_a_refused_or_outdated_notification_is_dropped_and_the_next_is_delivered(
    tmp_path: Path, receiver: Receiver
) -> None:
    one = living(tmp_path, url=receiver.url)
    one.submit("a", 1)
    one.settle()
    receiver.answers.append(422)
    one.service.finish("a", False, "ada")
    one.service.callbacks.hand_over()
    assert receiver.received() == [("a", "failed")]
    one.submit("b", 1)
    one.settle()
    one.now += GIVEN_UP_AFTER + 1
    receiver.answers.append(500)
    one.service.callbacks.hand_over()
    assert one.service.callbacks.state()["ci"] == {"waiting": 0, "given_up": 2, "problem": "answered 500"}


def test_after_kills_at_any_moment_everything_was_delivered_in_order_with_its_id(
    tmp_path: Path, receiver: Receiver
) -> None:
    dice = random.Random(f"{keep_seed()} of callbacks")
    one = living(tmp_path, url=receiver.url)
    for number in range(25):
        one.now += dice.choice([0, 1, 400])
        receiver.answers[:] = dice.choices([204, 500], k=2)
        jobs = sorted(one.service.book.jobs)
        if jobs and dice.random() < 0.5:
            one.service.cancel(dice.choice(jobs), "ada")
        else:
            one.submit(f"j{number}", 1)
        one.settle()
        if dice.random() < 0.5:
            one.service.callbacks.hand_over()
        if dice.random() < 0.4:
            if dice.random() < 0.5:  # killed before it was written down that it was told
                one.log.set_delivered = lambda *_: None  # type: ignore[method-assign]
                one.service.callbacks.hand_over()
            one.restart()
    receiver.answers.clear()
    one.now += 400
    one.service.callbacks.hand_over()
    events = [event for event in one.events() if event[1] != "submitted"]
    assert receiver.received() == events
    assert len(receiver.names()) >= len(events)


def test_a_command_hears_it_on_its_standard_input_and_nothing_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_PASSWORD", "geheim")
    out, gate = tmp_path / "out", tmp_path / "gate"
    one = living(tmp_path, command=["/bin/sh", "-c", f"test -e {gate} && cat > {out} && env >> {out}"])
    one.submit("a", 1)
    one.settle()
    one.service.callbacks.hand_over()
    assert one.service.callbacks.state()["ci"]["problem"] == "/bin/sh ended with 1"
    gate.touch()
    one.now += 1
    one.service.callbacks.hand_over()
    said = out.read_text()
    assert '"event":"started"' in said and "PATH=" in said and "geheim" not in said


@pytest.mark.parametrize(
    ("host", "address", "says"),
    [
        ("metadata.example", "169.254.169.254", "link-local"),
        ("metadata.example", "fe80::1", "link-local"),
        ("rebound.example", "127.0.0.1", "this machine"),
        ("rebound.example", "::ffff:127.0.0.1", "this machine"),
        ("all.example", "0.0.0.0", "unspecified"),
        ("many.example", "224.0.0.1", "multicast"),
        ("cloud.example", "100.100.100.200", "credentials"),
        ("cloud.example", "2002:a9fe:a9fe::", "link-local"),
        ("cloud.example", "64:ff9b::a9fe:a9fe", "link-local"),
    ],
)
def test_nothing_is_sent_to_what_is_forbidden(
    host: str, address: str, says: str, monkeypatch: pytest.MonkeyPatch, receiver: Receiver
) -> None:
    found = [(0, 0, 0, "", (address, receiver.server_port))]
    monkeypatch.setattr(posting.socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(PostError, match=says):
        post(f"http://{host}:{receiver.server_port}/", b"{}", {})
    assert not receiver.heard


@pytest.mark.parametrize(
    ("callback", "says"),
    [
        ({}, "say url or command"),
        ({"url": "https://x.example", "command": ["/bin/true"], "secret": {"file": "f"}}, "say url or command"),
        ({"url": "https://x.example"}, "give secret"),
        ({"url": "ftp://x.example", "secret": {"file": "f"}}, "http:// or https://"),
        ({"url": "https://u:p@x.example", "secret": {"file": "f"}}, "no password"),
        ({"url": "http://x.example:99999/", "secret": {"file": "f"}}, "Port out of range"),
        ({"url": "http://münchen.example/", "secret": {"file": "f"}}, "%-encode"),
        ({"url": "http://a..b/", "secret": {"file": "f"}}, "label empty"),
        ({"url": "http://x.example/\r\n", "secret": {"file": "f"}}, "%-encode"),
        ({"command": ["notify"]}, "absolute path"),
        ({"url": "https://x.example", "secret": "hush"}, "secret"),
    ],
)
def test_a_callback_that_cannot_be_is_refused_in_the_settings(callback: dict[str, Any], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        parse_settings(SETTINGS | {"callbacks": [{"name": "ci", **callback}]})


def test_a_slow_or_failing_callback_does_not_delay_the_others(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, out = tmp_path / "gate", tmp_path / "out"
    one = living(tmp_path, url=receiver.url)
    part = {"events": ["started"]}
    hung = {"name": "hung", "command": ["/bin/sh", "-c", f"until test -e {gate}; do sleep 0.05; done"], **part}
    strange = {"name": "strange", "command": ["/bin/sh", "-c", f"cat >> {out}"], **part}
    before = one.settings.model_dump(mode="json")
    one.configure(parse_settings(before | {"callbacks": [*before["callbacks"], hung, strange]}))
    run = callbacks._run

    def breaks(command: Any, body: bytes) -> None:
        if "cat" in command[2] and not gate.exists():
            raise ZeroDivisionError("of ours")
        run(command, body)

    monkeypatch.setattr(callbacks, "_run", breaks)
    one.submit("jöb", 1)
    one.settle()
    first = one.service.callbacks.begin()
    for event in ("started", "cancelled"):
        until(lambda event=event: ("jöb", event) in receiver.received(), f"{event} to be told")  # type: ignore[misc]
        if event == "started":
            one.service.cancel("jöb", "ada")
            one.settle()
            until(lambda: not one.service.callbacks._lines["ci"].is_busy, "the first to be told")
            one.service.callbacks.begin()
    assert any(sender.is_alive() for sender in first), "the one that hangs"
    assert receiver.heard[0][0]["X-Gpuledger-Delivery"] == "c/5/j%C3%B6b/started"
    assert json.loads(receiver.heard[0][1])["id"] == "c/5/jöb/started"
    gate.touch()
    for sender in first:
        sender.join()
    assert one.service.callbacks.state()["strange"]["problem"] == "an internal error; the log has the details"
    one.now += 1
    one.service.callbacks.hand_over()
    assert '"started"' in out.read_text()
    assert all(state["waiting"] == 0 for state in one.service.callbacks.state().values())


def test_a_clock_that_goes_back_and_a_disk_that_is_full_delay_no_callback_for_long(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = living(tmp_path, url=receiver.url)
    one.submit("a", 1)
    one.settle()
    receiver.answers.append(500)
    one.service.callbacks.hand_over()
    one.now -= 86400

    def full(*_: object) -> None:
        raise LedgerError("log", "cannot be written (disk is full)")

    with monkeypatch.context() as patched:
        patched.setattr(one.log, "set_delivered", full)
        one.service.callbacks.hand_over()
    assert receiver.received() == [("a", "started")]
    assert "disk is full" in one.service.callbacks.state()["ci"]["problem"]
    one.now += 86400
    one.service.finish("a", True, "ada")
    one.service.callbacks.hand_over()
    assert receiver.received()[1:] == [("a", "finished")]
    assert one.service.callbacks.state()["ci"] == {"waiting": 0, "given_up": 0, "problem": ""}


@pytest.mark.parametrize("restarts", [False, True])
def test_nothing_is_stored_for_a_callback_that_the_settings_do_not_name(
    restarts: bool, tmp_path: Path, receiver: Receiver
) -> None:
    one = living(tmp_path, url=receiver.url)
    named = one.settings
    one.submit("a", 1)
    one.settle()
    one.configure(parse_settings(named.model_dump(mode="json") | {"callbacks": []}))
    one.submit("b", 1)
    one.settle()
    one.configure(named)
    one.submit("c", 1)
    one.settle()
    if restarts:
        one.restart()
    one.service.callbacks.hand_over()
    assert receiver.received() == [("c", "started")]
