"""What Slurm told, closed into allocations: each GPU once, by the device where its index is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from billing.close import close
from collectors.slurm import rest, sacct
from collectors.slurm.inventory import GresDevice
from collectors.slurm.jobs import Site
from collectors.slurm.rows import lifecycle_rows, placement_rows
from ingest import ingest_tables
from tests.collectors.slurm.records import TEN, controlled
from warehouse.records import DEVICES, EVENTS, RecordType
from warehouse.store import Store

SITE = Site(cluster="alpha")
INVENTORY = {(node, index): GresDevice(f"{node}/{index}") for node in ("g1", "g2") for index in range(4)}
ACCOUNTING = """\
JobID|JobIDRaw|Account|Partition|State|Submit|Start|End|NodeList|AllocTRES|ReqTRES
7|7|chem|train|PREEMPTED|2026-10-01T09:00:00|2026-10-01T10:00:00|2026-10-01T11:00:00|g[1-2]|gres/gpu=4|gres/gpu=4
7|7|chem|train|COMPLETED|2026-10-01T11:00:00|2026-10-01T11:00:00|2026-10-01T12:00:00|g2|gres/gpu=4|gres/gpu=4
8|8|bio|train|COMPLETED|2026-10-01T09:00:00|2026-10-01T10:00:00|2026-10-01T10:30:00|g2|gres/gpu=1|gres/gpu=1
"""
FIRST = controlled(
    job_id=7, submit_time=TEN - 3600, tres_alloc_str="gres/gpu=4", gres_detail=["gpu:2(IDX:2-3)", "gpu:2(IDX:2-3)"]
)
SECOND = FIRST | {"start_time": TEN + 3600, "restart_cnt": 1, "nodes": "g2", "gres_detail": ["gpu:4(IDX:0-3)"]}


def put(store: Store, record: RecordType, rows: list[dict[str, object]]) -> None:
    names = dict.fromkeys(name for row in rows for name in row)
    ingest_tables(store, record, "test", [pa.table({name: [row.get(name) for row in rows] for name in names})])


def test_each_gpu_is_held_once_though_accounting_and_the_controller_both_tell(store: Store) -> None:
    start = datetime(2026, 10, 1, 9, tzinfo=UTC)
    put(
        store,
        DEVICES,
        [
            {
                "ts": start,
                "cluster": "alpha",
                "node": node,
                "device_id": place.device_id,
                "model": "H100",
                "state": "available",
            }
            for (node, _), place in INVENTORY.items()
        ],
    )
    events = lifecycle_rows(sacct.read(ACCOUNTING, SITE).records, SITE, start).rows["events"]
    for record in (FIRST, SECOND):
        events += placement_rows(rest.read_jobs({"jobs": [record]}).records, SITE, INVENTORY, start).rows["events"]
    put(store, EVENTS, events)
    put(store, EVENTS, events[::-1])  # told again, the other way round
    close(store, datetime(2026, 10, 1, 13, tzinfo=UTC))
    held = store.rows(
        "SELECT allocation_id, tenant, device_id, toString(start_at) AS s, toString(end_at) AS e, estimated"
        " FROM allocations ORDER BY start_at, allocation_id, device_id"
    )
    whole = [
        (row["allocation_id"], row["device_id"], row["s"][11:19], row["e"][11:19])
        for row in held
        if _length(row["s"], row["e"]) > timedelta(seconds=1)
    ]
    assert whole == [
        ("7", "g1/2", "10:00:00", "11:00:00"),
        ("7", "g1/3", "10:00:00", "11:00:00"),
        ("7@g2", "g2/2", "10:00:00", "11:00:00"),
        ("7@g2", "g2/3", "10:00:00", "11:00:00"),
        ("8", "g2/0", "10:00:00", "10:30:00"),
        ("7", "g2/0", "11:00:00", "12:00:00"),
        ("7", "g2/1", "11:00:00", "12:00:00"),
        ("7", "g2/2", "11:00:00", "12:00:00"),
        ("7", "g2/3", "11:00:00", "12:00:00"),
    ]
    assert store.rows("SELECT reason, allocation_id FROM refused_claims") == []
    total = sum((_length(row["s"], row["e"]) for row in held), timedelta())
    assert total == timedelta(hours=8, minutes=30)


def _length(start: str, end: str) -> timedelta:
    return datetime.fromisoformat(end) - datetime.fromisoformat(start)
