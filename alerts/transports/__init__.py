"""Transports for notifications, one file each: Alertmanager, email, PagerDuty, Slack, webhook.

A transport is a section of the routing file with a method `send`, which takes many alerts in one call. A failure is a
SendError that says whether retrying can help, and never contains a secret. To add one: a module here, and a field of
`alerts.routing.Receiver`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import httpx

from alerts.secrets import hidden
from ingest.answer_time import ended_in_time

# The client logs the address of each request, and an address may be the secret (Slack's is).
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)

TIMEOUT_SECONDS = 10.0
"""Of a target, for each step of an answer; it has twice as long for all of them."""
SHOWN_BYTES = 2000
"""Of a refusal."""
REFUSALS = (400, 401, 403, 404, 405, 410, 413, 422)
"""Answers after which sending the same again is of no use."""


class AlertLike(Protocol):
    """What a transport needs of an alert; `alerts.routing.Notification` is one."""

    @property
    def rule(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def active_at(self) -> datetime: ...
    @property
    def resolved_at(self) -> datetime | None: ...
    @property
    def value(self) -> float | None: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...
    @property
    def link(self) -> str: ...


class Transport(Protocol):
    """One endpoint.

    resend: at most so long apart, whatever the route says; None: as the route says.   keeps_alive: its reminders are no
    news to anybody and are not written down.   most: alerts in one call.
    """

    @property
    def resend(self) -> timedelta | None: ...
    @property
    def keeps_alive(self) -> bool: ...
    @property
    def most(self) -> int: ...
    @property
    def gives_up(self) -> int:
        """After how many refusals of one alert it is not tried again; 0: never."""
        ...

    def endpoints(self) -> Sequence[Transport]:
        """Itself, or one for each address."""
        ...

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        """Errors: SendError; AlertError if a secret is missing."""
        ...


class SendError(Exception):
    """The notification was not delivered. refused: retrying the same is pointless."""

    def __init__(self, detail: str, refused: bool = False) -> None:
        super().__init__(detail)
        self.refused = refused


def post(url: str, secrets: Sequence[str] = (), headers: Mapping[str, str] | None = None, **request: Any) -> None:
    """POSTs; what a target answers is read as far as it is shown, and for as long as it may take in all: the others'
    next alerts wait for it. Errors: SendError without the secrets, unless it was a success."""
    asked = {"Accept-Encoding": "identity", **(headers or {})}
    limits = httpx.Timeout(TIMEOUT_SECONDS, connect=TIMEOUT_SECONDS / 2)  # of TCP, and again of TLS
    try:
        with (
            httpx.Client(timeout=limits, follow_redirects=False) as client,
            ended_in_time(2 * TIMEOUT_SECONDS, client.close),  # connected by then, so that closing once ends it
            client.stream("POST", url, headers=asked, **request) as answer,
        ):
            said = b"" if answer.is_success else _beginning(answer)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
        raise SendError("the address is not usable", refused=True) from None
    except httpx.HTTPError as error:
        raise SendError(hidden(f"{type(error).__name__}: {error}", (*secrets, url))) from None
    if not answer.is_success:
        text = hidden(" ".join(said.decode("utf-8", "replace")[:200].split()), secrets)
        raise SendError(f"answered {answer.status_code}: {text}", answer.status_code in REFUSALS)


def _beginning(answer: httpx.Response) -> bytes:
    said = b""
    for chunk in answer.iter_raw():
        said += chunk
        if len(said) >= SHOWN_BYTES:
            break
    return said[:SHOWN_BYTES]


def words(alert: AlertLike) -> str:
    """An alert in one line."""
    severity = alert.labels.get("severity", "")
    head = "RESOLVED" if alert.kind == "resolved" else severity.upper()
    return f"[{head}] {alert.annotations.get('summary') or alert.rule}"
