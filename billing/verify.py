"""Proof that the books balance: every GPU-second of the fleet is accounted for exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal

from billing.close.resolve import FOREVER
from warehouse.store import Store, read_sql

MOST_FAILURES = 1000
"""Failures named at most; the answer is no either way."""


@dataclass(frozen=True)
class Failure:
    """A device and hour whose books do not balance, in unit-milliseconds."""

    hour: datetime
    cluster: str
    device_id: str
    capacity_unit_ms: int
    booked_unit_ms: Decimal
    reason: str


@dataclass(frozen=True)
class VerifyReport:
    """hours: closed hours that were checked; failures: at most MOST_FAILURES of them, the oldest first."""

    hours: int
    device_hours: int
    failures: list[Failure]

    @property
    def balanced(self) -> bool:
        return not self.failures


def verify(store: Store, start: datetime | None = None, end: datetime | None = None) -> VerifyReport:
    """Checks, for every closed hour in [start, end) and every device, that

    used + idle + unmetered + unallocated + unavailable = capacity, exactly, with capacity computed again from the
    device rows; that unavailable time is what the device rows say; that no quantity is negative; and that the costs
    of the parts are the cost of the capacity.
    """
    period = {
        "start": start or datetime(1970, 1, 1, tzinfo=UTC),
        "end": end or datetime(2100, 1, 1, tzinfo=UTC),
    }
    failures = [
        Failure(
            row["at"],
            row["in_cluster"],
            row["of_device"],
            row["capacity_unit_ms"],
            row["booked_unit_ms"],
            row["reason"],
        )
        for row in store.rows(read_sql(__file__, "verify"), {**period, "forever": FOREVER, "most": MOST_FAILURES})
    ]
    counts = store.rows(
        "SELECT uniqExact(hour) AS hours, uniqExact(hour, cluster, device_id) AS device_hours FROM ledger "
        "WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}",
        period,
    )[0]
    return VerifyReport(counts["hours"], counts["device_hours"], failures)
