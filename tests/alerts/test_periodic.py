"""The server's look now and then: objectives are measured, then rules evaluated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from alerts import periodic
from alerts.evaluate import DELAY
from alerts.periodic import Alerting, AlertSettings
from alerts.reading import alerts
from tests.alerts.facts import NOON, ago, put, served
from tests.alerts.slo.promises import ERRORS, promise
from warehouse.errors import StoreError
from warehouse.store import Store


def burning(store: Store) -> None:
    """Half of all requests have failed for an hour and a half."""
    put(store, [f for m in range(90) for f in served(m, "requests_per_second", 1.0)])
    put(store, [f for m in range(90) for f in served(m, "errors_per_second", 0.5)])
    promise(store, {**ERRORS, "window": "30d"})


def test_a_look_measures_the_objectives_before_it_evaluates(facts: Store) -> None:
    burning(facts)
    report, told = Alerting(AlertSettings()).tick(facts, NOON + DELAY)
    assert told == []
    assert "slo-burning" not in report.problems
    (found,) = [row for row in alerts(facts, NOON) if row["rule"] == "slo-burning"]
    assert (found["state"], found["labels"]["objective"]) == ("firing", "errors")


def test_objectives_that_cannot_be_measured_keep_no_rule_from_being_evaluated(
    facts: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> int:
        raise StoreError("objectives", "no disk space")

    burning(facts)
    monkeypatch.setattr(periodic, "measure", broken)
    looks = Alerting(AlertSettings())
    report, _ = looks.tick(facts, ago(1))
    assert report.until is not None
    looks.tick(facts, ago(1) + timedelta(minutes=1))
    said = [line for line in caplog.messages if "objectives cannot be measured" in line]
    assert said == ["objectives cannot be measured: objectives: no disk space"], "and not every minute"
