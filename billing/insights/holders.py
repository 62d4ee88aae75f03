"""Allocations of whole devices and MIG instances, and how they used them: the input of recommendations.

The engine reads the ledger once, and samples only where a recommendation depends on them; there is one row per
allocation and device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from billing.exact import Scale, quotient
from billing.periods import Period
from warehouse.store import Store, read_sql

MICRO = 10**6
HOUR_MS = 3_600_000
WEEK, FOUR_WEEKS = timedelta(days=7), timedelta(days=28)
MOST_NAMED = 2000
"""Allocations that a query names; of more, it reads what all of them used."""


@dataclass(frozen=True)
class Rules:
    """When something is judged, and when it is recommended. All but the hours are parts of 1.

    min_coverage:     least metered part of the held time; below it nothing is judged.
    idle_below:       an hour with at most so much use is idle; the exporters' idle devices do not all read 0.
    idle_hours:       least consecutive idle hours to reclaim a device.
    least_hours:      least time held for anything that rests on quantiles of use.
    memory_headroom:  on top of the most memory that was used.
    busy:             devices are planned to be so busy at most, when work is moved together.
    low_use:          who shares a device has a p95 below it.
    together:         replicas of one name are held together for at least this part of the longest's time.
    """

    min_coverage: Decimal = Decimal("0.9")
    idle_below: Decimal = Decimal("0.01")
    idle_hours: int = 6
    least_hours: int = 24
    memory_headroom: Decimal = Decimal("0.2")
    busy: Decimal = Decimal("0.8")
    low_use: Decimal = Decimal("0.3")
    together: Decimal = Decimal("0.9")


@dataclass(frozen=True)
class Use:
    """What the samples say of one holder: utilization of what it holds (0-1), memory in bytes (None: unknown).

    covered_ms: time that they cover.   idle_memory_bytes: the most that it held while it did nothing.
    """

    covered_ms: int
    samples: int
    p50: Decimal
    p95: Decimal
    p99: Decimal
    max_memory_bytes: int | None
    memory_total_bytes: int | None
    idle_memory_bytes: int | None
    sources: tuple[str, ...]


@dataclass(frozen=True)
class IdleStretches:
    """Stretches of idle hours: how many and how long, from the first's start to the last's end.

    hours, clock_hours: what was metered idle in them, in GPU-hours, and their length.
    """

    stretches: int
    longest_hours: int
    hours: Fraction
    clock_hours: int
    since: datetime
    until: datetime


@dataclass(frozen=True)
class Span:
    """A time until the period's end, and what was held in it: in GPU-hours, its cost and that of its idle stretches.

    Costs are unrounded; None where the holder has a time without a price.
    """

    since: datetime
    held: Fraction
    cost: Fraction | None
    waste: Fraction | None


@dataclass(frozen=True)
class Holder:
    """An allocation's part on one device or MIG instance, in the closed hours of a period.

    share: of the device (0-1].   held, used, idle, unmetered: in GPU-hours.   price: per GPU-hour, the latest; None if
    it has none.   still_held: at the period's end.
    period, week, four_weeks: the whole, and the last 7 and 28 days of it, or all of it where it is shorter.
    idle_cost: of all idle time that has a price, unrounded; quiet_cost: of that in hours that were idle throughout;
    dim_cost: of that in hours that are metered too little to tell.
    device_memory_bytes: of the whole device; None: unknown.   use: None where no usable sample speaks of it.
    """

    cluster: str
    allocation_id: str
    device_id: str
    partition_id: str
    tenant: str
    project: str
    queue: str
    workload_id: str
    node: str
    model: str
    pool: str
    partition_profile: str
    share: Fraction
    start_at: datetime
    end_at: datetime
    still_held: bool
    held: Fraction
    used: Fraction
    idle: Fraction
    unmetered: Fraction
    period: Span
    week: Span
    four_weeks: Span
    idle_cost: Fraction
    quiet_cost: Fraction
    dim_cost: Fraction
    price: Decimal | None
    device_memory_bytes: int | None
    stretches: IdleStretches | None
    use: Use | None

    @property
    def key(self) -> tuple[str, ...]:
        return self.cluster, self.allocation_id, self.tenant, self.device_id, self.partition_id

    @property
    def whole(self) -> bool:
        return self.share == 1 and not self.partition_profile

    @property
    def clock_hours(self) -> Fraction:
        """How long it was held, whatever the share."""
        return self.held / self.share

    def sampled(self) -> Fraction:
        """The part of the held time that the samples' quantiles speak of."""
        return Fraction(self.use.covered_ms, HOUR_MS) / self.clock_hours if self.use and self.held else Fraction(0)


