"""An alert's labels and evidence for people: named, with units, in the page's language and the books' clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from billing.money import minor_digits
from dashboards.filters import Filters
from dashboards.format import fixed, symbol
from dashboards.languages import Language
from dashboards.said import found, said
from warehouse.durations import spelled_duration

WORKINGS = ("pairs", "known", "worst")
"""Columns with which slo_burning.sql finds its value."""
SHARES = ("coverage", "most_utilization", "budget_left", "target", "sli", "objective")
AMOUNTS = ("amount", "actual", "forecast", "burn_per_day", "cost", "expected")
"""In the evidence's currency."""
CELSIUS = ("highest", "highest_celsius")
PERCENT = ("percent", "reached_percent")
FOUND = ("message", "finding", "signals", "reported_by", "reason")
SAID = ("cause", "example", "reason", "reasons")
CHOICES = ("of", "direction", "pace", "state", "by")
"""Values that are one of a few words; `never_closed` is a yes or no."""
_INSTANT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00:00")
_DAY = re.compile(r"\d{4}-\d\d(-\d\d)?")
"""As evidence is written down."""


def named(facts: Mapping[str, Any], filters: Filters, words: Language) -> Iterable[tuple[str, str]]:
    """Name and value of what is known."""
    for key, value in facts.items():
        if value in (None, "", [], {}) or key in WORKINGS or (key == "gpus" and facts.get("held_gpus") == value):
            continue
        if key == "currency" and any(facts.get(amount) is not None for amount in AMOUNTS):
            continue
        yield words.of(f"evidence.{key}", key.replace("_", " ")), _shown(key, value, facts, filters, words)


def _shown(key: str, value: Any, facts: Mapping[str, Any], filters: Filters, words: Language) -> str:
    if isinstance(value, str):
        if key in CHOICES or (key == "subject" and "direction" in facts):
            return words.of(f"evidence.is_{value}", value)
        if key == "kind":
            return words.of(f"objective.{value}", value)
        if key == "reason" and (refusal := words.of(f"refusal.{value}", "")):
            return refusal
        if key in SAID or key in FOUND:
            return _text(key, value, filters, words)
    if key in ("day", "month") and isinstance(value, str) and _DAY.fullmatch(value):
        is_month = value.count("-") == 1
        return words.month(date.fromisoformat(f"{value}-01")) if is_month else words.day(date.fromisoformat(value))
    if key == "never_closed" and value in (0, 1):
        return words("evidence.yes" if value else "evidence.no")
    number = _number(value) if key in AMOUNTS else value
    if number is not None and not isinstance(number, str | bool | list | dict):
        if key in AMOUNTS:
            return _money(number, str(facts.get("currency") or ""))
        if key.endswith("_seconds"):
            return spelled_duration(float(number), words.code)
        if key.endswith("_bytes"):
            return f"{fixed(number / 2**30, 1)}\u00a0GiB"
        if key in SHARES:
            return f"{100 * number:.4g}%"
        if key in CELSIUS:
            return f"{number:.4g}\u00a0°C"
    plain = _plain(value, filters, words)
    return f"{plain}%" if key in PERCENT else plain


def _text(key: str, value: str, filters: Filters, words: Language) -> str:
    text = said(value, filters, words) if key in SAID else value
    return found(text, filters, words) if key in FOUND else text


def _number(value: Any) -> Decimal | None:
    """Decimals of a stored alert are text."""
    try:
        return None if isinstance(value, bool) else Decimal(str(value))
    except InvalidOperation:
        return None


def _money(amount: Decimal, currency: str) -> str:
    digits = minor_digits(currency)
    return f"{'−' if amount < 0 else ''}{symbol(currency)}{abs(amount):,.{digits}f}"


def _plain(value: Any, filters: Filters, words: Language) -> str:
    """Lists as they are read, instants as the books' clocks show them."""
    if isinstance(value, list):
        return ", ".join(_plain(each, filters, words) for each in value)
    if isinstance(value, float | int) and not isinstance(value, bool):
        return f"{value:,.4g}" if abs(value) < 1e6 and isinstance(value, float) else fixed(value, 0)
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        return words.moment(filters.local(datetime.fromisoformat(value)))
    return str(value)
