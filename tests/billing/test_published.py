"""Fingerprints of allocations by month: whatever became of the table, what is known spares reading and never lies."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

from billing.close.published import published
from tests.draws import keep_seed
from tests.stores import fresh_store
from warehouse.store import Store

START = datetime(2026, 1, 20, tzinfo=UTC)


@pytest.mark.parametrize("number", range(2))
def test_a_known_month_has_the_fingerprint_of_its_rows(tmp_path: Path, number: int) -> None:
    seed = f"{keep_seed()} published {number}"
    print(f"seed {seed!r}")
    chance = random.Random(seed)
    with fresh_store(tmp_path) as store:
        known = published(store)
        assert (known.allocations, known.months) == (0, {})
        most = 0
        for step in range(24):
            what = chance.choice(["insert", "insert", "insert", "merge", "delete", "update", "move", "nothing"])
            if what == "insert":
                _hold(store, chance, step)
            elif what == "merge":
                store.command("OPTIMIZE TABLE allocations FINAL")
            elif what == "delete":
                month = chance.choice([*known.months, "202601"])
                store.command(f"ALTER TABLE allocations DROP PARTITION ID '{month}'")
            elif what == "update":
                of = {"claim": chance.randrange(60)}
                changed = "ALTER TABLE allocations UPDATE tenant = 'other' WHERE claim = {claim:UInt64}"
                store.command(changed, of, {"mutations_sync": 2})
            elif what == "move":
                store.create_like("beside", "allocations")
                for month in known.months:
                    store.command(f"ALTER TABLE beside ATTACH PARTITION ID '{month}' FROM allocations")
                store.exchange("beside", "allocations")
                store.command("DROP TABLE beside")
            found = published(store, known=known.months)
            fully = published(store)
            assert found == fully
            of_rows, of_all = ({month: one.fingerprint for month, one in of.months.items()} for of in (found, fully))
            assert of_rows == of_all, "its parts may have been merged meanwhile"
            if what in ("move", "nothing"):
                assert found == known, "the same rows"
            known, most = found, max(most, len(found.months))
        assert most


def _hold(store: Store, chance: random.Random, step: int) -> None:
    rows = range(chance.randrange(1, 5))
    starts = [START + timedelta(hours=chance.uniform(0, 24 * 40)) for _ in rows]
    ends = [None if chance.random() < 0.3 else start + timedelta(hours=chance.uniform(0, 24 * 40)) for start in starts]
    table = {
        "claim": pa.array([chance.randrange(60) for _ in rows], pa.uint64()),
        "allocation_id": [f"job-{step}-{number}" for number in rows],
        "tenant": [chance.choice(["chem", "phys"]) for _ in rows],
        "start_at": pa.array(starts, pa.timestamp("ms", "UTC")),
        "end_at": pa.array(ends, pa.timestamp("ms", "UTC")),
    }
    store.insert("allocations", pa.table(table))
