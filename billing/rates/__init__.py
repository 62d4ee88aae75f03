"""Prices: the rate card as people write it (`rate_card`), what it says of whom and when (`prices`), and which card is
in force (`applied`)."""

from billing.rates.applied import AppliedCard, apply_rate_card, current_rate_card, list_rates, rate_card_of
from billing.rates.prices import PriceInterval, Subject, cut_instants, first_change, price_intervals
from billing.rates.rate_card import Issuer, Match, RateCard, RateError, RateRule, load_rate_card, parse_rate_card

__all__ = [
    "AppliedCard",
    "Issuer",
    "Match",
    "PriceInterval",
    "RateCard",
    "RateError",
    "RateRule",
    "Subject",
    "apply_rate_card",
    "current_rate_card",
    "cut_instants",
    "first_change",
    "list_rates",
    "load_rate_card",
    "parse_rate_card",
    "price_intervals",
    "rate_card_of",
]
