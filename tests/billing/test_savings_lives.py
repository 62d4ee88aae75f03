"""Random lives of workloads over five weeks: what is advised, and where every idle hour went.

It is reckoned from the samples, hour by hour in plain loops; the reckoning shares no code with billing/insights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest

from billing.insights.holders import Rules
from billing.insights.savings import SavingsReport, savings, summary
from billing.periods import Period
from tests.billing.small_fleet import H100, L40S, RATES, START, Job, run
from tests.draws import keep_seed
from tests.stores import emptied
from warehouse.store import Store

HOURS = 35 * 24
WEEK, DAY = 168, 24
MONTH = Fraction("730.5")
UNPRICED = "NVIDIA L4"
PRICES = {H100: Fraction("2.80"), L40S: Fraction(1)}
CENT = Fraction(1, 100)

Uses = Callable[[int], float | None]


@dataclass(frozen=True)
class Life:
    """A tenant's workload: runs of one name, each by its hours; a run's use by the hour of the fleet."""

    tenant: str
    kind: str
    runs: tuple[Job, ...]


@dataclass
class Account:
    """What is expected of a tenant."""

    advised: list[tuple[Fraction | None, Fraction | None]] = field(default_factory=list)
    parts: dict[str, Fraction] = field(default_factory=dict)
    idle_hours: Fraction = Fraction(0)
    unmetered_hours: Fraction = Fraction(0)
    unpriced_hours: Fraction = Fraction(0)

    def add(self, part: str, amount: Fraction) -> None:
        self.parts[part] = self.parts.get(part, Fraction(0)) + amount


# What a run's hours are like


def always(use: float) -> Uses:
    return lambda _: use


def idle_from(start: int) -> Uses:
    return lambda hour: 0.0 if hour >= start else 0.9


def lull(dice: Random) -> Uses:
    """Idle for some hours of each day; always, or until or since some day."""
    first, length = dice.randrange(24), dice.choice([3, 5, 6, 8, 14])
    since, until = dice.choice([(0, HOURS), (0, dice.randrange(HOURS)), (dice.randrange(HOURS), HOURS)])
    return lambda hour: 0.0 if since <= hour < until and (hour - first) % 24 < length else 0.9


def restless(dice: Random) -> Uses:
    """Blocks of work, near-idleness and (seldom) nothing measured."""
    hours: list[float | None] = []
    gaps = dice.random() < 0.4
    while len(hours) < HOURS:
        use = None if gaps and dice.random() < 0.2 else dice.choice([0.9, 0.5, 0.011, 0.01, 0.0, 0.0])
        hours += [use] * dice.choice([1, 2, 5, 6, 7, 30])
    return lambda hour: hours[hour]


# Whose runs they are


def lives(dice: Random, count: int) -> list[Life]:
    makers = [service, service, series, series, series, weekly, weekly, low, gang, pair, shared, free]
    return [makers[number % len(makers)](dice, f"tenant-{number:02}") for number in range(count)]


def times(dice: Random) -> tuple[int, int | None]:
    start = dice.choice([0, dice.randrange(HOURS - 30), HOURS - dice.randrange(7, 200)])
    return start, dice.choice([None, None, dice.randrange(start + 1, HOURS)])


def service(dice: Random, tenant: str, model: str = L40S) -> Life:
    use = dice.choice([lull(dice), lull(dice), lull(dice), restless(dice), always(0.0)])
    start, end = times(dice)
    job = Job("serve", (tenant,), start, end, use, None, tenant, model=model)
    return Life(tenant, "reclaim", (named(job, tenant, None),))


def series(dice: Random, tenant: str) -> Life:
    """A job at night, on some days or on all; idle at its end for long, for short or on some days alone."""
    chance, length = dice.choice([0.15, 0.5, 1.0]), dice.choice([4, 8, 10])
    last = dice.choice([34, 34, dice.randrange(35)])
    work, idle_on = dice.choice([0, 1, 3]), dice.choice([0.3, 1.0])
    found = []
    for day in range(last + 1):
        if dice.random() < chance:
            start = day * 24 + 20 if day < 34 else day * 24 + 10
            use = idle_from(start + work) if dice.random() < idle_on else always(0.9)
            end = None if day == 34 and dice.random() < 0.5 else start + length
            found.append(Job("", (tenant,), start, end, use, None, tenant, model=L40S))
    return several(dice, tenant, "reclaim", found)


def weekly(dice: Random, tenant: str) -> Life:
    """A long job in each week, or in some; idle or of low use."""
    kind = dice.choice(["reclaim", "profile"])
    chance, first = dice.choice([0.5, 1.0, 1.0]), dice.randrange(5 * 24)
    found = []
    for week in range(5):
        if dice.random() < chance:
            start = week * WEEK + first
            if kind == "reclaim":
                found.append(Job("", (tenant,), start, start + 30, idle_from(start + 10), None, tenant, model=L40S))
            else:
                found.append(Job("", (tenant,), start, start + 40, 0.1, 7, tenant, model=H100))
    return several(dice, tenant, kind, found)


def low(dice: Random, tenant: str) -> Life:
    start, end = times(dice)
    return several(dice, tenant, "profile", [Job("", (tenant,), start, end, 0.1, 7, tenant, model=H100)])


def gang(dice: Random, tenant: str) -> Life:
    start, end = times(dice)
    devices = tuple(f"{tenant} {number}" for number in range(4))
    return several(dice, tenant, "gang", [Job("", devices, start, end, 0.2, 9, tenant, model=L40S)])


def pair(dice: Random, tenant: str) -> Life:
    jobs = []
    for name in ("alpha", "beta"):
        start, end = times(dice)
        jobs.append(Job(f"{tenant}.{name}", (f"{tenant} {name}",), start, end, 0.25, 15, tenant, model=L40S))
    return Life(tenant, "pair", tuple(jobs))


def shared(dice: Random, tenant: str) -> Life:
    start, end = times(dice)
    job = Job(tenant, (tenant,), start, end, 0.0, None, tenant, model=L40S, device_units=4, partition=f"{tenant}::0")
    return Life(tenant, "shared", (job,))


def free(dice: Random, tenant: str) -> Life:
    return service(dice, tenant, UNPRICED)


def several(dice: Random, tenant: str, kind: str, jobs: Sequence[Job]) -> Life:
    nameless = dice.random() < 0.5
    return Life(tenant, kind, tuple(named(job, tenant, None if nameless else n) for n, job in enumerate(jobs)))


RHYTHMS = ((30, 34), (30, 32, 34), (30, 30.5, 34), (8, 22), (8, 15, 22), (8, 9, 22), (0, 1, 2, 3))
"""Days on which runs begin: of the last week two, three, three on two days; of the last four weeks in two, in three,
three in two; before them."""


def rhythms() -> list[Life]:
    """Runs of seven idle hours: what recurs, and the nearest that does not."""
    found = []
    for number, days in enumerate(RHYTHMS, 90):
        tenant, runs = f"tenant-{number}", []
        for n, day in enumerate(days):
            start = int(day * 24) + 3
            job = Job("", (tenant,), start, start + 7, 0.0, None, tenant, model=L40S)
            runs.append(named(job, tenant, n if number % 2 else None))
        found.append(Life(tenant, "reclaim", tuple(runs)))
    return found


def named(job: Job, tenant: str, number: int | None) -> Job:
    """Under a name that tells what it is, or a number that does not."""
    nameless = f"{int(tenant[-2:]) + 1}{int(job.since):04}"
    return Job(**{**vars(job), "name": nameless if number is None else f"{tenant}-train-{number}"})


# The reckoning


def expected(life: Life, first: int, last: int, rules: Rules) -> Account:
    """Of the hours [first, last) of a tenant whose runs have one name."""
    account = Account()
    units: list[Unit] = []
    for job in life.runs:
        start, end = max(int(job.since), first), min(last, HOURS if job.until is None else job.until)
        if start < end:
            units += reckon(life, job, start, end, end == last, account, rules)
    if life.kind == "pair":
        units = together(units, account)
    recurs = recurrence(units, first, last)
    if recurs and not all(unit.held for unit in units):
        groups, span = [units], recurs
    else:
        groups, span = [[unit] for unit in units if unit.held], WEEK
    followed = []
    for group in groups:
        if any(unit.saving is None for unit in group):
            account.advised.append((None, None))
            followed += group
            continue
        recent = sum((value for unit in group for hour, value in unit.hours() if hour >= last - span), Fraction(0))
        if recent:
            monthly = recent * MONTH / span if last - first >= span else recent
            account.advised.append((monthly, sum((unit.total for unit in group), Fraction(0))))
            followed += group
    for unit in units:
        part = "covered" if any(unit is one for one in followed) else "changed" if unit.held else "ended"
        spoken = min(unit.total, unit.idle)
        account.add(part, spoken)
        if not unit.by_hour:
            account.add("in_use", -spoken)
    return account


@dataclass
class Unit:
    """What one run, or two that could share, would have saved in each hour; None: it has no price."""

    start: int
    held: bool
    saving: dict[int, Fraction] | None
    idle: Fraction
    by_hour: bool
    """Whether the hours it speaks of were left out of the others' parts."""

    def hours(self) -> list[tuple[int, Fraction]]:
        return list((self.saving or {}).items())

    @property
    def total(self) -> Fraction:
        return sum((self.saving or {}).values(), Fraction(0))


