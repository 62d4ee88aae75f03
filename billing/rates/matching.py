"""Which rules match, which of them is most specific, and which could contradict each other.

Used by rate cards and the tenant mapping: both have rules that match by globs, of which the most specific wins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Protocol
from zoneinfo import ZoneInfo

from billing.rates.globs import after_wildcards, can_overlap, ends, is_glob, spelled_out
from billing.rates.reading import Dated, common_time

Pattern = str | bool | None
"""A glob, a truth, or None: anything."""
DISTANCES = 8
"""From an end of a key's globs, at which what they spell out is compared."""
TELLING = 6
"""Places by which rules are told apart before they are compared."""
_EVER = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def fits(pattern: Pattern, value: str | bool) -> bool:
    if pattern is None or isinstance(pattern, bool):
        return pattern is None or pattern == value
    return isinstance(value, str) and fnmatchcase(value, pattern)


def specificity(patterns: Sequence[Pattern]) -> tuple[object, ...]:
    """Greater wins: more keys, more of them exact, the more telling keys, the more telling ones exact.

    The patterns come in the order of how telling their keys are, the most telling first.
    """
    given = [pattern is not None for pattern in patterns]
    exact = [has and not (isinstance(p, str) and is_glob(p)) for has, p in zip(given, patterns, strict=True)]
    return (sum(given), sum(exact), tuple(given), tuple(exact))


def can_both_fit(left: Sequence[Pattern], right: Sequence[Pattern]) -> bool:
    """Whether something could fit both; never no where something does."""
    return all(_can_both(ours, theirs) for ours, theirs in zip(left, right, strict=True))


def _can_both(left: Pattern, right: Pattern) -> bool:
    if left is None or right is None:
        return True
    if isinstance(left, bool) or isinstance(right, bool):
        return left == right
    return can_overlap(left, right)


def why_both(keys: Sequence[str], left: Sequence[Pattern], right: Sequence[Pattern]) -> str:
    """Of rules that could both fit: the first key whose globs differ, and what sets them apart; '': all are alike."""
    for key, ours, theirs in zip(keys, left, right, strict=True):
        if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
            return f": both {ours!r} and {theirs!r} can match one {key}. Let one of them begin as its names begin"
    return ""


class Rule(Dated, Protocol):
    """One of several that match by patterns, in the order of their keys, and of which the most specific wins."""

    @property
    def patterns(self) -> tuple[Pattern, ...]: ...

    @property
    def specificity(self) -> tuple[object, ...]: ...

    @property
    def besides(self) -> Hashable:
        """What decides where it fits besides its patterns and dates: of two that have all alike, the dates decide."""

    def overlaps(self, other: Any, /) -> bool: ...


def first_tie(keys: Sequence[str], rules: Sequence[Rule], zone: ZoneInfo) -> tuple[int, int, str] | None:
    """The numbers of two rules of which neither wins where both fit, and when and why they could, in words."""
    alike: dict[tuple[object, ...], list[int]] = {}
    for number, rule in enumerate(rules):
        # Equally specific rules are exact about the same keys: unless they agree about those, nothing fits both.
        same = tuple(None if isinstance(one, str) and is_glob(one) else one for one in rule.patterns)
        alike.setdefault((rule.specificity, same), []).append(number)
    found = min((tie for group in alike.values() if (tie := _tie_of(group, rules))), default=None)
    if found is None:
        return None
    number, earlier = found
    rival, rule = rules[earlier], rules[number]
    return earlier, number, common_time([rival, rule], zone) + why_both(keys, rival.patterns, rule.patterns)


