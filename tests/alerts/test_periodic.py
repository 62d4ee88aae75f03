"""The server's look now and then: objectives are measured, then rules evaluated."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from alerts import periodic
from alerts.evaluate import DELAY, Report
from alerts.periodic import Alerting, AlertSettings, alerting
from alerts.reading import alerts
from tests.alerts.facts import NOON, ago, put, served
from tests.alerts.receivers import http_receiver
from tests.alerts.rules import evaluate_at, put_value
from tests.alerts.slo.promises import ERRORS, promise
from tests.patience import PATIENCE_SECONDS, until
from warehouse.errors import StoreError
from warehouse.store import Store


def burning(store: Store) -> None:
    """Half of all requests have failed for an hour and a half."""
    put(store, [f for m in range(90) for f in served(m, "requests_per_second", 1.0)])
    put(store, [f for m in range(90) for f in served(m, "errors_per_second", 0.5)])
    promise(store, {**ERRORS, "window": "30d"})


def test_a_look_measures_the_objectives_before_it_evaluates(facts: Store) -> None:
    burning(facts)
    looks = Alerting(AlertSettings())
    report = looks.evaluate_due(facts, NOON + DELAY)
    assert looks.deliver_due(facts, NOON + DELAY) == []
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
    report = looks.evaluate_due(facts, ago(1))
    assert report.until is not None
    looks.evaluate_due(facts, ago(1) + timedelta(minutes=1))
    said = [line for line in caplog.messages if "objectives cannot be measured" in line]
    assert said == ["objectives cannot be measured: objectives: no disk space"], "and not every minute"


def test_what_fires_is_told_on_while_an_evaluation_takes_its_time(
    facts: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An Alertmanager that is told nothing for four times its `resend_every` takes the alert for over."""
    over, begun = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> Report:
        begun.set()
        over.wait(PATIENCE_SECONDS)
        return Report()

    put_value(facts, 9, 11.0)
    evaluate_at(facts, 9)
    monkeypatch.setattr(periodic, "evaluate", slow)
    with http_receiver() as receiver:
        routing = tmp_path / "routing.yaml"
        routing.write_text(
            f"receivers: {{am: {{alertmanager: {{urls: [{receiver.url}], resend_every: 1s}}}}}}\n"
            "routes: [{receivers: [am]}]\n"
        )
        with alerting(facts, AlertSettings(routing=routing), every_seconds=4):
            assert begun.wait(PATIENCE_SECONDS)
            until(lambda: len(receiver.requests) >= 4, "the receiver was not told again")
            over.set()
        ends = [document["endsAt"] for (document,) in receiver.documents()]
    assert sorted(set(ends)) == ends, "each later than the one before"


@pytest.mark.parametrize("is_on", [True, False])
def test_interference_is_measured_two_days_back_while_served_unless_told_otherwise(
    facts: Store, monkeypatch: pytest.MonkeyPatch, is_on: bool
) -> None:
    asked: list[timedelta] = []

    def measured(store: Store, at: datetime, now: datetime, at_most: timedelta) -> int:
        assert now - at == DELAY
        asked.append(at_most)
        return 0

    monkeypatch.setattr(periodic, "measure_interference", measured)
    begun = threading.Event()
    monkeypatch.setattr(Alerting, "evaluate_due", lambda *_: begun.set())
    with alerting(facts, AlertSettings(interference=is_on)):
        assert begun.wait(PATIENCE_SECONDS)
        if is_on:
            until(lambda: bool(asked), "interference was not measured")
    assert asked == ([timedelta(days=2)] if is_on else [])


def test_interference_that_cannot_be_measured_is_said(
    facts: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> int:
        raise StoreError("interference", "no disk space")

    monkeypatch.setattr(periodic, "measure_interference", broken)
    with alerting(facts, AlertSettings()):
        until(lambda: "interference cannot be measured" in caplog.text, "it was not said")
