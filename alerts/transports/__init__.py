"""Transports for notifications, one file each: Alertmanager, email, file, PagerDuty, Slack, webhook.

A transport is a section of the routing file with a method `send`, which takes many alerts in one call. A failure is a
SendError that says whether retrying can help, and never contains a secret. To add one: a module here, and a field of
`alerts.routing.Receiver`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol
from zoneinfo import ZoneInfo

import httpx

from alerts.secrets import hidden
from ingest.answer_time import ended_in_time
from warehouse.connection_errors import reason

# The client logs the address of each request, and an address may be the secret (Slack's is).
for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)

TIMEOUT_SECONDS = 10.0
"""For each read from a target; twice as long for its whole answer."""
SHOWN_BYTES = 2000
"""How much of a refusal is read."""
REFUSALS = (400, 401, 403, 404, 405, 410, 413, 422)
"""Statuses after which resending the same is pointless."""


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
    @property
    def language(self) -> str: ...
    @property
    def zone(self) -> str: ...


@dataclass(frozen=True)
class Words:
    """What mails and messages say beside an alert's own texts."""

    severities: Mapping[str, str]
    resolved: str
    action: str
    owner: str
    nobody: str
    since: str
    until: str
    alerts: str
    more: str
    not_shown: str
    sent_by: str


WORDS: Mapping[str, Words] = {
    "en": Words(
        {"critical": "CRITICAL", "warning": "WARNING", "info": "INFO"}, "RESOLVED", "Proposed action: {}", "owner {}",
        "nobody", "since {}", "since {} until {}", "{} alerts", "... and {} more.", "{} not shown", "sent by {}",
    ),
    "zh": Words(
        {"critical": "严重", "warning": "警告", "info": "提示"}, "已恢复", "建议操作：{}", "负责人 {}", "无",
        "自 {} 起", "{} 至 {}", "{} 条告警", "……另有 {} 条。", "{} 条未显示", "由 {} 发送",
    ),
}  # fmt: skip


class Transport(Protocol):
    """One endpoint. Its properties are keys of the routing file.

    resend: the longest time between reminders; None: as the route says.   keeps_alive: reminders only keep an alert
    alive at the target, so they are not logged.   most: alerts in one call.
    """

    @property
    def resend(self) -> timedelta | None: ...
    @property
    def keeps_alive(self) -> bool: ...
    @property
    def most(self) -> int: ...
    @property
    def gives_up(self) -> int:
        """Refusals after which an alert is not sent again; 0: no limit."""
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
    """POSTs, with a limit on the time and size of the answer, because further alerts wait for it. Errors: SendError,
    without the secrets, if it was not a success."""
    asked = {"Accept-Encoding": "identity", **(headers or {})}
    limits = httpx.Timeout(TIMEOUT_SECONDS, connect=TIMEOUT_SECONDS / 2)  # of TCP, and again of TLS
    try:
        with (
            httpx.Client(timeout=limits, follow_redirects=False) as client,
            ended_in_time(2 * TIMEOUT_SECONDS, client.close),  # connected by then, so that closing once ends it
            client.stream("POST", url, headers=asked, **request) as answer,
        ):
            refusal = b"" if answer.is_success else _start_of(answer)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError):
        raise SendError("the address is not usable", refused=True) from None
    except httpx.HTTPError as error:
        raise SendError(hidden(reason(error), (*secrets, url))) from None
    if not answer.is_success:
        text = hidden(" ".join(refusal.decode("utf-8", "replace")[:200].split()), secrets)
        raise SendError(f"answered {answer.status_code}: {text}", answer.status_code in REFUSALS)


def _start_of(answer: httpx.Response) -> bytes:
    beginning = b""
    for chunk in answer.iter_raw():
        beginning += chunk
        if len(beginning) >= SHOWN_BYTES:
            break
    return beginning[:SHOWN_BYTES]


def moment(at: datetime, zone: str) -> str:
    """An instant by the books' clock, as in the alerts' texts."""
    return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M %Z}"


def headline(alert: AlertLike) -> str:
    """An alert in one line."""
    words, severity = WORDS[alert.language], alert.labels.get("severity", "")
    head = words.resolved if alert.kind == "resolved" else words.severities.get(severity, severity.upper())
    return f"[{head}] {alert.annotations.get('summary') or alert.rule}"
