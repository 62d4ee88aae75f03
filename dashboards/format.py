"""Numbers as people read them. Unknown is an en dash, never a zero."""

from __future__ import annotations

UNKNOWN = "–"
SYMBOLS = {"EUR": "€", "USD": "$", "GBP": "£", "JPY": "¥", "CNY": "CN¥", "CHF": "CHF ", "INR": "₹", "KRW": "₩"}


def hours(value: float) -> str:
    """GPU-hours; small ones keep a decimal, so that something never looks like nothing."""
    return f"{value:,.1f}" if 0 < abs(value) < 100 else f"{value:,.0f}"


def money(value: float | None, currency: str) -> str:
    if value is None or not currency:
        return UNKNOWN
    symbol = SYMBOLS.get(currency, currency + " ")
    if abs(value) >= 10_000_000:
        return f"{symbol}{value / 1e6:,.2f} M"
    return f"{symbol}{value:,.2f}" if 0 < abs(value) < 100 else f"{symbol}{value:,.0f}"


def percent(part: float, whole: float) -> str:
    """A share; unknown where there is no whole. Rounds neither up to 100 nor down to 0 what is not."""
    if whole <= 0:
        return UNKNOWN
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1 %"
    if 99.9 < share < 100 and part != whole:
        return "> 99.9 %"
    return f"{share:.1f} %"


def count(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"
