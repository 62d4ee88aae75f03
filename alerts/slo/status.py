"""The status of objectives: a row of the view slo_status as a dataclass, and a summary for each tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime

from warehouse.isolation import OBJECTIVES, OWN_DEVICE
from warehouse.store import Store, read_sql

_OF_SERVICES = ("latency", "error_rate")
_LEVELS = {
    "of_services": list(_OF_SERVICES),
    "of_queues": [kind for kind in OWN_DEVICE if kind not in _OF_SERVICES],
    "unfit": [level for level, kinds in OBJECTIVES.items() if not {*OWN_DEVICE} <= {*kinds}],
}
SharedParts = Mapping[tuple[str, str, str, bool], float | None]
BURNING = ("", "slow", "medium", "fast")
"""How fast a budget burns, the worst last."""


@dataclass(frozen=True)
class SeriesStatus:
    """A series at an instant; see the view slo_status (warehouse/migrations/0108_objectives.sql) for units.

    shared_part: of the GPU-hours of the day before that were held for it, the part on devices whose isolation level may
    not promise such an objective.
    None: not known. An objective of which nothing is known has one row with an empty tenant.
    """

    objective: str
    definition: str
    kind: str
    unit: str
    cluster: str
    tenant: str
    subject: str
    owner: str
    target: float
    window_seconds: int
    measured_until: datetime | None
    good: float
    bad: float
    missing: float
    dark_seconds: float
    sli: float | None
    coverage: float | None
    budget_left: float | None
    state: str
    burn_5m: float | None
    burn_30m: float | None
    burn_1h: float | None
    burn_6h: float | None
    burn_3d: float | None
    limit_fast: float
    limit_medium: float
    limit_slow: float
    burning: str
    shared_part: float | None = None


COLUMNS = tuple(field.name for field in fields(SeriesStatus))


@dataclass(frozen=True)
class TenantStatus:
    """A tenant's series together. burning and budget_left are those of the worst."""

    tenant: str
    met: int
    missed: int
    unknown: int
    burning: str
    budget_left: float | None
    worst: str


def slo_status(store: Store, at: datetime, tenant: str | None = None) -> list[SeriesStatus]:
    """All series of the objectives in force (of one tenant), as measured; those whose budget is gone first."""
    series = measured(store, at, tenant)
    return with_shared_parts(series, _shared_parts(store, at)) if series else []


def measured(store: Store, at: datetime, tenant: str | None = None) -> list[SeriesStatus]:
    """As `slo_status`, but for shared_part."""
    if _nothing_in_force(store):
        return []
    params = {"at": at, "all_tenants": int(tenant is None), "tenant": tenant or ""}
    return [SeriesStatus(**row) for row in store.rows(read_sql(__file__, "status"), params)]


def shared_parts(store: Store, at: datetime) -> SharedParts:
    """By cluster, tenant ('' of a service), and queue or service, and whether it is one."""
    return {} if _nothing_in_force(store) else _shared_parts(store, at)


def _shared_parts(store: Store, at: datetime) -> SharedParts:
    rows = store.rows(read_sql(__file__, "shared_part"), {"at": at, **_LEVELS})
    return {
        (row["cluster"], row["tenant"], row["subject"], bool(row["is_service"])): row["shared_part"] for row in rows
    }


def with_shared_parts(series: Iterable[SeriesStatus], parts: SharedParts) -> list[SeriesStatus]:
    """Each series with its own; kinds that depend on no neighbours have none."""

    def of(one: SeriesStatus) -> float | None:
        if one.kind not in OWN_DEVICE:
            return None
        is_service = one.kind in _OF_SERVICES
        return parts.get((one.cluster, "" if is_service else one.tenant, one.subject, is_service))

    return [replace(one, shared_part=of(one)) for one in series]


def _nothing_in_force(store: Store) -> bool:
    """To plan the rest takes a tenth of a second."""
    return not store.value("SELECT count() AS files FROM slo_files")


def by_tenant(series: Iterable[SeriesStatus]) -> list[TenantStatus]:
    """The tenants of the series, by name; an objective without known events has no tenant and is left out."""
    held: dict[str, list[SeriesStatus]] = defaultdict(list)
    for one in series:
        if one.good or one.bad or one.missing or one.dark_seconds:
            held[one.tenant].append(one)
    return [_summary(tenant, held[tenant]) for tenant in sorted(held)]


def _summary(tenant: str, series: list[SeriesStatus]) -> TenantStatus:
    states = [one.state for one in series]
    known = [one for one in series if one.budget_left is not None]
    worst = min(known, key=lambda one: one.budget_left or 0.0, default=None)
    return TenantStatus(
        tenant,
        states.count("met"),
        states.count("missed"),
        states.count("unknown"),
        max((one.burning for one in series), key=BURNING.index),
        worst.budget_left if worst else None,
        " ".join(part for part in (worst.objective, worst.subject) if part) if worst else "",
    )
