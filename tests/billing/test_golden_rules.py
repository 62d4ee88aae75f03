"""What rules decide of drawn cases, without a store: hundreds of cases in a second.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_rules.py     renews golden/rules.json

Cards beside other cards, prices over time, claims that contradict each other, budgets and how they go on, grants and
what is drawn from them. Whether the answers are right is for the tests of each, which reckon them another way; here
each case is kept, the first ones in full, so that another answer to any of them is noticed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from billing.accounts import budgets as module
from billing.accounts import prepaid
from billing.accounts.budget_file import BudgetFile, parse_budgets
from billing.accounts.budgets import budget_states
from billing.accounts.costs import DailyCosts, Target
from billing.accounts.credits import following
from billing.accounts.drawing import Grant, accrued, draw, in_order, left_at, pieces
from billing.close.resolve import FOREVER, Claim, DeviceState, resolve
from billing.invoicing.credit_notes import creditable
from billing.invoicing.documents import Invoice
from billing.parties.details import parse_parties
from billing.periods import Period, parse_month
from billing.rates import RateCard, parse_rate_card
from billing.rates.changes import card_changes
from billing.rates.frozen import advice, changed_policy
from billing.rates.prices import PriceBook, Subject, differences, shown_price
from tests.billing.golden import compare, digest
from tests.billing.hand_ledger import at
from tests.billing.whole_books import CARD, drawn_policies
from warehouse.errors import LedgerError

FULL, OF = 8, ("actual", "forecast")
"""Cases of a kind of which the whole answer is kept; of the others a digest."""
START, END = at("2026-10-20 00:00"), at("2026-11-03 00:00")
SUBJECTS = [
    Subject(model, pool, profile, tenant, queue, priority, preemptible)
    for model, pool, profile in (
        ("H100", "train", ""), ("A100", "mig", "1g.5gb"), ("A100", "mig", ""), ("L40S", "web", ""),
    )
    for tenant, queue, priority, preemptible in (
        ("chem", "web", None, False), ("phys", "day", 100, True), ("", "", 0, False),
    )
]  # fmt: skip


def answers(cases: int, decide: Callable[[random.Random, int], Any]) -> dict[str, Any]:
    """Of each case, by its number."""
    found: dict[str, Any] = {}
    for number in range(cases):
        answer = json.loads(json.dumps(decide(random.Random(f"{decide.__name__} {number}"), number), default=str))
        found[str(number)] = answer if number < FULL else digest(answer)
    return found


def drawn_card(dice: random.Random, number: int) -> RateCard:
    """Rates that come, go, move in time, cost more or hold at other hours, and other policies."""
    rates = [dict(rate) for rate in CARD["rates"] if dice.random() < 0.9]
    for rate in rates:
        if dice.random() < 0.15:
            rate["price_per_gpu_hour"] = dice.choice(("0.99", "3.00", "4.05"))
        if dice.random() < 0.1:
            rate["effective_from"] = dice.choice(("2026-10-21", "2026-10-22T07:30:00Z"))
            rate.pop("effective_to", None)
        if "windows" in rate and dice.random() < 0.7:
            days = dice.sample(("mon", "tue", "wed", "thu", "fri", "sat", "sun"), dice.randrange(1, 7))
            hours = dice.choice(
                ({"from": "22:30", "to": "06:15"}, {"from": "02:30", "to": "03:30"}, {"to": "24:00"}, {})
            )
            rate["windows"] = [{"days": days, **hours}]
    card = {**drawn_policies(number), "rates": rates, "grace_days": dice.choice((0, 0, 3))}
    card["priority_classes"] = dice.choice((CARD["priority_classes"], {"high": {"from": 51}, "low": {"to": 0}}))
    card["exchange_rates"] = [
        {"month": f"2026-{month:02}", "currency": "JPY", "rate": dice.choice(("160", "161.5"))} for month in (8, 9, 10)
    ][: dice.randrange(4)]
    return parse_rate_card({**card, "timezone": dice.choice(("Europe/Berlin", "Europe/Berlin", "Asia/Kolkata"))})


def two_cards(dice: random.Random, number: int) -> Any:
    while True:  # of two rates that have come to say the same at once none is taken
        try:
            old, new = (drawn_card(dice, dice.randrange(50)) for _ in range(2))
        except LedgerError:
            continue
        break
    reported = [f"{one.what} {one.of}: {one.words}" for one in card_changes(old, new)]
    frozen = {}
    for month in ("2026-08", "2026-09", "2026-10"):
        for tenant in ("chem", "phys", "bio", "nobody"):
            if change := changed_policy(old, new, month, tenant):
                frozen[f"{month} {tenant}"] = [*change, advice(old, change[0], change[1])]
    books = PriceBook(old, START, END), PriceBook(new, START, END)
    moved = {
        f"{one}": [
            f"{when} {shown_price(was)} {shown_price(now)}" for when, was, now in differences(*books, one, START)
        ]
        for one in SUBJECTS
    }
    prices = [[list(map(str, period)) for period in books[0].schedule(one)] for one in SUBJECTS]
    return [reported, frozen, digest(moved), digest(prices), digest([str(one) for one in books[0].cut_instants()])]


def test_the_differences_of_two_cards_equal_the_golden_file() -> None:
    compare("rules", "cards", answers(60, two_cards))


def claims(dice: random.Random, number: int) -> Any:
    """Of a node of three devices: more than they have, parts twice, none named, stamps a second off, no end."""
    states = []
    for device, units in (("d0", 1), ("d1", 4), ("d2", 7)):
        moved = dice.choice((None, None, 50_000))
        less = dice.choice((units, max(1, units - 2), units + 1))
        about = ("c", device, "n")
        states.append(DeviceState(*about, units, dice.choice((0, 0, 10_000)), moved or dice.choice((90_000, FOREVER))))
        if moved:
            states.append(DeviceState(*about, less, moved, dice.choice((90_000, FOREVER))))
    reported = []
    for claim in range(dice.randrange(2, 9)):
        start = dice.choice((0, 1, 10_000, 20_000, 20_500, 40_000, 50_000))
        end = start + dice.choice((1, 500, 1000, 1001, 20_000, 60_000))
        device = dice.choice(("d0", "d1", "d1", "d2", "", "", "d9"))
        part = dice.choice(("", "p0", "p1")) if device == "d2" else ""
        units = dice.choice((0, 1, 1, 2, 4)) if device else 0
        name = f"a{claim}"
        reported.append(Claim(
            claim=claim, cluster="c", allocation_id=name, workload_id=dice.choice(("w", name)), tenant="t",
            node=dice.choice(("n", "n", "n", "m")), device_id=device, partition_id=part, units=units,
            gpus=dice.choice((0.5, 1.0, 2.0, 5.0)), start_ms=start, end_ms=dice.choice((end, end, end, FOREVER)),
            estimated=dice.choice(("", "", "clock")),
        ))  # fmt: skip
    seen = {claim.claim: dice.choice((None, claim.start_ms, claim.start_ms + 700, 35_000)) for claim in reported}
    named = {("c", "w"): dice.sample(("d0", "d1", "d2"), dice.randrange(3))}

    def last_seen(claim: Claim, before: int) -> int | None:
        known = seen[claim.source_claim]
        return known if known is not None and known <= before else None

    found = resolve(reported, states, last_seen, named)
    kept = [
        f"{one.claim} as {one.part} of {one.device_id} {one.partition_id}: {one.units}, {one.start_ms} to "
        f"{'ever' if one.end_ms == FOREVER else one.end_ms} {one.estimated}"
        for one in found.kept
    ]
    return [
        kept,
        [
            f"{one.claim.claim} {one.claim.start_ms} {one.claim.end_ms}: {one.reason}, {one.detail}"
            for one in found.refused
        ],
    ]


def test_which_claims_are_believed_is_that_of_the_golden_file() -> None:
    compare("rules", "claims", answers(600, claims))


def test_how_budgets_stand_is_that_of_the_golden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs of a year by day and project, known from some day on and to some hour, in zones whose clocks change."""

    def budgets(dice: random.Random, number: int) -> Any:
        zone = ZoneInfo(dice.choice(("UTC", "Europe/Berlin", "Asia/Kolkata")))
        names = [("chem", "a"), ("chem", "b"), ("phys", "a")]
        days = [date(2026, 3, 20) + timedelta(days=n) for n in range(250)]
        costs = {name: {day: dice.randrange(9_000) for day in days if dice.random() < 0.8} for name in names}
        unpriced = {
            name: {dice.choice(days[-70:]): Fraction(dice.randrange(99), 7)} for name in names if dice.random() < 0.3
        }
        for name in names:  # about the first days of what a forecast looks back on
            if dice.random() < 0.3:
                unpriced[name] = {date(2026, 9, dice.randrange(1, 30)): Fraction(1, 7)}
        if dice.random() < 0.3:
            unpriced["nobody", "a"] = {date(2026, 10, 2): Fraction(1, 3)}
        start = at("2026-03-20 05:00") + timedelta(days=dice.choice((0, 100, 195, 210, 217, 230)))
        if dice.random() < 0.3:  # known from the first instant of a month on
            start = datetime(2026, dice.choice((6, 8, 9, 10)), 1, tzinfo=zone).astimezone(UTC)
        if dice.random() < 0.3:  # a month that cost nothing, among others
            free = dice.choice((7, 8, 9))
            costs = {name: {day: one for day, one in of.items() if day.month != free} for name, of in costs.items()}
        end = at("2026-10-31 00:00") + timedelta(hours=dice.randrange(-400, 60))
        file: BudgetFile = parse_budgets({
            "currency": "EUR",
            "budgets": [
                {"tenant": "chem", "amount": dice.choice(("1900.00", "2200.00", "2600.00", "0.01"))},
                {"tenant": "chem", "project": "b", "amount": dice.choice(("900.00", "1200.00")),
                 "effective_from": dice.choice(("2026-10", "2026-11")),
                 "thresholds": [{"percent": n, "of": dice.choice(OF)} for n in ("50", "90", "120")]},
                {"tenant": "phys", "amount": "1150.00", "owner": "x",
                 "thresholds": [{"percent": "100", "of": "forecast"}]},
                {"tenant": "nobody", "amount": "1.00"},
            ],
        })  # fmt: skip

        def reached(_: Any, targets: list[Target]) -> list[datetime]:
            return [one.span.start + timedelta(hours=int(one.level) % 700) for one in targets]

        daily = DailyCosts(100, costs, unpriced, frozenset({"EUR"} if dice.random() < 0.95 else {"EUR", "USD"}))
        monkeypatch.setattr(module, "current_budgets", lambda store: SimpleNamespace(file=file))
        monkeypatch.setattr(module, "closed_period", lambda store: Period(start, end) if number % 20 else None)
        monkeypatch.setattr(module, "daily_costs", lambda *_: daily)
        monkeypatch.setattr(module, "reached", reached)
        month = dice.choice(("2026-10", "2026-10", "2026-09", "2026-11"))
        monkeypatch.setattr(module, "billing_timezone", lambda store: zone.key)
        try:
            now = at("2026-10-31 12:34") - timedelta(days=dice.choice((0, 0, 0, 12)))
            return [str(vars(one)) for one in budget_states(None, month, now)]  # type: ignore[arg-type]
        except LedgerError as error:
            return str(error)

    compare("rules", "budgets", answers(240, budgets))


