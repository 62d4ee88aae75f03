"""E-mail, by SMTP."""

from __future__ import annotations

import logging
import smtplib
import ssl
from collections.abc import Sequence
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Annotated, Literal

from pydantic import Field

from alerts.rule import Part
from alerts.secrets import Secret, hidden
from alerts.transports import TIMEOUT_SECONDS, AlertLike, SendError, rfc3339, words

log = logging.getLogger(__name__)
SHOWN = 100


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

    def endpoints(self) -> list[Email]:
        return [self]

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        self.post(message(alerts, self.from_, self.to, now))

    def post(self, mail: EmailMessage) -> None:
        """Sends a mail that is ready. Errors: SendError; AlertError if a secret is missing."""
        password = self.password.read() if self.password is not None else ""
        try:
            with self._connection() as server:
                if self.security == "starttls":
                    server.starttls(context=ssl.create_default_context())
                if self.username:
                    server.login(self.username, password)
                for address, why in server.send_message(mail).items():
                    # The others have it: all of it again would be worse.
                    log.warning("mail: %s was refused: %s", address, why)
        except smtplib.SMTPResponseException as error:
            refused = 500 <= error.smtp_code < 600
            raise SendError(hidden(f"answered {error.smtp_code}", [password]), refused) from None
        except (smtplib.SMTPException, OSError) as error:
            raise SendError(hidden(f"{type(error).__name__}: {error}", [password])) from None

    def _connection(self) -> smtplib.SMTP:
        if self.security == "tls":
            context = ssl.create_default_context()
            return smtplib.SMTP_SSL(self.host, self.port, timeout=TIMEOUT_SECONDS, context=context)
        return smtplib.SMTP(self.host, self.port, timeout=TIMEOUT_SECONDS)


def message(alerts: Sequence[AlertLike], sender: str, to: Sequence[str], now: datetime) -> EmailMessage:
    """One mail for all; the reader's program threads those about one alert."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Date"] = sender, ", ".join(to), format_datetime(now)
    mail["Message-ID"] = make_msgid("gpuledger", sender.rpartition("@")[2].rstrip(">") or "localhost")
    subject = words(alerts[0]) if len(alerts) == 1 else f"[gpuledger] {len(alerts)} alerts"
    mail["Subject"] = " ".join(subject.split())[:200]
    mail["Auto-Submitted"] = "auto-generated"
    if len(alerts) == 1:
        mail["References"] = f"<{alerts[0].fingerprint}.{int(alerts[0].active_at.timestamp())}@gpuledger>"
    parts = [_paragraph(alert) for alert in alerts[:SHOWN]]
    if len(alerts) > SHOWN:
        parts.append(f"... and {len(alerts) - SHOWN} more.")
    mail.set_content("\n\n".join(parts) + "\n")
    return mail


def _paragraph(alert: AlertLike) -> str:
    notes = alert.annotations
    lines = [words(alert), notes.get("description", "")]
    lines += [f"Proposed: {notes['action']}" if "action" in notes else "", notes.get("runbook", "")]
    labels = ", ".join(f"{name}={text}" for name, text in sorted(alert.labels.items()))
    since = f"since {rfc3339(alert.active_at)}" + (f" until {rfc3339(alert.resolved_at)}" if alert.resolved_at else "")
    lines += [f"{since}; {alert.fingerprint}; {labels}"]
    return "\n".join(line for line in lines if line)
