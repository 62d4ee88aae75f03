"""What a yes to held pushes would do, and which pushes a close lets wait, figure by figure.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_held.py     renews golden/held.json

February is issued and March is closed: a push of both is shown by month and tenant, and what was let through of
February waits. Random pushes are for test_held_effect.py and test_issued_fence.py, which a run seldom has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from billing import audit
from billing.close import close
from billing.held import accept, effect, refuse
from billing.invoicing.documents import InvoiceError
from billing.invoicing.invoices import issue_all
from ingest.held import held_pushes
from tests.billing.facts import SAMPLE, job
from tests.billing.golden import compare
from tests.billing.hand_ledger import at
from tests.billing.test_held_effect import CLOSED, MARCH, NOW, fleet, held
from tests.billing.test_issued_fence import let_through
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store

pytestmark = seldom(3, "golden files of the books", 2)

IN_C1 = {"project": "p", "cluster": "c1"}

LONG = job("new", "kyoto", "g2", "2026-02-28 10:20", "2026-03-10 08:20", **IN_C1)
SHORT = job("t2026-02-28", "phys", "g2", "2026-03-10 10:50", "2026-03-10 10:51", **IN_C1)


def drawn(day: str, device: str, **more: Any) -> dict[str, Any]:
    place = {"cluster": "c1", "node": "n1", "device_id": device}
    return {**SAMPLE, **place, "ts": at(f"{day} 10:30"), "interval_seconds": 1800.0, "energy_joules": 7.2e6, **more}


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with fresh_store(tmp_path_factory.mktemp("held"), fleet) as opened:
        yield opened


def test_every_figure_of_what_a_yes_would_change_is_that_of_the_golden_file(store: Store) -> None:
    """Of an allocation of both months, which a commitment, tiers, taxes and a session's length are about."""
    found = effect(store, held(store, "events", LONG))
    assert found.known
    compare("held", "effect", json.loads(json.dumps([asdict(one) for one in found.changes], default=str)))


@seldom(6, "what nobody named holds is shown")
def test_time_of_unknown_holders_is_shown_with_its_used_part(store: Store) -> None:
    """Nothing was sampled on that device."""
    nobodys = job("new", "", "g2", "2026-02-28 10:20", "2026-02-28 12:20", **IN_C1)
    (change,) = [one for one in effect(store, held(store, "events", nobodys)).changes if one.tenant == ""]
    assert change.gpu_hours_after > change.gpu_hours_before == 0
    assert (change.used_gpu_hours_before, change.used_gpu_hours_after) == (0, 0)


def test_what_a_close_lets_wait_is_what_the_golden_file_says(store: Store) -> None:
    """Of senders that tell of February, of March, or of both, and of one whose batch changes nothing."""
    for sender, rows in (
        ("both", [drawn("2026-02-10", "g1", utilization=1.0), drawn("2026-03-10", "g1", utilization=1.0)]),
        ("march", [drawn("2026-03-10", "g2", utilization=0.5)]),
        ("energy", [drawn("2026-02-10", "g2", state="unsupported", utilization=None)]),
        ("nothing", [drawn("2026-02-12", "g1", utilization=1.0)]),
    ):
        let_through(store, "samples", rows, sender)
    let_through(store, "events", SHORT, "short")
    with pytest.raises(InvoiceError, match="facts of 1 of its hours arrived after the last close"):
        issue_all(store, MARCH, NOW)
    report = close(store, CLOSED, NOW)
    waits = sorted((one.sender, one.reason, one.detail, one.rows) for one in held_pushes(store))
    figures = "sum(used_unit_ms) AS used, sum(idle_unit_ms) AS idle, sum(unmetered_unit_ms) AS unmetered"
    ledger = store.rows(f"SELECT toStartOfMonth(hour) AS month, {figures} FROM ledger GROUP BY month ORDER BY month")
    energy = store.value("SELECT sum(energy_millijoules) AS energy FROM energy")
    compare("held", "waits", json.loads(json.dumps([report.held, waits, ledger, energy], default=str)))
    for one, decide in zip(
        sorted(held_pushes(store), key=lambda one: one.sender), (accept, refuse, refuse), strict=True
    ):
        decide(store, one.id, NOW, "ann", "seen")
        decide(store, one.id, NOW, "ann", "again")
    actions = [
        {name: row[name] for name in ("action", "actor", "reason", "inputs")} for row in audit.history(store, "held")
    ]
    compare("held", "decided", json.loads(json.dumps(actions, default=str)))
