"""What could be held cheaper: pure functions from holders to proposals, each with its saving and how it was found.

An amount is what a month would cost less. Who still holds at the period's end is taken to go on, at the latest price;
of who has ended, the past saving is taken to come again at the period's pace, and a short period is never scaled up.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from math import ceil

from billing.insights.holders import Holder, Rules, Use
from billing.insights.mig_profiles import MigProfile, mig_profiles, profile_named
from billing.insights.said import Said

MONTH_HOURS = Fraction(365 * 24 + 6, 12)
"""An average month: 730.5 hours."""
KINDS = ("reclaim", "smaller_profile", "fewer_gpus", "time_slicing")
_UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.I)
_REPLICA = re.compile(r"(?:(?:-[a-z0-9]{8,10})?-[a-z0-9]{5}|[-_.]?\d+)$")

ProfilePrice = Callable[[Holder, str], tuple[Decimal, str] | None]
"""The rate card's own price per GPU-hour of a MIG profile for a holder, with its sku; None: it has none."""


@dataclass(frozen=True)
class Proposal:
    """Something that `holders` could do. Money is unrounded; None: a price is missing.

    priced_by: what the saving is computed with.   confidence: high, medium or low (see docs/insights.md).
    """

    kind: str
    holders: tuple[Holder, ...]
    said: Said
    monthly: Fraction | None
    past: Fraction | None
    priced_by: str
    confidence: str


def reclaim(allocation: Sequence[Holder], rules: Rules, period_hours: Fraction, now: datetime) -> Proposal | None:
    """Take back what was held and did nothing for a long stretch. Idle until now: all of it, else the idle part."""
    idle = tuple(holder for holder in allocation if holder.stretches)
    if not idle:
        return None
    past, monthly = Fraction(0), Fraction(0)
    known = True
    for holder in idle:
        stretches = holder.stretches
        assert stretches is not None
        idle_now = holder.still_held and stretches.until >= now
        part = Fraction(1) if idle_now else min(Fraction(1), stretches.clock_hours / holder.clock_hours)
        amount = _monthly(holder, part, stretches.waste, period_hours)
        if amount is None or stretches.waste is None:
            known = False
            continue
        past, monthly = past + stretches.waste, monthly + amount
    longest = max(holder.stretches.longest_hours for holder in idle if holder.stretches)
    memory = [holder.use.idle_memory_bytes if holder.use else None for holder in idle]
    return Proposal(
        "reclaim",
        idle,
        _said_idle(idle, len(allocation), longest, memory),
        monthly if known else None,
        past if known else None,
        "the price of the idle hours",
        "high" if longest >= rules.least_hours and None not in memory else "medium",
    )


def smaller_profile(
    allocation: Sequence[Holder], rules: Rules, period_hours: Fraction, price_of: ProfilePrice
) -> Proposal | None:
    """Move to the smallest MIG instance that has the compute of the p99 and the memory of the maximum."""
    if len(allocation) != 1 or not allocation[0].use:
        return None
    (holder,) = allocation
    fit = smallest_fit(holder, holder.use, rules) if holder.use else None
    if fit is None or holder.use is None or holder.use.max_memory_bytes is None:
        return None
    share = Fraction(fit.slices, fit.of)
    own = price_of(holder, fit.name)
    ratio = share / holder.share
    priced_by = f"in proportion: {fit.slices}/{fit.of} of the device"
    if own is not None and holder.price:
        ratio *= Fraction(own[0]) / Fraction(holder.price)
        priced_by = f"the rate card's {own[1]} at {own[0].normalize():f} per GPU-hour, {fit.slices}/{fit.of} of it"
    if ratio >= 1:
        return None
    past = None if holder.cost is None else holder.cost * (1 - ratio)
    return Proposal(
        "smaller_profile",
        (holder,),
        Said(
            "smaller_profile" if holder.partition_profile else "smaller_than_device",
            {
                "profile": fit.name,
                "model": holder.model,
                "held": holder.partition_profile,
                "p99": _percent(holder.use.p99),
                "memory": _gib(holder.use.max_memory_bytes),
            },
        ),
        _monthly(holder, 1 - ratio, past, period_hours),
        past,
        priced_by,
        "high" if holder.sampled() >= Fraction(99, 100) and holder.clock_hours >= 168 else "medium",
    )


