"""Proposals for using less: pure functions from holders to proposals, each with what it would have saved in the period
and in its last days.

billing/insights/outlook.py decides which of them can still be saved.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from math import ceil

from billing.insights.holders import Holder, Rules, Span, Use
from billing.insights.mig_profiles import MigProfile, mig_profiles, profile_named
from billing.insights.sentences import Sentence

KINDS = ("reclaim", "smaller_profile", "fewer_gpus", "time_slicing")
UUID = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.I)
_REPLICA = re.compile(r"(?:(?:-[a-z0-9]{8,10})?-[a-z0-9]{5}|[-_.]?\d+)$")

ProfilePrice = Callable[[Holder, str], tuple[Decimal, str] | None]
"""The rate card's own price per GPU-hour of a MIG profile for a holder, with its sku; None: it has none."""


@dataclass(frozen=True)
class Proposal:
    """Something that `holders` could have done, and what each of their spans would have cost less.

    period, week, four_weeks: unrounded; None: a price is missing.
    priced_by: what the saving is computed with.   confidence: high, medium or low (see docs/insights.md).
    """

    kind: str
    holders: tuple[Holder, ...]
    sentence: Sentence
    period: Fraction | None
    week: Fraction | None
    four_weeks: Fraction | None
    priced_by: str
    confidence: str

    @property
    def still_held(self) -> bool:
        return all(holder.still_held for holder in self.holders)


SpanOf = Callable[[Holder], Span]
"""Which of a holder's spans."""


def _saved(saving: Callable[[SpanOf], Fraction | None]) -> dict[str, Fraction | None]:
    """The saving of each span, by its name."""
    spans: dict[str, SpanOf] = {
        "period": lambda holder: holder.period,
        "week": lambda holder: holder.week,
        "four_weeks": lambda holder: holder.four_weeks,
    }
    return {name: saving(span_of) for name, span_of in spans.items()}


def known_sum(amounts: Iterable[Fraction | None]) -> Fraction | None:
    """None: one of them is not known."""
    total = Fraction(0)
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _part_of_cost(holders: Sequence[Holder], part: Fraction) -> dict[str, Fraction | None]:
    """A part of what each span cost."""

    def saving(span_of: SpanOf) -> Fraction | None:
        cost = known_sum(span_of(holder).cost for holder in holders)
        return None if cost is None else cost * part

    return _saved(saving)


def reclaim(allocation: Sequence[Holder], rules: Rules) -> Iterator[Proposal]:
    """Take back what did nothing for a long stretch: of what is still held, and of what was."""
    for still_held in (True, False):
        idle = tuple(holder for holder in allocation if holder.stretches and holder.still_held == still_held)
        if idle:
            yield _reclaim(idle, len(allocation), rules)


def _reclaim(idle: Sequence[Holder], allocated: int, rules: Rules) -> Proposal:
    longest = max(holder.stretches.longest_hours for holder in idle if holder.stretches)
    memory = [holder.use.idle_memory_bytes if holder.use else None for holder in idle]
    return Proposal(
        "reclaim",
        tuple(idle),
        _idle_sentence(idle, allocated, longest, memory),
        **_saved(lambda span_of: known_sum(span_of(holder).waste for holder in idle)),
        priced_by="the price of the idle hours",
        confidence="high" if longest >= rules.least_hours and None not in memory else "medium",
    )


