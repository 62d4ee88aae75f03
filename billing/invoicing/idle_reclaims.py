"""What idle policies gave back: GPUs that the scheduler took from idle workloads, for how long, and what they had cost.

It stands beside the lines of an invoice and is in none of its sums. From a reclaim on, the GPUs count until the first
of these: the workload asks for them again (it is resumed or submitted), it grows or is rescaled, it ends otherwise, its
time limit would have stopped it, the month ends, the books end. For how long it would have kept them, nobody knows:
what only the month's end or the books' end has stopped is at most so much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import Any

from billing.close import READ_BY, batches_read
from billing.exact import rounded
from billing.invoicing.documents import Invoice, text
from billing.params import period_params
from billing.periods import Period
from warehouse.instants import rfc3339
from warehouse.store import Store, read_sql

ACTS = {"resized": "shrunk", "suspended": "suspended", "cancelled": "cancelled"}
BY_POLICY = "idle policy"
"""Actor of what the scheduler does by itself; anybody else said yes to it."""
OPEN_ENDS = ("month_end", "books_end")
"""What ended the counting, and not the workload."""
_ENDS = {
    "submitted": "resumed", "started": "resumed", "resumed": "resumed", "resized": "grew", "suspended": "ended",
    "preempted": "ended", "finished": "ended", "failed": "ended", "cancelled": "ended", "rejected": "ended",
}  # fmt: skip
_MILLISECOND = timedelta(milliseconds=1)


def with_idle_reclaims(
    store: Store, drafts: Sequence[Invoice], period: Period, closed_until: datetime, last_run: str
) -> list[Invoice]:
    """The drafts, each with `idle_reclaims` where an idle policy gave back GPUs of its tenant in the month.

    last_run: the close whose facts count.
    """
    found = idle_reclaims(store, period, closed_until, last_run) if drafts else {}
    return [
        replace(draft, document={**draft.document, "idle_reclaims": found[draft.tenant]})
        if draft.tenant in found
        else draft
        for draft in drafts
    ]


def idle_reclaims(store: Store, period: Period, closed_until: datetime, last_run: str) -> dict[str, dict[str, Any]]:
    """By tenant, as a document holds it; tenants of whom nothing was taken back are absent."""
    if not store.value(read_sql(__file__, "any_reclaims"), period_params(period)):
        return {}
    until = min(period.end, closed_until)
    read = batches_read(store, int(last_run)) or {"last": 0, "others": []}
    params = {**period_params(Period(period.start, max(period.start, until))), **read}
    rows = store.rows(read_sql(__file__, "idle_reclaims", read=READ_BY), params)
    by_tenant: dict[str, list[_Reclaim]] = {}
    for _, parts in groupby(rows, itemgetter("at", "cluster", "allocation_id", "act", "tenant", "project")):
        one = _Reclaim(list(parts), until, until == period.end)
        by_tenant.setdefault(one.tenant, []).append(one)
    return {tenant: _section(found) for tenant, found in by_tenant.items()}


class _Reclaim:
    """What was taken back at once from a tenant's workload. parts: rows of idle_reclaims.sql."""

    def __init__(self, parts: Sequence[Mapping[str, Any]], until: datetime, is_month_end: bool) -> None:
        self.first = first = parts[0]
        self.tenant = str(first["tenant"])
        self.until, self.until_because = _end(first, until, is_month_end)
        self.gpus = sum((_gpus(part) for part in parts), Fraction(0))
        hours = Fraction((self.until - first["at"]) // _MILLISECOND, 3_600_000)
        self.hours = self.gpus * hours
        self.unpriced = (
            sum((_gpus(part) for part in parts if part["contracted_unit_price"] is None), Fraction(0)) * hours
        )
        prices = ((_gpus(part), part["contracted_unit_price"]) for part in parts)
        self.cost = sum((gpus * Fraction(price) for gpus, price in prices if price is not None), Fraction(0)) * hours

    @property
    def is_open(self) -> bool:
        return self.until_because in OPEN_ENDS

    @property
    def known_cost(self) -> Decimal | None:
        """None: nothing of it has a price."""
        return None if self.unpriced == self.hours and self.hours else rounded(self.cost)

    def document(self) -> dict[str, Any]:
        first = self.first
        return {
            "at": rfc3339(first["at"]),
            "act": ACTS[first["act"]],
            "by": "policy" if first["actor"] == BY_POLICY else "operator",
            "evidence": first["evidence"],
            "cluster": first["cluster"],
            "workload": first["workload"],
            "allocation": first["allocation_id"],
            "project": first["project"],
            "gpus": text(rounded(self.gpus)),
            "until": rfc3339(self.until),
            "until_because": self.until_because,
            "gpu_hours": text(rounded(self.hours)),
            "unpriced_gpu_hours": text(rounded(self.unpriced)),
            "cost": text(self.known_cost),
        }


def _gpus(part: Mapping[str, Any]) -> Fraction:
    return Fraction(part["units"], part["device_units"])


def _end(row: Mapping[str, Any], until: datetime, is_month_end: bool) -> tuple[datetime, str]:
    """Until when it counts, and why no longer."""
    ends = [(until, "month_end" if is_month_end else "books_end")]
    if row["ended_by"]:
        is_rescaled = row["ended_by"] == "resized" and row["ended_reason"] == "Rescaled"
        ends.append((row["ended_at"], "rescaled" if is_rescaled else _ENDS[row["ended_by"]]))
    limit_at = _instant(row["time_limit_at"])
    if limit_at is not None:
        ends.append((max(row["at"], limit_at), "time_limit"))
    return min(ends, key=itemgetter(0))


def _instant(written: str) -> datetime | None:
    """As a source wrote it into a message, which nothing checks when it is taken in; None: it names no instant."""
    try:
        found = datetime.fromisoformat(written)
    except ValueError:
        return None
    return found if found.tzinfo else None


def _section(found: Sequence[_Reclaim]) -> dict[str, Any]:
    """Sums, and the reclaims in the order of time; what only the month's end or the books' end stopped, again apart."""
    still_open = [one for one in found if one.is_open]
    return {
        **_sums(found),
        "at_most": _sums(still_open) if still_open else None,
        "reclaims": [one.document() for one in found],
    }


def _sums(found: Iterable[_Reclaim]) -> dict[str, str | None]:
    several = list(found)
    hours = sum((one.hours for one in several), Fraction(0))
    unpriced = sum((one.unpriced for one in several), Fraction(0))
    cost = sum((one.cost for one in several), Fraction(0))
    return {
        "gpu_hours": text(rounded(hours)),
        "unpriced_gpu_hours": text(rounded(unpriced)),
        "cost": None if hours and unpriced == hours else text(rounded(cost)),
    }
