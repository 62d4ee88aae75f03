"""Allocations of closed hours, as OpenCost's API answers them: exact sums, floats only in the JSON.

Hours and prices are the ledger's. A window or step that cuts an entry takes its linear share of it; a window that
reaches into hours that are not closed has what is closed, and a warning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import Any

from billing.exact import Scale
from billing.opencost.query import AllocationQuery
from billing.opencost.words import IDLE, LABELS, PROPERTIES, UNALLOCATED, UNAVAILABLE
from billing.periods import Period
from billing.sums import KINDS, LedgerSum, one_currency
from warehouse.instants import epoch_ms, of_epoch_ms
from warehouse.store import Store, read_sql

DESCRIBED = (*PROPERTIES, *LABELS)


@dataclass
class Allocation:
    """What one name has in one set.

    start, end:  the first and last instant it held something; there may be gaps between.
    properties:  of `DESCRIBED`, those that are the same throughout and known.
    held:        GPU-time and its cost; of the platform's own time for `__idle__` and `__unavailable__` (`is_platform`).
    idle_cost:   its share of idle time's cost, at list price, if idle is shared.
    """

    name: str
    window: Period
    held: LedgerSum
    start: datetime
    end: datetime
    is_platform: bool
    shared: bool = False
    properties: dict[str, str | None] = field(default_factory=dict)
    idle_cost: Fraction = Fraction(0)


@dataclass(frozen=True)
class Allocations:
    """The answer: a set for each step, by name. `warnings`: what its reader must know, one line each."""

    query: AllocationQuery
    sets: tuple[dict[str, Allocation], ...]
    currency: str | None
    warnings: tuple[str, ...] = ()


Row = Mapping[str, Any]
Apart = tuple[str, str]
"""Cluster and node within which idle time is shared or shown; empty where it is not kept apart by them."""


def allocations(store: Store, query: AllocationQuery) -> Allocations:
    """What the closed hours of the window say. Errors: LedgerError if amounts of two currencies would be added."""
    rows = store.rows(read_sql(__file__, "allocation"), _params(query))
    currency = one_currency(rows)
    scale = Scale.of(row["device_units"] for row in rows)
    by_step: dict[int, list[Row]] = {}
    for row in rows:
        by_step.setdefault(row["step"], []).append(row)
    windows = [Period(start, end) for start, end in zip(query.edges, query.edges[1:], strict=False)]
    sets = tuple(_set(query, window, by_step.get(step, ()), scale) for step, window in enumerate(windows))
    return Allocations(query, sets, currency, tuple(_warnings(store, query, rows)))


def _params(query: AllocationQuery) -> dict[str, Any]:
    by = ("cluster", "node", "namespace", "pod") if query.by is None else query.by
    apart = []
    if query.include_idle or query.share_idle:
        apart = ["cluster", "node"] if query.idle_by_node or "node" in by else ["cluster"]
    return {
        "edges": [epoch_ms(edge) for edge in query.edges],
        "by": [name.removeprefix("label:") for name in by],
        "apart": apart,
        **{f"wanted_{name}": list(query.wanted.get(name, ())) for name in DESCRIBED},
    }


def _set(query: AllocationQuery, window: Period, rows: Iterable[Row], scale: Scale) -> dict[str, Allocation]:
    """One set: holders by name, the platform's own time if asked for, idle shared out if asked for."""
    found: dict[str, Allocation] = {}
    others: dict[str, Allocation] = {}  # filtered out, but bearing their share of idle time
    bearers: dict[Apart, list[tuple[Allocation, int]]] = {}
    idle: dict[Apart, list[Row]] = {}
    for row in rows:
        apart = row["apart_cluster"], row["apart_node"]
        if row["held"]:
            holder = _add(found if row["matched"] else others, _name(query, row), window, row, scale, *KINDS)
            if query.share_idle:
                bearers.setdefault(apart, []).append((holder, _listed(row, scale, *KINDS)))
            continue
        if row["unallocated_micro_ms"]:
            idle.setdefault(apart, []).append(row)
        if row["unavailable_micro_ms"] and row["matched"] and query.include_idle:
            _add(found, _platform_name(query, row, UNAVAILABLE), window, row, scale, "unavailable")
    for apart, lying in idle.items():
        if query.share_idle and _share(lying, bearers.get(apart, ()), scale):
            continue
        for row in lying:
            if row["matched"] and query.include_idle:
                _add(found, _platform_name(query, row, IDLE), window, row, scale, "unallocated")
    return dict(sorted(found.items()))


