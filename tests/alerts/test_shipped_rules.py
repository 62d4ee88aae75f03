"""Each shipped rule fires on its facts, and not on their nearest neighbour."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import pytest

from alerts.evaluate import evaluate
from alerts.journal import Transition
from alerts.rule import Rule
from alerts.rule_files import load_rules
from alerts.speaking import spoken
from dashboards.languages import language
from dashboards.pages.alerts.active import REPORTED
from dashboards.pages.alerts.evidence import WORKINGS
from tests.alerts.cases import CASES, Case
from tests.alerts.facts import NOON, put
from tests.stores import fresh_store

OF_THE_WHOLE_STORE = {
    "alert-data-stopped",
    "alert-delivery-failing",
    "alert-evaluation-failed",
    "budget-threshold",
    "claims-refused",
    "delivery-lag",
    "ledger-late",
    "ledger-not-balanced",
    "quota-breached",
    "quota-guarantee-missed",
    "service-error-burn",
    "service-latency",
    "slo-burning",
    "slo-burning-slow",
    "spend-anomaly",
}
"""Rules whose cases are in test_store_rules.py: they look at more than one cluster, or need more than facts."""


def check_the_chinese(one: Transition, rules: Mapping[str, Rule]) -> None:
    """Every text in Chinese, with the values that the English one has, as from a stored alert: instants are text."""
    stored = {"labels": one.labels, "annotations": one.annotations, "evidence": json.loads(as_text(one.alert.evidence))}
    alert = {**stored, **{name: getattr(one.alert, name) for name in ("rule", "value", "at", "active_at")}}
    texts = spoken(alert, rules, "zh", "UTC")
    assert texts.keys() == one.annotations.keys()
    keys = {*one.alert.evidence, *(one.labels.keys() - {*REPORTED})} - {*WORKINGS}
    assert {f"evidence.{key}" for key in keys} <= language("zh").words.keys(), "a page has names for the evidence"
    for name, text in texts.items():
        if name != "runbook":
            assert not text.isascii() and "+00:00" not in text, text
            values = re.findall(r"[A-Za-z0-9.]*[0-9][A-Za-z0-9.]*", one.annotations[name])
            said = {part.lstrip("0") for part in re.findall(r"[A-Za-z0-9.]+", text)}
            assert {part.lstrip("0") for part in values} <= said, text  # a month is 6月, and not 06月


as_text = json.JSONEncoder(default=str).encode


@pytest.fixture(scope="module")
def firing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, str], set[tuple[str, ...]]]]:
    """(rule, cluster): the identities that fire at noon, all cases evaluated at once."""
    found: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
    facts = [(record, {**row, "cluster": case.cluster}) for case in CASES for record, row in case.facts]
    with fresh_store(tmp_path_factory.mktemp("store")) as store:
        put(store, facts)
        rules = {rule.name: rule for rule in load_rules()}
        report = evaluate(store, list(rules.values()), NOON, delay=NOON - NOON)
        assert report.problems == {}
        for one in report.transitions:
            if one.alert.state == "firing" and "cluster" in one.labels:
                names = [name for name in rules[one.alert.rule].identity if name != "cluster"]
                words = tuple(sorted(f"{name}={one.labels.get(name, '')}" for name in names))
                found[one.alert.rule, one.labels["cluster"]].add(words)
            if one.alert.state == "firing":
                check_the_chinese(one, rules)
        yield found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.name}")
def test_the_rule_fires_on_these_facts_and_on_no_others(
    case: Case, firing: dict[tuple[str, str], set[tuple[str, ...]]]
) -> None:
    expected = {tuple(sorted(case.fires))} if case.fires else set()
    assert firing.get((case.rule, case.cluster), set()) == expected


def test_every_rule_has_a_case_that_fires_and_one_that_does_not() -> None:
    for rule in {rule.name for rule in load_rules()} - OF_THE_WHOLE_STORE:
        cases = [case for case in CASES if case.rule == rule]
        assert any(case.fires for case in cases), rule
        assert any(not case.fires for case in cases), rule
