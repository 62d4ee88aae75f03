-- One row: what no rule of the mapping in force fits, as the sources reported it, on devices with one number of units.
-- Units:   micro_ms: millionths of a unit-millisecond.
SELECT
    reported_tenant,
    reported_project,
    queue,
    cluster,
    tenant,
    device_units,
    toInt128(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) * 1000000) AS micro_ms,
    uniqExact(allocation_id) AS allocations,
    min(charge_period_start) AS since,
    max(charge_period_end) AS until
FROM ledger
WHERE unmapped AND allocation_id != ''
GROUP BY reported_tenant, reported_project, queue, cluster, tenant, device_units
