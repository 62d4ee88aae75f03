"""PagerDuty, Events API v2. Source: https://developer.pagerduty.com/docs/events-api-v2/trigger-events/

The fingerprint is the dedup_key: what is sent twice is one incident, and its end resolves it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from alerts.rule import Part
from alerts.secrets import Secret
from alerts.transports import AlertLike, headline, post
from warehouse.instants import rfc3339

EVENTS = "https://events.pagerduty.com/v2/enqueue"
LONGEST_SUMMARY = 1024


class PagerDuty(Part):
    """routing_key: of the service's integration.   url: another region's address."""

    routing_key: Secret
    url: str = EVENTS
    resend: None = None
    keeps_alive: bool = False
    most: int = 1
    gives_up: int = 0

    def endpoints(self) -> list[PagerDuty]:
        return [self]

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        key = self.routing_key.read()
        for alert in alerts:
            post(self.url, [key], json={"routing_key": key, **event(alert)})


def event(alert: AlertLike) -> dict[str, Any]:
    if alert.kind == "resolved":
        return {"event_action": "resolve", "dedup_key": alert.fingerprint}
    labels = alert.labels
    return {
        "event_action": "trigger",
        "dedup_key": alert.fingerprint,
        **({"client": "gpuledger", "client_url": alert.link} if alert.link else {}),
        "payload": {
            "summary": headline(alert)[:LONGEST_SUMMARY],
            "source": labels.get("node") or labels.get("cluster") or "gpuledger",
            "severity": labels.get("severity", "warning"),
            "timestamp": rfc3339(alert.active_at),
            "component": labels.get("device_id") or labels.get("workload_id") or labels.get("queue", ""),
            "group": labels.get("tenant", ""),
            "class": alert.rule,
            "custom_details": {**labels, **alert.annotations, "value": alert.value},
        },
    }
