"""Alertmanager, API v2. Source: https://prometheus.io/docs/alerting/latest/alerts_api/

Its clients send what fires again and again (Prometheus every minute); what is not sent for a while ends by itself. Of
several Alertmanagers each is sent everything: they agree among themselves who tells whom.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from alerts.rule import Part
from alerts.secrets import Secret
from alerts.transports import AlertLike, post
from warehouse.durations import Seconds, span
from warehouse.instants import rfc3339


class Alertmanager(Part):
    """urls: one for each Alertmanager.   resend_every: how often what fires is sent again; it ends by itself after four
    times that.   bearer, username, password: if it wants them.   generator_url: instead of the alert's own link."""

    urls: Annotated[tuple[str, ...], Field(min_length=1)]
    resend_every: Annotated[Seconds, Field(ge=1)] = 60
    bearer: Secret | None = None
    username: str = ""
    password: Secret | None = None
    generator_url: str = ""
    keeps_alive: bool = True
    most: int = 500
    gives_up: int = 0

    @property
    def resend(self) -> timedelta:
        return span(self.resend_every)

    def endpoints(self) -> list[Alertmanager]:
        return [self.model_copy(update={"urls": (url,)}) for url in self.urls]

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        request: dict[str, Any] = {"json": [self._document(alert, now) for alert in alerts]}
        secrets = []
        if self.bearer is not None:
            secrets.append(self.bearer.read())
            request["headers"] = {"Authorization": f"Bearer {secrets[0]}"}
        if self.password is not None:
            secrets.append(self.password.read())
            request["auth"] = (self.username, secrets[-1])
        post(f"{self.urls[0].rstrip('/')}/api/v2/alerts", secrets, **request)

    def _document(self, alert: AlertLike, now: datetime) -> dict[str, Any]:
        ends_at = now if alert.kind == "resolved" else now + 4 * self.resend
        annotations = {**alert.annotations, "fingerprint": alert.fingerprint}
        if alert.value is not None:
            annotations["value"] = f"{alert.value:g}"
        return {
            "labels": dict(alert.labels),
            "annotations": annotations,
            "startsAt": rfc3339(min(alert.active_at, now)),
            "endsAt": rfc3339(ends_at),
            "generatorURL": self.generator_url or alert.link,
        }
