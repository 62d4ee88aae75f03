"""Applies and reads the tenant mapping, with author and reason; refuses one that would change an issued invoice."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from billing import audit
from billing.applied import add_version
from billing.tenants.mapping import OwnerRule, TenantError, TenantMapping
from billing.tenants.owners import Combination, Owner, OwnerBook
from warehouse.chain import head
from warehouse.instants import epoch_ms, of_epoch_ms
from warehouse.store import Store, read_sql


@dataclass(frozen=True)
class AppliedMapping:
    """A mapping as it was applied, by whom and why."""

    mapping: TenantMapping
    version: str
    applied_at: datetime
    author: str
    reason: str


def current_mapping(store: Store) -> AppliedMapping | None:
    """The mapping in force, for a tenant's connection with its own rules alone; None before the first was applied."""
    rows = store.rows(read_sql(__file__, "current_mapping"))
    return _applied(store, rows[0]) if rows else None


def mapping_history(store: Store) -> list[dict[str, Any]]:
    """Every application, the oldest first: version, when, who, why, number of rules."""
    return store.rows(read_sql(__file__, "history"))


def closed_with_another(store: Store) -> str | None:
    """The version in force ('' = none), if the last close attributed by another one; None: it did by this one."""
    current = current_mapping(store)
    version = current.version if current else ""
    closes = store.rows("SELECT count() AS n, argMax(tenant_mapping, run) AS mapping FROM close_runs")
    return version if closes[0]["n"] and closes[0]["mapping"] != version else None


def apply_mapping(store: Store, mapping: TenantMapping, author: str, reason: str, now: datetime) -> str:
    """Puts the mapping in force and answers its version; the one in force already is left as it is.

    Closed hours in which it changes whose something is are attributed again by the next close.
    Errors: TenantError if it would change what an issued invoice was computed from.
    """
    last = head(store, "tenant_mappings")
    rows = store.rows(read_sql(__file__, "current_mapping"))
    if rows and rows[0]["version"] == mapping.version:
        return mapping.version
    check_mapping(store, mapping)
    add_version(
        store, "tenant_mappings", "mapping", mapping, rows[0]["sequence"] if rows else 0, author, reason, now, last
    )
    inputs = {"rules": len(mapping.rules), "before": rows[0]["version"] if rows else None}
    audit.record(store, now, author, "tenants.apply", mapping.version, reason, inputs)
    return mapping.version


def check_mapping(store: Store, mapping: TenantMapping) -> None:
    """Errors: TenantError if the mapping would change what an issued invoice was computed from."""
    current = current_mapping(store)
    _refuse_changed_invoices(store, current.mapping if current else None, mapping)


def _applied(store: Store, row: dict[str, Any]) -> AppliedMapping:
    mapping = _seen_by(store, TenantMapping.model_validate_json(row["mapping"]))
    return AppliedMapping(mapping, row["version"], row["applied_at"], row["author"], row["reason"])


def _seen_by(store: Store, mapping: TenantMapping) -> TenantMapping:
    """The engine's filters keep a tenant from others' rows, but the mapping is a single cell. A rule is of the tenant
    that it makes pay; one that leaves that as reported, of those that it matches by name."""
    mine = store.tenants
    if mine is None:
        return mapping

    def is_mine(rule: OwnerRule) -> bool:
        if rule.tenant is not None:
            return rule.tenant in mine
        reported = rule.match.tenant
        return reported is not None and any(fnmatchcase(one, reported) for one in mine)

    own = {
        "rules": tuple(rule for rule in mapping.rules if is_mine(rule)),
        "unmapped_owner": mapping.unmapped_owner if mapping.unmapped_owner in mine else "",
    }
    return mapping.model_copy(update=own)


def _refuse_changed_invoices(store: Store, old: TenantMapping | None, new: TenantMapping) -> None:
    """What an issued invoice covers keeps its tenant: nothing may leave its tenant and month, or enter them."""
    numbers: dict[datetime, dict[str, str]] = defaultdict(dict)
    for row in store.rows(read_sql(__file__, "invoiced_tenants")):
        numbers[row["period_start"]][row["tenant"]] = row["number"]
    if not numbers:
        return
    expressions = [*(old.workload_expressions if old else ()), *new.workload_expressions]
    of_old = len(old.workload_expressions) if old else 0
    before, after = OwnerBook(old), OwnerBook(new)
    for row in store.rows(read_sql(__file__, "invoiced_combinations"), {"workload_patterns": expressions}):
        digits = row.pop("workloads")
        reported = Combination(*(row[name] for name in ("tenant", "project", "queue", "cluster", "source")))
        span = epoch_ms(row["first"]), epoch_ms(row["last"])
        was = before.periods(reported._replace(workloads=digits[:of_old]))
        becomes = after.periods(reported._replace(workloads=digits[of_old:]))
        for at in sorted({span[0], *(p.start_ms for p in (*was, *becomes) if span[0] < p.start_ms < span[1])}):
            one, other = (next(p.owner for p in owners if p.start_ms <= at < p.end_ms) for owners in (was, becomes))
            invoiced = numbers[row["period_start"]]
            if _payer(one) != _payer(other) and (number := invoiced.get(one.tenant) or invoiced.get(other.tenant)):
                raise TenantError(
                    f"tenants' mapping: what was reported as {_reported(reported)} at {_instant(at)}",
                    f"would go from {_shown(one)} to {_shown(other)}, but invoice {number} was computed from it",
                    "Leave that rule as it was, end it with effective_to, and follow it with a new one",
                )


def _payer(owner: Owner) -> tuple[str, str, str]:
    return owner.tenant, owner.project, owner.cost_center


def _reported(reported: Combination) -> str:
    named = zip(("tenant", "project", "queue", "cluster"), reported, strict=False)
    return ", ".join(f"{key} {value!r}" for key, value in named if value) or "nothing"


def _shown(owner: Owner) -> str:
    parts = (("project", owner.project), ("cost center", owner.cost_center))
    return f"{owner.tenant!r}" + "".join(f", {name} {value!r}" for name, value in parts if value)


def _instant(ms: int) -> str:
    return f"{of_epoch_ms(ms):%Y-%m-%d %H:%M}Z"
