"""Exports the rules that Prometheus can evaluate from our exporters' metrics: for sites that alert there, and for when
the warehouse is down. `gpuledger alerts rules --format prometheus`; deploy/prometheus/ has the shipped ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import yaml

from alerts.rule import PrometheusRule, Rule
from alerts.runbooks import is_url
from warehouse.durations import write_duration

HEADER = """\
# Made by: gpuledger alerts rules --format prometheus
# Alerting and recording rules over the metrics of gpuledger agents. Changes belong into the rules' own files.
"""


def rule_file(rules: Sequence[Rule]) -> str:
    """A rule file for Prometheus: recording rules first. Check it with promtool check rules."""
    recorded = [(rule, part) for rule in rules for part in rule.prometheus if part.record]
    alerted = [(rule, part) for rule in rules for part in rule.prometheus if part.alert]
    groups = [
        {"name": name, "rules": [_document(rule, part) for rule, part in parts]}
        for name, parts in (("gpuledger-records", recorded), ("gpuledger-alerts", alerted))
        if parts
    ]
    return HEADER + yaml.safe_dump({"groups": groups}, sort_keys=False, allow_unicode=True, width=110)


def _document(rule: Rule, part: PrometheusRule) -> dict[str, Any]:
    if part.record:
        return {"record": part.record, "expr": part.expr}
    found: dict[str, Any] = {"alert": part.alert, "expr": part.expr}
    if part.for_:
        found["for"] = write_duration(part.for_)
    if part.keep_firing_for:
        found["keep_firing_for"] = write_duration(part.keep_firing_for)
    found["labels"] = {"severity": rule.severity, **rule.tags, "rule": rule.name}
    notes = {
        "summary": part.summary,
        "description": part.description,
        "runbook_url": rule.runbook if is_url(rule.runbook) else "",
    }
    found["annotations"] = {name: text for name, text in notes.items() if text}
    return found