def _tie_of(group: Sequence[int], rules: Sequence[Rule]) -> tuple[int, int] | None:
    """The first of these rules that ties with an earlier one, and the first such one.

    What two globs of one key spell out at the same distance from the start, or from the end, must continue each other,
    or nothing fits both. So a rule is compared only with those of which all that is spelled out continues its own, or
    the other way round; they are found by the most telling of it. Those that only dates tell apart are found by these.
    """
    if len(group) < 2:
        return None
    spelled = zip(*_most_telling_first([rules[number].patterns for number in group]), strict=True)
    known: dict[Hashable, _ButForDates] = {}
    with_it: dict[str, list[_ButForDates]] = {}
    beyond_it: dict[str, list[_ButForDates]] = {}
    for number, (literal, *others) in zip(group, spelled, strict=True):
        rule = rules[number]
        starts = [literal[:length] for length in range(len(literal) + 1)]
        near = [*beyond_it.get(literal, ()), *(one for start in starts for one in with_it.get(start, ()))]
        near = [one for one in near if all(map(_continue_each_other, others, one.spelled))]
        for rival in sorted(rival for one in near for rival in one.during(rule)):
            if rule.overlaps(rules[rival]):
                return number, rival
        same = rule.patterns, rule.besides
        if same not in known:
            known[same] = _ButForDates(others)
            with_it.setdefault(literal, []).append(known[same])
            for start in starts[:-1]:
                beyond_it.setdefault(start, []).append(known[same])
        known[same].add(number, rule)
    return None


class _ButForDates:
    """Rules that are alike but for their dates, of which no two are in force at a time."""

    def __init__(self, spelled: Sequence[str]) -> None:
        self.spelled = spelled
        self._numbers: list[int] = []
        self._from: list[datetime] = []
        self._to: list[datetime] = []

    def add(self, number: int, rule: Dated) -> None:
        since, until = _dates(rule)
        place = bisect_left(self._from, since)
        self._numbers.insert(place, number)
        self._from.insert(place, since)
        self._to.insert(place, until)

    def during(self, rule: Dated) -> Sequence[int]:
        """The numbers of those that are in force while the rule is."""
        since, until = _dates(rule)
        return self._numbers[bisect_right(self._to, since) : bisect_left(self._from, until)]


def _dates(rule: Dated) -> tuple[datetime, datetime]:
    return rule.effective_from or _EVER[0], rule.effective_to or _EVER[1]


def _continue_each_other(left: str, right: str) -> bool:
    return left.startswith(right) or right.startswith(left)


def _most_telling_first(patterns: Sequence[Sequence[Pattern]]) -> list[list[str]]:
    """What the patterns of each rule spell out, a list for each place in which some do so differently, and at least
    one: the most telling place first, by which the fewest rules must be compared."""
    places = [place for column in zip(*patterns, strict=True) for place in _spelled_out(column)]
    return sorted(places, key=_comparisons)[:TELLING] or [[""] * len(patterns)]


def _spelled_out(column: Sequence[Pattern]) -> Iterator[list[str]]:
    """What these patterns of one key spell out from their starts and (in reverse) from their ends, and behind as many
    characters as there are before it in the most of them: '' for a pattern that does not say what stands there."""
    if len(set(column)) == 1:
        return
    for tokens in zip(*(ends(one) if isinstance(one, str) else ((), ()) for one in column), strict=True):
        skipped = Counter(number for each in tokens for number in after_wildcards(each))
        for number, _ in skipped.most_common(DISTANCES):
            yield [spelled_out(each, number) for each in tokens]


def _comparisons(literals: Sequence[str]) -> int:
    """About how many there are of rules that spell this out: each with those alike, and with those that do not."""
    alike = Counter(literals)
    return sum(count * (count if literal else len(literals)) for literal, count in alike.items())


class Matcher:
    """Finds the rules that fit, fast for many things that share few values of each key."""

    def __init__(self, keys: Sequence[str], rules: Sequence[Mapping[str, Pattern]]) -> None:
        self._all = (1 << len(rules)) - 1
        self._by_key: list[tuple[str, list[Pattern], dict[str | bool, int]]] = []
        for key in keys:
            patterns = [rule.get(key) for rule in rules]
            if any(pattern is not None for pattern in patterns):
                self._by_key.append((key, patterns, {}))

    def fitting(self, value_of: Callable[[str], Any]) -> int:
        """The rules that fit, as bits: bit n is rule n."""
        found = self._all
        for key, patterns, known in self._by_key:
            value = value_of(key)
            bits = known.get(value)
            if bits is None:
                bits = known[value] = sum(1 << n for n, pattern in enumerate(patterns) if fits(pattern, value))
            found &= bits
        return found


def numbers(bits: int) -> tuple[int, ...]:
    """The places of the bits that are set, in order."""
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return tuple(found)
