"""A life of a store that takes all its ways: the same on one server and on several shards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from billing.close import close
from billing.held import accept, effect
from billing.invoicing.invoices import issue_all, issued
from billing.invoicing.rederive import rederive
from billing.retention.run import remove, retention, set_days
from billing.verify import verify
from ingest.held import hash_of, held_pushes, hold
from ingest.permissions import Doubt
from tests.billing.facts import devices, job, put, samples
from tests.billing.hand_ledger import at
from tests.billing.test_rederive import OCTOBER, october_issued, two_jobs
from warehouse.records import RECORD_TYPES
from warehouse.store import Store

LATER = datetime.now(UTC) + timedelta(days=40)
"""A day on which all that arrives now is old."""
NOVEMBER_9 = (at("2026-11-09 00:00"), at("2026-11-10 00:00"))


def more_devices(store: Store) -> None:
    """Devices on both shards: shared hours, samples that come twice, overlap, and reach over an hour's end."""
    put(store, "devices", devices("2026-10-01 00:00", *(f"h{n}" for n in range(6))))
    for n in range(6):
        put(store, "events", job(f"x{n}", "chem", f"h{n}", "2026-10-07 10:10", "2026-10-07 12:40"))
        put(store, "events", job(f"y{n}", "phys", f"h{n}", "2026-10-07 12:40", "2026-10-07 14:00"))
    every = [row for n in range(6) for row in samples(f"h{n}", "2026-10-07 10:00", range(240), n / 8)]
    put(store, "samples", [{**row, "power_watts": 300.5, "memory_used_bytes": 2**33} for row in every])
    again = [row for n in range(6) for row in samples(f"h{n}", "2026-10-07 11:00", range(7, 130, 11), 0.9)]
    put(store, "samples", [{**row, "ts": row["ts"] + timedelta(seconds=17)} for row in again], source="jittered")
    put(store, "samples", every[30:90], source="again")
    own = [{**row, "workload_id": f"x{n}"} for n in range(6) for row in samples(f"h{n}", "2026-10-07 10:00", range(99))]
    put(store, "samples", own, source="own")


def life(store: Store) -> list[tuple[str, Any]]:
    """Takes facts in, closes, issues, corrects, shows what is held, removes. Answers what there was at each step."""
    told: list[tuple[str, Any]] = []

    def tell(step: str, *more: Any) -> None:
        told.append((step, (*more, *books(store))))

    two_jobs(store)
    more_devices(store)
    october_issued(store)
    tell("issued")
    put(store, "samples", samples("g0", "2026-11-05 10:00", range(60)))
    put(store, "samples", samples("g1", "2026-11-07 10:00", range(60)))
    tell("closed on", close(store, *NOVEMBER_9).changed)
    late = [row for n in range(6) for row in samples(f"h{n}", "2026-10-07 13:00", range(5, 60, 7), 1.0)]
    put(store, "samples", [{**row, "ts": row["ts"] + timedelta(seconds=29)} for row in late], source="late")
    tell("corrected", close(store, *NOVEMBER_9).changed)
    rows = [{**samples("h1", "2026-10-07 12:00", [3])[0], "cluster": "", "utilization": 1.0, "interval_seconds": 600.0}]
    doubt = Doubt("issued_month", "reaches into a month that is issued")
    hold(store, "all", RECORD_TYPES["samples"], "push:all", {hash_of(row): (row, doubt) for row in rows})
    (push,) = held_pushes(store)
    shown = sorted((one.tenant, one.month, one.difference) for one in effect(store, push).changes)
    accept(store, push.id, NOVEMBER_9[1], "ann", "seen")
    tell("accepted", shown, close(store, *NOVEMBER_9).changed)
    issue_all(store, OCTOBER, NOVEMBER_9[1])
    answer = rederive(store, str(issued(store)[0].number))
    tell("verified", verify(store).balanced, (answer.same, answer.unknown))
    set_days(store, {"samples": 30, "metrics": 30, "sums": 300}, "ann", "room", LATER)
    kept = retention(store, LATER)
    found = remove(store, "ann", LATER, even_invoiced=True)
    by_day = (
        "SELECT toDate(ts, 'UTC') AS day, count() AS rows, sum(cityHash64(device_id, ts)) AS sums FROM samples "
        "GROUP BY day ORDER BY day"
    )
    tell(
        "removed",
        [(one.name, one.days) for one in kept.tables],
        (found.days, found.invoices, found.held_back),
        store.rows(by_day),
    )
    tell("closed again", close(store, *NOVEMBER_9, whole=True).changed, verify(store).balanced)
    return told


def books(store: Store) -> tuple[Any, ...]:
    """All entries, energy and documents, but for when they were made."""
    tables = ("ledger", "energy", "allocations", "refused_claims")
    written = [
        [{name: cell for name, cell in row.items() if name not in ("run", "seal")} for row in store.rows(sql)]
        for sql in (f"SELECT * FROM {table} ORDER BY ALL" for table in tables)
    ]
    documents = [(one.tenant, one.amount, [{**line} for line in one.lines]) for one in issued(store)]
    return (*(sorted(map(repr, rows)) for rows in written), documents)
