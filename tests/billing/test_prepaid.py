"""Prepaid balances on ledgers typed here: who pays first, what expires, and the minute in which nothing is left."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from math import ceil
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import audit
from billing.accounts import prepaid
from billing.accounts.credits import CreditError
from billing.accounts.drawing import draw, in_order, pieces
from billing.accounts.prepaid import (
    Balance,
    BalanceState,
    Draw,
    Grant,
    add_grant,
    balances,
    draw_down,
    grant_id,
    grants_of,
    revoke_grant,
)
from tests.billing.account_books import NOW, hours, issue, void, without_prices
from tests.billing.hand_ledger import HOUR_MS, Row, at, close, fill
from tests.draws import drawn_seed
from warehouse.chain import head
from warehouse.store import Store

D = Decimal
YEAR_END = at("2027-01-01 00:00")
OCTOBER, NOVEMBER = at("2026-10-01 00:00"), at("2026-11-01 00:00")
BALANCES = int(os.environ.get("GPULEDGER_BALANCES", "1"))
"""Random grants of which the balance is looked at; ad hoc many more."""


@pytest.fixture
def accounts(books: Store) -> Store:
    return without_prices(books)


def grant(
    store: Store, name: str, amount: str, expires: datetime = YEAR_END, start: str = "2026-10-01 00:00", **more: str
) -> Grant:
    given = Grant(name, more.get("tenant", "physics"), D(amount), "EUR", at(start), expires, "me", "paid in advance")
    assert add_grant(store, given, NOW)
    return given


def balance(store: Store, now: datetime = NOW, **low_below: Decimal) -> Balance:
    (one,) = balances(store, now, "physics", {(name, "EUR"): low for name, low in low_below.items()})
    assert one.granted - one.drawn - one.expired == one.balance
    assert one.balance - one.running == one.available
    return one


# --- when nothing is left --------------------------------------------------------------------------------------------


def test_a_balance_is_exhausted_mid_hour_where_a_second_gpu_had_joined_at_half_past(accounts: Store) -> None:
    fill(
        accounts,
        [
            *hours("2026-10-05 10:00", 3, project="qcd"),
            Row(at("2026-10-05 11:30"), "physics", "bsm", device="gpu-1", used=str(HOUR_MS // 2)),
        ],
    )
    grant(accounts, "g", "3.50")
    # 2.00 until 11:00; 1.00 until 11:30; then 4.00 an hour: the last 0.50 are 7.5 minutes.
    one = balance(accounts)
    assert one.exhausted_at == at("2026-10-05 11:37:30")
    assert (one.running, one.available, one.state) == (D("3.50"), D("0.00"), BalanceState.exhausted)
    assert one.known_until == at("2026-10-05 13:00")


def test_the_millisecond_counts_where_devices_have_sevenths_and_a_price_of_nine_digits(accounts: Store) -> None:
    fill(accounts, hours("2026-10-05 10:00", 2, units=7, used=str(3 * HOUR_MS), price="0.700000001"))
    grant(accounts, "g", "0.40")
    rate = Fraction("0.700000001") * 3 / 7 / HOUR_MS
    whole_ms = -(-Fraction("0.40") // rate)
    assert balance(accounts).exhausted_at == at("2026-10-05 10:00") + int(whole_ms) * timedelta(milliseconds=1)


def test_a_balance_that_is_used_up_to_the_last_cent_by_the_end_of_an_hour_is_exhausted_then(accounts: Store) -> None:
    fill(accounts, [*hours("2026-10-05 10:00", 3), *hours("2026-10-06 10:00", 1)])
    grant(accounts, "g", "6.00")
    assert balance(accounts).exhausted_at == at("2026-10-05 13:00")


def test_other_tenants_and_the_platform_use_up_nothing(accounts: Store) -> None:
    fill(
        accounts,
        [
            *hours("2026-10-05 10:00", 9, tenant="physics-lab"),
            *hours("2026-10-05 10:00", 9, tenant="", device="gpu-2", used="0", unallocated=HOUR_MS),
            *hours("2026-10-05 10:00", 1, device="gpu-1"),
        ],
    )
    grant(accounts, "g", "3.00")
    one = balance(accounts)
    assert (one.running, one.exhausted_at, one.state) == (D("2.00"), None, BalanceState.ok)


def test_money_that_comes_after_the_exhaustion_takes_it_back(accounts: Store) -> None:
    fill(accounts, [*hours("2026-10-05 10:00", 3), *hours("2026-10-20 10:00", 1)])
    grant(accounts, "first", "5.00")
    assert balance(accounts).exhausted_at == at("2026-10-05 12:30")
    grant(accounts, "second", "3.00", start="2026-10-10 00:00")
    one = balance(accounts)
    assert (one.running, one.available, one.exhausted_at) == (D("7.00"), D("1.00"), None)  # 5.00, and 2.00 of the 20th


def test_a_grant_pays_from_its_first_instant_also_in_the_middle_of_an_hour(accounts: Store) -> None:
    fill(accounts, hours("2026-10-05 10:00", 3))
    grant(accounts, "g", "2.00", start="2026-10-05 10:30:18.250")
    assert balance(accounts).exhausted_at == at("2026-10-05 11:30:18.250")


def test_a_grant_of_months_ago_pays_in_each_month_for_that_month_alone(accounts: Store) -> None:
    """Two months at 2.00 an hour; the grants start before them, or expire after them."""
    fill(accounts, [*hours("2026-09-05 10:00", 3), *hours("2026-10-05 10:00", 3)], closed=[at("2026-10-24 23:00")])
    grant(accounts, "old", "20.00", start="2026-08-10 00:00")
    grant(accounts, "later", "20.00", start="2026-09-20 00:00", expires=at("2027-02-01 00:00"))
    assert balance(accounts).running == D("12.00")
    issue(accounts, "2026-09", "6.00", {"old": "6.00"})
    assert (balance(accounts).drawn, balance(accounts).running) == (D("6.00"), D("6.00"))


def test_the_next_to_expire_is_a_grant_that_has_something_left(accounts: Store) -> None:
    """Of the first a fifth is left after September; October's invoice draws it before October is known."""
    soon = at("2026-12-01 00:00")
    grant(accounts, "soon", "5.00", start="2026-09-01 00:00", expires=soon)
    grant(accounts, "late", "10.00", start="2026-09-01 00:00")
    fill(accounts, hours("2026-09-05 10:00", 2))
    issue(accounts, "2026-09", "4.00", {"soon": "4.00"})
    assert balance(accounts).next_expiry == soon
    issue(accounts, "2026-10", "1.00", {"soon": "1.00"})
    assert balance(accounts).next_expiry == YEAR_END


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 40)), max_size=5), st.integers(0, 40), st.integers(1, 40))
def test_pieces_are_the_span_cut_where_other_grants_pay(spans: list[tuple[int, int]], start: int, length: int) -> None:
    day = [at("2026-09-01 00:00") + timedelta(n) for n in range(81)]
    grants = [Grant(str(n), "t", D(1), "EUR", day[a], day[a + b]) for n, (a, b) in enumerate(spans)]

    def paying(instant: datetime) -> list[str]:
        return [one.id for one in grants if one.pays_at(instant)]

    found = pieces(grants, day[start], day[start + length])
    assert [one for first, last in found for one in day if first <= one < last] == day[start : start + length]
    for first, last in found:
        assert len({tuple(paying(one)) for one in day if first <= one < last}) == 1