def reckon(life: Life, job: Job, start: int, end: int, held: bool, account: Account, rules: Rules) -> list[Unit]:
    """The run's idle hours into their parts, but for those that its unit speaks of."""
    count, share = len(job.devices), Fraction(job.units, job.device_units)
    price = PRICES.get(job.model)
    uses = {hour: job.use(hour) if callable(job.use) else job.use for hour in range(start, end)}
    idle = {hour: count * share * (1 - Fraction(str(use))) for hour, use in uses.items() if use is not None}
    account.idle_hours += sum(idle.values(), Fraction(0))
    account.unmetered_hours += count * share * (len(uses) - len(idle))
    account.unpriced_hours += 0 if price else sum(idle.values(), Fraction(0))
    cost = {hour: amount * (price or 0) for hour, amount in idle.items()}
    long = long_hours(uses, rules.idle_hours)
    hours = len(uses)
    if life.kind == "shared":
        account.add("shared", sum(cost.values(), Fraction(0)))
        return []
    if hours >= 6 and len(idle) < Fraction(rules.min_coverage) * hours:
        account.add("not_judged", sum(cost.values(), Fraction(0)))
        return []
    for hour, amount in cost.items():
        use = uses[hour]
        assert use is not None
        if hour not in long:
            account.add("short" if use <= 0.01 else "in_use", amount)
    if life.kind == "reclaim":
        if not long:
            return []
        saving = {hour: cost[hour] for hour in long} if price else None
        return [Unit(start, held, saving, sum((cost[hour] for hour in long), Fraction(0)), True)]
    if life.kind != "pair" and hours < 24:
        return []
    an_hour = {"profile": Fraction(6, 7) * PRICES[H100], "gang": Fraction(3), "pair": Fraction(1, 2)}[life.kind]
    return [Unit(start, held, dict.fromkeys(range(start, end), an_hour), sum(cost.values(), Fraction(0)), False)]


