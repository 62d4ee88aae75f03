"""What a line of a document is about, in the page's language.

Documents never change: a line's `description` is the English text of the policy that made it (billing.invoicing). A
page says it in another language where the text is exactly one of those that the line's kind and rule make; names are
taken from the line's own fields, and what people wrote, like a credit's reason, stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from billing.documents.page import validity
from billing.lines import kind_of
from dashboards.languages import Language

Line = Mapping[str, Any]
Said = Callable[[Line, str, Language], str | None]
"""A line, what is left of its description, and the language; None: it is another text."""
N = r"(-?[\d,]+(?:\.\d+)?)"


def described(line: Line, words: Language) -> str:
    """Its description, else its SKU or rule."""
    text = str(line["description"] or line["sku"] or line["rule"])
    return text if words.code == "en" or not line["description"] else _said(line, text, words) or text


def holds(line: Line, zone: str, words: Language) -> str:
    """When and for what its price applies."""
    if words.code == "en":
        return validity(line, zone)
    parts = [(name, _spans(line.get(f"{name}_validity") or (), zone, words)) for name in ("price", "list_price")]
    return words("line_said.then").join(words(f"line_said.{name}", spans=spans) for name, spans in parts if spans)


def unit(line: Line, words: Language) -> str:
    return words.of(f"unit.{line['unit'].replace('-', '_').lower()}", line["unit"])


def _said(line: Line, text: str, words: Language) -> str | None:
    if line.get("charge_class") == "Correction":
        return _correction(line, text, words)
    say = _KINDS.get(kind_of(line))
    return say(line, text, words) if say else None


def _correction(line: Line, text: str, words: Language) -> str | None:
    month, head, rest = (line.get("reference") or {}).get("month"), *_after(text, ": ")
    if not month or head != month:
        return None
    month = words.month(date.fromisoformat(f"{month}-01"))
    own = {**line, "charge_class": None}
    found = re.fullmatch(rf"{N} was billed, {N} is due(?:: (.+))?", rest, re.DOTALL)
    if found is None:
        return words("line_said.of_month", month=month, what=_said(own, rest, words) or rest)
    more = words("line_said.more", more=_said(own, found[3], words) or found[3]) if found[3] else ""
    return words("line_said.correction", month=month, was=found[1], due=found[2]) + more


def _after(text: str, mark: str) -> tuple[str, str]:
    head, _, rest = text.partition(mark)
    return head, rest


def _minimum(line: Line, text: str, words: Language) -> str | None:
    found = re.fullmatch(rf"{N} sessions? shorter than {N} s, charged as \2 s(, less what quotas cover)?", text)
    if found is None:
        return None
    less = words("line_said.less_quotas") if found[3] else ""
    return words("line_said.minimum", n=found[1], seconds=found[2]) + less


def _commitment(line: Line, text: str, words: Language) -> str | None:
    if text == f"Covered by {line['rule']}":
        return words("line_said.covered", name=line["rule"])
    found = re.fullmatch(rf"Quota of {N} GPUs for {N} h, (used|unused)", text)
    return found and words(f"line_said.quota_{found[3]}", gpus=found[1], hours=found[2])


def _discount(line: Line, text: str, words: Language) -> str | None:
    head = f"{line['rule']}: "
    if not text.startswith(head):
        return None
    rest, name = text[len(head) :], line["rule"]
    if found := re.fullmatch(rf"{N} %, off {N}", rest):
        return words("line_said.discount", name=name, how=f"{found[1]}%", base=found[2])
    found = re.fullmatch(
        rf"((?:{N} % (?:from|above) {N}(?:, )?)+) (GPU-hours|h) (?:of {N} in the month|of each session)"
        rf" \((graduated|whole)\), off {N}",
        rest,
    )
    if found is None:
        return None
    unit = words("unit.gpu_hours" if found[4] == "GPU-hours" else "line_said.hours")
    tiers = [
        words(f"line_said.{word}", percent=percent, hours=hours)
        for percent, word, hours in re.findall(rf"{N} % (from|above) {N}", found[1])
    ]
    of = words("line_said.in_month", hours=found[5]) if found[5] else words("line_said.each_session")
    said = words("line_said.comma").join([*tiers, unit, of, words(f"line_said.{found[6]}")])
    return words("line_said.discount", name=name, how=said, base=found[7])


_SHARES = {
    "by the cost of what was held there": "allocated_cost",
    "an even part": "evenly",
    "by guaranteed GPUs": "guaranteed",
}


def _shared(line: Line, text: str, words: Language) -> str | None:
    found = re.fullmatch(
        rf"{N} %, ({'|'.join(_SHARES)}), of {N} for {N} unallocated GPU-hours of "
        r"(?:pool (.+)|the devices without a pool)",
        text,
        re.DOTALL,
    )
    if found is None:
        return None
    pool = words("line_said.pool", pool=found[5]) if found[5] else words("line_said.no_pool")
    how = words(f"line_said.share_{_SHARES[found[2]]}")
    return words("line_said.shared", percent=found[1], how=how, amount=found[3], hours=found[4], pool=pool)


def _measured(line: Line, text: str, words: Language) -> str | None:
    found = re.fullmatch(
        rf"(?:{N} (?:kWh x PUE {N}|GiB-hours), )?measured in {N} of {N} allocated GPU-hours \({N} %\)"
        rf"(?:; {N} GPU-hours unmeasured and not charged)?",
        text,
    )
    if found is None:
        return None
    amount, pue, hours, of, percent, missing = found.groups()
    parts = [words("line_said.energy", kwh=amount, pue=pue)] if pue else []
    parts += [words("line_said.memory", hours=amount)] if amount and not pue else []
    parts.append(words("line_said.measured", hours=hours, of=of, percent=percent))
    parts += [words("line_said.unmeasured", hours=missing)] if missing else []
    return words("line_said.comma").join(parts)


_CREDITS = {
    "Credit": "credit",
    "Credit for a missed service level": "credit_slo",
    "Credit for interference": "credit_interference",
}


def _credit(line: Line, text: str, words: Language) -> str | None:
    title, reason = _after(text, ": ")
    if line["rule"] == "credit note":
        number = (line.get("reference") or {}).get("invoice")
        return words("line_said.credit_note", number=number, reason=reason) if title == f"Credit on {number}" else None
    if title in _CREDITS:
        return words(f"line_said.{_CREDITS[title]}", reason=reason)
    found = re.fullmatch(r"Credit (\S+) taken back", title)
    return found and words("line_said.credit_reversed", id=found[1], reason=reason)


def _tax(line: Line, text: str, words: Language) -> str | None:
    head = f"{line['rule']} of "
    found = re.fullmatch(N, text[len(head) :]) if text.startswith(head) else None
    return found and words("line_said.tax", tax=line["rule"], net=found[1])


_KINDS: Mapping[str, Said] = {
    "minimum": _minimum, "commitment": _commitment, "discount": _discount, "shared": _shared, "energy": _measured,
    "memory": _measured, "credit": _credit, "tax": _tax,
}  # fmt: skip


def _spans(found: Sequence[Mapping[str, Any]], zone: str, words: Language) -> str:
    """The spans in which a price holds, each with what else it asks for."""
    parts = []
    for one in found:
        ends = {"first": _first(one["from"], zone, words), "last": _last(one["to"], zone, words)}
        known = [name for name, said in ends.items() if said]
        name = {("first", "last"): "from_to", ("first",): "since", ("last",): "until"}.get(tuple(known))
        said = [words(f"line_said.{name}", **ends)] if name else []
        said += [words("line_said.only", what=_only(one["only"], words))] if one["only"] else []
        parts.append(words("line_said.comma").join(said))
    return words("line_said.and").join(dict.fromkeys(filter(None, parts)))


def _only(conditions: str, words: Language) -> str:
    """What a rule asks for (billing.rates.validity), its keys in the page's language: `queue batch, pool research`."""
    said = []
    for condition in conditions.split(", "):
        key, value = _after(condition, " ")
        name = words.of(f"match.{key}", "") if value else ""
        value = words.of(f"match.is_{value}", value) if key == "preemptible" else value
        said.append(f"{name} {value}" if name else condition)
    return words("line_said.comma").join(said)


def _first(instant: str | None, zone: str, words: Language) -> str:
    at = instant and datetime.fromisoformat(instant).astimezone(ZoneInfo(zone))
    return _day(at, words) if at else ""


def _last(instant: str | None, zone: str, words: Language) -> str:
    """An exclusive end: its last day, or the day with the time unless it is midnight in the zone."""
    at = instant and datetime.fromisoformat(instant).astimezone(ZoneInfo(zone))
    if not at:
        return ""
    return _day(at - timedelta(days=1) if at.time() == time() else at, words)


def _day(at: datetime, words: Language) -> str:
    return words.day(at) if at.time() == time() else words.dated(at)
