"""Computes what happened between two readings of a replica's series, and merges several replicas. Pure.

A counter that fell was restarted: its whole value is new. A series that was missing at the previous reading began
since. From a first reading, only gauges and summaries can be used.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collectors.exporters.exposition import Series
from collectors.services.profile import Profile, Rule
from collectors.services.quantiles import LARGEST, MOST, Histogram, gained, histogram, merged, quantile_of

Labels = tuple[tuple[str, str], ...]
MeasureKey = tuple[str, str, str]
"""(value of the split labels, metric, kind)"""


@dataclass(frozen=True)
class Reading:
    """A replica's series by name, at one moment (seconds since 1970)."""

    at: float
    series: Mapping[str, Sequence[Series]]

    def of(self, name: str) -> Sequence[Series]:
        return self.series.get(name, ())


@dataclass(frozen=True, slots=True)
class Measure:
    """One service level of one replica within an interval, in parts that can still be merged."""

    rule: Rule
    histogram: Histogram | None = None
    amounts: tuple[float, ...] = ()
    per: float = 0.0
    quantiles: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Level:
    """One service level: `value` with the edges of its bucket; quantile None is the mean, or a plain value."""

    metric: str
    quantile: float | None
    value: float | None
    low: float | None = None
    high: float | None = None
    observations: int | None = None


def reading(series: Iterable[Series], at: float) -> Reading:
    by_name: dict[str, list[Series]] = {}
    for one in series:
        by_name.setdefault(one.name, []).append(one)
    return Reading(at, by_name)


def measure(profile: Profile, before: Reading | None, now: Reading, dropped: Counter[str]) -> dict[MeasureKey, Measure]:
    """The service levels that the profile's rules find; series that they cannot use are counted in `dropped`."""
    found: dict[MeasureKey, Measure] = {}
    decided: set[tuple[str, str]] = set()
    for rule in profile.metrics:
        name = next((name for name in rule.names if _series(rule, name, now)), None)
        if name is None or (rule.metric, rule.kind) in decided:
            continue
        decided.add((rule.metric, rule.kind))
        for group in dict.fromkeys(_group(profile, one.labels) for one in _series(rule, name, now)):
            one = _MEASURES[rule.kind](rule, name, _Part(profile, group, before, now, dropped))
            if one is not None:
                found[group, rule.metric, rule.kind] = one
    return found


def together(parts: Sequence[Measure]) -> Measure | None:
    """Several replicas' measures of one service level merged into one; None for summaries, which cannot be merged."""
    rule = parts[0].rule
    if rule.kind == "summary":
        return None
    if rule.kind == "histogram":
        return Measure(rule, merged([part.histogram for part in parts if part.histogram is not None]))
    if rule.kind == "rate":
        # Replicas' intervals differ by milliseconds: their rates add up, not their amounts.
        return Measure(rule, amounts=(math.fsum(sum(part.amounts) / part.per for part in parts),), per=1.0)
    amounts = tuple(amount for part in parts for amount in part.amounts)
    return Measure(rule, amounts=amounts, per=math.fsum(part.per for part in parts))


def levels(one: Measure) -> list[Level]:
    """The rows to report for a measure; none if nothing was observed."""
    rule = one.rule
    factor = float(rule.factor)
    if rule.kind == "histogram" and one.histogram is not None:
        return _histogram_levels(rule, one.histogram, factor)
    if rule.kind == "summary":
        return [Level(rule.metric, q, value * factor) for q, value in sorted(one.quantiles.items())]
    if rule.kind == "gauge":
        return [Level(rule.metric, None, _combined(rule, one.amounts) * factor)]
    if one.per <= 0:
        return []
    observations = int(one.per) if rule.kind == "ratio" else None
    return [Level(rule.metric, None, math.fsum(one.amounts) / one.per * factor, observations=observations)]


def _histogram_levels(rule: Rule, observed: Histogram, factor: float) -> list[Level]:
    if observed.count <= 0:
        return []

    def scaled(value: float | None) -> float | None:
        return None if value is None else value * factor

    found = [quantile_of(observed, quantile) for quantile in rule.quantiles]
    reported = [
        Level(rule.metric, one.quantile, scaled(one.value), scaled(one.low), scaled(one.high), one.observations)
        for one in found
    ]
    if (mean := observed.mean) is not None:
        reported.insert(0, Level(rule.metric, None, mean * factor, observations=int(observed.count)))
    return reported


def _combined(rule: Rule, values: Sequence[float]) -> float:
    if rule.combine == "mean":
        return math.fsum(values) / len(values)
    if rule.combine == "sum":
        return math.fsum(values)
    return max(values) if rule.combine == "max" else min(values)


