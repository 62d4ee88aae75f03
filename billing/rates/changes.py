"""What another card would change: its rules as text, and the price of what the ledger holds."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from billing.exact import Scale, price_nano, rounded
from billing.params import period_params
from billing.periods import Period
from billing.rates.frozen import policy_words
from billing.rates.rate_card import MATCH_KEYS, POLICIES, RateCard, RateRule
from billing.rates.staging import DEPENDENT_TABLES, stage_prices, subject_keys, subject_of, subject_params
from warehouse.store import Store, read_sql

ALWAYS = Period(datetime(1971, 1, 1, tzinfo=UTC), datetime(2299, 1, 1, tzinfo=UTC))
SETTINGS = ("currency", "timezone", "minimum_seconds", "grace_days")


@dataclass(frozen=True)
class Change:
    """One difference: `what` is added, removed, ended, moved (its time) or changed; `of` names it; `words` say how."""

    what: str
    of: str
    words: str


def card_changes(old: RateCard, new: RateCard) -> list[Change]:
    """What differs between two cards: settings, rules, policies; in the order of the cards."""
    changes = [
        Change("changed", key, f"from {_setting(old, key)} to {_setting(new, key)}")
        for key in SETTINGS
        if getattr(old, key) != getattr(new, key)
    ]
    changes += _priority_changes(old, new)
    changes += _rule_changes(old, new)
    for kind in POLICIES:
        changes += _policy_changes(kind, *(getattr(card, kind) for card in (old, new)))
    if old.issuer != new.issuer:
        changes.append(Change("changed", "issuer", "what invoices say of who sends them"))
    return changes


def _setting(card: RateCard, key: str) -> str:
    value = getattr(card, key)
    return "; ".join(map(policy_words, value)) if isinstance(value, tuple) else str(value)


def _priority_changes(old: RateCard, new: RateCard) -> list[Change]:
    changes = []
    for name in dict.fromkeys((*old.priority_classes, *new.priority_classes)):
        one, other = old.priority_classes.get(name), new.priority_classes.get(name)
        if one != other:
            what = "added" if one is None else "removed" if other is None else "changed"
            changes.append(
                Change(what, f"priority class {name}", " to ".join(map(policy_words, filter(None, (one, other)))))
            )
    return changes


def _rule_changes(old: RateCard, new: RateCard) -> list[Change]:
    """A rule is the same one if its sku, match, windows, zone and currency are; several of these follow each other in
    time."""
    before, after = (_by_identity(card.rates) for card in (old, new))
    zones = old.zone, new.zone
    changes: list[Change] = []
    for key in dict.fromkeys((*before, *after)):
        gone, come = list(before.get(key, ())), list(after.get(key, ()))
        for rule in [rule for rule in gone if rule in come]:
            gone.remove(rule)
            come.remove(rule)
        changes += _pair_off(gone, come, zones)
    return changes


def _pair_off(gone: list[RateRule], come: list[RateRule], zones: tuple[ZoneInfo, ZoneInfo]) -> list[Change]:
    changes = []
    for rule in gone:
        name = rule_name(rule)
        ended = next((c for c in come if _alike_but_time(c, rule) and c.effective_from == rule.effective_from), None)
        moved = ended or next((c for c in come if _alike_but_time(c, rule)), None)
        priced = moved or next((c for c in come if _span(c) == _span(rule)), None)
        if priced is None:
            changes.append(Change("removed", name, rule_words(rule, zones[0])))
            continue
        come.remove(priced)
        if priced is ended and rule.effective_to is None:
            changes.append(
                Change("ended", name, f"{_price_words(priced)} until {_local(priced.effective_to, zones[1])}")
            )
        elif priced is moved:
            changes.append(
                Change("moved", name, f"{rule_words(rule, zones[0])} becomes {rule_words(priced, zones[1])}")
            )
        else:
            changes.append(Change("changed", name, f"from {_price_words(rule)} to {rule_words(priced, zones[1])}"))
    return [*changes, *(Change("added", rule_name(rule), rule_words(rule, zones[1])) for rule in come)]


def _by_identity(rules: Sequence[RateRule]) -> dict[tuple[Any, ...], list[RateRule]]:
    groups: dict[tuple[Any, ...], list[RateRule]] = defaultdict(list)
    for rule in rules:
        groups[rule.sku, rule.patterns, rule.windows, rule.timezone, rule.currency].append(rule)
    return groups


def _alike_but_time(one: RateRule, other: RateRule) -> bool:
    return one.price_per_gpu_hour == other.price_per_gpu_hour


def _span(rule: RateRule) -> tuple[datetime | None, datetime | None]:
    return rule.effective_from, rule.effective_to


def _policy_changes(kind: str, old: Any, new: Any) -> list[Change]:
    if isinstance(old, str) or isinstance(new, str):
        both = [value if isinstance(value, str) else "; ".join(map(policy_words, value)) for value in (old, new)]
        return [Change("changed", kind, f"from {both[0]} to {both[1]}")] if old != new else []
    gone, come = ([p for p in one if p not in other] for one, other in ((old, new), (new, old)))
    changes = [Change("removed", kind, policy_words(policy)) for policy in gone]
    changes += [Change("added", kind, policy_words(policy)) for policy in come]
    if not changes and old != new:
        changes.append(Change("changed", kind, "their order"))
    return changes


def rule_name(rule: RateRule) -> str:
    """Like `h100-chem (tenant chem, model NVIDIA H100*)`."""
    given = [f"{key} {value!r}" if value == "" else f"{key} {value}" for key, value in _given(rule)]
    given += filter(None, [rule.windows_in_words])
    return f"{rule.sku} ({', '.join(given) or 'anything'})"


def _given(rule: RateRule) -> list[tuple[str, Any]]:
    pairs = zip(MATCH_KEYS, rule.patterns, strict=True)
    return [
        (key, str(value).lower() if isinstance(value, bool) else value) for key, value in pairs if value is not None
    ]


def rule_words(rule: RateRule, zone: ZoneInfo) -> str:
    """Like `4.20 from 2026-10-01 until 2026-11-01`."""
    since = f" from {_local(rule.effective_from, zone)}" if rule.effective_from else ""
    until = f" until {_local(rule.effective_to, zone)}" if rule.effective_to else ""
    return f"{_price_words(rule)}{since}{until}"


def _price_words(rule: RateRule) -> str:
    """With its currency where it has its own; the other rules have the card's."""
    return f"{rule.price_per_gpu_hour}{f' {rule.currency}' if rule.currency else ''}"