def test_a_balance_exhausted_in_a_month_that_is_issued_by_now_was_so_at_the_same_instant(accounts: Store) -> None:
    fill(accounts, hours("2026-09-05 10:00", 4), closed=[at("2026-10-24 23:00")])
    grant(accounts, "g", "3.00", start="2026-09-01 00:00")
    before = balance(accounts)
    issue(accounts, "2026-09", "8.00", {"g": "3.00"})
    after = balance(accounts)
    assert before.exhausted_at == after.exhausted_at == at("2026-09-05 11:30")
    assert (after.drawn, after.running, after.state) == (D("3.00"), D("0.00"), BalanceState.exhausted)


def test_a_month_that_a_later_invoice_bills_runs_up_nothing_any_more(accounts: Store) -> None:
    """The grant paid for September alone, which October's invoice has among its corrections: it expired unused."""
    fill(accounts, hours("2026-09-05 10:00", 4), closed=[at("2026-10-24 23:00")])
    grant(accounts, "g", "3.00", start="2026-09-01 00:00", expires=at("2026-09-20 00:00"))
    assert (balance(accounts).running, balance(accounts).expired) == (D("3.00"), D("0.00"))
    correction = {"charge_class": "Correction", "reference": {"invoice": None, "month": "2026-09"}}
    billed = {"charge_class": "Correction", "reference": {"invoice": "GL-1", "month": "2026-08"}}
    usage = {"charge_class": None, "reference": None}
    number = issue(accounts, "2026-10", "8.00", lines=[usage, billed, correction, correction])
    one = balance(accounts)
    assert (one.drawn, one.running, one.expired, one.available) == (D("0.00"), D("0.00"), D("3.00"), D("0.00"))
    assert one.exhausted_at is None
    void(accounts, number)
    assert balance(accounts).running == D("3.00")


