-- One row: an hour and the fingerprint of its entries that lie in some months, but for whether they are estimated.
-- Params:  starts_ms, ends_ms Array(Int64): the months.
SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, sum(cityHash64(
    cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    partition_id, partition_profile, units, preemptible, charge_period_start, charge_period_end, sku,
    ifNull(toString(list_unit_price), ''), ifNull(toString(contracted_unit_price), ''), billing_currency,
    used_unit_ms, idle_unit_ms, unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms,
    told_tenant, told_project, cost_center, unmapped, ifNull(toString(priority), ''))) AS content
FROM {entries:Identifier}
WHERE arrayExists(
    (start, end) -> toUnixTimestamp64Milli(charge_period_start) >= start AND toUnixTimestamp64Milli(charge_period_start) < end,
    {starts_ms:Array(Int64)}, {ends_ms:Array(Int64)})
GROUP BY hour
