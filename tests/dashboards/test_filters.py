"""What a URL means: periods, filters, links."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import ModuleType, SimpleNamespace

import pytest

from billing.rates import apply_rate_card, parse_rate_card
from dashboards import parts, shell
from dashboards.filters import Address, filters_of
from dashboards.languages import language
from dashboards.pages.overview import quality
from dashboards.periods import ClosedMonth, Period, closed_months, latest, neighbour
from warehouse.errors import LedgerError
from warehouse.store import Store

EN, ZH = language("en"), language("zh")
MONTHS = [
    ClosedMonth("2026-09", 2, datetime(2026, 9, 30, 20, tzinfo=UTC), datetime(2026, 9, 30, 21, tzinfo=UTC)),
    ClosedMonth("2026-10", 745, datetime(2026, 9, 30, 22, tzinfo=UTC), datetime(2026, 10, 31, 22, tzinfo=UTC)),
]


@pytest.mark.parametrize(
    ("search", "label", "zh", "closed"),
    [
        ("", "October 2026", "2026年10月", 48),
        ("?period=all", "All closed time", "全部已结账时间", 48),
        ("?period=2026-10-02", "2 October 2026", "2026年10月2日", 24),
        ("?period=2026-10-01..2026-10-03", "1 October 2026 – 2 October 2026", "2026年10月1日 – 2026年10月2日", 48),
        (
            "?period=2026-10-02T22:00..2026-10-03T02:00",
            "2 Oct, 22:00 – 3 Oct, 02:00",
            "10月2日\u00a022:00 – 10月3日\u00a002:00",
            2,
        ),
    ],
)
def test_the_url_chooses_the_period(filled: Store, search: str, label: str, zh: str, closed: int) -> None:
    period = filters_of(filled, search).period
    assert period is not None
    assert (period.label(EN), period.label(ZH), period.hours_closed) == (label, zh, closed)


@pytest.mark.parametrize("key", ["2026-11", "2026-13", "'; DROP TABLE ledger", "октябрь", "2026-10-05..2026-10-04"])
def test_a_period_without_closed_hours_is_none(filled: Store, key: str) -> None:
    assert filters_of(filled, f"?period={key}").period is None


def test_the_hours_around_a_clock_change_belong_to_their_month(store: Store, make_books: ModuleType) -> None:
    first = datetime(2026, 10, 25, tzinfo=UTC)
    make_books.fill(store, [make_books.entry(first + timedelta(hours=n), "a", used=1.0) for n in range(3)])
    assert [month.key for month in closed_months(store, "Europe/Berlin")] == ["2026-10"]


def test_hours_that_are_to_come_are_not_waited_for() -> None:
    start = datetime(2026, 10, 5, tzinfo=UTC)
    day = Period("2026-10-05", start, start + timedelta(days=1), 5, "UTC")
    minute = timedelta(minutes=1)
    asked = [(-60, 0), (0, 0), (359, 5), (360, 6), (24 * 60, 24), (99 * 60, 24)]
    assert [(minutes, day.hours_over(start + minutes * minute)) for minutes, _ in asked] == asked


def test_a_period_that_goes_on_says_that_all_of_it_so_far_is_closed() -> None:
    now = datetime.now(UTC)
    start = now.replace(minute=0, second=0, microsecond=0) - timedelta(hours=3)
    for closed, said in ((3, "All hours so far are closed"), (1, "2 past hours not closed")):
        period = Period("x", start, start + timedelta(days=2), closed, "UTC")
        filters = SimpleNamespace(period=period, zone="UTC", without_hours=list)
        assert said in str(quality._closed(filters, EN))  # type: ignore[arg-type]
        titles = str(parts.titles(filters, EN, "title"))  # type: ignore[arg-type]
        assert f"{closed} of 48 hours closed" in titles
        assert ("gl-warn" in titles) is (closed < 3), "hours that are to come are no reason to warn"


def test_the_neighbours_of_a_period_are_as_long_and_end_with_what_is_closed() -> None:
    start = datetime(2026, 10, 5, tzinfo=UTC)
    day = Period("2026-10-05", start, start + timedelta(days=1), 24, "UTC")
    assert neighbour(day, MONTHS, 1) == "2026-10-06"
    week = Period("x", start, start + timedelta(days=7), 168, "UTC")
    assert neighbour(week, MONTHS, 1) == "2026-10-12..2026-10-19"
    assert neighbour(week, MONTHS, -1) == "2026-09-28..2026-10-05"
    last = Period("2026-10-31", start + timedelta(days=26), start + timedelta(days=27), 24, "UTC")
    assert neighbour(last, MONTHS, 1) is None
    month = Period("2026-10", start, start, 1, "UTC")
    assert (neighbour(month, MONTHS, -1), neighbour(month, MONTHS, 1)) == ("2026-09", None)


def test_the_last_days_end_where_the_closed_time_does() -> None:
    assert latest(MONTHS, "UTC", timedelta(hours=24)) == "2026-10-30T23:00..2026-10-31T23:00"
    assert latest(MONTHS, "Europe/Berlin", timedelta(days=7)) == "2026-10-25..2026-11-01"


def test_a_link_keeps_the_state_but_for_its_changes() -> None:
    here = Address.of("?period=2026-10&tenant=a%26b&tenant=c&lang=zh&sort=x")
    assert here.more == {"sort": "x"}
    assert Address.of(here.href("/fleet").partition("?")[2]) == Address("2026-10", "zh", {"tenant": ("a&b", "c")})
    assert here.href("/fleet", tenant=None, pool="p", period=None) == "/fleet?lang=zh&pool=p"
    assert Address().href("/") == "/"


def test_filters_narrow_the_ledger_and_leave_the_platform_out(filled: Store) -> None:
    everything = filters_of(filled, "")
    assert everything.shows_platform
    assert everything.choices.values["tenant"] == ["speech", "vision"]
    narrowed = filters_of(filled, "?tenant=vision")
    assert not narrowed.shows_platform
    path = "dashboards/pages/overview/__init__.py"
    assert {row["name"] for row in narrowed.rows(filled, path, "by_tenant", by_project=0)} == {"vision"}
    assert filters_of(filled, "?tenant=").rows(filled, path, "by_tenant", by_project=0) == []


def test_two_currencies_are_not_added(store: Store, make_books: ModuleType) -> None:
    hour = datetime(2026, 10, 1, tzinfo=UTC)
    rows = [make_books.entry(hour, "a", used=1.0), make_books.entry(hour, "b", used=1.0, billing_currency="USD")]
    make_books.fill(store, rows)
    with pytest.raises(LedgerError, match="EUR and USD"):
        filters_of(store, "")


def test_every_page_says_that_prices_are_an_example(store: Store) -> None:
    rate = {"sku": "gpu", "price_per_gpu_hour": "3.00"}
    for example, shown in (("prices of a cloud, 2026-09", True), ("", False)):
        card = parse_rate_card({"currency": "USD", "rates": [rate], "example": example})
        apply_rate_card(store, card, "ada", "", datetime(2026, 10, 1, tzinfo=UTC))
        for words in (EN, ZH):
            filters = filters_of(store, f"?lang={words.code}")
            assert filters.example == example
            bar, foot = str(shell.bar(None, filters, "/", words)), str(shell.footer(words, filters))
            assert (words("bar.example") in bar, "prices of a cloud, 2026-09" in foot) == (shown, shown)


def test_a_chosen_name_that_has_no_hours_is_said(filled: Store) -> None:
    """As found: a mistyped tenant was a page of zeros, and nothing else."""
    known = filters_of(filled, "?period=all").choices.values["tenant"][0]
    for search, said in (
        (f"?period=all&tenant={known}", []),
        (f"?period=all&tenant={known}&tenant=nobody", ["nobody"]),
    ):
        filters = filters_of(filled, search)
        assert filters.without_hours() == said
        assert ("nobody: no hours in this period" in str(parts.titles(filters, EN, "title"))) is bool(said)
    assert filters_of(filled, "?period=2027-01&tenant=nobody").without_hours() == []
