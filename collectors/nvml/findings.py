"""Findings of the NVML collector: each is reported once, and again only after it had ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from collectors.readings import Collected, Row, Severity

SOURCE = "nvml"


@dataclass
class Findings:
    """Writes findings of one node. `ongoing`: reported and not over, as (device, finding)."""

    cluster: str
    node: str
    ongoing: set[tuple[str, str]] = field(default_factory=set)

    def once(
        self, collected: Collected, now: datetime, finding: str, severity: Severity, message: str, device: str = ""
    ) -> None:
        """Reports it, unless it was reported and is not over."""
        if (device, finding) not in self.ongoing:
            self.ongoing.add((device, finding))
            self.say(collected, now, finding, severity, message, device)

    def over(self, device: str, *findings: str) -> None:
        self.ongoing.difference_update((device, finding) for finding in findings)

    def say(
        self,
        collected: Collected,
        now: datetime,
        finding: str,
        severity: Severity,
        message: str,
        device: str = "",
        partition: str = "",
        source: str = SOURCE,
    ) -> None:
        row: Row = {
            "ts": now,
            "cluster": self.cluster,
            "node": self.node,
            "device_id": device,
            "partition_id": partition,
            "finding": finding,
            "severity": severity,
            "message": message,
            "source": source,
        }
        collected.add("findings", row)
