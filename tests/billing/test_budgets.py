"""Budgets on ledgers typed here: the hour in which a threshold is crossed, forecasts, and how far they were off."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from time import process_time
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing import audit
from billing.accounts.budget_file import BudgetError, apply_budgets, current_budgets, load_budgets, parse_budgets
from billing.accounts.budgets import BudgetState, State, budget_states, last_spent
from billing.accounts.forecast import (
    BAND_DAYS,
    DAY,
    LEAST_TRIALS,
    MeasuredError,
    band,
    complete_days,
    forecast,
    is_blind,
    known_since,
    measured_error,
    path,
    per_day,
)
from billing.periods import Period, midnight, parse_month
from tests.billing.account_books import hours, without_prices
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from tests.draws import dice_of
from warehouse.store import Store

D = Decimal
UTC_ZONE, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
NOW = at("2026-10-06 06:30")


@pytest.fixture
def accounts(books: Store) -> Store:
    return without_prices(books)


def budgets(store: Store, *rules: dict[str, Any], **keys: Any) -> None:
    apply_budgets(store, parse_budgets({"currency": "EUR", "budgets": list(rules), **keys}), "me", "", NOW)


def states(store: Store, month: str = "2026-10", now: datetime = NOW) -> list[BudgetState]:
    return budget_states(store, month, now)


def crossed(state: BudgetState) -> list[tuple[str, datetime | None]]:
    return [(f"{one.percent} {one.of}", one.crossed_at) for one in state.thresholds]


# --- thresholds ------------------------------------------------------------------------------------------------------


def test_a_threshold_is_crossed_in_the_hour_and_minute_in_which_the_cost_reaches_it(accounts: Store) -> None:
    fill(
        accounts,
        [
            *hours("2026-10-05 10:00", 4, project="qcd"),
            Row(at("2026-10-05 11:30"), "physics", "bsm", device="gpu-1", used=str(HOUR_MS // 2)),
        ],
        closed=[at("2026-10-06 05:00")],
    )
    marks = [{"percent": percent} for percent in ("20", "35", "80", "90.000001", "100")]
    budgets(
        accounts,
        {"tenant": "physics", "amount": "10.00", "thresholds": marks},
        {"tenant": "physics", "project": "qcd", "amount": "6.00", "thresholds": [{"percent": "100"}]},
    )
    whole, project = states(accounts)
    assert crossed(whole) == [
        ("20 actual", at("2026-10-05 11:00")),  # 2.00, reached when the first hour is over
        ("35 actual", at("2026-10-05 11:37:30")),  # 3.00 at half past, then 4.00 an hour
        ("80 actual", at("2026-10-05 13:30")),  # 5.00 at noon, then 2.00 an hour
        ("90.000001 actual", None),  # 9.00 were spent
        ("100 actual", None),
    ]
    assert (whole.actual, whole.percent, whole.known_until) == (D("9"), D("90.00"), at("2026-10-06 06:00"))
    assert crossed(project) == [("100 actual", at("2026-10-05 13:00"))]
    assert (project.actual, project.percent) == (D("8"), D("133.33"))
    assert project.state is State.over


def test_exactly_the_budget_is_not_over_it(accounts: Store) -> None:
    fill(accounts, hours("2026-10-30 10:00", 3), closed=[at("2026-10-31 23:00")])
    end = at("2026-11-02 00:00")
    budgets(accounts, {"tenant": "physics", "amount": "6.00"}, {"tenant": "physics-lab", "amount": "6.00"})
    spent, nothing = states(accounts, now=end)
    assert (spent.state, spent.forecast, spent.is_estimate) == (State.warning, D("6.00"), False)
    assert (nothing.state, nothing.actual, nothing.percent) == (State.ok, D("0"), D("0.00"))
    budgets(accounts, {"tenant": "physics", "amount": "5.999999999", "effective_to": "2026-11"})
    assert states(accounts, now=end)[0].state is State.over
    assert states(accounts, "2026-11", end) == []


def test_a_budget_that_has_ended_was_spent_in_its_last_month(accounts: Store) -> None:
    fill(accounts, hours("2026-10-30 10:00", 3), closed=[at("2026-10-31 23:00")])
    ended = {"tenant": "physics", "amount": "5.00", "effective_to": "2026-11"}
    budgets(
        accounts,
        ended,
        {"tenant": "physics", "amount": "9.00", "effective_from": "2026-11"},
        {"tenant": "physics-lab", "amount": "1.00", "effective_from": "2026-08", "effective_to": "2026-09"},
        {"tenant": "physics-lab", "amount": "1.00", "effective_from": "2026-11", "effective_to": "2026-12"},
    )
    applied = current_budgets(accounts)
    assert applied is not None
    spent = last_spent(accounts, applied.file, "2026-12")
    assert spent == {applied.file.budgets[0]: D("6")}, "before and after the books nothing is known"
    assert last_spent(accounts, applied.file, "2026-10") == {}, "it has not ended"


def test_the_month_is_cut_in_the_billing_zone(books: Store) -> None:
    store = without_prices(books, "Asia/Kolkata")
    half = {"used": str(HOUR_MS // 2)}
    fill(
        store,
        [
            Row(at("2026-09-30 18:00"), "physics", device="gpu-9", **half),  # September, until 18:30
            Row(at("2026-09-30 18:30"), "physics", **half),
            *hours("2026-09-30 19:00", 2),
        ],
    )
    store.command(
        "ALTER TABLE ledger_entries UPDATE charge_period_end = toDateTime64('2026-09-30 18:30:00', 3, 'UTC') "
        "WHERE device_id = 'gpu-9' SETTINGS mutations_sync = 1"
    )
    budgets(store, {"tenant": "physics", "amount": "4.00", "thresholds": [{"percent": "50"}]})
    (state,) = states(store)
    assert state.actual == D("5")
    assert crossed(state) == [("50 actual", at("2026-09-30 19:30"))]  # 1.00 by 19:00, then 2.00 an hour


def test_what_has_no_price_is_unknown_and_not_zero(accounts: Store) -> None:
    fill(
        accounts,
        [*hours("2026-10-05 10:00", 1, price=None), *hours("2026-10-05 10:00", 1, tenant="half", device="gpu-1")],
    )
    fill(accounts, [Row(at("2026-10-05 11:00"), "half", used=str(HOUR_MS), price=None)], closed=[])
    budgets(accounts, {"tenant": "physics", "amount": "1"}, {"tenant": "half", "amount": "1"})
    nothing, half = states(accounts)
    assert (nothing.actual, nothing.forecast, nothing.state) == (None, None, State.unknown)
    assert (half.actual, half.forecast, half.state) == (D("2"), None, State.over)
    assert (nothing.unpriced_gpu_hours, half.unpriced_gpu_hours) == (D("1"), D("1"))
    budgets(accounts, {"tenant": "half", "amount": "5"})
    (november,) = states(accounts, "2026-11")  # no hour of it is closed
    assert (november.state, november.actual, november.forecast, november.is_estimate) == (
        State.unknown,
        None,
        None,
        True,
    )
    assert (november.known_until, november.percent, november.burn_per_day) == (None, None, None)
    assert crossed(november) == [("80 actual", None), ("100 actual", None), ("100 forecast", None)]


# --- forecasts -------------------------------------------------------------------------------------------------------


def test_a_constant_month_is_forecast_without_error_also_where_clocks_change(books: Store) -> None:
    store = without_prices(books, "Europe/Berlin")
    first, now = at("2026-08-31 22:00"), at("2026-11-16 12:00")
    fill(store, hours("2026-08-31 22:00", int((now - first) / timedelta(hours=1))))
    budgets(store, {"tenant": "physics", "amount": "1439.99"})
    (november,) = states(store, "2026-11", now)
    assert november.forecast == D("1440.00")  # 720 hours
    assert (november.burn_per_day, november.is_estimate) == (D("48.00"), True)
    assert november.error == MeasuredError(D("0.0000"), D("0.0000"), 2)  # September, and October with 745 hours
    assert november.state is State.forecast_over
    assert dict(crossed(november))["100 forecast"] == at("2026-10-31 23:00")
    assert dict(crossed(november))["100 actual"] is None
    (october,) = states(store, "2026-10", now)
    assert (october.actual, october.forecast, october.is_estimate) == (D("1490"), D("1490.00"), False)
    assert october.error.months == 1


def test_without_a_past_month_there_is_no_error_and_without_a_full_day_the_hours_speak(accounts: Store) -> None:
    fill(accounts, hours("2026-10-05 12:00", 6))
    budgets(accounts, {"tenant": "physics", "amount": "1000"})
    (state,) = states(accounts)
    assert state.error == MeasuredError(None, None, 0)
    assert state.burn_per_day is None
    assert state.forecast == D("12.00") + 2 * (6 + 26 * 24)  # until the end of the 5th, then 26 days


def test_the_instant_of_a_forecast_threshold_is_the_midnight_since_which_it_stays_crossed(accounts: Store) -> None:
    quiet = hours("2026-09-01 00:00", 30 * 24 + 4 * 24)  # until 5 October
    busy = [
        row
        for gpu in range(3)
        for row in hours("2026-10-05 00:00", 3 * 24, device=f"gpu-{gpu}")  # 5, 6, 7 October: three GPUs
    ]
    fill(accounts, [*quiet, *busy])
    budgets(accounts, {"tenant": "physics", "amount": "1600", "thresholds": [{"percent": "100", "of": "forecast"}]})
    (state,) = states(accounts, now=at("2026-10-08 00:00"))
    # 5 October (Monday) at midnight: 1488. On the 6th 96 more were spent, and three Mondays are left at
    # (3 x 48 + 144) / 4 = 72 instead of 48: 1488 + 96 + 72 = 1656.
    assert crossed(state) == [("100 forecast", at("2026-10-06 00:00"))]
    assert state.forecast == D("1488") + 3 * 96 + 3 * 3 * 24
    assert state.burn_per_day == D("89.14")  # (4 x 48 + 3 x 144) / 7


def test_weekends_repeat_and_a_new_level_is_seen_as_an_error() -> None:
    first = date(2026, 8, 31)  # a Monday
    week = {first + number * DAY: 0 if (first + number * DAY).weekday() > 4 else 100 for number in range(70)}
    october = parse_month("2026-10", "UTC")
    known = midnight(first, UTC_ZONE)
    assert forecast(week, known, midnight(date(2026, 10, 3), UTC_ZONE), october, UTC_ZONE) == 2200  # 22 weekdays
    twice = {day: cost * (2 if day.month == 10 else 1) for day, cost in week.items()}
    # After day 10 the last four Mondays to Wednesdays cost 125 on average, Thursdays and Fridays 150; three of each are
    # left: 9 x 125 + 6 x 150 = 2025 where 15 x 200 came; off by 975 of 4400.
    error = measured_error(twice, known, [october], UTC_ZONE)
    assert (error.day_10, error.months) == (D("0.2216"), 1)


def test_a_day_counts_as_complete_if_it_is_known_from_its_first_instant() -> None:
    until, zone = at("2026-10-08 12:00"), UTC_ZONE
    assert [day.day for day in complete_days(at("2026-10-01 00:00"), until, zone, 7)] == [1, 2, 3, 4, 5, 6, 7]
    late = at("2026-10-01 00:00") + timedelta(milliseconds=1)
    assert [day.day for day in complete_days(late, until, zone, 7)] == [2, 3, 4, 5, 6, 7]
    assert [day.day for day in complete_days(at("2026-09-01 00:00"), until, zone, 2)] == [6, 7]
    costs = {date(2026, 10, day): day for day in range(1, 9)}
    assert per_day(costs, at("2026-10-06 00:00"), until, zone) == Fraction(13, 2)  # of the two that are known
    assert per_day(costs, at("2026-10-08 00:00"), until, zone) is None


def test_days_of_23_and_25_hours_are_worth_what_they_last() -> None:
    for month, total in (("2026-10", 745), ("2026-03", 743)):
        period = parse_month(month, "Europe/Berlin")
        first = date.fromisoformat(f"{month}-01")
        costs = {first + number * DAY: 24 for number in range(10)}
        until = midnight(first + 10 * DAY, BERLIN)
        assert forecast(costs, period.start, until, period, BERLIN) == total


def test_before_the_month_and_after_it() -> None:
    october = parse_month("2026-10", "UTC")
    costs = {date(2026, 9, 1) + number * DAY: 24 for number in range(61)}
    assert forecast(costs, at("2026-09-01"), at("2026-09-20"), october, UTC_ZONE) == 31 * 24
    assert forecast(costs, at("2026-09-01"), at("2026-12-01"), october, UTC_ZONE) == 31 * 24
    assert forecast({}, at("2026-10-05"), at("2026-10-05"), october, UTC_ZONE) is None
    assert measured_error({}, at("2026-09-01"), [october], UTC_ZONE) == MeasuredError(None, None, 0)


# --- the file --------------------------------------------------------------------------------------------------------

HEAD = "currency: EUR\nbudgets:\n  - tenant: physics\n    "


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "amount: 100", r"budgets\[0\]\.amount: found 100; write it in quotes"),
        (HEAD + 'amount: "0"', r"budgets\[0\]\.amount: found '0'; Input should be greater than 0"),
        (HEAD + 'amount: "-5"', "not negative"),
        (HEAD + 'amount: "5"\n    effective_from: 2026-10-01', "effective_from"),
        (HEAD + 'amount: "5"\n    effective_from: 2026-13', "found '2026-13'; expected a month such as 2026-10"),
        (HEAD + 'amount: "5"\n    thresholds: [{percent: 80}]', r"thresholds\[0\]\.percent: found 80; write it"),
        (HEAD + 'amount: "5"\n    thresholds: [{percent: "80", at: x}]', "unknown key; known here: percent, of"),
        (HEAD + 'amount: "5"\n    thresholds: [{percent: "80"}, {percent: "80.0"}]', "two thresholds are the same"),
        (HEAD + 'amount: "5"\n    queue: q', "queue: unknown key; known here: effective_from, effective_to, tenant"),
        (HEAD + 'amount: "5"\n  - {tenant: physics, amount: "6"}', r"budgets\[0\] and budgets\[1\] are about the same"),
        ('currency: EUR\nlow_balances: [{tenant: a, amount: "1"}, {tenant: a, amount: "2"}]', "'a' twice"),
        ("currency: EUR\nbudgets: 5", "budgets: found 5; expected a list"),
        ("currency: eur", "currency: found 'eur'"),
        ("- 1", "not a budgets file"),
        ("a: [", "not YAML"),
    ],
)
def test_a_file_that_does_not_fit_is_one_line_with_the_key_and_what_fits(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "budgets.yaml").write_text(text)
    with pytest.raises(BudgetError, match=says) as caught:
        load_budgets(tmp_path / "budgets.yaml")
    assert "\n" not in str(caught.value)


def test_budgets_that_follow_each_other_and_a_projects_beside_the_tenants_are_no_rivals() -> None:
    parse_budgets(
        {
            "currency": "EUR",
            "budgets": [
                {"tenant": "a", "amount": "1", "effective_to": "2026-10"},
                {"tenant": "a", "amount": "2", "effective_from": "2026-10"},
                {"tenant": "a", "project": "p", "amount": "2"},
                {"tenant": "a-lab", "amount": "2"},
            ],
        }
    )


def test_ten_thousand_budgets_are_read_in_a_moment() -> None:
    """As found: each was compared with each other one, which took minutes, and did so whenever budgets were read."""
    rows = [{"tenant": f"t{number}", "amount": "1.00", "effective_from": "2026-10"} for number in range(10_000)]
    began = process_time()
    assert len(parse_budgets({"currency": "EUR", "budgets": rows}).budgets) == 10_000
    assert process_time() - began < 10
    with pytest.raises(BudgetError, match=r"budgets\[7\] and budgets\[10000\] are about the same months of 't7'"):
        parse_budgets({"currency": "EUR", "budgets": [*rows, rows[7]]})


def test_applying_keeps_author_and_reason_and_the_same_file_again_changes_nothing(accounts: Store) -> None:
    assert current_budgets(accounts) is None
    assert states(accounts) == []
    one = parse_budgets({"currency": "EUR", "budgets": [{"tenant": "a", "amount": "1.50", "owner": "x@example.org"}]})
    other = parse_budgets({"currency": "EUR", "low_balances": [{"tenant": "a", "amount": "5"}]})
    for file in (one, one, other, one):
        apply_budgets(accounts, file, "o'brien", "研发", NOW)
    applied = current_budgets(accounts)
    assert applied is not None
    assert (applied.file, applied.version, applied.author, applied.reason) == (one, one.version, "o'brien", "研发")
    assert accounts.value("SELECT count() AS n FROM budgets") == 3
    assert {entry["action"] for entry in audit.history(accounts, "budgets")} == {"budgets.apply"}
    with pytest.raises(BudgetError, match="found USD, but the rate card is in EUR"):
        apply_budgets(
            accounts, parse_budgets({"currency": "USD", "budgets": [{"tenant": "a", "amount": "1"}]}), "", "", NOW
        )


def test_a_ledger_in_another_currency_is_refused(accounts: Store) -> None:
    fill(accounts, hours("2026-10-05 10:00", 1, currency="USD"))
    budgets(accounts, {"tenant": "physics", "amount": "1"})
    with pytest.raises(BudgetError, match="are in EUR, the ledger in USD"):
        states(accounts)


def ratios_of(
    costs: dict[date, int], known_from: datetime, until: datetime, month: Period, zone: ZoneInfo
) -> list[Fraction] | None:
    """By brute force: what the days after each past midnight cost, beside what `forecast` would have said of them."""
    today, first = until.astimezone(zone).date(), month.start.astimezone(zone).date()
    end = month.end.astimezone(zone).date()
    since = max(known_from, midnight(first - BAND_DAYS * DAY, zone))
    for ahead in range((end - max(today, first)).days, 0, -1):
        found = []
        for back in range(120, 0, -1):
            start = today - back * DAY
            span = Period(midnight(start, zone), midnight(start + ahead * DAY, zone))
            if midnight(start - 7 * DAY, zone) < since or span.end > until:
                continue
            said = forecast(costs, since, span.start, span, zone)
            if said:
                found.append(sum(costs.get(start + number * DAY, 0) for number in range(ahead)) / said)
        if len(found) >= LEAST_TRIALS:
            return found
    return None


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kolkata"])
def test_the_band_holds_four_of_five_past_trials_and_the_forecast(name: str) -> None:
    zone, dice = ZoneInfo(name), dice_of(None)
    unknown = 0
    for _ in range(12):
        month = parse_month(dice.choice(("2026-11", "2026-10", "2018-11", "2026-03")), name)
        first = month.start.astimezone(zone).date()
        known_from = month.start - timedelta(hours=dice.randrange(-200, 80 * 24))
        until = month.start + timedelta(hours=dice.randrange(1, 28 * 24))
        if known_from >= until:
            continue
        days = [first + number * DAY for number in range(-90, 31)]
        costs = {day: dice.choice((0, 5, 100, 130)) for day in days
                 if midnight(day + DAY, zone) > known_from and midnight(day, zone) < until}  # fmt: skip
        found, trials = band(costs, known_from, until, month, zone), ratios_of(costs, known_from, until, month, zone)
        if found is None or trials is None:
            assert found is None
            assert trials is None
            unknown += 1
            continue
        so_far = sum(cost for day, cost in costs.items() if midnight(day, zone) >= month.start)
        ends = forecast(costs, known_from, until, month, zone)
        assert ends is not None
        rest, (low, high) = ends - so_far, found
        assert low <= ends <= high
        within = sum(low <= so_far + ratio * rest <= high for ratio in trials)
        assert within >= Fraction(4, 5) * len(trials)
        ordered = sorted(trials)
        tenth = len(trials) // 10
        assert low == so_far + rest * min(Fraction(1), ordered[tenth])
        assert high == so_far + rest * max(Fraction(1), ordered[len(trials) - 1 - tenth])
        assert list(path(costs, known_from, until, month, zone).values())[-1] == ends
    assert unknown < 12


def test_the_band_of_a_month_that_is_over_is_its_cost_and_of_a_short_past_unknown() -> None:
    october = parse_month("2026-10", "UTC")
    costs, whole = {date(2026, 9, 15) + number * DAY: 100 for number in range(47)}, Fraction(3100)
    assert band(costs, at("2026-09-15 00:00"), october.end, october, UTC_ZONE) == (whole, whole)
    until = at("2026-10-05 00:00")
    assert band(costs, at("2026-09-21 00:00"), until, october, UTC_ZONE) == (
        whole,
        whole,
    )  # seven trials of one day each
    assert band(costs, at("2026-09-21 01:00"), until, october, UTC_ZONE) is None


def test_days_of_unknown_cost_blind_a_forecast_that_rests_on_them_and_bound_the_band() -> None:
    october, until = parse_month("2026-10", "UTC"), at("2026-10-20 12:00")
    assert is_blind([date(2026, 9, 22)], until, october, UTC_ZONE)
    assert not is_blind([date(2026, 9, 21)], until, october, UTC_ZONE)
    assert is_blind([date(2026, 10, 1)], october.end, october, UTC_ZONE)
    assert known_since(at("2026-09-01 05:00"), [date(2026, 9, 3)], UTC_ZONE) == at("2026-09-04 00:00")
    assert known_since(at("2026-09-01 05:00"), [], UTC_ZONE) == at("2026-09-01 05:00")