def smallest_fit(holder: Holder, use: Use, rules: Rules) -> MigProfile | None:
    """The smallest profile of the holder's model that its p99 and its memory (if known) fit, smaller than what it has.

    None if there is none, if the device's memory is not known, or its model has no MIG.
    """
    whole = holder.device_memory_bytes or (use.memory_total_bytes if holder.whole else None)
    if whole is None:
        return None
    held = holder.share
    if holder.partition_profile:
        profile = profile_named(holder.model, whole, holder.partition_profile)
        if profile is None:
            return None
        held = Fraction(profile.slices, profile.of)
    needed = Fraction(use.p99) * held
    memory = (use.max_memory_bytes or 0) * (1 + Fraction(rules.memory_headroom))
    for profile in mig_profiles(holder.model, whole):
        share = Fraction(profile.slices, profile.of)
        if needed <= share < held and memory <= profile.memory_bytes:
            return profile
    return None


def fewer_gpus(allocation: Sequence[Holder], rules: Rules, period_hours: Fraction) -> Proposal | None:
    """Hold fewer GPUs in one allocation, where the p95 of all together, and all their memory, fit on fewer."""
    together = len(allocation) > 1 and len({holder.model for holder in allocation}) == 1
    if not together or not all(holder.whole for holder in allocation):
        return None
    longest = max(holder.clock_hours for holder in allocation)
    if min(holder.clock_hours for holder in allocation) < Fraction(rules.together) * longest:
        return None
    needed = _gpus_needed(allocation, rules)
    if needed is None or needed >= len(allocation):
        return None
    part = Fraction(len(allocation) - needed, len(allocation))
    costs = [holder.cost for holder in allocation]
    past = None if None in costs else sum((cost for cost in costs if cost is not None), Fraction(0)) * part
    return Proposal(
        "fewer_gpus",
        tuple(allocation),
        _said_of_several("fewer_gpus", allocation, needed),
        _monthly_together(allocation, part, past, period_hours),
        past,
        f"the price held, {len(allocation) - needed} of {len(allocation)} GPUs",
        "medium",
    )


def fewer_replicas(singles: Sequence[Holder], rules: Rules, period_hours: Fraction) -> Iterator[Proposal]:
    """Fewer workloads of one project, queue and name (`vllm-0`, `vllm-1`) that are held at the same time."""
    groups: dict[tuple[str, ...], list[Holder]] = defaultdict(list)
    for holder in singles:
        name = replica_name(holder.workload_id)
        if name and holder.whole:
            groups[holder.cluster, holder.tenant, holder.project, holder.queue, holder.model, name].append(holder)
    for key, members in groups.items():
        for bin_ in _bins(members, lambda bin_: _held_together(bin_, rules)):
            needed = _gpus_needed(bin_, rules)
            if needed is None or needed >= len(bin_):
                continue
            said = _said_of_several("fewer_replicas", bin_, needed, name=key[-1])
            yield _moved_together("fewer_gpus", bin_, needed, said, "medium", period_hours)


def time_slicing(singles: Sequence[Holder], rules: Rules, period_hours: Fraction) -> Iterator[Proposal]:
    """One device for several workloads of a tenant that use little of theirs at the same time."""
    groups: dict[tuple[str, ...], list[Holder]] = defaultdict(list)
    for holder in singles:
        if holder.whole and holder.use and holder.use.p95 < rules.low_use:
            groups[holder.cluster, holder.tenant, holder.model, holder.pool].append(holder)

    def fits(bin_: Sequence[Holder]) -> bool:
        return _overlap(bin_) >= rules.least_hours and _gpus_needed(bin_, rules) == 1

    for members in groups.values():
        for bin_ in _bins(members, fits):
            said = _said_of_several("time_slicing", bin_, 1)
            yield _moved_together("time_slicing", bin_, 1, said, "low", period_hours)


def replica_name(workload_id: str) -> str:
    """What the names of replicas have in common; empty where the name tells nothing (a UUID, a bare number)."""
    if _UUID.search(workload_id):
        return ""
    name = _REPLICA.sub("", workload_id)
    return name if name != workload_id else ""


