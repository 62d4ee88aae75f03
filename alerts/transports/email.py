"""E-mail, by SMTP."""

from __future__ import annotations

import base64
import contextlib
import logging
import re
import smtplib
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, make_msgid
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from alerts.rule import Part
from alerts.secrets import Secret, hidden
from alerts.transports import TIMEOUT_SECONDS, WORDS, AlertLike, SendError, headline, moment
from ingest.answer_time import ended_in_time, hang_up
from warehouse.connection_errors import reason
from warehouse.hosts import is_loopback
from warehouse.printable import printable

log = logging.getLogger(__name__)
SHOWN = 100
SHOWN_CHARACTERS = 200
"""Length limit of a mail server's response."""
READY = 220
CLOSES = 421
"""The code with which a mail server ends the conversation, whatever it was asked."""
MAIL_SECONDS = 60.0
"""For the whole of a conversation with a mail server."""


def one_address(text: str) -> str:
    """Errors: ValueError if it is none, or several."""
    fits = "expected one address, such as ops@example.org or GPU ledger <ops@example.org>"
    try:
        found = SMTP.header_factory("To", text).addresses
    except ValueError:
        raise ValueError(fits) from None
    if len(found) != 1 or not found[0].username or re.search(r"\s", found[0].addr_spec) or not text.isprintable():
        raise ValueError(fits)
    return text


Address = Annotated[str, AfterValidator(one_address)]


