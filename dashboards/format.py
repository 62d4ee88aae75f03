"""Numbers as people read them. Unknown is an en dash, never a zero."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from decimal import Context, Decimal

from billing.money import MILLIONS, SYMBOLS, spoken_amount, symbol
from warehouse.phrases import CHINESE, kept_whole, with_english_units, with_units

__all__ = ["MILLIONS", "SYMBOLS", "symbol"]  # of billing.money, for the pages
UNKNOWN = "–"
AS_WRITTEN = Decimal("1e-9")
"""The last digit of numbers, as of documents' quantities."""
LONG = Context(prec=400, traps=[])
"""For as many digits as a float has before the point."""
NEAR_A_HALF = 1e-6
"""Of the last digit that is shown."""
UUID = re.compile(r"(\w+-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_CURRENCY = re.compile(r"(?<=\d\.\d\d) (?=[A-Z]{3}(?![A-Za-z]))")
_HOURS_OF_GPUS = re.compile("(?<=GPU)[ \u00a0]小时")
_CARBON = re.compile(r"\bkg (?=CO2e)")
_PER = re.compile(r"(?<=\d)/([^\W\d_]+)")


def unbroken(text: str) -> str:
    """A text that may wrap keeps its dates, and its numbers with their units and currencies, whole, and units of two
    words without a number, as in a table's head; Chinese, which breaks between any two characters, those units, too."""
    text = _CARBON.sub("kg\u00a0", _PER.sub(_per, _CURRENCY.sub("\u00a0", text)))
    if not re.search(CHINESE, text):
        return with_english_units(text)
    return _HOURS_OF_GPUS.sub("\u00a0小\u2060时", kept_whole(with_units(text)))


def _per(found: re.Match[str]) -> str:
    """What a number is per, which a line could begin with."""
    unit = found[1]
    return "/\u2060" + ("\u2060".join(unit) if re.match(CHINESE, unit) else unit)


def device_name(device_id: str) -> str:
    """Of a UUID its vendor's prefix and first eight digits, which tell devices apart; others in full."""
    return device_id[:-28] if UUID.fullmatch(device_id) else device_id


def device_digits(device_id: str) -> str:
    """As `device_name`, where a node stands before it: of other names the last eight characters. A share that is named
    by its device and a number (GPU-…::2) keeps that."""
    device, sign, share = device_id.partition("::")
    short = device_name(device)
    return short.rpartition("-")[2] + sign + share if short != device else device_id[-8:]


def fixed(value: float | Decimal, digits: int) -> str:
    """With so many digits after the point, halves to the even one, as documents round. A float is the number that it is
    written as (14.575), not what is stored for it, nor what differs from it in the last digits, as sums do. Tables do
    the same in the browser (assets/numbers.js)."""
    shown = f"{_exact(value).copy_abs():,.{digits}f}"
    return f"−{shown}" if value < 0 and shown.strip("0.") else shown


def _exact(value: float | Decimal) -> Decimal:
    exact = Decimal(value if isinstance(value, Decimal | int) else repr(float(value)))
    return exact.quantize(AS_WRITTEN, context=LONG)


def evened(value: float, digits: int) -> float:
    """The value, but for as little as has Plotly, which rounds halves up, show it as `fixed` does."""
    half = abs(value) * 10**digits % 1 - 0.5
    if abs(half) >= NEAR_A_HALF:
        return value
    shown = float(fixed(value, digits).replace(",", "").replace("−", "-"))
    return value + math.copysign(2 * NEAR_A_HALF / 10**digits, shown - value)


def hours(value: float | None) -> str:
    """GPU-hours; small ones keep decimals, so that something never looks like nothing."""
    if value is None:
        return UNKNOWN
    return fixed(value, 0 if not 0 < abs(value) < 100 else 2 if abs(value) < 0.1 else 1)


def gpu_count(value: float) -> str:
    """GPUs; of a share two decimals, unless that would say nothing of it."""
    if 0 < value < 0.01:
        return f"{value:.2g}"
    return fixed(value, 2).rstrip("0").rstrip(".") if value < 1000 else fixed(value, 0)


def requested_gpus(jobs: int, gpus: float | None, unsized: int) -> str:
    """The GPUs that waiting jobs ask for: at least, where some of them do not say how many.

    gpus: of those that say; None: none does.   unsized: how many do not.
    """
    if not jobs:
        return "0"
    if gpus is None:
        return UNKNOWN
    return ("≥\N{NO-BREAK SPACE}" if unsized else "") + gpu_count(gpus)


def signed_hours(value: float) -> str:
    """GPU-hours of a change."""
    return ("+" if value > 0 else "−" if value < 0 else "") + hours(abs(value))


def money(value: float | Decimal | None, currency: str) -> str:
    if value is None or not currency:
        return UNKNOWN
    return spoken_amount(_exact(value), currency)


def money_alike(values: Sequence[float | Decimal], currency: str) -> list[str]:
    """Amounts of one sentence: all with cents, or none."""
    if not currency or not 100 <= max((abs(float(one)) for one in values), default=0.0) < MILLIONS:
        return [money(value, currency) for value in values]
    return [f"{'−' if value < 0 else ''}{symbol(currency)}{fixed(value, 0).removeprefix('−')}" for value in values]


def money_column(values: Sequence[float | Decimal | None], currency: str) -> list[str]:
    """Amounts below each other, as `money_alike`; unknown ones among them."""
    alike = iter(money_alike([value for value in values if value is not None], currency))
    return [UNKNOWN if value is None else next(alike) for value in values]


def unit_price(value: float | Decimal, currency: str) -> str:
    """With as many digits as it has, of which two at least."""
    text = fixed(value, 6).rstrip("0")
    whole, _, digits = text.partition(".")
    return f"{symbol(currency)}{whole}.{digits:0<2}"


def percent(part: float | None, whole: float | None = 1.0) -> str:
    """A share; unknown where there is no whole. Rounds neither up to 100 nor down to 0 what is not. The last digits, in
    which two sums of the same may differ, do not show."""
    if part is None or whole is None or whole <= 0:
        return UNKNOWN
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "< 0.1%"
    if 99.9 < share < 100 and part != whole:
        return "> 99.9%"
    return f"{fixed(share, 1)}%"


def duration(seconds: float | None, words: Callable[..., str], whole: bool = True) -> str:
    """`45 s`, `12 min`, `3.5 h`, `2.1 d`, in the words' language.   whole: an exact hour is `1 h`, not `1.0 h`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return words("duration.s", n=fixed(seconds, 0))
    if seconds < 3600:
        return words("duration.min", n=fixed(seconds / 60, 0))
    unit, size = ("h", 3600) if seconds < 48 * 3600 else ("d", 86400)
    return words(f"duration.{unit}", n=fixed(seconds / size, 0 if whole and seconds % size == 0 else 1))
