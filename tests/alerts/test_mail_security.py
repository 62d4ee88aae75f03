"""Mail by STARTTLS and TLS: whom a password is given to, and what is said of a server that does not get it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword
from pydantic import ValidationError

from alerts.deliver import deliver
from alerts.transports import SendError
from alerts.transports.email import Email
from tests.alerts.facts import ago
from tests.alerts.test_deliver import fire, routes
from tests.certificates import self_signed
from tests.patience import PATIENCE_SECONDS
from warehouse.store import Store

PASSWORD = "correct horse battery"


class Server:
    """Keeps mails, and what was tried as a password."""

    def __init__(self) -> None:
        self.mails: list[Envelope] = []
        self.tried: list[LoginPassword] = []

    async def handle_DATA(self, server: Any, session: Any, envelope: Envelope) -> str:
        self.mails.append(envelope)
        return "250 kept"

    def authenticate(
        self, server: Any, session: Any, envelope: Any, mechanism: str, given: LoginPassword
    ) -> AuthResult:
        self.tried.append(given)
        return AuthResult(success=given.password == PASSWORD.encode(), handled=False)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path]]:
    """By what is right or wrong of it; all but `unknown` are trusted."""
    folder = tmp_path_factory.mktemp("certificates")
    made = {kind: self_signed(folder, "localhost", kind, kind == "expired") for kind in ("right", "unknown", "expired")}
    made["of another"] = self_signed(folder, "mail.example.org", "of another")
    trusted = [made[kind][0].read_text() for kind in made if kind != "unknown"]
    (folder / "trusted.pem").write_text("".join(trusted))
    return made | {"trusted": (folder / "trusted.pem", folder / "trusted.pem")}


@contextmanager
def mail_server(
    certificate: tuple[Path, Path] | None, at_once: bool = False, server: Server | None = None
) -> Iterator[tuple[Server, int]]:
    """certificate: None: it offers no STARTTLS.   at_once: TLS from the first byte."""
    server, context = server or Server(), None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    loop = asyncio.new_event_loop()

    def speaks() -> SMTP:
        starttls = None if at_once else context
        return SMTP(server, hostname="here", tls_context=starttls, authenticator=server.authenticate,
                    auth_require_tls=False, auth_exclude_mechanism=["LOGIN"], loop=loop)  # fmt: skip

    listening = loop.create_server(speaks, "127.0.0.1", 0, ssl=context if at_once else None)
    listens = loop.run_until_complete(listening)
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield server, listens.sockets[0].getsockname()[1]
    finally:
        asyncio.run_coroutine_threadsafe(_ended(listens), loop).result(PATIENCE_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.close()


async def _ended(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for one in others:
        one.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def email(port: int, **more: Any) -> Email:
    asked = {"host": "localhost", "port": port, "username": "gpuledger", "password": {"env": "MAIL_PASSWORD"}}
    return Email.model_validate({**asked, "from": "gpuledger@example.org", "to": ["ops@example.org"], **more})


def mail() -> EmailMessage:
    one = EmailMessage()
    one["From"], one["To"], one["Subject"] = "gpuledger@example.org", "ops@example.org", "idle"
    one.set_content("hello\n")
    return one


@pytest.fixture(autouse=True)
def trusting(certificates: dict[str, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates["trusted"][0]))
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_a_server_that_is_who_it_says_gets_the_password_and_the_mail(
    certificates: dict[str, tuple[Path, Path]], security: str
) -> None:
    with mail_server(certificates["right"], at_once=security == "tls") as (server, port):
        assert email(port, security=security).post(mail()) == {}
    assert [one.password for one in server.tried] == [PASSWORD.encode()]
    (kept,) = server.mails
    assert kept.rcpt_tos == ["ops@example.org"]


@pytest.mark.parametrize("security", ["starttls", "tls"])
@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("unknown", "self-signed certificate"),
        ("of another", "Hostname mismatch, certificate is not valid for 'localhost'"),
        ("expired", "certificate has expired"),
    ],
)
def test_a_server_that_may_be_another_gets_neither(
    certificates: dict[str, tuple[Path, Path]], security: str, kind: str, says: str
) -> None:
    served = mail_server(certificates[kind], at_once=security == "tls")
    with served as (server, port), pytest.raises(SendError) as refused:
        email(port, security=security).post(mail())
    assert not server.tried
    assert not server.mails
    said = str(refused.value)
    assert said.startswith(f"localhost:{port}: ")
    assert says in said.replace("self signed", "self-signed")
    assert "\n" not in said


def test_a_server_that_offers_no_starttls_gets_neither() -> None:
    plain = pytest.raises(SendError, match="STARTTLS extension not supported by server")
    with mail_server(None) as (server, port), plain:
        email(port).post(mail())
    assert (server.tried, server.mails) == ([], [])


def test_a_password_that_is_refused_is_said_and_tried_again_seldom(
    facts: Store, certificates: dict[str, tuple[Path, Path]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As found: `answered 535`."""
    fire(facts)
    monkeypatch.setenv("MAIL_PASSWORD", "wrong one")
    with mail_server(certificates["right"]) as (server, port):
        asked = email(port).model_dump(mode="json", by_alias=True)
        (result,) = deliver(facts, routes(email=asked), ago(9))
        assert result.outcome == "refused", result
        (row,) = facts.rows("SELECT detail, next_attempt_at FROM alert_deliveries")
        assert row["detail"].startswith(f"localhost:{port}: refused the login of gpuledger: answered 535")
        assert row["next_attempt_at"] > ago(9) + timedelta(minutes=12)
        monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
        (again,) = deliver(facts, routes(email=asked), ago(9) + timedelta(minutes=20))
        assert again.outcome == "sent"
    assert len(server.mails) == 1


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"host": "mail.example.org", "security": "none"}, "would send the password to mail.example.org in clear"),
        ({"to": ["a@b.org\nBcc: c@d.org"]}, "expected one address"),
        ({"to": ["a@b.org, c@d.org"]}, "expected one address"),
        ({"from": "a\nb@c.org"}, "expected one address"),
        ({"from": ""}, "expected one address"),
    ],
)
def test_what_would_not_arrive_or_would_give_away_a_password_is_refused_when_it_is_read(
    given: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        email(587, **given)


@pytest.mark.parametrize("address", ["ops@example.org", "Operations <ops@example.org>", "jörg@example.org", "c@d"])
def test_an_address_may_have_a_name(address: str) -> None:
    assert email(587, to=[address]).to == (address,)
    assert email(587, security="none", host="127.0.0.1").username == "gpuledger"