class Email(Part):
    """security: starttls (port 587, the usual), tls (465) or none (a relay, to which no password may go but on this
    machine)."""

    host: Annotated[str, Field(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: Secret | None = None
    from_: Annotated[Address, Field(alias="from")]
    to: Annotated[tuple[Address, ...], Field(min_length=1)]
    resend: None = None
    keeps_alive: bool = False
    most: int = 1000
    gives_up: int = 20

    @model_validator(mode="after")
    def _keeps_its_password(self) -> Self:
        if self.security == "none" and self.username and not is_loopback(self.host):
            raise ValueError(
                f"security none would send the password to {self.host} in clear; use starttls or tls, or no username"
            )
        return self

    @property
    def way(self) -> str:
        return self.to[0]

    def endpoints(self) -> list[Email]:
        """A mail of its own for each address: what one of them refuses is tried again for that one alone."""
        return [self.model_copy(update={"to": (address,)}) for address in self.to]

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        refused = self.post(message(alerts, self.from_, self.to, now))
        for address, refusal in refused.items():
            raise SendError(f"{address}: {refusal}", refusal.for_good)

    def post(self, mail: EmailMessage, to: Sequence[str] = ()) -> dict[str, Refusal]:
        """Sends a mail that is ready, and answers which addresses were refused; the others have it.

        to: only these of its addresses.   Errors: SendError; AlertError if a secret is missing.
        """
        password = self.password.read() if self.password is not None else ""
        secrets, place = _forms(self.username, password), f"{self.host}:{self.port}"
        if self.username and not f"{self.username}{password}".isascii():
            raise SendError(f"{place}: username and password of a mail server must be ASCII", refused=True)
        server = self._server()
        try:
            with ended_in_time(MAIL_SECONDS, lambda: hang_up(server.sock)) as late, _left(server):
                code, said = server.connect(self.host, self.port)
                if code != READY:
                    raise smtplib.SMTPConnectError(code, said)
                if self.security == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if self.username:
                    server.login(self.username, password)
                refused = server.send_message(mail, to_addrs=to or None)
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
        except smtplib.SMTPResponseException as error:
            if late.is_set():
                raise SendError(f"{place}: had not taken it after {MAIL_SECONDS:g} s") from None
            what = f"{place}: {self._stage(error)}{_answer(error, secrets)}"
            raise SendError(what, 500 <= error.smtp_code < 600) from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            if late.is_set():
                raise SendError(f"{place}: had not taken it after {MAIL_SECONDS:g} s") from None
            raise SendError(hidden(f"{place}: {reason(error)}", secrets)) from None
        # 421 ends the conversation before the mail is given: those before it and after it do not have it either.
        for code, said in refused.values():
            if code == CLOSES:
                raise SendError(f"{place}: answered {code} {_line(said, secrets)}".rstrip())
        found = {}
        for address, (code, said) in refused.items():
            found[address] = Refusal(code, _line(said, secrets))
            log.warning("mail: %s was refused: %s", address, found[address])
        return found

    def _stage(self, error: smtplib.SMTPResponseException) -> str:
        """What was refused."""
        if isinstance(error, smtplib.SMTPAuthenticationError):
            return f"refused the login of {self.username}: "
        if isinstance(error, smtplib.SMTPSenderRefused):
            return f"refused the sender {error.sender}: "
        return "refused the mail: " if isinstance(error, smtplib.SMTPDataError) else ""

    def _server(self) -> smtplib.SMTP:
        """Not yet connected, so that it can be hung up while it does."""
        server = (
            smtplib.SMTP_SSL(timeout=TIMEOUT_SECONDS, context=ssl.create_default_context())
            if self.security == "tls"
            else smtplib.SMTP(timeout=TIMEOUT_SECONDS)
        )
        # Whose certificate it must be; smtplib sets it only where it connects at once.
        server._host = self.host  # type: ignore[attr-defined]
        return server


@contextlib.contextmanager
def _left(server: smtplib.SMTP) -> Iterator[None]:
    """Says goodbye at the end. What is answered to that no longer matters: what was taken is taken."""
    try:
        yield
    finally:
        with contextlib.suppress(smtplib.SMTPException, OSError):
            server.quit()
        server.close()


def _answer(error: smtplib.SMTPResponseException, secrets: Sequence[str]) -> str:
    """The server's. Of a login the code alone: some repeat what they were sent."""
    login = isinstance(error, smtplib.SMTPAuthenticationError)
    return f"answered {error.smtp_code} {'' if login else _line(error.smtp_error, secrets)}".rstrip()


def _line(said: bytes | str, secrets: Sequence[str]) -> str:
    text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
    return " ".join(hidden(text, secrets).split())[:SHOWN_CHARACTERS]


def _forms(username: str, password: str) -> list[str]:
    """The password as it is and as a login sends it."""
    sent = [password, f"\0{username}\0{password}"] if password else []
    return [password, *(base64.b64encode(text.encode()).decode() for text in sent)]


@dataclass(frozen=True)
class Refusal:
    """A mail server's response about one address."""

    code: int
    said: str

    @property
    def for_good(self) -> bool:
        return 500 <= self.code < 600

    def __str__(self) -> str:
        return f"answered {self.code} {self.said}".rstrip()


def message(alerts: Sequence[AlertLike], sender: str, to: Sequence[str], now: datetime) -> EmailMessage:
    """One mail for all; the reader's program threads those about one alert."""
    mail, words = EmailMessage(), WORDS[alerts[0].language]
    mail["From"], mail["To"], mail["Date"] = sender, ", ".join(to), format_datetime(now)
    mail["Message-ID"] = make_msgid("gpuledger", sender.rpartition("@")[2].rstrip(">") or "localhost")
    subject = headline(alerts[0]) if len(alerts) == 1 else f"[gpuledger] {words.alerts.format(len(alerts))}"
    mail["Subject"] = printable(" ".join(subject.split()))[:200]
    mail["Auto-Submitted"] = "auto-generated"
    if len(alerts) == 1:
        mail["References"] = f"<{alerts[0].fingerprint}.{int(alerts[0].active_at.timestamp())}@gpuledger>"
    parts = [_paragraph(alert) for alert in alerts[:SHOWN]]
    if len(alerts) > SHOWN:
        parts.append(words.more.format(len(alerts) - SHOWN))
    mail.set_content("\n\n".join(parts) + "\n")
    return mail


def _paragraph(alert: AlertLike) -> str:
    notes, words = alert.annotations, WORDS[alert.language]
    lines = [headline(alert), notes.get("description", "")]
    lines += [words.action.format(notes["action"]) if "action" in notes else "", notes.get("runbook", "")]
    lines += [alert.link if alert.link != notes.get("runbook") else ""]
    labels = printable(", ".join(f"{name}={text}" for name, text in sorted(alert.labels.items())))
    began = moment(alert.active_at, alert.zone)
    ended = alert.resolved_at and moment(alert.resolved_at, alert.zone)
    since = words.until.format(began, ended) if ended else words.since.format(began)
    # A rule's texts may have several lines; what else a workload's name has in it begins none.
    written = [printable(part) for line in lines for part in line.split("\n")]
    return "\n".join(line for line in (*written, f"{since}; {alert.fingerprint}; {labels}") if line)
