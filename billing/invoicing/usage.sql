-- One row: what a tenant's project held of one sku at one price in the closed hours of a period, on devices with one
-- number of units, alike in all that policies ask about. A price is NULL where it is unknown.
-- estimated: its end is, or its device was assumed; assumed: the latter.
-- Units:   *_micro_ms: millionths of a unit-millisecond; prices per GPU-hour.
-- Params:  start, end = [start, end); all_tenants = 1, or tenant = the only one.
SELECT
    tenant,
    project,
    queue,
    sku,
    preemptible,
    device_units,
    list_unit_price,
    contracted_unit_price,
    billing_currency,
    toInt128(sum(used_unit_ms) * 1000000) AS used_micro_ms,
    toInt128(sum(idle_unit_ms) * 1000000) AS idle_micro_ms,
    toInt128(sum(unmetered_unit_ms)) * 1000000 AS unmetered_micro_ms,
    toInt128(sumIf(used_unit_ms + idle_unit_ms + unmetered_unit_ms, estimated != '') * 1000000) AS estimated_micro_ms,
    toInt128(sumIf(used_unit_ms + idle_unit_ms + unmetered_unit_ms, startsWith(estimated, 'device unknown')) * 1000000) AS assumed_micro_ms,
    max(run) AS last_run
FROM ledger
WHERE allocation_id != ''
    AND ({all_tenants:UInt8} = 1 OR tenant = {tenant:String})
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY tenant, project, queue, sku, preemptible, device_units, list_unit_price, contracted_unit_price, billing_currency
ORDER BY tenant, project, sku, list_unit_price, contracted_unit_price, device_units, queue, preemptible
