"""Thresholds of interference. These are starting values, to be tuned on a site's own devices."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from billing.rates.globs import expression


@dataclass(frozen=True)
class Settings:
    """
    window_seconds:     a window; service levels of longer intervals count for each window that they cover.
    history:            exclusive windows older than this are in no baseline.
    least_windows:      a baseline rests on so many at least.
    slow_at:            S from which a window is disturbed.
    own_services:       globs of services whose workloads have nothing in common: each is an identity by itself.
    stranger:           unattributed activity from which somebody unknown is on the device.
    busy, together:     SM activity of the device, and sum of the workloads' utilization, that mean contention of two.
    dram, pcie:         part of the time, and of the link, that mean contention.
    links:              glob of models -> bytes per second of one direction of the PCIe link (after encoding).
    switches:           context switching has risen by this factor.      clock: SM clock has fallen to this part
    throttled:          and for this part of the window the power or thermal limit was the reason.
    fallen:             own utilization fell to this part of its baseline.
    """

    window_seconds: int = 60
    history: timedelta = timedelta(days=14)
    least_windows: int = 5
    slow_at: float = 1.1
    own_services: tuple[str, ...] = ("training",)
    stranger: float = 0.05
    busy: float = 0.8
    together: float = 0.9
    dram: float = 0.7
    pcie: float = 0.7
    links: Mapping[str, float] = field(
        default_factory=lambda: {
            "*H100*": 63e9, "*H200*": 63e9, "*B[12]00*": 63e9, "*L40*": 31.5e9, "*L4": 31.5e9, "*A100*": 31.5e9,
            "*A[1-4]0*": 31.5e9, "*V100*": 15.75e9, "*T4": 15.75e9, "*P100*": 15.75e9,
        }
    )  # fmt: skip
    switches: float = 1.2
    clock: float = 0.95
    throttled: float = 0.05
    fallen: float = 0.8

    def params(self) -> dict[str, Any]:
        """As the statements take them."""
        found = {name: value for name, value in asdict(self).items() if isinstance(value, int | float)}
        return {
            **found,
            "history_seconds": int(self.history.total_seconds()),
            "own_services": [expression(glob) for glob in self.own_services],
            "link_models": [expression(glob) for glob in self.links],
            "link_rates": list(self.links.values()),
        }

    def canonical(self) -> str:
        """JSON that a run is stored with."""
        return json.dumps(asdict(self), sort_keys=True, default=str)


DEFAULT = Settings()
