"""Decides which proposals can still save money, and how much a month; the rest is over.

    proposals ─▶ held to the end, or recurring ─▶ the best for each holder ─▶ advised, with a monthly amount
                  └─ neither ─▶ over: ended, or no longer true in the last days

Only recurrence is evidence for the future. A current holder counts with what it would have saved in the last week of
the period. An ended one counts if the same advice applied to runs of the same name that began on three days of the last
week, or else in three of the last four weeks, with what all of them would have saved in that time. Shorter periods are
not scaled up: the amount is then what the period would have saved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Literal

from billing.insights.holders import FOUR_WEEKS, WEEK, Holder
from billing.insights.proposals import UUID, Proposal, known_sum, replica_name
from billing.periods import Period

MONTH_HOURS = Fraction(365 * 24 + 6, 12)
"""An average month: 730.5 hours."""
TIMES = 3
"""Days of the last week, or weeks of the last four, on which runs begin that recur."""
DAY = timedelta(days=1)

Basis = Literal["week", "four_weeks"]
Name = tuple[str, ...]


@dataclass(frozen=True)
class Advised:
    """A proposal that can be followed still, or the same for several runs that recur.

    proposals: the greatest saving first.   name: of whom they are; of recurring runs what they have in common.
    basis: the span whose saving a month is reckoned from.   monthly, past: unrounded; None: a price is missing.
    """

    proposals: tuple[Proposal, ...]
    name: tuple[Name, ...]
    recurs: bool
    basis: Basis
    monthly: Fraction | None

    @property
    def kind(self) -> str:
        return self.proposals[0].kind

    @property
    def holders(self) -> tuple[Holder, ...]:
        return tuple(holder for proposal in self.proposals for holder in proposal.holders)

    @property
    def past(self) -> Fraction | None:
        return known_sum(proposal.period for proposal in self.proposals)


@dataclass(frozen=True)
class Over:
    """A proposal that comes too late: who it is for has `ended`, or goes on but no more so (`changed`)."""

    proposal: Proposal
    why: Literal["ended", "changed"]


def outlook(proposals: Iterable[Proposal], period: Period) -> tuple[list[Advised], list[Over]]:
    """What is advised, such that no holder is in two, the greatest monthly amount first and unknown ones last; and of
    whom nothing is advised, what would have been."""
    found = [one for one in proposals if one.period != 0]
    alike: dict[tuple[str, tuple[Name, ...]], list[Proposal]] = defaultdict(list)
    for proposal in found:
        alike[proposal.kind, _names(proposal)].append(proposal)
    candidates = [one for (_, name), members in alike.items() for one in _to_follow(name, members, period)]
    taken: set[Name] = set()
    advised = []
    for candidate in sorted(candidates, key=lambda one: (one.monthly is None, -(one.monthly or 0), one.kind, one.name)):
        left = [one for one in candidate.proposals if taken.isdisjoint(holder.key for holder in one.holders)]
        if not left:
            continue
        taken.update(holder.key for one in left for holder in one.holders)
        advised.append(_advised(left, candidate.name, candidate.recurs, candidate.basis, period))
    advised.sort(key=lambda one: (one.monthly is None, -(one.monthly or 0)))
    over = []
    for proposal in sorted(found, key=lambda one: (one.period is None, -(one.period or 0), one.kind, _names(one))):
        if taken.isdisjoint(holder.key for holder in proposal.holders):
            taken.update(holder.key for holder in proposal.holders)
            over.append(Over(proposal, "changed" if proposal.still_held else "ended"))
    return advised, over


def _to_follow(name: tuple[Name, ...], alike: Sequence[Proposal], period: Period) -> list[Advised]:
    """Of the same advice for the same name: all in one if it recurs, else one for each that still holds."""
    basis = _recurrence(alike, period)
    if basis is not None and not all(one.still_held for one in alike):
        found = [_advised(alike, name, True, basis, period)]
    else:
        found = [_advised([one], name, False, "week", period) for one in alike if one.still_held]
    return [one for one in found if one.monthly != 0]


def _advised(
    proposals: Sequence[Proposal], name: tuple[Name, ...], recurs: bool, basis: Basis, period: Period
) -> Advised:
    ordered = sorted(proposals, key=lambda one: (-(_saving(one, basis) or 0), -(one.period or 0), _key(one)))
    hours = Fraction((period.end - period.start).total_seconds()) / 3600
    span = Fraction((FOUR_WEEKS if basis == "four_weeks" else WEEK).total_seconds()) / 3600
    saved = known_sum(_saving(one, basis) for one in proposals)
    monthly = saved if saved is None or hours < span else saved * MONTH_HOURS / span
    return Advised(tuple(ordered), name, recurs, basis, monthly)


def _recurrence(alike: Sequence[Proposal], period: Period) -> Basis | None:
    """In which time they came again and again, by when the runs began; None: they did not."""
    begun = [min(holder.start_at for holder in one.holders) for one in alike]
    # What began at the very start of the books may have begun at any time before.
    ages = [period.end - at for at in begun if at > period.start]
    if len({age // DAY for age in ages if age < WEEK}) >= TIMES:
        return "week"
    whole = period.end - period.start >= FOUR_WEEKS
    if whole and len({age // WEEK for age in ages if age < FOUR_WEEKS}) >= TIMES:
        return "four_weeks"
    return None


def _saving(proposal: Proposal, basis: Basis) -> Fraction | None:
    return proposal.week if basis == "week" else proposal.four_weeks


def _names(proposal: Proposal) -> tuple[Name, ...]:
    return tuple(sorted({_name(holder, len(proposal.holders)) for holder in proposal.holders}))


def _name(holder: Holder, devices: int) -> Name:
    """The common name of runs of the same: project, queue and name; if the name is not meaningful, the size."""
    workload = holder.workload_id
    common = replica_name(workload)
    if not common and not UUID.search(workload) and not workload.isdigit():
        common = workload
    size = () if common else (holder.model, holder.partition_profile, str(devices))
    return (holder.cluster, holder.tenant, holder.project, holder.queue, common, *size)


def _key(proposal: Proposal) -> list[Name]:
    return sorted(holder.key for holder in proposal.holders)
