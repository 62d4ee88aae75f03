"""Which rule prices whom and when."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing.rates import RateCard, RateError, Subject, cut_instants, parse_rate_card, price_intervals
from billing.rates.globs import can_overlap, expression
from billing.rates.policies import Usage
from warehouse.store import Store

H100 = "NVIDIA H100 80GB HBM3"
START = datetime(2026, 10, 1, tzinfo=UTC)


def card(*rules: dict[str, Any], **keys: Any) -> RateCard:
    return parse_rate_card({"currency": "EUR", "rates": list(rules), **keys})


def rule(sku: str, price: str, since: Any = None, until: Any = None, **match: str) -> dict[str, Any]:
    return {"sku": sku, "price_per_gpu_hour": price, "match": match, "effective_from": since, "effective_to": until}


def prices(rates: RateCard, **subject: str) -> list[tuple[Any, Any, str, str, str]]:
    who = Subject(**{"model": H100, "pool": "", "partition_profile": "", "tenant": "", **subject})
    return [
        (i.effective_from, i.effective_to, i.sku, str(i.list_unit_price), str(i.contracted_unit_price))
        for i in price_intervals(rates, [who])
    ]


def test_the_engine_reads_globs_as_the_shell_does(store: Store) -> None:
    dice = random.Random(seed := random.randrange(10**6))
    print(f"seed {seed}")
    pieces = (
        "*",
        "?",
        "a",
        "b",
        "-",
        "]",
        ".",
        "[a-cx]",
        "[!a-c.]",
        "[ax-z]",
        "[b-a]",
        "[!b-a]",
        "[a-]",
        "[]a]",
        "[!!]",
        "[",
    )
    globs = ["".join(dice.choices(pieces, k=dice.randrange(4))) for _ in range(1500)]
    texts = ["".join(dice.choices("abcxz-].![", k=dice.randrange(4))) for _ in globs]
    sql = "SELECT arrayMap((text, glob) -> match(text, glob), {texts:Array(String)}, {globs:Array(String)}) AS found"
    found = store.value(sql, {"texts": texts, "globs": [expression(one) for one in globs]})
    pairs = list(zip(texts, globs, strict=True))
    assert [pair for pair, one in zip(pairs, found, strict=True) if fnmatchcase(*pair) != bool(one)] == []


def test_the_tenants_own_price_is_contracted_and_the_price_for_everybody_is_list() -> None:
    rates = card(
        rule("h100", "4.00", model="NVIDIA H100*"), rule("h100-p", "3.00", model="NVIDIA H100*", tenant="physics")
    )
    assert prices(rates, tenant="physics") == [(None, None, "h100-p", "4.00", "3.00")]
    assert prices(rates, tenant="physics-lab") == [(None, None, "h100", "4.00", "4.00")]


def test_a_tenants_price_without_a_list_price_is_both() -> None:
    rates = card(rule("special", "3.00", tenant="physics"))
    assert prices(rates, tenant="physics") == [(None, None, "special", "3.00", "3.00")]
    assert prices(rates, tenant="chem") == []


def test_time_that_no_rule_covers_has_no_price() -> None:
    later = START + timedelta(days=2)
    rates = card(rule("a", "1.00", START, START + timedelta(days=1)), rule("b", "2.00", later))
    assert prices(rates) == [
        (START, START + timedelta(days=1), "a", "1.00", "1.00"),
        (later, None, "b", "2.00", "2.00"),
    ]
    assert cut_instants(rates) == [START, START + timedelta(days=1), later]


def test_a_price_in_another_currency_is_known_in_months_with_its_exchange_rate_and_nothing_stands_in_for_it() -> None:
    rates = card(
        rule("general", "9.00"),
        {**rule("yen", "300", model="NVIDIA*"), "currency": "JPY"},
        rule("own", "1.00", model="NVIDIA*", tenant="chem"),
        timezone="Europe/Berlin",
        exchange_rates=[
            {"month": "2026-10", "currency": "JPY", "rate": "160"},
            {"month": "2026-12", "currency": "JPY", "rate": "170"},
            {"month": "2026-11", "currency": "USD", "rate": "1.1"},
        ],
    )
    first, second, third, fourth = (
        datetime(2026, 9 + n, 30 if n in (0, 2) else 31, 22 + (n > 0), tzinfo=UTC) for n in range(4)
    )
    assert prices(rates) == [
        (first, second, "yen", "1.875000000", "1.875000000"),
        (third, fourth, "yen", "1.764705882", "1.764705882"),
    ]
    assert prices(rates, tenant="chem") == [
        (first, second, "own", "1.875000000", "1.00"),
        (third, fourth, "own", "1.764705882", "1.00"),
    ], "what it would cost everybody else is unknown in between"
    assert prices(rates, model="L4") == [(None, None, "general", "9.00", "9.00")]
    assert cut_instants(rates) == [first, second, third, fourth]


def test_a_rule_of_a_cluster_has_its_dates_and_windows_in_its_own_zone() -> None:
    rates = card(
        rule("all", "3"),
        {**rule("us", "2", date(2026, 10, 5), cluster="us-*"), "timezone": "America/New_York"},
        {**rule("us-night", "1", cluster="us-*"), "timezone": "America/New_York", "windows": [{"from": "22:00"}]},
        timezone="Europe/Berlin",
    )
    start, end = datetime(2026, 10, 5, tzinfo=UTC), datetime(2026, 10, 6, tzinfo=UTC)
    found = {
        cluster: [
            (one.effective_from and f"{one.effective_from:%H}", one.sku)
            for one in price_intervals(rates, [Subject("H100", "", "", "", cluster=cluster)], start, end)
        ]
        for cluster in ("us-1", "eu-1", "")
    }
    assert found["us-1"] == [("00", "all"), ("02", "us-night"), ("04", "us")]
    assert found["eu-1"] == found[""] == [("00", "all")]


def test_more_keys_win_then_exact_over_glob_then_tenant_over_profile_over_pool_over_model() -> None:
    rates = card(
        rule("any", "1"),
        rule("glob", "2", model="NVIDIA*"),
        rule("exact", "3", model=H100),
        rule("pool", "4", pool="research"),
        rule("profile", "5", partition_profile="1g.10gb"),
        rule("tenant", "6", tenant="chem"),
        rule("two", "7", pool="r*", model="NVIDIA*"),
    )
    assert [
        prices(rates, **who)[0][2]
        for who in (
            {"model": "MI300X"},
            {"model": "NVIDIA L4"},
            {},
            {"model": "MI300X", "pool": "research"},
            {"model": "MI300X", "pool": "research", "partition_profile": "1g.10gb"},
            {"model": "MI300X", "pool": "research", "partition_profile": "1g.10gb", "tenant": "chem"},
            {"pool": "research", "tenant": "chem"},
        )
    ] == ["any", "glob", "exact", "pool", "profile", "tenant", "two"]


def test_a_day_starts_at_midnight_in_the_cards_zone_and_a_naive_time_is_local() -> None:
    rates = card(rule("a", "1", "2026-10-26", "2026-10-26T12:00:00"), timezone="Europe/Berlin")
    assert cut_instants(rates) == [datetime(2026, 10, 25, 23, tzinfo=UTC), datetime(2026, 10, 26, 11, tzinfo=UTC)]


@given(
    st.integers(-125 * 365 * 86_400, 263 * 365 * 86_400).map(lambda seconds: START + timedelta(seconds=seconds)),
    st.sampled_from((0, 1, 1000, 500_000, 999_000)),
    st.sampled_from(("", "Z", "+05:30", "-08:00")),
)
def test_any_instant_of_whole_milliseconds_is_read_as_it_is_written(at: datetime, micros: int, offset: str) -> None:
    written = at.replace(microsecond=micros, tzinfo=None).isoformat() + offset
    parts = rule("a", "1", written), rule("a", "1", None, written)
    if micros % 1000:
        for part in parts:
            with pytest.raises(RateError, match="the books count whole milliseconds"):
                card(part)
        return
    meant = datetime.fromisoformat(written if offset else f"{written}+00:00")
    assert [one.effective_from or one.effective_to for part in parts for one in card(part).rates] == [meant, meant]


def test_patterns_are_case_sensitive() -> None:
    assert prices(card(rule("a", "1", model="nvidia*"))) == []


TEXTS = st.text(alphabet="ab[", max_size=4)
PARTS = ("a", "b", "*", "?", "[ab]", "[!a]", "[]!]", "[", "]", "!")
PATTERNS = st.lists(st.sampled_from(PARTS), max_size=4).map("".join)


@given(PATTERNS, PATTERNS, TEXTS)
def test_patterns_that_both_match_a_text_overlap(left: str, right: str, text: str) -> None:
    if fnmatchcase(text, left) and fnmatchcase(text, right):
        assert can_overlap(left, right)
    assert can_overlap(left, right) == can_overlap(right, left)


ROWS = st.fixed_dictionaries(
    {
        **dict.fromkeys(("tenant", "project", "queue", "sku"), st.sampled_from(["a", "ab", "b"])),
        "preemptible": st.booleans(),
    }
)
ABOUT = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("tenant", "project", "queue", "sku"), st.sampled_from(["a", "a*", "*", "b"])),
        "preemptible": st.booleans(),
    },
)


@given(ABOUT, ROWS)
def test_a_policy_is_about_usage_that_fits_all_that_it_names(about: dict[str, Any], row: dict[str, Any]) -> None:
    fits = [one == row[name] if name == "preemptible" else fnmatchcase(row[name], one) for name, one in about.items()]
    assert Usage(**about).matches(row) == all(fits)


def test_patterns_that_share_nothing_do_not_overlap() -> None:
    assert not can_overlap("NVIDIA A100*", "NVIDIA H100*")
    assert not can_overlap("*-a", "*-b")
    assert can_overlap("*-a", "x*")


MATCHES = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["m1", "m*", "m?", "n1"]),
        "pool": st.sampled_from(["p", "p*", "q"]),
        "partition_profile": st.sampled_from(["", "1g*"]),
        "tenant": st.sampled_from(["a", "a*", "b"]),
    },
)
HOURS = st.integers(0, 6)
RULES = st.builds(
    lambda match, price, first, length, open_from, open_to: {
        "match": match,
        "price_per_gpu_hour": str(price),
        "effective_from": None if open_from else START + timedelta(hours=first),
        "effective_to": None if open_to else START + timedelta(hours=first + length),
    },
    MATCHES,
    st.integers(0, 3),
    HOURS,
    st.integers(1, 3),
    st.booleans(),
    st.booleans(),
)
SUBJECTS = [
    Subject(model, pool, profile, tenant)
    for model in ("m1", "m2", "n1")
    for pool in ("p", "q")
    for profile in ("", "1g")
    for tenant in ("", "a", "ab")
]


def brute_force(rates: RateCard, who: Subject, at: datetime) -> tuple[str, Decimal, Decimal] | None:
    def ranks(number: int) -> tuple[Any, ...]:
        keys = {
            k: v
            for k in ("tenant", "partition_profile", "pool", "model")
            if (v := getattr(rates.rates[number].match, k)) is not None
        }
        exact = {k for k, v in keys.items() if "*" not in v and "?" not in v}
        order = ("tenant", "partition_profile", "pool", "model")
        return len(keys), len(exact), [k in keys for k in order], [k in exact for k in order]

    fits = [
        n
        for n, r in enumerate(rates.rates)
        if (r.effective_from is None or r.effective_from <= at)
        and (r.effective_to is None or at < r.effective_to)
        and all(
            getattr(r.match, k) is None or fnmatchcase(getattr(who, k), getattr(r.match, k))
            for k in ("model", "pool", "partition_profile", "tenant")
        )
    ]
    if not fits:
        return None
    best = rates.rates[max(fits, key=ranks)]
    untenanted = [n for n in fits if rates.rates[n].match.tenant is None]
    listed = rates.rates[max(untenanted, key=ranks)] if untenanted else best
    return best.sku, listed.price_per_gpu_hour, best.price_per_gpu_hour


@given(st.lists(RULES, min_size=1, max_size=6))
def test_price_intervals_are_those_found_by_asking_every_half_hour(rules: list[dict[str, Any]]) -> None:
    kept: list[dict[str, Any]] = []
    for number, one in enumerate(rules):
        try:
            card(*kept, {"sku": f"s{number}", **one})
        except RateError:
            continue
        kept.append({"sku": f"s{number}", **one})
    rates = card(*kept)
    found = price_intervals(rates, SUBJECTS)
    for half_hour in range(-2, 22):
        at = START + timedelta(minutes=30 * half_hour)
        for who in SUBJECTS:
            here = [
                (i.sku, i.list_unit_price, i.contracted_unit_price)
                for i in found
                if i.subject == who
                and (i.effective_from is None or i.effective_from <= at)
                and (i.effective_to is None or at < i.effective_to)
            ]
            assert here == [p for p in [brute_force(rates, who, at)] if p is not None]
