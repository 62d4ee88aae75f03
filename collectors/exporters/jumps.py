"""Detects unknown unit changes: a metric that jumps on many devices at the same time as an upgrade becomes a finding.

Changes of units that a profile lists are decided by evidence (units.py). Any other metric of any exporter may change
its unit one day. When devices show a new version, or another name of the metric, the last value before is compared with
the first one after; the median over the devices counts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median

from collectors.exporters.observations import Observation
from collectors.readings import Row

FAR = 30.0
FEWEST = 4
"""On at least so many devices, a jump is more than the end of a job."""
WINDOW_SECONDS = 3600.0
"""For how long upgrades of a fleet are seen together."""


@dataclass(slots=True)
class _Metric:
    """steps: device -> (when it was upgraded, after / before, name before, name after).   reported_at:
    when the last one was."""

    steps: dict[str, tuple[float, float, str, str]] = field(default_factory=dict)
    reported_at: float = -math.inf


class Jumps:
    """Detects jumps for one source. Zeros are ignored: they are zero in every unit."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str, str], tuple[str, str, float]] = {}
        self._metrics: dict[str, _Metric] = defaultdict(_Metric)

    def see(self, observations: Iterable[Observation]) -> list[Row]:
        """The findings that these observations add."""
        rows = []
        for observation in observations:
            for metric, reading in observation.readings.items():
                if not reading.usable or not reading.value or metric.endswith("_total"):
                    continue
                key = observation.device_id, observation.partition, metric
                now = reading.source, observation.version, reading.value
                before = self._last.get(key)
                self._last[key] = now
                if before is not None and before[:2] != now[:2] and (now[2] > 0) == (before[2] > 0):
                    step = observation.at, now[2] / before[2], before[0], now[0]
                    self._metrics[metric].steps[observation.device_id] = step
                    rows += self._finding(metric, observation.at)
        return rows

    def forget(self, device_id: str, partition: str) -> None:
        """The device is no longer there."""
        for key in [key for key in self._last if key[:2] == (device_id, partition)]:
            del self._last[key]

    def _finding(self, metric: str, at: float) -> list[Row]:
        known = self._metrics[metric]
        known.steps = {device: step for device, step in known.steps.items() if at - step[0] <= WINDOW_SECONDS}
        middle = median(step[1] for step in known.steps.values())
        if len(known.steps) < FEWEST or 1 / FAR < middle < FAR or at - known.reported_at <= WINDOW_SECONDS:
            return []
        known.reported_at = at
        names = sorted(
            {f"{before} to {after}" if before != after else after for _, _, before, after in known.steps.values()}
        )
        message = (
            f"{metric} of {len(known.steps)} devices became {middle:.3g} times what it was, by their median, as their "
            f"exporter was upgraded ({', '.join(names)}): its unit may have changed"
        )
        reported: Row = {"ts": datetime.fromtimestamp(at, UTC), "finding": "metric_jumped", "severity": "critical"}
        return [reported | {"message": message}]
