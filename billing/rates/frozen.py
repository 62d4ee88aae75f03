"""The policies of a card that an issued invoice freezes: those in force in its month that concern its tenant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any

from pydantic import BaseModel

from billing.rates.policies import ExchangeRate, Minimum, Policy
from billing.rates.rate_card import POLICIES, RateCard

DATES = {"effective_from", "effective_to"}


def changed_policy(old: RateCard, new: RateCard, month: str, tenant: str) -> tuple[str, str, str] | None:
    """The first policy that two cards have differently for a tenant's month (like 2026-10): its name, and both in
    words. Only what is in force counts, so to end one later and follow it with another is no change."""
    minimum, other_minimum = (card.minimum_in(month) for card in (old, new))
    if minimum != other_minimum:
        return "minimum_seconds", str(minimum), str(other_minimum)
    for kind in POLICIES:
        before, after = (_in_force(card, kind, month, tenant) for card in (old, new))
        for number in range(max(len(before), len(after))):
            one = before[number] if number < len(before) else None
            other = after[number] if number < len(after) else None
            if _terms(one) != _terms(other):
                return _name(kind, one or other), policy_words(one), policy_words(other)
    return None


def advice(old: RateCard, policy: str, before: str) -> str:
    """What to do in place of a change of a policy of an issued month (`before`: in words)."""
    if policy == "minimum_seconds":
        return f"Keep it there, and date the new one: minimum_seconds: {_followed(old)}"
    if policy.startswith("exchange_rates"):
        return "Leave it as it was: an issued month keeps its rate"
    if before == policy_words(None):
        return "Start it later, with effective_from a month that is not issued"
    return "Leave it as it was, end it with effective_to a later month, and follow it with a new one"


def _followed(card: RateCard) -> str:
    """The card's minimums, as they are written, with another after them."""
    minimums = card.minimum_seconds
    kept = (Minimum(seconds=minimums),) if isinstance(minimums, int) else minimums
    entries = [
        ", ".join(
            f"{key}: {value}"
            for key, value in (
                ("seconds", one.seconds),
                ("effective_from", one.effective_from),
                ("effective_to", one.effective_to or "MONTH"),
            )
            if value is not None
        )
        for one in kept
    ]
    return "[" + ", ".join(f"{{{entry}}}" for entry in (*entries, "seconds: NEW, effective_from: MONTH")) + "]"


def _in_force(card: RateCard, kind: str, month: str, tenant: str) -> Sequence[BaseModel]:
    policies = getattr(card, kind)
    if policies == "platform":  # the word for no rule at all
        return ()
    return [policy for policy in policies if _holds(policy, month) and concerns(policy, (tenant,))]


def _holds(policy: Policy | ExchangeRate, month: str) -> bool:
    return policy.month == month if isinstance(policy, ExchangeRate) else policy.in_force(month)


def concerns(rule: Any, tenants: Collection[str]) -> bool:
    """Whether it could touch an invoice of one of these: by its own glob, or that of its match; what names no tenant
    could."""
    patterns = (getattr(rule, "tenant", None), getattr(getattr(rule, "match", None), "tenant", None))
    return all(pattern is None or any(fnmatchcase(one, pattern) for one in tenants) for pattern in patterns)


def _terms(policy: BaseModel | None) -> object:
    return None if policy is None else policy.model_dump(exclude=DATES)


def _name(kind: str, policy: BaseModel | None) -> str:
    name = next((getattr(policy, key) for key in ("name", "sku", "pool", "currency") if hasattr(policy, key)), "")
    return f"{kind} {name!r}" if name else kind


def policy_words(policy: BaseModel | None) -> str:
    """Like `percent 10, match tenant chem`; `none` for none."""
    return "none" if policy is None else _words(policy.model_dump(mode="json", exclude_defaults=True, by_alias=True))


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_words(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "[" + "; ".join(_words(item) for item in value) + "]"
    return str(value)
