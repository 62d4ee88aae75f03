"""Facts of workloads that share a device: one window a minute, from `first` to `last` minutes ago."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.alerts.facts import GIB, Fact, ago
from warehouse.store import Store

STEPS = "training_steps_per_second"
TOKEN = "inter_token_latency_seconds"
Seen = tuple[str, str, bool | None, float | None]
"""state, grade, disturbed, slowdown."""


def runs(
    name: str, first: float, last: float, device: str = "GPU-0", use: float | None = 0.4, **more: Any
) -> list[Fact]:
    """Samples of a workload with processes on the device."""
    row = {"interval_seconds": 60.0, "device_id": device, "workload_id": name, "state": "ok", "utilization": use}
    return [("samples", {"ts": ago(m), **row, "memory_used_bytes": GIB, **more}) for m in minutes(first, last)]


def reports(
    name: str, first: float, last: float, value: float, metric: str = STEPS, service: str = "training", **more: Any
) -> list[Fact]:
    row = {"interval_seconds": 60.0, "service": service, "workload_id": name, "metric": metric, "value": value}
    return [("service_levels", {"ts": ago(m), **row, **more}) for m in minutes(first, last)]


def measures(metric: str, first: float, last: float, value: float, device: str = "GPU-0", **more: Any) -> list[Fact]:
    row = {"interval_seconds": 60.0, "device_id": device, "metric": metric, "state": "ok", "value": value}
    return [("metrics", {"ts": ago(m), **row, **more}) for m in minutes(first, last)]


def minutes(first: float, last: float) -> Iterable[float]:
    while first >= last:
        yield first
        first -= 1


def windows(store: Store, workload: str, cluster: str = "") -> list[dict[str, Any]]:
    """The workload's windows in order, as measured."""
    return store.rows(
        "SELECT at, toString(state) AS state, toString(grade) AS grade, disturbed, slowdown, coefficient, jitter, "
        "channels, neighbours, baseline_windows, load, metric, version, gpus FROM interference "
        "WHERE workload_id = {workload:String} AND cluster = {cluster:String} ORDER BY at, service",
        {"workload": workload, "cluster": cluster},
    )


def seen(store: Store, workload: str, cluster: str = "") -> list[Seen]:
    """What its windows are, in order; equal ones that follow each other once."""
    found: list[Seen] = []
    for row in windows(store, workload, cluster):
        s = row["slowdown"]
        one = (row["state"], row["grade"], row["disturbed"], None if s is None else round(s, 3))
        if not found or found[-1] != one:
            found.append(one)
    return found