def long_hours(uses: dict[int, float | None], least: int) -> set[int]:
    found: set[int] = set()
    stretch: list[int] = []
    for hour in range(min(uses), max(uses) + 2):
        use = uses.get(hour)
        if use is not None and use <= 0.01:
            stretch.append(hour)
            continue
        if len(stretch) >= least:
            found.update(stretch)
        stretch = []
    return found


def together(units: Sequence[Unit], account: Account) -> list[Unit]:
    """One device for both, for the hours in common, if they are a day at least and both go on, or neither."""
    if len(units) < 2 or units[0].held != units[1].held:
        return []
    one, other = units
    common = sorted(set(one.saving or {}) & set(other.saving or {}))
    if len(common) < 24:
        return []
    return [
        Unit(min(one.start, other.start), one.held, dict.fromkeys(common, Fraction(1)), one.idle + other.idle, False)
    ]


def recurrence(units: Sequence[Unit], first: int, last: int) -> int:
    """Hours of the last days whose pace is taken: 168, 672, or 0 where they do not recur."""
    ages = [last - unit.start for unit in units if unit.start > first]
    days = {(age) // 24 for age in ages if age < WEEK}
    if len(days) >= 3:
        return WEEK
    weeks = {age // WEEK for age in ages if age < 4 * WEEK}
    return 4 * WEEK if len(weeks) >= 3 and last - first >= 4 * WEEK else 0


# Both beside each other


@dataclass(frozen=True)
class Reported:
    report: SavingsReport
    first: int
    last: int
    rules: Rules


@pytest.fixture(scope="module")
def fleet() -> list[Life]:
    return [*lives(Random(f"savings {keep_seed()}"), 30), *rhythms()]


@pytest.fixture(scope="module")
def reported(shared_store: Store, fleet: list[Life]) -> list[Reported]:
    """Of the five weeks, and of some shorter periods."""
    store = emptied(shared_store)
    run(store, [job for life in fleet for job in life.runs], HOURS, RATES)
    dice = Random(f"periods {keep_seed()}")
    first, length = dice.randrange(300), dice.choice([30, 170, 400])
    spans = [(0, HOURS, Rules()), (HOURS - 60, HOURS, Rules()), (first, first + length, Rules(idle_hours=3)),
             (HOURS - 8 * 24, HOURS, Rules(min_coverage=Decimal("0.5")))]  # fmt: skip
    hour = timedelta(hours=1)
    return [
        Reported(savings(store, Period(START + since * hour, START + until * hour), rules), since, until, rules)
        for since, until, rules in spans
    ]


def test_three_days_of_a_week_or_three_of_four_weeks_recur(reported: list[Reported]) -> None:
    runs = {one.tenant: (one.runs, one.basis, str(one.monthly_amount)) for one in reported[0].report.recommendations}
    assert {tenant: one for tenant, one in runs.items() if tenant >= "tenant-9"} == {
        "tenant-91": (3, "week", "91.31"),  # 21 h x 730.5 / 168
        "tenant-94": (3, "four_weeks", "22.83"),  # 21 h x 730.5 / 672
    }


def near(found: Decimal | None, exact: Fraction | None) -> bool:
    if found is None or exact is None:
        return found is None and exact is None
    return abs(Fraction(found) - exact) < CENT


def test_what_is_advised_is_held_or_recurs_at_the_pace_of_the_last_days(
    reported: list[Reported], fleet: list[Life]
) -> None:
    for one in reported:
        for life in fleet:
            found = [each for each in one.report.recommendations if each.tenant == life.tenant]
            account = expected(life, one.first, one.last, one.rules)
            amounts = sorted(account.advised, key=lambda both: (both[0] is None, -(both[0] or 0)))
            shown = [(each.monthly_amount, each.past_amount) for each in found]
            assert len(shown) == len(amounts), (keep_seed(), one.first, one.last, life, shown, amounts)
            for (monthly, past), (exact, before) in zip(shown, amounts, strict=True):
                assert near(monthly, exact), (keep_seed(), one.first, one.last, life, shown, amounts)
                assert near(past, before), (keep_seed(), one.first, one.last, life, shown, amounts)


def test_every_idle_hour_is_covered_or_has_a_reason(reported: list[Reported], fleet: list[Life]) -> None:
    for one in reported:
        assert one.report.waste is not None
        shown = dict(one.report.waste.by_tenant)
        for life in fleet:
            account = expected(life, one.first, one.last, one.rules)
            if life.tenant not in shown:
                assert not account.parts
                continue
            waste = shown[life.tenant]
            if waste.covered is None:
                assert waste.unpriced_gpu_hours == waste.idle_gpu_hours and not any(account.parts.values())
                continue
            found = {"covered": waste.covered, **waste.not_covered}
            for part in {*found, *account.parts}:
                exact = account.parts.get(part, Fraction(0))
                assert near(found.get(part, Decimal(0)), exact), (keep_seed(), one.first, one.last, life, part, found)
            assert waste.idle_cost == sum(found.values())
            advised = [each for each in one.report.recommendations if each.tenant == life.tenant]
            if {each.kind for each in advised} <= {"reclaim"} and None not in [each.past_amount for each in advised]:
                assert sum(each.past_amount or 0 for each in advised) == waste.covered, (keep_seed(), life)
            assert Fraction(waste.idle_gpu_hours) == pytest.approx(account.idle_hours, abs=0.001)
            assert Fraction(waste.unmetered_gpu_hours) == pytest.approx(account.unmetered_hours, abs=0.001)
            assert Fraction(waste.unpriced_gpu_hours) == pytest.approx(account.unpriced_hours, abs=0.001)


def test_the_parts_of_all_are_those_of_the_tenants_and_add_up(reported: list[Reported]) -> None:
    for one in reported:
        assert one.report.waste is not None
        total, tenants = one.report.waste.total, [waste for _, waste in one.report.waste.by_tenant]
        assert total.covered is not None
        assert total.idle_cost == sum(waste.idle_cost or 0 for waste in tenants)
        assert total.idle_cost == total.covered + sum(total.not_covered.values())
        assert all(amount > 0 for waste in tenants for amount in waste.not_covered.values())
        assert f"Idle time cost {total.idle_cost:,} in the period: {total.covered:,}" in summary(one.report)


def test_unallocated_time_is_the_platforms_and_beside_it(reported: list[Reported], fleet: list[Life]) -> None:
    whole = reported[0].report.waste
    assert whole is not None
    hours, cost = Fraction(0), Fraction(0)
    for life in fleet:
        devices = {name: job for job in life.runs for name in job.devices}
        for name, job in devices.items():
            held = sum(
                (Fraction(one.units, one.device_units) * ((one.until or HOURS) - int(one.since))
                 for one in life.runs if name in one.devices), Fraction(0),
            )  # fmt: skip
            hours += HOURS - held
            cost += (HOURS - held) * PRICES.get(job.model, 0)
    assert near(whole.unallocated_cost, cost)
    assert Fraction(whole.unallocated_gpu_hours or 0) == pytest.approx(hours, abs=0.001)


def test_the_draws_come_to_every_reason() -> None:
    parts: set[str] = set()
    for seed in range(8):
        for life in lives(Random(f"cover {seed}"), 30):
            parts |= {part for part, amount in expected(life, 0, HOURS, Rules()).parts.items() if amount}
    assert parts == {"covered", "ended", "changed", "short", "in_use", "shared", "not_judged"}
