"""Assigns the paying tenant: cuts the accepted claims where the tenant mapping changes."""

from __future__ import annotations

from billing.close.resolve import FOREVER
from billing.close.stage import Stage
from billing.rates.staging import subject_keys
from billing.tenants import AppliedMapping, Combination, OwnerBook
from warehouse.store import Params, Store, read_sql


def stage_payers(store: Store, stage: Stage, mapping: AppliedMapping, subjects: Params) -> None:
    """Replaces the working table `settled` by the same claims, cut and with the paying tenants of a mapping.

    subjects: parameters of what prices depend on (billing.rates.staging.subject_params).
    """
    params = {
        **stage.names("settled", "owners", "paid"),
        **subjects,
        "workload_patterns": list(mapping.mapping.workload_expressions),
        "forever": FOREVER,
    }
    store.command(read_sql(__file__, "stage_owners"), params)
    _fill_owners(store, stage, mapping, [Combination(**row) for row in _combinations(store, params)])
    store.command(read_sql(__file__, "paid", keys=subject_keys("reported", "priced_")), params)
    store.exchange(stage("paid"), stage("settled"))
    store.command("DROP TABLE {paid:Identifier}", params)


def _combinations(store: Store, params: Params) -> list[dict[str, str]]:
    return store.rows(read_sql(__file__, "combinations"), params)


def _fill_owners(store: Store, stage: Stage, mapping: AppliedMapping, combinations: list[Combination]) -> None:
    import pyarrow as pa

    book = OwnerBook(mapping.mapping)
    rows = [(combination, period) for combination in combinations for period in book.periods(combination)]
    if not rows:
        return
    texts = {name: [getattr(reported, name) for reported, _ in rows] for name in Combination._fields}
    store.insert(
        stage("owners"),
        pa.table(
            {
                **{name: pa.array(values, pa.string()) for name, values in texts.items()},
                "from_ms": pa.array([period.start_ms for _, period in rows], pa.int64()),
                "to_ms": pa.array([min(period.end_ms, FOREVER) for _, period in rows], pa.int64()),
                "to_tenant": pa.array([period.owner.tenant for _, period in rows], pa.string()),
                "to_project": pa.array([period.owner.project for _, period in rows], pa.string()),
                "cost_center": pa.array([period.owner.cost_center for _, period in rows], pa.string()),
                "unmapped": pa.array([int(period.owner.unmapped) for _, period in rows], pa.uint32()),
            }
        ),
    )
