-- One row: an hour and the fingerprint of its entries, whatever run made them.
SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, sum(cityHash64(
    cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    partition_id, partition_profile, units, preemptible, estimated, charge_period_start, charge_period_end, sku,
    ifNull(toString(list_unit_price), ''), ifNull(toString(contracted_unit_price), ''), billing_currency,
    used_unit_ms, idle_unit_ms, unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms)) AS content
FROM {entries:Identifier}
GROUP BY hour
