"""The texts of a stored alert in another language, from its labels, value and evidence; nothing is stored for it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from alerts.errors import AlertError
from alerts.rule import Rule
from alerts.rule_files import load_rules
from alerts.templates import translated, with_instants

Rules = Mapping[str, Rule]


def rules_by_name(folder: Path | None) -> Rules:
    """The rules in force, read anew when a file of the site's own has changed. folder: its own; None: the shipped ones.

    A folder that cannot be read has none: texts are then shown as they are stored.
    """
    try:
        files = tuple(sorted((path.name, path.stat().st_mtime_ns) for path in folder.glob("*"))) if folder else ()
        return _loaded(folder, files)
    except (AlertError, OSError):
        return {}


@functools.lru_cache(maxsize=4)
def _loaded(folder: Path | None, files: tuple[tuple[str, int], ...]) -> Rules:
    return {rule.name: rule for rule in load_rules(folder)}


def facts_of(
    rule: Rule,
    labels: Mapping[str, str],
    value: float | None,
    evidence: Mapping[str, Any],
    at: datetime,
    active_at: datetime,
    zone: str,
) -> dict[str, Any]:
    """What a rule's templates are filled in with."""
    return {
        "labels": {**dict.fromkeys((*rule.identity, *rule.labels), ""), **labels},
        "value": value,
        "evidence": with_instants(evidence),
        "parameters": rule.parameters,
        "rule": rule.name,
        "threshold": rule.threshold(labels),
        "at": at,
        "active_at": active_at,
        "zone": zone,
    }


def spoken(alert: Mapping[str, Any], rules: Rules, language: str, zone: str) -> Mapping[str, str]:
    """The annotations of an alert in a language; what cannot be said in it stays as it was stored.

    alert: rule, labels, value, evidence, at, active_at and annotations, as `alerts.reading` answers them.
    """
    stored: Mapping[str, str] = alert["annotations"]
    rule = rules.get(alert["rule"])
    texts = [] if rule is None else [one for code, one in rule.languages.items() if code == language]
    if rule is None or not texts:
        return stored
    facts = facts_of(rule, alert["labels"], alert["value"], alert["evidence"], alert["at"], alert["active_at"], zone)
    found = {}
    for name, text in stored.items():
        template = getattr(texts[0], name, "")
        found[name] = (template and translated(template, facts, language)) or text
    return found
