-- One row: an hour and the fingerprint of its entries, whatever run made them.
-- Traps:   what a mapping or a priority adds counts only where there is any, so that entries from before there were
--          such columns are not published again.
SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, sum(cityHash64(
    cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    partition_id, partition_profile, units, preemptible, estimated, charge_period_start, charge_period_end, sku,
    ifNull(toString(list_unit_price), ''), ifNull(toString(contracted_unit_price), ''), billing_currency,
    used_unit_ms, idle_unit_ms, unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms)
    + if(reported_tenant = tenant AND reported_project = project AND cost_center = '' AND NOT unmapped AND isNull(priority), 0,
        cityHash64(allocation_id, device_id, charge_period_start, reported_tenant, reported_project, cost_center, unmapped, ifNull(toString(priority), '')))) AS content
FROM {entries:Identifier}
GROUP BY hour
