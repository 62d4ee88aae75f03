"""A rule on a value that the test writes into the store, and its evaluation at an instant."""

from __future__ import annotations

import functools
from datetime import datetime, timedelta
from typing import Any

from alerts.evaluate import Report, evaluate
from alerts.rule import Rule
from alerts.rule_files import load_rules
from tests.alerts.facts import NOON, Fact, ago, put
from warehouse.store import Store

NEWEST = """
SELECT service AS gpu, argMax(s.value, ts) AS value, argMax(s.tenant, ts) AS tenant
FROM service_levels AS s
WHERE ts > {previous_at:DateTime64(3, 'UTC')} AND ts <= {at:DateTime64(3, 'UTC')} AND metric = 'm'
GROUP BY service
"""
"""The last value of each service within the interval; no row if there is none."""


def rule(**more: Any) -> Rule:
    """A rule that fires while the value is above 10."""
    usual = {
        "name": "too-high",
        "query": "newest.sql",
        "sql": NEWEST,
        "identity": ["gpu"],
        "labels": ["tenant"],
        "condition": "> 10",
        "summary": "{{ labels.gpu }} is at {{ value | number }}",
        "owner": "{{ labels.tenant }}",
    }
    return Rule.model_validate({**usual, **more})


@functools.cache
def own_rules() -> tuple[Rule, ...]:
    """The engine's own rules, as shipped."""
    return tuple(one for one in load_rules() if one.source == "engine")


def put_value(store: Store, minutes: float, value: float | None, gpu: str = "g0", tenant: str = "physics") -> None:
    """Writes a service's value, so many minutes before noon; None: unknown."""
    row: dict[str, Any] = {
        "ts": ago(minutes), "interval_seconds": 60.0, "service": gpu, "metric": "m", "value": value, "tenant": tenant,
    }  # fmt: skip
    put(store, [("service_levels", row), alive(minutes)])


def alive(minutes: float) -> Fact:
    """A fact that only advances data time."""
    row = {"ts": ago(minutes), "allocation_id": "clock", "event": "submitted", "message": f"{minutes}"}
    return "events", row


def evaluate_at(store: Store, minutes: float, *rules: Rule, **more: Any) -> Report:
    """Evaluates so many minutes before noon, without delay."""
    now: datetime = ago(minutes)
    return evaluate(store, rules or [rule()], now, delay=timedelta(0), live=more.pop("live", False), **more)


def states(report: Report) -> list[tuple[str, str]]:
    """(minutes before noon, state) of the transitions."""
    return [
        (f"{round((NOON - one.alert.at).total_seconds() / 60)}", one.alert.state.value) for one in report.transitions
    ]
