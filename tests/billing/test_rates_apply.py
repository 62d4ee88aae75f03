"""Reading a card and putting it in force."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from billing.invoicing.invoices import issue_all
from billing.periods import parse_period
from billing.rates import (
    RateCard,
    RateError,
    apply_rate_card,
    current_rate_card,
    list_rates,
    load_rate_card,
    parse_rate_card,
    rate_card_of,
)
from tests.billing.hand_ledger import HOUR_MS, Row, at, fill
from warehouse.store import Store

NOW = at("2026-11-02 09:00")
ONE = 'currency: EUR\nrates: [{sku: h100, price_per_gpu_hour: "1"}]\n'
HEAD = "currency: EUR\nrates:\n  - sku: h100\n    "


def card(*rules: dict[str, Any], **keys: Any) -> RateCard:
    rates = [{"sku": "h100", **rule} for rule in rules]
    return parse_rate_card({"currency": "EUR", "rates": rates, **keys})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (HEAD + "price_per_gpu_hour: 2.50", r"rates\[0\]\.price_per_gpu_hour: found 2.5; write it in quotes"),
        (HEAD + "price_per_gpu_hour: 2", r"rates\[0\]\.price_per_gpu_hour: found 2; write it in quotes"),
        (HEAD + 'price_per_gpu_hour: "-2"', r"found '-2'; a price is a decimal such as \"2\.50\", not negative"),
        (
            HEAD + 'price_per_gpu_hour: "2"\n    effective_from: soon',
            r"effective_from: found 'soon'; expected a date or time",
        ),
        (
            HEAD + 'price_per_gpu_hour: "2"\n    match: {node: q}',
            r"rates\[0\]\.match\.node: unknown key.*known here: mo",
        ),
        (HEAD + "sku2: x", r"rates\[0\]: missing: price_per_gpu_hour; unknown: sku2 "),
        (
            HEAD + 'price_per_gpu_hours: "2"',
            r"rates\[0\]\.price_per_gpu_hours: unknown key; did you mean price_per_gpu_hour\?",
        ),
        (
            "currency: eur\nrates: []",
            r"currency: found 'eur'; not an ISO 4217 currency \(did you mean EUR\?\); expected a code such as",
        ),
        ("currency: EUR\ntimezone: Mars\nrates: []", "timezone: found 'Mars'; expected an IANA time zone"),
        ("currency: EUR\nrates: 5", "rates: found 5; expected a list"),
        (ONE + "minimum_seconds: -1", "minimum_seconds: found -1; Input should be greater than or"),
        (
            ONE + "idle_policy: even",
            "found 'even'; Input should be 'platform'",
        ),
        (ONE + "discounts: [{after: 100}]", r"discounts\[0\]: missing: name; unknown: after "),
        (ONE + "taxes: 1", "taxes: found 1; expected a list"),
        ("currency: [", "not YAML: "),
        ("- 1", "not a rate card. It starts with the keys currency"),
    ],
)
def test_a_card_that_does_not_fit_is_one_line_with_the_key_and_what_fits(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "rates.yaml").write_text(text)
    with pytest.raises(RateError, match=says) as caught:
        load_rate_card(tmp_path / "rates.yaml")
    assert "\n" not in str(caught.value)


def test_what_is_implemented_of_the_later_keys_is_accepted() -> None:
    assert (
        card({"price_per_gpu_hour": "1"}, minimum_seconds=0, discounts=[], idle_policy="platform").idle_policy
        == "platform"
    )


@pytest.mark.parametrize(
    ("first", "second", "tie"),
    [
        ({"match": {"model": "H*"}}, {"match": {"model": "*100"}}, True),
        ({"match": {"model": "H100"}}, {"match": {"model": "H100"}}, True),
        ({"match": {"model": "H100"}}, {"match": {"model": "H100*"}}, False),
        ({"match": {"model": "A*"}}, {"match": {"model": "H*"}}, False),
        ({"match": {"model": "H*"}}, {"match": {"pool": "p*"}}, False),
        ({"effective_to": "2026-10-01"}, {"effective_from": "2026-10-01"}, False),
        ({"effective_to": "2026-10-02"}, {"effective_from": "2026-10-01"}, True),
        ({"match": {"tenant": "physics"}}, {"match": {"tenant": "physics-lab"}}, False),
    ],
)
def test_ties(first: dict[str, Any], second: dict[str, Any], tie: bool) -> None:
    rules = [{"price_per_gpu_hour": price, **rule} for price, rule in (("1", first), ("2", second))]
    if tie:
        with pytest.raises(RateError, match=r"rates\[0\] .* and rates\[1\] .* are equally specific"):
            card(*rules)
    else:
        card(*rules)


def test_a_tie_of_globs_names_them() -> None:
    """As found: *A100* and *L40S*, which no GPU is both, and nothing said that the star in front makes them a tie."""
    said = r"time: both '\*A100\*' and '\*L40S\*' can match one model\. Let one of them begin as its names begin"
    ours = [{"match": {"model": model}, "price_per_gpu_hour": "1"} for model in ("*A100*", "*L40S*")]
    with pytest.raises(RateError, match=said):
        card(*ours)
    card({**ours[0], "match": {"model": "NVIDIA A100*"}}, {**ours[1], "match": {"model": "NVIDIA L40S*"}})
    with pytest.raises(RateError, match="at the same time; end one where the other starts"):
        card(ours[0], ours[0])


@pytest.mark.parametrize(
    ("until", "since", "both"),
    [
        ("2026-10-30", "2026-10-29", ", on 2026-10-29"),
        ("2026-10-31", "2026-10-29", ", from 2026-10-29 until 2026-10-31"),
        ("2026-10-29T12:30", "2026-10-29", ", from 2026-10-29 until 2026-10-29T12:30"),
        (None, "2026-10-29", ", from 2026-10-29 on"),
        ("2026-10-30", None, ", until 2026-10-30"),
        (None, None, ""),
    ],
)
def test_a_tie_says_when_both_rules_are_in_force(until: str | None, since: str | None, both: str) -> None:
    """As found: one rule ended a day after the next one began, and of a long card nothing said on which day."""
    first = {"price_per_gpu_hour": "1", "effective_to": until}
    second = {"price_per_gpu_hour": "2", "effective_from": since}
    with pytest.raises(RateError, match=f"at the same time{both}; end one where the other starts"):
        card(first, second, timezone="America/New_York")


def test_a_rule_that_ends_when_it_starts_is_refused() -> None:
    with pytest.raises(RateError, match="ends before it starts"):
        card({"price_per_gpu_hour": "1", "effective_from": "2026-10-01", "effective_to": "2026-10-01"})


def test_the_version_is_that_of_the_content_not_of_the_layout(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(HEAD + 'price_per_gpu_hour: "2.50"\n    effective_from: 2026-10-01')
    (tmp_path / "b.yaml").write_text(
        '# the same\nrates: [{effective_from: "2026-10-01T00:00:00Z", price_per_gpu_hour: "2.50", sku: h100}]\n'
        "timezone: UTC\ncurrency: EUR\n"
    )
    (tmp_path / "c.yaml").write_text(HEAD + 'price_per_gpu_hour: "2.51"\n    effective_from: 2026-10-01')
    a, b, c = (load_rate_card(tmp_path / f"{name}.yaml").version for name in "abc")
    assert a == b != c


def test_applying_a_card_twice_changes_nothing_and_going_back_is_an_application_of_its_own(books: Store) -> None:
    one, two = card({"price_per_gpu_hour": "1"}), card({"price_per_gpu_hour": "2", "match": {"tenant": "o'brien"}})
    assert current_rate_card(books) is None
    assert list_rates(books) == []
    for applied in (one, one, two, one):
        apply_rate_card(books, applied, "o'brien", "研发 \\ <b>", NOW)
    current = current_rate_card(books)
    assert current is not None
    assert (current.card, current.author, current.reason, current.applied_at) == (one, "o'brien", "研发 \\ <b>", NOW)
    assert books.value("SELECT count() AS n FROM rate_cards") == 3
    of_two = rate_card_of(books, two.version)
    assert of_two is not None
    assert of_two.card == two
    assert rate_card_of(books, "other") is None


def test_a_price_that_an_issued_invoice_used_is_only_ended_and_followed(books: Store) -> None:
    since = {"price_per_gpu_hour": "2.00", "match": {"model": "H100"}}
    old = card(since)
    apply_rate_card(books, old, "", "", NOW)
    fill(books, [Row(at("2026-10-05 12:00"), "a", used=str(HOUR_MS))], closed=[at("2026-10-31 23:00")])
    edited = card({**since, "price_per_gpu_hour": "3.00"})
    apply_rate_card(books, edited, "", "drafts are rated again", NOW)
    apply_rate_card(books, old, "", "", NOW)
    issue_all(books, parse_period("2026-10", "UTC"), NOW)
    with pytest.raises(RateError, match=r"would change from 2\.00 .* to 3\.00 .* invoice GL-2026-00001 .* end it with"):
        apply_rate_card(books, edited, "", "", NOW)
    with pytest.raises(RateError, match="to no price"):
        apply_rate_card(books, card({**since, "match": {"model": "B200"}}), "", "", NOW)
    dollars = {"sku": "x", "price_per_gpu_hour": "1"}
    with pytest.raises(RateError, match="currency: found USD, but invoices were issued with EUR"):
        apply_rate_card(books, parse_rate_card({"currency": "USD", "rates": [dollars]}), "", "", NOW)
    followed = card(
        {**since, "effective_to": "2026-11-01"},
        {**since, "price_per_gpu_hour": "3.00", "effective_from": "2026-11-01"},
        {"price_per_gpu_hour": "9", "match": {"model": "B200"}},
    )
    assert apply_rate_card(books, followed, "", "", NOW + timedelta(hours=1)) == followed.version
