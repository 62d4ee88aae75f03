"""Allocated time that no rule of the mapping matches, and the effect of another mapping."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from billing.exact import Scale
from billing.tenants.mapping import TenantMapping
from billing.tenants.owners import Combination, OwnerBook
from warehouse.instants import epoch_ms
from warehouse.store import Store, read_sql

REPORTED = ("reported_tenant", "reported_project", "queue", "cluster")


def unmapped(store: Store) -> list[dict[str, Any]]:
    """What no rule fits in the closed books, most GPU-hours first.

    A row: what the source reported (`reported_tenant`, `reported_project`, `queue`, `cluster`), who pays for it
    (`owner`), `gpu_hours`, how many `allocations`, from when (`since`) to when (`until`).
    """
    rows = store.rows(read_sql(__file__, "unmapped"))
    scale = Scale.of(row["device_units"] for row in rows)
    merged: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        merged[*(row[key] for key in REPORTED), row["tenant"]].append(row)
    found = [
        {
            **dict(zip((*REPORTED, "owner"), key, strict=True)),
            "gpu_hours": _hours(scale, parts),
            "allocations": sum(part["allocations"] for part in parts),
            "since": min(part["since"] for part in parts),
            "until": max(part["until"] for part in parts),
        }
        for key, parts in merged.items()
    ]
    return sorted(found, key=lambda row: (-row["gpu_hours"], *(row[key] for key in REPORTED)))


@dataclass(frozen=True)
class Preview:
    """What a mapping would make of the closed books.

    moves:    rows of what was reported, `now` and `then` (tenant, project, cost center as text) and `gpu_hours`.
    unmapped: rows of what no rule would fit: what was reported, `owner`, `gpu_hours`.
    idle:     rules that fit nothing that was ever held, in words.
    """

    moves: Sequence[Mapping[str, Any]]
    unmapped: Sequence[Mapping[str, Any]]
    idle: Sequence[str]


def preview(store: Store, mapping: TenantMapping) -> Preview:
    """Applies the mapping to what the books say now, without changing anything."""
    bounds = sorted({epoch_ms(at) for rule in mapping.rules for at in (rule.effective_from, rule.effective_to) if at})
    params = {"workload_patterns": list(mapping.workload_expressions), "bounds": bounds}
    rows = store.rows(read_sql(__file__, "held_combinations"), params)
    book, scale = OwnerBook(mapping), Scale.of(row["device_units"] for row in rows)
    moves: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    open_: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    used: set[int] = set()
    for row in rows:
        reported = Combination(*(row[key] for key in (*REPORTED, "source", "workloads")))
        owner = next(p.owner for p in book.periods(reported) if p.start_ms <= row["first_ms"] < p.end_ms)
        used.update(book.rules_of(reported))
        key = tuple(row[name] for name in REPORTED)
        now, then = _shown(row["tenant"], row["project"], row["cost_center"]), _shown(*_parts(owner))
        if now != then:
            moves[*key, now, then].append(row)
        if owner.unmapped:
            open_[*key, owner.tenant].append(row)
    return Preview(
        _summed(moves, (*REPORTED, "now", "then"), scale),
        _summed(open_, (*REPORTED, "owner"), scale),
        [f"rules[{n}] ({rule.words})" for n, rule in enumerate(mapping.rules) if n not in used],
    )


def _summed(
    groups: Mapping[tuple[str, ...], Sequence[Mapping[str, Any]]], names: Sequence[str], scale: Scale
) -> list[dict[str, Any]]:
    rows = [{**dict(zip(names, key, strict=True)), "gpu_hours": _hours(scale, parts)} for key, parts in groups.items()]
    return sorted(rows, key=lambda row: (-row["gpu_hours"], *(str(row[name]) for name in names)))


def _hours(scale: Scale, rows: Sequence[Mapping[str, Any]]) -> Decimal:
    return scale.hours(sum(scale.quantity(row["micro_ms"], row["device_units"]) for row in rows))


def _parts(owner: Any) -> tuple[str, str, str]:
    return owner.tenant, owner.project, owner.cost_center


def _shown(tenant: str, project: str, cost_center: str) -> str:
    return " / ".join(
        part for part in (tenant or "(nobody)", project, cost_center and f"cost center {cost_center}") if part
    )
