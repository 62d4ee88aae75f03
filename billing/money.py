"""Amounts that can be paid: whole minor units of a currency."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from math import floor

from billing.exact import rounded

_CURRENCIES_BY_DIGITS = {
    0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    3: "BHD IQD JOD KWD LYD OMR TND",
    4: "CLF UYW",
}
MINOR_DIGITS = {code: digits for digits, codes in _CURRENCIES_BY_DIGITS.items() for code in codes.split()}
"""ISO 4217's digits after the point, where they are not 2."""


_CODES = """
AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLF CLP CNY
COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HTG HUF IDR ILS INR
IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA MKD MMK MNT MOP MRU MUR
MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD RUB RWF SAR SBD SCR SDG SEK SGD
SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX USD UYI UYU UYW UZS VED VES VND VUV WST
XAF XCD XCG XDR XOF XPF YER ZAR ZMW ZWG
"""
_WITHDRAWN = "ANG CUC HRK SLL ZWL"
CURRENCIES = frozenset((_CODES + _WITHDRAWN).split())
"""ISO 4217's codes of money, and those withdrawn since 2020, in which older books may be; no metals, funds or tests.
Source: List One, https://www.six-group.com/en/products-services/financial-information/data-standards.html"""


SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "CNY": "CN¥", "CHF": "CHF ", "INR": "₹", "KRW": "₩"}
MILLIONS = 10_000_000
"""From here on amounts in sentences are in millions."""


def known_currency(code: str) -> str:
    """Errors: ValueError, saying what fits."""
    if code not in CURRENCIES:
        meant = f" (did you mean {code.upper()}?)" if code.upper() in CURRENCIES else ""
        raise ValueError(f"not an ISO 4217 currency{meant}; expected a code such as EUR")
    return code


def minor_digits(currency: str) -> int:
    """Digits after the point of an amount in the currency."""
    return MINOR_DIGITS.get(currency, 2)


def symbol(currency: str) -> str:
    """What stands before an amount for people."""
    return SYMBOLS.get(currency, f"{currency} " if currency else "")


def spoken_amount(value: Decimal, currency: str) -> str:
    """`$1,526`, `$15.26`, `$12.50 M`: an amount in a sentence for people, on pages, in mails and in messages alike."""
    size = value.copy_abs()
    shown = f"{size / 1_000_000:,.2f} M" if size >= MILLIONS else f"{size:,.{2 if 0 < size < 100 else 0}f}"
    return f"{'−' if value < 0 else ''}{symbol(currency)}{shown}"


def largest_remainder(
    costs: Sequence[Fraction], digits: int, given: Decimal | None = None
) -> tuple[list[Decimal], Decimal]:
    """Amounts that can be paid for the costs, and their total.

    The total is the exact sum, rounded once, half to even. Each cost is cut down to whole minor units, and what is
    missing to the total goes, one minor unit each, to the costs that lost most; among equals to the earlier one.
    So no amount is a whole minor unit away from its cost, and the amounts sum to the total.

    given: another total, less than a minor unit from the exact sum; then one amount may be a whole one from its cost.
    """
    minor = 10**digits
    whole = [floor(cost * minor) for cost in costs]
    total = round((sum(costs, Fraction(0)) if given is None else Fraction(given)) * minor)
    by_loss = sorted(range(len(costs)), key=lambda number: (whole[number] - costs[number] * minor, number))
    missing = total - sum(whole)
    if missing < 0:
        whole[max(range(len(costs)), key=lambda number: whole[number])] -= 1
    for number in by_loss[: max(0, missing)]:
        whole[number] += 1
    return [rounded(Fraction(amount, minor), digits) for amount in whole], rounded(Fraction(total, minor), digits)