def test_an_open_month_runs_up_no_more_than_a_later_month_s_invoice_left(accounts: Store) -> None:
    fill(accounts, [*hours("2026-09-05 10:00", 3), *hours("2026-10-05 10:00", 3)], closed=[at("2026-10-24 23:00")])
    grant(accounts, "g", "5.00", start="2026-09-01 00:00")
    issue(accounts, "2026-10", "6.00", {"g": "4.00"})
    one = balance(accounts)
    assert (one.drawn, one.running, one.available) == (D("4.00"), D("1.00"), D("0.00"))
    assert one.exhausted_at == at("2026-10-05 12:00")
    assert draw_down(accounts, "physics", OCTOBER, D("6.00"), "EUR") == [Draw("g", D("1.00"))]


def test_low_is_at_the_threshold_or_below(accounts: Store) -> None:
    fill(accounts, hours("2026-10-05 10:00", 3))
    grant(accounts, "g", "10.00")
    assert balance(accounts, physics=D("3.99")).state is BalanceState.ok
    assert balance(accounts, physics=D("4.00")).state is BalanceState.low
    assert balance(accounts, physics=D("4.00")).low_below == D("4.00")


def test_before_anything_is_closed_the_running_charges_are_none_and_known_until_says_so(accounts: Store) -> None:
    grant(accounts, "g", "10.00")
    one = balance(accounts)
    assert (one.running, one.available, one.known_until) == (D("0.00"), D("10.00"), None)


# --- expiry and order ------------------------------------------------------------------------------------------------


def test_a_grant_that_expires_mid_month_pays_for_what_accrued_before(accounts: Store) -> None:
    fill(accounts, [*hours("2026-10-05 00:00", 10), *hours("2026-10-20 00:00", 10)], closed=[at("2026-10-31 23:00")])
    grant(accounts, "short", "100.00", expires=at("2026-10-10 00:00"))
    grant(accounts, "long", "5.00")
    one = balance(accounts)
    assert (one.granted, one.drawn, one.expired, one.balance) == (D("105.00"), D("0.00"), D("80.00"), D("25.00"))
    assert (one.running, one.available, one.exhausted_at) == (D("25.00"), D("0.00"), at("2026-10-20 02:30"))
    assert draw_down(accounts, "physics", NOVEMBER, D("40.00"), "EUR") == [
        Draw("short", D("20.00")),
        Draw("long", D("5.00")),
    ]
    # A discount of half: what is due accrues as the charges did, 10.00 before the 10th.
    assert draw_down(accounts, "physics", NOVEMBER, D("20.00"), "EUR") == [
        Draw("short", D("10.00")),
        Draw("long", D("5.00")),
    ]
    issue(accounts, "2026-10", "40.00", {"short": "20.00", "long": "5.00"})
    one = balance(accounts, at("2026-11-03 00:00"))
    assert (one.granted, one.drawn, one.expired, one.balance) == (D("105.00"), D("25.00"), D("80.00"), D("0.00"))


def test_an_hour_in_which_a_grant_expires_is_split(accounts: Store) -> None:
    fill(accounts, hours("2026-10-05 10:00", 1))
    grant(accounts, "short", "9.00", expires=at("2026-10-05 10:15"))
    one = balance(accounts)
    assert (one.running, one.expired, one.available) == (D("0.50"), D("8.50"), D("0.00"))
    assert one.exhausted_at is None  # it expired; nobody used it up


def test_the_soonest_to_expire_pays_first_then_the_older(accounts: Store) -> None:
    fill(accounts, hours("2026-10-05 00:00", 20))
    grant(accounts, "c-later", "10.00", expires=at("2027-02-01 00:00"), start="2026-01-01 00:00")
    grant(accounts, "b-younger", "10.00", start="2026-09-02 00:00")
    grant(accounts, "a-youngest", "10.00", start="2026-10-01 00:00")
    grant(accounts, "d-older", "10.00", start="2026-09-01 00:00")
    assert [one.id for one in grants_of(accounts)] == ["d-older", "b-younger", "a-youngest", "c-later"]
    assert draw_down(accounts, "physics", NOVEMBER, D("35.00"), "EUR") == [
        Draw("d-older", D("10.00")),
        Draw("b-younger", D("10.00")),
        Draw("a-youngest", D("10.00")),
        Draw("c-later", D("5.00")),
    ]


