"""What the pages ask the store: typed answers, one .sql file a question.

Amounts to pay come from the billing floor's ledger report, exact; how a cost splits by use is for charts, in floats.
Everything here blocks; the app calls it on worker threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal
from zoneinfo import ZoneInfo

from billing.ledger_report import LedgerReport, billing_timezone, ledger_report
from billing.periods import Period as BillingPeriod
from dashboards.kinds import ALLOCATED, KINDS
from dashboards.periods import ClosedMonth, Period, choose
from warehouse.store import Store, read_sql

Grain = Literal["day", "hour"]


@dataclass(frozen=True)
class Amounts:
    """GPU-hours of each kind and what they cost at list price; `costs` is None where nothing has a price.

    `unpriced`: GPU-hours without a price in the period's currency; the costs do not contain them.
    """

    hours: Mapping[str, float]
    costs: Mapping[str, float] | None
    unpriced: float = 0.0

    @property
    def capacity(self) -> float:
        return sum(self.hours[kind.key] for kind in KINDS)

    @property
    def allocated(self) -> float:
        return sum(self.hours[kind.key] for kind in ALLOCATED)

    @property
    def metered(self) -> float:
        return self.hours["used"] + self.hours["idle"]

    @property
    def allocated_cost(self) -> float | None:
        return None if self.costs is None else sum(self.costs[kind.key] for kind in ALLOCATED)


@dataclass(frozen=True)
class Tenant:
    """A tenant's share of the period. The two costs are exact; None where no price is known."""

    name: str
    amounts: Amounts
    list_cost: Decimal | None = None
    billed_cost: Decimal | None = None


@dataclass(frozen=True)
class Bucket:
    """A day or an hour: average GPUs of each kind over its closed hours. `at` is local time of the billing zone."""

    at: datetime
    gpus: Mapping[str, float]
    hours_closed: int


@dataclass(frozen=True)
class Quality:
    """What the books could not count, by reason: (what, reason, records)."""

    refused: Sequence[tuple[str, int]] = ()
    quarantined: Sequence[tuple[str, str, int]] = ()

    @property
    def refused_count(self) -> int:
        return sum(count for _, count in self.refused)

    @property
    def quarantined_count(self) -> int:
        return sum(count for _, _, count in self.quarantined)


@dataclass(frozen=True)
class Overview:
    """Everything the overview shows. `period` None: nothing of what was asked is closed, `months` tells what is."""

    zone: str
    months: Sequence[ClosedMonth]
    period: Period | None
    facts: Mapping[str, int] = field(default_factory=dict)
    currency: str = ""
    total: Amounts | None = None
    billed: Decimal | None = None
    tenants: Sequence[Tenant] = ()
    quality: Quality = Quality()
    days: Sequence[Bucket] = ()


def overview(store: Store, key: str) -> Overview:
    """The overview of the period that the URL asks for ('' = the newest closed month)."""
    zone = billing_timezone(store)
    months = closed_months(store, zone)
    period = choose(key, months, zone)
    if period is None:
        return Overview(zone, months, None, facts=facts_held(store))
    report = ledger_report(store, BillingPeriod(period.start, period.end), ("tenant",))
    total, tenants = amounts(store, period, report)
    return Overview(
        zone=zone,
        months=months,
        period=period,
        currency=report.currency or "",
        total=total,
        billed=report.total["billed_cost"],
        tenants=tenants,
        quality=quality(store, period),
        days=fleet_over_time(store, period, zone, "day"),
    )


def closed_months(store: Store, zone: str) -> list[ClosedMonth]:
    rows = store.rows(read_sql(__file__, "closed_months"), {"zone": zone})
    return [ClosedMonth(row["month"], row["hours"], row["first_hour"], row["last_hour"]) for row in rows]


def facts_held(store: Store) -> dict[str, int]:
    """Records of each fact in the store, duplicates included."""
    (row,) = store.rows(read_sql(__file__, "facts_held"))
    return row


def amounts(store: Store, period: Period, report: LedgerReport) -> tuple[Amounts, list[Tenant]]:
    """The whole fleet's amounts, and each tenant's, the dearest first (the largest first where nothing has a price)."""
    rows = store.rows(read_sql(__file__, "costs_by_tenant"), _bounds(period))
    exact = {row["tenant"]: row for row in report.rows}
    tenants = [
        Tenant(
            row["tenant"],
            _amounts([row]),
            exact.get(row["tenant"], {}).get("list_cost"),
            exact.get(row["tenant"], {}).get("billed_cost"),
        )
        for row in rows
        if not row["is_platform"]
    ]
    tenants.sort(key=lambda tenant: (-(tenant.list_cost or 0), -tenant.amounts.allocated, tenant.name))
    return _amounts(rows), tenants


def fleet_over_time(store: Store, period: Period, zone: str, grain: Grain) -> list[Bucket]:
    """The period's days or hours of which something is closed; others are absent, not zero."""
    rows = store.rows(read_sql(__file__, "fleet_over_time"), {**_bounds(period), "zone": zone, "grain": grain})
    local = ZoneInfo(zone)
    return [
        Bucket(
            at=row["bucket"].astimezone(local),
            gpus={kind.key: row[kind.key] / row["hours_closed"] for kind in KINDS},
            hours_closed=row["hours_closed"],
        )
        for row in rows
    ]


def quality(store: Store, period: Period) -> Quality:
    refused = store.rows(read_sql(__file__, "refused_by_reason"), _bounds(period))
    quarantined = store.rows(read_sql(__file__, "quarantined_by_reason"))
    return Quality(
        refused=[(row["reason"], row["records"]) for row in refused],
        quarantined=[(row["record_type"], row["reason"], row["records"]) for row in quarantined],
    )


def _amounts(rows: Sequence[Mapping[str, Any]]) -> Amounts:
    """The sum of the rows; a cost that no row knows stays unknown."""
    hours = {kind.key: float(sum(row[f"{kind.key}_gpu_hours"] for row in rows)) for kind in KINDS}
    known = [row for row in rows if row["used_cost"] is not None]
    costs = {kind.key: float(sum(row[f"{kind.key}_cost"] for row in known)) for kind in KINDS}
    return Amounts(hours, costs if known else None, float(sum(row["unpriced_gpu_hours"] for row in rows)))


def _bounds(period: Period) -> dict[str, datetime]:
    return {"start": period.start, "end": period.end}
