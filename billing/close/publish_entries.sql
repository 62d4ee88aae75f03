-- Writes the entries of some hours (hours since the epoch) under a run; closed_hours makes them visible.
INSERT INTO ledger_entries
(
    run, hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    partition_id, partition_profile, units, preemptible, estimated, charge_period_start, charge_period_end, sku,
    list_unit_price, contracted_unit_price, billing_currency, used_unit_ms, idle_unit_ms, unmetered_unit_ms,
    unallocated_unit_ms, unavailable_unit_ms, cost_center, reported_tenant, reported_project, priority, unmapped
)
SELECT
    {run:UInt64} AS run, hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id,
    allocation_id, partition_id, partition_profile, units, preemptible, estimated, charge_period_start,
    charge_period_end, sku, list_unit_price, contracted_unit_price, billing_currency, used_unit_ms, idle_unit_ms,
    unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms,
    cost_center, reported_tenant, reported_project, priority, unmapped
FROM {entries:Identifier}
WHERE toUInt32(intDiv(toUnixTimestamp(hour), 3600)) IN {hours:Array(UInt32)}
