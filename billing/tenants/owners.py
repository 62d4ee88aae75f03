"""Evaluates the tenant mapping: for each combination of reported values, which tenant pays when."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from billing.rates.matching import Matcher, numbers
from billing.tenants.mapping import MATCH_KEYS, TenantMapping
from warehouse.instants import epoch_ms

EVER_MS = 1 << 62


class Combination(NamedTuple):
    """Reported values by which a mapping can tell allocations apart. `workloads` is one digit for each of the mapping's
    `workload_patterns`: 1 = the workload's name matches it."""

    tenant: str
    project: str
    queue: str
    cluster: str
    source: str
    workloads: str = ""


@dataclass(frozen=True)
class Owner:
    """Who pays; `unmapped`: no rule fits, so this is the reported tenant or the named owner."""

    tenant: str
    project: str
    cost_center: str = ""
    unmapped: bool = False


class OwnerPeriod(NamedTuple):
    """An owner during [start_ms, end_ms), ms since the epoch."""

    start_ms: int
    end_ms: int
    owner: Owner


class OwnerBook:
    """The owners that a mapping gives to combinations; None: the reported tenant pays."""

    def __init__(self, mapping: TenantMapping | None) -> None:
        self.mapping = mapping
        rules = mapping.rules if mapping else ()
        self._rules = sorted(rules, key=lambda rule: rule.specificity, reverse=True)
        self._patterns = {pattern: n for n, pattern in enumerate(mapping.workload_patterns if mapping else ())}
        keys = [key for key in MATCH_KEYS if key != "workload"]
        self._matcher = Matcher(keys, [rule.match.model_dump() for rule in self._rules])
        self._times: dict[int, tuple[tuple[int, int, int | None], ...]] = {}

    def periods(self, reported: Combination) -> list[OwnerPeriod]:
        """The owners for these reported values through all time: in order, without gaps, neighbours differ."""
        periods: list[OwnerPeriod] = []
        for start, end, number in self._times_of(self._fitting(reported)):
            owner = self._owner(number, reported)
            if periods and periods[-1].owner == owner:
                start = periods.pop().start_ms
            periods.append(OwnerPeriod(start, end, owner))
        return periods

    def rules_of(self, reported: Combination) -> list[int]:
        """Places of the rules that fit at some time, in the order of the mapping."""
        assert self.mapping is not None
        places = {id(rule): place for place, rule in enumerate(self.mapping.rules)}
        return sorted(places[id(self._rules[number])] for number in numbers(self._fitting(reported)))

    def _fitting(self, reported: Combination) -> int:
        bits = self._matcher.fitting(lambda key: getattr(reported, key))
        for number in numbers(bits):
            pattern = self._rules[number].match.workload
            if pattern is not None and reported.workloads[self._patterns[pattern]] != "1":
                bits ^= 1 << number
        return bits

    def _times_of(self, fitting: int) -> tuple[tuple[int, int, int | None], ...]:
        """From change to change of the best rule in force: (start_ms, end_ms, its number or None)."""
        known = self._times.get(fitting)
        if known is None:
            spans = [(n, *self._span(n)) for n in numbers(fitting)]
            bounds = sorted({0, EVER_MS, *(at for _, start, end in spans for at in (start, end))})
            known = self._times[fitting] = tuple(
                (start, end, next((n for n, first, last in spans if first <= start and end <= last), None))
                for start, end in pairwise(bounds)
            )
        return known

    def _span(self, number: int) -> tuple[int, int]:
        rule = self._rules[number]
        start, end = rule.effective_from, rule.effective_to
        return max(0, epoch_ms(start)) if start else 0, max(0, epoch_ms(end)) if end else EVER_MS

    def _owner(self, number: int | None, reported: Combination) -> Owner:
        fallback = self.mapping.unmapped_owner if self.mapping else ""
        if number is None:
            return Owner(reported.tenant or fallback, reported.project, unmapped=self.mapping is not None)
        rule = self._rules[number]
        return Owner(
            (reported.tenant or fallback) if rule.tenant is None else rule.tenant,
            reported.project if rule.project is None else rule.project,
            rule.cost_center,
        )
