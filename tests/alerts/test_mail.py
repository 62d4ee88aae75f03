"""Mail over real SMTP: whatever a mail server does, no mail is lost or sent twice, and no secret is shown."""

from __future__ import annotations

import base64
import contextlib
import socketserver
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from functools import partial
from typing import Any

import pytest
from pydantic import ValidationError

from alerts.transports import SendError
from alerts.transports import email as transport
from alerts.transports.email import Email

PASSWORD = "s3cr3t-value"
SENT = [PASSWORD, base64.b64encode(PASSWORD.encode()).decode(), base64.b64encode(f"\0me\0{PASSWORD}".encode()).decode()]


@dataclass
class Server:
    """answers: by verb, or by `RCPT <address>`, or END for the mail itself; empty: it says nothing."""

    answers: dict[str, str] = field(default_factory=dict)
    port: int = 0
    mails: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


class Conversation(socketserver.StreamRequestHandler):
    """Of one connection to a server, without encryption."""

    def __init__(self, played: Server, *of_connection: Any) -> None:
        self.played = played
        super().__init__(*of_connection)

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            self._talk()

    def _talk(self) -> None:
        answers = self.played.answers
        if not self._say(answers.get("", "220 here")):
            return
        while line := self._line():
            verb = line.split()[0].upper()
            known = {
                "EHLO": "250-here\r\n250 AUTH PLAIN LOGIN",
                "AUTH": "235 welcome",
                "DATA": "354 go on",
                "QUIT": "221 bye",
            }
            to = f"RCPT {line.partition(':')[2].split()[0]}" if verb == "RCPT" else verb
            answer = answers.get(to, answers.get(verb, known.get(verb, "250 fine")))
            if not self._say(answer):
                return
            if verb == "DATA" and answer.startswith("354") and not self._take_mail(answers.get("END", "250 kept")):
                return
            if verb == "QUIT" or answer.startswith("421"):
                return

    def _take_mail(self, answer: str) -> bool:
        lines = []
        while (part := self._line()) != ".":
            lines.append(part)
        if answer.startswith("250"):
            self.played.mails.append("\n".join(lines))
        return self._say(answer)

    def _line(self) -> str:
        return self.rfile.readline().decode().rstrip("\r\n")

    def _say(self, text: str) -> bool:
        if not text:
            self.played.over.wait(30)
            return False
        self.wfile.write(text.encode() + b"\r\n")
        return True


@contextlib.contextmanager
def mail_server(answers: Mapping[str, str] | None = None) -> Iterator[Server]:
    played = Server(dict(answers or {}))
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), partial(Conversation, played)) as server:
        server.daemon_threads, server.block_on_close = True, False
        played.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield played
        finally:
            played.over.set()
            server.shutdown()
            thread.join()


def mail(*to: str) -> EmailMessage:
    made = EmailMessage()
    made["From"], made["To"], made["Subject"] = "ledger@example.org", ", ".join(to), "größer: 显卡"
    made.set_content("Grüße\n")
    return made


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)


LOGIN = {"username": "me", "password": {"env": "MAIL_PASSWORD"}}
TO = ("a@example.org", "b@example.org", "c@example.org")


def post(server: Server, *to: str, **settings: Any) -> Any:
    plain = {"host": "localhost", "port": server.port, "from": "ledger@example.org", "to": to or TO[:1]}
    return Email.model_validate({**plain, **settings}).post(mail(*(to or TO[:1])), to)


def refusal(server: Server, *to: str, **settings: Any) -> SendError:
    """The failure, which never shows a secret."""
    with pytest.raises(SendError) as caught:
        post(server, *to, **settings)
    assert not any(secret in str(caught.value) for secret in SENT)
    return caught.value


