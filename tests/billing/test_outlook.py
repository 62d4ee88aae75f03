"""What can still be saved, and what a day is expected to cost: of drawn proposals and days, by the definition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import Any

from billing.insights.anomalies import Band, DayCost, Subject, anomalies, judge
from billing.insights.holders import Holder, Span
from billing.insights.outlook import Advised, outlook
from billing.insights.proposals import Proposal
from billing.periods import Period
from tests.billing.hand_ledger import Row, at, fill
from warehouse.store import Store

END = at("2026-10-31 00:00")
DAY, WEEK, FOUR_WEEKS = timedelta(days=1), timedelta(days=7), timedelta(days=28)
SENTENCE: Any = None
"""What is said of a proposal is for others."""


def holder(dice: Random, number: int, device: int, start: datetime, name: str, still_held: bool) -> Holder:
    nothing: Any = Fraction(0)
    span = Span(start, nothing, nothing, nothing)
    return Holder(
        cluster="c", allocation_id=f"a{number}", device_id=f"g{device}", partition_id="", tenant="chem", project="p",
        queue="q", workload_id=name, node="n", model="H", pool="", partition_profile="", share=Fraction(1),
        start_at=start, end_at=END, still_held=still_held, held=nothing, used=nothing, idle=nothing, unmetered=nothing,
        period=span, week=span, four_weeks=span, idle_cost=nothing, quiet_cost=nothing, dim_cost=nothing, price=None,
        device_memory_bytes=None, stretches=None, use=None,
    )  # fmt: skip


def amount(dice: Random) -> Fraction | None:
    return dice.choice([None, Fraction(0), *(Fraction(dice.randint(1, 9000), 7) for _ in range(8))])


NAMES = ("train", "etl", "vllm-0", "vllm-1", "4711", "42", "5f0c1a1e-0b0a-4f3a-9d57-0a2b4c6d8e0f")
"""Numbers and UUIDs tell nothing; replicas have a name in common."""


def drawn_proposals(dice: Random, period: Period) -> dict[str, list[Proposal]]:
    """By what tells them apart; no two have a holder in common. Their holders began at different times, about
    whole days before the end, or at the very start of the books."""
    found: dict[str, list[Proposal]] = defaultdict(list)
    number = 0
    for name in dice.sample(NAMES, 3):
        days, devices = dice.choice([6, 13, 23, 29, 29]), dice.choice([1, 1, 2])
        ended = dice.choice([0.0, 0.3, 1.0])
        for _ in range(dice.randint(1, 6)):
            number += 1
            ages = [
                dice.randint(0, days) * DAY + timedelta(seconds=dice.choice([-1, 0, 1, 3600])) for _ in range(devices)
            ]
            begun = [max(period.start, END - max(age, timedelta(seconds=1))) for age in ages]
            holders = tuple(holder(dice, number, device, start, name, dice.random() >= ended)
                            for device, start in enumerate(begun))  # fmt: skip
            apart = "vllm" if name.startswith("vllm") else name if name in ("train", "etl") else f"{devices} devices"
            found[apart].append(
                Proposal("reclaim", holders, SENTENCE, amount(dice), amount(dice), amount(dice), "", "high")
            )
    return found


def basis_of(alike: Sequence[Proposal], period: Period) -> str | None:
    """Whether runs began on three days of the last week, or in three of the last four weeks, and when they came."""
    firsts = [min(one.start_at for one in proposal.holders) for proposal in alike]
    firsts = [one for one in firsts if one != period.start]
    for basis, unit, least in (("week", DAY, 7), ("four_weeks", WEEK, 4)):
        if basis == "week" or END - period.start >= FOUR_WEEKS:
            places = [sum(END - place * unit >= one for place in range(1, 99)) for one in firsts]
            if len({place for place in places if place < least}) >= 3:
                return basis
    return None


def known(amounts: Sequence[Fraction | None]) -> Fraction | None:
    return None if None in amounts else sum((one for one in amounts if one is not None), Fraction(0))


def test_what_recurs_or_is_held_still_is_advised_with_what_it_saves_in_a_month(dice: Random) -> None:
    for _ in range(200):
        period = Period(
            END - dice.choice([5 * DAY, WEEK, WEEK - timedelta(hours=1), 27 * DAY, FOUR_WEEKS, 35 * DAY, 35 * DAY]), END
        )
        hours = Fraction((END - period.start) // timedelta(hours=1))
        worlds = drawn_proposals(dice, period)
        wanted: list[tuple[str, list[Proposal], bool, str, Fraction | None]] = []
        for name, proposals in worlds.items():
            some = [one for one in proposals if one.period != 0]
            basis = basis_of(some, period)
            recurs = basis is not None and not all(h.still_held for one in some for h in one.holders)
            parts = [some] if recurs else [[one] for one in some if all(h.still_held for h in one.holders)]
            for part in parts:
                its = basis if recurs and basis else "week"
                saved = known([one.week if its == "week" else one.four_weeks for one in part])
                of = Fraction(168 if its == "week" else 672)
                if saved is not None and hours >= of:
                    saved *= Fraction(7305, 10) / of
                if saved != 0:
                    wanted.append((name, part, recurs, its, saved))
        advised, over = outlook([one for some in worlds.values() for one in some], period)
        found = {(named(one), frozenset(p.holders[0].allocation_id for p in one.proposals)): one for one in advised}
        assert len(found) == len(advised)
        assert found.keys() == {
            (name, frozenset(p.holders[0].allocation_id for p in part)) for name, part, *_ in wanted
        }
        for name, part, recurs, basis, monthly in wanted:
            one = found[name, frozenset(p.holders[0].allocation_id for p in part)]
            assert (one.recurs, one.basis, one.monthly, one.kind) == (recurs, basis, monthly, "reclaim")
            assert one.past == known([p.period for p in part])
            assert [*one.proposals] == sorted(part, key=lambda p: (-(of_basis(p, one) or 0), -(p.period or 0), keys(p)))
            assert one.holders == tuple(h for p in one.proposals for h in p.holders)
        amounts = [one.monthly for one in advised]
        assert amounts == sorted(amounts, key=lambda one: (one is None, -(one or 0)))
        taken = {id(p) for _, part, *_ in wanted for p in part}
        left = [p for some in worlds.values() for p in some if p.period != 0 and id(p) not in taken]
        left.sort(key=lambda p: (p.period is None, -(p.period or 0)))
        assert [one.proposal.period for one in over] == [one.period for one in left]
        assert sorted(keys(one.proposal) for one in over) == sorted(keys(one) for one in left)
        for one in over:
            assert one.why == ("changed" if all(h.still_held for h in one.proposal.holders) else "ended")


def named(one: Advised) -> str:
    """What tells it apart."""
    ((cluster, tenant, project, queue, common, *size),) = one.name
    assert (cluster, tenant, project, queue) == ("c", "chem", "p", "q")
    assert size == ([] if common else ["H", "", str(len(one.proposals[0].holders))])
    return common or f"{size[2]} devices"


def of_basis(proposal: Proposal, advised: Advised) -> Fraction | None:
    return proposal.week if advised.basis == "week" else proposal.four_weeks


def keys(proposal: Proposal) -> list[tuple[str, ...]]:
    return sorted(one.key for one in proposal.holders)


# --- what a day is expected to cost -----------------------------------------------------------------------------------


def middle(values: Sequence[Fraction]) -> Fraction:
    """The median."""
    ordered = sorted(values)
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


def test_a_day_is_judged_by_its_weekdays_or_by_the_fortnight_before(dice: Random) -> None:
    first, subject = date(2026, 8, 1), Subject("tenant", "chem")
    for _ in range(150):
        count, closed, priced = dice.choice([9, 16, 40, 70]), dice.choice([0.6, 0.95, 1.0]), dice.choice([0.9, 1.0])
        usual, spread = dice.choice([0, 100, 1000]), dice.choice([1, 4, 60])
        series = [
            DayCost(subject, first + number * DAY, Fraction(dice.choice([23, 24, 24, 24, 25])),
                    Fraction(max(0, usual + dice.randint(-spread, spread) * 5), 3) if dice.random() < priced else None,
                    dice.random() < closed)
            for number in range(count)
        ]  # fmt: skip
        totals = {one.day: Fraction(dice.choice([0, 100, 9000, 90_000])) for one in series if dice.random() < 0.8}
        cost, threshold = dice.choice(series[-3:]), Decimal(dice.choice(["3.5", "1", "0.25"]))
        known = {one.day: one.cost * 24 / one.hours for one in series if one.closed and one.cost is not None}
        found = judge(cost, known, totals, threshold)
        if not cost.closed:
            assert found == "not every hour of the day is closed"
            continue
        if cost.cost is None:
            assert found == "a price is missing"
            continue
        past = {one.day: one.cost / one.hours * 24 for one in series
                if one.day < cost.day and one.closed and one.cost is not None}  # fmt: skip
        weekly = [day for day in past if (cost.day - day).days in range(7, 57, 7)]
        recent = [day for day in past if (cost.day - day).days <= 14]
        if len(weekly) < 4 and len(recent) < 7:
            assert found == "fewer than 7 days of history"
            continue
        days = weekly if len(weekly) >= 4 else recent
        basis = f"{len(days)} earlier {cost.day:%A}s" if days is weekly else f"{len(days)} of the 14 days before"
        expected = middle([past[day] for day in days])
        widths = [middle([abs(past[day] - expected) for day in days]) * Fraction("1.4826"), expected / 20,
                  middle([totals.get(day, Fraction(0)) for day in days]) / 100]  # fmt: skip
        width = max(widths)
        if width == 0:
            assert found == "nothing cost anything before"
            continue
        part, reach = cost.hours / 24, width * Fraction(threshold)
        assert found == Band(
            expected * part, max(Fraction(0), expected - reach) * part, (expected + reach) * part,
            (cost.cost / part - expected) / width, basis,
        )  # fmt: skip


def test_a_period_without_a_closed_hour_has_no_days_to_judge(books: Store) -> None:
    fill(books, [Row(at("2026-09-01 12:00"), "chem", used="3600000")], closed=[at("2026-09-01 12:00")])
    for period in (
        Period(at("2027-09-01 00:00"), at("2027-09-03 00:00")),
        Period(at("2025-09-01 00:00"), at("2025-09-03 00:00")),
    ):
        report = anomalies(books, period)
        assert (report.judged, report.flagged, report.not_judged) == (0, (), ())
        assert report.closed is not None and report.closed.closed_hours == 0
