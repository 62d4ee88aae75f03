"""Texts that the store holds in English, as a page shows them: in its language, with the reader's clock."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from access.principal import ANYBODY
from alerts import finding_words
from alerts.speaking import rules_by_name, spoken
from dashboards.filters import Filters
from dashboards.format import unbroken
from dashboards.languages import Language
from scheduler import words as scheduler_words


def said(text: str, filters: Filters, words: Language) -> str:
    """What a scheduler says of a job: a reason's code or its text."""
    return unbroken(scheduler_words.said(text, words.code, lambda at: words.moment(filters.local(at))))


def who(name: str, words: Language) -> str:
    """A person, or whoever is at a server that asks nobody to sign in."""
    return words("frame.anybody") if name == ANYBODY.name else name


def found(text: str, filters: Filters, words: Language) -> str:
    """What a collector found: a finding's name or its message."""
    return unbroken(finding_words.found(text, words.code, lambda at: words.moment(filters.local(at))))


_ACKNOWLEDGED = r"acknowledged by (?P<who>.+?) at (?P<at>[-0-9]{10}T[:0-9]{8}Z)"
_HELD_BACK = (
    ("acknowledged_with_reason", re.compile(rf"{_ACKNOWLEDGED}: (?P<reason>.+)", re.DOTALL)),
    ("acknowledged", re.compile(_ACKNOWLEDGED, re.DOTALL)),
    ("silenced", re.compile(r"silenced by (?P<id>\S+) \((?P<who>.*)\)", re.DOTALL)),
    ("inhibited", re.compile(r"inhibited by (?P<rule>\S+)")),
)


def held_back(why: str, filters: Filters, words: Language) -> str:
    """Why an alert is not sent, as `alerts.routing.held_back` says it."""
    for name, pattern in _HELD_BACK:
        if found := pattern.fullmatch(why):
            told = {key: who(value, words) for key, value in found.groupdict().items()}
            if at := told.get("at"):
                told["at"] = words.moment(filters.local(datetime.fromisoformat(at)))
            return words(f"alerts.why_{name}", **told)
    return why


_GPUS = re.compile(r"(?<=\d) (?=GPUs?\b)")


def texts_of(alert: Mapping[str, Any], filters: Filters, words: Language) -> Mapping[str, str]:
    """An alert's summary, description and action. alert: as `alerts.speaking.spoken` takes it."""
    texts: Mapping[str, str] = alert["annotations"]
    if words.code != "en":
        texts = spoken(alert, rules_by_name(filters.rules), words.code, filters.zone)
    return {name: unbroken(_GPUS.sub("\u00a0", text)) for name, text in texts.items()}
