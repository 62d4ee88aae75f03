"""Applied files (YAML): each is read, compared with the version in force, and applied in the same way.

file = read(RATES, text)                       refused with the key that does not fit
compare(store, RATES, file)                    what it would change; refused where an issued invoice would change
apply(store, RATES, file, "ada", "why", now)   in force, with an author and a reason, in the audit
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import yaml

from access.roles import Action
from alerts.slo.applied import apply_objectives, current_objectives
from alerts.slo.errors import SloError
from alerts.slo.objectives import parse_objectives
from billing.accounts.budget_file import BudgetError, apply_budgets, check_budgets, current_budgets, parse_budgets
from billing.applied import Versioned
from billing.energy.settings import (
    EnergySettingsError,
    apply_energy_settings,
    current_energy_settings,
    parse_energy_settings,
)
from billing.parties.applied import apply_parties, current_parties
from billing.parties.details import PartiesError, parse_parties
from billing.rates import (
    RateError,
    apply_rate_card,
    card_changes,
    check_rate_card,
    current_rate_card,
    parse_rate_card,
    price_effect,
)
from billing.rates.changes import without_rates
from billing.tenants import TenantError, apply_mapping, check_mapping, current_mapping, parse_mapping, preview
from warehouse.errors import LedgerError
from warehouse.store import Store, read_sql
from warehouse.written_files import keys_of

FILE_CHARACTERS = 1_000_000


@dataclass(frozen=True)
class InForce:
    """A file in force, with its author and reason."""

    file: Versioned
    version: str
    applied_at: datetime
    author: str
    reason: str


@dataclass(frozen=True)
class Kind:
    """name: of the part of the administration.   api: where it is posted, below /api/v1.   action: what that takes.
    what: in errors.   current: as the package has it, with the file in its `attribute`.   refuse: raises where applying
    would.   changes: in words.   effect: on the closed hours, a row a change.   table, column, lists: its versions.
    """

    name: str
    api: str
    action: Action
    what: str
    error: type[LedgerError]
    parse: Callable[[dict[str, Any], str], Any]
    current: Callable[[Store], Any]
    attribute: str
    apply: Callable[[Store, Any, str, str, datetime], str]
    table: str
    column: str
    lists: tuple[str, ...]
    refuse: Callable[[Store, Any], None] = lambda store, file: None
    changes: Callable[[Any, Any], Sequence[str]] = lambda old, new: ()
    effect: Callable[[Store, Any, Any], Sequence[Mapping[str, Any]]] = lambda store, old, new: ()


@dataclass(frozen=True)
class Compared:
    """before: the version in force; None: none is.   diff: lines of a unified diff of the two, as YAML.
    changes: in words.   effect: what becomes of the closed hours, a row a change."""

    version: str
    before: str | None
    diff: Sequence[str] = ()
    changes: Sequence[str] = ()
    effect: Sequence[Mapping[str, Any]] = field(default=())

    @property
    def new(self) -> bool:
        return self.version != self.before


def read(kind: Kind, text: str) -> Any:
    """The file that a text holds. Errors: the kind's own, naming the key, what was found there and what fits."""
    content = keys_of(text, kind.what, "keys and values", "See docs/contracts.md", kind.error)
    return kind.parse(content, kind.what)


def in_force(store: Store, kind: Kind) -> InForce | None:
    """The file in force, or None before the first was applied."""
    found = kind.current(store)
    if found is None:
        return None
    return InForce(getattr(found, kind.attribute), found.version, found.applied_at, found.author, found.reason)


def compare(store: Store, kind: Kind, file: Versioned) -> Compared:
    """The effect of putting it in force. Changes nothing. Errors: as applying it would."""
    before = in_force(store, kind)
    if before is not None and before.version == file.version:
        return Compared(file.version, before.version)
    kind.refuse(store, file)
    old = before.file if before else None
    lines = difflib.unified_diff(as_yaml(old).splitlines(), as_yaml(file).splitlines(), lineterm="", n=2)
    return Compared(
        file.version,
        before.version if before else None,
        list(lines)[2:],
        kind.changes(old, file) if old else (),
        kind.effect(store, old, file),
    )


def apply(store: Store, kind: Kind, file: Versioned, author: str, reason: str, now: datetime) -> bool:
    """Puts it in force; False where it is already. Errors: the kind's own, where an issued invoice would change."""
    before = kind.current(store)
    return kind.apply(store, file, author, reason, now) != (before.version if before else None)


def versions(store: Store, kind: Kind) -> list[dict[str, Any]]:
    """Every application, the oldest first: version, applied_at, author, reason, rules (entries of its lists)."""
    params = {"table": kind.table, "column": kind.column, "keys": list(kind.lists)}
    return store.rows(read_sql(__file__, "applied_versions"), params)


def as_yaml(file: Versioned | None) -> str:
    """The file as YAML that can be applied again; None: no file."""
    if file is None:
        return ""
    return yaml.safe_dump(json.loads(file.canonical()), sort_keys=False, allow_unicode=True, width=100)


def _price_effect(store: Store, old: Any, new: Any) -> Sequence[Mapping[str, Any]]:
    return price_effect(store, old or without_rates(new), new)


def _moves(store: Store, old: Any, new: Any) -> Sequence[Mapping[str, Any]]:
    return preview(store, new).moves


RATES = Kind(
    "rates", "/rates/cards", Action.set_prices, "the rate card", RateError, parse_rate_card, current_rate_card, "card",
    apply_rate_card, "rate_cards", "card", ("rates",), check_rate_card,
    lambda old, new: [f"{change.what} {change.of}: {change.words}" for change in card_changes(old, new)],
    _price_effect,
)  # fmt: skip
TENANTS = Kind(
    "tenants", "/tenants/mapping", Action.set_prices, "the tenants' mapping", TenantError, parse_mapping,
    current_mapping, "mapping", apply_mapping, "tenant_mappings", "mapping", ("rules",), check_mapping, effect=_moves,
)  # fmt: skip
BUDGETS = Kind(
    "budgets", "/budgets", Action.set_budgets, "the budgets", BudgetError, parse_budgets, current_budgets, "file",
    apply_budgets, "budgets", "budgets", ("budgets", "low_balances"), check_budgets,
)  # fmt: skip
OBJECTIVES = Kind(
    "objectives", "/objectives", Action.set_budgets, "the objectives", SloError, parse_objectives, current_objectives,
    "file", apply_objectives, "slo_files", "objectives", ("objectives",),
)  # fmt: skip
ENERGY = Kind(
    "energy", "/energy/settings", Action.set_prices, "the energy settings", EnergySettingsError, parse_energy_settings,
    current_energy_settings, "settings", apply_energy_settings, "energy_settings", "settings",
    ("intensity", "idle_power"),
)  # fmt: skip
PARTIES = Kind(
    "parties", "/parties", Action.set_prices, "the parties", PartiesError, parse_parties, current_parties, "parties",
    apply_parties, "parties", "parties", ("seller", "buyers"),
)  # fmt: skip
KINDS = {kind.name: kind for kind in (RATES, TENANTS, BUDGETS, OBJECTIVES, ENERGY, PARTIES)}
