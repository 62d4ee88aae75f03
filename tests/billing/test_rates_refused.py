"""What a rate card cannot say: what would be absurd, or silently without effect."""

from __future__ import annotations

from typing import Any

import pytest

from billing.rates import RateError, parse_rate_card
from billing.rates.rate_card import POLICIES, RateCard

PRICE = {"sku": "x", "price_per_gpu_hour": "1"}
QUOTA = {"name": "q", "tenant": "a", "gpus": "1", "price_per_gpu_hour": "1"}
RATE = {"month": "2026-10", "currency": "JPY", "rate": "160"}
VAT = {"name": "VAT", "percent": "19"}
TIERS = [{"from": "2", "percent": "1"}, {"from": "1", "percent": "2"}]


def card(**keys: Any) -> RateCard:
    return parse_rate_card({"currency": "EUR", "rates": [PRICE], **keys})


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"currency": "ZZZ"}, "currency: found 'ZZZ'; not an ISO 4217 currency; expected a code such as EUR"),
        ({"currency": "XXX"}, "not an ISO 4217 currency"),
        ({"commitments": [{**QUOTA, "sku": "zzz"}]}, r"commitments\[0\].sku: found 'zzz'; no rate has"),
        ({"discounts": [{"name": "d", "percent": "1", "match": {"sku": "z*"}}]}, r"match.sku: found .z\*."),
        ({"rates": []}, "rates: an empty list; expected at least one entry"),
        ({"minimum_seconds": []}, "minimum_seconds: an empty list"),
        ({"minimum_seconds": [{"seconds": -1}]}, r"minimum_seconds\[0\].seconds: found -1; Input should be greater"),
        ({"minimum_seconds": 10**40}, "minimum_seconds: found 1000000"),
        ({"minimum_seconds": [{"seconds": 1}, {"seconds": 2, "effective_from": "2026-10"}]}, "1 and 2 share a month"),
        ({"idle_policy": []}, "idle_policy: an empty list"),
        ({"idle_policy": [{"share": "evenly"}, {"share": "platform"}]}, r"idle_policy\[0\] and idle_policy\[1\] are"),
        ({"idle_policy": [{"share": "evenly"}, {"pool": "a", "share": "platform"}]}, r"idle_policy\[1\] can never"),
        ({"exchange_rates": [{**RATE, "rate": "0"}]}, r"exchange_rates\[0\].rate: found '0'; .* greater than 0"),
        ({"exchange_rates": [{**RATE, "rate": "0.000"}]}, "greater than 0"),
        ({"exchange_rates": [{**RATE, "rate": "-1"}]}, "not negative"),
        ({"exchange_rates": [{**RATE, "rate": "NaN"}]}, "found 'NaN'; a decimal such as"),
        ({"exchange_rates": [{**RATE, "rate": "1e400"}]}, "found '1e400'; a decimal such as"),
        ({"exchange_rates": [{**RATE, "rate": float("inf")}]}, "found inf; write it in quotes"),
        ({"exchange_rates": [{**RATE, "rate": "1,000.00"}]}, "found '1,000.00'; a decimal such as"),
        ({"exchange_rates": [{**RATE, "rate": "1" * 40}]}, "at most 9 digits each side"),
        ({"exchange_rates": [{**RATE, "rate": "9" * 100_000}]}, r"found '9{79}\.\.\.; a decimal such as"),
        ({"exchange_rates": [RATE, {**RATE, "rate": "161"}]}, "are both rates of JPY for 2026-10; leave one out"),
        ({"exchange_rates": [{**RATE, "currency": "EUR"}]}, r"exchange_rates\[0\] is from EUR to itself"),
        ({"exchange_rates": [{**RATE, "currency": "jpy"}]}, r"did you mean JPY\?"),
        ({"exchange_rates": [{**RATE, "month": "2026-13"}]}, r"exchange_rates\[0\].month: found '2026-13'"),
        ({"rates": [{**PRICE, "currency": "EUR"}]}, r"rates\[0\] \(x\) is in EUR, as the card; leave it out"),
        (
            {"rates": [{**PRICE, "currency": "USD"}]},
            r"rates\[0\] \(x\) is in USD, of which exchange_rates has no month",
        ),
        (
            {
                "rates": [{**PRICE, "price_per_gpu_hour": "2", "currency": "JPY"}],
                "exchange_rates": [{**RATE, "rate": "0.000000002"}],
            },
            r"rates\[0\] \(x\) comes to more than nine digits of EUR",
        ),
        ({"rates": [{**PRICE, "timezone": "Berlin"}]}, r"rates\[0\].timezone: found 'Berlin'; expected an IANA"),
        ({"rates": [{**PRICE, "timezone": ""}]}, "expected an IANA time zone"),
        ({"invoice_currencies": [{"tenant": "a", "currency": "ZZZ"}]}, r"currencies\[0\].currency: found 'ZZZ'"),
        (
            {"invoice_currencies": [{"tenant": "a*", "currency": "JPY"}]},
            "expected the name of one tenant, not a pattern",
        ),
        (
            {"invoice_currencies": [{"tenant": "a", "currency": "JPY"}, {"tenant": "a", "currency": "USD"}]},
            r"invoice_currencies\[0\] and invoice_currencies\[1\] are the same thing \(a\) in the same months",
        ),
        ({"discounts": [{"name": "d", "percent": "101"}]}, r"discounts\[0\].percent: .*less than or equal to 100"),
        ({"discounts": [{"name": "d", "tiers": []}]}, r"discounts\[0\].tiers: an empty list"),
        ({"discounts": [{"name": "d", "tiers": TIERS}]}, "tiers must rise"),
        ({"discounts": [{"name": "d", "tiers": TIERS[:1] * 2}]}, "tiers must rise"),
        ({"discounts": [{"name": "d"}]}, "either percent or tiers"),
        ({"discounts": [{"name": "d", "percent": "1", "tiers": TIERS[:1]}]}, "either percent or tiers"),
        ({"discounts": [{"name": "d", "measure": "hours", "tiers": TIERS[:1]}]}, "hours is a session's length"),
        ({"discounts": [{"name": "d", "percent": "1"}, {"name": "d", "percent": "1"}]}, r"same thing \(d\)"),
        ({"commitments": [QUOTA, {**QUOTA, "gpus": "2"}]}, r"same thing \(q\) in the same months; end one where"),
        ({"commitments": [{**QUOTA, "gpus": "0"}]}, "gpus: found '0'; Input should be greater than 0"),
        ({"commitments": [{**QUOTA, "tenant": "a*"}]}, "expected the name of one tenant"),
        (
            {"commitments": [{**QUOTA, "effective_from": "2026-10", "effective_to": "2026-09"}]},
            "effective_to 2026-09 is not after effective_from 2026-10",
        ),
        ({"taxes": [{**VAT, "percent": "100.1"}]}, "less than or equal to 100"),
        ({"taxes": [VAT, {**VAT, "percent": "16"}]}, r"taxes\[0\] and taxes\[1\] are the same thing \(VAT\)"),
        ({"taxes": [VAT, {**VAT, "tenant": "a"}]}, r"taxes\[1\] can never apply: taxes\[0\] matches everything"),
        ({"components": [{"sku": "e", "kind": "energy", "price": "1", "pue": "0.9"}]}, "greater than or equal to 1"),
        ({"components": [{"sku": "m", "kind": "memory", "price": "1", "pue": "1.2"}]}, "pue is of energy"),
        ({"components": [{"sku": "m", "kind": "memory", "price": "1"}] * 2}, r"same thing \(m\)"),
        ({"rates": [{"sku": "a", "price_per_gpu_hour": "1", "windows": []}]}, r"rates\[0\].windows: an empty list"),
        ({"rates": [{"sku": "a", "price_per_gpu_hour": "1,000"}]}, "found '1,000'; a price is a decimal"),
        ({"rates": [{"sku": "a", "price_per_gpu_hour": "1", "effective_from": "0001-01-01"}]}, "a year from 1900 to"),
        (
            {"rates": [{"sku": "a", "price_per_gpu_hour": "1", "effective_to": "9999-12-31"}]},
            "a year from 1900 to 2299",
        ),
    ],
)
def test_a_card_in_which_something_would_be_absurd_or_without_effect_is_refused(
    keys: dict[str, Any], says: str
) -> None:
    with pytest.raises(RateError, match=says) as caught:
        card(**keys)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_policies_that_follow_each_other_or_are_about_different_things_are_taken() -> None:
    """The near misses of the collisions above."""
    until, since = {"effective_to": "2026-10"}, {"effective_from": "2026-10"}
    off = {"name": "d", "percent": "1"}
    read = card(
        rates=[{"sku": sku, "match": {"model": sku}, "price_per_gpu_hour": "1"} for sku in "xy"],
        discounts=[{**off, **until}, {**off, **since}, {**off, "name": "e", "match": {"sku": "x"}},
                   {**off, "name": "e", "match": {"sku": "y"}}],
        commitments=[QUOTA, {**QUOTA, "tenant": "b"}, {**QUOTA, "name": "r"}],
        taxes=[{**VAT, "tenant": "a", "percent": "0"}, {**VAT, **until}, {**VAT, **since}, {**VAT, "name": "levy"}],
        idle_policy=[{"pool": "a", "share": "evenly"}, {"share": "evenly", **until}, {"pool": "b", "share": "evenly"}],
        invoice_currencies=[{"tenant": "a", "currency": "JPY", **until}, {"tenant": "a", "currency": "USD", **since}],
        exchange_rates=[RATE, {**RATE, "month": "2026-11"}, {**RATE, "currency": "USD"}],
        components=[{"sku": "m", "kind": "memory", "price": "1", "match": {"tenant": one}} for one in "ab"],
    )  # fmt: skip
    found = {kind: len(getattr(read, kind)) for kind in POLICIES}
    assert list(found.values()) == [4, 3, 2, 3, 4, 2, 3], found