def read_holders(store: Store, period: Period, rules: Rules, tenant: str = "") -> list[Holder]:
    """Of whom something can be recommended: who held a whole device or a MIG instance for `idle_hours` or more in the
    period, and was idle, held for `least_hours` or is not metered enough.

    period: its end is where the closed time ends, or before.   tenant: of what it paid for alone; empty: all.
    """
    params = {
        "start": period.start,
        "end": period.end,
        "tenant": tenant,
        "min_coverage": int(rules.min_coverage * MICRO),
        "idle_below": int(rules.idle_below * MICRO),
        "idle_hours": rules.idle_hours,
        "least_hours": rules.least_hours,
        "least_ms": rules.idle_hours * HOUR_MS,
        "since_hours": [int(since.timestamp()) // 3600 for since in _spans(period)],
    }
    rows = store.rows(read_sql(__file__, "holders"), params)
    wanted = sorted({row["allocation_id"] for row in rows if row["wants_use"]})
    uses: dict[tuple[str, str, str, str], Use] = {}
    if wanted:
        every = len(wanted) > MOST_NAMED
        named = {**params, "every": int(every), "allocations": [] if every else wanted}
        uses = {_key(row): _use(row) for row in store.rows(read_sql(__file__, "use"), named)}
    return [_holder(row, uses.get(_key(row)), period) for row in rows]


def _spans(period: Period) -> tuple[datetime, datetime, datetime]:
    """Since when a holder's spans last."""
    return period.start, max(period.start, period.end - WEEK), max(period.start, period.end - FOUR_WEEKS)


def _key(row: Mapping[str, Any]) -> tuple[str, str, str, str]:
    return row["cluster"], row["allocation_id"], row["device_id"], row["partition_id"]


def _use(row: Mapping[str, Any]) -> Use:
    p50, p95, p99 = (quotient(row[name], 1000, 3) for name in ("p50", "p95", "p99"))
    return Use(
        covered_ms=row["covered_ms"],
        samples=row["samples"],
        p50=p50,
        p95=p95,
        p99=p99,
        max_memory_bytes=row["max_memory_bytes"],
        memory_total_bytes=row["memory_total_bytes"],
        idle_memory_bytes=row["idle_memory_bytes"],
        sources=tuple(source for source in row["sources"] if source),
    )


def _holder(row: Mapping[str, Any], use: Use | None, period: Period) -> Holder:
    scale = Scale.of([row["device_units"]])

    def hours(micro_ms: int) -> Fraction:
        return Fraction(micro_ms, scale.hour)

    unpriced = bool(row["unpriced_micro_ms"])
    used, idle, unmetered = (hours(row[f"{kind}_micro_ms"]) for kind in ("used", "idle", "unmetered"))
    stretches = None
    if row["idle_stretches"]:
        stretches = IdleStretches(
            stretches=row["idle_stretches"],
            longest_hours=row["longest_idle_hours"],
            hours=hours(row["idle_stretch_micro_ms"]),
            clock_hours=row["idle_stretch_hours"],
            since=datetime.fromtimestamp(row["idle_since_hour"] * 3600, UTC),
            until=datetime.fromtimestamp(row["idle_until_hour"] * 3600, UTC),
        )
    spans = [
        Span(
            since=since,
            held=hours(held),
            cost=None if unpriced else scale.money(cost),
            waste=None if unpriced else scale.money(waste),
        )
        for since, (held, cost, waste) in zip(_spans(period), row["parts"], strict=True)
    ]
    words = (
        "cluster", "allocation_id", "device_id", "partition_id", "tenant", "project", "queue", "workload_id", "node",
        "model", "pool", "partition_profile",
    )  # fmt: skip
    return Holder(
        **{name: row[name] for name in words},
        share=Fraction(row["units"], row["device_units"]),
        start_at=row["start_at"],
        end_at=row["end_at"],
        still_held=row["end_at"] >= period.end,
        held=used + idle + unmetered,
        used=used,
        idle=idle,
        unmetered=unmetered,
        period=spans[0],
        week=spans[1],
        four_weeks=spans[2],
        idle_cost=scale.money(row["idle_cost"]),
        quiet_cost=scale.money(row["quiet_cost"]),
        dim_cost=scale.money(row["dim_cost"]),
        price=row["contracted_unit_price"],
        device_memory_bytes=row["device_memory_bytes"],
        stretches=stretches,
        use=use,
    )
