"""What a waiting job waits for: the pools and models that fit it, and the allocations that hold them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from billing.insights.now.asking import Ask, Row
from billing.insights.now.held import held
from billing.insights.now.waiting import reported
from warehouse.store import Store

QUOTA = ("WaitingForQuota", "ExceedsMaxQuota")
"""Reasons by which not the GPUs are missing, but the tenant's part of them."""
Narrowed = Callable[..., Ask]
"""narrowed(pools=..., models=..., clusters=...): an `Ask` with these filters and no others."""


@dataclass(frozen=True)
class Wanted:
    """pools: rows of pools.sql: what it asks for or, if nobody tells, what its queue used lately.   holders: rows of
    held.sql on these: where its quota is missing first those of its tenant, then the largest."""

    pools: Sequence[Row]
    holders: Sequence[Row]


def wanted(store: Store, narrowed: Narrowed, job: Row, at: datetime, most: int) -> Wanted:
    """Of a row of waiting.sql, at an instant; at most so many holders."""
    asked = reported(job)
    pools = narrowed()(
        "pools", at=at, cluster=job["cluster"], queue=job["queue"], asked_pool=asked.pool,
        asked_models=list(asked.models),
    )  # fmt: skip
    if not pools:
        return Wanted(pools, [])
    names, models = (list(dict.fromkeys(pool[name] for pool in pools)) for name in ("pool", "model"))
    rows, _ = held(store, narrowed(pools=names, models=models, clusters=[job["cluster"]]), at, most)
    by_quota, own = job["reason"] in QUOTA, job["tenant"]
    return Wanted(pools, sorted(rows, key=lambda row: (by_quota and row["tenant"] != own, -(row["gpus"] or 0))))