def test_the_order_of_drawing_does_not_depend_on_the_order_of_granting() -> None:
    """What expires first; of that, what started first; of that, by id."""

    def one(id: str, start: str, expires: str) -> Grant:
        return Grant(id, "t", D("1"), "EUR", at(start), at(expires))

    wanted = [
        one("z", "2026-09-03 00:00", "2026-12-01 00:00"),
        one("y", "2026-09-01 00:00", "2027-01-01 00:00"),
        one("b", "2026-09-02 00:00", "2027-01-01 00:00"),
        one("c", "2026-09-02 00:00", "2027-01-01 00:00"),
    ]
    for mixed in permutations(wanted):
        assert in_order(mixed) == wanted


def test_no_grant_gives_twice_and_a_void_invoice_gives_back(accounts: Store) -> None:
    fill(accounts, hours("2026-09-05 00:00", 5))
    grant(accounts, "g", "12.00", start="2026-09-01 00:00")
    number = issue(accounts, "2026-09", "10.00", {"g": "10.00"})
    assert draw_down(accounts, "physics", NOVEMBER, D("7.00"), "EUR") == [Draw("g", D("2.00"))]
    assert balance(accounts).drawn == D("10.00")
    void(accounts, number)
    assert draw_down(accounts, "physics", NOVEMBER, D("7.00"), "EUR") == [Draw("g", D("7.00"))]
    one = balance(accounts)
    assert (one.drawn, one.running) == (D("0.00"), D("10.00"))  # the month is open again


def test_a_month_without_charges_accrues_evenly(accounts: Store) -> None:
    close(accounts, [at("2026-10-31 23:00")])
    grant(accounts, "g", "100.00", expires=at("2026-10-11 00:00"))
    assert draw_down(accounts, "physics", NOVEMBER, D("31.00"), "EUR") == [Draw("g", D("10.00"))]  # ten days of 31


def test_nothing_due_or_another_currency_or_another_month_draws_nothing(accounts: Store) -> None:
    grant(accounts, "g", "100.00")
    assert draw_down(accounts, "physics", NOVEMBER, D("0.00"), "EUR") == []
    assert draw_down(accounts, "physics", NOVEMBER, D("-4.00"), "EUR") == []
    assert draw_down(accounts, "physics", NOVEMBER, D("4.00"), "USD") == []
    assert draw_down(accounts, "physics-lab", NOVEMBER, D("4.00"), "EUR") == []
    assert draw_down(accounts, "physics", at("2026-10-01 00:00"), D("4.00"), "EUR") == []


def test_a_grant_until_local_november_pays_for_the_25th_hour_of_a_berlin_sunday_and_no_more(books: Store) -> None:
    store = without_prices(books, "Europe/Berlin")
    fill(store, hours("2026-10-24 22:00", 26))  # 25 October has 25 hours, one is of the 26th
    grant(store, "day", "100.00", start="2026-10-24 22:00", expires=at("2026-10-25 23:00"))
    assert balance(store, at("2026-10-28 00:00")).running == D("50.00")
    end = at("2026-10-31 23:00")
    assert draw_down(store, "physics", end, D("52.00"), "EUR") == [Draw("day", D("50.00"))]


# --- granting --------------------------------------------------------------------------------------------------------


def test_granting_the_same_twice_changes_nothing_and_is_noted_once(accounts: Store) -> None:
    given = grant(accounts, "g", "10.00")
    assert not add_grant(accounts, given, NOW + timedelta(days=1))
    assert [entry["object"] for entry in audit.history(accounts, "credits")] == ["g"]
    with pytest.raises(CreditError, match="another grant has this id"):
        add_grant(accounts, Grant("g", "physics", D("11"), "EUR", given.starts_at, YEAR_END, "me", given.reason), NOW)
    assert balance(accounts).granted == D("10.00")


def test_what_is_no_grant_is_refused(accounts: Store) -> None:
    whole = Grant("g", "physics", D("10"), "EUR", at("2026-10-01 00:00"), YEAR_END, "", "r")
    more: dict[str, Any]
    for more, says in (
        ({"currency": "USD"}, "found USD, but the rate card is in EUR"),
        ({"amount": D("0")}, "above zero"),
        ({"amount": D("-1")}, "above zero"),
        ({"amount": D("1.005")}, "EUR has 2 digits"),
        ({"expires_at": whole.starts_at}, "expires: not after it starts"),
        ({"tenant": " "}, "tenant: missing. A grant needs a tenant and a reason"),
        ({"reason": ""}, "reason: missing"),
    ):
        given = replace(whole, **more)
        with pytest.raises(CreditError, match=says):
            add_grant(accounts, given, NOW)
    assert grants_of(accounts) == []