def grants(dice: random.Random, number: int) -> Any:
    hours = [at("2026-10-01 00:00") + timedelta(hours=n) for n in range(0, 40, 5)]
    given = []
    for n in range(dice.randrange(1, 6)):
        starts, ends = sorted(dice.sample(hours, 2))
        given.append(Grant(f"g{dice.randrange(9)}{n}", "t", Decimal(dice.randrange(50)), "EUR", starts, ends))
    ordered = in_order(given)
    left = {one.id: Fraction(one.amount) for one in ordered}
    reported: list[Any] = [[one.id for one in ordered]]
    spans = pieces(ordered, hours[1], hours[-2])
    costs = [Fraction(dice.choice((0, 0, 3, 7))) for _ in spans]
    for (start, end), due in zip(spans, accrued(Fraction(60), costs, spans), strict=True):
        reported.append([start, end, due, left_at(ordered, left, start), draw(ordered, left, start, due)])
    return reported


def test_what_is_drawn_from_grants_is_that_of_the_golden_file() -> None:
    compare("rules", "grants", answers(150, grants))


def test_how_accounts_stand_is_that_of_the_golden_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Grants that are current, over and to come, months that are issued and open, costs that use them up to the
    cent or nearly; and what an invoice draws."""

    def accounts(dice: random.Random, number: int) -> Any:
        zone = dice.choice(("UTC", "Europe/Berlin", "Asia/Kolkata"))
        months = [parse_month(f"2026-{n:02}", zone) for n in (8, 9, 10, 11)]
        bounds = [bound for month in months for bound in (month.start, month.start + timedelta(days=9, hours=5))]
        given = []
        for n in range(dice.randrange(1, 5)):
            starts, ends = sorted(dice.sample(bounds, 2))
            amount = dice.choice(("10", "10.50", "0.40", "37", "250"))
            currency = dice.choice((*["EUR"] * 5, "JPY"))
            given.append(prepaid.Grant(
                f"g{n}", dice.choice(("chem", "chem", "phys")), Decimal(amount), currency, starts, ends, "ann", "paid",
            ))  # fmt: skip
        totals, draws = {}, {}
        for month in months[: dice.randrange(3)]:
            totals[month.start] = Decimal(dice.choice(("0", "8.25", "10", "41.07")))
            if dice.random() < 0.8:
                draws[month.start] = {
                    one.id: Decimal(dice.choice(("1", "8.25", "0.40"))) for one in given if one.tenant == "chem"
                }
        issued = prepaid._Issued({"chem": draws}, {("chem", "EUR"): totals})
        known = dice.choice((None, months[0].start, months[2].start + timedelta(days=3), months[3].start))

        def cost_of_spans(_: Any, spans: list[Any]) -> list[Any]:
            some = (Fraction(0), Fraction(99, 10), Fraction(10), Fraction(1, 3), Fraction(1001, 100))
            return [SimpleNamespace(known=dice.choice(some)) for _ in spans]

        def reached(_: Any, targets: list[Target]) -> list[datetime]:
            return [one.span.start + timedelta(seconds=int(one.level * 1000)) for one in targets]

        monkeypatch.setattr(prepaid, "grants_of", lambda store, tenant=None: given)
        monkeypatch.setattr(prepaid._Issued, "read", lambda *_: issued)
        monkeypatch.setattr(prepaid, "closed_period", lambda store: known and Period(months[0].start, known))
        monkeypatch.setattr(prepaid, "billing_timezone", lambda store: zone)
        monkeypatch.setattr(prepaid, "cost_of_spans", cost_of_spans)
        monkeypatch.setattr(prepaid, "reached", reached)
        now = dice.choice(bounds) + timedelta(milliseconds=dice.choice((-1, 0, 1)))
        low = {("chem", "EUR"): Decimal(dice.choice(("0.50", "10", "100")))}
        reported = [str(vars(one)) for one in prepaid.balances(None, now, None, low)]  # type: ignore[arg-type]
        due = Decimal(dice.choice(("0", "-1", "5", "10.50", "60.005")))
        end = dice.choice(months).end
        drawn = prepaid.draw_down(None, "chem", end, due, "EUR")  # type: ignore[arg-type]
        return [reported, [str(one) for one in drawn]]

    compare("rules", "accounts", answers(200, accounts))


def test_what_documents_say_of_both_parties_is_that_of_the_golden_file() -> None:
    """Who sends and who pays, on days at the bounds of what is in force; each may say in how many days, or not."""
    found = {}
    for own, theirs in ((None, None), (30, None), (None, 14), (30, 14), (0, 14), (30, 0)):
        days = [{} if one is None else {"payment_days": one} for one in (own, theirs)]
        seller = {"name": "A GmbH", "address": ["Bonn"], "effective_from": "2026-10-02", **days[0]}
        before = {"name": "Old GmbH", "address": ["Bonn"], "effective_to": "2026-10-02"}
        buyer = {"tenant": "chem", "name": "Chemistry", "address": ["Ulm"], "effective_to": "2026-11-01", **days[1]}
        other = {**buyer, "name": "New", "effective_from": "2026-11-01"}
        del other["effective_to"]
        for sellers in ([before, seller], [seller]):  # of the second nobody sends at first
            parties = parse_parties({"seller": sellers, "buyers": [buyer, other]})
            for day in (date(2026, 10, 1), date(2026, 10, 2), date(2026, 10, 31), date(2026, 11, 1)):
                for tenant, to_pay in (("chem", True), ("chem", False), ("phys", True)):
                    reported = parties.on_document(tenant, day, to_pay)
                    names = [one and one["name"] for one in (reported["seller"], reported["buyer"])]
                    case = f"{own} {theirs} {day} {tenant} {to_pay} of {len(sellers)}"
                    found[case] = [*names, reported["payment_days"], reported["due_date"]]
    compare("rules", "parties", found)


def issued(dice: random.Random, number: int) -> Any:
    """What can still be credited on each invoice of a tenant: corrections of months that were billed and that were not,
    by the same invoice or another, credit notes, and taxes of two names."""
    documents = []
    for n in range(dice.randrange(1, 7)):
        month = f"2026-{dice.randrange(6, 10):02}"
        earlier = documents[dice.randrange(len(documents))].document if documents else None
        is_note = earlier is not None and dice.random() < 0.3
        lines = []
        for _ in range(dice.randrange(1, 5)):
            line: dict[str, Any] = {"kind": dice.choice(("usage", "tax", "tax")), "amount": str(dice.randrange(-9, 90))}
            line |= {"rule": dice.choice(("tax:VAT", "tax:levy")), "charge_class": None}
            if dice.random() < 0.4:
                whose = dice.choice((None, "GL-0", "GL-1"))
                line |= {
                    "charge_class": "Correction",
                    "reference": {"month": f"2026-{dice.randrange(6, 9):02}", "invoice": whose},
                }
            lines.append(line)
        of = str(earlier["number"]) if is_note and earlier else None
        period = {"month": month, "start": "2026-09-01T00:00:00Z", "end": "2026-10-01T00:00:00Z", "timezone": "UTC"}
        document = {"number": f"GL-{n}", "tenant": "chem", "period": period, "lines": lines, "references": of}
        document["document_type"] = "credit_note" if is_note else "invoice"
        documents.append(Invoice(document))
    return [str(creditable(one, documents)) for one in documents]


def test_what_can_be_credited_is_that_of_the_golden_file() -> None:
    compare("rules", "creditable", answers(80, issued))


def test_the_month_after_is_that_of_the_calendar() -> None:
    for number in range(30):
        year, month = divmod(2026 * 12 + number, 12)
        assert (
            following(f"{year:04}-{month + 1:02}")
            == f"{datetime(year, month + 1, 28, tzinfo=UTC) + timedelta(days=7):%Y-%m}"
        )