def _local(at: datetime | None, zone: ZoneInfo) -> str:
    if at is None:
        return "further notice"
    local = at.astimezone(zone)
    return local.date().isoformat() if local.time() == datetime.min.time() else local.isoformat()


# --- what it costs ---------------------------------------------------------------------------------------------------


def price_effect(store: Store, old: RateCard, new: RateCard, period: Period = ALWAYS) -> list[dict[str, Any]]:
    """What the cards make of what was held in the closed hours of a period, for each subject whose price differs.

    A row: model, pool, partition_profile, tenant, queue, priority (class by the new card), preemptible, cluster (the
    last four as far as a card asks for them), gpu_hours, old_cost, new_cost (of the hours that have a price),
    difference (None where hours lose or get a price), unpriced_before, unpriced_after (GPU-hours without one).
    An entry is priced as of its start: exact for the card in force, near for one that changes prices within an hour.
    """
    span = period_params(period)
    kept = subject_params(old, new)
    subjects = store.rows(read_sql(__file__, "held_subjects", keys=subject_keys("ledger")), {**span, **kept})
    if not subjects:
        return []
    start, end = min(row["first"] for row in subjects), min(period.end, _closed_until(store))
    prefix = f"rates_{secrets.token_hex(8)}"
    tables = {
        which: {name: f"{prefix}_{which}_{name}" for name in ("prices", *DEPENDENT_TABLES)} for which in ("old", "new")
    }
    try:
        for which, card in (("old", old), ("new", new)):
            stage_prices(store, tables[which], card, subjects, start, end)
        names = {which: tables[which]["prices"] for which in tables}
        rows = store.rows(read_sql(__file__, "price_effect", keys=subject_keys("ledger")), {**span, **kept, **names})
    finally:
        for names in tables.values():
            for table in names.values():
                store.command("DROP TABLE IF EXISTS {table:Identifier}", {"table": table})
    return _effects(rows, old, new)


def without_rates(card: RateCard) -> RateCard:
    """What a first card is compared with: it prices nothing."""
    return card.model_copy(update={"rates": ()})


def _closed_until(store: Store) -> datetime:
    closed: datetime = store.value(
        "SELECT toDateTime64(max(hour) + INTERVAL 1 HOUR, 3, 'UTC') AS until FROM closed_hours"
    )
    return closed


def _effects(rows: Sequence[dict[str, Any]], old: RateCard, new: RateCard) -> list[dict[str, Any]]:
    scale = Scale.of(row["device_units"] for row in rows)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        subject = subject_of(row)
        groups[
            subject.model, subject.pool, subject.partition_profile, subject.tenant, subject.queue,
            new.priority_class(subject.priority), subject.preemptible, subject.cluster,
        ].append(row)  # fmt: skip
    effects = []
    for key, parts in groups.items():
        if all(part["old_unit_price"] == part["new_unit_price"] for part in parts):
            continue
        hours = [scale.quantity(part["micro_ms"], part["device_units"]) for part in parts]
        before, after = (_cost(scale, parts, hours, f"{which}_unit_price") for which in ("old", "new"))
        lost, got = (_unpriced(scale, parts, hours, f"{which}_unit_price") for which in ("old", "new"))
        keys = ("model", "pool", "partition_profile", "tenant", "queue", "priority", "preemptible", "cluster")
        effects.append(
            {
                **dict(zip(keys, key, strict=True)),
                "gpu_hours": scale.hours(sum(hours)),
                "old_cost": before,
                "new_cost": after,
                "difference": None if lost != got else after - before,
                "unpriced_before": lost,
                "unpriced_after": got,
                "currency": new.currency,
            }
        )
    return sorted(effects, key=lambda row: (row["tenant"], row["model"], row["pool"], row["partition_profile"]))


def _cost(scale: Scale, parts: Sequence[dict[str, Any]], hours: Sequence[int], price: str) -> Decimal:
    exact = sum(
        (
            scale.money(quantity * price_nano(part[price]))
            for part, quantity in zip(parts, hours, strict=True)
            if part[price] is not None
        ),
        Fraction(),
    )
    return rounded(exact)


def _unpriced(scale: Scale, parts: Sequence[dict[str, Any]], hours: Sequence[int], price: str) -> Decimal:
    return scale.hours(sum(quantity for part, quantity in zip(parts, hours, strict=True) if part[price] is None))
