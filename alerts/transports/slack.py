"""Slack, by an incoming webhook. Its address is a secret. Source: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from alerts.rule import Part
from alerts.secrets import Secret
from alerts.transports import WORDS, AlertLike, headline, post

SHOWN = 20
"""Alerts shown in one message, with the number of the others."""
_COLORS = {"critical": "#b3261e", "warning": "#b26a00", "info": "#1f5fa8"}


class Slack(Part):
    """Also fits Mattermost and others that accept Slack's format."""

    url: Secret
    resend: None = None
    keeps_alive: bool = False
    most: int = 1000
    gives_up: int = 0

    def endpoints(self) -> list[Slack]:
        return [self]

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        url = self.url.read()
        post(url, [url], json=message(alerts))


def message(alerts: Sequence[AlertLike]) -> dict[str, Any]:
    shown = [_attachment(alert) for alert in alerts[:SHOWN]]
    more = len(alerts) - len(shown)
    words = WORDS[alerts[0].language]
    text = escaped(headline(alerts[0])) if len(alerts) == 1 else words.alerts.format(len(alerts))
    return {"text": text + (f" ({words.not_shown.format(more)})" if more else ""), "attachments": shown}


def _attachment(alert: AlertLike) -> dict[str, Any]:
    notes, words = alert.annotations, WORDS[alert.language]
    action = notes.get("action") and words.action.format(notes["action"])
    parts = (notes.get("description"), action, notes.get("runbook"))
    text = "\n".join(part for part in parts if part)
    color = "#2e7d32" if alert.kind == "resolved" else _COLORS.get(alert.labels.get("severity", ""), "#666666")
    return {
        "color": color,
        "fallback": escaped(headline(alert)),
        "title": escaped(headline(alert)),
        "text": escaped(text),
        **({"title_link": alert.link} if alert.link else {}),
        "footer": f"{alert.fingerprint} · {words.owner.format(escaped(alert.labels.get('owner', words.nobody)))}",
        "ts": int(alert.active_at.timestamp()),
    }


def escaped(text: str) -> str:
    """Escapes Slack's markup: a tenant may be called <!channel>."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
