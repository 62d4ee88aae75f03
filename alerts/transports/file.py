"""Appends alerts to a file on the server, as JSON lines: for a log shipper, or to see what a route sends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from alerts.rule import Part
from alerts.transports import AlertLike, SendError
from alerts.transports.webhook import document
from warehouse.instants import rfc3339


class File(Part):
    """path: of the file, which is made if it is missing; its folder is not. What it has is never changed."""

    path: Path
    resend: None = None
    keeps_alive: bool = False
    most: int = 1000
    gives_up: int = 0

    def endpoints(self) -> list[File]:
        return [self]

    def send(self, alerts: Sequence[AlertLike], now: datetime) -> None:
        sent = rfc3339(now)
        lines = [json.dumps({"sent_at": sent, **document(alert)}, ensure_ascii=False) + "\n" for alert in alerts]
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write("".join(lines))
        except OSError as error:
            raise SendError(f"{self.path} cannot be written ({error.strerror})") from error