@dataclass(frozen=True)
class _Part:
    """The series of one service (of one value of the split labels) at two moments."""

    profile: Profile
    group: str
    before: Reading | None
    now: Reading
    dropped: Counter[str]

    def values(self, at: Reading, name: str, rule: Rule | None) -> dict[Labels, float]:
        """Label sets -> values; rule: whose `where` they must fit."""
        return {
            tuple(sorted(one.labels.items())): one.value
            for one in at.of(name)
            if _group(self.profile, one.labels) == self.group and (rule is None or rule.wants(one.labels))
        }

    def gain(self, name: str, rule: Rule | None) -> float | None:
        """What the counters of this name gained; None if there are none, or one of them is no number."""
        found = self.values(self.now, name, rule)
        if self.before is None or not found:
            return None
        if not all(0 <= value <= MOST for value in found.values()):
            self.dropped["counter is no count"] += 1
            return None
        then = self.values(self.before, name, rule)
        steps = []
        for labels, value in found.items():
            last = then.get(labels, 0.0)
            steps.append(value - last if 0 <= last <= value else value)
        return math.fsum(steps)

    def histograms(self, at: Reading, name: str, rule: Rule, dropped: Counter[str]) -> dict[Labels, Histogram]:
        """A cumulative one for each set of labels other than `le`."""
        buckets: dict[Labels, dict[float, float]] = {}
        for end in _BUCKETS:
            for labels, value in self.values(at, name + end, rule).items():
                edge = _number(dict(labels).get("le", ""))
                if edge is not None:
                    rest = tuple(pair for pair in labels if pair[0] != "le")
                    buckets.setdefault(rest, {})[edge] = value
        counts, totals = self.values(at, f"{name}_count", rule), self.values(at, f"{name}_sum", rule)
        found: dict[Labels, Histogram] = {}
        for labels, counted in buckets.items():
            try:
                found[labels] = histogram(counted, counts.get(labels), totals.get(labels))
            except ValueError as mistake:
                dropped[f"histogram: {mistake}"] += 1
        return found


_BUCKETS = ("_bucket", "")
"""What follows a histogram's name where its buckets are; Triton's manual shows them without `_bucket`."""


def _series(rule: Rule, name: str, at: Reading) -> list[Series]:
    ends = _BUCKETS if rule.kind == "histogram" else ("",)
    return [one for end in ends for one in at.of(name + end) if rule.wants(one.labels)]


def _group(profile: Profile, labels: Mapping[str, str]) -> str:
    return "/".join(labels.get(label, "") for label in profile.split)


def _rate(rule: Rule, name: str, part: _Part) -> Measure | None:
    amount = part.gain(name, rule)
    if amount is None or part.before is None:
        return None
    return Measure(rule, amounts=(amount,), per=part.now.at - part.before.at)


def _ratio(rule: Rule, name: str, part: _Part) -> Measure | None:
    amount = part.gain(name, rule)
    gains = [part.gain(other, None) for other in rule.per]
    known = [gain for gain in gains if gain is not None]
    if amount is None or len(known) < len(gains):
        return None
    return Measure(rule, amounts=(amount,), per=math.fsum(known))


def _gauge(rule: Rule, name: str, part: _Part) -> Measure | None:
    low, high = rule.range or (-math.inf, math.inf)
    values: list[float] = []
    for value in part.values(part.now, name, rule).values():
        if not abs(value) <= LARGEST:
            part.dropped["blank"] += 1
        elif not low <= value <= high:
            part.dropped["out of range"] += 1
        else:
            values.append(1 - value if rule.invert else value)
    return Measure(rule, amounts=tuple(values), per=len(values)) if values else None


def _summary(rule: Rule, name: str, part: _Part) -> Measure | None:
    quantiles: dict[float, float] = {}
    for labels, value in part.values(part.now, name, rule).items():
        quantile = _number(dict(labels).get("quantile", ""))
        if quantile is None or not 0 < quantile < 1:
            continue
        if quantile in quantiles:
            part.dropped["summaries of several series cannot be merged"] += 1
            return None
        if abs(value) <= LARGEST:
            quantiles[quantile] = value
        else:
            part.dropped["blank"] += 1
    return Measure(rule, quantiles=quantiles) if quantiles else None


def _histogram(rule: Rule, name: str, part: _Part) -> Measure | None:
    if part.before is None:
        return None
    then = part.histograms(part.before, name, rule, Counter())
    parts = [
        gained(then.get(labels), after) for labels, after in part.histograms(part.now, name, rule, part.dropped).items()
    ]
    return Measure(rule, merged(parts)) if parts else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if math.isnan(value) else value


_MEASURES: Mapping[str, Callable[[Rule, str, _Part], Measure | None]] = {
    "histogram": _histogram,
    "rate": _rate,
    "ratio": _ratio,
    "gauge": _gauge,
    "summary": _summary,
}
