"""What idle policies gave back: GPUs that the scheduler took from idle workloads, for how long, and what they had cost.

It stands beside the lines of an invoice and is in none of its sums. From a reclaim on, the GPUs count until the first
of these: the workload asks for them again (it is resumed or submitted), it grows or is rescaled, it ends otherwise, its
time limit would have stopped it, the month ends, the books end. For how long it would have kept them, nobody knows:
what only the month's end or the books' end has stopped is at most so much.

Under the Kubernetes operator the books have a job's pods, each an allocation of its own, and the pods that an idle
policy ended say so (collectors.kubernetes.reclaims). When the job had GPUs again is told by its later pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
_ONE = (
    "at", "cluster", "allocation_id", "act", "tenant", "project", "job", "placement", "replicas", "time_limit_at",
    "actor", "evidence",
)  # fmt: skip
"""Columns of idle_reclaims.sql that are the same of all that is one reclaim."""
_End = tuple[datetime, str]
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
    jobs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    if any(row["job"] for row in rows):
        for row in store.rows(read_sql(__file__, "job_placements", read=READ_BY), params):
            jobs.setdefault((row["cluster"], row["job"]), []).append(row)
    by_tenant: dict[str, list[_Reclaim]] = {}
    for _, found in groupby(rows, itemgetter(*_ONE)):
        parts = list(found)
        ends = _ends_of(parts[0], jobs)
        one = _Reclaim(parts, ends, until, until == period.end)
        by_tenant.setdefault(one.tenant, []).append(one)
    return {tenant: _section(found) for tenant, found in by_tenant.items()}


class _Reclaim:
    """What was taken back at once from a tenant's workload. parts: rows of idle_reclaims.sql.   ends: what would end
    it, and when, besides the month and the time limit."""

    def __init__(
        self, parts: Sequence[Mapping[str, Any]], ends: Sequence[_End], until: datetime, is_month_end: bool
    ) -> None:
        self.parts, self.first = parts, (first := parts[0])
        self.tenant = str(first["tenant"])
        self.until, self.until_because = _end(first, ends, until, is_month_end)
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
        pods = sorted({pod for part in self.parts for pod in part["pods"]})
        return {
            "at": rfc3339(first["at"]),
            "act": ACTS.get(first["act"], first["act"]),
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
            **({"pods": pods} if pods else {}),
        }


def _gpus(part: Mapping[str, Any]) -> Fraction:
    return Fraction(part["units"], part["device_units"])


def _ends_of(row: Mapping[str, Any], jobs: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]) -> list[_End]:
    """jobs: rows of job_placements.sql, by cluster and job."""
    if row["job"]:
        return list(_ends_of_job(row, jobs.get((row["cluster"], row["job"]), ())))
    if not row["ended_by"]:
        return []
    is_rescaled = row["ended_by"] == "resized" and row["ended_reason"] == "Rescaled"
    return [(row["ended_at"], "rescaled" if is_rescaled else _ENDS[row["ended_by"]])]


def _ends_of_job(row: Mapping[str, Any], placements: Sequence[Mapping[str, Any]]) -> Iterator[_End]:
    """By the placements of a job since then. A job that is made smaller is placed again at once, in the same attempt;
    one of which no such placement is known holds nothing."""
    after = [one for one in placements if one["placement"] > row["placement"] or one["begun"] > row["at"]]
    later = [one for one in after if one["placement"] != row["placement"]]
    same = [one for one in later if one["allocation"] == row["allocation_id"]] if row["act"] == "shrunk" else []
    yield from ((one["begun"], "resumed") for one in later if one not in same)
    if row["act"] != "shrunk":
        return
    if not same:
        yield row["at"], "ended"
        return
    kept = [row["replicas"], *(one["kept"] for one in same)]
    yield from ((one["begun"], "grew") for before, one in zip(kept, same, strict=False) if one["size"] > before)
    yield from ((one["rescaled_at"], "rescaled") for one in same if one["rescaled_at"] is not None)
    if same[-1]["over"] and not same[-1]["was_idle"]:
        yield same[-1]["over_at"], "ended"


def _end(row: Mapping[str, Any], ends: Sequence[_End], until: datetime, is_month_end: bool) -> _End:
    """Until when it counts, and why no longer."""
    found = [(until, "month_end" if is_month_end else "books_end")]
    found += [(max(row["at"], when), why) for when, why in ends]
    limit_at = _instant(row["time_limit_at"])
    if limit_at is not None:
        found.append((max(row["at"], limit_at), "time_limit"))
    return min(found, key=itemgetter(0))


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