@pytest.mark.parametrize(
    ("verb", "answer", "says", "refused"),
    [
        ("AUTH", "535 5.7.8 no: {secret}", "refused the login of me: answered 535", True),
        ("AUTH", "454 try later", "refused the login of me: answered 454", False),
        ("MAIL", "550 not yours", "refused the sender ledger@example.org: answered 550 not yours", True),
        ("END", "554 " + 25 * "repeat " + "{secret}", f"refused the mail: answered 554 {25 * 'repeat '}***", True),
        ("DATA", "554 looks like spam", "refused the mail: answered 554 looks like spam", True),
        ("END", "452 disk full", "refused the mail: answered 452 disk full", False),
        ("", "554 go away", "answered 554 go away", True),
        ("", "421 too many", "answered 421 too many", False),
    ],
)
def test_what_a_mail_server_refuses_is_said(verb: str, answer: str, says: str, refused: bool) -> None:
    """As found: `answered 535`, with neither the server nor what it had refused."""
    with mail_server({verb: answer.format(secret=SENT[2])}) as server:
        found = refusal(server, security="none", **LOGIN)
    assert (str(found), found.refused) == (f"localhost:{server.port}: {says}", refused)


@pytest.mark.parametrize("bye", ["421 too slow", "500 what?", ""])
def test_a_mail_that_was_taken_is_sent_whatever_is_answered_to_the_goodbye(
    monkeypatch: pytest.MonkeyPatch, bye: str
) -> None:
    """As found: it counted as failed, and was sent again and again."""
    monkeypatch.setattr(transport, "TIMEOUT_SECONDS", 1.0)
    with mail_server({"QUIT": bye}) as server:
        assert post(server, security="none") == {}
    assert len(server.mails) == 1


def test_who_is_refused_is_refused_whatever_is_answered_to_the_goodbye() -> None:
    with mail_server({"QUIT": "421 too slow", "RCPT <a@example.org>": "550 gone"}) as server:
        found = post(server, *TO[:1], security="none")
    assert {address: one.code for address, one in found.items()} == {TO[0]: 550}


def test_nobody_has_a_mail_that_the_server_hung_up_before() -> None:
    """As found: the second of three was answered 421, and the first and third counted as sent."""
    with mail_server({"RCPT <b@example.org>": "421 closing"}) as server:
        found = refusal(server, *TO, security="none")
    assert (str(found), found.refused) == (f"localhost:{server.port}: answered 421 closing", False)
    assert not server.mails


@pytest.mark.parametrize("code", [450, 550])
def test_the_others_have_what_one_refuses(code: int) -> None:
    with mail_server({"RCPT <b@example.org>": f"{code} no"}) as server:
        found = post(server, *TO, security="none")
    assert {address: (one.code, one.for_good) for address, one in found.items()} == {TO[1]: (code, code == 550)}
    assert len(server.mails) == 1


@pytest.mark.parametrize("verb", ["", "EHLO", "MAIL", "END"])
def test_a_mail_server_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    monkeypatch.setattr(transport, "TIMEOUT_SECONDS", 1.0)
    with mail_server({verb: ""}) as server:
        found = refusal(server, security="none")
    assert not found.refused
    assert f"localhost:{server.port}: " in str(found)


def test_a_name_or_password_that_smtp_cannot_say_is_named_without_a_letter_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MAIL_PASSWORD", "pässword")
    with mail_server() as server:
        found = refusal(server, security="none", **LOGIN)
    assert str(found) == f"localhost:{server.port}: username and password of a mail server must be ASCII"


@pytest.mark.parametrize(
    "settings",
    [
        {"from": "a\nBcc: b@example.org"}, {"from": ""}, {"from": "a b c"}, {"from": "Bill, GPU <a@example.org>"},
        {"to": ["a@example.org, b@example.org"]}, {"to": ["a@example.org\r\nBcc: b@example.org"]}, {"to": [""]},
        {"port": 0}, {"port": 99999}, {"host": ""},
    ],
)  # fmt: skip
def test_settings_that_no_mail_could_go_out_with_are_refused(settings: dict[str, Any]) -> None:
    """As found: a sender of two lines ended the whole round of deliveries."""
    whole = {"host": "localhost", "from": "a@example.org", "to": ["b@example.org"]}
    with pytest.raises(ValidationError):
        Email.model_validate({**whole, **settings})


@pytest.mark.parametrize("sender", ["root", "a@example.org", "Größe <a@example.org>", '"Bill, GPU" <a@example.org>'])
def test_senders_may_have_a_name(sender: str) -> None:
    Email.model_validate({"host": "localhost", "from": sender, "to": [sender]})
