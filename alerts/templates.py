"""Texts of alerts: jinja2 in its sandbox, over `labels`, `value`, `evidence`, `rule` and `threshold`. Instants are
written in the books' time zone.

A rule comes from a file that a site may edit, its values from anybody's workload: neither may run code here.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from jinja2 import StrictUndefined, Template, TemplateError, pass_context
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from alerts.finding_words import found
from alerts.xid_advice import advice
from billing.money import spoken_amount
from scheduler.words import said
from warehouse.durations import parse_if_duration, spelled_duration
from warehouse.phrases import joined, with_units


def _bytes(value: float) -> str:
    """Bytes as GiB, the usual unit for GPU memory."""
    return f"{value / 2**30:.1f} GiB"


def _duration(value: float, window: Any = None) -> str:
    """window: how far the rule looks back. A duration that fills it may be longer in truth: `at least 3 h`."""
    return f"{'at least ' if _fills_window(value, window) else ''}{spelled_duration(value)}"


def _or_longer(value: float | None, window: Any) -> str:
    """To follow the instant since when something lasts, if that is as far as the rule looks back."""
    return " or longer" if _fills_window(value, window) else ""


def _fills_window(value: float | None, window: Any) -> bool:
    return bool(value) and window is not None and value >= parse_if_duration(window)


def _percent(value: float) -> str:
    return f"{value * 100:.0f}%".replace("-", "−")


def _number(value: float | Decimal | str) -> str:
    """A decimal is text once it is evidence of a stored alert, whose texts are written anew."""
    shown = f"{Decimal(value) if isinstance(value, str) else value:.2f}".rstrip("0").rstrip(".")
    return shown.replace("-", "−")


def _gpus(value: float | None) -> str:
    """`8 GPUs`, `1 GPU`, `0.25 GPUs`, as pages count them."""
    if value is None:
        return "an unknown number of GPUs"
    shown = _number(value)
    return f"{shown} GPU{'' if shown == '1' else 's'}"


def _money(value: Decimal | None, currency: str | None) -> str:
    """As pages write it: `$1,526`; None is unknown. A decimal is text once it is evidence of a stored alert."""
    return "an unknown amount" if value is None else spoken_amount(Decimal(value), currency or "")


@pass_context
def _local_time(context: Context, value: Any) -> Any:
    """An instant in the books' time zone; any other value unchanged."""
    if isinstance(value, datetime):
        at = value.astimezone(ZoneInfo(context.get("zone") or "UTC"))
        return f"{english_date(f'{at:%Y-%m-%d}')} {at:%H:%M %Z}"
    return value


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def english_date(text: str) -> str:
    """`November 2026` of 2026-11, `28 Nov 2026` of 2026-11-28."""
    year, month, *day = text.split("-")
    name = _MONTHS[int(month) - 1]
    return f"{int(day[0])} {name[:3]} {year}" if day else f"{name} {year}"


_SEAM = "\x02"
"""Before and after each value of a Chinese text, until it is joined with what stands around it."""


@pass_context
def _between_seams(context: Context, value: Any) -> str:
    if isinstance(value, datetime):
        at = value.astimezone(ZoneInfo(context.get("zone") or "UTC"))
        value = f"{chinese_date(f'{at:%Y-%m-%d}')} {at:%H:%M %Z}"
    return f"{_SEAM}{value}{_SEAM}"


def chinese_date(text: str) -> str:
    """`2026年11月` of 2026-11, `2026年11月28日` of 2026-11-28."""
    year, *rest = text.split("-")
    return "".join(f"{int(part)}{unit}" for part, unit in zip((year, *rest), "年月日", strict=False))


def _environment(
    finalize: Callable[[Context, Any], Any] = _local_time, **filters: Any
) -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(undefined=StrictUndefined, autoescape=False, finalize=finalize)
    made.filters.update(seconds=parse_if_duration, bytes=_bytes, percent=_percent, number=_number, **filters)
    made.globals.clear()
    return made


_ENVIRONMENTS = {
    "en": _environment(
        duration=_duration,
        or_longer=_or_longer,
        gpus=_gpus,
        money=_money,
        said=functools.partial(said, code="en"),
        found=functools.partial(found, code="en"),
        date=english_date,
    ),
    "zh": _environment(
        _between_seams,
        # before: what stands between a Chinese word and a number.
        duration=lambda value, window=None, before="": (
            f"{'至少 ' if _fills_window(value, window) else before}{spelled_duration(value, 'zh')}"
        ),
        or_longer=lambda value, window: " 或更早" if _fills_window(value, window) else " ",
        gpus=lambda value: "数量未知的 GPU" if value is None else f"{_number(value)} 个 GPU",
        money=lambda value, currency: "未知金额" if value is None else _money(value, currency),
        said=functools.partial(said, code="zh"),
        found=functools.partial(found, code="zh"),
        date=chinese_date,
    ),
}
"""By language; `said` translates what the scheduler or the engine says, `found` what collectors found."""
_FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    code: {"xid_advice": functools.partial(advice, language=code)} for code in _ENVIRONMENTS
}
_SEPARATOR = "\x1f"


@functools.lru_cache(maxsize=4096)
def compiled(text: str, language: str = "en") -> Template:
    """Errors: jinja2.TemplateError, which names the line."""
    return _ENVIRONMENTS[language].from_string(text)


def translated(text: str, facts: Mapping[str, Any], language: str) -> str | None:
    """A template in a language with the facts filled in, on one line; None if it cannot be."""
    try:
        filled = functools.reduce(joined, _filled(text, facts, language).split(_SEAM), "")
        return with_units(" ".join(filled.split()))
    except _TEMPLATE_ERRORS:
        return None


_STORED_INSTANT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\+00:00")


def with_instants(evidence: Mapping[str, Any]) -> dict[str, Any]:
    """Evidence whose instants are such, also where it was stored and they are text."""
    return {
        name: datetime.fromisoformat(value) if isinstance(value, str) and _STORED_INSTANT.fullmatch(value) else value
        for name, value in evidence.items()
    }


def render(texts: Sequence[str], facts: Mapping[str, Any]) -> list[str]:
    """The texts with the facts filled in, each on one line. A template that fails is shown unfilled, with the error: an
    alert is never lost because of its text."""
    joined = _SEPARATOR.join(texts)
    if "{" not in joined:
        return list(texts)
    try:
        found = _filled(joined, facts).split(_SEPARATOR)
    except _TEMPLATE_ERRORS:
        found = []
    if len(found) != len(texts):  # a template fails, or a value contains the separator
        found = [_filled_or_error(text, facts) for text in texts]
    return [" ".join(text.split()) for text in found]


_TEMPLATE_ERRORS = (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def _filled_or_error(text: str, facts: Mapping[str, Any]) -> str:
    try:
        return _filled(text, facts)
    except _TEMPLATE_ERRORS as error:
        return f"{text} (cannot be filled in: {error})"


def _filled(text: str, facts: Mapping[str, Any], language: str = "en") -> str:
    # As Template.render, but without copying globals for each of a hundred thousand alerts.
    template = compiled(text, language)
    return "".join(template.root_render_func(template.new_context({**_FUNCTIONS[language], **facts}, shared=True)))
