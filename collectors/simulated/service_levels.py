"""Latencies of the two services that meet on the last shared device: the one slows the other down while it is there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from collectors.simulated.activity import fraction, noise
from collectors.simulated.fleet import L40S_SHARED, MINUTE, Fleet, FleetPlan
from collectors.simulated.jobs import SHARES
from collectors.simulated.placement import Holding
from collectors.tables import table
from warehouse.records import SERVICE_LEVELS

EVERY = 5 * MINUTE
TOKEN_SECONDS, SLOWED_BY = 0.021, 1.45
"""Mean time between tokens alone, and its factor beside the other service."""
COMPUTE_SECONDS = 0.34
TAIL, SLOWED_TAIL = 1.6, 2.3
"""P99 / P50 alone, and beside the other service."""
STREAM = 2_000_003
"""Number of the noise; those of samples are smaller."""


def service_levels(plan: FleetPlan, fleet: Fleet, holdings: Sequence[Holding]) -> pa.Table:
    """A row for each interval, service there and measure, in time order.

    Time between tokens of the one, compute time of the other; an interval in which its service came or went has none.
    """
    there = [holding for holding in holdings if fleet.devices[holding.slot.device].group.name == L40S_SHARED.name]
    last = max((holding.slot.device for holding in there), default=None)
    grid = np.arange(plan.start_ms + EVERY, plan.end_ms + 1, EVERY)
    workload = {name: np.full(len(grid), "", dtype=object) for *_, name in SHARES}
    for holding in there:
        if holding.slot.device == last:
            name = next(name for tenant, *_, name in SHARES if tenant == holding.allocation.job.tenant)
            held = (grid - EVERY >= holding.start_ms) & (grid <= holding.end_ms)
            workload[name][held] = holding.allocation.workload_id
    (host, *_, served), (guest, *_, serving) = SHARES[0], SHARES[-1]
    slowed = workload[serving] != ""
    bits = noise(plan.seed, np.full(len(grid), STREAM), grid // EVERY)
    wavering = 0.97 + 0.06 * fraction(bits, 0)
    tokens = TOKEN_SECONDS * np.where(slowed, SLOWED_BY, 1.0) * wavering
    tail = np.where(slowed, SLOWED_TAIL, TAIL) * (0.97 + 0.06 * fraction(bits, 1))
    compute = COMPUTE_SECONDS * (0.97 + 0.06 * fraction(bits, 2))
    asked = 900 + (400 * fraction(bits, 3)).astype(np.int64)
    measures = (
        (served, host, "inter_token_latency_seconds", None, tokens, asked * 60),
        (served, host, "inter_token_latency_seconds", 0.5, 0.95 * tokens, asked * 60),
        (served, host, "inter_token_latency_seconds", 0.99, 0.95 * tokens * tail, asked * 60),
        (serving, guest, "compute_seconds", None, compute, asked),
    )
    parts = [
        _rows(plan, service, tenant, metric, quantile, workload[service], grid, values, counted)
        for service, tenant, metric, quantile, values, counted in measures
    ]
    return pa.concat_tables(parts).sort_by([("ts", "ascending")])


def _rows(
    plan: FleetPlan,
    service: str,
    tenant: str,
    metric: str,
    quantile: float | None,
    workload: np.ndarray,
    grid: np.ndarray,
    values: np.ndarray,
    counted: np.ndarray,
) -> pa.Table:
    known = np.flatnonzero(workload != "")
    return table(
        SERVICE_LEVELS,
        len(known),
        {
            "ts": grid[known],
            "interval_seconds": EVERY / 1000,
            "cluster": plan.cluster,
            "service": service,
            "workload_id": workload[known].tolist(),
            "tenant": tenant,
            "metric": metric,
            "quantile": quantile,
            "value": np.round(values[known], 6),
            "observations": counted[known],
        },
    )
