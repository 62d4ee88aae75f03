"""E-mail, by SMTP."""

from __future__ import annotations

import logging
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Annotated, Literal

from pydantic import Field

from alerts.rule import Part
from alerts.secrets import Secret, hidden
from alerts.transports import TIMEOUT_SECONDS, WORDS, AlertLike, SendError, headline, moment
from ingest.answer_time import ended_in_time, hang_up

log = logging.getLogger(__name__)
SHOWN = 100
SHOWN_CHARACTERS = 200
"""Length limit of a mail server's response about an address."""
MAIL_SECONDS = 60.0
"""For the whole of a conversation with a mail server."""


class Email(Part):
    """security: starttls (port 587, the usual), tls (465) or none (a relay on this machine)."""

    host: str
    port: int = 587
    security: Literal["starttls", "tls", "none"] = "starttls"
    username: str = ""
    password: Secret | None = None
    from_: Annotated[str, Field(alias="from")]
    to: Annotated[tuple[str, ...], Field(min_length=1)]
    resend: None = None
    keeps_alive: bool = False
    most: int = 1000
    gives_up: int = 20

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
        server = self._server()
        try:
            with ended_in_time(MAIL_SECONDS, lambda: hang_up(server.sock)) as late, server:
                server.connect(self.host, self.port)
                if self.security == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if self.username:
                    server.login(self.username, password)
                refused = server.send_message(mail, to_addrs=to or None)
        except smtplib.SMTPRecipientsRefused as error:
            refused = error.recipients
        except smtplib.SMTPResponseException as error:
            if late.is_set():
                raise SendError(f"had not taken it after {MAIL_SECONDS:g} s") from None
            raise SendError(hidden(f"answered {error.smtp_code}", [password]), 500 <= error.smtp_code < 600) from None
        except (smtplib.SMTPException, OSError, ValueError) as error:
            if late.is_set():
                raise SendError(f"had not taken it after {MAIL_SECONDS:g} s") from None
            why = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
            raise SendError(hidden(f"{self.host}:{self.port}: {why.rstrip('.')}", [password])) from None
        found = {}
        for address, (code, said) in refused.items():
            text = " ".join(said.decode("utf-8", "replace").split())
            found[address] = Refusal(code, hidden(text, [password])[:SHOWN_CHARACTERS])
            log.warning("mail: %s was refused: %s", address, found[address])
        return found

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
    mail["Subject"] = " ".join(subject.split())[:200]
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
    labels = ", ".join(f"{name}={text}" for name, text in sorted(alert.labels.items()))
    began = moment(alert.active_at, alert.zone)
    ended = alert.resolved_at and moment(alert.resolved_at, alert.zone)
    since = words.until.format(began, ended) if ended else words.since.format(began)
    lines += [f"{since}; {alert.fingerprint}; {labels}"]
    return "\n".join(line for line in lines if line)
