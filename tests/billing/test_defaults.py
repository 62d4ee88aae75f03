"""What a file that people write leaves out is what the documents say, and as if it were written there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from billing.accounts.budget_file import parse_budgets
from billing.energy.settings import parse_energy_settings
from billing.parties.details import parse_parties
from billing.rates import parse_rate_card
from billing.tenants import parse_mapping

RATE = {"sku": "gpu", "price_per_gpu_hour": "1.00"}
DISCOUNT = {"name": "tenth", "tiers": [{"from": "100", "percent": "10"}]}
QUOTA = {"name": "quota", "tenant": "chem", "gpus": "1", "price_per_gpu_hour": "1.00"}
POWER = {"sku": "power", "kind": "energy", "price": "0.50"}
ALWAYS = {"days": ["mon", "tue", "wed", "thu", "fri", "sat", "sun"], "start": "00:00", "end": "24:00"}
BANK = {"name": "B", "holder": "A", "iban": "DE89370400440532013000"}
SELLER = {"name": "A GmbH", "address": ["Bonn"], "bank": BANK}
GRID = {"grams_per_kwh": "300", "source": "the grid"}
BUDGET = {"tenant": "chem", "amount": "10.00"}
USUAL = [{"percent": "80", "of": "actual"}, {"percent": "100", "of": "actual"}, {"percent": "100", "of": "forecast"}]


def card(**keys: Any) -> dict[str, Any]:
    return {"currency": "EUR", "rates": [RATE], **keys}


@pytest.mark.parametrize(
    ("parse", "short", "whole"),
    [
        (parse_rate_card, card(), card(
            timezone="UTC", minimum_seconds=60, idle_policy="platform",
            issuer={"name": "GPU platform", "address": [], "contact": "", "number_prefix": "GL", "logo": ""},
        )),
        (parse_rate_card, card(rates=[{**RATE, "windows": [{"days": ["mon"]}, {"start": "20:00", "end": "24:00"}]}]),
         card(rates=[{**RATE, "windows": [{**ALWAYS, "days": ["mon"]}, {**ALWAYS, "start": "20:00"}]}])),
        (parse_rate_card, card(discounts=[DISCOUNT]), card(
            discounts=[{**DISCOUNT, "match": {}, "per": "month", "measure": "gpu_hours", "mode": "graduated"}],
        )),
        (parse_rate_card, card(commitments=[QUOTA]), card(commitments=[{**QUOTA, "sku": "*"}])),
        (parse_rate_card, card(components=[POWER]), card(components=[{**POWER, "pue": "1", "match": {}}])),
        (parse_rate_card, card(idle_policy=[{"share": "platform"}]),
         card(idle_policy=[{"share": "platform", "pool": "*"}])),
        (parse_rate_card, card(taxes=[{"name": "VAT", "percent": "19"}]),
         card(taxes=[{"name": "VAT", "percent": "19", "tenant": "*"}])),
        (parse_budgets, {"currency": "EUR", "budgets": [BUDGET]},
         {"currency": "EUR", "budgets": [{**BUDGET, "thresholds": USUAL}]}),
        (parse_budgets, {"currency": "EUR", "budgets": [{**BUDGET, "thresholds": [{"percent": "50"}]}]},
         {"currency": "EUR", "budgets": [{**BUDGET, "thresholds": [{"percent": "50", "of": "actual"}]}]}),
        (parse_parties, {"seller": [SELLER]}, {"seller": [{**SELLER, "payment_days": 30}]}),
        (parse_mapping, {"rules": []}, {"rules": [], "timezone": "UTC"}),
        (parse_energy_settings, {"intensity": [GRID], "idle_power": [{"watts": "60"}]},
         {"timezone": "UTC", "intensity": [{**GRID, "cluster": "*", "pool": "*"}],
          "idle_power": [{"watts": "60", "model": "*"}]}),
    ],
)  # fmt: skip
def test_what_is_left_out_is_as_if_it_were_written(parse: Callable[[Any], Any], short: Any, whole: Any) -> None:
    assert parse(short) == parse(whole)
