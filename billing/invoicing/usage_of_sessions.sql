-- One row: what one session held in a period, of a tenant's usage that is alike in all that policies ask about.
-- Units:   micro_ms: millionths of a unit-millisecond on devices of {scale_units:UInt64} units.
-- Params:  start, end = [start, end); all_tenants = 1, or tenant = the only one; $$sessions = (session_cluster, session).
SELECT
    tenant,
    project,
    queue,
    sku,
    preemptible,
    list_unit_price,
    contracted_unit_price,
    cluster AS session_cluster,
    allocation_id AS session,
    sum(toInt128((used_unit_ms + idle_unit_ms + unmetered_unit_ms) * toDecimal128(1000000, 0)) * intDiv({scale_units:UInt64}, device_units)) AS micro_ms
FROM ledger
WHERE (cluster, allocation_id) IN (SELECT session_cluster, session FROM $sessions)
    AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session
ORDER BY tenant, project, queue, sku, preemptible, list_unit_price, contracted_unit_price, session_cluster, session
