"""What is said of a file of each kind once a value in it is another, or its key is left out.

GPULEDGER_GOLDEN=write pytest tests/billing/test_golden_files.py     renews golden/files.json
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from billing.accounts.budget_file import parse_budgets
from billing.energy.settings import parse_energy_settings
from billing.insights.mig_profiles import mig_profiles
from billing.parties.details import parse_parties
from billing.rates import parse_rate_card
from billing.tenants import parse_mapping
from tests.billing.golden import compare, digest
from tests.billing.test_golden_pages import PARTIES, places
from tests.billing.whole_books import CARD, ENERGY, MAPPING
from warehouse.errors import LedgerError

BUDGETS = {
    "currency": "EUR",
    "budgets": [
        {"tenant": "a", "project": "b", "amount": "1.00", "effective_from": "2026-10"},
        {"tenant": "a", "amount": "3.00", "thresholds": [{"percent": "50"}, {"percent": "90", "of": "forecast"}]},
    ],
    "low_balances": [{"tenant": "a", "amount": "5.00"}],
}
TURNS = [
    {"match": {"queue": "x"}, "tenant": "a", "effective_from": "2026-10-01", "effective_to": "2026-10-10"},
    {"match": {"queue": "x"}, "tenant": "b", "effective_from": "2026-10-10", "effective_to": "2026-10-31"},
]
SELLER = {**PARTIES["seller"], "effective_from": "2026-01-01"}
BUYER = {**PARTIES["buyer"], "payment_days": 14, "effective_to": "2027-01-01"}
FILES: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "rates": (parse_rate_card, CARD),
    "tenants": (parse_mapping, {**MAPPING, "rules": [*TURNS, *MAPPING["rules"]]}),
    "energy": (parse_energy_settings, ENERGY),
    "budgets": (parse_budgets, BUDGETS),
    "parties": (parse_parties, {"seller": [SELLER], "buyers": [BUYER]}),
}
LEFT_OUT = object()
DATES = ("2026-13", "2026-10-05T00:30", "2026-10-20", "1900-01")
OTHERS = (LEFT_OUT, None, "", "x", "-1", "1.0000000001", -1, 10**12, True, *DATES, [])
"""What a value could be by mistake."""


def said_of(parse: Callable[[Any], Any], content: Any) -> str:
    try:
        read = parse(content)
    except LedgerError as error:
        return str(error)
    return f"taken, {digest(repr(read))}"


@pytest.mark.parametrize("name", FILES)
def test_what_is_refused_is_that_of_the_golden_file(name: str) -> None:
    """Of values that stand in the same place of several parts of a list the first. Of what is taken a digest."""
    parse, content = FILES[name]
    seen = set()
    found: dict[str, dict[str, list[str]]] = {"": {said_of(parse, content): []}}
    for place in places(content):
        kind = tuple(key for key in place if isinstance(key, str))
        if kind in seen:
            continue
        seen.add(kind)
        for other in OTHERS:
            changed = copy.deepcopy(content)
            holder = changed
            for key in place[:-1]:
                holder = holder[key]
            if other is LEFT_OUT:
                del holder[place[-1]]
            else:
                holder[place[-1]] = other
            value = "left out" if other is LEFT_OUT else json.dumps(other)
            said = said_of(parse, changed).replace(f"found {other!r}", "found it")
            found.setdefault(".".join(map(str, place)), {}).setdefault(said, []).append(value)
    compare("files", name, found)


def parts_beside(part: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """What could stand in the place of a part of a list: it twice, cut in time, the wrong way round, or widened."""
    months = "month" in part or not any("T" in str(part.get(key, "")) for key in ("effective_from", "effective_to"))
    until, since = ("2026-10", "2026-11") if months else ("2026-10-30T15:20:00Z", "2026-10-31T01:00:00Z")
    fewer = {f"also without {key}": [{name: one for name, one in part.items() if name != key}] for key in part}
    return {
        "twice": [part, part],
        "again for some": [part, {**part, "match": {"tenant": "ch*"}}],
        "first for some": [{**part, "match": {"tenant": "ch*"}}, part],
        "a tenant's": [part, {**part, "tenant": "chem"}],
        "a glob's": [part, {**part, "tenant": "ch*"}],
        "one follows": [{**part, "effective_to": until}, {**part, "effective_from": until}],
        "they overlap": [{**part, "effective_to": since}, {**part, "effective_from": until}],
        "ends as it starts": [{**part, "effective_from": until, "effective_to": until}],
        "ends before": [{**part, "effective_from": since, "effective_to": until}],
        "a day": [{**part, "effective_from": "2026-10-05", "effective_to": "2026-10-06"}],
        "an hour": [{**part, "effective_from": "2026-10-05T00:30:00+05:30"}],
        "a microsecond": [{**part, "effective_from": "2026-10-05T00:00:00.000001Z"}],
        "long ago": [{**part, "effective_from": "1899-12-31"}],
        **{what: [part, *one] for what, one in fewer.items()},
    }


@pytest.mark.parametrize("name", FILES)
def test_what_is_refused_of_parts_beside_each_other_is_that_of_the_golden_file(name: str) -> None:
    """Of each part of each list; and of each two of a list in the other order."""
    parse, content = FILES[name]
    found: dict[str, dict[str, list[str]]] = {}
    for key, parts in content.items():
        if not isinstance(parts, list):
            continue
        for number, part in enumerate(parts):
            tried = {what: [*parts[:number], *some, *parts[number + 1 :]] for what, some in parts_beside(part).items()}
            tried["alone"] = [part]
            tried["left out"] = [*parts[:number], *parts[number + 1 :]]
            if number:
                tried["first"] = [part, *parts[:number], *parts[number + 1 :]]
            for what, some in tried.items():
                said = said_of(parse, {**content, key: some})
                found.setdefault(f"{key} {number}", {}).setdefault(said, []).append(what)
    compare("files", f"{name}, parts", found)


def test_what_a_device_is_cut_into_is_that_of_the_golden_file() -> None:
    """Of each model with little memory and much: what is on a bound, and beside it."""
    found: dict[str, list[str]] = {}
    for model in ("NVIDIA A30", "A100-SXM4", "GH200", "H200 NVL", "H100 PCIe", "B200", "L40S", "A1000"):
        for gb in (0, 59, 60, 89, 90, 129, 130, 500):
            cut = [f"{one.name} {one.slices}/{one.of} {one.memory_bytes}" for one in mig_profiles(model, gb * 10**9)]
            found.setdefault(", ".join(cut), []).append(f"{model} {gb}")
    compare("files", "instances", found)
