"""Files that people state: each kind is refused, compared and applied alike, and a change is told before it is made."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from api import applied_files
from api.applied_files import KINDS
from billing.audit import history
from warehouse.errors import LedgerError
from warehouse.store import Store

NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
FILES = {
    "rates": """
currency: EUR
timezone: Europe/Berlin
rates:
  - {sku: a, match: {model: "*"}, price_per_gpu_hour: "2.00", effective_to: 2026-11-01}
  - {sku: a, match: {model: "*"}, price_per_gpu_hour: "2.50", effective_from: 2026-11-01}
""",
    "tenants": """
timezone: Europe/Berlin
rules:
  - {match: {tenant: "vis*"}, cost_center: "4711", effective_from: 2026-10-01}
""",
    "budgets": """
currency: EUR
budgets: [{tenant: vision, amount: "100.00", effective_from: 2026-10, thresholds: [{percent: "80"}]}]
low_balances: [{tenant: vision, amount: "5.00"}]
""",
    "objectives": """
objectives:
  - {name: waits, kind: queue_wait, target: "0.95", window: 30d, within: 30m, owner: ops}
""",
    "energy": """
timezone: Europe/Berlin
intensity: [{region: DE, grams_per_kwh: "380", pue: "1.25", effective_from: 2026-10-01, source: "a table"}]
idle_power: [{model: "NVIDIA*", watts: "70"}]
""",
    "parties": """
seller:
  - {name: "A GmbH", address: ["Köln"], bank: {name: "B", holder: "A", iban: "DE89370400440532013000", bic: "COLSDE33"}}
buyers: [{tenant: vision, name: "Vision GmbH", purchase_order: "4711"}]
""",
}
CHANGED = {
    "rates": ('"2.50"', '"2.60"'),
    "tenants": ("4711", "4712"),
    "budgets": ("100.00", "120.00"),
    "objectives": ('"0.95"', '"0.99"'),
    "energy": ('"380"', '"350"'),
    "parties": ("DE89370400440532013000", "DE02120300000000202051"),
}


def apply(store: Store, name: str, text: str) -> Any:
    file = applied_files.read(KINDS[name], text)
    assert applied_files.apply(store, KINDS[name], file, "ada", "why", NOW)
    return file


@pytest.mark.parametrize("name", KINDS)
def test_a_file_is_compared_applied_shown_as_yaml_and_known_again(store: Store, name: str) -> None:
    kind = KINDS[name]
    first = applied_files.compare(store, kind, applied_files.read(kind, FILES[name]))
    assert (first.new, first.before) == (True, None)
    file = apply(store, name, FILES[name])
    found = applied_files.in_force(store, kind)
    assert found is not None
    assert (found.version, found.author, found.reason) == (file.version, "ada", "why")
    again = applied_files.read(kind, applied_files.as_yaml(found.file))
    assert again.version == file.version
    assert not applied_files.apply(store, kind, again, "bob", "", NOW)
    assert not applied_files.compare(store, kind, again).new
    other = applied_files.compare(store, kind, applied_files.read(kind, FILES[name].replace(*CHANGED[name])))
    assert (other.new, other.before) == (True, file.version)
    signs = [line for line in other.diff if line[0] in "+-"]
    old, new = (value.strip('"') for value in CHANGED[name])
    assert [(line[0], old in line, new in line) for line in signs] == [("-", True, False), ("+", False, True)]
    (row,) = applied_files.versions(store, kind)
    assert (row["version"], row["rules"]) == (file.version, sum(len(getattr(file, name)) for name in kind.lists))
    (noted,) = history(store, "", file.version)
    assert (noted["actor"], noted["reason"]) == ("ada", "why")


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML"),
        ("", "not keys and values"),
        ("- 1", "not keys and values"),
        ("colour: red", "missing|colour"),
        ('a: {b: ["x\\0"]}', "is a control character"),
        ('"a\\u202Eb": 1', "is a control character"),
    ],
)
def test_a_file_of_no_use_is_one_line_that_says_where(name: str, text: str, said: str) -> None:
    with pytest.raises(LedgerError, match=said) as refused:
        applied_files.read(KINDS[name], text)
    assert "\n" not in str(refused.value)
    assert refused.value.where.startswith(KINDS[name].what)


def test_another_price_is_told_in_words_and_in_the_cost_of_the_closed_hours(filled: Store) -> None:
    apply(filled, "rates", 'currency: EUR\nrates: [{sku: a, match: {}, price_per_gpu_hour: "2.00"}]')
    kind = KINDS["rates"]
    found = applied_files.compare(
        filled,
        kind,
        applied_files.read(kind, 'currency: EUR\nrates: [{sku: a, match: {}, price_per_gpu_hour: "3.00"}]'),
    )
    assert found.changes == ["changed a (anything): from 2.00 to 3.00"]
    effect = {row["tenant"]: (row["gpu_hours"], row["difference"]) for row in found.effect}
    assert effect["vision"] == (Decimal(48), Decimal(48))
    assert applied_files.in_force(filled, kind) is not None
    assert len(applied_files.versions(filled, kind)) == 1


def test_another_mapping_is_told_by_what_moves_in_the_closed_hours(filled: Store) -> None:
    kind = KINDS["tenants"]
    found = applied_files.compare(
        filled, kind, applied_files.read(kind, "rules: [{match: {tenant: vision}, tenant: sight}]")
    )
    assert [(row["reported_tenant"], row["then"].split(" /")[0], row["gpu_hours"]) for row in found.effect] == [
        ("vision", "sight", Decimal(48))
    ]
