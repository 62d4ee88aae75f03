"""The shipped rules say of a simulated fleet exactly what the simulator knows, and nothing of a clean one.

The whole month is `python -m bench.alerting`; here it is a tenth of the fleet for a day, at every fourth hour.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from bench.alert_truth import EXPECTED
from bench.alerting import Score, fill, judge, judged_rules, look
from collectors.simulated import FleetPlan
from tests.alerts.test_shipped_rules import OF_THE_WHOLE_STORE
from tests.draws import seldom
from tests.stores import fresh_store


def scores(folder: Path, plan: FleetPlan, hours: int) -> dict[str, Score]:
    """Of the plan's second day."""
    first = plan.start + timedelta(days=1)
    last = first + timedelta(days=1)
    rules = judged_rules(hours * 3600)
    with fresh_store(folder) as store:
        fill(store, plan, first, last)
        changed = look(store, rules, first, last)
    return judge(plan, rules, changed, first, last)


@seldom(6, "what fires is what the simulator knows")
@pytest.mark.slow
def test_what_fires_is_what_the_simulator_knows_and_nothing_else(tmp_path: Path) -> None:
    found = scores(tmp_path, FleetPlan(days=2, scale=0.1), 4)
    wrong = {name: score.wrong for name, score in found.items() if score.differ}
    assert wrong == {}
    assert all(score.exact for score in found.values())
    fired = {name for name, score in found.items() if score.expected}
    assert {"idle-holder", "low-utilization", "long-queue", "starvation", "device-unavailable", "xid-hardware"} <= fired
    assert {"ecc-uncorrected", "overheating", "row-remap-pending", "unmetered-share"} <= fired


@seldom(6, "nothing fires on a clean fleet")
def test_nothing_fires_on_a_clean_fleet(tmp_path: Path) -> None:
    found = scores(tmp_path, FleetPlan(days=2, scale=0.1, clean=True), 12)
    assert {name: score.wrong for name, score in found.items() if score.found or score.expected} == {}


def test_every_shipped_rule_is_judged_here_or_needs_more_than_a_fleet() -> None:
    from alerts.rule_files import load_rules

    shipped = {rule.name for rule in load_rules()}
    of_quotas = {"quota-breached", "quota-guarantee-missed"}
    assert set(EXPECTED) | OF_THE_WHOLE_STORE == shipped
    assert set(EXPECTED) & OF_THE_WHOLE_STORE == of_quotas
