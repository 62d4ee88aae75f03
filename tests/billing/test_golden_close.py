"""What each statement of a close answers of claims that cannot all be true, of power, memory and doubtful samples.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_close.py     renews golden/answers.json

Whether the ledger is right is for test_books.py, which computes it another way. What a close believes, looks at and
sums on its way there may be wrong by chance without a trace.
"""

from __future__ import annotations

import json
import random
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from billing.close import close
from billing.energy.report import energy_report
from billing.energy.settings import apply_energy_settings, parse_energy_settings
from billing.insights.anomalies import anomalies
from billing.insights.efficiency import efficiency
from billing.insights.holders import Rules
from billing.insights.savings import savings
from billing.ledger_report import ledger_report
from billing.opencost.allocation import allocations
from billing.opencost.query import parse_query
from billing.periods import Period
from billing.rates import apply_rate_card, parse_rate_card
from billing.rates.changes import price_effect
from billing.tenants import apply_mapping, parse_mapping
from billing.tenants.unmapped import unmapped
from tests.billing.answers import heard
from tests.billing.facts import put
from tests.billing.golden import compare
from tests.billing.hand_ledger import at
from tests.billing.test_golden_three_months import tables
from tests.billing.whole_books import CARD, ENERGY, MAPPING, put_contradictions, put_spacious
from tests.draws import seldom
from tests.stores import fresh_store
from warehouse.store import Store

pytestmark = seldom(3, "golden files of the books", 2)

BEGIN, UNTIL, NOW = at("2026-10-01 00:00"), at("2026-10-29 05:00"), at("2026-11-03 00:00")


DEVICES = (("d0", ""), ("d1", ""), ("d2", ""), ("d3", "d3-0"), ("d3", "d3-1"), ("d3", ""), ("d4", ""), ("s8", ""))
IDLE = [{"model": "A100", "watts": "30", "effective_to": "2026-10-28T07:00"}, *ENERGY["idle_power"][:1]]


def put_doubtful(store: Store) -> None:
    """Samples with power and memory that overlap, come twice at an instant, reach over an hour's edge, or say nothing;
    of whole devices, parts and workloads that may not be there; in batches that each close reads in part."""
    dice = random.Random("doubtful")
    for batch in range(12):
        rows: list[dict[str, Any]] = []
        for _ in range(6):
            device, part = dice.choice(DEVICES)
            start = at("2026-10-27 06:00") + timedelta(minutes=10 * dice.randrange(75 * 6))
            seconds, step = dice.choice(((600.0, 600), (600.0, 300), (1200.0, 600), (60.0, 60), (3600.0, 600)))
            about = {"device_id": device, "partition_id": part, "node": "n3" if device == "s8" else "n5"}
            about["workload_id"] = dice.choice(("", "", f"c{dice.randrange(60)}", "moved"))
            reported = dice.choice((("power_watts",), ("memory_used_bytes",), ("power_watts", "memory_used_bytes"), ()))
            apart = timedelta(milliseconds=dice.choice((0, 0, 0, 1, 500)))
            for n in range(dice.choice((1, 2, 7))):
                row = {**about, "ts": start + apart + timedelta(seconds=n * step), "interval_seconds": seconds}
                row |= {"state": "ok", "utilization": dice.choice((0.0, 0.25, 1.0))}
                if dice.random() < 0.15:
                    row |= {"state": "unsupported", "utilization": None}
                row |= {name: dice.choice((0.0, 41.5, 300.0)) for name in reported if name == "power_watts"}
                row |= {name: dice.choice((0, 2**31, 2**34)) for name in reported if name != "power_watts"}
                rows.append(row)
        rows += [{**one, "utilization": 0.5} for one in rows if dice.random() < 0.1]
        put(store, "samples", rows, "", f"doubtful {batch}")


LITTLE = Rules(idle_hours=2, least_hours=3, min_coverage=Decimal("0.5"), busy=Decimal("0.4"))
"""Of what most of the holders here are judged by."""


def what_reports_ask(store: Store) -> dict[str, str]:
    """Of all that is closed, of a part that begins and ends within hours of it, and of one tenant."""
    part = Period(BEGIN + timedelta(days=26, hours=9), UNTIL + timedelta(days=1))
    dearer = [{**rate, "price_per_gpu_hour": "4.44"} if rate["sku"] == "a100" else rate for rate in CARD["rates"]]
    other = parse_rate_card({**CARD, "rates": dearer, "priority_classes": {"high": {"from": 50}, "low": {"to": 0}}})
    asked = {"window": "2026-10-27T09:00:00Z,2026-10-30T05:00:00Z", "includeIdle": "true", "aggregate": "namespace"}
    with heard() as answers:
        for period in (None, part):
            for rules in (Rules(), LITTLE):
                savings(store, period, rules)
            savings(store, period, LITTLE, tenant="chem")
            savings(store, period, LITTLE, workload="moved")
            anomalies(store, period, Decimal("0.1"))
            for by in (["tenant", "project"], ["cluster", "device"], []):
                ledger_report(store, period, by)
                efficiency(store, period, by)
                energy_report(store, period, by)
        for by in ("namespace", "label:device", "cluster,node"):
            allocations(store, parse_query({**asked, "aggregate": by, "step": "1d"}, "Europe/Berlin", NOW))
        price_effect(store, parse_rate_card(CARD), other)
        unmapped(store)
    return answers.reported()


def test_what_a_close_of_contradictory_facts_answers_is_that_of_the_golden_file(tmp_path: Path) -> None:
    """Part of it first: what goes on then is closed with the hours after."""
    with fresh_store(tmp_path) as store:
        store.command("SET max_threads = 1")
        apply_rate_card(store, parse_rate_card(CARD), "ann", "first", BEGIN)
        apply_mapping(store, parse_mapping(MAPPING), "ann", "whose it is", BEGIN)
        settings = {**ENERGY, "idle_power": IDLE}
        apply_energy_settings(store, parse_energy_settings(settings), "ann", "measured", BEGIN)
        put_contradictions(store)
        put_spacious(store)
        put_doubtful(store)
        for number, until in enumerate((UNTIL, UNTIL + timedelta(days=3)), 1):
            with heard() as answers:
                close(store, until, NOW)
            compare("answers", f"contradictions {number}", answers.reported())
        compare("answers", "contradictions, reports", what_reports_ask(store))
        compare("answers", "contradictions, tables", json.loads(json.dumps(dict(tables(store)))))