def _moved_together(
    kind: str, bin_: Sequence[Holder], needed: int, said: Said, confidence: str, period_hours: Fraction
) -> Proposal:
    part = Fraction(len(bin_) - needed, len(bin_))
    overlap = _overlap(bin_)
    past: Fraction | None = Fraction(0)
    for holder in bin_:
        past = None if past is None or holder.cost is None else past + holder.cost * overlap / holder.clock_hours
    past = None if past is None else past * part
    return Proposal(
        kind,
        tuple(bin_),
        said,
        _monthly_together(bin_, part, past, period_hours),
        past,
        f"the price held, {len(bin_) - needed} of {len(bin_)} GPUs for the {float(overlap):.0f} hours in common",
        confidence,
    )


def _bins(members: Iterable[Holder], fits: Callable[[Sequence[Holder]], bool]) -> list[list[Holder]]:
    """First fit, the longest held first; bins of one are left out."""
    bins: list[list[Holder]] = []
    for holder in sorted(members, key=lambda h: (-h.held, h.start_at, h.allocation_id, h.device_id)):
        home = next((bin_ for bin_ in bins if fits([*bin_, holder])), None)
        if home is None:
            bins.append([holder])
        else:
            home.append(holder)
    return [bin_ for bin_ in bins if len(bin_) > 1]


def _gpus_needed(holders: Sequence[Holder], rules: Rules) -> int | None:
    """GPUs that have the compute of all p95 and the memory of all maxima; None: something is not known."""
    compute, memory, capacity = Fraction(0), 0, None
    for holder in holders:
        total = holder.device_memory_bytes or (holder.use.memory_total_bytes if holder.use else None)
        if holder.use is None or holder.use.max_memory_bytes is None or total is None:
            return None
        compute += Fraction(holder.use.p95)
        memory += holder.use.max_memory_bytes
        capacity = total if capacity is None else min(capacity, total)
    if not capacity:
        return None
    by_memory = memory * (1 + Fraction(rules.memory_headroom)) / capacity
    return max(1, ceil(compute / Fraction(rules.busy)), ceil(by_memory))


def _overlap(holders: Sequence[Holder]) -> Fraction:
    """Hours in which all of them were held, if nobody paused."""
    seconds = min(h.end_at for h in holders) - max(h.start_at for h in holders)
    return max(Fraction(0), min(Fraction(seconds.total_seconds()) / 3600, *(h.clock_hours for h in holders)))


def _held_together(holders: Sequence[Holder], rules: Rules) -> bool:
    return _overlap(holders) >= Fraction(rules.together) * max(h.clock_hours for h in holders)


def _monthly(holder: Holder, part: Fraction, past: Fraction | None, period_hours: Fraction) -> Fraction | None:
    if holder.still_held:
        return None if holder.price is None else Fraction(holder.price) * holder.share * MONTH_HOURS * part
    return None if past is None else past * min(Fraction(1), MONTH_HOURS / period_hours)


def _monthly_together(
    holders: Sequence[Holder], part: Fraction, past: Fraction | None, period_hours: Fraction
) -> Fraction | None:
    if not all(holder.still_held for holder in holders):
        return None if past is None else past * min(Fraction(1), MONTH_HOURS / period_hours)
    amounts = [_monthly(holder, part, past, period_hours) for holder in holders]
    return None if None in amounts else sum((amount for amount in amounts if amount is not None), Fraction(0))


def _said_idle(idle: Sequence[Holder], allocated: int, hours: int, memory: Sequence[int | None]) -> Said:
    profiles = sorted({holder.partition_profile for holder in idle if holder.partition_profile})
    devices = f"{_models(idle)} {' '.join(profiles)}".strip()
    values = {"devices": f"{len(idle)} of {allocated} {devices}" if allocated > 1 else devices, "hours": str(hours)}
    known = [one for one in memory if one is not None]
    if len(known) < len(memory):
        return Said("idle_unknown", values)
    most = max(known)
    return Said("idle", {**values, "memory": _gib(most)}) if most >= 1 << 30 else Said("idle_empty", values)


def _said_of_several(key: str, holders: Sequence[Holder], needed: int, **values: str) -> Said:
    p95 = sum((holder.use.p95 for holder in holders if holder.use), Decimal(0))
    told = {"needed": str(needed), "held": str(len(holders)), "models": _models(holders), "p95": f"{p95:.2f}"}
    return Said(key, {**told, **values})


def _models(holders: Sequence[Holder]) -> str:
    return ", ".join(sorted({holder.model for holder in holders}))


def _percent(part: Decimal) -> str:
    return f"{part * 100:.0f} %"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
