-- One row: allocated and measured quantities of a tenant's project, split by everything that components depend on.
-- Units:   held_unit_ms (allocated), measured_unit_ms and memory_measured_unit_ms (of it), millijoules, byte_ms.
-- Params:  start, end = [start, end); all_tenants = 1, or tenant = the only one.
SELECT
    tenant, project, queue, sku, preemptible, device_units,
    sum(held) AS held_unit_ms,
    sum(toInt128(measured)) AS measured_unit_ms,
    sum(toInt128(mj)) AS millijoules,
    sum(toInt128(memory_measured)) AS memory_measured_unit_ms,
    sum(toInt128(bytes)) AS byte_ms
FROM
(
    SELECT
        tenant, project, queue, sku, preemptible, device_units, hour, charge_period_start, allocation_id,
        toInt128(used_unit_ms + idle_unit_ms) + unmetered_unit_ms AS held,
        toInt64(0) AS measured, toInt64(0) AS mj, toInt64(0) AS memory_measured, toInt64(0) AS bytes
    FROM ledger
    UNION ALL
    SELECT
        tenant, project, queue, sku, preemptible, device_units, hour, charge_period_start, allocation_id,
        toInt128(0) AS held,
        measured_unit_ms AS measured, ifNull(energy_millijoules, 0) AS mj,
        memory_measured_unit_ms AS memory_measured, ifNull(memory_byte_ms, 0) AS bytes
    FROM energy
)
WHERE allocation_id != '' AND ({all_tenants:UInt8} OR tenant = {tenant:String})
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY tenant, project, queue, sku, preemptible, device_units
ORDER BY tenant, project, queue, sku, preemptible, device_units