def test_a_revoked_grant_has_paid_until_then(accounts: Store) -> None:
    fill(accounts, [*hours("2026-10-05 00:00", 2), *hours("2026-10-20 00:00", 2)])
    grant(accounts, "typo", "1000.00")
    revoked = revoke_grant(accounts, "typo", "me", "one zero too many", at("2026-10-10 00:00"))
    assert revoke_grant(accounts, "typo", "me", "again", NOW) == revoked
    one = balance(accounts)
    assert (one.granted, one.expired, one.running, one.available) == (D("1000"), D("996.00"), D("4.00"), D("0.00"))
    with pytest.raises(CreditError, match="no such grant"):
        revoke_grant(accounts, "tipo", "me", "", NOW)


# --- what always holds -----------------------------------------------------------------------------------------------

days = st.integers(0, 60)
given_grants = st.lists(st.tuples(st.integers(1, 3000), days, st.integers(1, 60)), min_size=1, max_size=5)


def _grants(drawn: list[tuple[int, int, int]]) -> list[Grant]:
    first = at("2026-09-01 00:00")
    grants = [
        Grant(
            "", "physics", D(cents) / 100, "EUR", first + timedelta(start), first + timedelta(start + length), "", "r"
        )
        for cents, start, length in drawn
    ]
    return list({one.id: one for one in (Grant(**{**vars(g), "id": grant_id(g)}) for g in grants)}.values())


def test_grants_less_draws_less_expired_is_the_balance_and_the_order_of_granting_does_not_matter(books: Store) -> None:
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"grants {seed}")
    store = without_prices(books)
    fill(store, [*hours("2026-09-10 05:00", 3), *hours("2026-10-05 10:00", 3)], closed=[at("2026-10-31 23:00")])
    for _ in range(BALANCES):
        # Some pay together on the tenth of September, when the ledger charges; others at any time.
        starts = [dice.choice((0, 8, dice.randint(0, 60))) for _ in range(dice.randint(3, 5))]
        grants = _grants([(dice.randint(1, 3000), start, dice.randint(1, 60)) for start in starts])
        due, seen = D(dice.randint(0, dice.choice((600, 3000, 9000)))) / 100, []
        for _ in range(2):
            store.command("TRUNCATE TABLE grants")
            store.command("TRUNCATE TABLE invoices")
            for number, one in enumerate(grants):
                add_grant(store, one, NOW + timedelta(seconds=number))
            draws = draw_down(store, "physics", at("2026-10-01 00:00"), due, "EUR")
            assert sum(one.amount for one in draws) <= due
            before = balances(store, NOW)
            issue(store, "2026-09", str(due), {one.grant_id: str(one.amount) for one in draws})
            after = [balance(store), balance(store, NOW + timedelta(days=90))]
            for one in (*before, *after):
                assert one.granted - one.drawn - one.expired == one.balance
                assert one.available >= 0
                assert one.expired >= 0
            seen.append((draws, before, after))
            dice.shuffle(grants)
        assert seen[0] == seen[1]


def reckoned(
    grants: list[Grant], costs: dict[datetime, Fraction], billed: Fraction | None, drawn: dict[str, D], now: datetime
) -> dict[str, Any]:
    """An account hour by hour, of costs that all start and end with one. billed: what September's invoice comes to."""
    left = {one.id: Fraction(one.amount) for one in grants}
    running = dict.fromkeys(left, Fraction(0))
    whole = sum((cost for hour, cost in costs.items() if hour < OCTOBER), Fraction(0))
    hour, exhausted = at("2026-09-01 00:00"), None
    while hour < now:
        if hour == OCTOBER and billed is not None:
            left = {one.id: Fraction(one.amount - drawn.get(one.id, D(0))) for one in grants}
        cost, paying = costs.get(hour, Fraction(0)), [one for one in grants if one.starts_at <= hour < one.expires_at]
        is_open = hour >= OCTOBER or billed is None
        due = cost if is_open else cost * (billed or 0) / whole
        has = sum((left[one.id] for one in paying), Fraction(0))
        if has > 0:
            exhausted = hour + ceil(has / due * HOUR_MS) * timedelta(milliseconds=1) if due >= has else None
        for one in sorted(paying, key=lambda one: (one.expires_at, one.starts_at, one.id)):
            part = min(due, left[one.id])
            due, left[one.id], running[one.id] = due - part, left[one.id] - part, running[one.id] + part * is_open
        hour += timedelta(hours=1)
    started = [one for one in grants if one.starts_at <= now]
    over = [one for one in started if one.expires_at <= now]
    paid = sum((drawn.get(one.id, D(0)) for one in started), D(0))
    expired = sum((Fraction(one.amount - drawn.get(one.id, D(0))) - running[one.id] for one in over), Fraction(0))
    runs = sum((running[one.id] for one in started), Fraction(0))
    available = sum((Fraction(one.amount) for one in started), Fraction(0)) - Fraction(paid) - expired - runs
    return {"drawn": paid, "expired": expired, "running": runs, "available": available,
            "exhausted_at": None if available > 0 else exhausted}  # fmt: skip


