"""Finds days on which a tenant, or the platform's unallocated capacity, cost unusually much or little.

The expected cost is the median of the same weekday over the eight weeks before (at least four of them), else of the
fourteen days before (at least seven), else the day is not judged. The band around it is `threshold` spreads wide on
each side; a spread is the median absolute deviation x 1.4826 (the standard deviation, if it were a normal
distribution), but at least 5 % of the expected cost and 1 % of the usual total of all tenants, so that small changes
flag nobody.

Costs of days with 23 or 25 hours are compared per 24 hours, and the band is given for the day's real length. Only days
whose every hour is closed are judged or used as history.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from statistics import median
from typing import Any
from zoneinfo import ZoneInfo

from billing.closed import Closed, closed_part, period_document
from billing.exact import Scale, rounded
from billing.ledger_report import billing_timezone
from billing.params import period_params
from billing.periods import Period, parse_period
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql

WEEKS, LEAST_WEEKS = 8, 4
DAYS, LEAST_DAYS = 14, 7
THRESHOLD = Decimal("3.5")
"""Spreads. Source: Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993), of the modified z-score."""
_NORMAL = Fraction(14826, 10000)
_OF_EXPECTED, _OF_ALL = Fraction(1, 20), Fraction(1, 100)
_MOST_CONTRIBUTORS = 5
_MOMENT = timedelta(milliseconds=1)
UNALLOCATED = "unallocated"
ANOMALY_COLUMNS = (
    "day", "subject", "tenant", "direction", "cost", "expected", "low", "high", "score", "currency", "basis",
    "contributors",
)  # fmt: skip
"""Of a flagged day as a flat row (CSV)."""


@dataclass(frozen=True)
class Subject:
    """Whose cost it is: a tenant's ('' has no name), or the platform's unallocated capacity (then tenant is '')."""

    kind: str
    tenant: str = ""


@dataclass(frozen=True)
class DayCost:
    """What a day of the billing zone cost a subject. cost: unrounded; None: a price is missing.

    hours: the day's length (23, 24, 25).   closed: whether every hour of it is.
    """

    subject: Subject
    day: date
    hours: Fraction
    cost: Fraction | None
    closed: bool


@dataclass(frozen=True)
class Band:
    """What a day is expected to cost, unrounded. score: spreads from it, negative if below; basis: from what."""

    expected: Fraction
    low: Fraction
    high: Fraction
    score: Fraction
    basis: str


@dataclass(frozen=True)
class Contributor:
    """What cost most on a day: a workload, or for the platform a model and pool."""

    name: str
    project: str
    cost: Decimal


@dataclass(frozen=True)
class Anomaly:
    """A flagged day. subject: 'tenant' or 'unallocated'; direction: 'high' or 'low'; score: spreads from expected."""

    day: date
    subject: str
    tenant: str
    direction: str
    cost: Decimal
    expected: Decimal
    low: Decimal
    high: Decimal
    score: Decimal
    currency: str | None
    basis: str
    contributors: tuple[Contributor, ...] = ()

    def document(self) -> dict[str, Any]:
        return {**vars(self), "day": str(self.day), "contributors": [vars(one) for one in self.contributors]}

    def row(self) -> dict[str, Any]:
        """Flat, for CSV."""
        parts = "; ".join(f"{one.name} {one.cost}" for one in self.contributors)
        return {**vars(self), "day": str(self.day), "contributors": parts}


@dataclass(frozen=True)
class NotJudged:
    day: date
    subject: str
    tenant: str
    reason: str


@dataclass(frozen=True)
class AnomalyReport:
    """The answer, in the order of days. `judged_of` counts the days of each subject; `closed` is None if nothing is
    closed."""

    closed: Closed | None
    timezone: str
    currency: str | None
    threshold: Decimal
    judged_of: Mapping[Subject, int]
    flagged: tuple[Anomaly, ...]
    not_judged: tuple[NotJudged, ...]

    @property
    def judged(self) -> int:
        """How many days of a subject were judged."""
        return sum(self.judged_of.values())

    def reasons(self) -> dict[str, int]:
        """How many days of a subject were not judged, by reason."""
        return dict(Counter(one.reason for one in self.not_judged))

    def document(self) -> dict[str, Any]:
        """The answer in the shape that the command line prints as JSON."""
        return {
            "period": period_document(self.closed),
            "timezone": self.timezone,
            "currency": self.currency,
            "threshold": self.threshold,
            "judged": self.judged,
            "anomalies": [one.document() for one in self.flagged],
            "not_judged": [{**vars(one), "day": str(one.day)} for one in self.not_judged],
        }


def anomalies(store: Store, period: Period | None = None, threshold: Decimal = THRESHOLD) -> AnomalyReport:
    """The days of a period (None: all that is closed) that cost a tenant or the platform other than expected.

    Errors: LedgerError if costs of two currencies would be compared.
    """
    zone = billing_timezone(store)
    closed = closed_part(store, period)
    if closed is None:
        return AnomalyReport(None, zone, None, threshold, {}, (), ())
    period = closed.period
    first, last = (moment.astimezone(ZoneInfo(zone)).date() for moment in (period.start, period.end - _MOMENT))
    whole = Period(_day(first - timedelta(weeks=WEEKS), zone).start, _day(last, zone).end)
    costs, currency = daily_costs(store, whole)
    flagged, not_judged, judged = [], [], Counter[Subject]()
    for cost, found in judgements(costs, first, threshold):
        if isinstance(found, str):
            not_judged.append(NotJudged(cost.day, cost.subject.kind, cost.subject.tenant, found))
            continue
        judged[cost.subject] += 1
        if abs(found.score) > threshold and cost.cost is not None:
            flagged.append(_anomaly(cost, cost.cost, found, currency))
    flagged.sort(key=_order)
    not_judged.sort(key=lambda one: (one.day, one.subject, one.tenant))
    explained = _with_contributors(store, flagged, whole, zone)
    return AnomalyReport(closed, zone, currency, threshold, judged, explained, tuple(not_judged))


def judgements(
    costs: Sequence[DayCost],
    first: date,
    threshold: Decimal = THRESHOLD,
    number: Callable[[Fraction], Any] = Fraction,
    only: Set[tuple[Subject, date]] | None = None,
) -> Iterator[tuple[DayCost, Band | str]]:
    """Each day of a subject since `first` with its band, or why it is not judged; the days before are history.

    number: in what is reckoned; `float` is ten times as fast, and nearly right.   only: the days asked for.
    """
    by_subject: dict[Subject, list[DayCost]] = defaultdict(list)
    for cost in costs:
        by_subject[cost.subject].append(cost)
    totals = _totals(costs, number)
    asked = None if only is None else {subject for subject, _ in only}
    for subject, series in by_subject.items():
        if asked is not None and subject not in asked:
            continue
        past = {one.day: _per_24_hours(one, number) for one in series if one.closed and one.cost is not None}
        for cost in series:
            if cost.day >= first and (only is None or (subject, cost.day) in only):
                yield cost, judge(cost, past, totals, threshold)


def flagged_days(
    costs: Sequence[DayCost], first: date, currency: str | None, threshold: Decimal = THRESHOLD
) -> list[Anomaly]:
    """The flagged days since `first`, the most unusual amount of each day first; without their contributors.

    Floating point tells which days are near the threshold or beyond; only these are judged exactly.
    """
    near = float(threshold) * (1 - 1e-6)
    likely = {
        (cost.subject, cost.day)
        for cost, band in judgements(costs, first, threshold, float)
        if not isinstance(band, str) and abs(band.score) > near
    }
    found = [
        _anomaly(cost, cost.cost, band, currency)
        for cost, band in (judgements(costs, first, threshold, only=likely) if likely else ())
        if not isinstance(band, str) and abs(band.score) > threshold and cost.cost is not None
    ]
    return sorted(found, key=_order)


def daily_costs(store: Store, period: Period) -> tuple[list[DayCost], str | None]:
    """What each day that lies in a period and has a closed hour cost each subject, from its first day on; the currency.

    Shape:  a tenant that holds nothing on a later closed day has cost 0 then: the books say so. Days without a closed
            hour are absent.
    Errors: LedgerError if there are two currencies.
    """
    zone = billing_timezone(store)
    params = {**period_params(period), "timezone": zone}
    days = {
        day: hours
        for row in store.rows(read_sql(__file__, "closed_days"), params)
        if _within(day := date.fromisoformat(row["day"]), period, zone)
        for hours in [row["hours"]]
    }
    rows = store.rows(read_sql(__file__, "daily_costs"), params)
    currencies = {row["currency"] for row in rows if row["currencies"]}
    if len(currencies) > 1 or any(row["currencies"] > 1 for row in rows):
        raise LedgerError("ledger", f"holds prices in {' and '.join(sorted(currencies))}", "Choose another --period")
    found: dict[tuple[Subject, date], Fraction | None] = {}
    for row in rows:
        key = (Subject(UNALLOCATED) if row["is_platform"] else Subject("tenant", row["tenant"]), _date(row["day"]))
        cost = None if row["unpriced"] else Scale.of([row["device_units"]]).money(row["cost"])
        before = found.get(key, Fraction(0))
        found[key] = None if cost is None or before is None else before + cost
    # Who may not see the platform has no row of it, which are no days of it that cost nothing.
    sees_platform = any(row["is_platform"] for row in rows) or store.value(read_sql(__file__, "capacity/sees_all"))
    first: dict[Subject, date] = {Subject(UNALLOCATED): min(days)} if days and sees_platform else {}
    for subject, day in found:
        first[subject] = min(first.get(subject, day), day)
    costs = []
    for subject in sorted(first, key=lambda one: (one.kind, one.tenant)):
        for day in sorted(days):
            if day >= first[subject]:
                span = _day(day, zone)
                cost = found.get((subject, day), Fraction(0))
                costs.append(DayCost(subject, day, _hours(span), cost, days[day] == _touched_hours(span)))
    return costs, next(iter(currencies), None)


def judge(
    cost: DayCost, past: Mapping[date, Any], totals: Mapping[date, Any], threshold: Decimal = THRESHOLD
) -> Band | str:
    """The band of a day from its subject's earlier days, or why it is not judged.

    past: what the subject's closed days cost, per 24 hours; later ones do not count.
    totals: what all subjects together cost on each day, per 24 hours.
    """
    if not cost.closed:
        return "not every hour of the day is closed"
    if cost.cost is None:
        return "a price is missing"
    weekdays = [day for week in range(1, WEEKS + 1) if (day := cost.day - timedelta(weeks=week)) in past]
    recent = [day for back in range(1, DAYS + 1) if (day := cost.day - timedelta(days=back)) in past]
    if len(weekdays) >= LEAST_WEEKS:
        days, basis = weekdays, f"{len(weekdays)} earlier {cost.day:%A}s"
    elif len(recent) >= LEAST_DAYS:
        days, basis = recent, f"{len(recent)} of the {DAYS} days before"
    else:
        return f"fewer than {LEAST_DAYS} days of history"
    expected = median(past[day] for day in days)
    deviation = median(abs(past[day] - expected) for day in days) * _NORMAL
    everything = median(totals.get(day, 0) for day in days)
    spread = max(deviation, expected * _OF_EXPECTED, everything * _OF_ALL)
    if not spread:
        return "nothing cost anything before"
    length = cost.hours / 24
    reach = spread * Fraction(threshold)
    return Band(
        expected=expected * length,
        low=max(Fraction(0), expected - reach) * length,
        high=(expected + reach) * length,
        score=(cost.cost / length - expected) / spread,
        basis=basis,
    )


def _order(one: Anomaly) -> tuple[date, Decimal, str, str]:
    return one.day, -abs(one.cost - one.expected), one.subject, one.tenant


def _totals(costs: Iterable[DayCost], number: Callable[[Fraction], Any]) -> dict[date, Any]:
    totals: dict[date, Any] = defaultdict(int)
    for one in costs:
        totals[one.day] += _per_24_hours(one, number)
    return totals


def _per_24_hours(one: DayCost, number: Callable[[Fraction], Any]) -> Any:
    cost = number(one.cost or Fraction(0))
    return cost if one.hours == 24 else cost * 24 / number(one.hours)


def _anomaly(cost: DayCost, amount: Fraction, band: Band, currency: str | None) -> Anomaly:
    return Anomaly(
        day=cost.day,
        subject=cost.subject.kind,
        tenant=cost.subject.tenant,
        direction="high" if band.score > 0 else "low",
        cost=rounded(amount),
        expected=rounded(band.expected),
        low=rounded(band.low),
        high=rounded(band.high),
        score=rounded(band.score, 2),
        currency=currency,
        basis=band.basis,
    )


def _with_contributors(store: Store, flagged: Sequence[Anomaly], period: Period, zone: str) -> tuple[Anomaly, ...]:
    if not flagged:
        return ()
    params = {
        "start": period.start,
        "end": period.end,
        "timezone": zone,
        "days": [str(one.day) for one in flagged],
        "tenants": [one.tenant for one in flagged],
        "platforms": [int(one.subject == UNALLOCATED) for one in flagged],
        "most": _MOST_CONTRIBUTORS,
    }
    found: dict[tuple[str, bool, str], list[Contributor]] = defaultdict(list)
    for row in store.rows(read_sql(__file__, "contributors"), params):
        part = Contributor(row["name"], row["project"], round(row["cost"], 9))
        found[row["day"], bool(row["is_platform"]), row["tenant"]].append(part)
    return tuple(
        replace(one, contributors=tuple(found[str(one.day), one.subject == UNALLOCATED, one.tenant])) for one in flagged
    )


def _date(text: str) -> date:
    return date.fromisoformat(text)


def _day(day: date, zone: str) -> Period:
    return parse_period(str(day), zone)


def _hours(span: Period) -> Fraction:
    return Fraction((span.end - span.start) // timedelta(seconds=1), 3600)


def _touched_hours(span: Period) -> int:
    """Hours of UTC that the day has a part in."""
    return -(-int(span.end.timestamp()) // 3600) - int(span.start.timestamp()) // 3600


def _within(day: date, period: Period, zone: str) -> bool:
    """Whether the whole day is in the period, so that its cost is not a part of it."""
    span = _day(day, zone)
    return span.start >= period.start and span.end <= period.end
