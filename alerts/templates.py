"""Texts of alerts: jinja2 in its sandbox, over `labels`, `value`, `evidence`, `rule` and `threshold`. Instants are
written in the books' time zone.

A rule comes from a file that a site may edit, its values from anybody's workload: neither may run code here.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import StrictUndefined, Template, TemplateError, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from alerts.xid_advice import advice
from billing.money import minor_digits
from warehouse.durations import format_duration, parse_if_duration


def _bytes(value: float) -> str:
    """Bytes as GiB, the usual unit for GPU memory."""
    return f"{value / 2**30:.1f} GiB"


def _duration(value: float, window: Any = None) -> str:
    """window: as far as the rule looks back. What reaches that far may have lasted longer: `at least 3h`."""
    return f"{'at least ' if _reaches(value, window) else ''}{format_duration(value)}"


def _or_longer(value: float | None, window: Any) -> str:
    """Behind an instant since when something lasts."""
    return " or longer" if _reaches(value, window) else ""


def _reaches(value: float | None, window: Any) -> bool:
    return bool(value) and window is not None and value >= parse_if_duration(window)


def _percent(value: float) -> str:
    return f"{value * 100:.0f} %"


def _number(value: float | Decimal) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _gpus(value: float | None) -> str:
    """`8 GPUs`, `1 GPU`, `0.25 GPU`."""
    return "an unknown number of GPUs" if value is None else f"{_number(value)} GPU{'s' if value > 1 else ''}"


def _money(value: Decimal | None, currency: str | None) -> str:
    """In whole minor units, with the currency; None is unknown."""
    if value is None:
        return "an unknown amount"
    return f"{round(Decimal(value), minor_digits(currency or '')):,} {currency or ''}".strip()


@pass_context
def _in_words(context: Context, value: Any) -> Any:
    """An instant as the clock on the wall shows it in the zone."""
    if isinstance(value, datetime):
        return f"{value.astimezone(ZoneInfo(context.get('zone') or 'UTC')):%Y-%m-%d %H:%M %Z}"
    return value


_ENVIRONMENT = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, finalize=_in_words)
_ENVIRONMENT.filters.update(
    duration=_duration,
    or_longer=_or_longer,
    seconds=parse_if_duration,
    bytes=_bytes,
    percent=_percent,
    number=_number,
    gpus=_gpus,
    money=_money,
)
_ENVIRONMENT.globals.clear()
_KNOWN: Mapping[str, Any] = {"xid_advice": advice}
_BETWEEN = "\x1f"


@functools.lru_cache(maxsize=4096)
def compiled(text: str) -> Template:
    """Errors: jinja2.TemplateError, which names the line."""
    return _ENVIRONMENT.from_string(text)


def render(texts: Sequence[str], facts: Mapping[str, Any]) -> list[str]:
    """The texts with the facts filled in, each in one line. A template that fails is shown as it is with what was
    wrong: an alert is never lost for its words."""
    together = _BETWEEN.join(texts)
    if "{" not in together:
        return list(texts)
    try:
        found = _filled(together, facts).split(_BETWEEN)
    except _MISTAKES:
        found = []
    if len(found) != len(texts):  # one of them fails, or a value has the separator in it
        found = [_alone(text, facts) for text in texts]
    return [" ".join(text.split()) for text in found]


_MISTAKES = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _alone(text: str, facts: Mapping[str, Any]) -> str:
    try:
        return _filled(text, facts)
    except _MISTAKES as error:
        return f"{text} (cannot be filled in: {error})"


def _filled(text: str, facts: Mapping[str, Any]) -> str:
    # As Template.render, but without copying globals for each of a hundred thousand alerts.
    template = compiled(text)
    return "".join(template.root_render_func(template.new_context({**_KNOWN, **facts}, shared=True)))
