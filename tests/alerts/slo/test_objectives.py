"""Objectives in files: what fits, and what is said of what does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alerts.slo.applied import apply_objectives, current_objectives
from alerts.slo.errors import SloError
from alerts.slo.objectives import load_objectives, parse_objectives
from tests.alerts.facts import NOON
from tests.alerts.slo.promises import LATENCY, WAIT
from warehouse.store import Store

FILE = """
objectives:
  - name: train-wait
    kind: queue_wait
    match: {queue: "train-*"}
    within: 30m
    target: "0.95"
    window: 28d
    credit: {steps: [{below: "0.95", percent: "5"}]}
  - {name: books, kind: metering_coverage, target: "0.99"}
"""


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "slo.yaml"
    path.write_text(FILE)
    wait, books = load_objectives(path).objectives
    assert (wait.kind, wait.window, wait.row()["bound"]) == ("queue_wait", 28 * 86_400, 1800.0)
    assert (books.row()["books"], books.row()["unit"]) == (True, "GPU-seconds")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"within": "half an hour"}, r"objectives\[0\].queue_wait.within: .*a duration like"),
        ({"target": "1"}, r"objectives\[0\].queue_wait.target: .*less than 1"),
        ({"target": 0.9}, r"target: .*write it in quotes"),
        ({"quantile": "0.9"}, r"quantile: unknown key.*known here: .*within"),
        ({"kind": "uptime"}, r"queue_wait"),
        ({"match": {"quue": "a"}}, r"match.quue: unknown key.*known here: cluster, tenant, queue, service"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], said: str) -> None:
    with pytest.raises(SloError, match=said):
        parse_objectives({"objectives": [{**WAIT, **change}]})


def test_two_objectives_of_one_name_are_refused() -> None:
    with pytest.raises(SloError, match="two objectives are called 'wait'"):
        parse_objectives({"objectives": [WAIT, WAIT]})


def test_a_new_target_keeps_the_series_and_a_new_bound_begins_another() -> None:
    def definition(**change: Any) -> str:
        return parse_objectives({"objectives": [{**WAIT, **change}]}).objectives[0].definition

    assert definition() == definition(target="0.99", window="7d", owner="me", at_least=9)
    assert definition() != definition(within="31m")
    assert definition() != definition(match={"tenant": "physics"})


def test_the_file_in_force_comes_back_and_the_same_again_changes_nothing(facts: Store) -> None:
    file = parse_objectives({"objectives": [WAIT, LATENCY]})
    version = apply_objectives(facts, file, "me", "first", NOON)
    assert apply_objectives(facts, file, "you", "again", NOON) == version
    applied = current_objectives(facts)
    assert applied is not None
    assert (applied.author, applied.sequence, applied.file) == ("me", 1, file)
    apply_objectives(facts, parse_objectives({"objectives": []}), "me", "none", NOON)
    assert facts.rows("SELECT name FROM slo_objectives") == []
    apply_objectives(facts, file, "me", "as before", NOON)
    assert [row["name"] for row in facts.rows("SELECT name FROM slo_objectives ORDER BY name")] == ["fast", "wait"]
