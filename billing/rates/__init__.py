"""The rate card: its format (`rate_card`), which price applies to whom and when (`prices`), which card is in force
(`applied`), and what another one would change (`changes`).

A new key of the card goes into `rate_card`, a new policy into `policies`; its amounts are computed in
billing.invoicing.
"""

from billing.rates.applied import (
    AppliedCard,
    apply_rate_card,
    check_rate_card,
    current_rate_card,
    example_prices,
    history,
    list_rates,
    rate_card_of,
)
from billing.rates.changes import Change, card_changes, price_effect
from billing.rates.prices import PriceBook, PriceInterval, Subject, cut_instants, first_change, price_intervals
from billing.rates.rate_card import (
    ALWAYS_HOURS,
    Issuer,
    Match,
    RateCard,
    RateError,
    RateRule,
    load_rate_card,
    parse_rate_card,
)

__all__ = [
    "ALWAYS_HOURS",
    "AppliedCard",
    "Change",
    "Issuer",
    "Match",
    "PriceBook",
    "PriceInterval",
    "RateCard",
    "RateError",
    "RateRule",
    "Subject",
    "apply_rate_card",
    "card_changes",
    "check_rate_card",
    "current_rate_card",
    "cut_instants",
    "example_prices",
    "first_change",
    "history",
    "list_rates",
    "load_rate_card",
    "parse_rate_card",
    "price_effect",
    "price_intervals",
    "rate_card_of",
]
