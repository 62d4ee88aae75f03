"""Posts signed JSON to a site's own webhook (see ingest.webhook)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from alerts.rule import Part
from alerts.secrets import Secret
from alerts.transports import AlertLike, post
from ingest.webhook import signed
from warehouse.instants import rfc3339


class Webhook(Part):
    """url: plain, or a secret where it holds one.   secret: signs; absent: nothing is signed."""

    url: str | Secret
    secret: Secret | None = None
    resend: None = None
    keeps_alive: bool = False
    most: int = 100
    gives_up: int = 0

    def endpoints(self) -> list[Webhook]:
        return [self]

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        body = json.dumps({"version": 1, "alerts": [document(alert) for alert in alerts]}, ensure_ascii=False).encode()
        headers = {"Content-Type": "application/json"}
        secrets = []
        url = self.url if isinstance(self.url, str) else self.url.read()
        if not isinstance(self.url, str):
            secrets.append(url)
        if self.secret is not None:
            secrets.append(self.secret.read())
            headers |= signed(secrets[-1], int(now.timestamp()), body)
        post(url, secrets, content=body, headers=headers)


def document(alert: AlertLike) -> dict[str, Any]:
    """An alert as receivers see it. The fingerprint and active_at name the occurrence: the same pair may come again."""
    return {
        "fingerprint": alert.fingerprint,
        "state": alert.kind,
        "rule": alert.rule,
        "active_at": rfc3339(alert.active_at),
        "resolved_at": None if alert.resolved_at is None else rfc3339(alert.resolved_at),
        "value": alert.value,
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "link": alert.link or None,
    }