def test_an_account_pays_what_is_charged_and_billed_in_its_own_currency_alone(books: Store) -> None:
    """A tenant on two clusters, whose prices are in two currencies, of which some invoices of September are issued."""
    seed = str(drawn_seed())
    print(f"GPULEDGER_SEED={seed}")
    dice = Random(f"currencies {seed}")
    store = without_prices(books)
    prices, costs, rows = {"EUR": "2.00", "USD": "3.00"}, {}, []
    for currency, price in prices.items():
        # In the first hours of both months both have costs.
        any_time = (OCTOBER + timedelta(hours=dice.randrange(-700, 500)) for _ in range(12))
        some = {at("2026-09-01 00:00"), OCTOBER, *any_time}
        costs[currency] = dict.fromkeys(some, Fraction(price))
        of = {"price": price, "currency": currency, "device": currency, "cluster": currency}
        rows += [Row(one, "physics", used=str(HOUR_MS), **of) for one in some]
    fill(store, rows, closed=[NOVEMBER - timedelta(hours=1)])
    for _ in range(BALANCES):
        for table in ("grants", "invoices"):
            store.command(f"TRUNCATE TABLE {table}")
        grants = [replace(one, currency=dice.choice(("EUR", "EUR", "USD")), at=NOW) for one in _grants(
            [(dice.choice((200, 700, 3000)), dice.randint(0, 55), dice.randint(1, 40)) for _ in range(5)])]  # fmt: skip
        for one in grants:
            prepaid._insert(store, one, head(store, "grants"))
        expected = {}
        now = NOVEMBER + timedelta(days=dice.choice((0, 20)))
        for currency in {one.currency for one in grants}:
            mine = [one for one in grants if one.currency == currency]
            billed, drawn = None, {}
            if dice.random() < 0.5:
                billed = D(dice.choice(("0.00", "5.00", "31.00")))
                drawn = {one.id: one.amount / 2 for one in mine if one.starts_at < OCTOBER and dice.random() < 0.7}
                texts = {name: str(amount) for name, amount in drawn.items()}
                issue(store, "2026-09", str(billed), texts, currency=currency, number=f"GL-{currency}")
            exact = None if billed is None else Fraction(billed)
            expected[currency] = reckoned(mine, costs[currency], exact, drawn, min(now, NOVEMBER))
        low = {("physics", "EUR"): D("20.00")}
        found = {one.currency: vars(one) for one in balances(store, min(now, NOVEMBER), low_below=low)}
        assert {key: one["low_below"] for key, one in found.items()} == {
            key: low.get(("physics", key)) for key in expected
        }
        assert {key: {name: found[key][name] for name in wanted} for key, wanted in expected.items()} == expected


@given(given_grants, st.lists(st.tuples(days, st.fractions(0, 40)), max_size=8))
def test_drawing_in_pieces_takes_no_more_than_is_due_and_than_there_is(
    drawn: list[tuple[int, int, int]], dues: list[tuple[int, Fraction]]
) -> None:
    grants = in_order(_grants(drawn))
    left = {one.id: Fraction(one.amount) for one in grants}
    for day, due in sorted(dues):
        instant = at("2026-09-01 00:00") + timedelta(day)
        could = sum((left[one.id] for one in grants if one.pays_at(instant)), Fraction(0))
        assert sum(draw(grants, left, instant, due).values(), Fraction(0)) == min(due, could)
    assert all(0 <= left[one.id] <= one.amount for one in grants)