def _share(idle: Iterable[Row], bearers: Sequence[tuple[Allocation, int]], scale: Scale) -> bool:
    """Adds the cost of idle time to the holders beside it, in proportion to their own cost; False if there are none."""
    weight = sum(listed for _, listed in bearers)
    if not weight:
        return False
    cost = scale.money(sum(_listed(row, scale, "unallocated") for row in idle))
    for holder, listed in bearers:
        holder.idle_cost += cost * Fraction(listed, weight)
    return True


def _listed(row: Row, scale: Scale, *kinds: str) -> int:
    """The row's cost at list price, on the scale's money; 0 where the price is unknown, as in every sum."""
    part = LedgerSum(scale)
    part.add(row, *kinds)
    return part.listed


def _add(into: dict[str, Allocation], name: str, window: Period, row: Row, scale: Scale, *kinds: str) -> Allocation:
    start, end = of_epoch_ms(row["from_ms"]), of_epoch_ms(row["to_ms"])
    described = {key: row[f"the_{key}"] for key in DESCRIBED}
    known = into.get(name)
    if known is None:
        known = into[name] = Allocation(
            name, window, LedgerSum(scale), start, end, is_platform=not row["held"], properties=described
        )
    known.held.add(row, *kinds)
    known.start, known.end = min(known.start, start), max(known.end, end)
    known.shared = known.shared or bool(row["shared"])
    for key, value in described.items():
        if known.properties[key] != value:
            known.properties[key] = None
    return known


def _name(query: AllocationQuery, row: Row) -> str:
    if query.by is None:
        return _joined([row[f"by_{key}"] for key in PROPERTIES])
    known = (*PROPERTIES, *(f"label:{label}" for label in LABELS))
    return _joined([row[f"by_{key.removeprefix('label:')}"] if key in known else "" for key in query.by])


def _platform_name(query: AllocationQuery, row: Row, suffix: str) -> str:
    """`__idle__`, behind what it is kept apart by: cluster and node, if asked for.

    Of several properties it has as many parts as any other name, for kubectl-cost splits each and gives up on another
    number: it knows `__idle__` alone.
    Source: pkg/cmd/display/output.go of kubecost/kubectl-cost (2026).
    """
    places = {"cluster": row["apart_cluster"], "node": row["apart_node"]}
    by = PROPERTIES if query.by is None else query.by
    if query.idle_by_node:
        return _joined([*filter(None, places.values()), suffix])
    known = [places[name] for name in by if places.get(name)]
    if query.by is None or len(by) == 1 or (suffix == IDLE and not known):
        return _joined([*known, suffix])
    return _joined([places.get(name, suffix) for name in by])


def _joined(parts: Sequence[str]) -> str:
    return "/".join(part or UNALLOCATED for part in parts)


def _warnings(store: Store, query: AllocationQuery, rows: Sequence[Row]) -> Iterable[str]:
    window = query.window
    first = epoch_ms(window.start) // 3_600_000
    asked = -(-epoch_ms(window.end) // 3_600_000) - first
    params = {"start": window.start, "end": window.end}
    closed = store.value(read_sql(__file__, "closed_hours_of"), params)
    if closed < asked:
        yield f"{closed} of {asked} hours of the window are closed; the others are in no figure"
    cut = sum(row["cut"] for row in rows)
    if cut:
        yield f"the window or step cuts ledger entries ({cut} parts); they are prorated linearly"
    counted = rows if query.include_idle or query.share_idle else [row for row in rows if row["held"]]
    if any(row["list_unit_price"] is None or row["contracted_unit_price"] is None for row in counted):
        yield "some GPU-hours have no price; they are in no cost (gpuledger.unpricedGpuHours)"
    if query.ignored:
        yield f"not known and without effect: {', '.join(query.ignored)}"