def smaller_profile(allocation: Sequence[Holder], rules: Rules, price_of: ProfilePrice) -> Proposal | None:
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
    return Proposal(
        "smaller_profile",
        (holder,),
        Sentence(
            "smaller_profile" if holder.partition_profile else "smaller_than_device",
            {
                "profile": fit.name,
                "model": holder.model,
                "held": holder.partition_profile,
                "p99": _percent(holder.use.p99),
                "memory": _gib(holder.use.max_memory_bytes),
            },
        ),
        **_part_of_cost([holder], 1 - ratio),
        priced_by=priced_by,
        confidence="high" if holder.sampled() >= Fraction(99, 100) and holder.clock_hours >= 168 else "medium",
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


def fewer_gpus(allocation: Sequence[Holder], rules: Rules) -> Proposal | None:
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
    return Proposal(
        "fewer_gpus",
        tuple(allocation),
        _sentence_of_several("fewer_gpus", allocation, needed),
        **_part_of_cost(allocation, Fraction(len(allocation) - needed, len(allocation))),
        priced_by=f"the price held, {len(allocation) - needed} of {len(allocation)} GPUs",
        confidence="medium",
    )


def fewer_replicas(singles: Sequence[Holder], rules: Rules) -> Iterator[Proposal]:
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
            sentence = _sentence_of_several("fewer_replicas", bin_, needed, name=key[-1])
            yield _moved_together("fewer_gpus", bin_, needed, sentence, "medium")


def time_slicing(singles: Sequence[Holder], rules: Rules) -> Iterator[Proposal]:
    """One device for several workloads of a tenant that use little of theirs at the same time."""
    groups: dict[tuple[str, ...], list[Holder]] = defaultdict(list)
    for holder in singles:
        if holder.whole and holder.use and holder.use.p95 < rules.low_use:
            groups[holder.cluster, holder.tenant, holder.model, holder.pool].append(holder)

    def fits(bin_: Sequence[Holder]) -> bool:
        return _overlap(bin_) >= rules.least_hours and _gpus_needed(bin_, rules) == 1

    for members in groups.values():
        for bin_ in _bins(members, fits):
            sentence = _sentence_of_several("time_slicing", bin_, 1)
            yield _moved_together("time_slicing", bin_, 1, sentence, "low")


def replica_name(workload_id: str) -> str:
    """The common part of the replicas' names; empty if the name is not meaningful (a UUID, a bare number)."""
    if UUID.search(workload_id):
        return ""
    name = _REPLICA.sub("", workload_id)
    return name if name != workload_id else ""


def _moved_together(kind: str, bin_: Sequence[Holder], needed: int, sentence: Sentence, confidence: str) -> Proposal:
    part = Fraction(len(bin_) - needed, len(bin_))

    def saving(span_of: SpanOf) -> Fraction | None:
        hours_together = _overlap(bin_, span_of)
        costs = []
        for holder in bin_:
            span = span_of(holder)
            hours = span.held / holder.share
            costs.append(None if span.cost is None else span.cost * hours_together / hours if hours else Fraction(0))
        cost = known_sum(costs)
        return None if cost is None else cost * part

    hours = f"the {float(_overlap(bin_)):.0f} hours in common"
    return Proposal(
        kind,
        tuple(bin_),
        sentence,
        **_saved(saving),
        priced_by=f"the price held, {len(bin_) - needed} of {len(bin_)} GPUs for {hours}",
        confidence=confidence,
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


def _overlap(holders: Sequence[Holder], span_of: SpanOf = lambda holder: holder.period) -> Fraction:
    """Hours of a span in which all of them were held, without pauses."""
    spans = [span_of(holder) for holder in holders]
    since = max(max(h.start_at for h in holders), spans[0].since)
    seconds = (min(h.end_at for h in holders) - since).total_seconds()
    hours = (span.held / holder.share for span, holder in zip(spans, holders, strict=True))
    return max(Fraction(0), min(Fraction(seconds) / 3600, *hours))


def _held_together(holders: Sequence[Holder], rules: Rules) -> bool:
    return _overlap(holders) >= Fraction(rules.together) * max(h.clock_hours for h in holders)


def _idle_sentence(idle: Sequence[Holder], allocated: int, hours: int, memory: Sequence[int | None]) -> Sentence:
    profiles = sorted({holder.partition_profile for holder in idle if holder.partition_profile})
    devices = f"{_models(idle)} {' '.join(profiles)}".strip()
    values = {"devices": f"{len(idle)} of {allocated} {devices}" if allocated > 1 else devices, "hours": str(hours)}
    known = [one for one in memory if one is not None]
    if len(known) < len(memory):
        return Sentence("idle_unknown", values)
    most = max(known)
    return Sentence("idle", {**values, "memory": _gib(most)}) if most >= 1 << 30 else Sentence("idle_empty", values)


def _sentence_of_several(key: str, holders: Sequence[Holder], needed: int, **values: str) -> Sentence:
    p95 = sum((holder.use.p95 for holder in holders if holder.use), Decimal(0))
    reported = {"needed": str(needed), "held": str(len(holders)), "models": _models(holders), "p95": f"{p95:.2f}"}
    return Sentence(key, {**reported, **values})


def _models(holders: Sequence[Holder]) -> str:
    return ", ".join(sorted({holder.model for holder in holders}))


def _percent(part: Decimal) -> str:
    return f"{part * 100:.0f}%"


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
